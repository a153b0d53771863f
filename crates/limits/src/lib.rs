//! Rate limits of shares with their wait queues, and quotas of shared resources by client.
//!
//! Contains classes and their formulas, token buckets of a share and of its files, and the order in
//! which sessions wait. Absent on purpose: a clock (time is an argument), I/O, protocol terms.
#![forbid(unsafe_code)]

mod class;
mod ledger;
mod share;
mod size;
mod snapshot;
mod space_usage;
mod tokens;
mod turns;

pub use class::{
    GIB, Limits, MIB, PROVISIONED_GIB_MAX, PROVISIONED_GIB_MIN, PerformanceClass, Provision, Rates,
};
pub use ledger::{
    Ledger, LedgerAccount, LedgerHolder, ResourceCharge, ResourceExhausted, ResourceUsage, site_of,
};
pub use share::{BOOKING_BYTES_MAX, FileBuckets, RequestAdmission, ShareLimits, WaitGuard};
pub use size::{ProvisionedSize, ReductionTooSoon, SIZE_REDUCTION_DELAY};
pub use snapshot::{CreditState, Credits, LimitsSnapshot};
pub use space_usage::{MeasurementStart, SpaceUsage};
pub use turns::{BookingTurn, TurnGrant, Turns};

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A data read.
    Read,
    /// A data write.
    Write,
    /// Any other request: names, attributes, locks.
    Metadata,
}

/// The tokens that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Kind of the request.
    pub kind: RequestKind,
    /// Operations: one, or zero for later parts of a request.
    pub operations: u64,
    /// Bytes of data.
    pub bytes: u64,
}

impl Cost {
    /// The cost of a read.
    #[must_use]
    pub fn read(bytes: u64) -> Self {
        Self { kind: RequestKind::Read, operations: 1, bytes }
    }

    /// The cost of a write.
    #[must_use]
    pub fn write(bytes: u64) -> Self {
        Self { kind: RequestKind::Write, operations: 1, bytes }
    }

    /// The cost of a metadata operation.
    #[must_use]
    pub fn metadata() -> Self {
        Self { kind: RequestKind::Metadata, operations: 1, bytes: 0 }
    }

    /// The costs of a server-side copy for the source and for the target, in addition to the copy
    /// request itself: those of reading and writing the bytes.
    #[must_use]
    pub fn copy(bytes: u64) -> [Self; 2] {
        [Self::read(bytes), Self::write(bytes)].map(|cost| cost.only_bytes(bytes))
    }

    /// The cost of some bytes, without the operation.
    #[must_use]
    pub fn only_bytes(self, bytes: u64) -> Self {
        Self { operations: 0, bytes, ..self }
    }
}

/// The reason for which a request was delayed or refused by limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ThrottleReason {
    /// The request was not delayed.
    #[default]
    None,
    /// Operations of the share.
    Iops,
    /// Bytes written to the share.
    Ingress,
    /// Bytes read from the share.
    Egress,
    /// Metadata operations of the share.
    Metadata,
    /// Operations or bytes of one file.
    File,
    /// Open handles of one file; such a request is refused, not delayed.
    Handles,
}

impl ThrottleReason {
    /// All reasons for a delay.
    pub const REASONS: [Self; 5] =
        [Self::Iops, Self::Ingress, Self::Egress, Self::Metadata, Self::File];

    /// True if the request was delayed.
    #[must_use]
    pub fn has_waited(self) -> bool {
        !matches!(self, Self::None | Self::Handles)
    }

    /// The reason's name in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Iops => "iops",
            Self::Ingress => "ingress",
            Self::Egress => "egress",
            Self::Metadata => "metadata",
            Self::File => "file",
            Self::Handles => "handles",
        }
    }
}
