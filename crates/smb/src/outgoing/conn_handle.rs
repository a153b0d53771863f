//! The part of a connection that its jobs and sessions share.

use crate::outgoing::notices::Notices;
use crate::outgoing::pending::PendingRequests;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;

/// Identity and addresses of one connection.
#[derive(Clone, Copy, Debug)]
pub struct SmbConnFacts {
    /// Number of the connection, unique in this process.
    pub id: u64,
    /// Client's address.
    pub peer: SocketAddr,
    /// The server's address.
    pub local: SocketAddr,
}

/// The part of a connection that its jobs and sessions share.
#[derive(Debug)]
pub struct ConnHandle {
    /// Identity and addresses of the connection.
    pub facts: SmbConnFacts,
    /// Requests with a pending response.
    pub pending: PendingRequests,
    /// Notifications that wait to be sent: breaks and session closures.
    pub notices: Notices,
    /// Credits that its client holds, for `status`.
    pub credits: AtomicU32,
    /// Requests that the limits of their share delay.
    pub throttled: AtomicU32,
}

impl ConnHandle {
    /// The handle of a connection that was just accepted.
    pub(crate) fn new(facts: SmbConnFacts) -> Self {
        Self {
            facts,
            pending: PendingRequests::default(),
            notices: Notices::default(),
            credits: AtomicU32::new(1),
            throttled: AtomicU32::new(0),
        }
    }
}
