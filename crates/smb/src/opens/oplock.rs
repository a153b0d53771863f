//! Oplocks on the wire: levels and break notifications. MS-SMB2 2.2.23.1, 3.3.4.6.

use crate::opens::break_router::{BreakRecipient, BreakRouter};
use crate::outgoing::notices::AckRequirement;
use files::{CacheBreak, CacheHolder, CachingRights};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use sync::Mutex;
use wire::smb::{FileId, OplockBreak};

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
pub fn caching_of(level: u8) -> Option<CachingRights> {
    Some(match level {
        LEVEL_NONE => CachingRights::NONE,
        LEVEL_II => CachingRights::LEVEL_II,
        LEVEL_EXCLUSIVE => CachingRights::EXCLUSIVE,
        LEVEL_BATCH => CachingRights::BATCH,
        _ => return None,
    })
}

/// The oplock level of a caching state.
#[must_use]
pub fn level_of(caching: CachingRights) -> u8 {
    match caching {
        CachingRights::BATCH => LEVEL_BATCH,
        CachingRights::EXCLUSIVE => LEVEL_EXCLUSIVE,
        c if c.contains(CachingRights::READ) => LEVEL_II,
        _ => LEVEL_NONE,
    }
}

/// Notifies the client of one open when its oplock breaks.
#[derive(Debug)]
pub struct Oplock {
    router: Weak<dyn BreakRouter>,
    client: Mutex<OplockClient>,
    grant: Mutex<OplockGrant>,
    /// The client received a break that needs no acknowledgment, and has not acknowledged it.
    has_unacked_notice: AtomicBool,
}

/// The destination of an open's break notifications.
#[derive(Clone, Debug)]
pub struct OplockClient {
    /// Number of the connection of its CREATE.
    pub connection: u64,
    /// Weak, because the session holds the open, and the open's file holds this. None after a
    /// restart, until the reconnect.
    pub session: Option<Weak<dyn BreakRecipient>>,
    /// The FileId that the client knows.
    pub file_id: FileId,
    /// Encrypt notifications.
    pub seal: bool,
}

impl OplockClient {
    fn session(&self) -> Option<Arc<dyn BreakRecipient>> {
        self.session.as_ref().and_then(Weak::upgrade)
    }
}

/// The grant of an oplock. A break must not overtake the response that grants it.
#[derive(Debug)]
enum OplockGrant {
    /// The response is in flight; with the break to send after it, if any, and whether that needs
    /// an acknowledgment.
    InFlight(Option<(CachingRights, bool)>),
    Sent,
}

impl Oplock {
    /// An oplock for an open in creation.
    #[must_use]
    pub fn new(router: Weak<dyn BreakRouter>, client: OplockClient) -> Arc<Self> {
        let grant = Mutex::new(OplockGrant::InFlight(None));
        let has_unacked_notice = AtomicBool::new(false);
        Arc::new(Self { router, client: Mutex::new(client), grant, has_unacked_notice })
    }

    /// Handles a reconnect of the open, before the file layer repeats its break. True if the client
    /// was not notified of that break.
    pub fn handle_reattached(&self, client: OplockClient) -> bool {
        *self.client.lock() = client;
        let mut grant = self.grant.lock();
        matches!(std::mem::replace(&mut *grant, OplockGrant::Sent), OplockGrant::InFlight(Some(_)))
    }

    /// An oplock for an open that is restored after a restart.
    #[must_use]
    pub fn restored(router: Weak<dyn BreakRouter>, file_id: FileId, seal: bool) -> Arc<Self> {
        let client = OplockClient { connection: 0, session: None, file_id, seal };
        let oplock = Self::new(router, client);
        oplock.handle_granted();
        oplock
    }

    /// True for the first acknowledgment of a break that needs none.
    pub fn take_superfluous_ack(&self) -> bool {
        self.has_unacked_notice.swap(false, Ordering::Relaxed)
    }

    fn handle_granted(&self) {
        let grant = std::mem::replace(&mut *self.grant.lock(), OplockGrant::Sent);
        if let OplockGrant::InFlight(Some((to, acknowledge))) = grant {
            self.notify(to, acknowledge);
        }
    }

    fn notify(&self, to: CachingRights, acknowledge: bool) {
        let client = self.client.lock().clone();
        let Some(session) = client.session().filter(|s| !s.has_ended()) else {
            // The client is disconnected and cannot acknowledge, so a detached open closes.
            let Some(router) = self.router.upgrade() else { return };
            let id = client.file_id.persistent;
            let gone = router.remove_conflicting(id);
            if gone.is_none() && router.is_detached(id) {
                // A resilient or persistent open remains; its client is notified at the reconnect.
                let mut grant = self.grant.lock();
                *grant = OplockGrant::InFlight(Some((to, acknowledge)));
            }
            return;
        };
        let body = OplockBreak { level: level_of(to), file_id: client.file_id };
        let connection = Some(client.connection);
        self.has_unacked_notice.store(!acknowledge, Ordering::Relaxed);
        let ack =
            if acknowledge { AckRequirement::AfterFlush } else { AckRequirement::NotRequired };
        session.send_break(connection, client.seal, ack, &|w| body.encode(w));
    }
}

impl CacheHolder for Oplock {
    fn client(&self) -> Option<[u8; 16]> {
        let client = self.client.lock();
        client.session().map(|session| session.client_guid())
    }

    fn handle_break(&self, broken: &CacheBreak) {
        let id = self.client.lock().file_id.persistent;
        if let Some(router) = self.router.upgrade() {
            router.record_oplock_break(id);
        }
        let mut grant = self.grant.lock();
        if let OplockGrant::InFlight(deferred) = &mut *grant {
            *deferred = Some((broken.to, broken.acknowledge));
            return;
        }
        drop(grant);
        self.notify(broken.to, broken.acknowledge);
    }

    fn handle_grant_begun(&self) {
        let mut grant = self.grant.lock();
        if matches!(*grant, OplockGrant::Sent) {
            *grant = OplockGrant::InFlight(None);
        }
    }

    fn handle_grant_ended(&self) {
        self.handle_granted();
    }
}
