//! Reading.

use crate::{Access, OpenFile, RequestFiles};
use futures_channel::oneshot;
use std::sync::Arc;
use vfs::{AttributeRequest, FsError, Node, Result, Wait};

/// A cached range of a file, to be sent without a copy.
#[derive(Clone, Debug)]
pub struct ResidentRange {
    /// The file.
    pub node: Arc<dyn Node>,
    /// Offset of the first byte.
    pub offset: u64,
    /// Length, clipped to the file's size at the time of the check. It is promised to the client:
    /// zeros follow if the file has been truncated since.
    pub length_bytes: usize,
    /// Whether the range ends at the end of the file.
    pub is_end: bool,
}

/// A buffer lent to a worker. Its contents are preserved, and dropping it returns it, even if the
/// call never runs.
struct LentBuffer {
    buffer: Vec<u8>,
    back: Option<oneshot::Sender<Vec<u8>>>,
}

impl LentBuffer {
    fn new(buffer: Vec<u8>) -> (Self, oneshot::Receiver<Vec<u8>>) {
        let (back, returned) = oneshot::channel();
        (Self { buffer, back: Some(back) }, returned)
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        if let Some(back) = self.back.take() {
            // The lender may have been cancelled.
            let _ = back.send(std::mem::take(&mut self.buffer));
        }
    }
}

impl RequestFiles {
    /// Appends up to `length` bytes at `offset` to `into`; fewer only at the end of the file.
    /// Cached data is read inline, other data on a worker. A failed read appends nothing.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not read, [`FsError::LockConflict`],
    /// [`FsError::IsDirectory`], [`FsError::Io`].
    pub async fn read(
        &self,
        open: &Arc<OpenFile>,
        offset: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) -> Result<usize> {
        check_read(open, offset, length)?;
        match open.reading_node().read(offset, length, into, Wait::Never) {
            Err(FsError::WouldBlock | FsError::NotSupported) => {}
            other => return other,
        }
        // Boxed: few reads wait, and the future of each would be larger.
        Box::pin(self.read_on_worker(open, offset, length, into)).await
    }

    async fn read_on_worker(
        &self,
        open: &Arc<OpenFile>,
        offset: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) -> Result<usize> {
        let (node, before) = (open.reading_node().clone(), into.len());
        let (mut buffer_loan, back) = LentBuffer::new(std::mem::take(into));
        let result = self
            .offload(move || node.read(offset, length, &mut buffer_loan.buffer, Wait::Allowed))
            .await;
        *into = back.await.expect("dropping the buffer sends it back");
        if result.is_err() {
            into.truncate(before);
        }
        result
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn size_bytes(&self, open: &OpenFile) -> Result<u64> {
        Ok(open.node.attributes(AttributeRequest::default())?.size_bytes)
    }

    /// The range that a read would return, if it is cached and can be sent directly; none if it
    /// must be read.
    ///
    /// # Errors
    /// As [`RequestFiles::read`].
    pub fn read_resident(
        &self,
        open: &OpenFile,
        offset: u64,
        length: usize,
    ) -> Result<Option<ResidentRange>> {
        check_read(open, offset, length)?;
        let node = open.reading_node();
        let Some(local) = node.local_file().filter(|local| local.sendfile_source().is_some())
        else {
            return Ok(None);
        };
        let size = node.attributes(AttributeRequest::default())?.size_bytes;
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length_bytes = length.min(left);
        if length_bytes == 0 || !local.is_resident(offset, length_bytes) {
            return Ok(None);
        }
        let is_end = length_bytes == left;
        Ok(Some(ResidentRange { node: node.clone(), offset, length_bytes, is_end }))
    }
}

fn check_read(open: &OpenFile, offset: u64, length: usize) -> Result<()> {
    if open.is_directory() {
        return Err(FsError::IsDirectory);
    }
    open.need_any(Access::READ_DATA | Access::EXECUTE)?;
    open.need_unlocked(offset, length as u64, false)
}
