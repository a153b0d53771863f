//! The backend that clients of the cache see.

use crate::counters::{Count, Counters};
use crate::directories::Directories;
use crate::spelling::{Place, Spelt, has_no_case};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use vfs::{
    Case, ChangeFeed, CreateHow, Features, FileKey, FsError, Identity, Node, OpenHow, Opened,
    OutsideWatch, Quota, QuotaLimits, QuotaState, RelPath, Replace, Result, Space, TellChanged,
    TellOutside, TellOutsideIn, Vfs, Wait, fold_case,
};

/// Names that can be made at once without waiting for each other by chance.
const MAKING_LOCKS: usize = 256;

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes for all that is kept.
    pub budget_bytes: usize,
    /// Directories that are followed at once: the kernel keeps each in memory.
    pub directories_max: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { budget_bytes: 64 << 20, directories_max: 8192 }
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
    state: Mutex<Directories>,
    /// Held while a name is looked for and made, by its hash: so nobody makes it
    /// in another case in between.
    making: [Mutex<()>; MAKING_LOCKS],
}

impl CachedVfs {
    /// A cache over `inner`, switched on.
    #[must_use]
    pub fn new(inner: Arc<dyn Vfs>, options: CacheOptions) -> Self {
        let counters = Arc::<Counters>::default();
        let CacheOptions { budget_bytes, directories_max } = options;
        Self {
            inner,
            feed: OnceLock::new(),
            state: Mutex::new(Directories::new(counters.clone(), budget_bytes, directories_max)),
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
            self.fresh().clear();
            // What was given up is let go of.
            drop(self.fresh());
        }
    }

    /// Whether it is on.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// Takes another budget, in bytes. What is kept by then is given up.
    pub fn set_budget(&self, budget_bytes: usize) {
        self.fresh().set_budget(budget_bytes);
    }

    /// Takes in what has been done meanwhile, as each call does: to be called about
    /// once a second, so that it does not pile up while there are none.
    pub fn tick(&self) {
        drop(self.fresh());
    }

    /// What it was good for, by kind of what is kept.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, Count)> {
        let bytes = self.fresh().bytes();
        vec![("names", self.counters.names.read(bytes))]
    }

    /// The state, with all that was done before this call taken in.
    pub(crate) fn fresh(&self) -> MutexGuard<'_, Directories> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(feed)) = self.feed.get() {
            feed.drain(&mut |change| state.handle_change(change));
            while let Some(follow) = state.poll_unfollow() {
                feed.unfollow(follow);
            }
        }
        state
    }

    /// Whether names can be found here at all.
    fn is_active(&self) -> bool {
        self.is_enabled() && self.feed().is_some()
    }

    pub(crate) fn feed(&self) -> Option<&dyn ChangeFeed> {
        let start = || {
            let feed = self.inner.change_feed();
            feed.inspect_err(|error| tracing::info!(%error, "names are not kept")).ok()
        };
        self.feed.get_or_init(start).as_deref()
    }

    fn making(&self, directory: FileKey, name: &[u8]) -> MutexGuard<'_, ()> {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        // Not secret: who makes two names wait for each other gains nothing.
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let hash = hasher.hash_one((directory, &*fold_case(name))) as usize;
        self.making[hash % MAKING_LOCKS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_by_any_case(&self, who: &Identity, path: &RelPath, how: OpenHow) -> Result<Opened> {
        let exact = OpenHow { case: Case::Sensitive, ..how };
        let first = match self.inner.open(who, path, exact) {
            Err(error @ (FsError::NotFound | FsError::PathNotFound | FsError::WouldBlock)) => error,
            other => return other,
        };
        if has_no_case(path) {
            return Err(first);
        }
        match self.spell(who, path, how.wait)? {
            // Whether the caller may look for names there was not asked.
            Spelt::Missing(_) if first == FsError::WouldBlock => Err(first),
            Spelt::Missing(error) => Err(error),
            Spelt::Absent(spelt) => self.inner.open(who, &spelt, exact),
            Spelt::Unknown => self.inner.open(who, path, how),
            Spelt::As(spelt) => match self.inner.open(who, &spelt, exact) {
                // Gone since: whatever is there now, the backend finds.
                Err(FsError::NotFound | FsError::PathNotFound) if spelt != *path => {
                    self.inner.open(who, path, how)
                }
                other => other,
            },
        }
    }
}

impl Vfs for CachedVfs {
    fn open(&self, who: &Identity, path: &RelPath, how: OpenHow) -> Result<Opened> {
        if how.case == Case::Sensitive || path.is_root() || !self.is_active() {
            return self.inner.open(who, path, how);
        }
        self.open_by_any_case(who, path, how)
    }

    fn create(&self, who: &Identity, path: &RelPath, case: Case, how: CreateHow) -> Result<Opened> {
        if case == Case::Sensitive || !self.is_active() {
            return self.inner.create(who, path, case, how);
        }
        let Some((parent, name)) = path.split() else {
            return self.inner.create(who, path, case, how);
        };
        let directory = match self.directory(who, &parent, Wait::Allowed)? {
            Place::At(directory) => directory,
            Place::Missing(error) => return Err(error),
            Place::Unknown => return self.inner.create(who, path, case, how),
        };
        let _making = self.making(directory.key, name.as_bytes());
        match self.spell_name(&directory, &name, Wait::Allowed)? {
            Spelt::As(_) => Err(FsError::AlreadyExists),
            Spelt::Missing(_) | Spelt::Absent(_) => {
                self.inner.create(who, &directory.path.join(&name), Case::Sensitive, how)
            }
            Spelt::Unknown => self.inner.create(who, path, case, how),
        }
    }

    fn remove(&self, who: &Identity, path: &RelPath, expected: FileKey) -> Result<()> {
        self.inner.remove(who, path, expected)
    }

    fn rename(&self, who: &Identity, from: &RelPath, to: &RelPath, replace: Replace) -> Result<()> {
        self.inner.rename(who, from, to, replace)
    }

    fn link(&self, who: &Identity, node: &dyn Node, to: &RelPath, replace: Replace) -> Result<()> {
        self.inner.link(who, node, to, replace)
    }

    fn symlink(&self, who: &Identity, path: &RelPath, target: &[u8]) -> Result<Opened> {
        self.inner.symlink(who, path, target)
    }

    fn space(&self, who: &Identity) -> Result<Space> {
        self.inner.space(who)
    }

    fn quota_state(&self) -> QuotaState {
        self.inner.quota_state()
    }

    fn quota(&self, uid: u32) -> Result<Quota> {
        self.inner.quota(uid)
    }

    fn next_quota(&self, uid: u32) -> Result<(u32, Quota)> {
        self.inner.next_quota(uid)
    }

    fn set_quota(&self, uid: u32, limits: QuotaLimits) -> Result<()> {
        self.inner.set_quota(uid, limits)
    }

    fn watch(&self, directory: &dyn Node, tell: TellOutside) -> Result<Box<dyn OutsideWatch>> {
        self.inner.watch(directory, tell)
    }

    fn watch_tree(&self, tell: TellOutsideIn) -> Result<Box<dyn OutsideWatch>> {
        self.inner.watch_tree(tell)
    }

    fn watch_file(
        &self,
        file: &Arc<dyn Node>,
        every_write: bool,
        tell: TellChanged,
    ) -> Result<Box<dyn OutsideWatch>> {
        self.inner.watch_file(file, every_write, tell)
    }

    fn change_feed(&self) -> Result<Box<dyn ChangeFeed>> {
        self.inner.change_feed()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }
}
