//! Where a file has data and where it has none, as POSIX sees it: whether or not it was
//! made sparse. NFS. RFC 7862 15.1, 15.4, 15.11.

use crate::{Access, Caller, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{FsError, Result};

impl RequestFiles {
    /// Reserves space for a range as `caller`, whose request it is; a file that ends before the
    /// range's end grows to it.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not write, [`FsError::LockConflict`],
    /// [`FsError::NoSpace`], [`FsError::NotSupported`], [`FsError::TooLarge`].
    pub async fn reserve_range(
        &self,
        caller: &Arc<Caller>,
        open: &Arc<OpenFile>,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        open.need_any(Access::WRITE_DATA)?;
        open.need_writable()?;
        open.need_unlocked(offset, length, true)?;
        offset.checked_add(length).ok_or(FsError::TooLarge)?;
        open.claim_room(offset, length)?;
        open.break_readers(&self.context);
        let (node, writer) = (open.node.clone(), caller.clone());
        // Growing it afterwards might cut what others have written by then.
        self.offload(move || node.allocate_and_grow(writer.identity.actor(), offset, length))
            .await?;
        open.note_changed(&self.context, caller);
        Ok(())
    }

    /// The first range at or after `offset` that holds data, as (start, end); none if only a
    /// hole is left.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not read.
    pub async fn next_data(&self, open: &OpenFile, offset: u64) -> Result<Option<(u64, u64)>> {
        open.need_any(Access::READ_DATA | Access::EXECUTE)?;
        let node = open.node.clone();
        self.offload(move || node.next_data(offset)).await
    }
}
