//! What a caller may do to a file: stage 4 of an open.
//!
//! A stored descriptor decides; where there is none, one is made from the
//! POSIX mode. The backend checks POSIX permissions of the caller besides.

use crate::{Caller, Volume};
use acl::{Access, Descriptor, PosixFacts};
use vfs::{Attributes, FileKind, Node};

/// The descriptor in force for a node.
pub(crate) fn descriptor_of(node: &dyn Node, attributes: &Attributes) -> Descriptor {
    let stored = node.security_descriptor().ok().flatten();
    stored
        .and_then(|bytes| Descriptor::decode(&bytes).ok())
        .unwrap_or_else(|| synthesised(attributes))
}

/// The descriptor that a mode stands for.
pub(crate) fn synthesised(attributes: &Attributes) -> Descriptor {
    acl::from_posix(&PosixFacts {
        uid: attributes.uid,
        gid: attributes.gid,
        mode: attributes.mode,
        is_directory: attributes.kind == FileKind::Directory,
    })
}

/// All that `caller` may do to a node with this descriptor. Deleting may also
/// be the parent's to grant: see [`crate::Files::open`].
pub(crate) fn allowed(volume: &Volume, caller: &Caller, descriptor: &Descriptor) -> Access {
    let rights = if caller.is_root() {
        Access::FILE_ALL | Access::SYSTEM_SECURITY
    } else {
        acl::maximal_access(descriptor, &caller.token)
    };
    rights & volume.max_access()
}
