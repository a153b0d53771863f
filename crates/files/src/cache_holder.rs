//! Holders of oplocks, leases and delegations, as the protocols implement them, and what they ask
//! for. It imports nothing of this crate.

use grants::{CacheBreak, CacheKey, CacheOwner, CachingRights, OpenId, OpenWish};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use vfs::FileKey;

/// Lease key under which a client caches a directory.
pub(crate) type ParentKey = [u8; 16];

/// Key of a client's opens of a file, which identifies the client's own operations.
#[must_use]
pub fn delegation_key(client: [u8; 16], file: FileKey) -> CacheKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&file.device.to_le_bytes());
    key[8..].copy_from_slice(&file.inode.to_le_bytes());
    CacheKey { client, key }
}

/// A requesting client as the owner of a delegation of the file.
pub(crate) fn client_owner(client: Option<[u8; 16]>, file: FileKey) -> CacheOwner {
    match client {
        Some(client) => CacheOwner::Key(delegation_key(client, file)),
        None => CacheOwner::Open(OpenId(0)),
    }
}

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
