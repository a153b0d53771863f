//! Limits of what one user may store.

/// What a user stores on a file system, and how much it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Stored now, in bytes.
    pub used_bytes: u64,
    /// The limits.
    pub limits: QuotaLimits,
}

/// How much a user may store; none for any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// More is let pass for a while.
    pub soft_bytes: Option<u64>,
    /// Never more.
    pub hard_bytes: Option<u64>,
}

/// What a file system does about quotas of users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaState {
    /// Nothing.
    #[default]
    Absent,
    /// What each stores is counted.
    Counted,
    /// And nobody may store more than their limit.
    Enforced,
}
