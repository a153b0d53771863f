//! Creation of names in any case: no two threads create case variants of one name.

use crate::case_lookup::{CaseLookup, DirectoryLookup};
use crate::tree::CachedVfs;
use sync::MutexGuard;
use vfs::freshness;
use vfs::{
    Actor, ArrivalOrder, Case, ChildName, CreateHow, FileKey, FsError, NameActor, OpenedNode,
    RelPath, Result, Wait, fold_case,
};

impl CachedVfs {
    /// Creates a name. Unless `case` is sensitive, it must exist in no case variant, and creations of
    /// its variants wait meanwhile.
    pub(crate) fn create_any_case(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        if !self.is_active() {
            return self.create_by_backend(actor, path, case, how);
        }
        if case == Case::Sensitive {
            return self.create_tracked(actor, path, how);
        }
        let Some((parent, name)) = path.split() else {
            return self.create_by_backend(actor, path, case, how);
        };
        let Some((key, parent)) = self.directory_for(actor, &parent)? else {
            return self.create_by_backend(actor, path, case, how);
        };
        let _creation = self.lock_creation(key, name.as_bytes());
        // Case variants that were created during the wait for the lock count.
        match self.find_stored_name(ArrivalOrder::next(), (key, &parent), &name, Wait::Allowed)? {
            CaseLookup::Stored(_) => Err(FsError::AlreadyExists),
            CaseLookup::Missing(_) | CaseLookup::Absent(_) => {
                let path = parent.join(&name);
                // Tracking costs more than a lookup here, unless lookups are slow.
                if self.inner.features().always_waits {
                    self.create_tracked(actor, &path, how)
                } else {
                    self.create_exact(actor, &path, how)
                }
            }
            CaseLookup::Unknown => self.create_by_backend(actor, path, case, how),
        }
    }

    /// As [`CachedVfs::create_any_case`], in an open directory.
    pub(crate) fn create_child(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let _change = freshness::begin_change();
        if case == Case::Sensitive || !self.is_active() {
            return self.inner.create_in(actor, child, case, how);
        }
        let (above, name) = child.path.split().ok_or(FsError::AccessDenied)?;
        let key = child.directory.key();
        let _creation = self.lock_creation(key, name.as_bytes());
        // Names are cached by the directory's key, wherever it is now.
        match self.find_stored_name(ArrivalOrder::next(), (key, &above), &name, Wait::Allowed)? {
            CaseLookup::Stored(_) => Err(FsError::AlreadyExists),
            CaseLookup::Missing(_) | CaseLookup::Absent(_) => {
                self.inner.create_in(actor, child, Case::Sensitive, how)
            }
            CaseLookup::Unknown => self.inner.create_in(actor, child, case, how),
        }
    }

    /// Creates a node by the backend.
    fn create_by_backend(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let _change = freshness::begin_change();
        self.inner.create(actor, path, case, how)
    }

    /// Creates a node in exactly this spelling, in its cached directory if there is one.
    pub(crate) fn create_exact(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let parent = path.parent().and_then(|parent| self.cached_directory(actor, &parent));
        if let Some(kept) = parent {
            let child = ChildName { directory: &*kept.opened.node, path };
            let _change = freshness::begin_change();
            match self.inner.create_in(NameActor::Own(actor), child, Case::Sensitive, how) {
                // The directory is gone; the path may lead to another.
                Err(FsError::NotFound | FsError::PathNotFound) => {}
                other => return other,
            }
        }
        self.create_by_backend(actor, path, Case::Sensitive, how)
    }

    /// The directory for a new name, with its path as stored.
    fn directory_for(
        &self,
        actor: Actor<'_>,
        parent: &RelPath,
    ) -> Result<Option<(FileKey, RelPath)>> {
        if let Some(key) = self.state_for(actor.order()).paths.directory(parent.as_bytes()) {
            return Ok(Some((key, parent.clone())));
        }
        match self.directory(actor, parent, Wait::Allowed)? {
            DirectoryLookup::At(directory) => Ok(Some((directory.key, directory.path))),
            DirectoryLookup::Missing(error) => Err(error),
            DirectoryLookup::Unknown => Ok(None),
        }
    }

    fn lock_creation(&self, directory: FileKey, name: &[u8]) -> MutexGuard<'_, ()> {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        // No secret is needed: a client gains nothing by making two names share a lock.
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let hash = hasher.hash_one((directory, &*fold_case(name))) as usize;
        self.create_locks[hash % self.create_locks.len()].lock()
    }
}
