//! Tree connects. MS-SMB2 3.3.1.9.

use crate::config::SmbShare;
use crate::shares::user::SessionUser;
use files::{Access, Caller, ShareQueue, Volume};
use limits::ShareLimits;
use meter::ShareId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::ntstatus::NtStatus;
use wire::smb::TreeId;

/// The connection of one session to one share.
#[derive(Debug)]
pub struct TreeConnect {
    /// TreeId, unique in the session.
    pub id: TreeId,
    /// The share, as configured at TREE_CONNECT.
    pub share: Arc<SmbShare>,
    /// MaximalAccess: the upper bound of an open's access.
    pub max_access: Access,
    /// The share for metering.
    pub counted: ShareId,
    /// The client identified itself as Apple's.
    is_apple: AtomicBool,
    /// Directory entries carry Apple's details.
    apple_details: AtomicBool,
    /// The volume with the user's access to it.
    volume: Option<Arc<Volume>>,
    /// The identity for file access, if not the session user's.
    forced: Option<Arc<Caller>>,
    /// The charge for the tree connect, held while it exists.
    _charge: Option<limits::ResourceCharge>,
    /// The queue of the session's requests that the share's limits delay.
    queue: Option<Arc<ShareQueue>>,
}

/// A share with one user's access to it.
#[derive(Debug)]
pub struct AdmittedShare {
    /// The share.
    pub share: Arc<SmbShare>,
    /// See [`TreeConnect::volume`].
    pub volume: Option<Arc<Volume>>,
    /// See [`TreeConnect::caller`].
    pub forced: Option<Arc<Caller>>,
    /// See [`TreeConnect::counted`].
    pub counted: ShareId,
}

impl AdmittedShare {
    /// The upper bound of an open's access.
    #[must_use]
    pub fn max_access(&self) -> Access {
        self.volume.as_ref().map_or(Access::FILE_ALL, |volume| volume.max_access())
    }
}

impl TreeConnect {
    /// A new tree connect.
    #[must_use]
    pub fn new(id: TreeId, admitted: AdmittedShare, queue: Option<Arc<ShareQueue>>) -> Self {
        let max_access = admitted.max_access();
        let AdmittedShare { share, volume, forced, counted } = admitted;
        Self {
            id,
            share,
            max_access,
            counted,
            volume,
            forced,
            _charge: None,
            queue,
            is_apple: AtomicBool::new(false),
            apple_details: AtomicBool::new(false),
        }
    }

    /// Attaches the charge.
    #[must_use]
    pub fn charged(self, charge: limits::ResourceCharge) -> Self {
        Self { _charge: Some(charge), ..self }
    }

    /// Marks the client as Apple's.
    pub fn set_apple(&self) {
        self.is_apple.store(true, Ordering::Relaxed);
    }

    /// See [`TreeConnect::set_apple`].
    #[must_use]
    pub fn is_apple(&self) -> bool {
        self.is_apple.load(Ordering::Relaxed)
    }

    /// Marks the client as Apple's, with details in directory entries.
    pub fn set_apple_details(&self) {
        self.apple_details.store(true, Ordering::Relaxed);
    }

    /// True if a directory may be renamed while files below it are open: macOS does so with Time
    /// Machine bundles.
    #[must_use]
    pub fn moves_opens_below(&self) -> bool {
        self.is_apple() && self.share.time_machine
    }

    /// See [`TreeConnect::set_apple_details`].
    #[must_use]
    pub fn has_apple_details(&self) -> bool {
        self.apple_details.load(Ordering::Relaxed)
    }

    /// The identity for file access on behalf of `user`.
    #[must_use]
    pub fn caller<'a>(&'a self, user: &'a SessionUser) -> &'a Arc<Caller> {
        self.forced.as_ref().unwrap_or(&user.account.caller)
    }

    /// The queue, if the share has limits at present.
    #[must_use]
    #[inline]
    pub fn queue(&self) -> Option<&ShareQueue> {
        self.queue.as_deref().filter(|queue| queue.is_limited())
    }

    /// The queue, for another tree of the session on the same share.
    pub(crate) fn shared_queue(&self, limits: &Arc<ShareLimits>) -> Option<Arc<ShareQueue>> {
        self.queue.clone().filter(|queue| Arc::ptr_eq(queue.limits(), limits))
    }

    /// The volume behind a disk share.
    ///
    /// # Errors
    /// `INVALID_DEVICE_REQUEST` on IPC$.
    pub fn volume(&self) -> Result<&Arc<Volume>, NtStatus> {
        self.volume.as_ref().ok_or(NtStatus::INVALID_DEVICE_REQUEST)
    }
}
