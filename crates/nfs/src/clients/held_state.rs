//! Resources behind the states of a client.

use crate::clients::delegations::DelegationEntry;
use crate::state::stateids::States;
use files::{Delegation, OpenFile, RequestFiles};
use std::sync::Arc;
use wire::nfs::callback::ReferringCalls;
use wire::nfs::{FileHandle, StateId};

/// Open file behind an open state.
#[derive(Clone, Debug)]
pub struct HeldOpen {
    /// The open file.
    pub open: Arc<OpenFile>,
    /// File handle of its file, which requests name together with the state id.
    pub handle: FileHandle,
    /// Charge to the client's address; none for the open of a delegation.
    pub charge: Option<Arc<limits::ResourceCharge>>,
}

impl HeldOpen {
    /// Closes it. A failed removal at the last close does not concern the client.
    pub async fn close(self, files: &RequestFiles) {
        if let Err(error) = files.close(self.open).await {
            tracing::debug!(%error, "cannot remove a delete-pending file at its last close");
        }
    }
}

/// Resources behind a delegation.
#[derive(Debug)]
pub struct HeldDelegation {
    /// Its registration. Declared first: the next writer registers as soon as the file is free.
    pub entry: DelegationEntry,
    /// The server has recalled it.
    pub is_recalled: bool,
    /// The file layer's delegation, which blocks others and carries the client's I/O.
    pub delegation: Delegation,
    /// See [`HeldOpen::handle`].
    pub handle: FileHandle,
    /// The granting request, whose reply a recall may overtake.
    pub referring: Option<ReferringCalls>,
}

impl HeldDelegation {
    /// The open for I/O under the delegation.
    #[must_use]
    pub fn open(&self) -> HeldOpen {
        HeldOpen { open: self.delegation.open().clone(), handle: self.handle, charge: None }
    }
}

/// The states of one client.
pub type ClientStates = States<HeldOpen, HeldDelegation>;

/// Arguments of CB_RECALL.
#[derive(Debug)]
pub struct DelegationFacts {
    /// State id of the delegation.
    pub id: StateId,
    /// File handle of its file.
    pub handle: FileHandle,
    /// See [`HeldDelegation::referring`].
    pub referring: Option<ReferringCalls>,
}

impl DelegationFacts {
    /// Facts of the delegation with this number; None if it was revoked.
    #[must_use]
    pub fn of(states: &ClientStates, number: u64) -> Option<Self> {
        let held = states.delegation(number)?;
        let (handle, referring) = (held.handle, held.referring.clone());
        Some(Self { id: states.id(number), handle, referring })
    }
}
