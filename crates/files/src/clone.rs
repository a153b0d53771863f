//! Clones: a file shares blocks with another one. MS-FSA 2.1.5.10.4, RFC 7862 15.13.

use crate::copy::may_copy;
use crate::frozen_times::{MovedTimes, keep_times};
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
        let writer = caller.clone();
        target.break_readers(&self.context);
        let (from, to) = (source.node.clone(), target.node.clone());
        let times = target.frozen_times();
        self.offload(move || {
            let actor = writer.identity.actor();
            keep_times(times.as_ref(), MovedTimes::All, || {
                to.need_extents()?.clone_range(actor, target_offset, &*from, source_offset, length)
            })
        })
        .await?;
        target.note_changed(&self.context, caller);
        Ok(())
    }
}
