//! Removal of orphaned store files.
//!
//! A file ends with its last name and its last open, which may be long after the name; local
//! programs remove files, too. So one thread per process scans store files: soon those of a file
//! that lost a name through this process, and all of them when a share starts and once a day. It
//! looks up the host by the kernel handle in the record.
//!
//! A file that a local program removed may be restored from a backup. So the daily scan marks an
//! orphan, and a later scan removes it: after scans on three days ([`super::orphan_mark`]), and two
//! searches for references ([`super::restored`]). The streams of files that this process removed do
//! not wait for that.
//!
//! A restored store file has another inode number than its record, or no record, and waits for its
//! host; the sweep never removes it. The same applies if the kernel opens no handles, or refuses
//! handles of existing files.

use super::adoption::remove_unchanged;
use super::mounts::Extent;
use super::orphan_mark::{self, ClockReading, OrphanMark, SEARCHES_MIN};
use super::record::{HostIdentity, StoreFileRecord, StoredId};
use super::{
    StoredFile, is_regular, key_of, lock_streams, open_file, open_listable, record_of, restored,
    roots,
};
use crate::handles::{open_lasting, persistent_id};
use crate::identity::as_server;
use crate::local_node::LocalNode;
use crate::streams;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir, XattrFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use sync::{Condvar, Mutex, MutexGuard};
use vfs::{AttributeRequest, FileKey, Name, ServerWork};

/// Maximum number of hosts whose removal is noticed at once: some ten megabytes. The daily scan
/// finds the rest.
const HOSTS_MAX: usize = 1 << 17;
/// Maximum number of pending streams, whose host lost a name; the daily scan finds the rest.
const PENDING_MAX: usize = 1 << 17;
/// Interval between checks of a nameless file that is still open: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Interval between full scans.
const ROUND: Duration = Duration::from_secs(24 * 60 * 60);
/// Files per batch, and the pause after a batch.
const BATCH_FILES: usize = 64;
const BATCH_PAUSE: Duration = Duration::from_millis(5);
/// Minimum age of an unreferenced store file, whose stream another server may be creating.
const UNREFERENCED_SECONDS: i64 = 60 * 60;
/// Pause between the two checks before such a file is removed: longer than a rename of a stream
/// takes.
const SECOND_LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of orphans that one scan removes; the next scan removes the rest.
const ORPHANS_MAX: usize = 1 << 16;
/// Bytes read from a store per call.
const LIST_BYTES: usize = 32 * 1024;

/// Magic numbers (statfs(2), `f_type`) of file systems that refuse a handle only if its file is
/// gone. Others, such as user-space file systems, also refuse it while the file is not cached.
const EXT4: u32 = 0xEF53;
const XFS: u32 = 0x5846_5342;
const BTRFS: u32 = 0x9123_683E;
const TMPFS: u32 = 0x0102_1994;

/// State of the sweeping thread.
#[derive(Default)]
struct SweepState {
    /// Files with long streams.
    hosts: HashMap<FileKey, HashSet<StoredId>>,
    /// Pending streams, whose host lost a name, and whether that was the last one.
    pending: HashMap<(FileKey, StoredId), bool>,
    /// A full scan is requested.
    is_asked: bool,
    is_running: bool,
    /// Time of the last full scan, by [`time_awake`].
    looked: Option<Duration>,
}

impl SweepState {
    fn add_pending(&mut self, host: FileKey, id: StoredId, is_last: bool) {
        if self.pending.len() < PENDING_MAX || self.pending.contains_key(&(host, id)) {
            *self.pending.entry((host, id)).or_default() |= is_last;
        }
    }

    /// Time until the next full scan.
    fn round_left(&self, now: Duration) -> Duration {
        self.looked.map_or(ROUND, |looked| ROUND.saturating_sub(now.saturating_sub(looked)))
    }
}

static WORK: LazyLock<Mutex<SweepState>> = LazyLock::new(Mutex::default);
static WAKE: Condvar = Condvar::new();
/// Number of entries in [`SweepState::hosts`].
static HOSTS: AtomicUsize = AtomicUsize::new(0);

fn work() -> MutexGuard<'static, SweepState> {
    WORK.lock()
}

/// Records that a file has a long stream.
pub fn host_added(key: FileKey, id: StoredId) {
    let mut work = work();
    let is_new = !work.hosts.contains_key(&key);
    if is_new && work.hosts.len() >= HOSTS_MAX {
        return;
    }
    work.hosts.entry(key).or_default().insert(id);
    HOSTS.store(work.hosts.len(), Ordering::Relaxed);
    start(&mut work);
}

/// Like [`host_added`], for a stream that was found; cheaper if it is known. A nameless file is not
/// recorded, because nothing would remove its entry.
pub fn host_found(key: FileKey, id: StoredId) {
    let work = work();
    let is_known = work.hosts.get(&key).is_some_and(|ids| ids.contains(&id));
    if !is_known && !work.pending.contains_key(&(key, id)) {
        drop(work);
        host_added(key, id);
    }
}

/// Records that a file no longer has this long stream.
pub fn host_dropped(key: FileKey, id: StoredId) {
    let mut work = work();
    if let Some(ids) = work.hosts.get_mut(&key) {
        ids.remove(&id);
        if ids.is_empty() {
            work.hosts.remove(&key);
        }
    }
    work.pending.remove(&(key, id));
    HOSTS.store(work.hosts.len(), Ordering::Relaxed);
}

/// The known long streams of a file.
pub fn ids_of_host(key: FileKey) -> Vec<StoredId> {
    if HOSTS.load(Ordering::Relaxed) == 0 {
        return Vec::new();
    }
    work().hosts.get(&key).map_or_else(Vec::new, |ids| ids.iter().copied().collect())
}

/// A file with long streams that is about to lose a name.
#[derive(Debug)]
pub struct LosingHost {
    key: FileKey,
    /// O_PATH descriptor, opened without following a link.
    fd: OwnedFd,
}

impl LosingHost {
    /// The file that a name refers to; `known` gives its key if the caller knows it. `None`, at
    /// almost no cost, if it has no long streams.
    pub fn at(parent: BorrowedFd<'_>, name: &Name, known: Option<FileKey>) -> Option<Self> {
        if HOSTS.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let is_host = |key: FileKey| work().hosts.contains_key(&key);
        if known.is_some_and(|key| !is_host(key)) {
            return None;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(parent, name.as_bytes(), flags, Mode::empty()).ok()?;
        let key = key_of(&rustix::fs::fstat(&fd).ok()?);
        is_host(key).then_some(Self { key, fd })
    }

    /// The name is removed.
    pub fn has_lost(self) {
        let is_last = rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0);
        let mut work = work();
        let Some(ids) = work.hosts.remove(&self.key) else { return };
        HOSTS.store(work.hosts.len(), Ordering::Relaxed);
        ids.into_iter().for_each(|id| work.add_pending(self.key, id, is_last));
        WAKE.notify_all();
    }
}

/// Requests a full scan.
pub fn ask() {
    let mut work = work();
    work.is_asked = true;
    start(&mut work);
    WAKE.notify_all();
}

fn start(work: &mut SweepState) {
    if work.is_running {
        return;
    }
    let thread = std::thread::Builder::new().name("stream-sweep".to_owned());
    match thread.spawn(run) {
        Ok(_) => work.is_running = true,
        Err(error) => {
            tracing::warn!(%error, "cannot start the thread that removes the long streams of deleted files; raise TasksMax or LimitNPROC")
        }
    }
}

fn run() {
    let mut pause = PAUSE;
    loop {
        let Some(pending) = wait(pause) else {
            look_at_all(&mut Breaks::default());
            continue;
        };
        let left = look_at_pending(pending);
        pause = if left == 0 { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
    }
}

/// Waits for work: pending streams, or `None` for a full scan.
fn wait(pause: Duration) -> Option<HashMap<(FileKey, StoredId), bool>> {
    let mut guard = work();
    loop {
        let now = time_awake();
        guard.looked.get_or_insert(now);
        let left = guard.round_left(now);
        if std::mem::take(&mut guard.is_asked) || left.is_zero() {
            guard.looked = Some(now);
            return None;
        }
        if !guard.pending.is_empty() {
            drop(guard);
            // The last open of a nameless file may end soon, and more files may lose their names.
            std::thread::sleep(pause);
            return Some(std::mem::take(&mut work().pending));
        }
        let waited = WAKE.wait_timeout(guard, left);
        guard = waited.0;
    }
}

/// Time since boot, without suspended time.
fn time_awake() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}

/// Pauses between the batches of a full scan.
pub(super) struct Breaks {
    /// Time of the last check of pending streams, by [`time_awake`].
    tended: Duration,
    pause: Duration,
    /// Range of a search for references.
    extent: Extent,
    /// Number of pending streams that were checked.
    #[cfg(test)]
    pub(super) pending_seen: usize,
}

impl Default for Breaks {
    fn default() -> Self {
        Self {
            tended: time_awake(),
            pause: BATCH_PAUSE,
            extent: Extent::of_look(),
            #[cfg(test)]
            pending_seen: 0,
        }
    }
}

impl Breaks {
    /// Breaks whose next pause checks pending streams.
    #[cfg(test)]
    pub(super) fn overdue() -> Self {
        Self { tended: Duration::ZERO, ..Self::default() }
    }

    /// Yields the disk to other work, and removes the streams of files that this process removed.
    pub(super) fn take(&mut self) {
        std::thread::sleep(self.pause);
        if time_awake().saturating_sub(self.tended) < PAUSE {
            return;
        }
        let pending = std::mem::take(&mut work().pending);
        #[cfg(test)]
        {
            self.pending_seen += pending.len();
        }
        look_at_pending(pending);
        self.tended = time_awake();
    }
}

/// A leftover store file, with its record at the time of that finding.
struct Leftover {
    store: Arc<OwnedFd>,
    id: StoredId,
    record: StoreFileRecord,
    /// Mark of the scans that found no host.
    mark: Option<OrphanMark>,
}

/// Removes leftover files; returns their number.
fn remove_all(leftovers: &[Leftover]) -> usize {
    let mut synced = HashSet::new();
    let removed = leftovers.iter().filter(|leftover| {
        let removed = server(|| {
            let store = (*leftover.store).as_fd();
            let device = rustix::fs::fstat(store).ok()?.st_dev;
            // After a power failure the removal of the store file must not persist without that of
            // its host.
            if is_out_of_order(store) && !synced.contains(&device) {
                rustix::fs::syncfs(open_listable(store).ok()?).ok()?;
                synced.insert(device);
            }
            remove_unchanged(store, leftover.id, &leftover.record).ok()
        });
        removed == Some(true)
    });
    removed.count()
}

/// Checks pending streams; returns the number that must be checked again.
fn look_at_pending(pending: HashMap<(FileKey, StoredId), bool>) -> usize {
    let (mut later, mut leftovers) = (Vec::new(), Vec::new());
    for ((host, id), is_last) in pending {
        let last = || roots::last_store_of(host.device, id, false).into_iter();
        let others = || roots::stores_on(host.device).filter_map(|found| found.store.ok());
        let found = server(|| {
            last().chain(others()).find_map(|store| {
                let (state, record) = state_of(&store, id, Refresh::Record)?;
                // A copy of the store may be served, too.
                let is_of_host = record.as_ref().is_none_or(|r| r.host.inode() == host.inode);
                is_of_host.then_some((store, state, record))
            })
        });
        match found {
            // This process removed the last name. Programs that still have the nameless file open
            // lose its streams.
            Some((
                store,
                FileState::Orphan | FileState::WithoutHandles | FileState::Unproven,
                Some(record),
            )) if is_last => {
                leftovers.push(Leftover { store: Arc::new(store), id, record, mark: None });
            }
            // A local program removed the other names; the daily scan handles that.
            Some((_, FileState::Orphan | FileState::Referenced, _)) => {}
            Some((_, FileState::Removed, _)) => later.push((host, id, is_last)),
            Some(_) => host_added(host, id),
            None => {}
        }
    }
    remove_all(&leftovers);
    let count = later.len();
    let mut work = work();
    later.into_iter().for_each(|(host, id, is_last)| work.add_pending(host, id, is_last));
    count
}

/// Leftover store files.
#[derive(Default)]
struct LeftoverFiles {
    /// Files whose host exists.
    unreferenced: Vec<Leftover>,
    /// Files whose host is gone, by its device.
    orphans: HashMap<u64, Vec<Leftover>>,
}

/// Scans all store files of all stores.
pub(super) fn look_at_all(breaks: &mut Breaks) {
    let (mut seen, mut removed) = (HashSet::new(), 0);
    let mut found = LeftoverFiles::default();
    let stores = server(|| Some(roots::swept_stores().collect::<Vec<_>>())).unwrap_or_default();
    for (store, device) in stores {
        let key = rustix::fs::fstat(&store).map(|stat| key_of(&stat));
        if key.is_ok_and(|key| seen.insert(key)) {
            look_at_store(&Arc::new(store), device, &mut found, breaks);
            let unreferenced = still_unreferenced(std::mem::take(&mut found.unreferenced));
            removed += remove_all(&unreferenced);
        }
    }
    for (device, orphans) in found.orphans {
        let sought = orphans.iter().map(|orphan| orphan.id).collect();
        let extent = breaks.extent.clone();
        let search = || restored::without_reference(device, sought, &extent, &mut || breaks.take());
        let Some(gone) = server(search) else { continue };
        let is_proven = |orphan: &Leftover| {
            server(|| Some(note_search(orphan, gone.contains(&orphan.id)))) == Some(true)
        };
        let proven: Vec<_> = orphans.into_iter().filter(is_proven).collect();
        removed += remove_all(&proven);
    }
    if removed > 0 {
        tracing::info!(removed, "removed long streams of deleted files");
    }
}

/// Checks unreferenced streams once more, because another process may have been renaming them.
fn still_unreferenced(mut leftovers: Vec<Leftover>) -> Vec<Leftover> {
    if !leftovers.is_empty() {
        std::thread::sleep(SECOND_LOOK_PAUSE);
    }
    leftovers.retain(|leftover| {
        let state = server(|| state_of(&leftover.store, leftover.id, Refresh::Nothing));
        matches!(state, Some((FileState::Unreferenced, _)))
    });
    leftovers
}

/// Records the result of a complete search; true if the stream is proven unreferenced.
fn note_search(orphan: &Leftover, is_gone: bool) -> bool {
    let Some(mark) = orphan.mark else { return false };
    let mark = match is_gone {
        true => OrphanMark { searches: mark.searches.saturating_add(1), ..mark },
        false => OrphanMark { searches: 0, referred: mark.last.wall, ..mark },
    };
    // A stream that has a host by now keeps no mark.
    let noted = open_file((*orphan.store).as_fd(), orphan.id, false)
        .and_then(|file| mark.put(&file, XattrFlags::REPLACE));
    noted.is_ok() && mark.searches >= SEARCHES_MIN
}

fn look_at_store(
    store: &Arc<OwnedFd>,
    device: u64,
    found: &mut LeftoverFiles,
    breaks: &mut Breaks,
) {
    let names = server(|| names_in((**store).as_fd())).unwrap_or_default();
    for (number, batch) in names.chunks(BATCH_FILES).enumerate() {
        if number > 0 {
            breaks.take();
        }
        for id in batch {
            let looked = server(|| look_at_file(store, device, *id));
            match looked {
                Some((FileState::Unreferenced, file)) => found.unreferenced.push(file),
                Some((_, file)) => {
                    let orphans = found.orphans.entry(device).or_default();
                    if orphans.len() < ORPHANS_MAX {
                        orphans.push(file);
                    }
                }
                None => {}
            }
        }
    }
}

/// Examines one store file; returns it with its state if it is leftover.
fn look_at_file(store: &Arc<OwnedFd>, device: u64, id: StoredId) -> Option<(FileState, Leftover)> {
    let (state, record) = state_of(store, id, Refresh::Record)?;
    let record = record?;
    let host = FileKey { device, inode: record.host.inode() };
    let mut mark = None;
    let is_leftover = match state {
        FileState::Orphan => {
            let looked = look_at_orphan((**store).as_fd(), id);
            mark = looked.unwrap_or_else(|error| {
                tracing::debug!(%error, "cannot access the orphan mark of a long stream without a file: the stream is retained");
                None
            });
            mark.is_some()
        }
        FileState::Unreferenced => is_unchanged_for_long((**store).as_fd(), id),
        FileState::Restored | FileState::Removed | FileState::Referenced => false,
        FileState::WithoutHandles | FileState::Unproven | FileState::Unknown => {
            host_added(host, id);
            false
        }
    };
    is_leftover.then(|| (state, Leftover { store: store.clone(), id, record, mark }))
}

/// The files in a store.
pub(super) fn names_in(store: BorrowedFd<'_>) -> Option<Vec<StoredId>> {
    let listable = open_listable(store).ok()?;
    let mut buffer = vec![MaybeUninit::uninit(); LIST_BYTES];
    let mut entries = RawDir::new(listable, &mut buffer);
    let mut names = Vec::new();
    while let Some(Ok(entry)) = entries.next() {
        names.extend(StoredId::of_file_name(entry.file_name().to_bytes()));
    }
    Some(names)
}

/// State of a store file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileState {
    /// The host exists and refers to it.
    Referenced,
    /// It was restored from a backup, or has no record.
    Restored,
    /// The host is gone.
    Orphan,
    /// The host has no name any more, but is open.
    Removed,
    /// The host exists and does not refer to it.
    Unreferenced,
    /// The kernel opens no handles, here or for this process.
    WithoutHandles,
    /// The kernel refuses the host's handle, which proves nothing on this file system.
    Unproven,
    /// An error occurred.
    Unknown,
}

/// The facts that a check updates in a store file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refresh {
    /// Record and owner, if the host's have changed.
    Record,
    Nothing,
}

/// State and record of a store file; `None` if it does not exist.
pub(super) fn state_of(
    store: &OwnedFd,
    id: StoredId,
    refresh: Refresh,
) -> Option<(FileState, Option<StoreFileRecord>)> {
    let file = open_file(store.as_fd(), id, false).ok()?;
    rustix::fs::fstat(&file).ok().filter(is_regular)?;
    let record = match record_of(file.as_fd()) {
        Ok(Some(record)) => record,
        Ok(None) => return Some((FileState::Restored, None)),
        Err(_) => return Some((FileState::Unknown, None)),
    };
    let own = persistent_id(file.as_fd());
    if own.is_some_and(|own| own.as_bytes() != record.own_handle) {
        return Some((FileState::Restored, Some(record)));
    }
    let stored = StoredFile { file, store: store.try_clone().ok()?, id };
    let state = match open_host(store.as_fd(), &record) {
        Ok(host) => state_by_host(host, &stored, &record, refresh),
        Err(errno) if is_gone(store.as_fd(), errno) => FileState::Orphan,
        Err(Errno::PERM | Errno::OPNOTSUPP) => FileState::WithoutHandles,
        Err(Errno::STALE | Errno::NOENT) => FileState::Unproven,
        Err(_) => FileState::Unknown,
    };
    Some((state, Some(record)))
}

fn state_by_host(
    host: OwnedFd,
    stored: &StoredFile,
    record: &StoreFileRecord,
    refresh: Refresh,
) -> FileState {
    let Ok((node, attributes)) = LocalNode::new(host, true, false, AttributeRequest::default())
    else {
        return FileState::Unknown;
    };
    let _lock = lock_streams(node.key);
    if HostIdentity::of(&node) != record.host {
        return FileState::Unknown;
    }
    if attributes.links == 0 {
        return FileState::Removed;
    }
    match streams::refers_to(&node, stored.id()) {
        Ok(false) => FileState::Unreferenced,
        Ok(true) => {
            if refresh == Refresh::Record
                && let Err(error) = stored.refresh_record(&node)
            {
                tracing::debug!(%error, "cannot record the owner and permissions of a file with its long stream");
            }
            if refresh == Refresh::Record {
                orphan_mark::clear(&stored.file);
                // Recorded under the lock, so that a concurrently removed stream is not recorded.
                host_added(node.key, stored.id());
            }
            FileState::Referenced
        }
        Err(_) => FileState::Unknown,
    }
}

fn is_unchanged_for_long(store: BorrowedFd<'_>, id: StoredId) -> bool {
    let changed = open_file(store, id, false).and_then(rustix::fs::fstat).map(|stat| stat.st_ctime);
    let now = i64::try_from(crate::xattr_notes::now() / 1_000_000_000).unwrap_or(0);
    changed.is_ok_and(|changed| now.saturating_sub(changed) > UNREFERENCED_SECONDS)
}

/// Counts a scan that found no host; returns the mark if a search for references is due.
fn look_at_orphan(store: BorrowedFd<'_>, id: StoredId) -> rustix::io::Result<Option<OrphanMark>> {
    let file = open_file(store, id, false)?;
    let now = ClockReading::now();
    let mark = match OrphanMark::of(&file)? {
        None => Some(OrphanMark::new(now)),
        Some(mark) => mark.looked(now),
    };
    let Some(mark) = mark else { return Ok(None) };
    mark.put(&file, XattrFlags::empty())?;
    Ok(mark.is_search_due().then_some(mark))
}

fn open_host(store: BorrowedFd<'_>, record: &StoreFileRecord) -> rustix::io::Result<OwnedFd> {
    if record.host_handle.is_empty() {
        return Err(Errno::OPNOTSUPP);
    }
    // The call rejects an O_PATH descriptor.
    open_lasting(open_listable(store)?.as_fd(), &record.host_handle)
}

fn file_system(fd: BorrowedFd<'_>) -> Option<u32> {
    rustix::fs::fstatfs(fd).ok().map(|facts| facts.f_type as u32)
}

/// True if a power failure may undo a change and preserve a later one: btrfs syncs files in an
/// order other than that of their changes.
pub(super) fn is_out_of_order(store: BorrowedFd<'_>) -> bool {
    file_system(store) == Some(BTRFS)
}

/// True if this error for a handle proves that its file is gone.
fn is_gone(store: BorrowedFd<'_>, errno: Errno) -> bool {
    matches!(errno, Errno::STALE | Errno::NOENT)
        && file_system(store).is_some_and(|kind| [EXT4, XFS, BTRFS, TMPFS].contains(&kind))
}

/// State of the file that a record refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostState {
    Present,
    Gone,
    Unknown,
}

/// Looks up the file that a record refers to.
pub(super) fn host_state(store: BorrowedFd<'_>, record: &StoreFileRecord) -> HostState {
    match open_host(store, record) {
        Ok(host) => match LocalNode::new(host, true, false, AttributeRequest::default()) {
            Ok((node, _)) if HostIdentity::of(&node) == record.host => HostState::Present,
            _ => HostState::Unknown,
        },
        Err(errno) if is_gone(store, errno) => HostState::Gone,
        Err(_) => HostState::Unknown,
    }
}

fn server<T>(call: impl FnOnce() -> Option<T>) -> Option<T> {
    as_server(ServerWork::StreamStore, || Ok(call())).ok().flatten()
}

/// A file has lost its last name.
#[cfg(test)]
pub(super) fn add_pending(host: FileKey, id: StoredId) {
    work().add_pending(host, id, true);
}

/// Checks pending streams once.
#[cfg(test)]
pub(super) fn look_at_pending_now() -> usize {
    let pending = std::mem::take(&mut work().pending);
    look_at_pending(pending)
}

/// True if a file is known to have this long stream.
pub(super) fn has_stream(key: FileKey, id: StoredId) -> bool {
    work().hosts.get(&key).is_some_and(|ids| ids.contains(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daily_scan_is_due_regardless_of_wakeups() {
        let now = time_awake();
        let work = SweepState { looked: Some(now), ..SweepState::default() };
        assert_eq!(work.round_left(now), ROUND);
        assert_eq!(work.round_left(now + ROUND / 2), ROUND / 2);
        assert_eq!(work.round_left(now + ROUND), Duration::ZERO);
    }

    #[test]
    fn pending_streams_are_counted_once_and_bounded() {
        let mut work = SweepState::default();
        let (id, host) = (StoredId::new(), |inode| FileKey { device: 1, inode });
        work.add_pending(host(1), id, true);
        work.add_pending(host(1), id, false);
        assert_eq!(work.pending, HashMap::from([((host(1), id), true)]));
        (0..=PENDING_MAX as u64).for_each(|inode| work.add_pending(host(inode), id, false));
        assert_eq!(work.pending.len(), PENDING_MAX);
    }

    #[test]
    fn refused_handle_means_gone_on_known_file_systems_only() {
        let proc = std::fs::File::open("/proc").unwrap();
        assert!(!is_gone(proc.as_fd(), Errno::STALE));
        let folder = tempfile::tempdir().unwrap();
        let folder = std::fs::File::open(folder.path()).unwrap();
        if file_system(folder.as_fd()) == Some(EXT4) {
            assert!(is_gone(folder.as_fd(), Errno::STALE));
        }
        assert!(!is_gone(folder.as_fd(), Errno::PERM));
    }
}
