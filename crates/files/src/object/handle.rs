//! NFS file handles. RFC 8881 4.2.
//!
//! A handle holds the volume of the object and the backend's handle. With a seal, clients cannot
//! forge handles: a valid handle proves that the object was once presented. A returned handle is
//! verified all the same, so that an object outside the volume is not found.

use crate::Files;
use crate::object::Object;
use crate::server_work::LOCATE;
use std::fmt::Debug;
use std::sync::Arc;
use vfs::{FsError, NodeHandle, Result};

/// Identifier of a volume in handles, assigned by the configuration, valid as long as clients use
/// handles. Zero stands for no volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeId(pub u32);

/// Authenticates this server's handles, with a key that outlives the process.
pub trait HandleSeal: Send + Sync + Debug {
    /// The seal of these bytes, which cannot be computed without the key.
    fn seal(&self, bytes: &[u8]) -> [u8; ObjectHandle::SEAL_BYTES];
}

/// A file handle. It is persistent, and equal for all names of an object in one volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectHandle {
    volume: VolumeId,
    node: NodeHandle,
    bytes: Box<[u8]>,
}

/// First byte: the format version.
const FORM: u8 = 1;
/// Length of version and volume.
const HEAD_BYTES: usize = 5;

impl ObjectHandle {
    /// Maximum length. RFC 8881 3.1 (NFS4_FHSIZE).
    pub const BYTES_MAX: usize = 128;
    /// Length of the seal.
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

    /// The volume of the object.
    #[must_use]
    pub fn volume(&self) -> VolumeId {
        self.volume
    }

    pub(super) fn node(&self) -> &NodeHandle {
        &self.node
    }

    /// Bytes for the wire.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

// A handle consists of these and the backend's part.
const _: () = assert!(
    HEAD_BYTES + ObjectHandle::SEAL_BYTES + NodeHandle::BYTES_MAX <= ObjectHandle::BYTES_MAX
);

impl Files {
    /// Seals handles from now on; handles without the seal are refused.
    #[must_use]
    pub fn with_handle_seal(self, seal: Arc<dyn HandleSeal>) -> Self {
        Self { seal: Some(seal), ..self }
    }

    /// The handle of an object in the volume `volume`.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the backend has no handles.
    pub fn handle(&self, volume: VolumeId, object: &Object) -> Result<ObjectHandle> {
        let node = object.volume.names().handle_at(LOCATE, &*object.node, &object.path)?;
        Ok(self.seal(volume, node))
    }

    pub(super) fn seal(&self, volume: VolumeId, node: NodeHandle) -> ObjectHandle {
        ObjectHandle::new(volume, node, self.seal.as_deref())
    }

    /// Decodes a handle from the wire, which names its volume.
    ///
    /// # Errors
    /// [`FsError::InvalidParameter`] for bytes that are no handle of this server.
    pub fn parse_handle(&self, bytes: &[u8]) -> Result<ObjectHandle> {
        let (head, rest) =
            bytes.split_first_chunk::<HEAD_BYTES>().ok_or(FsError::InvalidParameter)?;
        let (node, _) = rest
            .split_last_chunk::<{ ObjectHandle::SEAL_BYTES }>()
            .ok_or(FsError::InvalidParameter)?;
        let [FORM, volume @ ..] = *head else { return Err(FsError::InvalidParameter) };
        let volume = VolumeId(u32::from_be_bytes(volume));
        let handle = ObjectHandle::new(volume, NodeHandle::new(node)?, self.seal.as_deref());
        if is_same(&handle.bytes, bytes) { Ok(handle) } else { Err(FsError::InvalidParameter) }
    }
}

/// Compares in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
