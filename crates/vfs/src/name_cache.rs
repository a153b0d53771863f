//! A cache of names over a backend, and the calls that it can answer better than the backend.

use crate::{
    Actor, ArrivalOrder, AttributeRequest, Attributes, Case, ListSink, ListingRequest, Name, Node,
    NodeHandle, OpenHow, OpenWithSecurity, RelPath, Result, Vfs, Wait,
};
use std::sync::Arc;

/// A backend that caches names, paths, attributes and listings of another one.
///
/// A caller that serves trees with and without a cache calls [`NameLookup`], which states what
/// happens without one.
pub trait NameCache: Vfs {
    /// As [`Vfs::open`], with the cached security of the node.
    ///
    /// # Errors
    /// As [`Vfs::open`].
    fn open_with_security(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
    ) -> Result<OpenWithSecurity>;

    /// Opens a directory in order to check permissions on it. Owner and permissions in the
    /// attributes are current; other attributes may be older.
    ///
    /// # Errors
    /// As [`Vfs::open`].
    fn open_directory(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        case: Case,
        wait: Wait,
    ) -> Result<OpenWithSecurity>;

    /// The cached change attribute of a directory, before a change of one of its names: the last
    /// value of [`NameCache::change_attribute`], while its names are unchanged. Other changes of the
    /// directory, such as a move, do not invalidate it.
    fn cached_change_attribute(&self, directory: &dyn Node, order: ArrivalOrder) -> Option<u64>;

    /// Reads the change attribute of a directory after a change of one of its names.
    ///
    /// # Errors
    /// As [`Node::attributes`].
    fn change_attribute(&self, actor: Actor<'_>, directory: &dyn Node) -> Result<u64>;

    /// The handle of a node that was opened or created by this path.
    ///
    /// # Errors
    /// As [`crate::PersistentHandles::handle`].
    fn handle_at(&self, actor: Actor<'_>, node: &dyn Node, path: &RelPath) -> Result<NodeHandle>;

    /// Cached attributes and handle of the file at `path` (exact spelling) in `directory`, as `actor`
    /// may see them. None unless both are certain without an open, as for a file that was just
    /// created.
    fn cached_attributes_and_handle(
        &self,
        actor: Actor<'_>,
        directory: &dyn Node,
        path: &RelPath,
    ) -> Option<(Attributes, NodeHandle)>;

    /// Whether handles are cached, so that [`NameCache::cached_handles`] is worth a call.
    fn caches_handles(&self) -> bool;

    /// The cached handles of children of this directory, given with their current attributes: as
    /// [`crate::PersistentHandles::child_handle`], without a system call.
    fn cached_handles(
        &self,
        directory: &dyn Node,
        children: &[(Name, Attributes)],
    ) -> Vec<Option<NodeHandle>>;

    /// The cached node and path of a handle, as reliable as [`crate::PersistentHandles::find`], without a system call.
    fn find_cached(
        &self,
        handle: &NodeHandle,
        order: ArrivalOrder,
    ) -> Option<(Arc<dyn Node>, RelPath)>;

    /// As [`crate::PersistentHandles::path_of`], or its path at any time since the request of `actor` arrived
    /// ([`Actor::in_order`]). Fit to start with; no proof that the node has not moved.
    ///
    /// # Errors
    /// As [`crate::PersistentHandles::path_of`].
    fn path_since(&self, actor: Actor<'_>, node: &dyn Node) -> Result<RelPath>;

    /// As [`Node::readdir_with_attributes`] of `directory`, which is open for listing.
    ///
    /// # Errors
    /// As [`Node::readdir_with_attributes`].
    fn readdir_with_attributes(
        &self,
        directory: &dyn Node,
        actor: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool>;

    /// The cached listing of `directory`, as [`Node::readdir_with_attributes`] reports it; the
    /// directory need not be open for listing. Serves only users who have received it before and
    /// may still open the directory. None if the caller must open the directory to continue behind
    /// the cached part.
    ///
    /// # Errors
    /// As [`Node::readdir_with_attributes`].
    fn readdir_cached(
        &self,
        directory: &dyn Node,
        actor: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<Option<bool>>;
}

/// The names of a tree: from its cache, or without one from the backend itself.
#[derive(Clone, Copy, Debug)]
pub enum NameLookup<'a> {
    /// Nothing is cached; each call documents its fallback.
    Backend(&'a dyn Vfs),
    /// A cache answers.
    Cache(&'a dyn NameCache),
}

impl<'a> NameLookup<'a> {
    /// The backend: the cache is one, too.
    #[must_use]
    pub fn backend(self) -> &'a dyn Vfs {
        match self {
            Self::Backend(vfs) => vfs,
            Self::Cache(cache) => cache,
        }
    }

    /// As [`NameCache::open_with_security`]; without a cache no security is known.
    ///
    /// # Errors
    /// As [`Vfs::open`].
    pub fn open_with_security(
        self,
        actor: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
    ) -> Result<OpenWithSecurity> {
        match self {
            Self::Cache(cache) => cache.open_with_security(actor, path, how),
            Self::Backend(vfs) => vfs.open(actor, path, how).map(OpenWithSecurity::from),
        }
    }

    /// As [`NameCache::open_directory`]; without a cache it is opened by its path.
    ///
    /// # Errors
    /// As [`Vfs::open`].
    pub fn open_directory(
        self,
        actor: Actor<'_>,
        path: &RelPath,
        case: Case,
        wait: Wait,
    ) -> Result<OpenWithSecurity> {
        match self {
            Self::Cache(cache) => cache.open_directory(actor, path, case, wait),
            Self::Backend(vfs) => {
                let how = OpenHow { case, no_follow: false, ..OpenHow::looking(wait) };
                vfs.open(actor, path, how).map(OpenWithSecurity::from)
            }
        }
    }

    /// As [`NameCache::cached_change_attribute`]; none without a cache.
    #[must_use]
    pub fn cached_change_attribute(self, directory: &dyn Node, order: ArrivalOrder) -> Option<u64> {
        match self {
            Self::Cache(cache) => cache.cached_change_attribute(directory, order),
            Self::Backend(_) => None,
        }
    }

    /// As [`NameCache::change_attribute`]; without a cache it is only read.
    ///
    /// # Errors
    /// As [`Node::attributes`].
    pub fn change_attribute(self, actor: Actor<'_>, directory: &dyn Node) -> Result<u64> {
        match self {
            Self::Cache(cache) => cache.change_attribute(actor, directory),
            Self::Backend(_) => {
                let attributes = directory.attributes(AttributeRequest::default());
                attributes.map(|attributes| attributes.change)
            }
        }
    }

    /// As [`NameCache::handle_at`]; without a cache as [`crate::PersistentHandles::handle`].
    ///
    /// # Errors
    /// As [`crate::PersistentHandles::handle`].
    pub fn handle_at(
        self,
        actor: Actor<'_>,
        node: &dyn Node,
        path: &RelPath,
    ) -> Result<NodeHandle> {
        match self {
            Self::Cache(cache) => cache.handle_at(actor, node, path),
            Self::Backend(vfs) => vfs.need_handles()?.handle(actor, node),
        }
    }

    /// As [`NameCache::cached_attributes_and_handle`]; none without a cache.
    #[must_use]
    pub fn cached_attributes_and_handle(
        self,
        actor: Actor<'_>,
        directory: &dyn Node,
        path: &RelPath,
    ) -> Option<(Attributes, NodeHandle)> {
        match self {
            Self::Cache(cache) => cache.cached_attributes_and_handle(actor, directory, path),
            Self::Backend(_) => None,
        }
    }

    /// As [`NameCache::caches_handles`]; false without a cache.
    #[must_use]
    pub fn caches_handles(self) -> bool {
        matches!(self, Self::Cache(cache) if cache.caches_handles())
    }

    /// As [`NameCache::cached_handles`]; none of them without a cache.
    #[must_use]
    pub fn cached_handles(
        self,
        directory: &dyn Node,
        children: &[(Name, Attributes)],
    ) -> Vec<Option<NodeHandle>> {
        match self {
            Self::Cache(cache) => cache.cached_handles(directory, children),
            Self::Backend(_) => vec![None; children.len()],
        }
    }

    /// As [`NameCache::find_cached`]; none without a cache.
    #[must_use]
    pub fn find_cached(
        self,
        handle: &NodeHandle,
        order: ArrivalOrder,
    ) -> Option<(Arc<dyn Node>, RelPath)> {
        match self {
            Self::Cache(cache) => cache.find_cached(handle, order),
            Self::Backend(_) => None,
        }
    }

    /// As [`NameCache::path_since`]; without a cache as [`crate::PersistentHandles::path_of`], each time.
    ///
    /// # Errors
    /// As [`crate::PersistentHandles::path_of`].
    pub fn path_since(self, actor: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        match self {
            Self::Cache(cache) => cache.path_since(actor, node),
            Self::Backend(vfs) => vfs.need_handles()?.path_of(actor, node),
        }
    }

    /// As [`NameCache::readdir_with_attributes`]; without a cache the node lists.
    ///
    /// # Errors
    /// As [`Node::readdir_with_attributes`].
    pub fn readdir_with_attributes(
        self,
        directory: &dyn Node,
        actor: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        match self {
            Self::Cache(cache) => {
                cache.readdir_with_attributes(directory, actor, cookie, wanted, sink)
            }
            Self::Backend(_) => directory.readdir_with_attributes(actor, cookie, wanted, sink),
        }
    }

    /// As [`NameCache::readdir_cached`]; none without a cache.
    ///
    /// # Errors
    /// As [`Node::readdir_with_attributes`].
    pub fn readdir_cached(
        self,
        directory: &dyn Node,
        actor: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<Option<bool>> {
        match self {
            Self::Cache(cache) => cache.readdir_cached(directory, actor, cookie, wanted, sink),
            Self::Backend(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryOptions, MemoryVfs, StillClock};
    use crate::{CreateHow, EntryChoice, FileKind, ListedEntry};

    struct NoEntries;

    impl ListSink for NoEntries {
        fn choose(&mut self, _: &[u8], _: u64) -> EntryChoice {
            EntryChoice::Take
        }

        fn put(&mut self, _: ListedEntry<'_>) -> bool {
            false
        }
    }

    #[test]
    fn lookup_without_cache_is_answered_by_backend() {
        let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        let (names, actor) = (NameLookup::Backend(&vfs), Actor::SUPERUSER);
        let path: RelPath = [Name::new(*b"d").unwrap()].into_iter().collect();
        let how = CreateHow::plain(FileKind::Directory, 0o755);
        let made = vfs.create(actor, &path, Case::Sensitive, how).unwrap();
        let node = &*made.node;
        let other_case: RelPath = [Name::new(*b"D").unwrap()].into_iter().collect();
        let opened =
            names.open_directory(actor, &other_case, Case::Insensitive, Wait::Allowed).unwrap();
        assert!(opened.security.is_none() && opened.opened.attributes.key == node.key());
        let look = OpenHow::looking(Wait::Allowed);
        assert!(names.open_with_security(actor, &path, look).unwrap().security.is_none());
        let change = node.attributes(AttributeRequest::default()).unwrap().change;
        assert_eq!(names.change_attribute(actor, node), Ok(change));
        let handle = vfs.handles().unwrap().handle(actor, node);
        assert_eq!(names.handle_at(actor, node, &path), handle);
        assert_eq!(names.path_since(actor, node), Ok(path.clone()));
        let wanted = ListingRequest::default();
        assert_eq!(names.readdir_with_attributes(node, actor, 0, wanted, &mut NoEntries), Ok(true));
        // Nothing is cached.
        let order = ArrivalOrder::next();
        assert_eq!(names.cached_change_attribute(node, order), None);
        assert_eq!(names.cached_attributes_and_handle(actor, node, &path), None);
        assert!(!names.caches_handles());
        let child = (Name::new(*b"c").unwrap(), made.attributes);
        assert_eq!(names.cached_handles(node, &[child]), [None]);
        assert!(names.find_cached(&handle.unwrap(), order).is_none());
        assert_eq!(names.readdir_cached(node, actor, 0, wanted, &mut NoEntries), Ok(None));
    }
}
