//! Oplocks on the wire: levels, and the notice that one breaks.
//! MS-SMB2 2.2.23.1, 3.3.4.6.

use crate::conn::Shared;
use crate::session::Session;
use crate::transmit::{MESSAGE_START, PREFIX, Transmit, new_buffer};
use files::{CacheHolder, Caching};
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
    /// Number of the connection that the open was made on.
    connection: u64,
    /// Weak: the session holds the open, and the open's file holds this.
    session: Weak<Session>,
    file_id: FileId,
    seal: bool,
    told: Mutex<Told>,
}

/// A break must not overtake the reply that grants the oplock.
#[derive(Debug)]
enum Told {
    /// The reply is on its way, and the break to tell after it, if any.
    Granting(Option<Caching>),
    Granted,
}

impl Oplock {
    /// For an open that is being made on a connection; with `seal` its notices are sealed.
    #[must_use]
    pub fn new(
        shared: &Arc<Shared>,
        session: &Arc<Session>,
        file_id: FileId,
        seal: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            connection: shared.facts.id,
            session: Arc::downgrade(session),
            file_id,
            seal,
            told: Mutex::new(Told::Granting(None)),
        })
    }

    /// The reply that grants it has been queued.
    pub fn handle_granted(&self) {
        let told = std::mem::replace(
            &mut *self.told.lock().unwrap_or_else(PoisonError::into_inner),
            Told::Granted,
        );
        if let Told::Granting(Some(to)) = told {
            self.notify(to);
        }
    }

    fn notify(&self, to: Caching) {
        let Some(session) = self.session.upgrade() else { return };
        let mut out = new_buffer(Vec::new());
        let mut w = Writer::with_origin(&mut out, MESSAGE_START);
        notice_header().encode(&mut w);
        OplockBreak { level: level_of(to), file_id: self.file_id }.encode(&mut w);
        // Never signed: it belongs to no request. Sealed where all is.
        let sealing = session.sealing.as_ref().filter(|_| self.seal);
        let notice = match sealing {
            Some(keys) => {
                keys.seal.seal_in_place(&mut out[PREFIX..], session.id, keys.next_nonce());
                Transmit::sealed(out)
            }
            None => Transmit::plain(out, None),
        };
        session.notify(self.connection, notice);
    }
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
    fn handle_break(&self, to: Caching, _acknowledge: bool) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Told::Granting(kept_back) = &mut *told {
            *kept_back = Some(to);
            return;
        }
        drop(told);
        self.notify(to);
    }
}
