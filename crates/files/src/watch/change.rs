//! Changes as watches report them: their kinds, requests for them and the answers. MS-FSCC 2.7.1,
//! MS-SMB2 2.2.35.

use std::ops::BitOr;
use vfs::{RelPath, StreamName};

/// Bytes that a watch buffers between two requests, counted by the requester's [`Measure`]. It
/// equals the limit for Windows programs over the network.
pub const WATCH_BYTES_MAX: usize = 64 * 1024;

/// Kinds of changes: CompletionFilter. MS-SMB2 2.2.35.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchFilter(pub u32);

impl WatchFilter {
    /// Files are added, removed or renamed.
    pub const FILE_NAME: Self = Self(0x001);
    /// Directories are added, removed or renamed.
    pub const DIRECTORY_NAME: Self = Self(0x002);
    /// DOS attributes.
    pub const ATTRIBUTES: Self = Self(0x004);
    /// The size of files.
    pub const SIZE: Self = Self(0x008);
    /// The time of the last change of data.
    pub const LAST_WRITE: Self = Self(0x010);
    /// The time of the last access.
    pub const LAST_ACCESS: Self = Self(0x020);
    /// The time of creation.
    pub const CREATION: Self = Self(0x040);
    /// Extended attributes.
    pub const EXTENDED_ATTRIBUTES: Self = Self(0x080);
    /// Owner, group, access lists.
    pub const SECURITY: Self = Self(0x100);
    /// Named streams are added, removed or renamed.
    pub const STREAM_NAME: Self = Self(0x200);
    /// The size of named streams.
    pub const STREAM_SIZE: Self = Self(0x400);
    /// The data of named streams.
    pub const STREAM_WRITE: Self = Self(0x800);

    /// Kinds that a writer causes repeatedly.
    pub(crate) const DATA: Self =
        Self(Self::SIZE.0 | Self::LAST_WRITE.0 | Self::STREAM_SIZE.0 | Self::STREAM_WRITE.0);

    /// Whether all kinds are changes of data.
    pub(crate) fn is_of_data(self) -> bool {
        self.0 & !Self::DATA.0 == 0
    }

    /// Whether both have a kind in common.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for WatchFilter {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Action on a name: FILE_NOTIFY_INFORMATION. MS-FSCC 2.7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeAction {
    /// The name was added to its directory.
    Added,
    /// The file was modified.
    Modified,
    /// The name was removed from its directory.
    Removed,
    /// The file was renamed from this name; [`ChangeAction::RenamedTo`] follows.
    RenamedFrom,
    /// The file was renamed to this name.
    RenamedTo,
    /// A named stream was added to the file.
    AddedStream,
    /// A named stream of the file was modified.
    ModifiedStream,
    /// A named stream was removed from the file.
    RemovedStream,
}

/// One change, as a watch reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchChange {
    /// Action on the name.
    pub kind: ChangeAction,
    /// Name relative to the watched directory.
    pub path: RelPath,
    /// Named stream, if the change concerns one.
    pub stream: Option<StreamName>,
}

/// Size of a reply of the given size after this change is added, in bytes of the requester's
/// protocol.
pub type Measure = fn(usize, &WatchChange) -> usize;

/// A CHANGE_NOTIFY request.
#[derive(Clone, Copy, Debug)]
pub struct WatchWish {
    /// Kinds to report; the first request of an open determines them.
    pub filter: WatchFilter,
    /// Whether to watch the whole tree; the first request determines it.
    pub tree: bool,
    /// Maximum size of the reply, in bytes.
    pub room_bytes: usize,
    /// Size calculation; the first request determines it.
    pub measure: Measure,
}

/// Reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchAnswer {
    /// Changes in order; at least one.
    Changes(Vec<WatchChange>),
    /// The open was closed. STATUS_NOTIFY_CLEANUP.
    Closed,
    /// The directory is delete pending. STATUS_DELETE_PENDING.
    DeletePending,
    /// The changes exceed a bound: the client must enumerate. STATUS_NOTIFY_ENUM_DIR.
    Overflow,
}

/// Filter under which a change of such a name is reported.
pub(crate) fn name_filter(is_directory: bool) -> WatchFilter {
    if is_directory { WatchFilter::DIRECTORY_NAME } else { WatchFilter::FILE_NAME }
}
