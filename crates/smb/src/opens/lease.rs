//! Leases on the wire: the client's request, the server's response and break notifications. MS-SMB2
//! 3.3.1.11, 3.3.1.12, 3.3.4.7, 3.3.5.9.8, 3.3.5.9.11.
//!
//! The file layer knows the caching rights of a lease. This module knows the client to notify and
//! the version of the notification.

use crate::opens::break_router::BreakRouter;
use crate::opens::create_guids::Guid;
use crate::outgoing::notices::AckRequirement;
use files::{
    CacheBreak, CacheHolder, CacheKey, CacheKeyWish, CacheState, CacheWish, CachingRights,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use sync::Mutex;
use wire::smb::{
    LEASE_BREAK_IN_PROGRESS, LEASE_PARENT_KEY_SET, LeaseBreak, LeaseContext as LeaseRequest,
    LeaseV2,
};

/// OplockLevel of a CREATE that requests or grants a lease. MS-SMB2 2.2.13.
pub const LEVEL_LEASE: u8 = 0xFF;

/// One client's lease under one key.
#[derive(Debug)]
pub struct Lease {
    router: Weak<dyn BreakRouter>,
    key: CacheKey,
    /// The user whose CREATE established it.
    user: Box<str>,
    /// The client requested version 2: notifications carry an epoch.
    pub is_v2: bool,
    /// Notifications are encrypted if the session has keys.
    seal: bool,
    /// The lease is on a directory, for which a client has nothing to write back.
    of_directory: AtomicBool,
    notices: Mutex<LeaseNotices>,
}

/// Notifications of a lease. A break must not overtake the response that grants the broken caching.
#[derive(Debug, Default)]
struct LeaseNotices {
    /// Granting responses in flight.
    grants_in_flight: usize,
    /// Breaks to send after them: at most the few steps of one lease.
    deferred: Vec<CacheBreak>,
    /// Detached opens under the lease, by FileId.Persistent.
    detached: Vec<u64>,
    others: Option<Box<OtherUsers>>,
}

/// Further users with opens under the lease; few leases have any.
#[derive(Debug, Default)]
struct OtherUsers(Vec<String>);

impl Lease {
    /// A lease for the first open under a key.
    #[must_use]
    pub fn new(
        router: Weak<dyn BreakRouter>,
        requested: &LeaseRequest,
        (client, user): (Guid, String),
        seal: bool,
    ) -> Arc<Self> {
        let key = CacheKey { client, key: requested.key };
        Self::restored(router, key, user, requested.v2.is_some(), seal)
    }

    /// A lease for opens that are restored after a restart.
    #[must_use]
    pub fn restored(
        router: Weak<dyn BreakRouter>,
        key: CacheKey,
        user: String,
        is_v2: bool,
        seal: bool,
    ) -> Arc<Self> {
        let of_directory = AtomicBool::new(false);
        let (user, notices) = (user.into(), Mutex::default());
        Arc::new(Self { router, key, user, is_v2, seal, of_directory, notices })
    }

    /// The caching that the file layer is asked to grant; of a directory only if `of_directories`.
    #[must_use]
    pub fn wish(self: &Arc<Self>, requested: &LeaseRequest, of_directories: bool) -> CacheWish {
        let parent = requested.v2.filter(|_| requested.flags & LEASE_PARENT_KEY_SET != 0);
        let key = CacheKeyWish {
            key: self.key,
            epoch: requested.v2.map_or(0, |v2| v2.epoch),
            parent: parent.map(|v2| v2.parent_key),
            of_directories: of_directories && requested.v2.is_some(),
        };
        // Undefined bits request nothing.
        let wanted = CachingRights((requested.state & u32::from(CachingRights::BATCH.0)) as u8);
        CacheWish { wanted, key: Some(key), holder: self.clone() }
    }

    /// Records a user with an open under the lease.
    pub fn add_user(&self, user: &str) {
        if &*self.user == user {
            return;
        }
        let mut state = self.notices.lock();
        let OtherUsers(others) = &mut **state.others.get_or_insert_default();
        if !others.iter().any(|other| other == user) {
            others.push(user.to_owned());
        }
    }

    /// True if the user has an open under the lease. A client with several users may acknowledge on
    /// any of their sessions; its GUID alone proves nothing.
    pub fn is_of(&self, user: &str) -> bool {
        let is_other = |others: &OtherUsers| others.0.iter().any(|other| other == user);
        &*self.user == user || self.notices.lock().others.as_deref().is_some_and(is_other)
    }

    /// The lease was granted on a directory.
    pub fn set_directory(&self) {
        self.of_directory.store(true, Ordering::Relaxed);
    }

    /// The lease context of a CREATE response. MS-SMB2 3.3.5.9.8, 3.3.5.9.11.
    #[must_use]
    pub fn reply(&self, requested: &LeaseRequest, state: CacheState) -> LeaseRequest {
        let mut reply =
            LeaseRequest { key: self.key.key, state: state.has.0.into(), ..Default::default() };
        if state.is_breaking {
            reply.flags |= LEASE_BREAK_IN_PROGRESS;
        }
        if self.is_v2 {
            let mut v2 = LeaseV2 { parent_key: [0; 16], epoch: state.epoch };
            if let Some(parent) =
                requested.v2.filter(|_| requested.flags & LEASE_PARENT_KEY_SET != 0)
            {
                reply.flags |= LEASE_PARENT_KEY_SET;
                v2.parent_key = parent.parent_key;
            }
            reply.v2 = Some(v2);
        }
        reply
    }

    /// ClientGuid and LeaseKey.
    #[must_use]
    pub fn key(&self) -> CacheKey {
        self.key
    }

    /// Records a detached open under the lease.
    pub fn handle_detached(&self, id: u64) {
        self.notices.lock().detached.push(id);
    }

    /// Removes a reconnected open, before the file layer repeats its break. True if the client was
    /// not notified of that break.
    pub fn handle_reattached(&self, id: u64) -> bool {
        let mut state = self.notices.lock();
        state.detached.retain(|detached| *detached != id);
        !std::mem::take(&mut state.deferred).is_empty()
    }

    fn notify(&self, broken: &CacheBreak) {
        let Some(router) = self.router.upgrade() else { return };
        let session = router.lease_session(self.key.client, &self.user);
        if session.is_none() || !broken.to.contains(CachingRights::HANDLE) {
            self.close_conflicting_detached(&*router);
        }
        let Some(session) = session else {
            let mut state = self.notices.lock();
            if !state.detached.is_empty() {
                // The notification waits for the reconnect.
                state.deferred.push(*broken);
            }
            return;
        };
        let body = LeaseBreak {
            key: self.key.key,
            current: u32::from(broken.from.0),
            new: u32::from(broken.to.0),
            epoch: if self.is_v2 { broken.epoch } else { 0 },
            acknowledge: broken.acknowledge,
        };
        let ack = match (broken.acknowledge, self.of_directory.load(Ordering::Relaxed)) {
            (false, _) => AckRequirement::NotRequired,
            (true, false) => AckRequirement::AfterFlush,
            (true, true) => AckRequirement::Immediate,
        };
        session.send_break(None, self.seal, ack, &|w| body.encode(w));
    }

    /// Closes detached opens that conflict with the break, because their client cannot acknowledge
    /// it. Resilient and persistent opens remain.
    fn close_conflicting_detached(&self, router: &dyn BreakRouter) {
        let detached = std::mem::take(&mut self.notices.lock().detached);
        let (mut gone, mut staying) = (Vec::new(), Vec::new());
        for id in detached {
            match router.remove_conflicting(id) {
                Some(open) => gone.push(open),
                None if router.is_detached(id) => staying.push(id),
                None => {}
            }
        }
        self.notices.lock().detached.append(&mut staying);
        drop(gone);
    }
}

impl CacheHolder for Lease {
    fn client(&self) -> Option<[u8; 16]> {
        Some(self.key.client)
    }

    fn handle_break(&self, broken: &CacheBreak) {
        // A persistent record of the break reaches the client after a restart.
        if let Some(router) = self.router.upgrade() {
            router.record_lease_break(self.key);
        }
        let mut state = self.notices.lock();
        if state.grants_in_flight > 0 || !state.deferred.is_empty() {
            state.deferred.push(*broken);
            return;
        }
        drop(state);
        self.notify(broken);
    }

    fn handle_grant_begun(&self) {
        self.notices.lock().grants_in_flight += 1;
    }

    fn handle_grant_ended(&self) {
        let mut state = self.notices.lock();
        state.grants_in_flight -= 1;
        if state.grants_in_flight > 0 {
            return;
        }
        let deferred = std::mem::take(&mut state.deferred);
        drop(state);
        // Detached opens remain detached.
        deferred.iter().for_each(|broken| self.notify(broken));
    }
}
