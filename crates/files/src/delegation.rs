//! Delegations of a file to a client. RFC 8881 10.4.
//!
//! [`crate::CacheHolder`] receives their recalls as it does breaks of leases. A delegation outlives
//! the open that it came with, and conflicting changes wait for its return.
//!
//! All opens of a client use its delegation key for the file ([`crate::CacheWish`] without
//! caching), so that they do not recall its own delegation.

use crate::cache_holder::{CacheGrant, client_owner};
use crate::context::RequestContext;
use crate::open_file::OpenFileParts;
use crate::table::{BreakWait, OpenFileState, OpenRefusal, OpenedEntry, RegisteredOpen};
use crate::{Access, CacheState, CachingRights, OpenFile, RequestFiles, Semantics, ShareMode};
use grants::{BlockedOperation, CacheKey, CacheOwner, OpenId, OpenWish};
use std::sync::Arc;
use sync::Mutex;
use vfs::{AttributeRequest, FileKey, FsError, Result};

/// Type of a delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegationKind {
    /// Read delegation: the client opens for reading and caches data.
    Read,
    /// Write delegation: the client opens, caches writes and locks locally.
    Write,
}

impl DelegationKind {
    fn caching(self) -> CachingRights {
        match self {
            Self::Read => CachingRights::READ,
            Self::Write => CachingRights::READ | CachingRights::WRITE,
        }
    }

    /// Access that the delegation grants, and that the client's open must have.
    fn access(self) -> Access {
        match self {
            Self::Read => Access::READ_DATA,
            Self::Write => Access::READ_DATA | Access::WRITE_DATA,
        }
    }
}

/// A delegation. Dropping it returns it.
#[derive(Debug)]
pub struct Delegation {
    /// An open of its own that denies nothing. The client reads, and writes if it may, through it
    /// after it has closed all other opens.
    open: Arc<OpenFile>,
    delegate: DelegationKind,
    granting: Mutex<Option<CacheGrant>>,
}

impl Delegation {
    /// Type of the delegation.
    #[must_use]
    pub fn delegate(&self) -> DelegationKind {
        self.delegate
    }

    /// Delays recalls until dropped; drop it once the client has received the delegation.
    /// Returned once.
    #[must_use]
    pub fn granting(&self) -> Option<CacheGrant> {
        self.granting.lock().take()
    }

    /// An open that denies nothing, for reading and, with a write delegation, writing.
    #[must_use]
    pub fn open(&self) -> &Arc<OpenFile> {
        &self.open
    }

    /// Caching that remains: none once the delegation was revoked.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.open.cache_state()
    }

    /// Whether the delegation was revoked.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.state().has == CachingRights::NONE
    }
}

impl RequestFiles {
    /// Delegates the file of `open` to its client. None if other clients use the file, if the
    /// client has a delegation already, or if the open's access does not suffice.
    ///
    /// The holder of the key is notified of a recall as a break to no caching. Conflicting
    /// operations wait until the delegation is returned or dropped; the caller revokes it if the
    /// client does not answer.
    ///
    /// # Errors
    /// [`vfs::FsError::InvalidParameter`] for an open without a key, or of a directory;
    /// [`vfs::FsError::Stale`] if it is closed.
    pub fn grant_delegation(
        &self,
        open: &Arc<OpenFile>,
        delegate: DelegationKind,
    ) -> Result<Option<Delegation>> {
        let key = open.key.filter(|_| !open.is_directory() && open.name.stream.is_none());
        let key = key.ok_or(FsError::InvalidParameter)?;
        let is_unheard = open.volume().features().misses_remote_changes;
        if is_unheard || !open.granted().contains(delegate.access()) {
            return Ok(None);
        }
        let held = open.state.view();
        if !held.grants.is_open(open.id) {
            return Err(FsError::Stale);
        }
        if held.grants.caches.of(open.cache_owner()) != CachingRights::NONE {
            return Ok(None);
        }
        drop(held);
        let wanted = delegate.caching();
        let entered = match self.enter_delegation(open, key, wanted) {
            Err(OpenRefusal::Breaking(_) | OpenRefusal::Refused(FsError::DeletePending)) => {
                return Ok(None);
            }
            Err(OpenRefusal::Refused(error)) => return Err(error),
            Ok((id, entered)) => (id, entered),
        };
        let (id, RegisteredOpen { state, name, caching, granting, .. }) = entered;
        let hold = OpenFile::new(OpenFileParts {
            id,
            node: open.node.clone(),
            state,
            name,
            hold: None,
            caller: open.caller.clone(),
            key: Some(key),
            parent_key: None,
            granted: delegate.access() | Access::READ_ATTRIBUTES,
            share: ShareMode::ALL,
            delete_on_close: false,
            semantics: Semantics::Posix,
            of_object: true,
            table: self.table.clone(),
        });
        // Another client was faster: dropping the open withdraws the delegation.
        let is_granted = caching.has == wanted && !caching.is_breaking;
        let granting = Mutex::new(granting);
        Ok(is_granted.then(|| Delegation { open: Arc::new(hold), delegate, granting }))
    }

    fn enter_delegation(
        &self,
        open: &OpenFile,
        key: CacheKey,
        wanted: CachingRights,
    ) -> std::result::Result<(OpenId, RegisteredOpen), OpenRefusal> {
        let attributes = open.node.attributes(AttributeRequest::default())?;
        let entry = OpenedEntry {
            size_bytes: attributes.size_bytes,
            key: open.state.key,
            is_directory: false,
            volume: open.volume(),
            path: &open.path(),
            only_link: attributes.links <= 1,
        };
        let id = self.new_open_id();
        let wish = OpenWish {
            caching: wanted,
            key: Some(key),
            posix: true,
            is_delegation: true,
            ..OpenWish::new(id, Access::NONE, ShareMode::ALL)
        };
        Ok((id, self.table.delegate(&self.context, &entry, wish)?))
    }

    /// Returns a delegation, which wakes waiting operations.
    ///
    /// # Errors
    /// [`FsError::InvalidParameter`] if it was revoked already.
    pub async fn return_delegation(&self, delegation: Delegation) -> Result<()> {
        let result = if delegation.is_revoked() { Err(FsError::InvalidParameter) } else { Ok(()) };
        self.close(delegation.open.clone()).await?;
        result
    }

    /// Recalls delegations of a file whose attributes or names are about to change, except that of
    /// the requesting client or of `by`.
    ///
    /// # Errors
    /// [`FsError::Unavailable`] if the request prefers a retry by its client.
    pub(crate) async fn recall(&self, file: FileKey, by: Option<&OpenFile>) -> Result<()> {
        while let Some(wait) = self.begin_recall(file, by) {
            wait.settled(&self.context, &*self.workers).await?;
        }
        Ok(())
    }

    fn begin_recall(&self, file: FileKey, by: Option<&OpenFile>) -> Option<BreakWait> {
        let state = self.table.find(file).filter(|state| state.has_caches())?;
        let own =
            by.map_or_else(|| client_owner(self.context.client(), file), OpenFile::cache_owner);
        begin_recall_except(&self.context, &state, own)
    }
}

/// Recalls all delegations but that of `by`. Returns the wait if one is outstanding.
pub(crate) fn begin_recall_except(
    context: &RequestContext,
    state: &Arc<OpenFileState>,
    by: CacheOwner,
) -> Option<BreakWait> {
    if !state.has_caches() {
        return None;
    }
    let mut held = state.lock(context);
    if !held.grants.caches.handle_recall(by) {
        return None;
    }
    let number = held.grants.caches.latest_break();
    Some(held.wait_for(state.clone(), number, BlockedOperation::Recall(by)))
}

impl Drop for Delegation {
    fn drop(&mut self) {
        // The client's other opens stay, without caching.
        let mut held = self.open.state.lock(&RequestContext::SERVER);
        held.grants.caches.handle_return(self.open.cache_owner());
    }
}
