//! What a caller may do to a file: stage 4 of an open.
//!
//! A stored descriptor decides alone: where it grants what POSIX refuses, the
//! backend is asked again with the power of the process. Where none is stored
//! one is made from the POSIX permissions, and they decide besides.

use crate::{Caller, Volume};
use acl::{Access, Descriptor, PosixFacts};
use vfs::{Attributes, FileKind, FsError, Identity, KnownSecurity, Node, Opened, Result};

/// The descriptor in force for a node.
pub(crate) struct InForce {
    pub descriptor: Descriptor,
    /// It was stored, and decides alone.
    pub is_stored: bool,
}

impl InForce {
    pub(crate) fn of(node: &dyn Node, attributes: &Attributes) -> Self {
        match stored_by(node, attributes) {
            Some(descriptor) => {
                let descriptor = descriptor.with_names_of(attributes.uid, attributes.gid);
                Self { descriptor, is_stored: true }
            }
            None => Self { descriptor: synthesised(node, attributes), is_stored: false },
        }
    }

    /// The same for a node of which this is known beside, from when it was opened.
    pub(crate) fn known(
        node: &dyn Node,
        attributes: &Attributes,
        security: Option<&KnownSecurity>,
    ) -> Self {
        let Some(security) = security else { return Self::of(node, attributes) };
        let stored = attributes.stored;
        if stored.descriptor
            && let Ok(Some(bytes)) = security.descriptor(node)
            && let Ok(descriptor) = Descriptor::decode(bytes)
        {
            let descriptor = descriptor.with_names_of(attributes.uid, attributes.gid);
            return Self { descriptor, is_stored: true };
        }
        let ask = || security.posix_acl(node).ok().flatten();
        let list = if stored.posix_acl { ask() } else { None };
        Self { descriptor: acl::from_posix(&facts(attributes), list), is_stored: false }
    }

    /// Whether it decides alone, or else POSIX has one of its bits for the caller: to be asked
    /// before something is done as another user for who was refused it. What the descriptor shows
    /// of POSIX adds up entries of which the system looks at the first.
    pub(crate) fn decides_or_posix_grants(
        &self,
        caller: &Caller,
        (node, attributes): (&dyn Node, &Attributes),
        bit: u32,
    ) -> bool {
        self.is_stored || posix_grants(caller, node, attributes, bit)
    }

    /// Whether it is stored and grants one of these rights.
    fn lets(&self, volume: &Volume, caller: &Caller, access: Access) -> bool {
        self.is_stored && allowed(volume, caller, &self.descriptor).intersects(access)
    }
}

/// The descriptor in force for a node, to check against.
pub(crate) fn descriptor_of(node: &dyn Node, attributes: &Attributes) -> Descriptor {
    InForce::of(node, attributes).descriptor
}

/// The descriptor in force for a node, to show and to change.
pub(crate) fn shown(node: &dyn Node, attributes: &Attributes) -> Descriptor {
    stored(node).unwrap_or_else(|| synthesised(node, attributes))
}

/// As [`stored`], of a node that was opened with these attributes.
fn stored_by(node: &dyn Node, attributes: &Attributes) -> Option<Descriptor> {
    if attributes.stored.descriptor { stored(node) } else { None }
}

/// The stored descriptor, if there is one that counts.
pub(crate) fn stored(node: &dyn Node) -> Option<Descriptor> {
    let bytes = node.security_descriptor().ok().flatten()?;
    Descriptor::decode(&bytes).ok()
}

/// The descriptor that POSIX permissions stand for.
pub(crate) fn synthesised(node: &dyn Node, attributes: &Attributes) -> Descriptor {
    let has_list = attributes.stored.posix_acl;
    let list = if has_list { node.posix_acl().ok().flatten() } else { None };
    acl::from_posix(&facts(attributes), list.as_ref())
}

/// The bit of POSIX that lets read.
pub(crate) const POSIX_READ: u32 = 4;
/// The bit of POSIX that lets write.
pub(crate) const POSIX_WRITE: u32 = 2;
/// The bit of POSIX that lets execute.
pub(crate) const POSIX_EXECUTE: u32 = 1;

/// Whether POSIX has one of its bits for the caller.
fn posix_grants(caller: &Caller, node: &dyn Node, attributes: &Attributes, bit: u32) -> bool {
    if caller.is_root() {
        return true;
    }
    let who = &caller.identity;
    let list = match attributes.stored.posix_acl {
        false => None,
        true => match node.posix_acl() {
            Ok(list) => list,
            Err(_) => return false,
        },
    };
    let list = list.unwrap_or_else(|| acl::PosixAcl::of_mode(attributes.mode));
    let groups: Vec<u32> = who.groups.iter().copied().chain([who.gid]).collect();
    list.grants(&facts(attributes), who.uid, &groups, bit)
}

/// What POSIX says of a node, for descriptors.
pub(crate) fn facts(attributes: &Attributes) -> PosixFacts {
    PosixFacts {
        uid: attributes.uid,
        gid: attributes.gid,
        mode: attributes.mode,
        is_directory: attributes.kind == FileKind::Directory,
    }
}

/// Whether a stored descriptor, of a file or of its directory, lets the caller
/// remove the file's name. MS-FSA 2.1.5.1.2.1.
pub(crate) fn stored_lets_remove(
    volume: &Volume,
    caller: &Caller,
    (file, attributes): (&dyn Node, &Attributes),
    parent: &Opened,
) -> bool {
    InForce::of(file, attributes).lets(volume, caller, Access::DELETE)
        || InForce::of(&*parent.node, &parent.attributes).lets(volume, caller, Access::DELETE_CHILD)
}

/// All that `caller` may do to a node with this descriptor. Deleting may also
/// be the parent's to grant: see [`crate::Files::open`].
pub(crate) fn allowed(volume: &Volume, caller: &Caller, descriptor: &Descriptor) -> Access {
    allowed_by(volume, caller, || acl::maximal_access(descriptor, &caller.token))
}

/// The same, where a descriptor has to be found or made first: the superuser needs none.
pub(crate) fn allowed_by(
    volume: &Volume,
    caller: &Caller,
    by_descriptor: impl FnOnce() -> Access,
) -> Access {
    let rights =
        if caller.is_root() { Access::FILE_ALL | Access::SYSTEM_SECURITY } else { by_descriptor() };
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
    may_add_known(volume, caller, (directory, None), is_directory)
}

/// The same where this is known of the directory.
///
/// # Errors
/// As [`may_add`].
pub(crate) fn may_add_known(
    volume: &Volume,
    caller: &Caller,
    (directory, security): (&Opened, Option<&KnownSecurity>),
    is_directory: bool,
) -> Result<Option<Descriptor>> {
    let node = &*directory.node;
    let stored = match security {
        _ if !directory.attributes.stored.descriptor => None,
        Some(security) => security.descriptor(node).ok().flatten().map(Descriptor::decode),
        None => stored(node).map(Ok),
    };
    let Some(Ok(descriptor)) = stored else { return Ok(None) };
    // ADD_FILE and ADD_SUBDIRECTORY are the directory's names for these bits.
    let needed = if is_directory { Access::APPEND_DATA } else { Access::WRITE_DATA };
    let Attributes { uid, gid, .. } = directory.attributes;
    let known = descriptor.clone().with_names_of(uid, gid);
    if allowed(volume, caller, &known).contains(needed) {
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

/// As whom extended attributes and streams are changed, once the rights to
/// were checked: with the power of the process, where a stored descriptor gave
/// them and POSIX may not.
pub(crate) fn as_granted(caller: &Caller, node: &dyn Node) -> Identity {
    let is_stored = node.security_descriptor().is_ok_and(|stored| stored.is_some());
    if is_stored { Identity::root() } else { caller.identity.clone() }
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
