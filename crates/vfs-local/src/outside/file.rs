//! Watches of single files for changes by other processes.

use super::{Source, SourceState, handle::handle_of, mark_for};
use crate::local_node::LocalNode;
use rustix::io::Errno;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use vfs::{ExternalWatch, FileChangeCallback, FsError, Node, Result, ServerWork};

/// A marked file.
pub(super) struct WatchedFile {
    /// Open, to remove its mark.
    node: Arc<dyn Node>,
    mask: u64,
    watches: Vec<FileWatcher>,
}

struct FileWatcher {
    number: u64,
    mask: u64,
    tell: FileChangeCallback,
}

impl std::fmt::Debug for WatchedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchedFile").field("node", &self.node).finish_non_exhaustive()
    }
}

impl WatchedFile {
    /// The callbacks of watches for one of these events.
    pub fn receivers(&self, what: u64) -> impl Iterator<Item = FileChangeCallback> {
        let receivers = self.watches.iter().filter(move |watch| watch.mask & what != 0);
        receivers.map(|watch| watch.tell.clone())
    }
}

/// One watch of a file.
#[derive(Debug)]
struct FileWatch {
    shared: Arc<SourceState>,
    handle: Box<[u8]>,
    number: u64,
    work: ServerWork,
}

impl ExternalWatch for FileWatch {}

impl Drop for FileWatch {
    fn drop(&mut self) {
        let mut directories = self.shared.directories.lock();
        let Entry::Occupied(mut file) = directories.files.entry(self.handle.clone()) else {
            return;
        };
        let watched = file.get_mut();
        watched.watches.retain(|watch| watch.number != self.number);
        let mask = watched.watches.iter().fold(0, |mask, watch| mask | watch.mask);
        let unneeded = watched.mask & !mask;
        watched.mask = mask;
        let node = watched.node.clone();
        if mask == 0 {
            file.remove();
        }
        if unneeded != 0 {
            // Under the lock, so that a concurrent watch keeps its mark.
            let _ = mark_file(&self.shared, self.work, (libc::FAN_MARK_REMOVE, unneeded), &*node);
        }
        drop(directories);
    }
}

impl Source {
    /// Watches the data of a file: see [`vfs::ExternalWatches::watch_file`].
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the file system has no handles, [`FsError::TooMany`].
    pub fn watch_file(
        &self,
        work: ServerWork,
        node: &Arc<dyn Node>,
        every_write: bool,
        tell: FileChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        let file = LocalNode::of(&**node).ok_or(FsError::NotSupported)?;
        let handle = handle_of(file.as_fd())?;
        let mask = libc::FAN_CLOSE_WRITE | if every_write { libc::FAN_MODIFY } else { 0 };
        let mut directories = self.shared.directories.lock();
        let known = directories.files.get(&handle).map_or(0, |file| file.mask);
        if mask & !known != 0 {
            mark_file(&self.shared, work, (libc::FAN_MARK_ADD, mask), &**node)?;
        }
        let number = directories.new_number();
        let new = || WatchedFile { node: node.clone(), mask: 0, watches: Vec::new() };
        let watched = directories.files.entry(handle.clone()).or_insert_with(new);
        watched.mask |= mask;
        watched.watches.push(FileWatcher { number, mask, tell });
        Ok(Box::new(FileWatch { shared: self.shared.clone(), handle, number, work }))
    }
}

fn mark_file(
    shared: &SourceState,
    work: ServerWork,
    (flags, mask): (u32, u64),
    node: &dyn Node,
) -> Result<()> {
    let file = LocalNode::of(node).ok_or(FsError::NotSupported)?;
    mark_for(work, &shared.group, flags, mask, file.as_fd()).map_err(|error| match error {
        Errno::NOSPC | Errno::NOMEM => FsError::TooMany,
        _ => FsError::NotSupported,
    })
}
