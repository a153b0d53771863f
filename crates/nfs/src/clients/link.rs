//! The part of a connection that its sessions use: addresses, and calls to the client.
//!
//! Sessions refer to it and not to the connection, which knows its sessions.

use crate::clients::calls::CallbackCalls;
use crate::limits::RESERVED_PORTS_END;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Addresses of a connection.
#[derive(Clone, Copy, Debug)]
pub struct NfsConnFacts {
    /// Number of the connection, unique in this process.
    pub id: u64,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Address of the server.
    pub local: SocketAddr,
}

impl NfsConnFacts {
    /// Whether the source port is reserved, so that only root of the client's machine can have
    /// bound it.
    #[must_use]
    pub fn has_reserved_port(&self) -> bool {
        self.peer.port() < RESERVED_PORTS_END
    }
}

/// See the module.
#[derive(Debug)]
pub struct ConnLink {
    /// Addresses of the connection.
    pub facts: NfsConnFacts,
    /// Calls to the client.
    pub calls: CallbackCalls,
    /// The connection is under TLS.
    is_under_tls: AtomicBool,
}

impl ConnLink {
    /// A link in clear text.
    #[must_use]
    pub fn new(facts: NfsConnFacts) -> Self {
        Self { facts, calls: CallbackCalls::default(), is_under_tls: AtomicBool::new(false) }
    }

    /// Whether the connection is under TLS.
    #[must_use]
    pub fn is_under_tls(&self) -> bool {
        self.is_under_tls.load(Ordering::Acquire)
    }

    /// Notes that TLS starts.
    pub(crate) fn set_under_tls(&self) {
        self.is_under_tls.store(true, Ordering::Release);
    }
}

/// One connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionFact {
    /// Addresses of the connection.
    pub facts: NfsConnFacts,
    /// The connection is under TLS.
    pub is_under_tls: bool,
}
