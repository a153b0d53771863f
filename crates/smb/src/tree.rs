//! Tree connects. MS-SMB2 3.3.1.9.

use crate::config::Share;
use files::{Access, Volume};
use std::sync::Arc;
use wire::ntstatus::NtStatus;
use wire::smb::TreeId;

/// One share as connected by one session.
#[derive(Debug)]
pub struct Tree {
    /// Its number in the session.
    pub id: TreeId,
    /// The share, as configured when it was connected.
    pub share: Arc<Share>,
    /// The most that an open on it can be granted.
    pub max_access: Access,
}

impl Tree {
    /// A new tree connect.
    #[must_use]
    pub fn new(id: TreeId, share: Arc<Share>, max_access: Access) -> Self {
        Self { id, share, max_access }
    }

    /// The volume behind a disk share.
    ///
    /// # Errors
    /// `INVALID_DEVICE_REQUEST` on IPC$.
    pub fn volume(&self) -> Result<&Arc<Volume>, NtStatus> {
        self.share.volume.as_ref().ok_or(NtStatus::INVALID_DEVICE_REQUEST)
    }
}
