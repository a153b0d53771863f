//! What the states of a client hold.

use crate::delegations::Entry;
use crate::stateids::States;
use files::{Delegation, OpenFile, RequestFiles};
use std::sync::Arc;
use wire::nfs::callback::ReferringCalls;
use wire::nfs::{FileHandle, StateId};

/// What an open holds.
#[derive(Clone, Debug)]
pub struct HeldOpen {
    /// The open.
    pub open: Arc<OpenFile>,
    /// The handle of its file: requests name both.
    pub handle: FileHandle,
    /// What its client's address is charged for it; none for what a delegation has open.
    pub charge: Option<Arc<limits::Share>>,
}

impl HeldOpen {
    /// Closes it. What became of a name that others wanted gone is not the client's business.
    pub async fn close(self, files: &RequestFiles) {
        if let Err(error) = files.close(self.open).await {
            tracing::debug!(%error, "a file could not be removed at its last close");
        }
    }
}

/// What a delegation holds.
#[derive(Debug)]
pub struct HeldDelegation {
    /// Its place among all: given up first, as the next writer takes it once the file is free.
    pub entry: Entry,
    /// It was asked back.
    pub is_asked_back: bool,
    /// What keeps others from the file, and lets the client read and write.
    pub delegation: Delegation,
    /// See [`HeldOpen::handle`].
    pub handle: FileHandle,
    /// The request that it came by: its answer may come after the recall.
    pub referring: Option<ReferringCalls>,
}

impl HeldDelegation {
    /// The open to read and write by.
    #[must_use]
    pub fn open(&self) -> HeldOpen {
        HeldOpen { open: self.delegation.open().clone(), handle: self.handle, charge: None }
    }
}

/// The states of one client.
pub type ClientStates = States<HeldOpen, HeldDelegation>;

/// What a client is told of a delegation that is wanted back.
#[derive(Debug)]
pub struct DelegationFacts {
    /// Its state id.
    pub id: StateId,
    /// Its file.
    pub handle: FileHandle,
    /// See [`HeldDelegation::referring`].
    pub referring: Option<ReferringCalls>,
}

impl DelegationFacts {
    /// Those of the delegation of this number, if it was not revoked.
    #[must_use]
    pub fn of(states: &ClientStates, number: u64) -> Option<Self> {
        let held = states.delegation(number)?;
        let (handle, referring) = (held.handle, held.referring.clone());
        Some(Self { id: states.id(number), handle, referring })
    }
}
