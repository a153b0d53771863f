//! Removing streams' files of which the file is gone.
//!
//! A file goes with its last name and its last open, which may be long after the name, and local
//! programs remove files, too. So one thread of the process looks at streams' files: soon at those
//! of a file that has lost a name by this process, and at all of them when a share begins to be
//! served and once a day. It asks the kernel by the handle in the record whether the file is there.
//!
//! What came out of a backup has another number than its record says, and waits for the file
//! that it came with: it is never removed here, nor anything where the kernel opens no handles.

use super::record::{Host, Record, StoredId};
use super::{
    RECORD, is_regular, key_of, open_file, open_listable, record_of, remove_file, roots, turn,
};
use crate::handles::{lasting_id, open_lasting};
use crate::identity::as_server;
use crate::node::LocalNode;
use crate::streams;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vfs::{FileKey, Name, ServerWork, Wanted};

/// Files whose removal is noticed at once: some ten megabytes. Those of others are found by the
/// daily look.
const HOSTS_MAX: usize = 1 << 17;
/// Between two looks at a file that has lost a name and is open still: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Between two looks at all.
const ROUND: Duration = Duration::from_secs(24 * 60 * 60);
/// Files that are looked at in one go, and the rest after it.
const GO_FILES: usize = 64;
const GO_PAUSE: Duration = Duration::from_millis(5);
/// How long nothing refers to a file, of which the stream may just be made by another server.
const UNREFERENCED_SECONDS: i64 = 60 * 60;
/// Bytes read from a store at once.
const LIST_BYTES: usize = 32 * 1024;

/// What the thread has to do.
#[derive(Default)]
struct Work {
    /// Files with long streams.
    hosts: HashMap<FileKey, Vec<StoredId>>,
    /// Streams whose file has lost a name.
    pending: Vec<Pending>,
    /// All stores are to be looked at.
    is_asked: bool,
    is_running: bool,
}

/// A stream whose file has lost a name.
#[derive(Clone, Copy)]
struct Pending {
    host: FileKey,
    id: StoredId,
    /// It was the last one.
    is_last: bool,
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
    let ids = work.hosts.entry(key).or_default();
    if !ids.contains(&id) {
        ids.push(id);
    }
    HOSTS.store(work.hosts.len(), Ordering::Relaxed);
    start(&mut work);
}

/// A file with long streams that is about to lose a name.
#[derive(Debug)]
pub struct LosingHost {
    key: FileKey,
    /// Open for looking, through no link.
    fd: OwnedFd,
}

impl LosingHost {
    /// What a name leads to, which is this file if that is known. None, and next to no cost, while
    /// that has no long streams.
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
        let host = self.key;
        work.pending.extend(ids.into_iter().map(|id| Pending { host, id, is_last }));
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
            look_at_all();
            continue;
        };
        let left = look_at_pending(pending);
        pause = if left == 0 { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
    }
}

/// Waits for work: files that have lost a name, or none for all stores.
fn wait(pause: Duration) -> Option<Vec<Pending>> {
    let mut guard = work();
    loop {
        if std::mem::take(&mut guard.is_asked) {
            return None;
        }
        if !guard.pending.is_empty() {
            drop(guard);
            // The last open of what has lost its name may be about to end, and more come meanwhile.
            std::thread::sleep(pause);
            return Some(std::mem::take(&mut work().pending));
        }
        let waited = WAKE.wait_timeout(guard, ROUND).unwrap_or_else(PoisonError::into_inner);
        guard = waited.0;
        if waited.1.timed_out() {
            return None;
        }
    }
}

/// Looks at streams whose file has lost a name; how many are to be looked at again.
fn look_at_pending(pending: Vec<Pending>) -> usize {
    let mut later = Vec::new();
    for one in pending {
        let found = roots::stores_on(one.host.device).into_iter().find_map(|store| {
            let state = server(|| state_of(store.as_fd(), one.id).map(|(state, _)| state))?;
            Some((store, state))
        });
        match found {
            // Whoever has the file open without a name is left without its streams.
            Some((store, State::Unknown)) if one.is_last => remove(&store, one.id),
            Some((store, State::Orphan)) => remove(&store, one.id),
            Some((_, State::Removed)) => later.push(one),
            Some(_) => host_added(one.host, one.id),
            None => {}
        }
    }
    let count = later.len();
    work().pending.extend(later);
    count
}

fn remove(store: &OwnedFd, id: StoredId) {
    server(|| {
        remove_file(store.as_fd(), id);
        Some(())
    });
}

/// Looks at all streams' files of all stores.
pub(super) fn look_at_all() {
    let mut seen = HashSet::new();
    let mut removed = 0;
    for root in roots::served().into_iter().filter(|root| root.is_swept) {
        if seen.insert(root.key)
            && let Some(store) = server(|| roots::store_of(&root))
        {
            removed += look_at_store(&store, root.key.device);
        }
    }
    if removed > 0 {
        tracing::info!(removed, "long streams of files that are gone were removed");
    }
}

fn look_at_store(store: &OwnedFd, device: u64) -> usize {
    let mut removed = 0;
    let names = server(|| names_in(store.as_fd())).unwrap_or_default();
    for (number, id) in names.into_iter().enumerate() {
        if number % GO_FILES == GO_FILES - 1 {
            std::thread::sleep(GO_PAUSE);
        }
        let found = server(|| {
            let (state, host) = state_of(store.as_fd(), id)?;
            let is_old = || is_unchanged_for_long(store.as_fd(), id);
            let is_orphan = match state {
                State::Orphan => true,
                State::Unreferenced => is_old(),
                State::Kept | State::Removed | State::Unknown => false,
            };
            if is_orphan {
                remove_file(store.as_fd(), id);
            }
            Some((is_orphan, state, host))
        });
        match found {
            Some((true, ..)) => removed += 1,
            Some((false, State::Kept | State::Unknown, Some(inode))) => {
                host_added(FileKey { device, inode }, id);
            }
            Some((false, State::Removed, Some(inode))) => {
                let host = FileKey { device, inode };
                work().pending.push(Pending { host, id, is_last: true });
            }
            _ => {}
        }
    }
    removed
}

/// The files in a store.
fn names_in(store: BorrowedFd<'_>) -> Option<Vec<StoredId>> {
    let listable = open_listable(store).ok()?;
    let mut buffer = vec![MaybeUninit::uninit(); LIST_BYTES];
    let mut entries = RawDir::new(listable, &mut buffer);
    let mut names = Vec::new();
    while let Some(Ok(entry)) = entries.next() {
        names.extend(StoredId::of_file_name(entry.file_name().to_bytes()));
    }
    Some(names)
}

/// What is known of a stream's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its file is there and refers to it, or it came out of a backup.
    Kept,
    /// Its file is gone.
    Orphan,
    /// Its file has no name any more, and is open.
    Removed,
    /// Its file is there and does not refer to it, or it has no record.
    Unreferenced,
    /// The kernel does not open its file by a handle for this process.
    Unknown,
}

/// What is known of a stream's file, and the number of its file; none if it is not there.
fn state_of(store: BorrowedFd<'_>, id: StoredId) -> Option<(State, Option<u64>)> {
    let file = open_file(store, id, false).ok()?;
    let stat = rustix::fs::fstat(&file).ok().filter(is_regular)?;
    let Some(record) = record_of(file.as_fd()) else {
        let has_none = rustix::fs::fgetxattr(&file, RECORD, &mut [0; 0]) == Err(Errno::NODATA);
        return Some((if has_none { State::Unreferenced } else { State::Kept }, None));
    };
    let own = lasting_id(file.as_fd());
    if own.is_some_and(|own| own.as_bytes() != record.own_handle) {
        return Some((State::Kept, None));
    }
    let state = match open_host(store, &record) {
        Ok(host) => state_by_host(host, (stat.st_dev, id), &record),
        Err(Errno::STALE | Errno::NOENT) => State::Orphan,
        Err(_) => State::Unknown,
    };
    Some((state, Some(record.host.inode())))
}

fn state_by_host(host: OwnedFd, (device, id): (u64, StoredId), record: &Record) -> State {
    let _turn = turn(FileKey { device, inode: record.host.inode() });
    let Ok((node, attributes)) = LocalNode::new(host, true, false, Wanted::default()) else {
        return State::Kept;
    };
    match streams::refers_to(&node, id) {
        _ if Host::of(&node) != record.host => State::Kept,
        _ if attributes.links == 0 => State::Removed,
        Ok(false) => State::Unreferenced,
        Ok(true) | Err(_) => State::Kept,
    }
}

fn is_unchanged_for_long(store: BorrowedFd<'_>, id: StoredId) -> bool {
    let changed = open_file(store, id, false).and_then(rustix::fs::fstat).map(|stat| stat.st_ctime);
    let now = i64::try_from(crate::xattr_notes::now() / 1_000_000_000).unwrap_or(0);
    changed.is_ok_and(|changed| now.saturating_sub(changed) > UNREFERENCED_SECONDS)
}

fn open_host(store: BorrowedFd<'_>, record: &Record) -> rustix::io::Result<OwnedFd> {
    if record.host_handle.is_empty() {
        return Err(Errno::OPNOTSUPP);
    }
    // The kernel takes no descriptor that is for looking only.
    open_lasting(open_listable(store)?.as_fd(), &record.host_handle)
}

/// Whether a record's file is gone for certain.
pub(super) fn is_host_gone(store: BorrowedFd<'_>, record: &Record) -> bool {
    matches!(open_host(store, record), Err(Errno::STALE | Errno::NOENT))
}

fn server<T>(call: impl FnOnce() -> Option<T>) -> Option<T> {
    as_server(ServerWork::StreamStore, || Ok(call())).ok().flatten()
}

/// Looks once at what has lost a name.
#[cfg(test)]
pub(super) fn look_at_pending_now() -> usize {
    let pending = std::mem::take(&mut work().pending);
    look_at_pending(pending)
}
