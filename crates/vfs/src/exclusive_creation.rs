//! The capability of a node to recognise its own exclusive creation.

use crate::{Actor, Result};

/// Capability: a file retains the verifier of its exclusive create. NFS needs it to recognise a
/// repeated request. RFC 8881 18.16.3.
///
/// Without it, an exclusive create that is repeated meets its own file as an existing one.
pub trait ExclusiveCreation: Send + Sync + std::fmt::Debug {
    /// The verifier that [`ExclusiveCreation::set_verifier`] stored. Its reader may lack permission by the
    /// file's mode, hence `actor`.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the file has none.
    fn verifier(&self, actor: Actor<'_>) -> Result<[u8; 8]>;

    /// Stores the verifier of an exclusive create, while the file is open for writing. The creator
    /// may lack permission by the file's mode, hence `actor`.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::AccessDenied`].
    fn set_verifier(&self, actor: Actor<'_>, verifier: [u8; 8]) -> Result<()>;
}
