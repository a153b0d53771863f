//! The capability of a tree to have user quotas.

use crate::{Actor, Node, Quota, QuotaLimits, QuotaState, Result};

/// Capability: user quotas.
///
/// Without it, quotas are reported as absent, and queries and changes of them as not supported.
pub trait UserQuotas: Send + Sync + std::fmt::Debug {
    /// State of user quotas; it may change while the tree is served.
    fn quota_state(&self) -> QuotaState;

    /// As [`UserQuotas::quota_state`], for the file system of `node`: another one may be mounted
    /// below the root.
    fn quota_state_of(&self, _node: &dyn Node) -> QuotaState {
        self.quota_state()
    }

    /// Usage and limits of the user `uid`. May take long.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if `actor` may not read them ([`Actor::may_know_quota_of`]);
    /// [`FsError::NotSupported`] without quotas.
    fn quota(&self, actor: Actor<'_>, uid: u32) -> Result<Quota>;

    /// The first user from `uid` on with an accounted usage. May take long.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if there is none; [`FsError::AccessDenied`] except for the superuser
    /// and the server; [`FsError::NotSupported`] without quotas.
    fn next_quota(&self, actor: Actor<'_>, uid: u32) -> Result<(u32, Quota)>;

    /// Sets a user's limits. May take long.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] except for the superuser, or if the process lacks the right;
    /// [`FsError::NotSupported`] without quotas.
    fn set_quota(&self, actor: Actor<'_>, uid: u32, limits: QuotaLimits) -> Result<()>;

    /// Makes the limits survive a power loss. Takes long.
    ///
    /// # Errors
    /// [`FsError::Io`]: they may be lost.
    fn sync_quotas(&self, actor: Actor<'_>) -> Result<()>;
}
