//! Which files are open, and what is held on them.

use crate::caching::{
    BreakWait, CacheGrant, CacheHolder, CacheKeyWish, CacheWish, Claim, Heed, KeyIndex,
};
use crate::context::RequestContext;
use crate::delegation::client_owner;
use crate::directory_lease::ParentKey;
use crate::open_journal::{NamesInFlight, OpenJournal};
use crate::room::Extent;
use crate::stream::OpenStream;
use crate::watch::Watches;
use crate::{Access, Caller, Courtesy, Volume};
use futures_channel::oneshot;
use grants::{
    Awaited, BreakNumber, CacheBreak, CacheKey, CacheOwner, CacheState, Caching, Closed, Decided,
    FileGrants, LinkId, LockRefusal, OpenId, OpenWish, Refusal, Share, WaitId, insert_snugly,
};
use limits::{Account, FileUse, Share as Charge};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use vfs::{Attributes, FileKey, FsError, Keyed, Node, RelPath, StreamName, Vfs};

/// A power of two well above the number of cores.
const SHARDS: usize = 64;

/// Everything held on one open file.
#[derive(Debug)]
pub(crate) struct FileState {
    pub key: FileKey,
    /// What it was turned into.
    turned: OnceLock<FileKey>,
    pub is_directory: bool,
    /// Which stream of the file, if it is not the file itself.
    stream: Option<Arc<OpenStream>>,
    held: Mutex<Held>,
    /// Where keys are found that name it.
    keys: Arc<KeyIndex>,
    /// True if there may be byte-range locks: read without the mutex, so that
    /// files without any pay one load for them.
    has_locks: AtomicBool,
    /// True if there may be oplocks or leases; read without the mutex for the same reason.
    has_caches: AtomicBool,
    /// True if the archive bit is stored as cleared: the next change sets it.
    /// Read without the mutex, too.
    lacks_archive: AtomicBool,
    /// Counts changes of its length: see [`crate::OpenFile::note_length_change`].
    pub length_changes: AtomicU32,
    /// The journal has a record of an open of it, or may get one: read without the mutex, so that
    /// renames of other files pay one load.
    is_recorded: AtomicBool,
    /// What it has used of its share's limits on each file, if there are any.
    pub used: OnceLock<Box<FileUse>>,
    /// How far what it has counts for its share's size, if that has one.
    pub extent: Extent,
    /// Hears of changes by others while clients keep something.
    pub outside: Mutex<Option<Heed>>,
}

/// What is behind the mutex of a file.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub grants: FileGrants,
    /// The names by which it is open.
    names: Vec<Arc<OpenName>>,
    /// Who wanted which name to vanish: the last one to say so.
    doomed: Vec<Doomed>,
    /// Who is to be told of the end of a wait for a lock, in the order of waiting.
    waits: Vec<(WaitId, LockAnswer)>,
    /// What opens are charged for their byte ranges, also for those that they wait for.
    range_charges: BTreeMap<OpenId, Charge>,
    /// Whose clients keep something, and how they are told; by owner.
    holders: Vec<(CacheOwner, Arc<dyn CacheHolder>)>,
    /// Who is to be told when something was given back.
    break_waits: Vec<(Awaited, oneshot::Sender<()>)>,
    /// Named streams that are open. Each of their opens is among the file's too.
    streams: Vec<Arc<FileState>>,
}

/// Where the end of a wait for a lock is told.
pub(crate) type LockAnswer = oneshot::Sender<std::result::Result<(), LockRefusal>>;

/// A name that is shared by all opens that came by it; a rename changes it for all.
#[derive(Debug)]
pub(crate) struct OpenName {
    pub volume: Arc<Volume>,
    pub link: LinkId,
    /// The stream of it that is open, if it is not the file itself.
    pub stream: Option<Arc<OpenStream>>,
    path: Mutex<RelPath>,
}

impl OpenName {
    pub fn path(&self) -> RelPath {
        lock(&self.path).clone()
    }

    /// The file's attributes, as they are shown for its name.
    pub fn shown(&self, attributes: Attributes) -> Attributes {
        self.volume.shown(lock(&self.path).as_bytes(), attributes)
    }

    fn is(&self, vfs: &Arc<dyn Vfs>, path: &RelPath) -> bool {
        Arc::ptr_eq(&self.volume.vfs, vfs) && *lock(&self.path) == *path
    }
}

/// A name that vanishes, and as whose wish.
#[derive(Clone, Debug)]
pub(crate) struct Doomed {
    pub name: Arc<OpenName>,
    pub caller: Arc<Caller>,
    /// By which its client keeps the directory that it vanishes from.
    pub parent_key: Option<ParentKey>,
}

/// The state of one file, locked. What was decided meanwhile about waiting
/// locks is told when the guard goes.
pub(crate) struct Guard<'a> {
    state: &'a FileState,
    /// Whose request locked it, and causes the breaks.
    context: &'a RequestContext,
    held: Option<MutexGuard<'a, Held>>,
}

/// The state of one file, locked, and not to be changed.
pub(crate) struct Look<'a>(MutexGuard<'a, Held>);

impl Deref for Look<'_> {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.0
    }
}

impl Deref for Guard<'_> {
    type Target = Held;

    fn deref(&self) -> &Held {
        self.held.as_deref().expect("the mutex is held until the guard goes")
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Held {
        self.held.as_deref_mut().expect("the mutex is held until the guard goes")
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mut answers = Vec::new();
        while let Some(Decided { wait, result }) = self.grants.locks.poll_decided() {
            if let Ok(at) = self.waits.binary_search_by_key(&wait, |(id, _)| *id) {
                answers.push((self.waits.remove(at).1, result));
            }
        }
        while let Some(open) = self.grants.locks.poll_recounted() {
            self.settle_ranges(open);
        }
        let breaks = self.take_breaks();
        let settled = self.take_settled();
        self.state.has_locks.store(!self.grants.locks.is_empty(), Ordering::Release);
        let keeps = !self.grants.caches.is_empty();
        let has_kept = self.state.has_caches.swap(keeps, Ordering::AcqRel);
        if self.state.is_directory && has_kept != keeps {
            self.state.keys.count_directory(keeps);
        }
        self.held = None;
        if has_kept && !keeps {
            self.state.stop_heeding();
        }
        // Outside of the mutex: telling wakes tasks. Whoever has stopped
        // listening gives the lock back itself (see `lock`).
        for (answer, result) in answers {
            let _ = answer.send(result);
        }
        for (holder, told) in breaks {
            self.context.tell(holder, told);
        }
        for waiter in settled {
            let _ = waiter.send(());
        }
    }
}

impl Guard<'_> {
    /// The breaks to tell. Whoever has nothing left is forgotten.
    fn take_breaks(&mut self) -> Vec<(Arc<dyn CacheHolder>, CacheBreak)> {
        let mut breaks = Vec::new();
        while let Some(told) = self.grants.caches.poll_break() {
            if let Ok(at) = self.find_holder(told.owner) {
                breaks.push((self.holders[at].1.clone(), told));
            }
        }
        while let Some(gone) = self.grants.caches.poll_gone() {
            if let Ok(at) = self.find_holder(gone) {
                self.holders.remove(at);
            }
            if let CacheOwner::Key(key) = gone {
                self.state.keys.release(key);
            }
        }
        breaks
    }

    /// Those whose wait is over.
    fn take_settled(&mut self) -> Vec<oneshot::Sender<()>> {
        if !self.grants.caches.poll_settled() || self.break_waits.is_empty() {
            return Vec::new();
        }
        let held = &mut **self;
        let over = held.break_waits.extract_if(.., |(awaited, waiter)| {
            waiter.is_canceled() || !held.grants.holds_up(awaited)
        });
        over.map(|(_, waiter)| waiter).collect()
    }
}

impl Held {
    /// Charges an open for more byte ranges, before it locks or waits for them:
    /// [`Held::settle_ranges`] follows.
    ///
    /// # Errors
    /// [`FsError::TooMany`] if whom it is charged to has too many.
    pub fn charge_ranges(
        &mut self,
        open: OpenId,
        more: usize,
        account: &Arc<Account>,
    ) -> vfs::Result<()> {
        let charge = self.range_charges.entry(open).or_insert_with(|| account.force(0));
        charge.try_resize(charge.amount() + more as u64).map_err(|_| FsError::TooMany)
    }

    /// Charges an open for the byte ranges that it has although they may be too many: it had them
    /// before a restart.
    pub fn force_range_charge(&mut self, open: OpenId, account: &Arc<Account>) {
        self.range_charges.insert(open, account.force(0));
        self.settle_ranges(open);
    }

    /// From now on an open is charged for the byte ranges that it has and waits for.
    pub fn settle_ranges(&mut self, open: OpenId) {
        match self.grants.locks.count_of(open) {
            0 => drop(self.range_charges.remove(&open)),
            count => {
                self.range_charges.get_mut(&open).into_iter().for_each(|c| c.resize(count as u64));
            }
        }
    }

    /// An open has taken the place of another, and its byte ranges.
    pub fn take_over(&mut self, before: OpenId, id: OpenId) {
        self.grants.handle_taken_over(before, id);
        if let Some(charge) = self.range_charges.remove(&before) {
            self.range_charges.insert(id, charge);
        }
    }

    /// Tells `answer` when the wait is over.
    pub fn expect_decision(&mut self, wait: WaitId, answer: LockAnswer) {
        self.waits.push((wait, answer));
    }

    /// Nobody listens any more. True if the wait was not over.
    pub fn cancel_wait(&mut self, wait: WaitId) -> bool {
        self.waits.retain(|(id, _)| *id != wait);
        self.grants.locks.handle_cancel(wait)
    }

    /// Records who wants a name to vanish.
    pub fn doom(&mut self, doomed: Doomed) {
        self.forgive(doomed.name.link);
        self.doomed.push(doomed);
    }

    /// The name does not vanish, or has vanished.
    pub fn forgive(&mut self, link: LinkId) {
        self.doomed.retain(|d| d.name.link != link);
    }

    /// Every open that came by the name `from` has come by `to`.
    pub fn rename(&mut self, vfs: &Arc<dyn Vfs>, from: &RelPath, to: &RelPath) {
        for name in self.names.iter().filter(|name| name.is(vfs, from)) {
            *lock(&name.path) = to.clone();
        }
    }

    fn name(&mut self, volume: &Arc<Volume>, path: &RelPath) -> Arc<OpenName> {
        // Those whose opens have gone; a vanishing one is held by `doomed`.
        self.names.retain(|n| Arc::strong_count(n) > 1);
        let known = self.names.iter().find(|n| n.is(&volume.vfs, path));
        if let Some(name) = known.filter(|n| Arc::ptr_eq(&n.volume, volume)) {
            return name.clone();
        }
        // The same tree served under another name: another view of the same link.
        let link = known.map(|n| n.link).unwrap_or_else(|| self.grants.new_link());
        self.add_name(volume, link, path, None)
    }

    fn add_name(
        &mut self,
        volume: &Arc<Volume>,
        link: LinkId,
        path: &RelPath,
        stream: Option<Arc<OpenStream>>,
    ) -> Arc<OpenName> {
        let (volume, path) = (volume.clone(), Mutex::new(path.clone()));
        let name = Arc::new(OpenName { volume, link, stream, path });
        let end = self.names.len();
        insert_snugly(&mut self.names, end, name.clone());
        name
    }

    /// A name of the stream that this is about. A stream has one link, by
    /// whatever name of its file it is reached.
    fn stream_name(&mut self, file: &Entry<'_>, stream: &Arc<OpenStream>) -> Arc<OpenName> {
        self.names.retain(|n| Arc::strong_count(n) > 1);
        let same = |n: &&Arc<OpenName>| {
            Arc::ptr_eq(&n.volume, file.volume) && *lock(&n.path) == *file.path
        };
        if let Some(name) = self.names.iter().find(same) {
            return name.clone();
        }
        let link = self.names.first().map(|n| n.link).unwrap_or_else(|| self.grants.new_link());
        self.add_name(file.volume, link, file.path, Some(stream.clone()))
    }

    /// Enters an open, and who is to be told if it keeps something.
    fn enter(
        &mut self,
        context: &RequestContext,
        state: &Arc<FileState>,
        name: Arc<OpenName>,
        mut wish: OpenWish,
        cache: Option<&CacheWish>,
    ) -> std::result::Result<Entered, NotEntered> {
        match cache {
            Some(cache) => cache.enter(&mut wish),
            None => wish.key = self.key_of_client(context, state),
        }
        let claim = wish.key.map(|key| state.keys.claim(key, state));
        match claim {
            Some(Claim::Taken) => return Err(NotEntered::Refused(FsError::InvalidParameter)),
            Some(Claim::TooMany) => (wish.key, wish.caching) = (None, Caching::NONE),
            Some(Claim::New | Claim::Known) | None => {}
        }
        match self.grants.handle_open(&wish) {
            Ok(caching) => {
                let keeps = wish.key.is_some() || caching.has != Caching::NONE;
                let holder =
                    cache.filter(|_| keeps).map(|c| self.keep_holder(wish.owner(), &c.holder));
                let granting = holder.map(CacheGrant::new);
                Ok(Entered { state: state.clone(), name, key: wish.key, caching, granting })
            }
            Err(refusal) => {
                if let (Some(key), Some(Claim::New)) = (wish.key, claim) {
                    state.keys.release(key);
                }
                Err(self.not_entered(state.clone(), refusal, Awaited::Open(wish)))
            }
        }
    }

    /// The key under which the client that asks keeps the file, if it has delegations:
    /// what is opened for a moment to carry its request out does not disturb its own.
    fn key_of_client(&self, context: &RequestContext, state: &FileState) -> Option<CacheKey> {
        let owner = client_owner(context, state.key);
        match owner {
            CacheOwner::Key(key) if self.holder(owner).is_some() => Some(key),
            _ => None,
        }
    }

    /// Who is to be told of breaks of `owner`: who was told before, if anybody.
    pub fn keep_holder(
        &mut self,
        owner: CacheOwner,
        holder: &Arc<dyn CacheHolder>,
    ) -> Arc<dyn CacheHolder> {
        match self.find_holder(owner) {
            Ok(at) => self.holders[at].1.clone(),
            Err(at) => {
                insert_snugly(&mut self.holders, at, (owner, holder.clone()));
                holder.clone()
            }
        }
    }

    /// Who is told of breaks of `owner`.
    pub fn holder(&self, owner: CacheOwner) -> Option<&Arc<dyn CacheHolder>> {
        self.find_holder(owner).ok().map(|at| &self.holders[at].1)
    }

    fn find_holder(&self, owner: CacheOwner) -> std::result::Result<usize, usize> {
        self.holders.binary_search_by_key(&owner, |(owner, _)| *owner)
    }

    /// What comes of a refusal: the end, or a wait.
    pub fn not_entered(
        &mut self,
        state: Arc<FileState>,
        refusal: Refusal,
        awaited: Awaited,
    ) -> NotEntered {
        let Refusal::Breaking(number) = refusal else {
            return NotEntered::Refused(refused(refusal));
        };
        NotEntered::Breaking(self.wait_for(state, number, awaited))
    }

    /// A place among those who are told when something was given back.
    pub fn wait_for(
        &mut self,
        state: Arc<FileState>,
        number: BreakNumber,
        awaited: Awaited,
    ) -> BreakWait {
        let (tell, settled) = oneshot::channel();
        self.break_waits.retain(|(_, waiter)| !waiter.is_canceled());
        self.break_waits.push((awaited, tell));
        BreakWait { state, number, settled }
    }

    /// The names by which it is open, or was.
    pub fn names(&self) -> &[Arc<OpenName>] {
        &self.names
    }

    /// Whether a stream of the file is open.
    pub fn has_open_streams(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Whether the stream `name` of the file is open.
    pub fn has_open_stream(&self, name: &StreamName) -> bool {
        self.find_stream(name).is_some()
    }

    /// Whether an open of a stream does not share deletion: the file then
    /// cannot be opened for it.
    pub fn streams_forbid_delete(&self) -> bool {
        self.streams.iter().any(|s| s.look().grants.others_forbid_delete(OpenId(0)))
    }

    /// All streams of the file are about to be removed; their opens keep
    /// nothing but the file.
    pub fn lose_streams(&mut self) {
        for stream in self.streams.drain(..).filter_map(|state| state.stream.clone()) {
            stream.set_gone();
        }
    }

    fn find_stream(&self, name: &StreamName) -> Option<&Arc<FileState>> {
        self.streams.iter().find(|s| s.stream.as_ref().is_some_and(|open| open.is(name)))
    }
}

impl FileState {
    fn new(
        key: FileKey,
        is_directory: bool,
        stream: Option<Arc<OpenStream>>,
        keys: Arc<KeyIndex>,
    ) -> Arc<Self> {
        Arc::new(Self {
            key,
            turned: OnceLock::new(),
            is_directory,
            stream,
            held: Mutex::default(),
            keys,
            has_locks: AtomicBool::new(false),
            has_caches: AtomicBool::new(false),
            lacks_archive: AtomicBool::new(false),
            length_changes: AtomicU32::new(0),
            is_recorded: AtomicBool::new(false),
            used: OnceLock::new(),
            extent: Extent::new(),
            outside: Mutex::default(),
        })
    }

    /// Which file its name leads to: another where it was turned into one.
    pub fn present_key(&self) -> FileKey {
        self.turned.get().copied().unwrap_or(self.key)
    }

    pub fn set_present_key(&self, key: FileKey) {
        let _ = self.turned.set(key);
    }

    /// Locks it, to be changed by a request.
    pub fn lock<'a>(&'a self, context: &'a RequestContext) -> Guard<'a> {
        Guard { state: self, context, held: Some(lock(&self.held)) }
    }

    /// Locks it, to be looked at: nothing comes of that for anybody.
    pub fn look(&self) -> Look<'_> {
        Look(lock(&self.held))
    }

    /// Whether it is open by this name.
    pub fn has_name(&self, vfs: &Arc<dyn Vfs>, path: &RelPath) -> bool {
        self.look().names.iter().any(|name| name.is(vfs, path))
    }

    /// Whether this name of it is about to vanish.
    pub fn is_doomed_at(&self, vfs: &Arc<dyn Vfs>, path: &RelPath) -> bool {
        self.look().doomed.iter().any(|doomed| doomed.name.is(vfs, path))
    }

    /// Whether it is open in this tree, by whatever name.
    pub fn is_open_in(&self, vfs: &Arc<dyn Vfs>) -> bool {
        self.look().names.iter().any(|name| Arc::ptr_eq(&name.volume.vfs, vfs))
    }

    /// Whether it is of a named stream.
    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    pub fn has_locks(&self) -> bool {
        self.has_locks.load(Ordering::Acquire)
    }

    pub fn has_caches(&self) -> bool {
        self.has_caches.load(Ordering::Acquire)
    }

    /// Whether something keeps the file by its names: an open of Windows, or a
    /// removal that is under way.
    pub fn keeps_its_names(&self) -> bool {
        let held = self.look();
        held.grants.open_count() == 0 || !held.grants.all_posix()
    }

    /// See [`crate::OpenJournal`].
    pub fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::SeqCst)
    }

    pub fn note_recorded(&self) {
        self.is_recorded.store(true, Ordering::SeqCst);
    }

    /// The archive bit is stored as cleared, or not.
    pub fn note_archive(&self, lacks: bool) {
        self.lacks_archive.store(lacks, Ordering::Relaxed);
    }

    /// Whether the caller must set the archive bit: asked before every
    /// change, answered by yes once.
    pub fn take_lacks_archive(&self) -> bool {
        self.lacks_archive.load(Ordering::Relaxed)
            && self.lacks_archive.swap(false, Ordering::Relaxed)
    }
}

/// A name that must be removed now.
#[derive(Debug)]
pub(crate) struct Removal {
    pub link: LinkId,
    /// None if nobody said so, which is a broken invariant: nothing is removed then.
    pub doomed: Option<Doomed>,
}

/// An open that was entered.
pub(crate) struct Entered {
    pub state: Arc<FileState>,
    pub name: Arc<OpenName>,
    /// The key that it came under, if any.
    pub key: Option<CacheKey>,
    /// What its client may keep to itself.
    pub caching: CacheState,
    /// Until the client knows.
    pub granting: Option<CacheGrant>,
}

/// Why an open was not entered.
pub(crate) enum NotEntered {
    Refused(FsError),
    /// Others have to give something back first.
    Breaking(BreakWait),
}

impl From<FsError> for NotEntered {
    fn from(error: FsError) -> Self {
        Self::Refused(error)
    }
}

type Shard = HashMap<FileKey, Arc<FileState>, Keyed>;

/// All open files, in shards by key.
pub(crate) struct Table {
    shards: Vec<Mutex<Shard>>,
    renames_begun: AtomicU64,
    renames_ended: AtomicU64,
    /// Who is told of changes.
    pub watches: Watches,
    /// Which files clients mean by their keys.
    pub keys: Arc<KeyIndex>,
    removals: AtomicU64,
    /// Renames and links take turns: each looks at names before it changes
    /// them, and another in between would make it change those of other files.
    /// Waited for without a thread; calls on workers that hold the turn are charged to
    /// [`crate::CallHolder::Names`].
    pub rename_turns: Arc<futures_util::lock::Mutex<()>>,
    /// Who is asked before somebody is refused.
    pub courtesy: OnceLock<Weak<dyn Courtesy>>,
    /// Where opens are recorded that outlive the process.
    pub open_journal: OnceLock<Weak<dyn OpenJournal>>,
    /// Some open has been recorded, in the life of the process.
    pub has_recorded: AtomicBool,
    pub names_in_flight: NamesInFlight,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Default for Table {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            renames_begun: AtomicU64::new(0),
            renames_ended: AtomicU64::new(0),
            watches: Watches::default(),
            keys: Arc::default(),
            removals: AtomicU64::new(0),
            rename_turns: Arc::default(),
            courtesy: OnceLock::new(),
            open_journal: OnceLock::new(),
            has_recorded: AtomicBool::new(false),
            names_in_flight: NamesInFlight::default(),
        }
    }
}

/// A rename that is going on.
pub(crate) struct Renaming<'a>(&'a Table);

impl Drop for Renaming<'_> {
    fn drop(&mut self) {
        self.0.renames_ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// How a file is found again in the table: by which names, how many it has.
pub(crate) struct Entry<'a> {
    pub size_bytes: u64,
    pub key: FileKey,
    pub is_directory: bool,
    pub volume: &'a Arc<Volume>,
    pub path: &'a RelPath,
    pub only_link: bool,
}

impl Entry<'_> {
    /// Whether so many opens are all that its share allows of one file.
    fn has_too_many(&self, opens: usize) -> bool {
        let limits = self.volume.options.limits.as_ref();
        limits.is_some_and(|limits| opens >= limits.handles_max(self.path.is_root()) as usize)
    }
}

/// The same for a named stream.
pub(crate) struct StreamEntry<'a> {
    /// Its file, which the caller holds open.
    pub file: Entry<'a>,
    pub node: &'a Arc<dyn Node>,
    /// As it is stored.
    pub name: &'a StreamName,
}

impl Table {
    fn shard(&self, key: FileKey) -> MutexGuard<'_, Shard> {
        let hash = (key.inode ^ key.device.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        lock(&self.shards[(hash >> 58) as usize % SHARDS])
    }

    /// Enters an open; the link of `wish` is filled in.
    pub fn open(
        &self,
        context: &RequestContext,
        entry: &Entry<'_>,
        mut wish: OpenWish,
        cache: Option<&CacheWish>,
    ) -> std::result::Result<Entered, NotEntered> {
        let mut shard = self.shard(entry.key);
        let new = || FileState::new(entry.key, entry.is_directory, None, self.keys.clone());
        let state = shard.entry(entry.key).or_insert_with(new).clone();
        let mut held = state.lock(context);
        let name = held.name(entry.volume, entry.path);
        wish.link = name.link;
        wish.only_link = entry.only_link;
        wish.size_bytes = entry.size_bytes;
        let deletes = (wish.access | wish.once).contains(Access::DELETE);
        let result = if deletes && held.streams_forbid_delete() {
            Err(NotEntered::Refused(FsError::ShareViolation))
        } else if entry.has_too_many(held.grants.open_count()) {
            Err(NotEntered::Refused(FsError::TooManyHandles))
        } else {
            held.enter(context, &state, name, wish, cache)
        };
        end_entry(shard, held, &state);
        result
    }

    /// Enters what holds a delegation; the link of `wish` is filled in. Whoever is told of
    /// breaks of its key is told of those of the delegation.
    pub fn delegate(
        &self,
        context: &RequestContext,
        entry: &Entry<'_>,
        wish: OpenWish,
    ) -> std::result::Result<Entered, NotEntered> {
        let state = self.find(entry.key).ok_or(NotEntered::Refused(FsError::Stale))?;
        let holder = state.look().holder(wish.owner()).cloned();
        let holder = holder.ok_or(NotEntered::Refused(FsError::InvalidParameter))?;
        let CacheOwner::Key(key) = wish.owner() else {
            return Err(NotEntered::Refused(FsError::InvalidParameter));
        };
        let key = CacheKeyWish { key, epoch: 0, parent: None, of_directories: false };
        let cache = CacheWish { wanted: wish.caching, key: Some(key), holder };
        self.open(context, entry, wish, Some(&cache))
    }

    /// Asks for streams of a file that only a client's cache may still keep open,
    /// before `id` opens the file for deletion.
    ///
    /// # Errors
    /// [`NotEntered::Breaking`]; what is refused for good [`Table::open`] says.
    pub fn ask_streams(
        &self,
        context: &RequestContext,
        key: FileKey,
        id: OpenId,
    ) -> std::result::Result<(), NotEntered> {
        let Some(file) = self.find(key) else { return Ok(()) };
        let streams = file.look().streams.clone();
        for state in streams {
            let mut held = state.lock(context);
            if !held.grants.others_forbid_delete(id) {
                continue;
            }
            let wish = OpenWish::new(id, Access::DELETE, Share::ALL);
            if let Err(refusal @ Refusal::Breaking(_)) = held.grants.ask(&wish) {
                return Err(held.not_entered(state.clone(), refusal, Awaited::Open(wish)));
            }
        }
        Ok(())
    }

    /// Asks clients to close opens with the right to delete the file that only their caches may
    /// still keep, before a stream of it is opened that does not share deletion: those of the file
    /// or directory itself count, not those of its other streams. MS-FSA 2.1.5.1.2.2.
    ///
    /// # Errors
    /// [`NotEntered::Breaking`]; [`FsError::ShareViolation`] if one stays.
    pub fn ask_deleting(
        &self,
        context: &RequestContext,
        key: FileKey,
        wish: &OpenWish,
    ) -> std::result::Result<(), NotEntered> {
        let Some(file) = self.find(key).filter(|_| wish.denies_delete()) else { return Ok(()) };
        let mut held = file.lock(context);
        if !held.grants.is_open_for_delete() {
            return Ok(());
        }
        let share = Share(Share::READ.0 | Share::WRITE.0);
        let wish = OpenWish::new(wish.id, wish.access | wish.once, share);
        match held.grants.ask(&wish) {
            Err(refusal @ Refusal::Breaking(_)) => {
                Err(held.not_entered(file.clone(), refusal, Awaited::Open(wish)))
            }
            _ => Err(NotEntered::Refused(FsError::ShareViolation)),
        }
    }

    /// Enters an open of a stream of a file that is open; the link of `wish` is filled in.
    pub fn open_stream(
        &self,
        context: &RequestContext,
        entry: &StreamEntry<'_>,
        mut wish: OpenWish,
        cache: Option<&CacheWish>,
    ) -> std::result::Result<Entered, NotEntered> {
        let key = entry.file.key;
        let shard = self.shard(key);
        let file = shard.get(&key).ok_or(NotEntered::Refused(FsError::Stale))?.clone();
        if wish.denies_delete() && file.look().grants.is_open_for_delete() {
            return Err(NotEntered::Refused(FsError::ShareViolation));
        }
        let known = file.look().find_stream(entry.name).cloned();
        let (state, stream) = match known.as_ref().and_then(|s| Some((s, s.stream.as_ref()?))) {
            Some((state, stream)) => (state.clone(), stream.clone()),
            None => {
                let stream = OpenStream::new(entry.node.clone(), entry.name.clone());
                let state = FileState::new(key, false, Some(stream.clone()), self.keys.clone());
                file.lock(context).streams.push(state.clone());
                (state, stream)
            }
        };
        let mut held = state.lock(context);
        let name = held.stream_name(&entry.file, &stream);
        wish.link = name.link;
        let result = held.enter(context, &state, name, wish, cache);
        end_entry(shard, held, &state);
        result
    }

    /// Takes an open out. A name that must be removed cannot be opened until
    /// [`Table::removed`]. With `came_to_be` false its own wish to delete is void.
    pub fn close(
        &self,
        context: &RequestContext,
        state: &FileState,
        id: OpenId,
        came_to_be: bool,
    ) -> Option<Removal> {
        let shard = self.shard(state.key);
        let mut held = state.lock(context);
        let grants = &mut held.grants;
        let Closed { remove, .. } =
            if came_to_be { grants.handle_close(id) } else { grants.handle_withdraw(id) };
        let removal = remove.map(|link| Removal {
            link,
            doomed: held.doomed.iter().find(|d| d.name.link == link).cloned(),
        });
        end_entry(shard, held, state);
        removal
    }

    /// Ends a removal, whatever came of it.
    pub fn removed(&self, context: &RequestContext, state: &FileState, link: LinkId) {
        // Before the entry goes: whoever has looked the name up already must
        // meet either the entry or this.
        self.removals.fetch_add(1, Ordering::SeqCst);
        let shard = self.shard(state.key);
        let mut held = state.lock(context);
        held.forgive(link);
        held.grants.handle_removed(link);
        end_entry(shard, held, state);
    }

    /// What is held on a file, if it is open.
    pub fn find(&self, key: FileKey) -> Option<Arc<FileState>> {
        self.shard(key).get(&key).cloned()
    }

    /// Whether a directory is about to vanish, so that nothing may be made in it.
    pub fn is_vanishing(&self, key: FileKey, vfs: &Arc<dyn Vfs>, path: &RelPath) -> bool {
        self.find(key).is_some_and(|state| {
            let held = state.look();
            held.names.iter().any(|n| n.is(vfs, path) && held.grants.is_delete_pending(n.link))
        })
    }

    /// The files below the directory `path` that are open; with `but_posix`, by
    /// others than POSIX, which does not mind.
    pub fn open_below(
        &self,
        volume: &Arc<Volume>,
        path: &RelPath,
        but_posix: bool,
    ) -> Vec<Arc<FileState>> {
        let is_below = |name: &Arc<OpenName>| {
            let at = lock(&name.path);
            Arc::strong_count(name) > 1
                && Arc::ptr_eq(&name.volume.vfs, &volume.vfs)
                && *at != *path
                && at.starts_with(path)
        };
        let minds = |state: &FileState| !but_posix || state.keeps_its_names();
        let mut below = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            let found = shard
                .values()
                .filter(|state| minds(state) && state.look().names.iter().any(is_below));
            below.extend(found.cloned());
        }
        below
    }

    /// The files and streams on which clients keep something.
    pub fn cached(&self) -> Vec<Arc<FileState>> {
        let mut cached = Vec::new();
        for shard in &self.shards {
            for state in lock(shard).values() {
                let streams = lock(&state.held).streams.clone();
                let all = std::iter::once(state.clone()).chain(streams);
                cached.extend(all.filter(|state| state.has_caches()));
            }
        }
        cached
    }

    /// A directory was renamed: what is open below it has another path.
    pub fn rename_below(&self, vfs: &Arc<dyn Vfs>, from: &RelPath, to: &RelPath) {
        for shard in &self.shards {
            for state in lock(shard).values() {
                let held = state.look();
                for name in held.names.iter().filter(|n| Arc::ptr_eq(&n.volume.vfs, vfs)) {
                    let mut path = lock(&name.path);
                    if let Some(moved) = path.moved(from, to) {
                        *path = moved;
                    }
                }
            }
        }
    }

    /// Announces a rename: opens that run meanwhile look again (see [`Table::epoch`]).
    pub fn begin_rename(&self) -> Renaming<'_> {
        self.renames_begun.fetch_add(1, Ordering::SeqCst);
        Renaming(self)
    }

    /// A number to remember before a path is resolved: if it is another one
    /// after the open was entered, the name may have been removed meanwhile.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::SeqCst)
    }

    /// A number to remember before a path is resolved; none while a rename is
    /// going on. If it is another one after the open was entered, the path may
    /// have been given to another file meanwhile.
    ///
    /// Either a rename sees an open that was entered, or that open sees that
    /// the rename has begun: both are announced before they look.
    pub fn epoch(&self) -> Option<u64> {
        let ended = self.renames_ended.load(Ordering::SeqCst);
        (self.renames_begun.load(Ordering::SeqCst) == ended).then_some(ended)
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| lock(s).len()).sum()
    }
}

/// Ends what was begun with both locked. Whoever is told something when the
/// file is unlocked is told after the table is.
fn end_entry(mut shard: MutexGuard<'_, Shard>, held: Guard<'_>, state: &FileState) {
    if held.grants.is_idle() {
        // Nobody is left to be told of anything. A stream is forgotten by its
        // file, which is locked before its streams.
        let heed = lock(&state.outside).take();
        drop(held);
        forget(&mut shard, state);
        drop(shard);
        // Unlocked: it is a backend call.
        drop(heed);
    } else {
        drop(shard);
    }
}

/// Nothing is held on it any more. A stream's file is there as long as the
/// stream, for it is held with it.
fn forget(shard: &mut Shard, state: &FileState) {
    if state.stream.is_none() {
        shard.remove(&state.key);
    } else if let Some(file) = shard.get(&state.key) {
        file.lock(&RequestContext::SERVER).streams.retain(|s| !std::ptr::eq(&**s, state));
    }
}

fn refused(refusal: Refusal) -> FsError {
    match refusal {
        Refusal::DeletePending => FsError::DeletePending,
        Refusal::ShareViolation | Refusal::Breaking(_) => FsError::ShareViolation,
        Refusal::Away => FsError::Unavailable,
        Refusal::TooMany => FsError::TooMany,
    }
}

/// Values behind these mutexes are changed by single assignments and by pure
/// state machines: a panic elsewhere leaves them whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
