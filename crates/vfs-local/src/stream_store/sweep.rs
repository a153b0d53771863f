//! Removing streams' files of which the file is gone.
//!
//! A file goes with its last name and its last open, which may be long after the name, and local
//! programs remove files, too. So one thread of the process looks at streams' files: soon at those
//! of a file that has lost a name by this process, and at all of them when a share begins to be
//! served and once a day. It asks the kernel by the handle in the record whether the file is there.
//!
//! A file that was removed by a local program may come back from a backup. So the look at all marks
//! a stream's file whose host is gone, and a later one removes it: after looks on three days
//! ([`super::orphan_mark`]), and two searches for files that refer to it ([`super::restored`]).
//! Meanwhile the streams of files that this process has removed are not held up.
//!
//! A stream's file out of a backup has another number than its record says, or no record, and waits
//! for the file that it came with: it is never removed here. Nor are others where the kernel opens
//! no handles, or refuses those of files that are there.

use super::adoption::remove_unchanged;
use super::mounts::Extent;
use super::orphan_mark::{self, ClockReading, OrphanMark, SEARCHES_MIN};
use super::record::{Host, Record, StoredId};
use super::{
    StoredFile, is_regular, key_of, lock_streams, open_file, open_listable, record_of, restored,
    roots,
};
use crate::handles::{lasting_id, open_lasting};
use crate::identity::as_server;
use crate::node::LocalNode;
use crate::streams;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir, XattrFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vfs::{FileKey, Name, ServerWork, Wanted};

/// Files whose removal is noticed at once: some ten megabytes. Those of others are found by the
/// daily look.
const HOSTS_MAX: usize = 1 << 17;
/// Streams whose file has lost a name and that are still to be looked at; the daily look finds
/// others.
const PENDING_MAX: usize = 1 << 17;
/// Between two looks at a file that has lost a name and is open still: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Between two looks at all.
const ROUND: Duration = Duration::from_secs(24 * 60 * 60);
/// Files that are looked at in one batch, and the rest after it.
const BATCH_FILES: usize = 64;
const BATCH_PAUSE: Duration = Duration::from_millis(5);
/// How long nothing refers to a file, of which the stream may just be made by another server.
const UNREFERENCED_SECONDS: i64 = 60 * 60;
/// Between the two looks before such a file is removed: longer than a rename of a stream takes.
const SECOND_LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Streams' files without a host that one look removes; the next removes others.
const ORPHANS_MAX: usize = 1 << 16;
/// Bytes read from a store at once.
const LIST_BYTES: usize = 32 * 1024;

/// File systems (statfs(2), `f_type`) that refuse the handle of a file only if it is gone. Others,
/// as those in user space, do so while they do not remember the file.
const EXT4: u32 = 0xEF53;
const XFS: u32 = 0x5846_5342;
const BTRFS: u32 = 0x9123_683E;
const TMPFS: u32 = 0x0102_1994;

/// The work of the sweeping thread.
#[derive(Default)]
struct Work {
    /// Files with long streams.
    hosts: HashMap<FileKey, HashSet<StoredId>>,
    /// Streams whose file has lost a name, and whether it was the last one.
    pending: HashMap<(FileKey, StoredId), bool>,
    /// All stores are to be looked at.
    is_asked: bool,
    is_running: bool,
    /// When all stores were looked at last, by the clock of [`time_awake`].
    looked: Option<Duration>,
}

impl Work {
    fn add_pending(&mut self, host: FileKey, id: StoredId, is_last: bool) {
        if self.pending.len() < PENDING_MAX || self.pending.contains_key(&(host, id)) {
            *self.pending.entry((host, id)).or_default() |= is_last;
        }
    }

    /// How long all stores need not be looked at.
    fn round_left(&self, now: Duration) -> Duration {
        self.looked.map_or(ROUND, |looked| ROUND.saturating_sub(now.saturating_sub(looked)))
    }
}

static WORK: LazyLock<Mutex<Work>> = LazyLock::new(Mutex::default);
static WAKE: Condvar = Condvar::new();
/// Files in [`Work::hosts`].
static HOSTS: AtomicUsize = AtomicUsize::new(0);

fn work() -> MutexGuard<'static, Work> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file has a long stream.
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

/// As [`host_added`] of a stream that was found, at less cost if the file is known to have it. A
/// file without a name is not, or it would be forgotten never.
pub fn host_found(key: FileKey, id: StoredId) {
    let work = work();
    let is_known = work.hosts.get(&key).is_some_and(|ids| ids.contains(&id));
    if !is_known && !work.pending.contains_key(&(key, id)) {
        drop(work);
        host_added(key, id);
    }
}

/// A file has this long stream no longer.
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

/// The long streams that a file is known to have.
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
    /// Open for looking, through no link.
    fd: OwnedFd,
}

impl LosingHost {
    /// The file that a name leads to, which is this file if that is known. None, and next to no
    /// cost, while it has no long streams.
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

    /// The name is gone.
    pub fn has_lost(self) {
        let is_last = rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0);
        let mut work = work();
        let Some(ids) = work.hosts.remove(&self.key) else { return };
        HOSTS.store(work.hosts.len(), Ordering::Relaxed);
        ids.into_iter().for_each(|id| work.add_pending(self.key, id, is_last));
        WAKE.notify_all();
    }
}

/// Has all stores looked at.
pub fn ask() {
    let mut work = work();
    work.is_asked = true;
    start(&mut work);
    WAKE.notify_all();
}

fn start(work: &mut Work) {
    if work.is_running {
        return;
    }
    let thread = std::thread::Builder::new().name("stream-sweep".to_owned());
    match thread.spawn(run) {
        Ok(_) => work.is_running = true,
        Err(error) => tracing::warn!(%error, "streams of removed files are not removed"),
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

/// Waits for work: files that have lost a name, or none for all stores.
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
            // The last open of a file that has lost its name may be about to end, and more files
            // may lose theirs.
            std::thread::sleep(pause);
            return Some(std::mem::take(&mut work().pending));
        }
        let waited = WAKE.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
        guard = waited.0;
    }
}

/// Time for which the system was awake since its start.
fn time_awake() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}

/// Pauses between the batches of a look at all.
pub(super) struct Breaks {
    /// When pending streams were looked at last, by the clock of [`time_awake`].
    tended: Duration,
    pause: Duration,
    /// How far references are searched for.
    extent: Extent,
    /// Pending streams that were looked at.
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
    /// Breaks of which the next one is for pending streams.
    #[cfg(test)]
    pub(super) fn overdue() -> Self {
        Self { tended: Duration::ZERO, ..Self::default() }
    }

    /// Leaves the disk to others, and removes the streams of files that this process has removed.
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

/// A stream's file that is left over, by the record that it had when that was found out.
struct Leftover {
    store: Arc<OwnedFd>,
    id: StoredId,
    record: Record,
    /// Of the looks that found no host.
    mark: Option<OrphanMark>,
}

/// Removes files that are left over; how many went.
fn remove_all(leftovers: &[Leftover]) -> usize {
    let mut synced = HashSet::new();
    let removed = leftovers.iter().filter(|leftover| {
        let removed = server(|| {
            let store = (*leftover.store).as_fd();
            let device = rustix::fs::fstat(store).ok()?.st_dev;
            // The removal of the file must not outlive a power failure that the removal of its
            // host does not.
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

/// Looks at streams whose file has lost a name; how many are to be looked at again.
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
            // This process saw the last name go. Programs that have the file open without a name
            // lose its streams.
            Some((
                store,
                FileState::Orphan | FileState::WithoutHandles | FileState::Unproven,
                Some(record),
            )) if is_last => {
                leftovers.push(Leftover { store: Arc::new(store), id, record, mark: None });
            }
            // A local program removed the other names: the look at all knows what to do.
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

/// Streams' files that are left over.
#[derive(Default)]
struct LeftoverFiles {
    /// Their host is there.
    unreferenced: Vec<Leftover>,
    /// Their host is gone, by the device that it was on.
    orphans: HashMap<u64, Vec<Leftover>>,
}

/// Looks at all streams' files of all stores.
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
        tracing::info!(removed, "long streams of files that are gone were removed");
    }
}

/// Looks once more at streams that their files did not refer to: another process may have renamed
/// them just then.
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

/// Notes the result of a complete search; whether it is proven that nothing refers to the stream.
fn note_search(orphan: &Leftover, is_gone: bool) -> bool {
    let Some(mark) = orphan.mark else { return false };
    let mark = match is_gone {
        true => OrphanMark { searches: mark.searches.saturating_add(1), ..mark },
        false => OrphanMark { searches: 0, referred: mark.last.wall, ..mark },
    };
    // One that has a host by now is marked no more.
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

/// Looks at one stream's file; returns it with its state if it is left over.
fn look_at_file(store: &Arc<OwnedFd>, device: u64, id: StoredId) -> Option<(FileState, Leftover)> {
    let (state, record) = state_of(store, id, Refresh::Record)?;
    let record = record?;
    let host = FileKey { device, inode: record.host.inode() };
    let mut mark = None;
    let is_leftover = match state {
        FileState::Orphan => {
            let looked = look_at_orphan((**store).as_fd(), id);
            mark = looked.unwrap_or_else(|error| {
                tracing::debug!(%error, "a stream of a file that is gone is kept");
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

/// State of a stream's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileState {
    /// Its host is there and refers to it.
    Referenced,
    /// It came out of a backup, or has no record.
    Restored,
    /// Its host is gone.
    Orphan,
    /// Its host has no name any more, and is open.
    Removed,
    /// Its host is there and does not refer to it.
    Unreferenced,
    /// The kernel opens no files by handles, here or for this process.
    WithoutHandles,
    /// The handle of its host is refused, which is no proof on this file system.
    Unproven,
    /// Something failed.
    Unknown,
}

/// Facts that a look at a stream's file brings up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refresh {
    /// Its record and its owner, where its host has others by now.
    Record,
    Nothing,
}

/// State and record of a stream's file; none if it is not there.
pub(super) fn state_of(
    store: &OwnedFd,
    id: StoredId,
    refresh: Refresh,
) -> Option<(FileState, Option<Record>)> {
    let file = open_file(store.as_fd(), id, false).ok()?;
    rustix::fs::fstat(&file).ok().filter(is_regular)?;
    let record = match record_of(file.as_fd()) {
        Ok(Some(record)) => record,
        Ok(None) => return Some((FileState::Restored, None)),
        Err(_) => return Some((FileState::Unknown, None)),
    };
    let own = lasting_id(file.as_fd());
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
    record: &Record,
    refresh: Refresh,
) -> FileState {
    let Ok((node, attributes)) = LocalNode::new(host, true, false, Wanted::default()) else {
        return FileState::Unknown;
    };
    let _lock = lock_streams(node.key);
    if Host::of(&node) != record.host {
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
                tracing::debug!(%error, "the rights to a long stream could not be recorded");
            }
            if refresh == Refresh::Record {
                orphan_mark::clear(&stored.file);
                // Under the lock, or a stream that is removed meanwhile is remembered.
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

/// Notes that the host was found to be gone once more; the mark if references are to be searched for.
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

fn open_host(store: BorrowedFd<'_>, record: &Record) -> rustix::io::Result<OwnedFd> {
    if record.host_handle.is_empty() {
        return Err(Errno::OPNOTSUPP);
    }
    // The kernel takes no descriptor that is for looking only.
    open_lasting(open_listable(store)?.as_fd(), &record.host_handle)
}

fn file_system(fd: BorrowedFd<'_>) -> Option<u32> {
    rustix::fs::fstatfs(fd).ok().map(|facts| facts.f_type as u32)
}

/// Whether a power failure may undo a change and keep a later one: btrfs syncs files out of the
/// order in which they were changed.
pub(super) fn is_out_of_order(store: BorrowedFd<'_>) -> bool {
    file_system(store) == Some(BTRFS)
}

/// Whether this answer to a handle shows that its file is gone.
fn is_gone(store: BorrowedFd<'_>, errno: Errno) -> bool {
    matches!(errno, Errno::STALE | Errno::NOENT)
        && file_system(store).is_some_and(|kind| [EXT4, XFS, BTRFS, TMPFS].contains(&kind))
}

/// State of the file that a record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostState {
    Present,
    Gone,
    Unknown,
}

/// Asks the kernel for the file that a record names.
pub(super) fn host_state(store: BorrowedFd<'_>, record: &Record) -> HostState {
    match open_host(store, record) {
        Ok(host) => match LocalNode::new(host, true, false, Wanted::default()) {
            Ok((node, _)) if Host::of(&node) == record.host => HostState::Present,
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

/// Looks once at what has lost a name.
#[cfg(test)]
pub(super) fn look_at_pending_now() -> usize {
    let pending = std::mem::take(&mut work().pending);
    look_at_pending(pending)
}

/// Whether a file is known to have this long stream.
pub(super) fn has_stream(key: FileKey, id: StoredId) -> bool {
    work().hosts.get(&key).is_some_and(|ids| ids.contains(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daily_look_comes_however_often_the_thread_wakes() {
        let now = time_awake();
        let work = Work { looked: Some(now), ..Work::default() };
        assert_eq!(work.round_left(now), ROUND);
        assert_eq!(work.round_left(now + ROUND / 2), ROUND / 2);
        assert_eq!(work.round_left(now + ROUND), Duration::ZERO);
    }

    #[test]
    fn pending_streams_are_counted_once_and_bounded() {
        let mut work = Work::default();
        let (id, host) = (StoredId::new(), |inode| FileKey { device: 1, inode });
        work.add_pending(host(1), id, true);
        work.add_pending(host(1), id, false);
        assert_eq!(work.pending, HashMap::from([((host(1), id), true)]));
        (0..=PENDING_MAX as u64).for_each(|inode| work.add_pending(host(inode), id, false));
        assert_eq!(work.pending.len(), PENDING_MAX);
    }

    #[test]
    fn refused_handle_means_gone_only_where_the_file_system_says_so() {
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
