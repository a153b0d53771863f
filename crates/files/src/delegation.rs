//! A file that a client may use for itself without asking: delegations. They are kept as
//! leases are ([`crate::CacheHolder`]), but outlive the opens that they came with, and
//! nobody changes the file before they are given back. RFC 8881 10.4.
//!
//! All opens of a client come under the client's key for the file
//! ([`crate::CacheWish`] with nothing wanted): they do not disturb its delegation.

use crate::caching::{BreakWait, CacheGrant};
use crate::context::RequestContext;
use crate::open_file::OpenParts;
use crate::table::{Entered, Entry, FileState, NotEntered};
use crate::{Access, CacheState, Caching, OpenFile, RequestFiles, Semantics, Share};
use grants::{Awaited, CacheKey, CacheOwner, OpenId, OpenWish};
use std::sync::{Arc, Mutex, PoisonError};
use vfs::{FileKey, FsError, Result, Wanted};

/// The key under which a client's opens of a file come, so that what the client does
/// itself is known as its own.
#[must_use]
pub fn delegation_key(client: [u8; 16], file: FileKey) -> CacheKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&file.device.to_le_bytes());
    key[8..].copy_from_slice(&file.inode.to_le_bytes());
    CacheKey { client, key }
}

/// What a client may do by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delegate {
    /// Open for reading, and keep what it has read.
    Read,
    /// Open, keep back what it writes, and lock.
    Write,
}

impl Delegate {
    fn caching(self) -> Caching {
        match self {
            Self::Read => Caching::READ,
            Self::Write => Caching::READ | Caching::WRITE,
        }
    }

    /// What its client may do with the file, and must have been let do when it opened it.
    fn access(self) -> Access {
        match self {
            Self::Read => Access::READ_DATA,
            Self::Write => Access::READ_DATA | Access::WRITE_DATA,
        }
    }
}

/// A delegation. Dropping it gives it back.
#[derive(Debug)]
pub struct Delegation {
    /// An open of its own, which keeps nobody from anything: its client reads by it, and
    /// writes if it may, once it has closed all others.
    open: Arc<OpenFile>,
    delegate: Delegate,
    granting: Mutex<Option<CacheGrant>>,
}

impl Delegation {
    /// What its client may do.
    #[must_use]
    pub fn delegate(&self) -> Delegate {
        self.delegate
    }

    /// To be dropped once the client has been told of the delegation: then, and not
    /// before, its holder is told to give it back. Given out once.
    #[must_use]
    pub fn granting(&self) -> Option<CacheGrant> {
        self.granting.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// An open that is in nobody's way, to read by and, if its client may, to write.
    #[must_use]
    pub fn open(&self) -> &Arc<OpenFile> {
        &self.open
    }

    /// What is left of it: nothing once it was taken from a client that did not give it
    /// back in time.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.open.cache_state()
    }

    /// Whether it was taken away.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.state().has == Caching::NONE
    }
}

impl RequestFiles {
    /// Gives the client of `open`, which came under the client's key, the file to
    /// itself; none if others use it, if the client has a delegation of it already, or if
    /// the open is for less. The holder of the key is told when it is to be given back:
    /// of a break to nothing. Until then, or until the delegation is dropped, whoever it is
    /// in the way of waits: taking it from a client that does not answer is up to the caller.
    ///
    /// # Errors
    /// [`vfs::FsError::InvalidParameter`] for an open without a key, or of a directory;
    /// [`vfs::FsError::Stale`] if it is closed.
    pub fn delegate(&self, open: &Arc<OpenFile>, delegate: Delegate) -> Result<Option<Delegation>> {
        let key = open.key.filter(|_| !open.is_directory() && open.name.stream.is_none());
        let key = key.ok_or(FsError::InvalidParameter)?;
        let is_unheard = open.volume().features().changed_unheard;
        if is_unheard || !open.granted().contains(delegate.access()) {
            return Ok(None);
        }
        let held = open.state.look();
        if !held.grants.is_open(open.id) {
            return Err(FsError::Stale);
        }
        if held.grants.caches.of(open.cache_owner()) != Caching::NONE {
            return Ok(None);
        }
        drop(held);
        let wanted = delegate.caching();
        let entered = match self.enter_delegation(open, key, wanted) {
            Err(NotEntered::Breaking(_) | NotEntered::Refused(FsError::DeletePending)) => {
                return Ok(None);
            }
            Err(NotEntered::Refused(error)) => return Err(error),
            Ok((id, entered)) => (id, entered),
        };
        let (id, Entered { state, name, caching, granting, .. }) = entered;
        let hold = OpenFile::new(OpenParts {
            id,
            node: open.node.clone(),
            state,
            name,
            hold: None,
            caller: open.caller.clone(),
            key: Some(key),
            parent_key: None,
            granted: delegate.access() | Access::READ_ATTRIBUTES,
            share: Share::ALL,
            delete_on_close: false,
            semantics: Semantics::Posix,
            of_object: true,
            table: self.table.clone(),
        });
        // Given up by being dropped, if somebody was faster.
        let is_had = caching.has == wanted && !caching.is_breaking;
        let granting = Mutex::new(granting);
        Ok(is_had.then(|| Delegation { open: Arc::new(hold), delegate, granting }))
    }

    fn enter_delegation(
        &self,
        open: &OpenFile,
        key: CacheKey,
        wanted: Caching,
    ) -> std::result::Result<(OpenId, Entered), NotEntered> {
        let attributes = open.node.attributes(Wanted::default())?;
        let entry = Entry {
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
            firm: true,
            ..OpenWish::new(id, Access::NONE, Share::ALL)
        };
        Ok((id, self.table.delegate(&self.context, &entry, wish)?))
    }

    /// The client gives a delegation back: who waits for it goes on.
    ///
    /// # Errors
    /// [`FsError::InvalidParameter`] if it was taken away already.
    pub async fn return_delegation(&self, delegation: Delegation) -> Result<()> {
        let result = if delegation.is_revoked() { Err(FsError::InvalidParameter) } else { Ok(()) };
        self.close(delegation.open.clone()).await?;
        result
    }

    /// Asks delegations of a file back whose attributes or names are about to change;
    /// but for that of the client that is asking, or that has `by`.
    ///
    /// # Errors
    /// [`FsError::Unavailable`] if the request would rather be asked again than wait.
    pub(crate) async fn recall(&self, file: FileKey, by: Option<&OpenFile>) -> Result<()> {
        while let Some(wait) = self.begin_recall(file, by) {
            wait.settled(&self.context, &*self.workers).await?;
        }
        Ok(())
    }

    fn begin_recall(&self, file: FileKey, by: Option<&OpenFile>) -> Option<BreakWait> {
        let state = self.table.find(file).filter(|state| state.has_caches())?;
        let own = by.map_or_else(|| client_owner(&self.context, file), OpenFile::cache_owner);
        ask_back(&self.context, &state, own)
    }
}

/// The client of a request, as the owner of a delegation of the file.
pub(crate) fn client_owner(context: &RequestContext, file: FileKey) -> CacheOwner {
    match context.client() {
        Some(client) => CacheOwner::Key(delegation_key(client, file)),
        None => CacheOwner::Open(OpenId(0)),
    }
}

/// Asks all delegations but that of `by` back; what to wait for, if anybody must.
pub(crate) fn ask_back(
    context: &RequestContext,
    state: &Arc<FileState>,
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
    Some(held.wait_for(state.clone(), number, Awaited::Recall(by)))
}

impl Drop for Delegation {
    fn drop(&mut self) {
        // Its client's other opens stay, and keep nothing by it any more.
        let mut held = self.open.state.lock(&RequestContext::SERVER);
        held.grants.caches.handle_return(self.open.cache_owner());
    }
}
