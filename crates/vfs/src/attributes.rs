//! Attributes of a node, apart from its data and its names.

/// Identity of a node: stable while any handle to it is open, equal for every
/// name of the node, different for different nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// File system number.
    pub device: u64,
    /// Inode number within the file system.
    pub inode: u64,
}

/// Kind of a node, as in `st_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Block or character device.
    Device,
    /// Directory.
    Directory,
    /// Named pipe.
    Fifo,
    /// Regular file.
    File,
    /// UNIX-domain socket.
    Socket,
    /// Symbolic link.
    Symlink,
}

/// Nanoseconds since 1970-01-01 00:00 UTC, leap seconds not counted; negative before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub i128);

/// Optional, costlier parts of [`Attributes`] that the caller requests, as `statx` has a mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeRequest {
    /// Requests [`Attributes::dos`] and [`Attributes::stored`], and gives the reason for the
    /// server's power. Linux wants read permission on the data for them, while SMB shows them to
    /// everyone who may stat the node.
    pub dos: Option<crate::ServerWork>,
}

/// DOS attributes and creation time, as stored beside the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DosInfo {
    /// Stored FILE_ATTRIBUTE_* bits (MS-FSCC 2.6); none if the node has none.
    pub bits: Option<u32>,
    /// Stored creation time; none if the node has none.
    pub created: Option<Timestamp>,
}

/// Metadata that may be stored beside a node. A flag is false only if the node certainly has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataPresence {
    /// Users' extended attributes.
    pub xattrs: bool,
    /// Named streams.
    pub streams: bool,
    /// A security descriptor.
    pub descriptor: bool,
    /// POSIX access list entries of named users and groups.
    pub posix_acl: bool,
}

impl Default for MetadataPresence {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl MetadataPresence {
    /// Every kind may be present.
    pub const UNKNOWN: Self =
        Self { xattrs: true, streams: true, descriptor: true, posix_acl: true };
    /// The node certainly has none of them.
    pub const NOTHING: Self =
        Self { xattrs: false, streams: false, descriptor: false, posix_acl: false };
}

/// Device that a device node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// A block device; else a character device.
    pub is_block: bool,
    /// Driver number.
    pub major: u32,
    /// Number within the driver.
    pub minor: u32,
}

/// Attributes of a node at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Identity of the node.
    pub key: FileKey,
    /// Kind of the node.
    pub kind: FileKind,
    /// POSIX permission bits (07777).
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the owning group.
    pub gid: u32,
    /// Number of hard links.
    pub links: u32,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Bytes of storage in use.
    pub allocated_bytes: u64,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Last change of data or metadata (ctime).
    pub changed: Timestamp,
    /// Change attribute: differs after each change of data or metadata, as far as the file system
    /// detects it.
    pub change: u64,
    /// Creation time, if the file system stores one.
    pub born: Option<Timestamp>,
    /// DOS attributes and creation time; the default if not requested or not stored.
    pub dos: DosInfo,
    /// Change time that a client has set, if the node has not changed since. None unless DOS
    /// attributes are requested. The server stores it because no file system lets a caller set
    /// ctime.
    pub set_changed: Option<Timestamp>,
    /// Presence of further stored metadata; unknown if not requested.
    pub stored: MetadataPresence,
    /// Device number of a [`FileKind::Device`].
    pub device: Option<Device>,
    /// The file system compresses the data of this file, or of new files in this directory.
    pub compressed: bool,
    /// Changes that the file system denies to every caller, the superuser included.
    pub protection: Protection,
}

impl Attributes {
    /// Change time that SMB clients see. MS-FSA 2.1.1.3.
    #[must_use]
    pub fn shown_changed(&self) -> Timestamp {
        self.set_changed.unwrap_or(self.changed)
    }
}

/// Changes that a file system denies to every caller by an inode flag. chattr(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// The file system denies no change.
    #[default]
    None,
    /// Append only: the file system permits writes at the end only, and no removal of names from a
    /// directory.
    AppendOnly,
    /// Immutable: the file system denies every change.
    Immutable,
}

/// Change of one timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeChange {
    /// Leaves the timestamp.
    #[default]
    Keep,
    /// Sets the current time.
    Now,
    /// Sets this time.
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

/// Changes for [`crate::Node::set_attributes`]; the default changes nothing.
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
    /// DOS attributes and creation time to store. The backend merges them with the stored ones: a
    /// `None` leaves that part.
    pub dos: Option<DosInfo>,
    /// Change time to show until the next change of the node: [`Attributes::set_changed`]. The
    /// backend stores it beside the DOS attributes, and drops it where it cannot store these.
    pub changed: Option<Timestamp>,
}

/// Size of a file system, as `statvfs` reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Total bytes.
    pub total_bytes: u64,
    /// Free bytes, the reserved ones included.
    pub free_bytes: u64,
    /// Bytes that this user may still write.
    pub available_bytes: u64,
    /// Allocation unit in bytes.
    pub block_bytes: u32,
    /// Total inodes; zero if the file system has no such limit.
    pub nodes_total: u64,
    /// Free inodes.
    pub nodes_free: u64,
}

impl Space {
    /// This space, limited to what the quota leaves the user.
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
    fn space_is_limited_by_the_users_quota() {
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
