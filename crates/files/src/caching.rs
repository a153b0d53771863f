//! Oplocks: what clients keep to themselves, and how they are asked for it.
//! The rules are in [`grants::Caches`]; here are the telling and the waiting.

use crate::table::FileState;
use crate::{Files, OpenFile, Workers};
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use grants::{BreakNumber, Caching};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use vfs::{FsError, Result};

/// How long a client may take to give back what it keeps. MS-SMB2 3.3.2.1 says
/// 35 seconds, and clients count on no less.
pub const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(35);

/// A client that keeps something of a file to itself. Called from any thread,
/// with no lock of the file layer held.
pub trait CacheHolder: Send + Sync + Debug {
    /// The open may keep `to` from now on. With `acknowledge` the rest is still
    /// its own, and others wait, until [`Files::acknowledge`].
    fn handle_break(&self, to: Caching, acknowledge: bool);
}

/// What a client would like to keep, and whom to ask for it.
#[derive(Clone, Debug)]
pub struct CacheWish {
    /// How much.
    pub wanted: Caching,
    /// Whom to tell.
    pub holder: Arc<dyn CacheHolder>,
}

impl Files {
    /// The holder gives back all but `keeps`.
    ///
    /// # Errors
    /// [`FsError::InvalidParameter`] if it was not asked, or keeps more than it
    /// may: then it has nothing any more.
    pub fn acknowledge(&self, open: &OpenFile, keeps: Caching) -> Result<()> {
        let mut held = open.state.lock();
        held.grants.caches.handle_acknowledge(open.id, keeps).map_err(|_| FsError::InvalidParameter)
    }
}

impl OpenFile {
    /// What its client may keep to itself now.
    #[must_use]
    pub fn caching(&self) -> Caching {
        if self.state.has_caches() {
            self.state.lock().grants.caches.of(self.id)
        } else {
            Caching::NONE
        }
    }

    /// Whether its client was asked to give something back and has not yet.
    #[must_use]
    pub fn is_breaking(&self) -> bool {
        self.state.has_caches() && self.state.lock().grants.caches.is_breaking(self.id)
    }

    /// The data is about to change, or to be locked: what others have read is
    /// not to be relied on. One load where nobody keeps anything.
    pub(crate) fn break_readers(&self) {
        if self.state.has_caches() {
            self.state.lock().grants.caches.handle_change(self.id);
        }
    }
}

/// Somebody else has to give something back first.
#[derive(Debug)]
pub(crate) struct BreakWait {
    pub state: Arc<FileState>,
    pub number: BreakNumber,
    pub settled: oneshot::Receiver<()>,
}

impl BreakWait {
    /// Waits until it is worth another try. Who does not answer in time loses
    /// what it has.
    pub async fn settled(self, workers: &dyn Workers) {
        match select(self.settled, workers.sleep(ACKNOWLEDGED_WITHIN)).await {
            Either::Left(_) => {}
            Either::Right(_) => self.state.lock().grants.caches.handle_timeout(self.number),
        }
    }
}
