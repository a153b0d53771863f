//! The backend that clients of the cache see.

use crate::counters::{Count, Counters};
use crate::listings::Listings;
use crate::pace::Pace;
use crate::spelling::{Place, Spelt, has_no_case};
use crate::state::{State, for_listings};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use vfs::freshness::{self, FeedFreshness};
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Attributes, Case, ChangeFeed, ChildLookup, ChildName,
    ChildRename, CreateHow, CreationMode, ExpectedChild, ExternalChangeCallback, ExternalWatch,
    Features, FileChangeCallback, FileKey, FileKind, FsError, KeyedBuildHasher, ListSink,
    ListingFeed, ListingRequest, LocatedNode, Name, NameActor, NewChild, Node, NodeHandle, OpenHow,
    OpenWithSecurity, OpenedNode, Quota, QuotaLimits, QuotaState, RelPath, Replace, Result,
    ServerWork, Space, SpecialKind, Timestamp, TreeChangeCallback, Vfs, Wait, fold_case,
};

/// Names that can be made at once without waiting for each other by chance.
const MAKING_LOCKS: usize = 256;

/// Of the nodes that are kept open, those that were just made, where all looks take long: one part
/// in so many.
const KEEPSAKES_PART: usize = 8;

/// Listings that are kept at once, with a mark of the kernel each.
const LISTINGS_MAX: usize = 1024;

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes for all that is kept.
    pub budget_bytes: usize,
    /// Directories that are followed at once: the kernel keeps each in memory.
    pub directories_max: usize,
    /// Nodes that are kept open at once.
    pub kept_max: usize,
}

/// The present time, as the backend tells it.
#[derive(Clone)]
pub struct Clock(pub Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { budget_bytes: 128 << 20, directories_max: 8192, kept_max: 1024 }
    }
}

/// A backend, and what is known of it.
#[derive(Debug)]
pub struct CachedVfs {
    pub(crate) inner: Arc<dyn Vfs>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) read: Condvar,
    enabled: AtomicBool,
    /// Once names are to be kept; none if the backend cannot tell of changes.
    feed: OnceLock<Option<Box<dyn ChangeFeed>>>,
    state: Mutex<State>,
    /// Which requests have heard of all that they have to, of what the feed tells.
    freshness: FeedFreshness,
    /// Once listings are to be kept; none if the backend cannot tell of changes.
    pub(crate) listing_feed: OnceLock<Option<Box<dyn ListingFeed>>>,
    /// Never held together with the state.
    pub(crate) listings: Mutex<Listings>,
    pub(crate) clock: Clock,
    /// How long it takes to make something.
    pace: Pace,
    /// Held while a name is looked for and made, by its hash: so nobody makes it
    /// in another case in between.
    making: [Mutex<()>; MAKING_LOCKS],
}

impl CachedVfs {
    /// A cache over `inner`, switched on. `clock` tells how old changes are.
    #[must_use]
    pub fn new(inner: Arc<dyn Vfs>, options: CacheOptions, clock: Clock) -> Self {
        Self::keyed(inner, options, clock, &KeyedBuildHasher::random())
    }

    /// The same, where what is kept depends on nothing but what is asked.
    #[must_use]
    pub fn keyed(
        inner: Arc<dyn Vfs>,
        options: CacheOptions,
        clock: Clock,
        hasher: &KeyedBuildHasher,
    ) -> Self {
        let counters = Arc::<Counters>::default();
        let budget_bytes = options.budget_bytes;
        let keepsakes_max =
            if inner.features().always_waits { options.kept_max / KEEPSAKES_PART } else { 0 };
        let state = State::new(&counters, hasher, options, keepsakes_max);
        let listings = Listings::new(
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
            making: [const { Mutex::new(()) }; MAKING_LOCKS],
        }
    }

    /// Switches it on or off; off, nothing is kept and every call goes through.
    pub fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Release);
        if !enabled {
            self.present().clear();
            // What was given up is let go of.
            drop(self.present());
            self.fresh_listings().clear();
            drop(self.fresh_listings());
        }
    }

    /// Whether it is on.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// Takes another budget, in bytes. What is kept by then is given up.
    pub fn set_budget(&self, budget_bytes: usize) {
        self.present().set_budget(budget_bytes);
        self.fresh_listings().set_budget(for_listings(budget_bytes));
    }

    /// Takes in what has been done meanwhile, as each call does: to be called about
    /// once a second, so that it does not pile up while there are none.
    /// What was not used for some of them is
    /// closed, and mounts are noticed.
    pub fn tick(&self) {
        let mut state = self.present();
        let mut is_lost = false;
        if let Some(Some(feed)) = self.feed.get() {
            feed.check(&mut |change| {
                state.handle_change(change);
                is_lost = true;
            });
        }
        state.places.handle_tick();
        state.recent.handle_tick();
        drop(state);
        let mut listings = self.fresh_listings();
        listings.handle_tick();
        if is_lost {
            listings.handle_change(None);
        }
    }

    /// What it was good for, by kind of what is kept.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, Count)> {
        let state = self.present();
        let (names, handles) = (state.directories.bytes(), state.places.bytes());
        let known = state.places.known();
        let (hits, misses) = (&known.stream_hits, &known.stream_misses);
        let [hits, misses] = [hits, misses].map(|count| count.load(Ordering::Relaxed));
        drop(state);
        let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        let Counters { names: of_names, handles: of_handles, listings: listed, security } =
            &*self.counters;
        vec![
            ("handles", of_handles.read(handles)),
            ("names", of_names.read(names)),
            ("listings", listed.read(listings)),
            ("security", security.read(0)),
            ("streams", Count { hits, misses, ..Count::default() }),
        ]
    }

    /// The state, with all taken in that was done before the request with this place came, and
    /// what this process has done since ([`freshness`]).
    pub(crate) fn fresh(&self, order: ArrivalOrder) -> Fresh<'_> {
        self.freshened(self.stale(), order)
    }

    /// The same, of the state as it was left.
    pub(crate) fn freshened<'a>(&'a self, state: Fresh<'a>, order: ArrivalOrder) -> Fresh<'a> {
        if self.freshness.is_fresh_for(order) { state } else { self.heard(state) }
    }

    /// The state, with all that was done before this call taken in: for what is to be kept, and
    /// to be sure of what was seen.
    pub(crate) fn present(&self) -> Fresh<'_> {
        self.heard(self.stale())
    }

    fn heard<'a>(&'a self, mut state: Fresh<'a>) -> Fresh<'a> {
        if let Some(Some(feed)) = self.feed.get() {
            self.freshness.refresh(|| feed.drain(&mut |change| state.handle_change(change)));
            while let Some(follow) = state.directories.poll_unfollow() {
                feed.unfollow(follow);
            }
        }
        state
    }

    /// The state as it was left: for what does not depend on what was done since.
    pub(crate) fn stale(&self) -> Fresh<'_> {
        Fresh(Some(self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Whether names can be found here at all.
    pub(crate) fn is_active(&self) -> bool {
        self.is_enabled() && self.feed().is_some()
    }

    pub(crate) fn feed(&self) -> Option<&dyn ChangeFeed> {
        let start = || {
            let feed = self.inner.change_feed();
            feed.inspect_err(|error| tracing::info!(%error, "names are not kept")).ok()
        };
        self.feed.get_or_init(start).as_deref()
    }

    fn now(&self) -> Timestamp {
        (self.clock.0)()
    }

    fn making(&self, directory: FileKey, name: &[u8]) -> MutexGuard<'_, ()> {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        // Not secret: who makes two names wait for each other gains nothing.
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let hash = hasher.hash_one((directory, &*fold_case(name))) as usize;
        self.making[hash % MAKING_LOCKS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a path that was not found as it is spelt, or not without waiting.
    pub(crate) fn open_by_case(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
        first: FsError,
    ) -> Result<OpenWithSecurity> {
        if has_no_case(path) {
            return Err(first);
        }
        let exact = OpenHow { case: Case::Sensitive, ..how };
        match self.spell(who, path, how.wait)? {
            // Whether the caller may look for names there was not asked.
            Spelt::Missing(_) if first == FsError::WouldBlock => Err(first),
            Spelt::Missing(error) => Err(error),
            Spelt::Absent(spelt) => self.open_exact(who, &spelt, exact),
            Spelt::Unknown => self.inner.open_with_security(who, path, how),
            Spelt::As(spelt) => match self.open_exact(who, &spelt, exact) {
                // Gone since: whatever is there now, the backend finds.
                Err(FsError::NotFound | FsError::PathNotFound) if spelt != *path => {
                    self.inner.open_with_security(who, path, how)
                }
                other => other,
            },
        }
    }

    /// Makes what nobody else makes in another case meanwhile.
    fn create_spelt(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        if !self.is_active() {
            return self.make(who, path, case, how);
        }
        if case == Case::Sensitive {
            return self.create_noted(who, path, how);
        }
        let Some((parent, name)) = path.split() else {
            return self.make(who, path, case, how);
        };
        let Some((key, parent)) = self.directory_for(who, &parent)? else {
            return self.make(who, path, case, how);
        };
        let _making = self.making(key, name.as_bytes());
        // What was made in another case while this waited for its turn counts.
        match self.spell_name(ArrivalOrder::next(), (key, &parent), &name, Wait::Allowed)? {
            Spelt::As(_) => Err(FsError::AlreadyExists),
            Spelt::Missing(_) | Spelt::Absent(_) => {
                let path = parent.join(&name);
                // To know it for a while is dearer here than to look for it, unless that takes long.
                if self.inner.features().always_waits {
                    self.create_noted(who, &path, how)
                } else {
                    self.create_exact(who, &path, how)
                }
            }
            Spelt::Unknown => self.make(who, path, case, how),
        }
    }

    /// Makes in a directory that is open what nobody else makes in another case meanwhile.
    fn create_child(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let _change = freshness::begin_change();
        if case == Case::Sensitive || !self.is_active() {
            return self.inner.create_in(who, child, case, how);
        }
        let (above, name) = child.path.split().ok_or(FsError::AccessDenied)?;
        let key = child.directory.key();
        let _making = self.making(key, name.as_bytes());
        // Which names there are is known by the directory's key, wherever it is by now.
        match self.spell_name(ArrivalOrder::next(), (key, &above), &name, Wait::Allowed)? {
            Spelt::As(_) => Err(FsError::AlreadyExists),
            Spelt::Missing(_) | Spelt::Absent(_) => {
                self.inner.create_in(who, child, Case::Sensitive, how)
            }
            Spelt::Unknown => self.inner.create_in(who, child, case, how),
        }
    }

    /// Has the backend make something.
    fn make(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let _change = freshness::begin_change();
        self.inner.create(who, path, case, how)
    }

    /// Makes what is spelt so, in its directory if that is kept.
    pub(crate) fn create_exact(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let parent = path.parent().and_then(|parent| self.kept_directory(who, &parent));
        if let Some(kept) = parent {
            let child = ChildName { directory: &*kept.opened.node, path };
            let _change = freshness::begin_change();
            match self.inner.create_in(NameActor::Own(who), child, Case::Sensitive, how) {
                // It has gone since: the path may lead to another.
                Err(FsError::NotFound | FsError::PathNotFound) => {}
                other => return other,
            }
        }
        self.make(who, path, Case::Sensitive, how)
    }

    /// Removes a name from its directory, if that is kept.
    fn remove_name(&self, who: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        let active = self.is_active().then(|| path.parent()).flatten();
        if let Some(kept) = active.and_then(|parent| self.kept_directory(who, &parent)) {
            let is_file_as_seen = self.fresh(who.order()).leads_to_file(path, expected);
            let expected = ExpectedChild { key: expected, is_file_as_seen };
            let child = ChildName { directory: &*kept.opened.node, path };
            match self.inner.remove_in(NameActor::Own(who), child, expected) {
                // It is elsewhere, or was never there.
                Err(FsError::NotFound | FsError::PathNotFound) => {}
                other => return other,
            }
        }
        self.inner.remove(who, path, expected)
    }

    /// What is kept of a path goes now, and its blocks with it.
    fn let_go(&self, path: &RelPath) {
        self.stale().forget_name(path);
    }

    /// Has the backend rename, and takes in what that has changed.
    fn renamed(&self, rename: impl FnOnce() -> Result<()>) -> Result<()> {
        let (begun, change) = (self.now(), freshness::begin_change());
        let renamed = rename();
        self.pace.took(begun, self.now());
        // Over, so that the request need not ask again for what is taken in now.
        drop(change);
        renamed?;
        drop(self.present());
        Ok(())
    }

    /// Where a node is, if it is a directory of which that is known; else the backend says it.
    fn path_by<'a>(
        &'a self,
        who: Actor<'_>,
        node: &dyn Node,
        state: impl FnOnce(&'a Self) -> Fresh<'a>,
    ) -> Result<RelPath> {
        if node.kind() == FileKind::Directory && self.is_active() {
            let known = state(self).path_of(node.key());
            if let Some(path) = known {
                return Ok(path);
            }
        }
        self.inner.path_of(who, node)
    }

    /// The directory that a name is to be made in, and its path as it is spelt.
    fn directory_for(
        &self,
        who: Actor<'_>,
        parent: &RelPath,
    ) -> Result<Option<(FileKey, RelPath)>> {
        if let Some(key) = self.fresh(who.order()).places.directory(parent.as_bytes()) {
            return Ok(Some((key, parent.clone())));
        }
        match self.directory(who, parent, Wait::Allowed)? {
            Place::At(directory) => Ok(Some((directory.key, directory.path))),
            Place::Missing(error) => Err(error),
            Place::Unknown => Ok(None),
        }
    }
}

/// The state, and what is to be closed once nobody is kept from it by that.
pub(crate) struct Fresh<'a>(Option<MutexGuard<'a, State>>);

impl Fresh<'_> {
    /// Lets others at it until somebody has read a directory.
    pub(crate) fn wait(mut self, read: &Condvar) -> Self {
        self.0 =
            self.0.take().map(|state| read.wait(state).unwrap_or_else(PoisonError::into_inner));
        self
    }
}

impl Deref for Fresh<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Fresh<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.0.take() else { return };
        let closing = (state.places.take_closing(), state.recent.take_closing());
        drop(state);
        drop(closing);
    }
}

impl Vfs for CachedVfs {
    fn open(&self, who: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<OpenedNode> {
        self.open_with_security(who, path, how).map(|known| known.opened)
    }

    fn open_with_security(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
    ) -> Result<OpenWithSecurity> {
        if self.is_active() && who.may_resolve_paths() {
            self.open_any(who, path, how)
        } else {
            self.inner.open_with_security(who, path, how)
        }
    }

    fn lookup_child(&self, who: Actor<'_>, child: ChildName<'_>, how: OpenHow) -> ChildLookup {
        self.inner.lookup_child(who, child, how)
    }

    fn open_directory(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        wait: Wait,
    ) -> Result<OpenWithSecurity> {
        if !self.is_active() || !who.may_resolve_paths() {
            return self.inner.open_directory(who, path, case, wait);
        }
        if let Some(kept) = self.kept_directory(who, path) {
            return Ok(kept);
        }
        let (read, write, no_follow) = (false, false, false);
        let how =
            OpenHow { read, write, case, wanted: AttributeRequest::default(), no_follow, wait };
        self.open_any(who, path, how)
    }

    fn create(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let begun = self.now();
        let result = self.create_spelt(who, path, case, how);
        self.pace.took(begun, self.now());
        result
    }

    fn create_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let begun = self.now();
        let result = self.create_child(who, child, case, how);
        self.pace.took(begun, self.now());
        result
    }

    fn create_special_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        new: NewChild<'_>,
    ) -> Result<OpenedNode> {
        let _change = freshness::begin_change();
        self.inner.create_special_in(who, child, new)
    }

    fn creates_without_waiting(&self) -> bool {
        self.inner.creates_without_waiting()
            || (!self.inner.features().always_waits && self.pace.is_quick(self.now()))
    }

    fn remove(&self, who: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        let _change = freshness::begin_change();
        self.remove_name(who, path, expected)?;
        self.let_go(path);
        Ok(())
    }

    fn remove_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        expected: ExpectedChild,
    ) -> Result<()> {
        let _change = freshness::begin_change();
        self.inner.remove_in(who, child, expected)?;
        self.let_go(child.path);
        Ok(())
    }

    fn cached_change_attribute(&self, directory: &dyn Node, order: ArrivalOrder) -> Option<u64> {
        self.is_active().then(|| self.fresh(order).directories.change_of(directory.key())).flatten()
    }

    fn change_attribute(&self, who: Actor<'_>, directory: &dyn Node) -> Result<u64> {
        let key = directory.key();
        let order = who.order();
        let told = self.is_active().then(|| self.fresh(order).directories.told_of(key)).flatten();
        let change = self.inner.change_attribute(who, directory)?;
        if let Some(told) = told {
            self.stale().directories.note_change(key, told, change);
        }
        Ok(change)
    }

    fn rename(&self, who: Actor<'_>, from: &RelPath, to: &RelPath, replace: Replace) -> Result<()> {
        self.renamed(|| self.inner.rename(who, from, to, replace))
    }

    fn rename_in(&self, who: NameActor<'_>, rename: ChildRename<'_>) -> Result<()> {
        self.renamed(|| self.inner.rename_in(who, rename))
    }

    fn link(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath, replace: Replace) -> Result<()> {
        let _change = freshness::begin_change();
        self.inner.link(who, node, to, replace)
    }

    fn link_as_posix(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath) -> Result<()> {
        let _change = freshness::begin_change();
        self.inner.link_as_posix(who, node, to)
    }

    fn symlink(&self, who: Actor<'_>, path: &RelPath, target: &[u8]) -> Result<OpenedNode> {
        let _change = freshness::begin_change();
        self.inner.symlink(who, path, target)
    }

    fn space(&self, who: Actor<'_>) -> Result<Space> {
        self.inner.space(who)
    }

    fn space_of(&self, who: Actor<'_>, node: &dyn Node) -> Result<Space> {
        self.inner.space_of(who, node)
    }

    fn quota_state(&self) -> QuotaState {
        self.inner.quota_state()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn quota(&self, who: Actor<'_>, uid: u32) -> Result<Quota> {
        self.inner.quota(who, uid)
    }

    fn next_quota(&self, who: Actor<'_>, uid: u32) -> Result<(u32, Quota)> {
        self.inner.next_quota(who, uid)
    }

    fn set_quota(&self, who: Actor<'_>, uid: u32, limits: QuotaLimits) -> Result<()> {
        self.inner.set_quota(who, uid, limits)
    }

    fn sync_quotas(&self, who: Actor<'_>) -> Result<()> {
        self.inner.sync_quotas(who)
    }

    fn watch(
        &self,
        work: ServerWork,
        directory: &dyn Node,
        tell: ExternalChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        self.inner.watch(work, directory, tell)
    }

    fn watch_tree(
        &self,
        work: ServerWork,
        tell: TreeChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        self.inner.watch_tree(work, tell)
    }

    fn watch_file(
        &self,
        work: ServerWork,
        file: &Arc<dyn Node>,
        every_write: bool,
        tell: FileChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        self.inner.watch_file(work, file, every_write, tell)
    }

    fn handle(&self, who: Actor<'_>, node: &dyn Node) -> Result<NodeHandle> {
        self.inner.handle(who, node)
    }

    fn persistent_id(&self, node: &dyn Node) -> Option<NodeHandle> {
        self.inner.persistent_id(node)
    }

    fn handle_at(&self, who: Actor<'_>, node: &dyn Node, path: &RelPath) -> Result<NodeHandle> {
        self.handle_of_made(who, node, path)
    }

    fn cached_attributes_and_handle(
        &self,
        who: Actor<'_>,
        directory: &dyn Node,
        path: &RelPath,
    ) -> Option<(Attributes, NodeHandle)> {
        self.remembered_at(who, directory, path)
    }

    fn child_handle(
        &self,
        who: Actor<'_>,
        directory: &dyn Node,
        name: &Name,
        child: &Attributes,
    ) -> Result<NodeHandle> {
        self.inner.child_handle(who, directory, name, child)
    }

    fn caches_handles(&self) -> bool {
        self.is_active() && !self.stale().recent.is_empty()
    }

    fn cached_handles(
        &self,
        directory: &dyn Node,
        children: &[(Name, Attributes)],
    ) -> Vec<Option<NodeHandle>> {
        self.handles_of_made(directory, children)
    }

    fn find(
        &self,
        who: Actor<'_>,
        handle: &NodeHandle,
        wanted: AttributeRequest,
    ) -> Result<LocatedNode> {
        let told = self.is_active().then(|| self.fresh(who.order()).told());
        let located = self.inner.find(who, handle, wanted)?;
        if let Some(told) = told.filter(|_| located.is_certain) {
            self.keep_found(who, handle, &located, told);
        }
        Ok(located)
    }

    fn find_cached(
        &self,
        handle: &NodeHandle,
        order: ArrivalOrder,
    ) -> Option<(Arc<dyn Node>, RelPath)> {
        if !self.is_active() {
            return None;
        }
        let mut state = self.fresh(order);
        let (node, path) = state.places.find_by_handle(handle)?;
        let path = RelPath::of_bytes(path)?;
        state.touch_parent(&path);
        drop(state);
        self.counters.handles.hit();
        Some((node, path))
    }

    fn path_of(&self, who: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        self.path_by(who, node, Self::present)
    }

    fn path_since(&self, who: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        self.path_by(who, node, |cache| cache.fresh(who.order()))
    }

    fn open_node(&self, who: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<OpenedNode> {
        if how.read && node.kind() == FileKind::Directory && self.is_active() {
            return self.open_to_list(who, node, how);
        }
        self.inner.open_node(who, node, how)
    }

    fn create_special(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        kind: SpecialKind,
        mode: CreationMode,
    ) -> Result<OpenedNode> {
        let _change = freshness::begin_change();
        self.inner.create_special(who, path, kind, mode)
    }

    fn change_feed(&self) -> Result<Box<dyn ChangeFeed>> {
        self.inner.change_feed()
    }

    fn listing_feed(&self) -> Result<Box<dyn ListingFeed>> {
        self.inner.listing_feed()
    }

    fn list_with_attributes(
        &self,
        directory: &dyn Node,
        who: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        if self.is_active() {
            self.list_any(directory, who, cookie, wanted, sink)
        } else {
            self.inner.list_with_attributes(directory, who, cookie, wanted, sink)
        }
    }

    fn list_cached(
        &self,
        directory: &dyn Node,
        who: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<Option<bool>> {
        if self.is_active() {
            self.list_kept(directory, who, cookie, wanted, sink)
        } else {
            Ok(None)
        }
    }

    fn features(&self) -> Features {
        self.inner.features()
    }
}
