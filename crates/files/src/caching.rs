//! Oplocks and leases: what clients keep to themselves, and how they are asked
//! for it. The rules are in [`grants::Caches`]; here are the telling, the
//! waiting, and which key names which file.

mod keys;
mod outside;

use crate::context::RequestContext;
use crate::delegation::delegation_key;
use crate::table::FileState;
use crate::{OpenFile, RequestFiles, Workers};
use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use grants::{
    AcknowledgeRefusal, BreakNumber, CacheBreak, CacheKey, CacheOwner, CacheState, Caching,
    OpenWish,
};
pub(crate) use keys::{Claim, KeyIndex};
pub(crate) use outside::Heed;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use vfs::{FileKey, FsError, Result};

pub use keys::KEYS_PER_CLIENT_MAX;

/// How long a client may take to give back what it keeps. MS-SMB2 3.3.2.1 says
/// 35 seconds, and clients count on no less.
pub const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(35);

/// A client that keeps something of a file to itself. Called from any thread.
pub trait CacheHolder: Any + Send + Sync + Debug {
    /// It has less from now on; or is to have, once it acknowledges: until then
    /// others wait. Called with no lock of the file layer held.
    fn handle_break(&self, told: &CacheBreak);

    /// Whose client it is, by whatever its protocol tells clients apart: what that does
    /// itself it is told of after the answer. See [`crate::PendingAnswer`].
    fn client(&self) -> Option<[u8; 16]> {
        None
    }

    /// Something was granted that the client does not know of yet: what it is
    /// told of breaks must not be faster. Called with the file locked, so that
    /// it may do no more than note it.
    fn handle_grant_begun(&self) {}

    /// The client knows, or never will.
    fn handle_grant_ended(&self) {}
}

/// A key that a client shares between opens of one file.
#[derive(Clone, Copy, Debug)]
pub struct CacheKeyWish {
    /// The key.
    pub key: CacheKey,
    /// Where the client lets changes be counted from, if the key is new.
    pub epoch: u16,
    /// The key under which it keeps the directory that the file is in.
    pub parent: Option<[u8; 16]>,
    /// Directories can be kept, too.
    pub of_directories: bool,
}

/// What a client would like to keep, and whom to ask for it.
#[derive(Clone, Debug)]
pub struct CacheWish {
    /// How much.
    pub wanted: Caching,
    /// Under which key; none for an oplock.
    pub key: Option<CacheKeyWish>,
    /// Whom to tell. For a key that has one already that one stays.
    pub holder: Arc<dyn CacheHolder>,
}

impl CacheWish {
    /// Wants nothing, under the key of the holder's client for the file: what is opened
    /// so may be delegated. None for a holder without a client.
    pub(crate) fn of_delegations(holder: Arc<dyn CacheHolder>, file: FileKey) -> Option<Self> {
        let key = delegation_key(holder.client()?, file);
        let key = CacheKeyWish { key, epoch: 0, parent: None, of_directories: false };
        Some(Self { wanted: Caching::NONE, key: Some(key), holder })
    }

    /// Writes down in `wish` what is wanted.
    pub(crate) fn enter(&self, wish: &mut OpenWish) {
        wish.caching = self.wanted;
        if let Some(key) = &self.key {
            wish.key = Some(key.key);
            wish.epoch = key.epoch;
        }
    }
}

/// Keeps breaks back until the client has been told what it was granted.
#[derive(Debug)]
pub struct CacheGrant(Arc<dyn CacheHolder>);

impl CacheGrant {
    pub(crate) fn new(holder: Arc<dyn CacheHolder>) -> Self {
        holder.handle_grant_begun();
        Self(holder)
    }

    /// Who is told of breaks: of the first open under a key, for all others.
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
    /// The client of an oplock gives back all but `keeps`.
    ///
    /// # Errors
    /// See [`AcknowledgeRefusal`].
    pub fn acknowledge(
        &self,
        open: &OpenFile,
        keeps: Caching,
    ) -> std::result::Result<(), AcknowledgeRefusal> {
        let owner = CacheOwner::Open(open.id);
        let mut held = open.state.lock(&self.context);
        held.grants.caches.handle_acknowledge(owner, keeps)
    }

    /// The holder that is told of breaks of what a client keeps under a key.
    #[must_use]
    pub fn key_holder<T: CacheHolder>(&self, key: CacheKey) -> Option<Arc<T>> {
        let state = self.table.keys.find(key)?;
        let holder = state.look().holder(CacheOwner::Key(key)).cloned()?;
        let holder: Arc<dyn Any + Send + Sync> = holder;
        holder.downcast().ok()
    }

    /// A client gives back all but `keeps` of what it has under a key.
    ///
    /// # Errors
    /// None inside if nothing is kept under the key; else see [`AcknowledgeRefusal`].
    pub fn acknowledge_key(
        &self,
        key: CacheKey,
        keeps: Caching,
    ) -> std::result::Result<(), Option<AcknowledgeRefusal>> {
        let state = self.table.keys.find(key).ok_or(None)?;
        let mut held = state.lock(&self.context);
        held.grants.caches.handle_acknowledge(CacheOwner::Key(key), keeps).map_err(Some)
    }
}

impl OpenFile {
    /// What its client may keep to itself now, with other opens under its key
    /// if it has one.
    #[must_use]
    pub fn cache_state(&self) -> CacheState {
        if self.key.is_some() || self.state.has_caches() {
            self.state.look().grants.caches.state(self.cache_owner())
        } else {
            CacheState::default()
        }
    }

    /// What its client may keep to itself now.
    #[must_use]
    pub fn caching(&self) -> Caching {
        self.cache_state().has
    }

    /// Whether its client was asked to give something back and has not yet.
    #[must_use]
    pub fn is_breaking(&self) -> bool {
        self.cache_state().is_breaking
    }

    /// Its client is told again what it has.
    #[must_use]
    pub fn grant_again(&self) -> (CacheState, Option<CacheGrant>) {
        let held = self.state.look();
        let owner = self.cache_owner();
        (held.grants.caches.state(owner), held.holder(owner).cloned().map(CacheGrant::new))
    }

    /// Its client, which was away, is asked again for what it has not given back.
    pub fn ask_again(&self, context: &RequestContext) {
        if self.is_breaking() {
            self.state.lock(context).grants.caches.handle_returned(self.cache_owner());
        }
    }

    /// The key that it was opened under, if its client caches by keys.
    #[must_use]
    pub fn cache_key(&self) -> Option<CacheKey> {
        self.key
    }

    pub(crate) fn cache_owner(&self) -> CacheOwner {
        self.key.map_or(CacheOwner::Open(self.id), CacheOwner::Key)
    }

    /// The data is about to change, or to be locked: what others have read is
    /// not to be relied on. One load where nobody keeps anything.
    pub(crate) fn break_readers(&self, context: &RequestContext) {
        if self.state.has_caches() {
            self.state.lock(context).grants.caches.handle_change(self.cache_owner());
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
    ///
    /// # Errors
    /// [`FsError::Unavailable`] if the request would rather be asked again.
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
