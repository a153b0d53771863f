//! Ownership of a store file by its host, and its adoption by another host.
//!
//! A backup restores a file and its store files with new inode numbers, so that the records refer
//! to files that no longer exist. The first file that refers to such a store file adopts it if
//! nobody gains a right by that. The new host must have the owner, group, mode and ACL that the
//! record holds. References are copied with files (`cp -a`), so a copy with equal rights may come
//! before the restored file; the stream then stays with the copy, and is not lost. In every other
//! case the reference is an error, and the store file stays unchanged.

use super::record::{HostIdentity, StoreFileRecord};
use super::sweep::{self, HostState};
use super::{StoredFile, handle_of, orphan_mark, record_of, remove_file, unreachable};
use crate::local_node::LocalNode;
use crate::posix_acl::PermissionState;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::Stat;
use rustix::io::Errno;
use sync::{Mutex, MutexGuard};
use vfs::{FsError, Result};

/// Held while a record is compared and then replaced, or its store file removed. No sync happens
/// under this lock.
static RECORDS: Mutex<()> = Mutex::new(());

fn lock_records() -> MutexGuard<'static, ()> {
    RECORDS.lock()
}

/// Relation of a store file to the node that refers to it.
pub(super) enum HostRelation {
    /// The node is its host.
    Own,
    /// The node has just become its host.
    Adopted,
    /// It belongs to another existing file.
    Foreign,
    /// Its host cannot be determined.
    Unclear,
}

impl StoredFile {
    /// True if the record refers to this node.
    pub(super) fn is_own(&self, node: &LocalNode) -> bool {
        record_of(self.file.as_fd()).is_ok_and(|record| record.is_some_and(|r| names(&r, node)))
    }

    /// Determines the store file's relation to `node`.
    ///
    /// # Errors
    /// [`FsError::Unavailable`] and others if the record cannot be read or written.
    pub(super) fn claim_for(&self, node: &LocalNode, writes: bool) -> Result<HostRelation> {
        let failed = |errno| unreachable("read record of stream", errno);
        let Some(record) = record_of(self.file.as_fd()).map_err(failed)? else {
            return Ok(self.refuse("its file in the store has no record: restore its attributes"));
        };
        if names(&record, node) {
            return Ok(HostRelation::Own);
        }
        match sweep::host_state(self.store.as_fd(), &record) {
            HostState::Present if !self.is_copied(&record) => Ok(HostRelation::Foreign),
            HostState::Gone => self.adopt(node, &record, writes),
            HostState::Present | HostState::Unknown => {
                Ok(self.refuse("its original file may still exist"))
            }
        }
    }

    /// Makes the node the host of record, unless a user would gain rights by that.
    fn adopt(
        &self,
        node: &LocalNode,
        seen: &StoreFileRecord,
        writes: bool,
    ) -> Result<HostRelation> {
        let (own, host) = (self.stat()?, node.raw_stat()?);
        let is_equal = seen.host_rights == Some(PermissionState::of(node)?.hash());
        if own.st_uid != host.st_uid || !is_equal {
            return Ok(self.refuse(
                "its original file had another owner, group, mode or access list: restore those",
            ));
        }
        let _lock = lock_records();
        let failed = |errno| unreachable("take over stream", errno);
        let present = record_of(self.file.as_fd()).map_err(failed)?;
        if present.as_ref().is_some_and(|record| names(record, node)) {
            // Another caller adopted it first, for the same file.
            return Ok(HostRelation::Own);
        }
        if present.as_ref() != Some(seen) || self.stat()?.st_nlink == 0 {
            return Ok(self.refuse("another request adopted or removed it meanwhile"));
        }
        match self.record_host(node) {
            // A snapshot is immutable.
            Err(FsError::ReadOnly) if !writes => {}
            other => other?,
        }
        // The store file has a host again.
        orphan_mark::clear(&self.file);
        sweep::host_added(node.key, self.id());
        Ok(HostRelation::Adopted)
    }

    fn refuse(&self, reason: &'static str) -> HostRelation {
        let id = self.id().file_name();
        tracing::error!(
            id,
            reason,
            "a restored long stream is unavailable: the file that refers to it may not adopt it"
        );
        HostRelation::Unclear
    }

    /// True if the record was written to another file, from which this one was copied.
    fn is_copied(&self, record: &StoreFileRecord) -> bool {
        let own = handle_of(self.file.as_fd());
        !record.own_handle.is_empty() && !own.is_empty() && own != record.own_handle
    }

    /// Accounts the bytes to the host's current owner, because a local program may have changed it.
    /// If that fails the daily scan retries.
    pub(super) fn follow_owner(&self, node: &LocalNode) {
        let is_followed =
            |own: Stat, host: Stat| (own.st_uid, own.st_gid) == (host.st_uid, host.st_gid);
        let seen = self.stat().and_then(|own| Ok(is_followed(own, node.raw_stat()?)));
        if seen == Ok(false)
            && let Err(error) = self.refresh_record(node)
        {
            tracing::debug!(%error, "cannot account a long stream to the new owner of its file; the daily scan retries");
        }
    }

    /// Records the host's current rights if they changed, and accounts the bytes to its owner and
    /// project.
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

/// Removes a store file if its record is still the one with which it was found orphaned. False if
/// it stays.
pub(super) fn remove_unchanged(
    store: BorrowedFd<'_>,
    id: super::StoredId,
    seen: &StoreFileRecord,
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

/// True if a record refers to this node.
fn names(record: &StoreFileRecord, node: &LocalNode) -> bool {
    let host = HostIdentity::of(node);
    if record.host != host {
        return false;
    }
    // The inode number alone may have been reused, unless the kernel's handle confirms it.
    !host.is_ambiguous()
        || record.host_handle.is_empty()
        || record.host_handle == handle_of(node.as_fd())
}
