//! What the protocol layer asks of the process around it. Nothing here waits.

use files::Caller;
use futures_util::future::BoxFuture;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use vfs::{Identity, Timestamp};

/// The time, read by the server and handed down.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For leases.
    pub instant: Instant,
    /// For what clients are told.
    pub wall: Timestamp,
}

/// The process around the protocol layer. Calls may come from any thread.
pub trait Host: Send + Sync {
    /// Fills `out` from the system's secure source.
    fn random(&self, out: &mut [u8]);

    /// The present time.
    fn now(&self) -> Now;

    /// The present time, where only that is asked.
    fn instant(&self) -> Instant {
        self.now().instant
    }

    /// On whose behalf files are touched for a client's user.
    fn caller(&self, identity: Identity) -> Arc<Caller>;

    /// The records of clients that were remembered when the last run ended. Asked for once.
    fn remembered_clients(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Writes down the record of a client that has something here, or takes it away once it has
    /// not any more. Records are told apart by all of their bytes. True once it survives power
    /// loss.
    fn remember_client(&self, record: &[u8], is_here: bool) -> BoxFuture<'static, bool> {
        let _ = (record, is_here);
        Box::pin(std::future::ready(true))
    }

    /// Carries on with work that nobody awaits any more.
    fn carry_on(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>);
}
