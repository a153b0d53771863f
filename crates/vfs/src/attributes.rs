//! What a node is, apart from its data and its names.

/// Identity of a node: stable while any handle to it is open, equal for every
/// name of the node, different for different nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// The file system.
    pub device: u64,
    /// The node in it.
    pub inode: u64,
}

/// What kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Block or character device.
    Device,
    /// Holds names.
    Directory,
    /// Named pipe.
    Fifo,
    /// Holds bytes.
    File,
    /// UNIX-domain socket.
    Socket,
    /// Symbolic link.
    Symlink,
}

/// Nanoseconds since 1970-01-01 00:00 UTC, leap seconds not counted; negative before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub i128);

/// Which optional (costlier) parts of [`Attributes`] a caller needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Fill [`Attributes::dos`] and [`Attributes::stored`], for this reason: Linux asks whoever
    /// reads them for the right to read data, and they are shown to all who may look at the node.
    pub dos: Option<crate::ServerWork>,
}

/// DOS attributes and creation time, as stored beside the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DosInfo {
    /// FILE_ATTRIBUTE_* bits that were stored (MS-FSCC 2.6), if any were.
    pub bits: Option<u32>,
    /// The stored creation time, if one was.
    pub created: Option<Timestamp>,
}

/// What may be stored beside a node: false only where it is certain that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Users' extended attributes.
    pub xattrs: bool,
    /// Named streams.
    pub streams: bool,
    /// A security descriptor.
    pub descriptor: bool,
    /// Permissions of named users and groups.
    pub posix_acl: bool,
}

impl Default for Stored {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl Stored {
    /// Nothing is known to be absent.
    pub const UNKNOWN: Self =
        Self { xattrs: true, streams: true, descriptor: true, posix_acl: true };
    /// There is nothing.
    pub const NOTHING: Self =
        Self { xattrs: false, streams: false, descriptor: false, posix_acl: false };
}

/// Which device a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// It has blocks, not characters.
    pub is_block: bool,
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

/// Attributes of a node at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The node.
    pub key: FileKey,
    /// Its kind.
    pub kind: FileKind,
    /// POSIX permission bits (07777).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
    /// Number of names.
    pub links: u32,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Bytes of storage in use.
    pub allocated_bytes: u64,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Last change of anything.
    pub changed: Timestamp,
    /// Another number after every change of anything, as far as the file system tells.
    pub change: u64,
    /// When the node was made, if the file system knows.
    pub born: Option<Timestamp>,
    /// DOS attributes and creation time; the default where not wanted or not stored.
    pub dos: DosInfo,
    /// The change time that a client has set, if nothing has changed the node since; none where
    /// DOS attributes are not wanted. No file system lets its own change time be set.
    pub set_changed: Option<Timestamp>,
    /// What else may be stored beside it; unknown where not wanted.
    pub stored: Stored,
    /// Of a [`FileKind::Device`]: which one.
    pub device: Option<Device>,
    /// The file system keeps its data compressed, or for a directory that of new files in it.
    pub compressed: bool,
    /// Changes that the file system keeps from everybody, the superuser included.
    pub protection: Protection,
}

impl Attributes {
    /// The change time that clients of SMB are shown. MS-FSA 2.1.1.3.
    #[must_use]
    pub fn shown_changed(&self) -> Timestamp {
        self.set_changed.unwrap_or(self.changed)
    }
}

/// Changes that a file system keeps from everybody by a flag of a node. chattr(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Nothing.
    #[default]
    None,
    /// A file is opened for writing at its end only; names are not taken out of a directory.
    AppendOnly,
    /// Nothing of it is changed.
    Immutable,
}

/// What to do with one timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeChange {
    /// Leave it.
    #[default]
    Keep,
    /// Set it to the present.
    Now,
    /// Set it to this.
    Set(Timestamp),
}

/// New owner or group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerChange {
    /// New owner, if any.
    pub uid: Option<u32>,
    /// New group, if any.
    pub gid: Option<u32>,
}

/// Changes to make by [`crate::Node::set_attributes`]; the default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChanges {
    /// New permission bits.
    pub mode: Option<u32>,
    /// New owner or group.
    pub owner: OwnerChange,
    /// Last access.
    pub accessed: TimeChange,
    /// Last change of the data.
    pub modified: TimeChange,
    /// DOS attributes and creation time to store; merged with what is stored:
    /// a `None` inside keeps that part.
    pub dos: Option<DosInfo>,
    /// The change time to show until the node is changed again: [`Attributes::set_changed`].
    /// It is stored beside the DOS attributes, and dropped where these cannot be stored.
    pub changed: Option<Timestamp>,
}

/// Size of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes free, whoever may use them.
    pub free_bytes: u64,
    /// Bytes that this user may still write.
    pub available_bytes: u64,
    /// Allocation unit in bytes.
    pub block_bytes: u32,
    /// Nodes in all; zero where there is no such limit.
    pub nodes_total: u64,
    /// Nodes that may still be made.
    pub nodes_free: u64,
}

impl Space {
    /// As much of it as a user with this quota may use.
    #[must_use]
    pub fn within(self, quota: &crate::Quota) -> Self {
        let Some(limit) = quota.limits.hard_bytes else { return self };
        let left = limit.saturating_sub(quota.used_bytes);
        Self {
            total_bytes: self.total_bytes.min(limit),
            available_bytes: self.available_bytes.min(left),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Quota, QuotaLimits};

    #[test]
    fn a_user_sees_no_more_space_than_is_left_of_their_quota() {
        let space =
            Space { total_bytes: 100, free_bytes: 50, available_bytes: 40, ..Space::default() };
        let within = |used_bytes, hard_bytes| {
            let limits = QuotaLimits { soft_bytes: Some(1), hard_bytes };
            let seen = space.within(&Quota { used_bytes, limits });
            (seen.total_bytes, seen.free_bytes, seen.available_bytes)
        };
        assert_eq!(within(90, None), (100, 50, 40), "a soft limit is not one yet");
        assert_eq!(within(5, Some(30)), (30, 50, 25));
        assert_eq!(within(5, Some(90)), (90, 50, 40));
        assert_eq!(within(31, Some(30)), (30, 50, 0));
    }
}
