//! Copying within the server.

use crate::{Access, Files, OpenFile};
use std::sync::Arc;
use vfs::{FsError, Result};

impl Files {
    /// Copies `length` bytes between two open files, by the backend's own
    /// means where it has any. All of it, or an error.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] by the rights of either open, [`FsError::LockConflict`],
    /// [`FsError::InvalidParameter`] if the source is shorter, [`FsError::NoSpace`].
    pub async fn copy_range(
        &self,
        source: &Arc<OpenFile>,
        source_offset: u64,
        target: &Arc<OpenFile>,
        target_offset: u64,
        length: u64,
    ) -> Result<()> {
        source.need_any(Access::READ_DATA | Access::EXECUTE)?;
        target.need_any(Access::WRITE_DATA | Access::APPEND_DATA)?;
        source.need_unlocked(source_offset, length, false)?;
        target.need_unlocked(target_offset, length, true)?;
        target.break_readers();
        let (from, to) = (source.node.clone(), target.node.clone());
        let kept = target.keep_frozen();
        self.offload(move || {
            let mut done = 0;
            while done < length {
                let count = to.copy_range(
                    target_offset + done,
                    &*from,
                    source_offset + done,
                    length - done,
                )?;
                if count == 0 {
                    return Err(FsError::InvalidParameter);
                }
                done += count;
            }
            Ok(())
        })
        .await?;
        target.note_changed();
        target.restore_frozen(kept);
        Ok(())
    }
}
