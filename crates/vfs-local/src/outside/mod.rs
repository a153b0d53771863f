//! What other processes do in watched directories, by fanotify: it says who
//! did it, so that what this process does itself can be left out.
//!
//! One group and one thread for a served directory, from the first watch on.
//! Directories are told apart by their handles, which each event carries.

mod event;

use crate::identity::act_as;
use crate::node::LocalNode;
use event::{Event, Happening};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vfs::{FsError, Identity, Name, OutsideChange, OutsideName, OutsideWatch, Result, TellOutside};

/// Bytes read from the group at once: some dozens of events.
const READ_BYTES: usize = 16 * 1024;

/// What is asked for of every directory.
const MASK: u64 = libc::FAN_CREATE
    | libc::FAN_DELETE
    | libc::FAN_ATTRIB
    | libc::FAN_CLOSE_WRITE
    | libc::FAN_ONDIR
    | libc::FAN_EVENT_ON_CHILD;

/// A group, and the thread that reads from it until this is dropped.
#[derive(Debug)]
pub struct Source {
    shared: Arc<Shared>,
    stop: OwnedFd,
}

#[derive(Debug)]
struct Shared {
    group: OwnedFd,
    /// Ends the thread once it can be read.
    stopped: OwnedFd,
    directories: Mutex<Directories>,
}

#[derive(Debug, Default)]
struct Directories {
    by_handle: HashMap<Box<[u8]>, Directory>,
    next_watch: u64,
}

struct Directory {
    fd: OwnedFd,
    mask: u64,
    watches: Vec<(u64, TellOutside)>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("fd", &self.fd).finish_non_exhaustive()
    }
}

/// One watch of a directory.
#[derive(Debug)]
struct Watch {
    shared: Arc<Shared>,
    handle: Box<[u8]>,
    number: u64,
}

impl OutsideWatch for Watch {}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut directories = self.shared.lock();
        let Some(directory) = directories.by_handle.get_mut(&self.handle) else { return };
        directory.watches.retain(|(number, _)| *number != self.number);
        if directory.watches.is_empty()
            && let Some(gone) = directories.by_handle.remove(&self.handle)
        {
            // Fails if the directory is gone, and its mark with it.
            let _ = mark(&self.shared.group, libc::FAN_MARK_REMOVE, gone.mask, gone.fd.as_fd());
        }
    }
}

impl Source {
    /// A group without directories.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where the kernel does not let us.
    pub fn start() -> Result<Self> {
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
        let shared = Arc::new(Shared { group, stopped, directories: Mutex::default() });
        let thread = std::thread::Builder::new().name("outside".to_owned());
        let reader = shared.clone();
        thread.spawn(move || reader.read_events()).map_err(|_| FsError::TooMany)?;
        Ok(Self { shared, stop })
    }

    /// Watches a directory that is open for reading.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where the file system gives no handles,
    /// [`FsError::TooMany`].
    pub fn watch(&self, directory: &LocalNode, tell: TellOutside) -> Result<Box<dyn OutsideWatch>> {
        act_as(&Identity::root())?;
        let fd = directory.as_fd();
        let handle = handle_of(fd)?;
        let mut directories = self.shared.lock();
        let number = directories.next_watch;
        directories.next_watch += 1;
        if let Some(known) = directories.by_handle.get_mut(&handle) {
            known.watches.push((number, tell));
        } else {
            let fd = fcntl_dupfd_cloexec(fd, 0).map_err(|_| FsError::TooMany)?;
            let mask = self.shared.mark_new(fd.as_fd())?;
            let new = Directory { fd, mask, watches: vec![(number, tell)] };
            directories.by_handle.insert(handle.clone(), new);
        }
        Ok(Box::new(Watch { shared: self.shared.clone(), handle, number }))
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // Cannot fail: the counter is at zero.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Directories> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a directory; with what, for unmarking it.
    fn mark_new(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        // Renames as one event are known since Linux 5.17.
        let renames = [MASK | libc::FAN_RENAME, MASK | libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO];
        for mask in renames {
            match mark(&self.group, libc::FAN_MARK_ADD | libc::FAN_MARK_ONLYDIR, mask, fd) {
                Ok(()) => return Ok(mask),
                Err(Errno::INVAL) => {}
                Err(Errno::NOSPC | Errno::NOMEM) => return Err(FsError::TooMany),
                Err(_) => return Err(FsError::NotSupported),
            }
        }
        Err(FsError::NotSupported)
    }

    /// The thread.
    fn read_events(&self) {
        if act_as(&Identity::root()).is_err() {
            return;
        }
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let mut ready = [
                PollFd::new(&self.group, PollFlags::IN),
                PollFd::new(&self.stopped, PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Ok(_) if !ready[1].revents().is_empty() => return,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "changes by other processes are not told any more");
                    return;
                }
            }
            if let Ok(length) = rustix::io::read(&self.group, &mut buffer) {
                event::parse(&buffer[..length]).for_each(|event| self.deliver(&event));
            }
        }
    }

    fn deliver(&self, event: &Event<'_>) {
        if event.overflowed {
            let directories = self.lock();
            let all = directories.by_handle.values().flat_map(|d| &d.watches);
            let tells: Vec<TellOutside> = all.map(|(_, tell)| tell.clone()).collect();
            drop(directories);
            tells.iter().for_each(|tell| tell(&OutsideChange::Lost));
            return;
        }
        if event.pid == std::process::id() {
            return;
        }
        let named = |name| OutsideName { name, is_directory: event.is_directory };
        for (handle, happening) in event.happenings() {
            let (tells, exists) = self.look_up(handle, &happening);
            let changes = changes(happening, exists, &named);
            for tell in &tells {
                changes.iter().for_each(|change| tell(change));
            }
        }
    }

    /// Who is told of what happens in a directory, and whether the name is there now.
    fn look_up(&self, handle: &[u8], happening: &Happening) -> (Vec<TellOutside>, bool) {
        let directories = self.lock();
        let Some(directory) = directories.by_handle.get(handle) else { return Default::default() };
        let tells = directory.watches.iter().map(|(_, tell)| tell.clone()).collect();
        let exists = match happening {
            Happening::Names { name, added: true, removed: true, .. } => {
                let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::statat(&directory.fd, name.as_bytes(), flags).is_ok()
            }
            Happening::Names { removed, .. } => !removed,
            Happening::Renamed { .. } => true,
        };
        (tells, exists)
    }
}

/// The kernel puts together what happens to a name before we read it. If it
/// came and went, whether it is there now tells in which order.
fn changes(
    happening: Happening,
    exists: bool,
    named: &dyn Fn(Name) -> OutsideName,
) -> Vec<OutsideChange> {
    let (name, added, removed, attributes, data) = match happening {
        Happening::Renamed { from, to } => return vec![OutsideChange::Renamed(named(from), to)],
        Happening::Names { name, added, removed, attributes, data } => {
            (name, added, removed, attributes, data)
        }
    };
    let name = named(name);
    let mut changes = Vec::new();
    if removed && exists {
        changes.push(OutsideChange::Removed(name.clone()));
    }
    if added {
        changes.push(OutsideChange::Added(name.clone()));
    }
    if attributes {
        changes.push(OutsideChange::AttributesModified(name.clone()));
    }
    if data {
        changes.push(OutsideChange::DataModified(name.clone()));
    }
    if removed && !exists {
        changes.push(OutsideChange::Removed(name));
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

/// File system and handle of a directory, in the form in which events carry them.
fn handle_of(fd: BorrowedFd<'_>) -> Result<Box<[u8]>> {
    #[repr(C)]
    struct Handle {
        length: u32,
        kind: i32,
        bytes: [u8; libc::MAX_HANDLE_SZ as usize],
    }
    let mut handle = Handle {
        length: libc::MAX_HANDLE_SZ as u32,
        kind: 0,
        bytes: [0; libc::MAX_HANDLE_SZ as usize],
    };
    let mut mount = 0;
    // SAFETY: `handle` has the layout of `file_handle` with as much room as it
    // says; the path is an empty string, for the descriptor itself.
    let result = unsafe {
        libc::name_to_handle_at(
            fd.as_raw_fd(),
            c"".as_ptr(),
            (&raw mut handle).cast(),
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    let bytes = handle.bytes.get(..handle.length as usize);
    let (0, Some(bytes)) = (result, bytes) else { return Err(FsError::NotSupported) };
    let mut key = file_system_of(fd)?.to_vec();
    key.extend_from_slice(&handle.length.to_ne_bytes());
    key.extend_from_slice(&handle.kind.to_ne_bytes());
    key.extend_from_slice(bytes);
    Ok(key.into())
}

fn file_system_of(fd: BorrowedFd<'_>) -> Result<[u8; 8]> {
    // SAFETY: all zeros is a value of this structure of integers.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and `facts` is ours to be filled.
    if unsafe { libc::fstatfs(fd.as_raw_fd(), &raw mut facts) } != 0 {
        return Err(FsError::NotSupported);
    }
    // SAFETY: an `fsid_t` is two 32-bit integers without padding.
    Ok(unsafe { std::mem::transmute::<libc::fsid_t, [u8; 8]>(facts.f_fsid) })
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
