//! Writes.

use crate::frozen_times::MovedTimes;
use crate::{Access, Caller, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{AttributeRequest, FsError, Node, Result};

/// Offset that stands for the end of the file.
const APPEND: u64 = u64::MAX;

impl RequestFiles {
    /// Writes all of `data` as the requesting `caller`. An NFS client may use another user's open
    /// ([`RequestFiles::authorize_by_open`]), whose authority the write does not get.
    ///
    /// An offset of all ones appends, atomically where the backend can. The right to append permits
    /// writing anywhere, as Windows permits over the network. When it returns, the bytes survive a
    /// kill of this process.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks the right, [`FsError::LockConflict`],
    /// [`FsError::NoSpace`], [`FsError::TooLarge`], [`FsError::IsDirectory`].
    pub fn write(&self, caller: &Caller, open: &OpenFile, offset: u64, data: &[u8]) -> Result<()> {
        if open.is_directory() {
            return Err(FsError::IsDirectory);
        }
        open.need_any(Access::WRITE_DATA | Access::APPEND_DATA)?;
        open.need_writable()?;
        // MS-FSA 2.1.5.4: an empty write changes nothing, so no cache breaks.
        if data.is_empty() {
            return Ok(());
        }
        let appends = offset == APPEND;
        // A recent end of file, which nearly always determines the relevant locks.
        let end =
            |node: &dyn Node| node.attributes(AttributeRequest::default()).map(|a| a.size_bytes);
        let at = if appends { end(&*open.node)? } else { offset };
        open.need_unlocked(at, data.len() as u64, true)?;
        open.claim_room(at, data.len() as u64)?;
        open.break_readers(&self.context);
        let kinds = open.write_kinds(at, data.len() as u64);
        let actor = caller.identity.actor();
        open.keep_times(MovedTimes::All, || match appends {
            true => open.node.append(actor, data).map(drop),
            false => open.node.write(actor, offset, data),
        })?;
        open.note_written(&self.context, caller, open.kinds_after(kinds));
        Ok(())
    }

    /// As [`RequestFiles::write`], on a worker for a named stream: a stream that outgrows its
    /// attribute moves to a synced file, which would block this thread. Appends stay inline, so
    /// that those of one client remain in order.
    ///
    /// # Errors
    /// As [`RequestFiles::write`]; [`FsError::TooMany`] if the workers dropped it.
    pub async fn write_waiting(
        &self,
        open: &Arc<OpenFile>,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        if open.stream().is_none() || offset == APPEND {
            return self.write(open.caller(), open, offset, data);
        }
        let (files, open, data) = (self.clone(), open.clone(), data.to_vec());
        self.offload(move || files.write(open.caller(), &open, offset, &data)).await
    }
}
