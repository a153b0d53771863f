//! What is told of a share's limits: values, for whoever shows or counts them.

use crate::Throttled;
use crate::class::{Limits, Provision};

/// What becomes of credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditState {
    /// There are more than a second ago.
    Accruing,
    /// There are fewer.
    Declining,
    /// There are as many.
    #[default]
    Constant,
}

impl CreditState {
    /// By what there was, and what there is.
    #[must_use]
    pub fn of(before: u64, now: u64) -> Self {
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => Self::Accruing,
            std::cmp::Ordering::Less => Self::Declining,
            std::cmp::Ordering::Equal => Self::Constant,
        }
    }

    /// A word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accruing => "accruing",
            Self::Declining => "declining",
            Self::Constant => "constant",
        }
    }
}

/// Operations that are saved up for bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// How many there are.
    pub held: u64,
    /// How many there can be.
    pub max: u64,
    /// See [`CreditState`]; as of the last second.
    pub state: CreditState,
}

/// A share at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Class, size, and what was said beside them.
    pub provision: Provision,
    /// What follows from it.
    pub limits: Limits,
    /// None where nothing is saved up.
    pub credits: Option<Credits>,
    /// Requests that had to wait since the start, by reason.
    pub throttled: [(Throttled, u64); Throttled::REASONS.len()],
    /// Requests that wait now.
    pub waiting: usize,
    /// Bytes used of the provisioned size; none without a size, or before they were measured.
    pub used_bytes: Option<u64>,
}
