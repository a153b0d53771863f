//! Services that the protocol layer needs from the process. None of them waits.

use files::Caller;
use futures_util::future::BoxFuture;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use vfs::{Identity, Timestamp};

/// Clock reading.
#[derive(Clone, Copy, Debug)]
pub struct TimeReading {
    /// Monotonic time, for leases.
    pub instant: Instant,
    /// Wall-clock time, for clients.
    pub wall: Timestamp,
}

/// The process around the protocol layer. Any thread may call it.
pub trait NfsHost: Send + Sync {
    /// Fills `out` from the system's secure random source.
    fn random(&self, out: &mut [u8]);

    /// Current time.
    fn now(&self) -> TimeReading;

    /// Current monotonic time.
    fn instant(&self) -> Instant {
        self.now().instant
    }

    /// The file layer's caller for a user's identity.
    fn caller(&self, identity: Identity) -> Arc<Caller>;

    /// Client records of the previous run. Read once.
    fn remembered_clients(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Stores the record of a client, or removes it (`is_here` false). Records are compared by all
    /// bytes. The future yields true once the change survives a power loss.
    fn remember_client(&self, record: &[u8], is_here: bool) -> BoxFuture<'static, bool> {
        let _ = (record, is_here);
        Box::pin(std::future::ready(true))
    }

    /// Runs work in the background.
    fn carry_on(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>);
}
