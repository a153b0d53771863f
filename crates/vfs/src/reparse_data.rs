//! The capability of a node to carry reparse data.

use crate::{Actor, FsError, Node, Result};

/// Capability: reparse data that SMB clients store, opaque to the backend. MS-FSCC 2.1.2.
///
/// Without it, no node is a reparse point by its data, and storing some is refused as not supported.
pub trait ReparseData: Send + Sync + std::fmt::Debug {
    /// The reparse data that a client has stored.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the node is no reparse point.
    fn reparse_data(&self, actor: Actor<'_>) -> Result<Vec<u8>>;

    /// Stores reparse data, or with `None` removes it.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for a kind of node that carries none; [`FsError::NoSpace`],
    /// [`FsError::AccessDenied`].
    fn set_reparse_data(&self, actor: Actor<'_>, data: Option<&[u8]>) -> Result<()>;
}

impl dyn Node + '_ {
    /// The reparse data, for a caller that has no fallback.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the node cannot carry any.
    pub fn need_reparse_data(&self) -> Result<&dyn ReparseData> {
        self.reparse_store().ok_or(FsError::NotSupported)
    }

    /// As [`ReparseData::reparse_data`]; the node is no reparse point without the capability.
    ///
    /// # Errors
    /// As [`ReparseData::reparse_data`].
    pub fn reparse_data(&self, actor: Actor<'_>) -> Result<Vec<u8>> {
        self.reparse_store().ok_or(FsError::NotFound)?.reparse_data(actor)
    }
}
