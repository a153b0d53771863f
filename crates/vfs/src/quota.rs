//! Quotas of users.

/// Usage and limits of one user on a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Usage in bytes.
    pub used_bytes: u64,
    /// The limits.
    pub limits: QuotaLimits,
}

/// Limits of one user; none means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Soft limit in bytes: exceeding it is permitted for a grace period.
    pub soft_bytes: Option<u64>,
    /// Hard limit in bytes.
    pub hard_bytes: Option<u64>,
}

/// State of user quotas on a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaState {
    /// The file system has no quotas.
    #[default]
    Absent,
    /// The file system accounts usage only.
    Counted,
    /// The file system enforces the limits.
    Enforced,
}
