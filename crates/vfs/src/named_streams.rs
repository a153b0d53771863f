//! The capability of a node to have named streams.

use crate::{Actor, Case, FsError, Node, Replace, Result, StreamEntry, StreamName};
use std::sync::Arc;

/// Capability: named streams beside the data of a node. SMB alone uses them.
///
/// Without it, a node has no streams: lists are empty, no name is found, and the creation of a stream
/// is refused as not supported.
pub trait NamedStreams: Send + Sync + std::fmt::Debug {
    /// All named streams, unordered. Names and lengths are metadata, yet Linux wants read
    /// permission on the data for the lengths.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::AccessDenied`].
    fn streams(&self, actor: Actor<'_>) -> Result<Vec<StreamEntry>>;

    /// The stream `name`: as [`NamedStreams::streams`].
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::AccessDenied`].
    fn find_stream(&self, actor: Actor<'_>, name: &StreamName, case: Case) -> Result<StreamEntry>;

    /// Creates an empty stream, exclusively. With [`Case::Insensitive`] a name that differs in case
    /// only counts as existing.
    ///
    /// # Errors
    /// [`FsError::AlreadyExists`], [`FsError::AccessDenied`], [`FsError::NoSpace`],
    /// [`FsError::NameTooLong`], [`FsError::NotSupported`], [`FsError::AttributesFull`].
    fn create_stream(&self, actor: Actor<'_>, name: &StreamName, case: Case) -> Result<()>;

    /// Appends up to `length` bytes of the stream `name` (exact spelling, here and below) at
    /// `offset` to `into`. Returns the count. May wait for a disk.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the stream is gone, [`FsError::AccessDenied`].
    fn read_stream(
        &self,
        actor: Actor<'_>,
        name: &StreamName,
        offset: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) -> Result<usize>;

    /// Writes all of `data` at `offset` of the stream `name`, or nothing.
    ///
    /// # Errors
    /// As [`NamedStreams::read_stream`]; [`FsError::NoSpace`]; [`FsError::TooLarge`] past the backend's
    /// limit; [`FsError::AttributesFull`].
    fn write_stream(
        &self,
        actor: Actor<'_>,
        name: &StreamName,
        offset: u64,
        data: &[u8],
    ) -> Result<()>;

    /// The backing file of the stream `name`, for calls on data alone; none if the backend stores
    /// the stream with the node. It survives a rename of the stream. With `writes` the actor needs
    /// write permission on the stream, and may change data through the file.
    ///
    /// # Errors
    /// As [`NamedStreams::read_stream`].
    fn stream_data(
        &self,
        actor: Actor<'_>,
        name: &StreamName,
        writes: bool,
    ) -> Result<Option<Arc<dyn Node>>>;

    /// Sets the length of the stream `name` in bytes; new bytes read as zero.
    ///
    /// # Errors
    /// As [`NamedStreams::write_stream`].
    fn set_stream_size(&self, actor: Actor<'_>, name: &StreamName, size_bytes: u64) -> Result<()>;

    /// Removes the stream `name`.
    ///
    /// # Errors
    /// As [`NamedStreams::read_stream`].
    fn remove_stream(&self, actor: Actor<'_>, name: &StreamName) -> Result<()>;

    /// Renames the stream `from` to `to`.
    ///
    /// # Errors
    /// As [`NamedStreams::read_stream`] and [`NamedStreams::create_stream`].
    fn rename_stream(
        &self,
        actor: Actor<'_>,
        from: &StreamName,
        to: &StreamName,
        replace: Replace,
    ) -> Result<()>;
}

impl dyn Node + '_ {
    /// The named streams, for a caller that has no fallback.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the node cannot have any.
    pub fn need_streams(&self) -> Result<&dyn NamedStreams> {
        self.named_streams().ok_or(FsError::NotSupported)
    }

    /// As [`NamedStreams::streams`]; empty without the capability.
    ///
    /// # Errors
    /// As [`NamedStreams::streams`].
    pub fn streams(&self, actor: Actor<'_>) -> Result<Vec<StreamEntry>> {
        self.named_streams().map_or(Ok(Vec::new()), |streams| streams.streams(actor))
    }

    /// As [`NamedStreams::find_stream`]; no stream is found without the capability.
    ///
    /// # Errors
    /// As [`NamedStreams::find_stream`].
    pub fn find_stream(
        &self,
        actor: Actor<'_>,
        name: &StreamName,
        case: Case,
    ) -> Result<StreamEntry> {
        self.named_streams().ok_or(FsError::NotFound)?.find_stream(actor, name, case)
    }
}
