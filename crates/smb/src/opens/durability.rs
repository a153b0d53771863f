//! The kind and the timeout of a durable open. MS-SMB2 3.3.5.9.6, 3.3.5.9.10, 3.3.5.15.9.

use crate::limits::{
    DURABLE_TIMEOUT, DURABLE_V2_TIMEOUT, DURABLE_V2_TIMEOUT_MAX, RESILIENT_TIMEOUT,
    RESILIENT_TIMEOUT_MAX, RESILIENT_TIMEOUT_MIN,
};
use std::time::Duration;
use wire::ntstatus::NtStatus;

/// The lifetime of an open beyond its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableKind {
    /// Until another open conflicts with its caching.
    Durable,
    /// Like `Durable`, with a CreateGuid and a timeout of the client's choice.
    DurableV2,
    /// Also despite conflicting opens.
    Resilient,
    /// Like `Resilient`, and beyond the server process.
    Persistent,
}

impl DurableKind {
    /// True if an open is retained despite conflicting opens.
    #[must_use]
    pub fn survives_conflicts(self) -> bool {
        matches!(self, Self::Resilient | Self::Persistent)
    }
}

/// Kind and timeout of a durable open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durability {
    /// See [`DurableKind`].
    pub kind: DurableKind,
    /// How long the open waits for a reconnect.
    pub timeout: Duration,
}

impl Durability {
    /// A durable open of version 1.
    pub const DURABLE: Self = Self { kind: DurableKind::Durable, timeout: DURABLE_TIMEOUT };

    /// A durable open of version 2 with the requested timeout; 0 means the server's default.
    #[must_use]
    pub fn durable_v2(requested_ms: u32) -> Self {
        let requested = Duration::from_millis(requested_ms.into());
        let timeout = if requested.is_zero() {
            DURABLE_V2_TIMEOUT
        } else {
            requested.min(DURABLE_V2_TIMEOUT_MAX)
        };
        Self { kind: DurableKind::DurableV2, timeout }
    }

    /// A resilient open with the requested timeout, at least [`RESILIENT_TIMEOUT_MIN`]; 0 means the
    /// server's default.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for more than [`RESILIENT_TIMEOUT_MAX`]. MS-SMB2 3.3.5.15.9.
    pub fn resilient(requested_ms: u32) -> Result<Self, NtStatus> {
        let requested = Duration::from_millis(requested_ms.into());
        if requested > RESILIENT_TIMEOUT_MAX {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let timeout = if requested.is_zero() {
            RESILIENT_TIMEOUT
        } else {
            requested.max(RESILIENT_TIMEOUT_MIN)
        };
        Ok(Self { kind: DurableKind::Resilient, timeout })
    }

    /// The timeout in milliseconds, as responses carry it.
    #[must_use]
    pub fn timeout_ms(self) -> u32 {
        u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX)
    }
}
