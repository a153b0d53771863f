//! The capability of a node to control where its data lies.

use crate::{Actor, FsError, Node, Result};

/// Capability: space of a range is reserved, freed, shared or compressed. NFS 4.2 needs all but the
/// compression, for ALLOCATE, DEALLOCATE, SEEK and CLONE. RFC 7862 15.
///
/// Without it, a reservation by SMB is accepted without effect, and the other calls are refused as not
/// supported.
pub trait FileExtents: Send + Sync + std::fmt::Debug {
    /// Reserves space for the range without changing what reads return or the length.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::NotSupported`].
    fn allocate(&self, actor: Actor<'_>, offset: u64, length: u64) -> Result<()>;

    /// As [`FileExtents::allocate`]; a file that ends before the range's end also grows to it, in one
    /// step. A concurrent write never gets truncated.
    ///
    /// # Errors
    /// As [`FileExtents::allocate`]; [`FsError::TooLarge`].
    fn allocate_and_grow(&self, actor: Actor<'_>, offset: u64, length: u64) -> Result<()>;

    /// Zeroes the range and frees its space where possible; the length of the file stays.
    ///
    /// # Errors
    /// [`FsError::NotSupported`], [`FsError::NoSpace`].
    fn punch_hole(&self, actor: Actor<'_>, offset: u64, length: u64) -> Result<()>;

    /// The first range at or after `offset` with data, as (start, end); none if only a hole
    /// follows.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn seek_data(&self, offset: u64) -> Result<Option<(u64, u64)>>;

    /// Shares extents of `source` (reflink): the whole range or nothing. Takes long.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the file system cannot; [`FsError::CrossDevice`] if `source`
    /// lies elsewhere. [`FsError::InvalidParameter`] for a range that is not aligned to blocks (or
    /// to the source's end), or that overlaps its own copy.
    fn clone_range(
        &self,
        actor: Actor<'_>,
        offset: u64,
        source: &dyn Node,
        source_offset: u64,
        length: u64,
    ) -> Result<()>;

    /// Sets whether the file system compresses the data of this file, or of new files in this
    /// directory. Reads return the same bytes.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the file system cannot; [`FsError::AccessDenied`].
    fn set_compressed(&self, actor: Actor<'_>, compressed: bool) -> Result<()>;
}

impl dyn Node + '_ {
    /// The extents, for a caller that has no fallback.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the node cannot control them.
    pub fn need_extents(&self) -> Result<&dyn FileExtents> {
        self.file_extents().ok_or(FsError::NotSupported)
    }
}
