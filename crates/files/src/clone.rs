//! Clones: a file shares blocks with another one. MS-FSA 2.1.5.10.4, RFC 7862 15.13.

use crate::copy::may_copy;
use crate::{Access, Caller, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::Result;

impl RequestFiles {
    /// Makes the target share `length` bytes with the source, as the requesting `caller`. A partial
    /// clone is an error. Byte-range locks are ignored, as by Windows and Samba, since no data is
    /// read or written.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] by the rights of either open, [`FsError::ReadOnly`]; as
    /// [`vfs::FileExtents::clone_range`].
    pub async fn clone_range(
        &self,
        caller: &Arc<Caller>,
        (source, source_offset): (&Arc<OpenFile>, u64),
        (target, target_offset): (&Arc<OpenFile>, u64),
        length: u64,
    ) -> Result<()> {
        may_copy(source, target, Access::WRITE_DATA)?;
        let from = source.node.clone();
        self.change_extents(caller, target, move |extents, actor| {
            extents.clone_range(actor, target_offset, &*from, source_offset, length)
        })
        .await
    }
}
