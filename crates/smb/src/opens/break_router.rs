//! The interface between the caching of opens and the layers above: a break finds its session and
//! its detached opens through it. MS-SMB2 3.3.4.6, 3.3.4.7.

use crate::opens::create_guids::Guid;
use crate::outgoing::notices::AckRequirement;
use files::CacheKey;
use std::sync::Arc;
use wire::codec::Writer;

/// An open that was removed from the detached opens; dropping it closes it.
pub type RemovedOpen = Arc<dyn Send + Sync>;

/// A session whose client can be notified of a break.
pub trait BreakRecipient: Send + Sync {
    /// ClientGuid of the session.
    fn client_guid(&self) -> Guid;

    /// True once the session has ended.
    fn has_ended(&self) -> bool;

    /// Sends a break notification with the given body on `connection`, or on another channel if
    /// that one is gone or none is preferred. Encrypted if `seal` or the session says so.
    fn send_break(
        &self,
        connection: Option<u64>,
        seal: bool,
        ack: AckRequirement,
        body: &dyn Fn(&mut Writer<'_>),
    );
}

/// The server, as oplocks and leases see it.
pub trait BreakRouter: Send + Sync {
    /// The session that delivers a client's lease breaks, preferably one of `user`.
    fn lease_session(&self, client: Guid, user: &str) -> Option<Arc<dyn BreakRecipient>>;

    /// Removes a detached open that does not survive a conflicting open.
    fn remove_conflicting(&self, id: u64) -> Option<RemovedOpen>;

    /// True if the open is detached.
    fn is_detached(&self, id: u64) -> bool;

    /// Records the break of a lease, in the background: after a restart the client has only the
    /// lower caching, notified or not.
    fn record_lease_break(&self, key: CacheKey);

    /// Records the break of an open's oplock.
    fn record_oplock_break(&self, id: u64);
}
