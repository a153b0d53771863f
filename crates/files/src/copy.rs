//! Copying within the server.

use crate::frozen_times::{MovedTimes, keep_times};
use crate::{Access, Caller, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{Actor, FsError, Node, Result, Wait};

/// Bytes that one worker call copies: some milliseconds, after which other holders have their turn.
/// A backend that shares extents needs no longer for each.
const TURN_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Bytes of one read and write where the backend cannot copy, as between a file and a named stream.
const PIECE_BYTES_MAX: u64 = 1024 * 1024;

impl RequestFiles {
    /// Copies `length` bytes between two open files as the requesting `caller`, by the backend's
    /// copy operation if there is one. A partial copy is an error.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] by the rights of either open, [`FsError::LockConflict`],
    /// [`FsError::InvalidParameter`] if the source is shorter or long ranges of one file overlap,
    /// [`FsError::NoSpace`].
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
        // A later call would read data that an earlier one has written.
        let overlaps = source_offset.abs_diff(target_offset) < length;
        if overlaps && length > TURN_BYTES_MAX && source.key() == target.key() {
            return Err(FsError::InvalidParameter);
        }
        let mut done = 0;
        while done < length {
            let count = (length - done).min(TURN_BYTES_MAX);
            let (from, to) = ((&**source, source_offset + done), (&**target, target_offset + done));
            let copied = self.copy_in_turn(caller, from, to, count).await;
            if copied.is_err() && done > 0 {
                target.note_changed(&self.context, caller);
            }
            copied?;
            done += count;
        }
        source.note_copied_from();
        target.note_changed(&self.context, caller);
        Ok(())
    }

    /// Copies `count` bytes in one worker call, if no lock has been set on them meanwhile.
    async fn copy_in_turn(
        &self,
        caller: &Arc<Caller>,
        (source, source_offset): (&OpenFile, u64),
        (target, target_offset): (&OpenFile, u64),
        count: u64,
    ) -> Result<()> {
        source.need_unlocked(source_offset, count, false)?;
        target.need_unlocked(target_offset, count, true)?;
        target.break_readers(&self.context);
        let (from, to) = (source.reading_node().clone(), target.node.clone());
        let (writer, times) = (caller.clone(), target.frozen_times());
        self.offload(move || {
            let actor = writer.identity.actor();
            keep_times(times.as_ref(), MovedTimes::All, || {
                copy_all(actor, (&*to, target_offset), (&*from, source_offset), count)
            })
        })
        .await
    }
}

/// Checks the rights of both opens; the target needs one of `rights`.
pub(crate) fn may_copy(source: &OpenFile, target: &OpenFile, rights: Access) -> Result<()> {
    source.need_any(Access::READ_DATA | Access::EXECUTE)?;
    target.need_any(rights)?;
    target.need_writable()
}

/// Copies everything, or fails.
fn copy_all(
    actor: Actor<'_>,
    (to, offset): (&dyn Node, u64),
    (from, source_offset): (&dyn Node, u64),
    length: u64,
) -> Result<()> {
    let mut done = 0;
    while done < length {
        let (at, source_at, left) = (offset + done, source_offset + done, length - done);
        let count = match to.copy_range(actor, at, from, source_at, left) {
            Err(FsError::NotSupported) => copy_piece(actor, (to, at), (from, source_at), left),
            other => other,
        }?;
        if count == 0 {
            return Err(FsError::InvalidParameter);
        }
        done += count;
    }
    Ok(())
}

fn copy_piece(
    actor: Actor<'_>,
    (to, offset): (&dyn Node, u64),
    (from, source_offset): (&dyn Node, u64),
    length: u64,
) -> Result<u64> {
    let mut buffer = Vec::new();
    let wanted = length.min(PIECE_BYTES_MAX) as usize;
    let count = from.read(source_offset, wanted, &mut buffer, Wait::Allowed)?;
    to.write(actor, offset, &buffer)?;
    Ok(count as u64)
}
