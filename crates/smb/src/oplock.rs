//! Oplocks on the wire: levels, and the notice that one breaks.
//! MS-SMB2 2.2.23.1, 3.3.4.6.

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
/// Reads may be kept.
pub const LEVEL_II: u8 = 1;
/// Reads, writes and locks may be kept.
pub const LEVEL_EXCLUSIVE: u8 = 8;
/// And the open itself.
pub const LEVEL_BATCH: u8 = 9;

/// What a level lets a client keep; nothing for one that is none.
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

/// The level that says the same.
#[must_use]
pub fn level_of(caching: Caching) -> u8 {
    match caching {
        Caching::BATCH => LEVEL_BATCH,
        Caching::EXCLUSIVE => LEVEL_EXCLUSIVE,
        c if c.contains(Caching::READ) => LEVEL_II,
        _ => LEVEL_NONE,
    }
}

/// Tells the client of one open that its oplock breaks.
#[derive(Debug)]
pub struct Oplock {
    server: Weak<Server>,
    client: Mutex<Client>,
    told: Mutex<Told>,
    /// The client was told of a break that asks for no answer, and has not answered it.
    is_broken_unasked: AtomicBool,
}

/// Where the client of an open is told.
#[derive(Clone, Debug)]
pub struct Client {
    /// Number of the connection that the open was made on.
    pub connection: u64,
    /// Weak: the session holds the open, and the open's file holds this.
    pub session: Weak<Session>,
    /// The open's id as the client knows it.
    pub file_id: FileId,
    /// Notices are sealed.
    pub seal: bool,
}

/// A break must not overtake the reply that grants the oplock.
#[derive(Debug)]
enum Told {
    /// The reply is on its way, and the break to tell after it, if any, and
    /// whether that is to be acknowledged.
    Granting(Option<(Caching, bool)>),
    Granted,
}

impl Oplock {
    /// For an open that is being made for `client`.
    #[must_use]
    pub fn new(server: &Arc<Server>, client: Client) -> Arc<Self> {
        let told = Mutex::new(Told::Granting(None));
        let server = Arc::downgrade(server);
        let is_broken_unasked = AtomicBool::new(false);
        Arc::new(Self { server, client: Mutex::new(client), told, is_broken_unasked })
    }

    /// The client has come back for its open, and is about to be asked again for what it
    /// is to give back. True if it was never told of that.
    pub fn handle_reattached(&self, client: Client) -> bool {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(std::mem::replace(&mut *told, Told::Granted), Told::Granting(Some(_)))
    }

    /// For an open that is made again after a restart.
    #[must_use]
    pub fn restored(server: &Arc<Server>, file_id: FileId, seal: bool) -> Arc<Self> {
        let client = Client { connection: 0, session: Weak::new(), file_id, seal };
        let oplock = Self::new(server, client);
        oplock.handle_granted();
        oplock
    }

    /// Whether an answer is the first one to a break that asks for none.
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
            // Nobody is there to be asked: the open ends, if it is kept at all.
            let Some(server) = self.server.upgrade() else { return };
            let id = client.file_id.persistent;
            let gone = server.durable.remove_for_others(id);
            if gone.is_none() && server.durable.is_kept(id) {
                // Whatever others need: it is told when it is back.
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

/// Tells the client of `session` something unasked. MS-SMB2 3.3.4.6, 3.3.4.7.
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
    // Never signed: it belongs to no request. Sealed where all is.
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
