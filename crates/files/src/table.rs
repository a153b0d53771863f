//! Table of open files, with the grants on each: opens, byte-range locks, oplocks, leases and
//! delegations.

use crate::cache_holder::{
    CacheGrant, CacheHolder, CacheKeyWish, CacheWish, ParentKey, client_owner,
};
use crate::caching::{KeyClaim, KeyIndex};
use crate::context::RequestContext;
use crate::open_journal::{NamesInFlight, OpenJournal};
use crate::open_name::OpenName;
use crate::open_stream::OpenStream;
use crate::rename_turns::RenameTurns;
use crate::watch::Watches;
use crate::{Access, Caller, CourtesyClients, Volume};
use futures_channel::oneshot;
use grants::{
    BlockedOperation, BreakNumber, CacheBreak, CacheKey, CacheOwner, CacheState, CachingRights,
    CloseOutcome, FileGrants, GrantRefusal, LinkId, LockDecision, LockRefusal, OpenId, OpenWish,
    ShareMode, WaitId, insert_exact,
};
use limits::{FileBuckets, LedgerAccount, ResourceCharge};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use sync::{Mutex, MutexGuard};
use vfs::{ExternalWatch, FileKey, FsError, KeyedBuildHasher, Node, RelPath, StreamName, Vfs};

/// Number of shards: a power of two well above the number of cores.
const SHARDS: usize = 64;

/// State of one open file.
#[derive(Debug)]
pub(crate) struct OpenFileState {
    pub key: FileKey,
    /// Key of the file that replaced this one under its name, if any.
    replacement: OnceLock<FileKey>,
    pub is_directory: bool,
    /// The named stream that this state describes; none for the file itself.
    stream: Option<Arc<OpenStream>>,
    held: Mutex<FileRecord>,
    /// Index of the lease keys that refer to the file.
    keys: Arc<KeyIndex<OpenFileState>>,
    /// True if there may be byte-range locks. It is read without the mutex, so that a file without
    /// locks costs one load.
    has_locks: AtomicBool,
    /// True if there may be oplocks or leases; read without the mutex for the same reason.
    has_caches: AtomicBool,
    /// True if the stored archive attribute is clear: the next change sets it. Read without the
    /// mutex, too.
    lacks_archive: AtomicBool,
    /// True if the stored last access time is older than a write by a Windows client: see
    /// [`crate::OpenFile::advance_access_time`]. Read without the mutex, too.
    is_access_time_stale: AtomicBool,
    /// Number of size changes: see [`crate::OpenFile::note_length_change`].
    pub length_changes: AtomicU32,
    /// True if the journal has, or may get, a record of an open of the file. It is read without the
    /// mutex, so that renames of other files cost one load.
    is_recorded: AtomicBool,
    /// Usage counted against its share's limits per file, if there are any.
    pub used: OnceLock<Box<FileBuckets>>,
    /// The furthest end that is charged to its share's size limit, once known: see [`crate::room`].
    pub extent: OnceLock<AtomicU64>,
    /// Notification of external changes while clients cache the file.
    pub external_watch: Mutex<Option<ExternalChangeWatch>>,
}

/// Watch on a file or directory that clients cache.
#[derive(Debug)]
pub(crate) struct ExternalChangeWatch {
    /// Whether the watch reports every write, else a close after writes.
    pub every_write: bool,
    /// Watch that ends on drop.
    pub _watch: Box<dyn ExternalWatch>,
}

/// State of a file behind its mutex.
#[derive(Debug, Default)]
pub(crate) struct FileRecord {
    pub grants: FileGrants,
    /// Names by which the file is open.
    names: Vec<Arc<OpenName>>,
    /// Delete-pending names, each with the last caller that requested the deletion.
    pending_deletes: Vec<DeletePendingName>,
    /// Replies for waiting byte-range locks, in order of their wait.
    waits: Vec<(WaitId, LockAnswer)>,
    /// Ledger charges of each open for its byte ranges, including those it waits for.
    range_charges: BTreeMap<OpenId, ResourceCharge>,
    /// Cache holders that receive break notifications, by owner.
    holders: Vec<(CacheOwner, Arc<dyn CacheHolder>)>,
    /// Operations that wait for breaks, with the channel that wakes each.
    break_waits: Vec<(BlockedOperation, oneshot::Sender<()>)>,
    /// Open named streams. Each open of one also holds the file.
    streams: Vec<Arc<OpenFileState>>,
}

/// Channel for the result of a waiting lock.
pub(crate) type LockAnswer = oneshot::Sender<std::result::Result<(), LockRefusal>>;

/// A delete-pending name and the caller that requested the deletion.
#[derive(Clone, Debug)]
pub(crate) struct DeletePendingName {
    pub name: Arc<OpenName>,
    pub caller: Arc<Caller>,
    /// Lease key under which the caller's client caches the parent directory.
    pub parent_key: Option<ParentKey>,
}

/// The locked state of one file. Dropping it sends the results of waiting locks and the breaks that
/// the changes caused.
pub(crate) struct FileStateGuard<'a> {
    state: &'a OpenFileState,
    /// Context of the request that locked the file and causes the breaks.
    context: &'a RequestContext,
    held: Option<MutexGuard<'a, FileRecord>>,
}

/// The locked state of one file, read-only.
pub(crate) struct FileStateView<'a>(MutexGuard<'a, FileRecord>);

impl Deref for FileStateView<'_> {
    type Target = FileRecord;

    fn deref(&self) -> &FileRecord {
        &self.0
    }
}

impl Deref for FileStateGuard<'_> {
    type Target = FileRecord;

    fn deref(&self) -> &FileRecord {
        self.held.as_deref().expect("the guard holds the mutex until it is dropped")
    }
}

impl DerefMut for FileStateGuard<'_> {
    fn deref_mut(&mut self) -> &mut FileRecord {
        self.held.as_deref_mut().expect("the guard holds the mutex until it is dropped")
    }
}

impl Drop for FileStateGuard<'_> {
    fn drop(&mut self) {
        let mut answers = Vec::new();
        while let Some(LockDecision { wait, result }) = self.grants.locks.poll_decision() {
            if let Ok(at) = self.waits.binary_search_by_key(&wait, |(id, _)| *id) {
                answers.push((self.waits.remove(at).1, result));
            }
        }
        while let Some(open) = self.grants.locks.poll_count_change() {
            self.settle_ranges(open);
        }
        let breaks = self.take_breaks();
        let settled = self.take_settled();
        self.state.has_locks.store(!self.grants.locks.is_empty(), Ordering::Release);
        let has_caches = !self.grants.caches.is_empty();
        let had_caches = self.state.has_caches.swap(has_caches, Ordering::AcqRel);
        if self.state.is_directory && had_caches != has_caches {
            self.state.keys.count_directory(has_caches);
        }
        self.held = None;
        if had_caches && !has_caches {
            self.state.stop_external_watch();
        }
        // Sent without the mutex, since it wakes tasks. A cancelled waiter releases its lock itself
        // (see `lock`).
        for (answer, result) in answers {
            let _ = answer.send(result);
        }
        for (holder, cache_break) in breaks {
            self.context.send_break(holder, cache_break);
        }
        for waiter in settled {
            let _ = waiter.send(());
        }
    }
}

impl FileStateGuard<'_> {
    /// Takes the breaks to send, and drops holders that cache nothing any more.
    fn take_breaks(&mut self) -> Vec<(Arc<dyn CacheHolder>, CacheBreak)> {
        let mut breaks = Vec::new();
        while let Some(cache_break) = self.grants.caches.poll_break() {
            if let Ok(at) = self.find_holder(cache_break.owner) {
                breaks.push((self.holders[at].1.clone(), cache_break));
            }
        }
        while let Some(removed_owner) = self.grants.caches.poll_removed_owner() {
            if let Ok(at) = self.find_holder(removed_owner) {
                self.holders.remove(at);
            }
            if let CacheOwner::Key(key) = removed_owner {
                self.state.keys.release(key);
            }
        }
        breaks
    }

    /// Takes the waiters whose wait has ended.
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

impl FileRecord {
    /// Charges an open for more byte ranges, before it locks or waits for them.
    /// [`FileRecord::settle_ranges`] must follow.
    ///
    /// # Errors
    /// [`FsError::TooMany`] if the charged holder exceeds its limit.
    pub fn charge_ranges(
        &mut self,
        open: OpenId,
        more: usize,
        account: &Arc<LedgerAccount>,
    ) -> vfs::Result<()> {
        let charge = self.range_charges.entry(open).or_insert_with(|| account.force(0));
        charge.try_resize(charge.amount() + more as u64).map_err(|_| FsError::TooMany)
    }

    /// Charges an open for its byte ranges beyond any limit: it held them before a restart.
    pub fn force_range_charge(&mut self, open: OpenId, account: &Arc<LedgerAccount>) {
        self.range_charges.insert(open, account.force(0));
        self.settle_ranges(open);
    }

    /// Sets the charge of an open to the byte ranges that it holds and waits for.
    pub fn settle_ranges(&mut self, open: OpenId) {
        match self.grants.locks.count_of(open) {
            0 => drop(self.range_charges.remove(&open)),
            count => {
                self.range_charges.get_mut(&open).into_iter().for_each(|c| c.resize(count as u64));
            }
        }
    }

    /// Transfers grants and byte ranges of the open `before` to the open `id` that replaces it.
    pub fn transfer(&mut self, before: OpenId, id: OpenId) {
        self.grants.handle_replaced(before, id);
        if let Some(charge) = self.range_charges.remove(&before) {
            self.range_charges.insert(id, charge);
        }
    }

    /// Sends the result of `wait` to `answer`.
    pub fn expect_decision(&mut self, wait: WaitId, answer: LockAnswer) {
        self.waits.push((wait, answer));
    }

    /// Cancels a wait. Returns true if it had not ended.
    pub fn cancel_wait(&mut self, wait: WaitId) -> bool {
        self.waits.retain(|(id, _)| *id != wait);
        self.grants.locks.handle_cancel(wait)
    }

    /// Records a delete-pending name and its caller.
    pub fn set_delete_pending(&mut self, pending: DeletePendingName) {
        self.clear_delete_pending(pending.name.link);
        self.pending_deletes.push(pending);
    }

    /// Drops the delete-pending record of a name that was removed or stays.
    pub fn clear_delete_pending(&mut self, link: LinkId) {
        self.pending_deletes.retain(|d| d.name.link != link);
    }

    /// Renames `from` to `to` for every open by that name.
    pub fn rename(&mut self, vfs: &Arc<dyn Vfs>, from: &RelPath, to: &RelPath) {
        for name in self.names.iter().filter(|name| name.is(vfs, from)) {
            *name.lock_path() = to.clone();
        }
    }

    fn name(&mut self, volume: &Arc<Volume>, path: &RelPath) -> Arc<OpenName> {
        // Drops names without opens; `pending_deletes` keeps a delete-pending one.
        self.names.retain(|n| Arc::strong_count(n) > 1);
        let known = self.names.iter().find(|n| n.is(&volume.vfs, path));
        if let Some(name) = known.filter(|n| Arc::ptr_eq(&n.volume, volume)) {
            return name.clone();
        }
        // The same tree served by another volume: another view of the same link.
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
        let name = OpenName::new(volume, link, path, stream);
        let end = self.names.len();
        insert_exact(&mut self.names, end, name.clone());
        name
    }

    /// Name of the stream that this state describes. A stream has one link, through any name of its
    /// file.
    fn stream_name(&mut self, file: &OpenedEntry<'_>, stream: &Arc<OpenStream>) -> Arc<OpenName> {
        self.names.retain(|n| Arc::strong_count(n) > 1);
        let same = |n: &&Arc<OpenName>| {
            Arc::ptr_eq(&n.volume, file.volume) && *n.lock_path() == *file.path
        };
        if let Some(name) = self.names.iter().find(same) {
            return name.clone();
        }
        let link = self.names.first().map(|n| n.link).unwrap_or_else(|| self.grants.new_link());
        self.add_name(file.volume, link, file.path, Some(stream.clone()))
    }

    /// Registers an open, and its cache holder if caching is granted.
    fn enter(
        &mut self,
        context: &RequestContext,
        state: &Arc<OpenFileState>,
        name: Arc<OpenName>,
        mut wish: OpenWish,
        cache: Option<&CacheWish>,
    ) -> std::result::Result<RegisteredOpen, OpenRefusal> {
        match cache {
            Some(cache) => cache.enter(&mut wish),
            None => wish.key = self.key_of_client(context, state),
        }
        let claim = wish.key.map(|key| state.keys.claim(key, state));
        match claim {
            Some(KeyClaim::Taken) => return Err(OpenRefusal::Refused(FsError::InvalidParameter)),
            Some(KeyClaim::TooMany) => (wish.key, wish.caching) = (None, CachingRights::NONE),
            Some(KeyClaim::New | KeyClaim::Same) | None => {}
        }
        match self.grants.handle_open(&wish) {
            Ok(caching) => {
                let has_caches = wish.key.is_some() || caching.has != CachingRights::NONE;
                let holder = cache
                    .filter(|_| has_caches)
                    .map(|c| self.register_holder(wish.owner(), &c.holder));
                let granting = holder.map(CacheGrant::new);
                Ok(RegisteredOpen { state: state.clone(), name, key: wish.key, caching, granting })
            }
            Err(refusal) => {
                if let (Some(key), Some(KeyClaim::New)) = (wish.key, claim) {
                    state.keys.release(key);
                }
                Err(self.refuse_or_wait(state.clone(), refusal, BlockedOperation::Open(wish)))
            }
        }
    }

    /// Delegation key of the requesting client, if it has delegations of the file. An internal open
    /// for its request must not recall them.
    fn key_of_client(&self, context: &RequestContext, state: &OpenFileState) -> Option<CacheKey> {
        let owner = client_owner(context.client(), state.key);
        match owner {
            CacheOwner::Key(key) if self.holder(owner).is_some() => Some(key),
            _ => None,
        }
    }

    /// Returns the registered holder of `owner`, or registers `holder`.
    pub fn register_holder(
        &mut self,
        owner: CacheOwner,
        holder: &Arc<dyn CacheHolder>,
    ) -> Arc<dyn CacheHolder> {
        match self.find_holder(owner) {
            Ok(at) => self.holders[at].1.clone(),
            Err(at) => {
                insert_exact(&mut self.holders, at, (owner, holder.clone()));
                holder.clone()
            }
        }
    }

    /// The holder that receives breaks of `owner`.
    pub fn holder(&self, owner: CacheOwner) -> Option<&Arc<dyn CacheHolder>> {
        self.find_holder(owner).ok().map(|at| &self.holders[at].1)
    }

    fn find_holder(&self, owner: CacheOwner) -> std::result::Result<usize, usize> {
        self.holders.binary_search_by_key(&owner, |(owner, _)| *owner)
    }

    /// Converts a refusal into an error or a wait for breaks.
    pub fn refuse_or_wait(
        &mut self,
        state: Arc<OpenFileState>,
        refusal: GrantRefusal,
        awaited: BlockedOperation,
    ) -> OpenRefusal {
        let GrantRefusal::Breaking(number) = refusal else {
            return OpenRefusal::Refused(refused(refusal));
        };
        OpenRefusal::Breaking(self.wait_for(state, number, awaited))
    }

    /// Registers a waiter that is woken when a break ends.
    pub fn wait_for(
        &mut self,
        state: Arc<OpenFileState>,
        number: BreakNumber,
        awaited: BlockedOperation,
    ) -> BreakWait {
        let (waker, settled) = oneshot::channel();
        self.break_waits.retain(|(_, waiter)| !waiter.is_canceled());
        self.break_waits.push((awaited, waker));
        BreakWait { state, number, settled }
    }

    /// The names by which the file is or was open.
    pub fn names(&self) -> &[Arc<OpenName>] {
        &self.names
    }

    /// Whether any stream of the file is open.
    pub fn has_open_streams(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Whether the stream `name` of the file is open.
    pub fn has_open_stream(&self, name: &StreamName) -> bool {
        self.find_stream(name).is_some()
    }

    /// Whether an open of a stream denies shared deletion, which forbids opening the file for
    /// DELETE.
    pub fn streams_forbid_delete(&self) -> bool {
        self.streams.iter().any(|s| s.view().grants.others_forbid_delete(OpenId(0)))
    }

    /// Detaches all streams, which are about to be removed. Their opens hold only the file from
    /// then on.
    pub fn detach_streams(&mut self) {
        for stream in self.streams.drain(..).filter_map(|state| state.stream.clone()) {
            stream.set_gone();
        }
    }

    fn find_stream(&self, name: &StreamName) -> Option<&Arc<OpenFileState>> {
        self.streams.iter().find(|s| s.stream.as_ref().is_some_and(|open| open.is(name)))
    }
}

impl OpenFileState {
    fn new(
        key: FileKey,
        is_directory: bool,
        stream: Option<Arc<OpenStream>>,
        keys: Arc<KeyIndex<OpenFileState>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            key,
            replacement: OnceLock::new(),
            is_directory,
            stream,
            held: Mutex::default(),
            keys,
            has_locks: AtomicBool::new(false),
            has_caches: AtomicBool::new(false),
            lacks_archive: AtomicBool::new(false),
            is_access_time_stale: AtomicBool::new(false),
            length_changes: AtomicU32::new(0),
            is_recorded: AtomicBool::new(false),
            used: OnceLock::new(),
            extent: OnceLock::new(),
            external_watch: Mutex::default(),
        })
    }

    /// Key of the file that the name refers to now, if it was replaced.
    pub fn present_key(&self) -> FileKey {
        self.replacement.get().copied().unwrap_or(self.key)
    }

    pub fn set_present_key(&self, key: FileKey) {
        let _ = self.replacement.set(key);
    }

    /// Locks the state for changes by a request.
    pub fn lock<'a>(&'a self, context: &'a RequestContext) -> FileStateGuard<'a> {
        FileStateGuard { state: self, context, held: Some(self.held.lock()) }
    }

    /// Locks the state read-only: no break or result is sent.
    pub fn view(&self) -> FileStateView<'_> {
        FileStateView(self.held.lock())
    }

    /// Whether the file is open by this name.
    pub fn has_name(&self, vfs: &Arc<dyn Vfs>, path: &RelPath) -> bool {
        self.view().names.iter().any(|name| name.is(vfs, path))
    }

    /// Whether this name of the file is delete pending.
    pub fn is_delete_pending_at(&self, vfs: &Arc<dyn Vfs>, path: &RelPath) -> bool {
        self.view().pending_deletes.iter().any(|pending| pending.name.is(vfs, path))
    }

    /// Whether the file is open in this tree, by any name.
    pub fn is_open_in(&self, vfs: &Arc<dyn Vfs>) -> bool {
        self.view().names.iter().any(|name| Arc::ptr_eq(&name.volume.vfs, vfs))
    }

    /// Whether this is the state of a named stream.
    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    pub fn has_locks(&self) -> bool {
        self.has_locks.load(Ordering::Acquire)
    }

    pub fn has_caches(&self) -> bool {
        self.has_caches.load(Ordering::Acquire)
    }

    /// Whether the names must not change: a Windows open or a removal in flight holds the file.
    pub fn pins_names(&self) -> bool {
        let held = self.view();
        held.grants.open_count() == 0 || !held.grants.all_posix()
    }

    /// Stops the watch once no client caches the file.
    pub fn stop_external_watch(&self) {
        let watch_ = self.external_watch.lock().take();
        drop(watch_);
    }

    /// See [`crate::OpenJournal`].
    pub fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::SeqCst)
    }

    pub fn note_recorded(&self) {
        self.is_recorded.store(true, Ordering::SeqCst);
    }

    /// Records whether the stored archive attribute is clear.
    pub fn note_archive(&self, lacks: bool) {
        self.lacks_archive.store(lacks, Ordering::Relaxed);
    }

    /// Whether the caller must set the archive attribute. Call it before every change; it returns
    /// true once.
    pub fn take_lacks_archive(&self) -> bool {
        self.lacks_archive.load(Ordering::Relaxed)
            && self.lacks_archive.swap(false, Ordering::Relaxed)
    }

    /// Records whether the stored last access time is older than a write. It costs one load if
    /// nothing changes.
    pub fn set_access_time_stale(&self, is_stale: bool) {
        if self.is_access_time_stale() != is_stale {
            self.is_access_time_stale.store(is_stale, Ordering::Release);
        }
    }

    pub fn is_access_time_stale(&self) -> bool {
        self.is_access_time_stale.load(Ordering::Acquire)
    }
}

/// A name that the caller of [`FileTable::close`] must remove.
#[derive(Debug)]
pub(crate) struct Removal {
    pub link: LinkId,
    /// None if no caller requested it, a broken invariant: the name stays then.
    pub pending: Option<DeletePendingName>,
}

/// A registered open.
pub(crate) struct RegisteredOpen {
    pub state: Arc<OpenFileState>,
    pub name: Arc<OpenName>,
    /// Lease or delegation key of the open, if any.
    pub key: Option<CacheKey>,
    /// Caching that is granted to the client.
    pub caching: CacheState,
    /// Delays breaks until the client knows of the grant.
    pub granting: Option<CacheGrant>,
}

/// Reason why an open was not registered.
pub(crate) enum OpenRefusal {
    Refused(FsError),
    /// Other clients must acknowledge a break or return a delegation first.
    Breaking(BreakWait),
}

/// A wait for another client's acknowledgement.
#[derive(Debug)]
pub(crate) struct BreakWait {
    pub state: Arc<OpenFileState>,
    pub number: BreakNumber,
    pub settled: oneshot::Receiver<()>,
}

impl From<FsError> for OpenRefusal {
    fn from(error: FsError) -> Self {
        Self::Refused(error)
    }
}

type Shard = HashMap<FileKey, Arc<OpenFileState>, KeyedBuildHasher>;

/// All open files, in shards by key.
pub(crate) struct FileTable {
    shards: Vec<Mutex<Shard>>,
    /// Watches that receive change notifications.
    pub watches: Watches,
    /// Files by lease key.
    pub keys: Arc<KeyIndex<OpenFileState>>,
    removals: AtomicU64,
    /// Turns of renames, links and removals. The wait takes no thread; calls on workers that hold a
    /// turn are charged to [`crate::CallHolder::Names`].
    pub rename_turns: Arc<RenameTurns>,
    /// Protocol with courtesy clients, consulted before a conflict is reported.
    pub courtesy: OnceLock<Weak<dyn CourtesyClients>>,
    /// Journal of opens that outlive the process.
    pub open_journal: OnceLock<Weak<dyn OpenJournal>>,
    /// Whether an open has been journaled since the process started.
    pub has_recorded: AtomicBool,
    pub names_in_flight: NamesInFlight,
}

impl std::fmt::Debug for FileTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTable").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Default for FileTable {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
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

/// Facts about a file that its open needs: key, name, size and link count.
pub(crate) struct OpenedEntry<'a> {
    pub size_bytes: u64,
    pub key: FileKey,
    pub is_directory: bool,
    pub volume: &'a Arc<Volume>,
    pub path: &'a RelPath,
    pub only_link: bool,
}

impl OpenedEntry<'_> {
    /// Whether `opens` reaches the share's limit for one file.
    fn has_too_many(&self, opens: usize) -> bool {
        let limits = self.volume.options.limits.as_ref();
        limits.is_some_and(|limits| opens >= limits.handles_max(self.path.is_root()) as usize)
    }
}

/// The same for a named stream.
pub(crate) struct StreamOpenEntry<'a> {
    /// The file, which the caller holds open.
    pub file: OpenedEntry<'a>,
    pub node: &'a Arc<dyn Node>,
    /// Name as stored.
    pub name: &'a StreamName,
}

impl FileTable {
    fn shard(&self, key: FileKey) -> MutexGuard<'_, Shard> {
        let hash = (key.inode ^ key.device.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.shards[(hash >> 58) as usize % SHARDS].lock()
    }

    /// Registers an open; sets the link of `wish`.
    pub fn open(
        &self,
        context: &RequestContext,
        entry: &OpenedEntry<'_>,
        mut wish: OpenWish,
        cache: Option<&CacheWish>,
    ) -> std::result::Result<RegisteredOpen, OpenRefusal> {
        let mut shard = self.shard(entry.key);
        let new = || OpenFileState::new(entry.key, entry.is_directory, None, self.keys.clone());
        let state = shard.entry(entry.key).or_insert_with(new).clone();
        let mut held = state.lock(context);
        let name = held.name(entry.volume, entry.path);
        wish.link = name.link;
        wish.only_link = entry.only_link;
        wish.size_bytes = entry.size_bytes;
        let deletes = (wish.access | wish.opening_access).contains(Access::DELETE);
        let result = if deletes && held.streams_forbid_delete() {
            Err(OpenRefusal::Refused(FsError::ShareViolation))
        } else if entry.has_too_many(held.grants.open_count()) {
            Err(OpenRefusal::Refused(FsError::TooManyHandles))
        } else {
            held.enter(context, &state, name, wish, cache)
        };
        end_entry(shard, held, &state);
        result
    }

    /// Registers a delegation; sets the link of `wish`. The holder of its key receives the breaks.
    pub fn delegate(
        &self,
        context: &RequestContext,
        entry: &OpenedEntry<'_>,
        wish: OpenWish,
    ) -> std::result::Result<RegisteredOpen, OpenRefusal> {
        let state = self.find(entry.key).ok_or(OpenRefusal::Refused(FsError::Stale))?;
        let holder = state.view().holder(wish.owner()).cloned();
        let holder = holder.ok_or(OpenRefusal::Refused(FsError::InvalidParameter))?;
        let CacheOwner::Key(key) = wish.owner() else {
            return Err(OpenRefusal::Refused(FsError::InvalidParameter));
        };
        let key = CacheKeyWish { key, epoch: 0, parent: None, of_directories: false };
        let cache = CacheWish { wanted: wish.caching, key: Some(key), holder };
        self.open(context, entry, wish, Some(&cache))
    }

    /// Breaks handle caching of streams that deny deletion, before `id` opens the file for DELETE.
    ///
    /// # Errors
    /// [`OpenRefusal::Breaking`]; [`FileTable::open`] reports final refusals.
    pub fn break_stream_handles(
        &self,
        context: &RequestContext,
        key: FileKey,
        id: OpenId,
    ) -> std::result::Result<(), OpenRefusal> {
        let Some(file) = self.find(key) else { return Ok(()) };
        let streams = file.view().streams.clone();
        for state in streams {
            let mut held = state.lock(context);
            if !held.grants.others_forbid_delete(id) {
                continue;
            }
            let wish = OpenWish::new(id, Access::DELETE, ShareMode::ALL);
            if let Err(refusal @ GrantRefusal::Breaking(_)) = held.grants.request_breaks(&wish) {
                return Err(held.refuse_or_wait(
                    state.clone(),
                    refusal,
                    BlockedOperation::Open(wish),
                ));
            }
        }
        Ok(())
    }

    /// Breaks handle caching of opens with DELETE access, before a stream is opened that denies
    /// shared deletion. Opens of the file itself count, those of its other streams do not. MS-FSA
    /// 2.1.5.1.2.2.
    ///
    /// # Errors
    /// [`OpenRefusal::Breaking`]; [`FsError::ShareViolation`] if one remains open.
    pub fn break_deleting_handles(
        &self,
        context: &RequestContext,
        key: FileKey,
        wish: &OpenWish,
    ) -> std::result::Result<(), OpenRefusal> {
        let Some(file) = self.find(key).filter(|_| wish.denies_delete()) else { return Ok(()) };
        let mut held = file.lock(context);
        if !held.grants.is_open_for_delete() {
            return Ok(());
        }
        let share = ShareMode(ShareMode::READ.0 | ShareMode::WRITE.0);
        let wish = OpenWish::new(wish.id, wish.access | wish.opening_access, share);
        match held.grants.request_breaks(&wish) {
            Err(refusal @ GrantRefusal::Breaking(_)) => {
                Err(held.refuse_or_wait(file.clone(), refusal, BlockedOperation::Open(wish)))
            }
            _ => Err(OpenRefusal::Refused(FsError::ShareViolation)),
        }
    }

    /// Registers an open of a stream of an open file; sets the link of `wish`.
    pub fn open_stream(
        &self,
        context: &RequestContext,
        entry: &StreamOpenEntry<'_>,
        mut wish: OpenWish,
        cache: Option<&CacheWish>,
    ) -> std::result::Result<RegisteredOpen, OpenRefusal> {
        let key = entry.file.key;
        let shard = self.shard(key);
        let file = shard.get(&key).ok_or(OpenRefusal::Refused(FsError::Stale))?.clone();
        if wish.denies_delete() && file.view().grants.is_open_for_delete() {
            return Err(OpenRefusal::Refused(FsError::ShareViolation));
        }
        let known = file.view().find_stream(entry.name).cloned();
        let (state, stream) = match known.as_ref().and_then(|s| Some((s, s.stream.as_ref()?))) {
            Some((state, stream)) => (state.clone(), stream.clone()),
            None => {
                let stream = OpenStream::new(entry.node.clone(), entry.name.clone());
                let state = OpenFileState::new(key, false, Some(stream.clone()), self.keys.clone());
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

    /// Withdraws an open. A name that must be removed cannot be opened until [`FileTable::removed`]
    /// is called. With `is_complete` false, the open's delete-on-close has no effect.
    pub fn close(
        &self,
        context: &RequestContext,
        state: &OpenFileState,
        id: OpenId,
        is_complete: bool,
    ) -> Option<Removal> {
        let shard = self.shard(state.key);
        let mut held = state.lock(context);
        let grants = &mut held.grants;
        let CloseOutcome { remove, .. } =
            if is_complete { grants.handle_close(id) } else { grants.handle_withdraw(id) };
        let removal = remove.map(|link| Removal {
            link,
            pending: held.pending_deletes.iter().find(|d| d.name.link == link).cloned(),
        });
        end_entry(shard, held, state);
        removal
    }

    /// Ends a removal, whatever its result.
    pub fn removed(&self, context: &RequestContext, state: &OpenFileState, link: LinkId) {
        // Counted before the entry goes: a caller that has resolved the name already meets either
        // the entry or the count.
        self.removals.fetch_add(1, Ordering::SeqCst);
        let shard = self.shard(state.key);
        let mut held = state.lock(context);
        held.clear_delete_pending(link);
        held.grants.handle_removed(link);
        end_entry(shard, held, state);
    }

    /// State of a file, if it is open.
    pub fn find(&self, key: FileKey) -> Option<Arc<OpenFileState>> {
        self.shard(key).get(&key).cloned()
    }

    /// Whether a directory is delete pending, so that nothing may be created in it.
    pub fn is_directory_delete_pending(
        &self,
        key: FileKey,
        vfs: &Arc<dyn Vfs>,
        path: &RelPath,
    ) -> bool {
        self.find(key).is_some_and(|state| {
            let held = state.view();
            held.names.iter().any(|n| n.is(vfs, path) && held.grants.is_delete_pending(n.link))
        })
    }

    /// The open files below the directory `path`. With `but_posix`, files with POSIX opens only are
    /// left out, since those tolerate a rename.
    pub fn open_below(
        &self,
        volume: &Arc<Volume>,
        path: &RelPath,
        but_posix: bool,
    ) -> Vec<Arc<OpenFileState>> {
        let is_below = |name: &Arc<OpenName>| {
            let at = name.lock_path();
            Arc::strong_count(name) > 1
                && Arc::ptr_eq(&name.volume.vfs, &volume.vfs)
                && *at != *path
                && at.starts_with(path)
        };
        let blocks = |state: &OpenFileState| !but_posix || state.pins_names();
        let mut below = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let found = shard
                .values()
                .filter(|state| blocks(state) && state.view().names.iter().any(is_below));
            below.extend(found.cloned());
        }
        below
    }

    /// The files and streams that clients cache.
    pub fn cached(&self) -> Vec<Arc<OpenFileState>> {
        let mut cached = Vec::new();
        for shard in &self.shards {
            for state in shard.lock().values() {
                let streams = state.held.lock().streams.clone();
                let all = std::iter::once(state.clone()).chain(streams);
                cached.extend(all.filter(|state| state.has_caches()));
            }
        }
        cached
    }

    /// Updates the paths of open files below a renamed directory.
    pub fn rename_below(&self, vfs: &Arc<dyn Vfs>, from: &RelPath, to: &RelPath) {
        for shard in &self.shards {
            for state in shard.lock().values() {
                let held = state.view();
                for name in held.names.iter().filter(|n| Arc::ptr_eq(&n.volume.vfs, vfs)) {
                    let mut path = name.lock_path();
                    if let Some(moved) = path.moved(from, to) {
                        *path = moved;
                    }
                }
            }
        }
    }

    /// Count of removals, to read before a path is resolved. If it differs once the open is
    /// registered, the name may have been removed.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::SeqCst)
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    /// Revokes conflicting state of courtesy clients: see
    /// [`CourtesyClients::revoke_courtesy_state`].
    pub fn revoke_courtesy_state(&self, file: FileKey) -> bool {
        let courtesy = self.courtesy.get().and_then(Weak::upgrade);
        courtesy.is_some_and(|courtesy| courtesy.revoke_courtesy_state(file))
    }

    /// See [`CourtesyClients::is_in_grace`].
    pub fn is_in_grace(&self, vfs: &Arc<dyn Vfs>) -> bool {
        let courtesy = self.courtesy.get().and_then(Weak::upgrade);
        courtesy.is_some_and(|courtesy| courtesy.is_in_grace(vfs))
    }
}

/// Unlocks the shard before the file, so that notifications are sent with the shard unlocked. Drops
/// an idle file.
fn end_entry(mut shard: MutexGuard<'_, Shard>, held: FileStateGuard<'_>, state: &OpenFileState) {
    if held.grants.is_idle() {
        // An idle file has no waiters. A file drops its stream, and is locked before it.
        let heed = state.external_watch.lock().take();
        drop(held);
        remove_idle(&mut shard, state);
        drop(shard);
        // Dropped unlocked, since it is a backend call.
        drop(heed);
    } else {
        drop(shard);
    }
}

/// Removes an idle state. A stream holds its file, so that the file's entry still exists.
fn remove_idle(shard: &mut Shard, state: &OpenFileState) {
    if state.stream.is_none() {
        shard.remove(&state.key);
    } else if let Some(file) = shard.get(&state.key) {
        file.lock(&RequestContext::SERVER).streams.retain(|s| !std::ptr::eq(&**s, state));
    }
}

fn refused(refusal: GrantRefusal) -> FsError {
    match refusal {
        GrantRefusal::DeletePending => FsError::DeletePending,
        GrantRefusal::ShareViolation | GrantRefusal::Breaking(_) => FsError::ShareViolation,
        GrantRefusal::ClientAbsent => FsError::Unavailable,
        GrantRefusal::TooMany => FsError::TooMany,
    }
}
