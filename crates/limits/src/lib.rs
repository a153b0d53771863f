//! What a share may be used for in a second, and who waits for it; and what one client may
//! have of what all share.
//!
//! Classes and their formulas, token buckets of a share and of its files, the order in
//! which sessions wait. Absent on purpose: a clock (time is an argument), I/O, words of
//! the protocols.
#![forbid(unsafe_code)]

mod class;
mod ledger;
mod room;
mod share;
mod size;
mod snapshot;
mod tokens;
mod turns;

pub use class::{
    Class, GIB, Limits, MIB, PROVISIONED_GIB_MAX, PROVISIONED_GIB_MIN, Provision, Rates,
};
pub use ledger::{Account, Exhausted, Holder, Ledger, Share, Usage, site_of};
pub use room::Room;
pub use share::{Admission, BOOKED_BYTES, FileUse, ShareLimits, Waiting};
pub use size::{LOWERED_AFTER, Size, TooSoon};
pub use snapshot::{CreditState, Credits, Snapshot};
pub use turns::{Entered, Turn, Turns};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads data.
    Read,
    /// It writes data.
    Write,
    /// Anything else: names, attributes, locks.
    Metadata,
}

/// What a request takes of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// What it does.
    pub kind: Kind,
    /// Operations: one, but for parts of a request.
    pub operations: u64,
    /// Bytes of data.
    pub bytes: u64,
}

impl Cost {
    /// Of reading so many bytes.
    #[must_use]
    pub fn read(bytes: u64) -> Self {
        Self { kind: Kind::Read, operations: 1, bytes }
    }

    /// Of writing so many bytes.
    #[must_use]
    pub fn write(bytes: u64) -> Self {
        Self { kind: Kind::Write, operations: 1, bytes }
    }

    /// Of an operation on names and attributes.
    #[must_use]
    pub fn metadata() -> Self {
        Self { kind: Kind::Metadata, operations: 1, bytes: 0 }
    }

    /// What copying so many bytes within the server costs the file that they come from and the
    /// one that they come to, beside the operation that asks for it: what reading and writing
    /// them would.
    #[must_use]
    pub fn copy(bytes: u64) -> [Self; 2] {
        [Self::read(bytes), Self::write(bytes)].map(|cost| cost.only_bytes(bytes))
    }

    /// So many of its bytes, without the operation.
    #[must_use]
    pub fn only_bytes(self, bytes: u64) -> Self {
        Self { operations: 0, bytes, ..self }
    }
}

/// What a request had to wait for before it began, if it had to, or was refused for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Throttled {
    /// It began at once.
    #[default]
    No,
    /// Operations of the share.
    Iops,
    /// Bytes written to the share.
    Ingress,
    /// Bytes read from the share.
    Egress,
    /// Operations on names and attributes in the share.
    Metadata,
    /// Operations on, or bytes of, one file.
    File,
    /// Opens at once of one file: nobody waits for those, it was refused.
    Handles,
}

impl Throttled {
    /// Every reason to wait.
    pub const REASONS: [Self; 5] =
        [Self::Iops, Self::Ingress, Self::Egress, Self::Metadata, Self::File];

    /// Whether it had to wait.
    #[must_use]
    pub fn has_waited(self) -> bool {
        !matches!(self, Self::No | Self::Handles)
    }

    /// A word for it, for people and machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::No => "none",
            Self::Iops => "iops",
            Self::Ingress => "ingress",
            Self::Egress => "egress",
            Self::Metadata => "metadata",
            Self::File => "file",
            Self::Handles => "handles",
        }
    }
}
