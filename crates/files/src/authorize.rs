//! What a caller may do to a file: stage 4 of an open.
//!
//! A stored descriptor decides; where there is none, one is made from the
//! POSIX mode. The backend checks POSIX permissions of the caller besides.

use crate::{Caller, Volume};
use acl::{Access, Descriptor, PosixFacts};
use vfs::{Attributes, FileKind, FsError, Identity, Node, Opened, Result};

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

/// Whether the caller may make something in `directory`; gives the directory's
/// descriptor, if one is stored. Where there is none, POSIX decides when it is made.
///
/// # Errors
/// [`FsError::AccessDenied`].
pub(crate) fn may_add(
    volume: &Volume,
    caller: &Caller,
    directory: &Opened,
    is_directory: bool,
) -> Result<Option<Descriptor>> {
    let Some(stored) = directory.node.security_descriptor()? else { return Ok(None) };
    let Ok(descriptor) = Descriptor::decode(&stored) else { return Ok(None) };
    // ADD_FILE and ADD_SUBDIRECTORY are the directory's names for these bits.
    let needed = if is_directory { Access::APPEND_DATA } else { Access::WRITE_DATA };
    if allowed(volume, caller, &descriptor).contains(needed) {
        Ok(Some(descriptor))
    } else {
        Err(FsError::AccessDenied)
    }
}

/// As whom attributes are changed that POSIX reserves for the owner, once the
/// descriptor has decided that the caller may.
pub(crate) fn as_owner(caller: &Caller, attributes: &Attributes) -> Identity {
    Identity { uid: attributes.uid, ..caller.identity.clone() }
}

/// Whether POSIX refuses for sure that the caller removes a name from a
/// directory with these attributes. Access lists beyond the mode may refuse
/// what this lets pass, never allow what this refuses: their mask is the
/// group's part of the mode.
pub(crate) fn certainly_unwritable(
    caller: &Caller,
    directory: &Attributes,
    file_owner: u32,
) -> bool {
    let uid = caller.identity.uid;
    if caller.is_root() {
        return false;
    }
    let owns = uid == directory.uid;
    let writable = if owns { 0o200 } else { 0o022 };
    const STICKY: u32 = 0o1000;
    let stuck = directory.mode & STICKY != 0 && !owns && uid != file_owner;
    directory.mode & writable == 0 || stuck
}
