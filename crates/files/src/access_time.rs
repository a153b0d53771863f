//! The last access time of a file that a Windows client wrote. MS-FSA 2.1.4.17.
//!
//! No write of the kernel moves it, and setting it with each would take a system call more. The
//! file's state notes that a write is the later access: opens present the time of the last write
//! then, and the close of a writing open advances the stored time. A write whose open leaves the
//! write time stores it at once, with the restored write time ([`crate::frozen_times`]).

use crate::OpenFile;
use crate::frozen_times::{ACCESSED, BasicChange, MODIFIED, TimeSetting};
use crate::server_work::{METADATA, WANTED};
use crate::table::OpenFileState;
use std::sync::atomic::Ordering;
use vfs::{
    AttributeChanges, AttributeRequest, Attributes, Node, Result, ServerWork, TimeChange,
    Timestamp, Wait,
};

impl OpenFile {
    /// Whether writes by this open move the last access time. POSIX writes do not, nor any where the
    /// kernel leaves that time: the file's own mount and flags decide, not those of the share's root.
    /// Streams have no times of their own.
    pub(crate) fn moves_access_time(&self) -> bool {
        if self.is_posix() || self.name.stream.is_some() {
            return false;
        }
        let is_noatime = || self.node.local_file().is_some_and(|file| file.is_noatime());
        // NFS and FUSE leave the time to their own server, and each look at the mount is a call of it.
        let follows = || !self.volume().features().misses_remote_changes && !is_noatime();
        *self.writes_are_accesses.get_or_init(follows)
    }

    /// Notes a write by this open, unless it set or stopped the access time. One that set or stopped
    /// the write time has stored the access time with it.
    pub(crate) fn note_stale_access_time(&self) {
        let moves = self.frozen.load(Ordering::Acquire) & (ACCESSED | MODIFIED) == 0
            && self.moves_access_time();
        if moves {
            self.state.set_access_time_stale(true);
            self.has_stale_access.store(true, Ordering::Relaxed);
        }
    }

    /// Advances the access time of a file that was copied from, unless this open set or stopped it:
    /// the kernel reads nothing where it shares extents. POSIX copies leave it then.
    pub(crate) fn note_copied_from(&self) {
        let moves = self.frozen.load(Ordering::Acquire) & ACCESSED == 0 && self.moves_access_time();
        if moves && let Some(file) = self.node.local_file() {
            // A refusal leaves the time where the file system's own copy left it.
            let _ = file.advance_access_time(ServerWork::Metadata);
        }
    }

    /// Advances the stored access time after a write by this open, at its close.
    pub(crate) fn advance_access_time(&self) {
        if self.has_stale_access.load(Ordering::Relaxed) && self.state.is_access_time_stale() {
            self.state.set_access_time_stale(false);
            if let Err(error) = self.store_write_as_access() {
                tracing::debug!(%error, "the access time of a write could not be stored");
            }
        }
    }

    /// Advances it by a read, which leaves the change time. An open that set or stopped a time stores
    /// the time of the last write itself, and the change time that clients have seen; so does one whose
    /// read is refused or moves nothing.
    fn store_write_as_access(&self) -> Result<()> {
        let Some(file) = self.node.local_file() else {
            // Only the side effect matters; another backend may have none.
            return self.node.read(0, 1, &mut Vec::new(), Wait::Never).map(drop);
        };
        let before = self.node.attributes(AttributeRequest::default())?;
        if before.accessed >= before.modified {
            return Ok(());
        }
        if self.frozen.load(Ordering::Acquire) == 0 {
            let read = file.advance_access_time(ServerWork::Metadata);
            // The kernel also advances it at some reads that fail.
            let after = self.node.attributes(AttributeRequest::default())?;
            if after.accessed != before.accessed {
                return Ok(());
            }
            tracing::debug!(?read, "no read advances the access time of a write");
        }
        store_last_write_as_access(&*self.node)
    }

    /// Before a change by an open that set or stopped the access time: stores that of an earlier write
    /// by another open, which clients see as the write time until the change moves it.
    pub(crate) fn store_others_access(&self) {
        let is_due =
            self.frozen.load(Ordering::Acquire) & ACCESSED != 0 && self.is_access_time_stale();
        if !is_due {
            return;
        }
        // A write after this notes itself again.
        self.with_file_state(|file| file.set_access_time_stale(false));
        let node = self.frozen_times_or_default().node();
        if let Err(error) = store_last_write_as_access(&**node) {
            tracing::debug!(%error, "the access time of another open's write could not be stored");
        }
    }

    /// Attributes with the access time after the close, that of the last write: see
    /// [`OpenFile::advance_access_time`].
    pub(crate) fn with_final_access_time(&self, attributes: Attributes) -> Attributes {
        match self.presents_writes() {
            true => with_write_as_access(attributes),
            false => attributes,
        }
    }

    fn presents_writes(&self) -> bool {
        !self.is_posix() && self.is_access_time_stale()
    }

    fn is_access_time_stale(&self) -> bool {
        self.with_file_state(OpenFileState::is_access_time_stale).unwrap_or_default()
    }

    /// Runs `call` with the state of the open's file, which has the times of its streams. An open
    /// of a stream looks it up.
    fn with_file_state<T>(&self, call: impl FnOnce(&OpenFileState) -> T) -> Option<T> {
        match self.name.stream.is_some() {
            true => self.table.find(self.state.key).map(|file| call(&file)),
            false => Some(call(&self.state)),
        }
    }

    /// The access time to store with a client's setting: a requested one, or that of a write before
    /// the open stops it or another write time hides it. A time that a client saw stays.
    pub(crate) fn access_change(&self, change: &BasicChange, present: &Attributes) -> TimeChange {
        let moved = match change.accessed {
            TimeSetting::Set(_) | TimeSetting::Freeze if !self.is_posix() => {
                let times = self.frozen_times_or_default();
                times.cache_link_text(&self.caller.identity, present)
            }
            _ => None,
        };
        if let TimeSetting::Set(to) = change.accessed {
            return TimeChange::Set(to);
        }
        let seen = with_write_as_access(*present).accessed;
        let is_due = self.is_access_time_stale() && seen != present.accessed;
        let stored = Some(seen).filter(|_| is_due && fixes_access_time(change)).or(moved);
        stored.map_or(TimeChange::Keep, TimeChange::Set)
    }

    /// Text of the open symbolic link. It leaves an access time that this open set or stopped.
    pub(crate) fn link_text(&self) -> Result<Vec<u8>> {
        match self.known_link_text() {
            Some(text) => Ok(text.clone()),
            None => self.present().readlink(self.caller.identity.actor()),
        }
    }

    /// The text, if reading it would move an access time that this open set or stopped.
    pub(crate) fn known_link_text(&self) -> Option<&Vec<u8>> {
        if self.frozen.load(Ordering::Acquire) & ACCESSED == 0 {
            return None;
        }
        self.frozen_times_or_default().link_text(self.present())
    }

    /// Notes that a client's setting was stored, with [`OpenFile::access_change`].
    pub(crate) fn note_access_change(&self, change: &BasicChange) {
        if fixes_access_time(change) {
            self.with_file_state(|file| file.set_access_time_stale(false));
        }
    }
}

impl OpenFileState {
    /// The access time that a later setting of an object's write time would hide; none if the
    /// stored one counts.
    pub fn unstored_access_time(&self, node: &dyn Node) -> Option<Timestamp> {
        let wanted = AttributeRequest::default();
        let present = self.is_access_time_stale().then(|| node.attributes(wanted))?.ok()?;
        Some(with_write_as_access(present).accessed)
    }

    /// Notes that an object's times were set. `unstored` is what
    /// [`OpenFileState::unstored_access_time`] returned before, if the setting left the access time.
    pub fn note_object_times(&self, node: &dyn Node, unstored: Option<Timestamp>) {
        self.set_access_time_stale(false);
        let Some(accessed) = unstored.map(TimeChange::Set) else { return };
        let changes = AttributeChanges { accessed, ..AttributeChanges::default() };
        if let Err(error) = node.set_attributes(METADATA, &changes) {
            tracing::debug!(%error, "the access time of a write could not be stored");
        }
    }
}

/// Stores the time of the last write as access time, unless the stored one is as new. The change time
/// that clients have seen stays.
fn store_last_write_as_access(node: &dyn Node) -> Result<()> {
    let present = node.attributes(WANTED)?;
    if present.accessed >= present.modified {
        return Ok(());
    }
    let accessed = TimeChange::Set(present.modified);
    let changed = Some(present.shown_changed());
    let changes = AttributeChanges { accessed, changed, ..AttributeChanges::default() };
    node.set_attributes(METADATA, &changes)
}

/// Whether the stored access time counts after the change, whatever was written before.
fn fixes_access_time(change: &BasicChange) -> bool {
    matches!(change.accessed, TimeSetting::Set(_) | TimeSetting::Freeze)
        || matches!(change.modified, TimeSetting::Set(_))
}

fn with_write_as_access(attributes: Attributes) -> Attributes {
    Attributes { accessed: attributes.accessed.max(attributes.modified), ..attributes }
}
