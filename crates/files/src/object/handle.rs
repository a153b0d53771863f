//! Handles: what clients keep to name an object by. RFC 8881 4.2.
//!
//! A handle says in which volume the object is and what the backend calls it. It is
//! sealed, if the server has a seal: then nobody can make one up, and the right to
//! reach an object is to have been shown it. It is checked all the same when it comes
//! back: what has left the volume is not found by it.

use crate::Files;
use crate::object::Object;
use crate::server_work::LOCATE;
use std::fmt::Debug;
use std::sync::Arc;
use vfs::{FsError, NodeHandle, Result};

/// What a volume is called in handles, for as long as clients keep them: by whoever
/// configures volumes. Zero is for what is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeId(pub u32);

/// Tells handles that this server made from others. Handed down with a key that
/// outlives the process.
pub trait HandleSeal: Send + Sync + Debug {
    /// The seal of these bytes: nobody without the key can tell it.
    fn seal(&self, bytes: &[u8]) -> [u8; Handle::SEAL_BYTES];
}

/// What a client keeps to name an object by. Equal for all names of an object in one
/// volume, and for ever.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    volume: VolumeId,
    node: NodeHandle,
    bytes: Box<[u8]>,
}

/// The first byte: there may be other forms one day.
const FORM: u8 = 1;
/// The form and the volume.
const HEAD_BYTES: usize = 5;

impl Handle {
    /// Most bytes that one has. RFC 8881 3.1 (NFS4_FHSIZE).
    pub const BYTES_MAX: usize = 128;
    /// Bytes of the seal.
    pub const SEAL_BYTES: usize = 8;

    pub(super) fn new(volume: VolumeId, node: NodeHandle, seal: Option<&dyn HandleSeal>) -> Self {
        let length = HEAD_BYTES + node.as_bytes().len() + Self::SEAL_BYTES;
        let mut bytes = Vec::with_capacity(length);
        bytes.push(FORM);
        bytes.extend_from_slice(&volume.0.to_be_bytes());
        bytes.extend_from_slice(node.as_bytes());
        let seal = seal.map_or([0; Self::SEAL_BYTES], |seal| seal.seal(&bytes));
        bytes.extend_from_slice(&seal);
        Self { volume, node, bytes: bytes.into() }
    }

    /// Which volume it is of.
    #[must_use]
    pub fn volume(&self) -> VolumeId {
        self.volume
    }

    pub(super) fn node(&self) -> &NodeHandle {
        &self.node
    }

    /// For the wire.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

// All that a handle has beside the backend's part.
const _: () = assert!(HEAD_BYTES + Handle::SEAL_BYTES + NodeHandle::BYTES_MAX <= Handle::BYTES_MAX);

impl Files {
    /// Seals handles from now on; those without the seal are not taken.
    #[must_use]
    pub fn with_handle_seal(self, seal: Arc<dyn HandleSeal>) -> Self {
        Self { seal: Some(seal), ..self }
    }

    /// The handle of an object, whose volume is called `volume`.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where the backend has none.
    pub fn handle(&self, volume: VolumeId, object: &Object) -> Result<Handle> {
        let node = object.volume.vfs.handle_at(LOCATE, &*object.node, &object.path)?;
        Ok(self.seal(volume, node))
    }

    pub(super) fn seal(&self, volume: VolumeId, node: NodeHandle) -> Handle {
        Handle::new(volume, node, self.seal.as_deref())
    }

    /// A handle from the wire: of which volume it is, says itself.
    ///
    /// # Errors
    /// [`FsError::InvalidParameter`] for bytes that no handle of this server has.
    pub fn parse_handle(&self, bytes: &[u8]) -> Result<Handle> {
        let (head, rest) =
            bytes.split_first_chunk::<HEAD_BYTES>().ok_or(FsError::InvalidParameter)?;
        let (node, _) =
            rest.split_last_chunk::<{ Handle::SEAL_BYTES }>().ok_or(FsError::InvalidParameter)?;
        let [FORM, volume @ ..] = *head else { return Err(FsError::InvalidParameter) };
        let volume = VolumeId(u32::from_be_bytes(volume));
        let made = Handle::new(volume, NodeHandle::new(node)?, self.seal.as_deref());
        if is_same(&made.bytes, bytes) { Ok(made) } else { Err(FsError::InvalidParameter) }
    }
}

/// Compares in a time that does not tell where the first difference is.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
