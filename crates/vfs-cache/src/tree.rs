//! The decorated backend.

use crate::counters::{CacheCount, CacheCounters};
use crate::listing_cache::ListingCache;
use crate::options::CacheOptions;
use crate::pace::Pace;
use crate::state::{MetadataCacheState, for_listings};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use sync::{Condvar, Mutex, MutexGuard};
use vfs::freshness::{self, ChangeGuard, FeedFreshness};
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Attributes, Case, ChangeFeed, ChildName, ChildRename,
    CreateHow, ExpectedChild, FileKey, FileKind, FsError, KeyedBuildHasher, ListSink, ListingFeed,
    ListingRequest, LocatedNode, Name, NameActor, NameCache, NameLookup, Node, NodeHandle, OpenHow,
    OpenWithSecurity, OpenedNode, PersistentHandles, RelPath, Replace, Result, Timestamp, Vfs,
    Wait,
};

/// Locks of creations: unrelated names rarely share one.
const CREATE_LOCKS: usize = 256;

/// Fraction of the cached opens that are for created files, on backends with slow lookups.
const RETAINED_PART: usize = 8;

/// Cached listings, with one kernel watch each.
const LISTINGS_MAX: usize = 1024;

/// Clock of the backend.
#[derive(Clone)]
pub struct Clock(pub Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

/// A backend with a cache.
#[derive(Debug)]
pub struct CachedVfs {
    pub(crate) inner: Arc<dyn Vfs>,
    pub(crate) counters: Arc<CacheCounters>,
    pub(crate) read: Condvar,
    enabled: AtomicBool,
    /// Set on first use; None if the backend has no feed.
    feed: OnceLock<Option<Box<dyn ChangeFeed>>>,
    state: Mutex<MetadataCacheState>,
    /// How far the feed is drained.
    freshness: FeedFreshness,
    /// Set on first use; None if the backend has no feed.
    pub(crate) listing_feed: OnceLock<Option<Box<dyn ListingFeed>>>,
    /// Never locked together with the state.
    pub(crate) listings: Mutex<ListingCache>,
    pub(crate) clock: Clock,
    /// Pace of file creation.
    pace: Pace,
    /// Locks by name hash, held from the lookup of a name to its creation, so that no other thread
    /// creates another case variant in between.
    pub(crate) create_locks: [Mutex<()>; CREATE_LOCKS],
}

impl CachedVfs {
    /// A cache over `inner`, enabled. `clock` serves to determine the age of changes.
    #[must_use]
    pub fn new(inner: Arc<dyn Vfs>, options: CacheOptions, clock: Clock) -> Self {
        Self::keyed(inner, options, clock, &KeyedBuildHasher::random())
    }

    /// As [`CachedVfs::new`] with a given hash key, for reproducible evictions.
    #[must_use]
    pub fn keyed(
        inner: Arc<dyn Vfs>,
        options: CacheOptions,
        clock: Clock,
        hasher: &KeyedBuildHasher,
    ) -> Self {
        let counters = Arc::<CacheCounters>::default();
        let budget_bytes = options.budget_bytes;
        let retained_max =
            if inner.features().always_waits { options.open_nodes_max / RETAINED_PART } else { 0 };
        let state = MetadataCacheState::new(&counters, hasher, options, retained_max);
        let listings = ListingCache::new(
            counters.clone(),
            hasher.clone(),
            for_listings(budget_bytes),
            LISTINGS_MAX,
        );
        Self {
            inner,
            listing_feed: OnceLock::new(),
            listings: Mutex::new(listings),
            feed: OnceLock::new(),
            state: Mutex::new(state),
            freshness: FeedFreshness::default(),
            clock,
            pace: Pace::default(),
            counters,
            read: Condvar::new(),
            enabled: AtomicBool::new(true),
            create_locks: [const { Mutex::new(()) }; CREATE_LOCKS],
        }
    }

    /// Enables or disables the cache; disabled, every call passes through.
    pub fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Release);
        if !enabled {
            self.drained_state().clear();
            // A second drain unfollows the dropped directories.
            drop(self.drained_state());
            self.drained_listings().clear();
            drop(self.drained_listings());
        }
    }

    /// Whether the cache is enabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// Sets the budget in bytes. Invalidates names and listings, and evicts paths beyond it.
    pub fn set_budget(&self, budget_bytes: usize) {
        self.drained_state().set_budget(budget_bytes);
        self.drained_listings().set_budget(for_listings(budget_bytes));
    }

    /// Drains the feeds, ages the entries and detects mounts. To be called about once a second, so
    /// that events do not pile up without requests.
    pub fn tick(&self) {
        let mut state = self.drained_state();
        let mut is_lost = false;
        if let Some(Some(feed)) = self.feed.get() {
            feed.check(&mut |change| {
                state.handle_change(change);
                is_lost = true;
            });
        }
        state.paths.handle_tick();
        state.recent.handle_tick();
        drop(state);
        let mut listings = self.drained_listings();
        listings.handle_tick();
        if is_lost {
            listings.handle_change(None);
        }
    }

    /// Counters by kind of entry.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, CacheCount)> {
        let state = self.drained_state();
        let (names, handles) = (state.directories.bytes(), state.paths.bytes());
        let known = state.paths.security_totals();
        let (hits, misses) = (&known.stream_hits, &known.stream_misses);
        let [hits, misses] = [hits, misses].map(|count| count.load(Ordering::Relaxed));
        drop(state);
        let listings = self.listings.lock().bytes();
        let CacheCounters { names: of_names, handles: of_handles, listings: listed, security } =
            &*self.counters;
        vec![
            ("handles", of_handles.read(handles)),
            ("names", of_names.read(names)),
            ("listings", listed.read(listings)),
            ("security", security.read(0)),
            ("streams", CacheCount { hits, misses, ..CacheCount::default() }),
        ]
    }

    /// The state, drained as far as a request of this arrival needs ([`freshness`]).
    pub(crate) fn state_for(&self, order: ArrivalOrder) -> StateGuard<'_> {
        self.drain_for(self.lock_state(), order)
    }

    /// As [`CachedVfs::state_for`], for a state that is locked already.
    pub(crate) fn drain_for<'a>(
        &'a self,
        state: StateGuard<'a>,
        order: ArrivalOrder,
    ) -> StateGuard<'a> {
        if self.freshness.is_fresh_for(order) { state } else { self.drain(state) }
    }

    /// The state after a full drain, for insertions and for proofs that nothing has changed.
    pub(crate) fn drained_state(&self) -> StateGuard<'_> {
        self.drain(self.lock_state())
    }

    fn drain<'a>(&'a self, mut state: StateGuard<'a>) -> StateGuard<'a> {
        if let Some(Some(feed)) = self.feed.get() {
            self.freshness.refresh(|| feed.drain(&mut |change| state.handle_change(change)));
            while let Some(follow) = state.directories.poll_unfollow() {
                feed.unfollow(follow);
            }
        }
        state
    }

    /// The state without a drain.
    pub(crate) fn lock_state(&self) -> StateGuard<'_> {
        StateGuard(Some(self.state.lock()))
    }

    /// Whether names can be cached.
    pub(crate) fn is_active(&self) -> bool {
        self.is_enabled() && self.feed().is_some()
    }

    pub(crate) fn feed(&self) -> Option<&dyn ChangeFeed> {
        let start = || {
            let feed = self
                .inner
                .feeds()
                .ok_or(FsError::NotSupported)
                .and_then(|feeds| feeds.change_feed());
            feed.inspect_err(|error| tracing::info!(%error, "the backend reports no changes of names: they are not cached")).ok()
        };
        self.feed.get_or_init(start).as_deref()
    }

    fn now(&self) -> Timestamp {
        (self.clock.0)()
    }

    /// Opens a path by the backend, which knows no security of it.
    pub(crate) fn open_by_backend(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
    ) -> Result<OpenWithSecurity> {
        self.inner.open(actor, path, how).map(OpenWithSecurity::from)
    }

    /// Removes a name from its cached directory, if there is one.
    fn remove_name(&self, actor: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        let active = self.is_active().then(|| path.parent()).flatten();
        if let Some(kept) = active.and_then(|parent| self.cached_directory(actor, &parent)) {
            // A request may have waited since its arrival, for a lease or a worker: drained anew.
            let is_file_as_seen = self.drained_state().leads_to_file(path, expected);
            let expected = ExpectedChild { key: expected, is_file_as_seen };
            let child = ChildName { directory: &*kept.opened.node, path };
            match self.inner.remove_in(NameActor::Own(actor), child, expected) {
                // The directory has moved or is gone.
                Err(FsError::NotFound | FsError::PathNotFound) => {}
                other => return other,
            }
        }
        self.inner.remove(actor, path, expected)
    }

    /// Drops the cached opens of a removed path, so that its blocks are freed now.
    fn drop_cached(&self, path: &RelPath) {
        self.lock_state().invalidate_name(path);
    }

    /// Announces a change that the feeds will report.
    #[allow(clippy::unused_self, reason = "called by `vfs::pass_on`")]
    fn begin_change(&self) -> ChangeGuard {
        freshness::begin_change()
    }

    /// Runs a rename, and drains its events.
    fn run_rename(&self, rename: impl FnOnce() -> Result<()>) -> Result<()> {
        let (begun, change) = (self.now(), freshness::begin_change());
        let renamed = rename();
        self.pace.record(begun, self.now());
        // Ended first, so that the request need not drain again.
        drop(change);
        renamed?;
        drop(self.drained_state());
        Ok(())
    }

    /// The path of a directory from the cache, else from the backend.
    fn path_by<'a>(
        &'a self,
        actor: Actor<'_>,
        node: &dyn Node,
        state: impl FnOnce(&'a Self) -> StateGuard<'a>,
    ) -> Result<RelPath> {
        if node.kind() == FileKind::Directory && self.is_active() {
            let known = state(self).path_of(node.key());
            if let Some(path) = known {
                return Ok(path);
            }
        }
        self.inner.need_handles()?.path_of(actor, node)
    }
}

/// Guard of the state; closes dropped nodes after it unlocks.
pub(crate) struct StateGuard<'a>(Option<MutexGuard<'a, MetadataCacheState>>);

impl StateGuard<'_> {
    /// Unlocks the state until a thread has finished reading a directory.
    pub(crate) fn wait(mut self, read: &Condvar) -> Self {
        self.0 = self.0.take().map(|state| read.wait(state));
        self
    }
}

impl Deref for StateGuard<'_> {
    type Target = MetadataCacheState;

    fn deref(&self) -> &MetadataCacheState {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut MetadataCacheState {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.0.take() else { return };
        let closing = (state.paths.take_closing(), state.recent.take_closing());
        drop(state);
        drop(closing);
    }
}

impl Vfs for CachedVfs {
    vfs::pass_on!(around begin_change: create_special, create_special_in, symlink);
    vfs::pass_on!(around begin_change: link, link_as_posix);
    vfs::pass_on!(lookup_child, space, space_of, is_read_only, is_read_only_at);
    vfs::pass_on!(quotas, external_watches, feeds, features, features_of);

    fn open(&self, actor: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<OpenedNode> {
        self.open_with_security(actor, path, how).map(|known| known.opened)
    }

    fn create(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let begun = self.now();
        let result = self.create_any_case(actor, path, case, how);
        self.pace.record(begun, self.now());
        result
    }

    fn create_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let begun = self.now();
        let result = self.create_child(actor, child, case, how);
        self.pace.record(begun, self.now());
        result
    }

    fn creates_without_waiting(&self) -> bool {
        self.inner.creates_without_waiting()
            || (!self.inner.features().always_waits && self.pace.is_fast(self.now()))
    }

    fn remove(&self, actor: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        let _change = freshness::begin_change();
        self.remove_name(actor, path, expected)?;
        self.drop_cached(path);
        Ok(())
    }

    fn remove_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        expected: ExpectedChild,
    ) -> Result<()> {
        let _change = freshness::begin_change();
        self.inner.remove_in(actor, child, expected)?;
        self.drop_cached(child.path);
        Ok(())
    }

    fn rename(
        &self,
        actor: Actor<'_>,
        from: &RelPath,
        to: &RelPath,
        replace: Replace,
    ) -> Result<()> {
        self.run_rename(|| self.inner.rename(actor, from, to, replace))
    }

    fn rename_in(&self, actor: NameActor<'_>, rename: ChildRename<'_>) -> Result<()> {
        self.run_rename(|| self.inner.rename_in(actor, rename))
    }

    fn open_node(&self, actor: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<OpenedNode> {
        if how.read && node.kind() == FileKind::Directory && self.is_active() {
            return self.open_to_list(actor, node, how);
        }
        self.inner.open_node(actor, node, how)
    }

    fn handles(&self) -> Option<&dyn PersistentHandles> {
        self.inner.handles().map(|_| self as _)
    }
}

impl PersistentHandles for CachedVfs {
    vfs::pass_on!(handle, persistent_id, child_handle);

    fn find(
        &self,
        actor: Actor<'_>,
        handle: &NodeHandle,
        wanted: AttributeRequest,
    ) -> Result<LocatedNode> {
        let event_count = self.is_active().then(|| self.state_for(actor.order()).event_count());
        let located = self.inner.need_handles()?.find(actor, handle, wanted)?;
        if let Some(event_count) = event_count.filter(|_| located.is_certain) {
            self.cache_handle(actor, handle, &located, event_count);
        }
        Ok(located)
    }

    fn path_of(&self, actor: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        self.path_by(actor, node, Self::drained_state)
    }
}

impl NameCache for CachedVfs {
    fn open_with_security(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
    ) -> Result<OpenWithSecurity> {
        if self.is_active() && actor.may_resolve_paths() {
            self.open_any(actor, path, how)
        } else {
            self.open_by_backend(actor, path, how)
        }
    }

    fn open_directory(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        case: Case,
        wait: Wait,
    ) -> Result<OpenWithSecurity> {
        if !self.is_active() || !actor.may_resolve_paths() {
            let how = OpenHow { case, no_follow: false, ..OpenHow::looking(wait) };
            return self.open_by_backend(actor, path, how);
        }
        if let Some(kept) = self.cached_directory(actor, path) {
            return Ok(kept);
        }
        let (read, write, no_follow) = (false, false, false);
        let how =
            OpenHow { read, write, case, wanted: AttributeRequest::default(), no_follow, wait };
        self.open_any(actor, path, how)
    }

    fn cached_change_attribute(&self, directory: &dyn Node, order: ArrivalOrder) -> Option<u64> {
        self.is_active()
            .then(|| self.state_for(order).directories.change_of(directory.key()))
            .flatten()
    }

    fn change_attribute(&self, actor: Actor<'_>, directory: &dyn Node) -> Result<u64> {
        let key = directory.key();
        let order = actor.order();
        let event_count = self
            .is_active()
            .then(|| self.state_for(order).directories.event_count_of(key))
            .flatten();
        let change = NameLookup::Backend(&*self.inner).change_attribute(actor, directory)?;
        if let Some(event_count) = event_count {
            self.lock_state().directories.note_change(key, event_count, change);
        }
        Ok(change)
    }

    fn handle_at(&self, actor: Actor<'_>, node: &dyn Node, path: &RelPath) -> Result<NodeHandle> {
        self.handle_of_created(actor, node, path)
    }

    fn cached_attributes_and_handle(
        &self,
        actor: Actor<'_>,
        directory: &dyn Node,
        path: &RelPath,
    ) -> Option<(Attributes, NodeHandle)> {
        self.cached_created_file(actor, directory, path)
    }

    fn caches_handles(&self) -> bool {
        self.is_active() && !self.lock_state().recent.is_empty()
    }

    fn cached_handles(
        &self,
        directory: &dyn Node,
        children: &[(Name, Attributes)],
    ) -> Vec<Option<NodeHandle>> {
        self.handles_of_created(directory, children)
    }

    fn find_cached(
        &self,
        handle: &NodeHandle,
        order: ArrivalOrder,
    ) -> Option<(Arc<dyn Node>, RelPath)> {
        if !self.is_active() {
            return None;
        }
        let mut state = self.state_for(order);
        let (node, path) = state.paths.find_by_handle(handle)?;
        let path = RelPath::of_bytes(path)?;
        state.touch_parent(&path);
        drop(state);
        self.counters.handles.hit();
        Some((node, path))
    }

    fn path_since(&self, actor: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        self.path_by(actor, node, |cache| cache.state_for(actor.order()))
    }

    fn readdir_with_attributes(
        &self,
        directory: &dyn Node,
        actor: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        if self.is_active() {
            self.list_any(directory, actor, cookie, wanted, sink)
        } else {
            directory.readdir_with_attributes(actor, cookie, wanted, sink)
        }
    }

    fn readdir_cached(
        &self,
        directory: &dyn Node,
        actor: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<Option<bool>> {
        if self.is_active() {
            self.list_from_cache(directory, actor, cookie, wanted, sink)
        } else {
            Ok(None)
        }
    }
}
