//! Oplocks, leases and delegations. [`grants::Caches`] decides; this module sends breaks, waits for
//! acknowledgements and maps lease keys to files.

mod external;
mod keys;

use crate::cache_holder::{CacheGrant, CacheHolder};
use crate::context::RequestContext;
use crate::table::BreakWait;
use crate::{OpenFile, RequestFiles, Workers};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use grants::{AcknowledgeRefusal, CacheKey, CacheOwner, CacheState, CachingRights};
pub(crate) use keys::{KeyClaim, KeyIndex};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use vfs::{FsError, Result};

pub use keys::KEYS_PER_CLIENT_MAX;

/// Time within which a client must acknowledge a break. MS-SMB2 3.3.2.1 specifies 35 seconds, and
/// clients rely on no less.
pub const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(35);

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
