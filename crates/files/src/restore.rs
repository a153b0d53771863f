//! Persistent and durable opens: their recorded facts, and their restoration after a restart before
//! other opens.

use crate::cache_holder::{CacheHolder, CacheKeyWish, CacheWish};
use crate::context::RequestContext;
use crate::open_file::{OpenFile, OpenFileParts};
use crate::open_name::OpenName;
use crate::server_work::{LOCATE, WANTED};
use crate::table::{DeletePendingName, OpenFileState, OpenRefusal, OpenedEntry, RegisteredOpen};
use crate::{
    Absence, Access, Caller, OpenId, RequestFiles, Semantics, ShareMode, StoppedTimes, Volume,
};
use grants::{CacheKey, CacheState, CachingRights, OpenWish, RangeLock};
use limits::{LedgerAccount, LedgerHolder};
use std::sync::Arc;
use vfs::{
    AttributeRequest, Case, FileKind, FsError, Node, NodeHandle, OpenHow, OpenedNode, RelPath,
    Result, Timestamp, Wait,
};

/// Identity of a file across a restart. It excludes the device number, which may change when the
/// machine restarts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Inode number.
    pub inode: u64,
    /// Creation time, if the file system has one: the inode number may be reused.
    pub born: Option<Timestamp>,
    /// See [`vfs::PersistentHandles::persistent_id`].
    pub lasting: Option<NodeHandle>,
}

impl FileIdentity {
    /// Identity of a file of `volume`.
    fn of(volume: &Volume, node: &dyn Node, inode: u64, born: Option<Timestamp>) -> Self {
        Self {
            inode,
            born,
            lasting: volume.vfs.handles().and_then(|handles| handles.persistent_id(node)),
        }
    }

    /// Whether both identify one file, as far as both are known.
    fn is_same(&self, other: &Self) -> bool {
        let is_lasting = match (&self.lasting, &other.lasting) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        is_lasting && self.inode == other.inode && self.born == other.born
    }
}

/// Recorded facts that restore an open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFacts {
    /// Identity of the file.
    pub identity: FileIdentity,
    /// Path of the file.
    pub path: RelPath,
    /// Alternative paths, from renames in flight. At most [`crate::FURTHER_PATHS_MAX`].
    pub further_paths: Vec<RelPath>,
    /// Granted rights.
    pub granted: Access,
    /// Share mode.
    pub share: ShareMode,
    /// Protocol family whose rules apply.
    pub semantics: Semantics,
    /// Whether the open has delete on close.
    pub delete_on_close: bool,
    /// Whether its name is delete pending.
    pub delete_pending: bool,
    /// Caching of the client.
    pub caching: CachingRights,
    /// See [`CacheState::epoch`].
    pub epoch: u16,
    /// Lease key, if the client has a lease.
    pub cache_key: Option<CacheKey>,
    /// Lease key of the parent directory.
    pub parent_key: Option<[u8; 16]>,
    /// Byte-range locks.
    pub locks: Vec<RangeLock>,
    /// Times that the open set or stopped.
    pub stopped_times: StoppedTimes,
}

impl OpenFile {
    /// Identity of the file, which was created at `born`.
    #[must_use]
    pub fn identity(&self, born: Option<Timestamp>) -> FileIdentity {
        FileIdentity::of(self.volume(), &**self.present(), self.key().inode, born)
    }

    /// Facts to record; none for a stream, which cannot be restored.
    #[must_use]
    pub fn facts(&self, identity: &FileIdentity) -> Option<OpenFacts> {
        if self.name.stream.is_some() {
            return None;
        }
        // Names in flight are read first, so that a concurrent end of a rename is seen in one of
        // both reads.
        let mut further_paths = self.table.names_in_flight.of(&self.name);
        let path = self.path();
        further_paths.retain(|further| *further != path);
        let held = self.state.view();
        let cached = held.grants.caches.durable_state(self.cache_owner());
        Some(OpenFacts {
            identity: identity.clone(),
            path,
            further_paths,
            granted: self.granted(),
            share: self.share(),
            semantics: self.semantics(),
            delete_on_close: self.deletes_on_close(),
            delete_pending: held.grants.is_delete_pending(self.name.link),
            caching: cached.has,
            epoch: cached.epoch,
            cache_key: self.key,
            parent_key: self.parent_key,
            locks: held.grants.locks.of(self.id).collect(),
            stopped_times: self.stopped_times(),
        })
    }
}

impl RequestFiles {
    /// Restores an open regardless of the caller's present rights: at the first of its paths that
    /// leads to the file, or by handle. [`RequestFiles::restore_caching`] restores its caching.
    /// `holder` receives breaks if its key has no holder yet. Byte-range locks are charged to
    /// `user`.
    ///
    /// # Errors
    /// [`FsError::Stale`] if other files are there now; errors of the open;
    /// [`FsError::ShareViolation`] and [`FsError::LockNotGranted`] if another restored open
    /// conflicts.
    pub fn restore(
        &self,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        facts: &OpenFacts,
        holder: &Arc<dyn CacheHolder>,
        user: &LedgerHolder,
    ) -> Result<Arc<OpenFile>> {
        let opened = reopen_file(volume, caller, facts)?;
        let attributes = &opened.attributes;
        let is_directory = attributes.kind == FileKind::Directory;
        let entry = OpenedEntry {
            key: attributes.key,
            is_directory,
            size_bytes: attributes.size_bytes,
            volume,
            path: &opened.path,
            only_link: is_directory || attributes.links <= 1,
        };
        let id = self.new_open_id();
        let wish = OpenWish {
            only_link: entry.only_link,
            delete_on_close: facts.delete_on_close,
            posix: facts.semantics == Semantics::Posix,
            ..OpenWish::new(id, facts.granted, facts.share)
        };
        let cache = facts.cache_key.map(|key| {
            let parent = facts.parent_key;
            let key = CacheKeyWish { key, epoch: facts.epoch, parent, of_directories: true };
            CacheWish { wanted: CachingRights::NONE, key: Some(key), holder: holder.clone() }
        });
        let RegisteredOpen { state, name, key, .. } = self
            .table
            .open(&self.context, &entry, wish, cache.as_ref())
            .map_err(|refusal| match refusal {
                OpenRefusal::Refused(error) => error,
                OpenRefusal::Breaking(_) => FsError::ShareViolation,
            })?;
        let account = self.lock_ranges.account(user);
        let parts = (&*state, &name, id);
        if let Err(error) = restore_locks(&self.context, parts, caller, facts, &account) {
            // The open never existed, so its end deletes nothing.
            drop(self.table.close(&self.context, &state, id, false));
            return Err(error);
        }
        let open = OpenFile::new(OpenFileParts {
            id,
            node: opened.node,
            state,
            name,
            hold: None,
            caller: caller.clone(),
            granted: facts.granted,
            share: facts.share,
            delete_on_close: facts.delete_on_close,
            semantics: facts.semantics,
            of_object: false,
            key,
            parent_key: facts.parent_key,
            table: self.table.clone(),
        });
        open.note_recorded();
        open.restore_stopped(facts.stopped_times, self.opens().account(user));
        Ok(Arc::new(open))
    }

    /// Restores the caching of a restored open, as far as the others permit; call it after all are
    /// restored. `holder` receives breaks if there is none yet.
    pub fn restore_caching(
        &self,
        open: &OpenFile,
        facts: &OpenFacts,
        holder: Arc<dyn CacheHolder>,
    ) {
        let had = CacheState { has: facts.caching, is_breaking: false, epoch: facts.epoch };
        let mut held = open.state.lock(&self.context);
        held.grants.restore_caching(open.id, had);
        let owner = open.cache_owner();
        if held.grants.caches.of(owner) != CachingRights::NONE {
            held.register_holder(owner, &holder);
        }
    }

    /// Marks the client of an open as absent, or as back: see [`grants::FileGrants::set_absence`].
    pub fn set_absence(&self, open: &OpenFile, absence: Option<Absence>) {
        open.state.lock(&self.context).grants.set_absence(open.id, absence);
    }
}

/// Opens the file of `facts`. Its paths may lead to other files by now; the error is that of the
/// first.
fn reopen_file(volume: &Volume, caller: &Caller, facts: &OpenFacts) -> Result<OpenedNode> {
    let actor = caller.identity.actor();
    let open_at = |path: &RelPath| {
        let opened = volume.vfs.open(actor, path, reopen_how(volume, facts))?;
        let attributes = &opened.attributes;
        let inode = attributes.key.inode;
        let found = FileIdentity::of(volume, &*opened.node, inode, attributes.born);
        if found.is_same(&facts.identity) { Ok(opened) } else { Err(FsError::Stale) }
    };
    let first = match open_at(&facts.path) {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    if let Some(opened) = facts.further_paths.iter().find_map(|path| open_at(path).ok()) {
        return Ok(opened);
    }
    // A local process or another share has renamed it. The kernel may know its path.
    let handle = facts.identity.lasting.as_ref().ok_or(first)?;
    let handles = volume.vfs.handles().ok_or(first)?;
    let located = handles.find(LOCATE, handle, AttributeRequest::default()).map_err(|_| first)?;
    if located.path.is_nameless() {
        return Err(first);
    }
    open_at(&located.path).map_err(|_| first)
}

/// Access with which the file is opened.
fn reopen_how(volume: &Volume, facts: &OpenFacts) -> OpenHow {
    let reads = Access::READ_DATA | Access::EXECUTE | Access::APPEND_DATA;
    let writes = Access::WRITE_DATA | Access::APPEND_DATA;
    OpenHow {
        read: facts.granted.intersects(reads),
        write: facts.granted.intersects(writes) && !volume.options.read_only,
        case: Case::Sensitive,
        wanted: WANTED,
        no_follow: true,
        wait: Wait::Allowed,
    }
}

/// Restores byte-range locks and delete pending.
fn restore_locks(
    context: &RequestContext,
    (state, name, id): (&OpenFileState, &Arc<OpenName>, OpenId),
    caller: &Arc<Caller>,
    facts: &OpenFacts,
    account: &Arc<LedgerAccount>,
) -> Result<()> {
    let mut held = state.lock(context);
    let locked = held.grants.locks.handle_locks(id, &facts.locks);
    locked.map_err(|_| FsError::LockNotGranted)?;
    held.force_range_charge(id, account);
    if facts.delete_pending {
        held.grants.handle_disposition(id, true);
        held.set_delete_pending(DeletePendingName {
            name: name.clone(),
            caller: caller.clone(),
            parent_key: None,
        });
    }
    Ok(())
}
