//! Tree connects. MS-SMB2 3.3.1.9.

use crate::config::Share;
use crate::session::SessionUser;
use files::{Access, Caller, ShareQueue, Volume};
use limits::ShareLimits;
use meter::ShareId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// What its requests are counted under.
    pub counted: ShareId,
    /// Its client is one of Apple, as it said.
    is_apple: AtomicBool,
    /// Listings have the details that clients of Apple can read.
    apple_details: AtomicBool,
    /// What is served, as this user may use it.
    volume: Option<Arc<Volume>>,
    /// As whom files are touched, if not as the session's user.
    forced: Option<Arc<Caller>>,
    /// What its user is charged for it, while it is there.
    _charge: Option<limits::Share>,
    /// Where the session's requests wait for the limits of the share.
    queue: Option<Arc<ShareQueue>>,
}

/// A share as one user may use it.
#[derive(Debug)]
pub struct Admitted {
    /// The share.
    pub share: Arc<Share>,
    /// See [`Tree::volume`].
    pub volume: Option<Arc<Volume>>,
    /// See [`Tree::caller`].
    pub forced: Option<Arc<Caller>>,
    /// See [`Tree::counted`].
    pub counted: ShareId,
}

impl Admitted {
    /// The most that an open can be granted.
    #[must_use]
    pub fn max_access(&self) -> Access {
        self.volume.as_ref().map_or(Access::FILE_ALL, |volume| volume.max_access())
    }
}

impl Tree {
    /// A new tree connect.
    #[must_use]
    pub fn new(id: TreeId, admitted: Admitted, queue: Option<Arc<ShareQueue>>) -> Self {
        let max_access = admitted.max_access();
        let Admitted { share, volume, forced, counted } = admitted;
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

    /// The same, charged to its user.
    #[must_use]
    pub fn charged(self, charge: limits::Share) -> Self {
        Self { _charge: Some(charge), ..self }
    }

    /// Its client is one of Apple.
    pub fn set_apple(&self) {
        self.is_apple.store(true, Ordering::Relaxed);
    }

    /// See [`Tree::set_apple`].
    #[must_use]
    pub fn is_apple(&self) -> bool {
        self.is_apple.load(Ordering::Relaxed)
    }

    /// Its client is one of Apple, and was told that listings have details.
    pub fn set_apple_details(&self) {
        self.apple_details.store(true, Ordering::Relaxed);
    }

    /// Whether a directory may be renamed while files below are open: macOS does so with the
    /// bundles of Time Machine.
    #[must_use]
    pub fn moves_opens_below(&self) -> bool {
        self.is_apple() && self.share.time_machine
    }

    /// See [`Tree::set_apple_details`].
    #[must_use]
    pub fn has_apple_details(&self) -> bool {
        self.apple_details.load(Ordering::Relaxed)
    }

    /// On whose behalf files are touched for `user`.
    #[must_use]
    pub fn caller<'a>(&'a self, user: &'a SessionUser) -> &'a Arc<Caller> {
        self.forced.as_ref().unwrap_or(&user.account.caller)
    }

    /// Where its requests wait, if the share has limits now.
    #[must_use]
    #[inline]
    pub fn queue(&self) -> Option<&ShareQueue> {
        self.queue.as_deref().filter(|queue| queue.is_limited())
    }

    /// The queue for another tree of its session on the same share.
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
