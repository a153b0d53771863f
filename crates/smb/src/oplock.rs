//! Oplocks on the wire: levels and break notifications. MS-SMB2 2.2.23.1, 3.3.4.6.

use crate::notices::{About, Answered, Notice};
use crate::server::Server;
use crate::session::Session;
use crate::transmit::{MESSAGE_START, PREFIX, Transmit, new_buffer};
use files::{CacheBreak, CacheHolder, Caching};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use wire::codec::Writer;
use wire::ntstatus::NtStatus;
use wire::smb::{Command, FileId, Flags, Header, MessageId, OplockBreak, SessionId, TreeId};

/// Levels of an oplock. MS-SMB2 2.2.13.
pub const LEVEL_NONE: u8 = 0;
/// Read caching.
pub const LEVEL_II: u8 = 1;
/// Read, write and lock caching.
pub const LEVEL_EXCLUSIVE: u8 = 8;
/// Exclusive, and handle caching.
pub const LEVEL_BATCH: u8 = 9;

/// The caching of an oplock level; none for an invalid level.
#[must_use]
pub fn caching_of(level: u8) -> Option<Caching> {
    Some(match level {
        LEVEL_NONE => Caching::NONE,
        LEVEL_II => Caching::LEVEL_II,
        LEVEL_EXCLUSIVE => Caching::EXCLUSIVE,
        LEVEL_BATCH => Caching::BATCH,
        _ => return None,
    })
}

/// The oplock level of a caching state.
#[must_use]
pub fn level_of(caching: Caching) -> u8 {
    match caching {
        Caching::BATCH => LEVEL_BATCH,
        Caching::EXCLUSIVE => LEVEL_EXCLUSIVE,
        c if c.contains(Caching::READ) => LEVEL_II,
        _ => LEVEL_NONE,
    }
}

/// Notifies the client of one open when its oplock breaks.
#[derive(Debug)]
pub struct Oplock {
    server: Weak<Server>,
    client: Mutex<Client>,
    told: Mutex<Told>,
    /// The client received a break that needs no acknowledgment, and has not acknowledged it.
    is_broken_unasked: AtomicBool,
}

/// The destination of an open's break notifications.
#[derive(Clone, Debug)]
pub struct Client {
    /// Number of the connection of its CREATE.
    pub connection: u64,
    /// Weak, because the session holds the open, and the open's file holds this.
    pub session: Weak<Session>,
    /// The FileId that the client knows.
    pub file_id: FileId,
    /// Encrypt notifications.
    pub seal: bool,
}

/// The grant of an oplock. A break must not overtake the response that grants it.
#[derive(Debug)]
enum Told {
    /// The response is in flight; with the break to send after it, if any, and whether that needs
    /// an acknowledgment.
    Granting(Option<(Caching, bool)>),
    Granted,
}

impl Oplock {
    /// An oplock for an open in creation.
    #[must_use]
    pub fn new(server: &Arc<Server>, client: Client) -> Arc<Self> {
        let told = Mutex::new(Told::Granting(None));
        let server = Arc::downgrade(server);
        let is_broken_unasked = AtomicBool::new(false);
        Arc::new(Self { server, client: Mutex::new(client), told, is_broken_unasked })
    }

    /// Handles a reconnect of the open, before the file layer repeats its break. True if the client
    /// was not notified of that break.
    pub fn handle_reattached(&self, client: Client) -> bool {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(std::mem::replace(&mut *told, Told::Granted), Told::Granting(Some(_)))
    }

    /// An oplock for an open that is restored after a restart.
    #[must_use]
    pub fn restored(server: &Arc<Server>, file_id: FileId, seal: bool) -> Arc<Self> {
        let client = Client { connection: 0, session: Weak::new(), file_id, seal };
        let oplock = Self::new(server, client);
        oplock.handle_granted();
        oplock
    }

    /// True for the first acknowledgment of a break that needs none.
    pub fn take_unasked_answer(&self) -> bool {
        self.is_broken_unasked.swap(false, Ordering::Relaxed)
    }

    fn handle_granted(&self) {
        let told = std::mem::replace(
            &mut *self.told.lock().unwrap_or_else(PoisonError::into_inner),
            Told::Granted,
        );
        if let Told::Granting(Some((to, acknowledge))) = told {
            self.notify(to, acknowledge);
        }
    }

    fn notify(&self, to: Caching, acknowledge: bool) {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(session) = client.session.upgrade().filter(|s| !s.has_ended()) else {
            // The client is disconnected and cannot acknowledge, so a detached open closes.
            let Some(server) = self.server.upgrade() else { return };
            let id = client.file_id.persistent;
            let gone = server.durable.remove_for_others(id);
            if gone.is_none() && server.durable.is_kept(id) {
                // A resilient or persistent open remains; its client is notified at the reconnect.
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                *told = Told::Granting(Some((to, acknowledge)));
            }
            return;
        };
        let body = OplockBreak { level: level_of(to), file_id: client.file_id };
        let connection = Some(client.connection);
        self.is_broken_unasked.store(!acknowledge, Ordering::Relaxed);
        let answered = if acknowledge { Answered::InTime } else { Answered::Never };
        send_notice(&session, connection, client.seal, answered, |w| body.encode(w));
    }
}

/// Sends a notification to the client of `session`. MS-SMB2 3.3.4.6, 3.3.4.7.
pub fn send_notice(
    session: &Session,
    connection: Option<u64>,
    seal: bool,
    answered: Answered,
    body: impl FnOnce(&mut Writer<'_>),
) {
    let mut out = new_buffer(Vec::new());
    let mut w = Writer::with_origin(&mut out, MESSAGE_START);
    notice_header().encode(&mut w);
    body(&mut w);
    let about = About::of_notice(&out);
    // A notification is never signed, because it belongs to no request. It is encrypted if the
    // session is.
    let sealing = session.sealing.as_ref().filter(|_| seal || session.encrypt_data);
    let transmit = match sealing {
        Some(keys) => {
            keys.seal.seal_in_place(&mut out[PREFIX..], session.id);
            Transmit::sealed(out)
        }
        None => Transmit::plain(out, None),
    };
    session.notify(connection, Notice { session: session.id, about, answered, transmit });
}

fn notice_header() -> Header {
    Header {
        credit_charge: 0,
        status: NtStatus::SUCCESS,
        command: Command::OPLOCK_BREAK,
        credits: 0,
        flags: Flags::RESPONSE,
        next_command: 0,
        message_id: MessageId(u64::MAX),
        process_id: 0,
        tree_id: TreeId(0),
        session_id: SessionId(0),
        signature: [0; 16],
    }
}

impl CacheHolder for Oplock {
    fn client(&self) -> Option<[u8; 16]> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.session.upgrade().map(|session| session.client_guid)
    }

    fn handle_break(&self, broken: &CacheBreak) {
        let id = self.client.lock().unwrap_or_else(PoisonError::into_inner).file_id.persistent;
        if let Some(server) = self.server.upgrade() {
            server.note_break_of_oplock(id);
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Told::Granting(kept_back) = &mut *told {
            *kept_back = Some((broken.to, broken.acknowledge));
            return;
        }
        drop(told);
        self.notify(broken.to, broken.acknowledge);
    }

    fn handle_grant_begun(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*told, Told::Granted) {
            *told = Told::Granting(None);
        }
    }

    fn handle_grant_ended(&self) {
        self.handle_granted();
    }
}
