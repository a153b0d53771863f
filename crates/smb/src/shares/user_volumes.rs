//! Shares whose directory depends on the user, such as homes: TREE_CONNECT opens their volume.

use files::{Volume, VolumeOptions};
use futures_util::future::BoxFuture;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use wire::ntstatus::NtStatus;

/// The share that each user also reaches by the user's own name, as in Samba.
pub const HOMES: &str = "homes";

/// The session that connects a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRequester {
    /// Name of the session's account, as the server's user database has it.
    pub account: String,
    /// Id of the account's user.
    pub uid: u32,
    /// Primary group of the account.
    pub gid: u32,
    /// User and group of all file access in this share, if it forces them.
    pub forced: Option<(u32, u32)>,
    /// Address of the client.
    pub peer: IpAddr,
}

/// The reason for which a user gets no volume. The implementation logs the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserVolumeRefusal {
    /// Too many directories are being opened, or the directory did not open in time.
    Busy,
    /// The session has no proven user, a value cannot be part of a path, or the directory belongs to
    /// another user.
    Denied,
    /// The directory does not exist.
    Missing,
    /// Too many volumes are open.
    TooMany,
    /// The directory cannot be opened.
    Unavailable,
}

impl UserVolumeRefusal {
    /// The status for the client.
    #[must_use]
    pub fn status(self) -> NtStatus {
        match self {
            Self::Busy => NtStatus::IO_TIMEOUT,
            Self::Denied => NtStatus::ACCESS_DENIED,
            Self::Missing => NtStatus::BAD_NETWORK_NAME,
            Self::TooMany => NtStatus::INSUFFICIENT_RESOURCES,
            Self::Unavailable => NtStatus::UNEXPECTED_IO_ERROR,
        }
    }
}

/// Opens the volumes of one share.
pub trait UserVolumes: Send + Sync + Debug {
    /// The volume for a session, opened on another thread than the caller's. Sessions with the same
    /// directory share its files. Cancel safe.
    ///
    /// # Errors
    /// [`UserVolumeRefusal`], after it was logged.
    fn open(
        &self,
        requester: VolumeRequester,
    ) -> BoxFuture<'static, Result<Arc<Volume>, UserVolumeRefusal>>;

    /// The options that all volumes of the share have, without snapshots.
    fn options(&self) -> &VolumeOptions;

    /// Whether the volumes have snapshots.
    fn has_snapshots(&self) -> bool;

    /// The volumes that are open now.
    fn open_volumes(&self) -> Vec<Arc<Volume>>;
}
