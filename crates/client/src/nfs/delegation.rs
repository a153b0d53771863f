//! Delegations that this client holds, and their recalls. RFC 8881 10.4.

use wire::nfs::{FileHandle, StateId};

/// A delegation that this client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientDelegation {
    pub(super) handle: FileHandle,
    pub(super) state_id: StateId,
    /// A write delegation.
    pub is_write: bool,
}

/// A recall of a delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// The delegated file.
    pub handle: FileHandle,
    pub(super) state_id: StateId,
}

impl Recall {
    /// True if it refers to this delegation.
    #[must_use]
    pub fn is_of(&self, delegation: &ClientDelegation) -> bool {
        self.state_id.other == delegation.state_id.other
    }
}
