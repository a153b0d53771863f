//! Figures of a share's limits, for metrics and the admin interface.

use crate::ThrottleReason;
use crate::class::{Limits, Provision};

/// Trend of burst credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditState {
    /// More than a second ago.
    Accruing,
    /// Fewer than a second ago.
    Declining,
    /// As many as a second ago.
    #[default]
    Constant,
}

impl CreditState {
    /// Compares two burst-credit balances.
    #[must_use]
    pub fn of(before: u64, now: u64) -> Self {
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => Self::Accruing,
            std::cmp::Ordering::Less => Self::Declining,
            std::cmp::Ordering::Equal => Self::Constant,
        }
    }

    /// The trend's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accruing => "accruing",
            Self::Declining => "declining",
            Self::Constant => "constant",
        }
    }
}

/// Burst credits, in operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// The present balance.
    pub held: u64,
    /// The maximum.
    pub max: u64,
    /// The trend of the last second.
    pub state: CreditState,
}

/// The figures of a share at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsSnapshot {
    /// The provisioning.
    pub provision: Provision,
    /// The effective limits.
    pub limits: Limits,
    /// Burst credits; none without bursts.
    pub credits: Option<Credits>,
    /// Delayed requests since the start, by reason.
    pub throttled: [(ThrottleReason, u64); ThrottleReason::REASONS.len()],
    /// Requests that wait now.
    pub waiting: usize,
    /// Used bytes of the provisioned size; none without a size, or before the first measurement.
    pub used_bytes: Option<u64>,
}
