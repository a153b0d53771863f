//! Read-only report on the contents of a share's stream store.

use super::sweep::{self, FileState, Refresh};
use super::{NAME, open_file};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use std::path::Path;

/// Maximum number of store files that are examined.
const FILES_MAX: usize = 1 << 17;

/// Contents of the stream store in the root of a share, as far as it was examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamInventory {
    /// Long streams.
    pub files: u64,
    /// Total length of those, in bytes.
    pub bytes: u64,
    /// Streams whose host no longer exists, or refers to another stream.
    pub orphans: u64,
    /// Total length of those, in bytes.
    pub orphan_bytes: u64,
    /// Streams from a backup that no file has adopted.
    pub unclaimed: u64,
    /// Other users may enter the directory, so the server does not use it.
    pub is_open_to_others: bool,
}

impl StreamInventory {
    /// Examines the store in this directory. `None` if there is none, or it cannot be entered.
    #[must_use]
    pub fn of(root: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let store = rustix::fs::openat(CWD, root.join(NAME), flags, Mode::empty()).ok()?;
        let mode = rustix::fs::fstat(&store).ok()?.st_mode;
        let mut found = Self { is_open_to_others: mode & 0o077 != 0, ..Self::default() };
        for id in sweep::names_in(store.as_fd())?.into_iter().take(FILES_MAX) {
            found.add(&store, id);
        }
        Some(found)
    }

    fn add(&mut self, store: &OwnedFd, id: super::StoredId) {
        let file = open_file(store.as_fd(), id, false).and_then(rustix::fs::fstat);
        let bytes = file.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        let Some((state, _)) = sweep::state_of(store, id, Refresh::Nothing) else { return };
        self.files += 1;
        self.bytes += bytes;
        match state {
            FileState::Orphan | FileState::Unreferenced => {
                self.orphans += 1;
                self.orphan_bytes += bytes;
            }
            FileState::Restored => self.unclaimed += 1,
            FileState::Referenced
            | FileState::Removed
            | FileState::WithoutHandles
            | FileState::Unproven
            | FileState::Unknown => {}
        }
    }
}
