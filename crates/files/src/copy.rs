//! Copying within the server.

use crate::{Access, Caller, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{Actor, FsError, Node, Result, Wait};

/// Bytes read and written at once where no backend copies, as between a file
/// and a named stream.
const PIECE_BYTES_MAX: u64 = 1024 * 1024;

impl RequestFiles {
    /// Copies `length` bytes between two open files as `caller`, whose request it is, by the
    /// backend's own means where it has any. All of it, or an error.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] by the rights of either open, [`FsError::LockConflict`],
    /// [`FsError::InvalidParameter`] if the source is shorter, [`FsError::NoSpace`].
    pub async fn copy_range(
        &self,
        caller: &Arc<Caller>,
        (source, source_offset): (&Arc<OpenFile>, u64),
        (target, target_offset): (&Arc<OpenFile>, u64),
        length: u64,
    ) -> Result<()> {
        may_copy(source, target, Access::WRITE_DATA | Access::APPEND_DATA)?;
        target.claim_room(target_offset, length)?;
        source.need_unlocked(source_offset, length, false)?;
        target.need_unlocked(target_offset, length, true)?;
        let writer = caller.clone();
        self.change_by(caller, (source, target), move |from, to| {
            let (who, mut done) = (writer.identity.actor(), 0);
            while done < length {
                let (at, source_at) = (target_offset + done, source_offset + done);
                let count = match to.copy_range(who, at, from, source_at, length - done) {
                    Err(FsError::NotSupported) => {
                        copy_piece(who, (to, at), (from, source_at), length - done)
                    }
                    other => other,
                }?;
                if count == 0 {
                    return Err(FsError::InvalidParameter);
                }
                done += count;
            }
            Ok(())
        })
        .await
    }

    /// Has the target share `length` bytes of the source with it, as `caller`, whose request it
    /// is: all of it, or an error.
    /// Locked ranges are not looked at, since no data is read or written (so do
    /// Windows and Samba).
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] by the rights of either open, [`FsError::ReadOnly`]; as
    /// [`vfs::Node::clone_range`].
    pub async fn clone_range(
        &self,
        caller: &Arc<Caller>,
        (source, source_offset): (&Arc<OpenFile>, u64),
        (target, target_offset): (&Arc<OpenFile>, u64),
        length: u64,
    ) -> Result<()> {
        may_copy(source, target, Access::WRITE_DATA)?;
        let writer = caller.clone();
        let call = move |from: &dyn Node, to: &dyn Node| {
            to.clone_range(writer.identity.actor(), target_offset, from, source_offset, length)
        };
        self.change_by(caller, (source, target), call).await
    }

    /// Changes the target from the source, and does what goes with a change.
    async fn change_by(
        &self,
        caller: &Caller,
        (source, target): (&OpenFile, &OpenFile),
        call: impl FnOnce(&dyn Node, &dyn Node) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        target.break_readers(&self.context);
        let (from, to) = (source.node.clone(), target.node.clone());
        let kept = target.keep_frozen();
        self.offload(move || call(&*from, &*to)).await?;
        target.note_changed(&self.context, caller);
        target.restore_frozen(caller, kept);
        Ok(())
    }
}

/// Whether the rights of both opens are enough: the target's are one of `rights`.
fn may_copy(source: &OpenFile, target: &OpenFile, rights: Access) -> Result<()> {
    source.need_any(Access::READ_DATA | Access::EXECUTE)?;
    target.need_any(rights)?;
    target.need_writable()
}

fn copy_piece(
    who: Actor<'_>,
    (to, offset): (&dyn Node, u64),
    (from, source_offset): (&dyn Node, u64),
    length: u64,
) -> Result<u64> {
    let mut buffer = Vec::new();
    let wanted = length.min(PIECE_BYTES_MAX) as usize;
    let count = from.read(source_offset, wanted, &mut buffer, Wait::Allowed)?;
    to.write(who, offset, &buffer)?;
    Ok(count as u64)
}
