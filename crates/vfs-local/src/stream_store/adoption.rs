//! Which file a stream's file belongs to, and how it comes to belong to another one.
//!
//! A backup restores a file and its streams' files under other numbers, so that the records name
//! files that are gone. Such a stream's file is adopted by the first file that refers to it, if
//! nobody gains a right by that: the new file has the owner, the group, the mode and the access list
//! of the one that is recorded. References are copied with files (`cp -a`), so a copy with the same
//! rights may come before the restored file: the stream then stays with the copy, and is not lost.
//! In every other case the reference is an error, and the stream's file stays as it is.

use super::record::{Host, Record};
use super::sweep::{self, HostState};
use super::{StoredFile, handle_of, orphan_mark, record_of, remove_file, unreachable};
use crate::node::LocalNode;
use crate::posix_acl::PermissionState;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::Stat;
use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfs::{FsError, Result};

/// Held while a record is compared and then replaced, or its file removed. Nothing is synced under it.
static RECORDS: Mutex<()> = Mutex::new(());

fn lock_records() -> MutexGuard<'static, ()> {
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// To which file a stream's file belongs.
pub(super) enum Claim {
    /// To the node that refers to it.
    Own,
    /// To the node from now on.
    Adopted,
    /// To another file, which is there.
    Foreign,
    /// To no file for certain.
    Unclear,
}

impl StoredFile {
    /// Whether the record names this very node.
    pub(super) fn is_own(&self, node: &LocalNode) -> bool {
        record_of(self.file.as_fd()).is_ok_and(|record| record.is_some_and(|r| names(&r, node)))
    }

    /// Finds out to which file this one belongs.
    ///
    /// # Errors
    /// [`FsError::Unavailable`] and others if the record cannot be read or written.
    pub(super) fn claim_for(&self, node: &LocalNode, writes: bool) -> Result<Claim> {
        let failed = |errno| unreachable("read record of stream", errno);
        let Some(record) = record_of(self.file.as_fd()).map_err(failed)? else {
            return Ok(self.refuse("its file in the store has no record: restore its attributes"));
        };
        if names(&record, node) {
            return Ok(Claim::Own);
        }
        match sweep::host_state(self.store.as_fd(), &record) {
            HostState::Present if !self.is_copied(&record) => Ok(Claim::Foreign),
            HostState::Gone => self.adopt(node, &record, writes),
            HostState::Present | HostState::Unknown => {
                Ok(self.refuse("it may belong to the file that it was made for"))
            }
        }
    }

    /// Makes the node the one that the record names, unless users would gain rights by that.
    fn adopt(&self, node: &LocalNode, seen: &Record, writes: bool) -> Result<Claim> {
        let (own, host) = (self.stat()?, node.raw_stat()?);
        let is_equal = seen.host_rights == Some(PermissionState::of(node)?.hash());
        if own.st_uid != host.st_uid || !is_equal {
            return Ok(self.refuse(
                "it came from a file with another owner, group, mode or access list: restore those",
            ));
        }
        let _lock = lock_records();
        let failed = |errno| unreachable("take over stream", errno);
        let present = record_of(self.file.as_fd()).map_err(failed)?;
        if present.as_ref().is_some_and(|record| names(record, node)) {
            // Another caller was faster, for the same file.
            return Ok(Claim::Own);
        }
        if present.as_ref() != Some(seen) || self.stat()?.st_nlink == 0 {
            return Ok(self.refuse("it was taken over or removed just now"));
        }
        match self.record_host(node) {
            // A snapshot stays as it is.
            Err(FsError::ReadOnly) if !writes => {}
            other => other?,
        }
        // It has a host again.
        orphan_mark::clear(&self.file);
        sweep::host_added(node.key, self.id());
        Ok(Claim::Adopted)
    }

    fn refuse(&self, reason: &'static str) -> Claim {
        let id = self.id().file_name();
        tracing::error!(id, reason, "a long stream is not given to the file that refers to it");
        Claim::Unclear
    }

    /// Whether the file is not the one that its record was written to.
    fn is_copied(&self, record: &Record) -> bool {
        let own = handle_of(self.file.as_fd());
        !record.own_handle.is_empty() && !own.is_empty() && own != record.own_handle
    }

    /// Counts the bytes to the owner that the host has by now, as a local program may have given it
    /// away. Where that fails the daily look tries again.
    pub(super) fn follow_owner(&self, node: &LocalNode) {
        let is_followed =
            |own: Stat, host: Stat| (own.st_uid, own.st_gid) == (host.st_uid, host.st_gid);
        let seen = self.stat().and_then(|own| Ok(is_followed(own, node.raw_stat()?)));
        if seen == Ok(false)
            && let Err(error) = self.refresh_record(node)
        {
            tracing::debug!(%error, "a long stream is counted to the former owner of its file");
        }
    }

    /// Records the rights that the host has by now, if they are others, and counts the bytes to its
    /// owner and project.
    pub(super) fn refresh_record(&self, node: &LocalNode) -> Result<()> {
        let failed = |errno| unreachable("read record of stream", errno);
        let rights = Some(PermissionState::of(node)?.hash());
        let _lock = lock_records();
        let record = record_of(self.file.as_fd()).map_err(failed)?;
        let Some(record) = record.filter(|record| names(record, node)) else { return Ok(()) };
        let (own, host) = (self.stat()?, node.raw_stat()?);
        let failed = |errno| unreachable("chown stream", errno);
        if (own.st_uid, own.st_gid) != (host.st_uid, host.st_gid) {
            super::give_file(self.file.as_fd(), host.st_uid, host.st_gid).map_err(failed)?;
        }
        super::project::copy_project(node, self.file.as_fd()).map_err(failed)?;
        if record.host_rights == rights { Ok(()) } else { self.record_host(node) }
    }
}

/// Removes a stream's file whose record is still the one by which it was found to be left over.
/// False if it stays.
pub(super) fn remove_unchanged(
    store: BorrowedFd<'_>,
    id: super::StoredId,
    seen: &Record,
) -> rustix::io::Result<bool> {
    let _lock = lock_records();
    let file = match super::open_file(store, id, false) {
        Err(Errno::NOENT) => return Ok(false),
        other => other?,
    };
    if record_of(file.as_fd())?.as_ref() != Some(seen) {
        return Ok(false);
    }
    remove_file(store, id);
    Ok(true)
}

/// Whether a record names this very node.
fn names(record: &Record, node: &LocalNode) -> bool {
    let host = Host::of(node);
    if record.host != host {
        return false;
    }
    // The number alone may have been given again, where the kernel's handle says more.
    !host.is_ambiguous()
        || record.host_handle.is_empty()
        || record.host_handle == handle_of(node.as_fd())
}
