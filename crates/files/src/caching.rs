//! Oplocks, leases and delegations. [`grants::Caches`] decides; this module sends breaks, waits for
//! acknowledgements and maps lease keys to files.

mod external;
mod keys;

use crate::context::RequestContext;
use crate::delegation::delegation_key;
use crate::table::OpenFileState;
use crate::{OpenFile, RequestFiles, Workers};
pub(crate) use external::ExternalChangeWatch;
use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use grants::{
    AcknowledgeRefusal, BreakNumber, CacheBreak, CacheKey, CacheOwner, CacheState, CachingRights,
    OpenWish,
};
pub(crate) use keys::{KeyClaim, KeyIndex};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use vfs::{FileKey, FsError, Result};

pub use keys::KEYS_PER_CLIENT_MAX;

/// Time within which a client must acknowledge a break. MS-SMB2 3.3.2.1 specifies 35 seconds, and
/// clients rely on no less.
pub const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(35);

/// A client with an oplock, lease or delegation. Called from any thread.
pub trait CacheHolder: Any + Send + Sync + Debug {
    /// The caching shrinks: at once, or when the client acknowledges, until which others wait.
    /// Called with no lock of the file layer held.
    fn handle_break(&self, cache_break: &CacheBreak);

    /// Identity of the client within its protocol. Breaks that the client causes itself are sent
    /// after the response. See [`crate::PendingAnswer`].
    fn client(&self) -> Option<[u8; 16]> {
        None
    }

    /// A grant begins that the client does not know of yet: breaks must not overtake the response.
    /// Called with the file locked, so that it may only take a note.
    fn handle_grant_begun(&self) {}

    /// The client has received the grant, or never will.
    fn handle_grant_ended(&self) {}
}

/// A lease key, which a client shares between its opens of one file.
#[derive(Clone, Copy, Debug)]
pub struct CacheKeyWish {
    /// The key.
    pub key: CacheKey,
    /// Initial epoch, if the lease is new. MS-SMB2 3.3.5.9.11.
    pub epoch: u16,
    /// Lease key of the parent directory.
    pub parent: Option<[u8; 16]>,
    /// Whether the client can hold directory leases.
    pub of_directories: bool,
}

/// Caching that a client requests, and the holder to notify of breaks.
#[derive(Clone, Debug)]
pub struct CacheWish {
    /// Requested caching.
    pub wanted: CachingRights,
    /// Lease key; none for an oplock.
    pub key: Option<CacheKeyWish>,
    /// Holder to notify of breaks. A key that has a holder already retains that one.
    pub holder: Arc<dyn CacheHolder>,
}

impl CacheWish {
    /// Requests no caching, under the delegation key of the holder's client. A file opened so may
    /// be delegated. None for a holder without a client.
    pub(crate) fn of_delegations(holder: Arc<dyn CacheHolder>, file: FileKey) -> Option<Self> {
        let key = delegation_key(holder.client()?, file);
        let key = CacheKeyWish { key, epoch: 0, parent: None, of_directories: false };
        Some(Self { wanted: CachingRights::NONE, key: Some(key), holder })
    }

    /// Copies the requested caching and key into `wish`.
    pub(crate) fn enter(&self, wish: &mut OpenWish) {
        wish.caching = self.wanted;
        if let Some(key) = &self.key {
            wish.key = Some(key.key);
            wish.epoch = key.epoch;
        }
    }
}

/// Defers breaks until the client has received the response that grants the caching.
#[derive(Debug)]
pub struct CacheGrant(Arc<dyn CacheHolder>);

impl CacheGrant {
    pub(crate) fn new(holder: Arc<dyn CacheHolder>) -> Self {
        holder.handle_grant_begun();
        Self(holder)
    }

    /// The holder that receives breaks: that of the first open under the key.
    #[must_use]
    pub fn holder<T: CacheHolder>(&self) -> Option<Arc<T>> {
        let holder: Arc<dyn Any + Send + Sync> = self.0.clone();
        holder.downcast().ok()
    }
}

impl Drop for CacheGrant {
    fn drop(&mut self) {
        self.0.handle_grant_ended();
    }
}

impl RequestFiles {
    /// Handles the acknowledgement of an oplock break to `retained`.
    ///
    /// # Errors
    /// See [`AcknowledgeRefusal`].
    pub fn acknowledge(
        &self,
        open: &OpenFile,
        retained: CachingRights,
    ) -> std::result::Result<(), AcknowledgeRefusal> {
        let owner = CacheOwner::Open(open.id);
        let mut held = open.state.lock(&self.context);
        held.grants.caches.handle_acknowledge(owner, retained)
    }

    /// The holder that receives breaks of a lease key.
    #[must_use]
    pub fn key_holder<T: CacheHolder>(&self, key: CacheKey) -> Option<Arc<T>> {
        let state = self.table.keys.find(key)?;
        let holder = state.view().holder(CacheOwner::Key(key)).cloned()?;
        let holder: Arc<dyn Any + Send + Sync> = holder;
        holder.downcast().ok()
    }

    /// Handles the acknowledgement of a lease break to `retained`.
    ///
    /// # Errors
    /// `Err(None)` if the key has no lease; otherwise see [`AcknowledgeRefusal`].
    pub fn acknowledge_key(
        &self,
        key: CacheKey,
        retained: CachingRights,
    ) -> std::result::Result<(), Option<AcknowledgeRefusal>> {
        let state = self.table.keys.find(key).ok_or(None)?;
        let mut held = state.lock(&self.context);
        held.grants.caches.handle_acknowledge(CacheOwner::Key(key), retained).map_err(Some)
    }
}

impl OpenFile {
    /// Caching that the client has now, shared by all opens under its key.
    #[must_use]
    pub fn cache_state(&self) -> CacheState {
        if self.key.is_some() || self.state.has_caches() {
            self.state.view().grants.caches.state(self.cache_owner())
        } else {
            CacheState::default()
        }
    }

    /// Caching that the client has now.
    #[must_use]
    pub fn caching(&self) -> CachingRights {
        self.cache_state().has
    }

    /// Whether a break is outstanding, without an acknowledgement.
    #[must_use]
    pub fn is_breaking(&self) -> bool {
        self.cache_state().is_breaking
    }

    /// Repeats the grant in a response to the client.
    #[must_use]
    pub fn repeat_grant(&self) -> (CacheState, Option<CacheGrant>) {
        let held = self.state.view();
        let owner = self.cache_owner();
        (held.grants.caches.state(owner), held.holder(owner).cloned().map(CacheGrant::new))
    }

    /// Repeats an outstanding break for a client that has reconnected.
    pub fn repeat_break(&self, context: &RequestContext) {
        if self.is_breaking() {
            self.state.lock(context).grants.caches.handle_reconnect(self.cache_owner());
        }
    }

    /// Lease or delegation key of the open, if any.
    #[must_use]
    pub fn cache_key(&self) -> Option<CacheKey> {
        self.key
    }

    pub(crate) fn cache_owner(&self) -> CacheOwner {
        self.key.map_or(CacheOwner::Open(self.id), CacheOwner::Key)
    }

    /// Breaks read caching of other clients before the data changes or is locked. It costs one load
    /// if no client caches the file.
    pub(crate) fn break_readers(&self, context: &RequestContext) {
        if self.state.has_caches() {
            self.state.lock(context).grants.caches.handle_change(self.cache_owner());
        }
    }
}

/// A wait for another client's acknowledgement.
#[derive(Debug)]
pub(crate) struct BreakWait {
    pub state: Arc<OpenFileState>,
    pub number: BreakNumber,
    pub settled: oneshot::Receiver<()>,
}

impl BreakWait {
    /// Waits until a retry is worthwhile. A client that does not acknowledge in time loses its
    /// caching.
    ///
    /// # Errors
    /// [`FsError::Unavailable`] if the request prefers a retry by its client.
    pub async fn settled(self, context: &RequestContext, workers: &dyn Workers) -> Result<()> {
        context.begin_wait();
        let Self { state, number, settled } = self;
        let time_out = workers.sleep(ACKNOWLEDGED_WITHIN);
        let wait = async move {
            match select(settled, time_out).await {
                Either::Left(_) => {}
                Either::Right(_) => {
                    state.lock(&RequestContext::SERVER).grants.caches.handle_timeout(number)
                }
            }
        };
        let Some(patience) = context.patience() else {
            wait.await;
            return Ok(());
        };
        match select(wait.boxed(), workers.sleep(patience.limit)).await {
            Either::Left(_) => Ok(()),
            Either::Right((_, rest)) => {
                (patience.carry_on)(rest);
                Err(FsError::Unavailable)
            }
        }
    }
}
