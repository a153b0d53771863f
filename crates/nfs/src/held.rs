//! What the states of a client hold.

use crate::config::Export;
use crate::stateids::States;
use files::OpenFile;
use std::sync::Arc;
use wire::nfs::FileHandle;

/// What an open holds.
#[derive(Clone, Debug)]
pub struct HeldOpen {
    /// The open.
    pub open: Arc<OpenFile>,
    /// The handle of its file: requests name both.
    pub handle: FileHandle,
    /// The share that it is in.
    pub export: Arc<Export>,
}

/// What a delegation holds.
#[derive(Debug)]
pub struct HeldDelegation;

/// The states of one client.
pub type ClientStates = States<HeldOpen, HeldDelegation>;
