//! Opens and tree connects whose share limits the request has not paid: they give no file.

use crate::opens::open::{Open, OpenTarget};
use crate::shares::tree::TreeConnect;
use std::sync::Arc;

/// The open of a request whose cost is not admitted yet. The type makes a handler without admission
/// fail to compile.
#[derive(Debug)]
#[must_use]
pub struct UnpaidOpen(pub(super) Arc<Open>);

impl UnpaidOpen {
    /// The open of a request that has begun.
    pub(super) fn new(open: Arc<Open>) -> Self {
        Self(open)
    }

    /// The target of the open, by which some requests are free, or are refused before admission.
    pub fn target(&self) -> &OpenTarget {
        &self.0.target
    }

    /// The open, for a request without cost: on a pipe, or one that releases something for which
    /// others wait.
    pub fn free_of_charge(self) -> Arc<Open> {
        self.0
    }
}

/// The tree of a request whose cost is not admitted yet; see [`UnpaidOpen`].
#[derive(Debug)]
#[must_use]
pub struct UnpaidTree(pub(super) Arc<TreeConnect>);

impl UnpaidTree {
    /// The tree of a request that has begun.
    pub(super) fn new(tree: Arc<TreeConnect>) -> Self {
        Self(tree)
    }

    /// The tree, for a request that concerns no file.
    pub fn free_of_charge(self) -> Arc<TreeConnect> {
        self.0
    }
}
