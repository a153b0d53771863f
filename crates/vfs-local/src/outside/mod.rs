//! Changes by other processes in watched directories, by fanotify. Its events contain the process
//! id, so that this process's own changes are left out.
//!
//! Each served tree has one fanotify group and one thread, from the first watch on. Each event
//! contains its directory's handle, by which directories are distinguished.
//!
//! A watched directory is marked. For a watched tree the whole file system is marked, which only
//! the superuser may do. Marking every directory of a tree would take a walk, memory for each, and
//! a limit on their number. The cost is an event for every change on the file system, which is
//! dropped if its directory lies elsewhere. So the mark exists only while a client watches a tree.

mod event;
mod file;
mod handle;

use crate::identity::IdentityGuard;
use crate::local_node::LocalNode;
use crate::location::path_below;
use crate::stream_store::reserved;
use event::{FanotifyEvent, NameEvent};
use file::WatchedFile;
use handle::{handle_of, place_of};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use sync::Mutex;
use vfs::{
    ExternalChange, ExternalChangeCallback, ExternalName, ExternalWatch, FsError, Name, RelPath,
    Result, ServerWork, TreeChangeCallback,
};

/// Limit of open files whose last reported write is cached: a hundred kilobytes.
const REPORTED_WRITES_MAX: usize = 1024;
/// Bytes read from the group per call: some dozens of events.
const READ_BYTES: usize = 16 * 1024;

/// The common event mask.
const MASK: u64 = libc::FAN_CREATE
    | libc::FAN_DELETE
    | libc::FAN_ATTRIB
    | libc::FAN_CLOSE_WRITE
    | libc::FAN_ONDIR;

/// The scope of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Directory,
    FileSystem,
}

impl Scope {
    fn flags(self) -> u32 {
        match self {
            Self::Directory => libc::FAN_MARK_ONLYDIR,
            Self::FileSystem => libc::FAN_MARK_FILESYSTEM,
        }
    }

    fn mask(self) -> u64 {
        match self {
            // Includes each write, so that watchers of a directory see a growing file in its open
            // handle. For a complete file system that would slow down every writer.
            Self::Directory => MASK | libc::FAN_MODIFY | libc::FAN_EVENT_ON_CHILD,
            Self::FileSystem => MASK,
        }
    }
}

/// A fanotify group, and its reader thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Source {
    shared: Arc<SourceState>,
    stop: OwnedFd,
}

#[derive(Debug)]
struct SourceState {
    group: OwnedFd,
    /// The served directory.
    root: OwnedFd,
    /// Readable when the thread must end.
    stopped: OwnedFd,
    directories: Mutex<FanotifyDirectories>,
}

#[derive(Debug, Default)]
struct FanotifyDirectories {
    by_handle: HashMap<Box<[u8]>, FanotifyDirectory>,
    files: HashMap<Box<[u8]>, WatchedFile>,
    trees: Trees,
    next_watch: u64,
}

impl FanotifyDirectories {
    fn new_number(&mut self) -> u64 {
        self.next_watch += 1;
        self.next_watch
    }
}

/// Watches of the whole tree.
#[derive(Default)]
struct Trees {
    watches: Vec<(u64, TreeChangeCallback)>,
    /// The mask of the file system's mark, while there are watches.
    mask: u64,
}

impl std::fmt::Debug for Trees {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trees").field("watches", &self.watches.len()).finish_non_exhaustive()
    }
}

struct FanotifyDirectory {
    fd: OwnedFd,
    mask: u64,
    watches: Vec<(u64, ExternalChangeCallback)>,
}

impl std::fmt::Debug for FanotifyDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("fd", &self.fd).finish_non_exhaustive()
    }
}

/// One watch.
#[derive(Debug)]
struct Watch {
    shared: Arc<SourceState>,
    /// The directory; `None` for the tree.
    handle: Option<Box<[u8]>>,
    number: u64,
    work: ServerWork,
}

impl ExternalWatch for Watch {}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut directories = self.shared.directories.lock();
        let Some(handle) = &self.handle else {
            let trees = &mut directories.trees;
            trees.watches.retain(|(number, _)| *number != self.number);
            if trees.watches.is_empty() {
                let mask = std::mem::take(&mut trees.mask);
                self.shared.unmark(self.work, Scope::FileSystem, mask, self.shared.root.as_fd());
            }
            return;
        };
        let Some(directory) = directories.by_handle.get_mut(handle) else { return };
        directory.watches.retain(|(number, _)| *number != self.number);
        if directory.watches.is_empty()
            && let Some(gone) = directories.by_handle.remove(handle)
        {
            self.shared.unmark(self.work, Scope::Directory, gone.mask, gone.fd.as_fd());
        }
    }
}

impl Source {
    /// Creates a group without marks.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the kernel refuses.
    pub fn start(root: BorrowedFd<'_>) -> Result<Self> {
        let flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_REPORT_FID
            | libc::FAN_REPORT_DFID_NAME;
        // SAFETY: takes integers.
        let fd = unsafe { libc::fanotify_init(flags, (libc::O_RDONLY | libc::O_CLOEXEC) as u32) };
        if fd < 0 {
            return Err(FsError::NotSupported);
        }
        // SAFETY: the call has just given it to us.
        let group = unsafe { OwnedFd::from_raw_fd(fd) };
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|_| FsError::TooMany)?;
        let stopped = fcntl_dupfd_cloexec(&stop, 0).map_err(|_| FsError::TooMany)?;
        let root = fcntl_dupfd_cloexec(root, 0).map_err(|_| FsError::TooMany)?;
        let shared = Arc::new(SourceState { group, root, stopped, directories: Mutex::default() });
        let thread = std::thread::Builder::new().name("outside".to_owned());
        let reader = shared.clone();
        thread.spawn(move || reader.read_events()).map_err(|_| FsError::TooMany)?;
        Ok(Self { shared, stop })
    }

    /// Watches a directory that is open for reading.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the file system has no handles, [`FsError::TooMany`].
    pub fn watch(
        &self,
        work: ServerWork,
        directory: &LocalNode,
        tell: ExternalChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        let _acting = IdentityGuard::server(work)?;
        let fd = directory.as_fd();
        let handle = handle_of(fd)?;
        let mut directories = self.shared.directories.lock();
        let number = directories.new_number();
        if let Some(known) = directories.by_handle.get_mut(&handle) {
            known.watches.push((number, tell));
        } else {
            let fd = fcntl_dupfd_cloexec(fd, 0).map_err(|_| FsError::TooMany)?;
            let mask = self.shared.mark_new(Scope::Directory, fd.as_fd())?;
            let new = FanotifyDirectory { fd, mask, watches: vec![(number, tell)] };
            directories.by_handle.insert(handle.clone(), new);
        }
        Ok(Box::new(Watch { shared: self.shared.clone(), handle: Some(handle), number, work }))
    }

    /// Watches every directory of the tree on its root's file system.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for processes other than the superuser's, and if
    /// directories cannot be opened by handle.
    pub fn watch_tree(
        &self,
        work: ServerWork,
        tell: TreeChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        let _acting = IdentityGuard::server(work)?;
        let root = self.shared.root.as_fd();
        if place_of(root, &handle_of(root)?) != Some(RelPath::root()) {
            return Err(FsError::NotSupported);
        }
        let mut directories = self.shared.directories.lock();
        if directories.trees.watches.is_empty() {
            directories.trees.mask = self.shared.mark_new(Scope::FileSystem, root)?;
        }
        let number = directories.new_number();
        directories.trees.watches.push((number, tell));
        Ok(Box::new(Watch { shared: self.shared.clone(), handle: None, number, work }))
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // Cannot fail, because the counter is zero.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }
}

impl SourceState {
    /// Marks a directory or its file system. Returns the mask for removing the mark.
    fn mark_new(&self, scope: Scope, fd: BorrowedFd<'_>) -> Result<u64> {
        // FAN_RENAME exists since Linux 5.17.
        let renames = [libc::FAN_RENAME, libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO];
        for mask in renames.map(|renames| scope.mask() | renames) {
            match mark(&self.group, libc::FAN_MARK_ADD | scope.flags(), mask, fd) {
                Ok(()) => return Ok(mask),
                Err(Errno::INVAL) => {}
                Err(Errno::NOSPC | Errno::NOMEM) => return Err(FsError::TooMany),
                Err(_) => return Err(FsError::NotSupported),
            }
        }
        Err(FsError::NotSupported)
    }

    fn unmark(&self, work: ServerWork, scope: Scope, mask: u64, fd: BorrowedFd<'_>) {
        // Fails if the directory was removed, which also ends its mark.
        let _ = mark_for(work, &self.group, libc::FAN_MARK_REMOVE | scope.flags(), mask, fd);
    }

    /// Main loop of the thread.
    fn read_events(&self) {
        let mut buffer = vec![0; READ_BYTES];
        let mut writes = ReportedWrites::default();
        loop {
            let mut ready = [
                PollFd::new(&self.group, PollFlags::IN),
                PollFd::new(&self.stopped, PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Ok(_) if !ready[1].revents().is_empty() => return,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot wait for fanotify events: clients are no longer notified of changes by local processes; restart the server");
                    return;
                }
            }
            if let Ok(length) = rustix::io::read(&self.group, &mut buffer) {
                event::parse(&buffer[..length]).for_each(|event| self.deliver(&event, &mut writes));
            }
        }
    }

    fn deliver(&self, event: &FanotifyEvent<'_>, writes: &mut ReportedWrites) {
        if event.overflowed {
            let directories = self.directories.lock();
            let all = directories.by_handle.values().flat_map(|d| &d.watches);
            let tells: Vec<ExternalChangeCallback> = all.map(|(_, tell)| tell.clone()).collect();
            let files = directories.files.values().flat_map(|file| file.receivers(u64::MAX));
            let files: Vec<_> = files.collect();
            drop(directories);
            tells.iter().for_each(|tell| tell(&ExternalChange::Lost));
            files.iter().for_each(|tell| tell());
            return;
        }
        if event.pid == std::process::id() {
            return;
        }
        if let Some((file, what)) = event.changed_file() {
            let tells: Vec<_> = self
                .directories
                .lock()
                .files
                .get(file)
                .into_iter()
                .flat_map(|file| file.receivers(what))
                .collect();
            tells.iter().for_each(|tell| tell());
        }
        if event.is_write() && !self.watches_a_place_of(event) {
            return;
        }
        // Acts as the server for all watches; the callbacks may look at files as another user.
        let Ok(_acting) = IdentityGuard::server(ServerWork::Watch) else { return };
        let named = |name| ExternalName { name, is_directory: event.is_directory };
        for (handle, name_event) in event.name_events() {
            let Some((handle, name_event)) = self.with_name(handle, name_event) else { continue };
            if name_event.is_of_store() {
                continue;
            }
            let receivers = self.look_up(event, &handle, &name_event);
            if receivers.watches.is_empty() && receivers.place.is_none() {
                continue;
            }
            let is_reported = receivers.data.is_some_and(|data| writes.has(event, data));
            let changes = changes(name_event, receivers.exists, &named);
            for tell in receivers.watches.iter().filter(|_| !is_reported) {
                changes.iter().for_each(|change| tell(change));
            }
            for tell in &receivers.trees {
                let place = receivers.place.iter();
                place.for_each(|at| changes.iter().for_each(|change| tell(at, change)));
            }
        }
    }

    /// True if the directory of an event is watched itself. For a watched tree, a write is reported
    /// when its file is closed.
    fn watches_a_place_of(&self, event: &FanotifyEvent<'_>) -> bool {
        let directories = self.directories.lock();
        event.name_events().iter().any(|(handle, _)| directories.by_handle.contains_key(*handle))
    }

    /// Converts a change of a directory itself to a change of its name in its parent.
    fn with_name<'a>(
        &self,
        handle: &'a [u8],
        name_event: NameEvent,
    ) -> Option<(Cow<'a, [u8]>, NameEvent)> {
        if name_event != NameEvent::Itself {
            return Some((handle.into(), name_event));
        }
        let (parent, name) = handle::parent_of(self.root.as_fd(), handle)?;
        let (added, removed, attributes, data) = (false, false, true, false);
        let name_event = NameEvent::Names { name, added, removed, attributes, data };
        Some((parent.into_vec().into(), name_event))
    }

    /// The callbacks for a change in a directory, and further facts about it. Only watches of the
    /// directory itself receive writes, so its path is not looked up for one.
    fn look_up(
        &self,
        event: &FanotifyEvent<'_>,
        handle: &[u8],
        name_event: &NameEvent,
    ) -> ChangeReceivers {
        let directories = self.directories.lock();
        let known = directories.by_handle.get(handle);
        let watches = known.iter().flat_map(|d| &d.watches).map(|(_, tell)| tell.clone()).collect();
        let trees = directories.trees.watches.iter().filter(|_| !event.is_write());
        let trees: Vec<TreeChangeCallback> = trees.map(|(_, tell)| tell.clone()).collect();
        let marked = known.and_then(|d| fcntl_dupfd_cloexec(&d.fd, 0).ok());
        drop(directories);
        let data = match name_event {
            NameEvent::Names { name, .. } if event.is_write() || event.is_close() => {
                marked.as_ref().and_then(|directory| DataState::of(directory.as_fd(), name))
            }
            _ => None,
        };
        let mut place = None;
        let mut directory = marked;
        if !trees.is_empty()
            && let Some(found) = handle::open(self.root.as_fd(), handle)
        {
            let path = path_below(self.root.as_fd(), found.as_fd(), None);
            place = path.filter(|path| !reserved::leads_into_store(path.as_bytes()));
            directory = directory.or(Some(found));
        }
        let exists = match name_event {
            NameEvent::Names { name, added: true, removed: true, .. } => {
                let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                directory.is_some_and(|fd| rustix::fs::statat(fd, name.as_bytes(), flags).is_ok())
            }
            NameEvent::Names { removed, .. } => !removed,
            NameEvent::Renamed { .. } | NameEvent::Itself => true,
        };
        ChangeReceivers { watches, trees, place, exists, data }
    }
}

/// The values that a change of a file's data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DataState {
    size_bytes: i64,
    modified: (i64, u64),
}

impl DataState {
    fn of(directory: BorrowedFd<'_>, name: &Name) -> Option<Self> {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(directory, name.as_bytes(), flags).ok()?;
        let modified = (stat.st_mtime, stat.st_mtime_nsec);
        Some(Self { size_bytes: stat.st_size, modified })
    }
}

/// Files whose last write was reported to the watches of their directory, and that are open still.
///
/// The kernel reports the close as well. It is a change only if length or modification time moved
/// after the report: the kernel reports no write for a store through a mapping. Such a store moves
/// the time only when it makes a page dirty. So stores into a page that is dirty already, after a
/// reported write, stay unreported.
#[derive(Debug, Default)]
struct ReportedWrites(HashMap<Box<[u8]>, DataState>);

impl ReportedWrites {
    /// Whether an event is the close of a file whose data, which was looked at just now, is as it was
    /// reported.
    fn has(&mut self, event: &FanotifyEvent<'_>, data: DataState) -> bool {
        let Some((file, _)) = event.changed_file() else { return false };
        if event.is_close() {
            return self.0.remove(file) == Some(data);
        }
        if self.0.len() >= REPORTED_WRITES_MAX {
            // The closes of these are reported once more.
            self.0.clear();
        }
        self.0.insert(file.into(), data);
        false
    }
}

/// The receivers of a change.
struct ChangeReceivers {
    /// Watches of the directory itself.
    watches: Vec<ExternalChangeCallback>,
    /// Watches of the tree that may contain it.
    trees: Vec<TreeChangeCallback>,
    /// Path of the directory, if the tree is watched and contains it.
    place: Option<RelPath>,
    /// True if the name exists now.
    exists: bool,
    /// Of a write or a close, in a directory that is watched itself.
    data: Option<DataState>,
}

/// Converts to the changes to report. The kernel merges the events of a name until they are read.
/// If it was both added and removed, its current existence determines the order.
fn changes(
    name_event: NameEvent,
    exists: bool,
    named: &dyn Fn(Name) -> ExternalName,
) -> Vec<ExternalChange> {
    let (name, added, removed, attributes, data) = match name_event {
        NameEvent::Renamed { from, to } => return vec![ExternalChange::Renamed(named(from), to)],
        NameEvent::Itself => return Vec::new(),
        NameEvent::Names { name, added, removed, attributes, data } => {
            (name, added, removed, attributes, data)
        }
    };
    let name = named(name);
    let mut changes = Vec::new();
    if removed && exists {
        changes.push(ExternalChange::Removed(name.clone()));
    }
    if added {
        changes.push(ExternalChange::Added(name.clone()));
    }
    if attributes {
        changes.push(ExternalChange::AttributesModified(name.clone()));
    }
    if data {
        changes.push(ExternalChange::DataModified(name.clone()));
    }
    if removed && !exists {
        changes.push(ExternalChange::Removed(name));
    }
    changes
}

fn mark(group: &OwnedFd, flags: u32, mask: u64, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    // SAFETY: both descriptors are open; no path means the descriptor itself.
    let result = unsafe {
        libc::fanotify_mark(group.as_raw_fd(), flags, mask, fd.as_raw_fd(), std::ptr::null())
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Like [`mark`], as the server. The call needs read permission, which the thread usually has,
/// because it has just opened or closed the node. Otherwise its credentials change.
fn mark_for(
    work: ServerWork,
    group: &OwnedFd,
    flags: u32,
    mask: u64,
    fd: BorrowedFd<'_>,
) -> rustix::io::Result<()> {
    match self::mark(group, flags, mask, fd) {
        Err(Errno::ACCESS | Errno::PERM) => {
            let _acting = IdentityGuard::server(work).map_err(|_| Errno::ACCESS)?;
            self::mark(group, flags, mask, fd)
        }
        other => other,
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
