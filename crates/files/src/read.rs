//! Reading.

use crate::{Access, OpenFile, RequestFiles};
use futures_channel::oneshot;
use std::sync::Arc;
use vfs::{FsError, Node, Result, Wait, Wanted};

/// A part of a file that is in memory, to be sent without being copied.
#[derive(Clone, Debug)]
pub struct ResidentRange {
    /// The file.
    pub node: Arc<dyn Node>,
    /// First byte.
    pub offset: u64,
    /// How many: clipped to the file's length as it was. Promised to the client: if the
    /// file has become shorter, zeros follow.
    pub length_bytes: usize,
    /// Nothing was behind it.
    pub is_end: bool,
}

/// A buffer that a worker reads into: what is in it stays, and is given back whatever becomes
/// of the call, also if it is dropped unrun.
struct Lent {
    buffer: Vec<u8>,
    back: Option<oneshot::Sender<Vec<u8>>>,
}

impl Lent {
    fn new(buffer: Vec<u8>) -> (Self, oneshot::Receiver<Vec<u8>>) {
        let (back, given_back) = oneshot::channel();
        (Self { buffer, back: Some(back) }, given_back)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(back) = self.back.take() {
            // Whoever lent it may have given up.
            let _ = back.send(std::mem::take(&mut self.buffer));
        }
    }
}

impl RequestFiles {
    /// Appends up to `length` bytes at `offset` to `into`; fewer only at the
    /// end of the file. Answers at once from memory; else on a worker. Of a read that is
    /// refused nothing is appended.
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
        match open.node.read(offset, length, into, Wait::Never) {
            Err(FsError::WouldBlock | FsError::NotSupported) => {}
            other => return other,
        }
        // Each READ has room for what it waits for, and few wait.
        Box::pin(self.read_on_worker(open, offset, length, into)).await
    }

    async fn read_on_worker(
        &self,
        open: &Arc<OpenFile>,
        offset: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) -> Result<usize> {
        let (node, before) = (open.node.clone(), into.len());
        let (mut lent, back) = Lent::new(std::mem::take(into));
        let result =
            self.offload(move || node.read(offset, length, &mut lent.buffer, Wait::Allowed)).await;
        *into = back.await.expect("whoever drops it sends it back");
        if result.is_err() {
            into.truncate(before);
        }
        result
    }

    /// Length of the file in bytes.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn size_bytes(&self, open: &OpenFile) -> Result<u64> {
        Ok(open.node.attributes(Wanted::default())?.size_bytes)
    }

    /// The part of a file that a read would give, if all of it is in memory
    /// and can be sent from there; none if it must be read.
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
        if open.node.sendfile_source().is_none() {
            return Ok(None);
        }
        let size = open.node.attributes(Wanted::default())?.size_bytes;
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length_bytes = length.min(left);
        if length_bytes == 0 || !open.node.is_resident(offset, length_bytes) {
            return Ok(None);
        }
        let is_end = length_bytes == left;
        Ok(Some(ResidentRange { node: open.node.clone(), offset, length_bytes, is_end }))
    }
}

fn check_read(open: &OpenFile, offset: u64, length: usize) -> Result<()> {
    if open.is_directory() {
        return Err(FsError::IsDirectory);
    }
    open.need_any(Access::READ_DATA | Access::EXECUTE)?;
    open.need_unlocked(offset, length as u64, false)
}
