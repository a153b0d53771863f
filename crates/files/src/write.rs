//! Writing, and making writes durable.

use crate::{Access, Caller, OpenFile, RequestFiles, Unstable};
use std::sync::Arc;
use vfs::{FsError, Node, Result, Wanted};

/// The offset that means the end of the file.
const APPEND: u64 = u64::MAX;

impl RequestFiles {
    /// Writes all of `data` as `caller`, whose request it is: by NFS the open may be somebody
    /// else's ([`RequestFiles::authorize_by_open`]), whose power a write does not have.
    /// An offset of all ones appends, in one step with finding
    /// the end where the backend can. The right to append
    /// is enough to write anywhere, as Windows has it over the network. Once it returns,
    /// the bytes survive this process being killed.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not write, [`FsError::LockConflict`],
    /// [`FsError::NoSpace`], [`FsError::TooLarge`], [`FsError::IsDirectory`].
    pub fn write(&self, caller: &Caller, open: &OpenFile, offset: u64, data: &[u8]) -> Result<()> {
        if open.is_directory() {
            return Err(FsError::IsDirectory);
        }
        open.need_any(Access::WRITE_DATA | Access::APPEND_DATA)?;
        open.need_writable()?;
        // Nothing changes, so no cache breaks. MS-FSA 2.1.5.4.
        if data.is_empty() {
            return Ok(());
        }
        let appends = offset == APPEND;
        // Where the end was just now, which says all but always which locks are met.
        let end = |node: &dyn Node| node.attributes(Wanted::default()).map(|a| a.size_bytes);
        let at = if appends { end(&*open.node)? } else { offset };
        open.need_unlocked(at, data.len() as u64, true)?;
        open.claim_room(at, data.len() as u64)?;
        open.break_readers(&self.context);
        let kinds = open.write_kinds(at, data.len() as u64);
        let kept = open.keep_frozen();
        if appends {
            open.node.append(caller.identity.actor(), data)?;
        } else {
            open.node.write(caller.identity.actor(), offset, data)?;
        }
        open.note_written(&self.context, caller, open.kinds_after(kinds));
        open.restore_frozen(kept);
        Ok(())
    }

    /// As [`RequestFiles::write`], on a worker if the open is of a named stream: one that outgrows
    /// its attribute goes into a file, which is synced, and meanwhile this thread would serve no
    /// other request. An append stays here: those of one client follow each other.
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

    /// Makes everything written to the file so far survive power loss. Waits without a thread.
    ///
    /// # Errors
    /// As [`RequestFiles::make_stable`].
    pub async fn flush(&self, open: &Arc<OpenFile>) -> Result<()> {
        let mut unstable = Unstable::default();
        unstable.add_open(open);
        self.make_stable(unstable).await?;
        open.report_flushed(&self.context);
        Ok(())
    }
}
