//! Access checks for all protocols and operations.
//!
//! A stored descriptor decides alone. Where it grants access that POSIX refuses, the backend call
//! uses a named elevation ([`vfs::ElevationReason`]). Without a stored descriptor, the first
//! matching class of the POSIX permissions decides: see [`acl::PosixAcl::access`]. A descriptor
//! that presents POSIX permissions is never evaluated.

use crate::volume::dos;
use crate::{Caller, Volume};
use acl::{Access, Descriptor, ExecuteRule, OwnerGroup, PosixAcl, PosixFacts};
use vfs::{
    Actor, AttributeRequest, Attributes, ElevationReason, FileKind, FsError, Identity, Node,
    NodeSecurityCache, OpenedNode, Protection, Result,
};

/// Security information that decides about a node.
pub(crate) enum EffectiveSecurity {
    /// The stored descriptor, alone.
    Stored(Descriptor),
    /// POSIX permissions.
    Posix(PosixFacts, PosixAcl),
}

impl EffectiveSecurity {
    pub(crate) fn of(node: &dyn Node, attributes: &Attributes) -> Self {
        Self::known(node, attributes, None)
    }

    /// As [`EffectiveSecurity::of`], with security information that was read when the node was
    /// opened.
    pub(crate) fn known(
        node: &dyn Node,
        attributes: &Attributes,
        security: Option<&NodeSecurityCache>,
    ) -> Self {
        let descriptor = match security {
            _ if !attributes.stored.descriptor => None,
            Some(security) => {
                let bytes = security.descriptor(node).ok().flatten();
                bytes.and_then(|bytes| Descriptor::decode(bytes).ok())
            }
            None => stored(node),
        };
        if let Some(descriptor) = descriptor {
            return Self::Stored(descriptor.with_local_owner(attributes.uid, attributes.gid));
        }
        Self::posix(node, attributes, security)
    }

    /// POSIX permissions, whatever descriptor is stored.
    fn posix(
        node: &dyn Node,
        attributes: &Attributes,
        security: Option<&NodeSecurityCache>,
    ) -> Self {
        let list = posix_list(node, attributes, security);
        Self::Posix(facts(attributes), list)
    }

    /// Whether a stored descriptor decides.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self, Self::Stored(_))
    }

    /// All rights of a caller other than root.
    pub(crate) fn access(&self, caller: &Caller, execute: ExecuteRule) -> Access {
        let identity = &caller.identity;
        match self {
            Self::Stored(descriptor) => acl::maximal_access(descriptor, &caller.token),
            Self::Posix(facts, list) => {
                let groups: Vec<u32> =
                    identity.groups.iter().copied().chain([identity.gid]).collect();
                let access = list.access(facts, (identity.uid, &groups), execute);
                let access = access - withheld_in_sticky(facts, identity.uid, execute);
                access | acl::privileges(&caller.token)
            }
        }
    }

    /// As [`rights_to`] with [`ExecuteRule::WithRead`].
    pub(crate) fn rights(&self, volume: &Volume, caller: &Caller) -> Access {
        allowed_by(volume, caller, || self.access(caller, ExecuteRule::WithRead))
    }

    /// Whether a stored descriptor grants one of these rights.
    fn lets(&self, volume: &Volume, caller: &Caller, access: Access) -> bool {
        self.is_stored() && self.rights(volume, caller).intersects(access)
    }
}

/// POSIX permissions of a node. With a POSIX ACL, the mode's group bits are its mask. If they are
/// empty, Linux evaluates the mode alone (`acl_permission_check` in fs/namei.c).
fn posix_list(
    node: &dyn Node,
    attributes: &Attributes,
    security: Option<&NodeSecurityCache>,
) -> PosixAcl {
    const GROUP: u32 = 0o070;
    let of_mode = PosixAcl::of_mode(attributes.mode);
    let list = match security {
        _ if !attributes.stored.posix_acl || attributes.mode & GROUP == 0 => Ok(None),
        Some(security) => security.posix_acl(node).map(Option::<&PosixAcl>::cloned),
        None => node.posix_acl(),
    };
    match list {
        Ok(list) => list.unwrap_or(of_mode),
        // An unreadable ACL grants access to the owner only.
        Err(_) => PosixAcl { group: 0, others: 0, ..of_mode },
    }
}

/// Rights withheld from all but the owner of a sticky directory: its extended attributes
/// (`xattr_permission` in fs/xattr.c). SMB reports the right all the same, since generic rights
/// contain it.
fn withheld_in_sticky(facts: &PosixFacts, uid: u32, execute: ExecuteRule) -> Access {
    const STICKY: u32 = 0o1000;
    let is_sticky = facts.is_directory && facts.mode & STICKY != 0;
    match execute {
        ExecuteRule::ByBit if is_sticky && uid != facts.uid => Access::WRITE_EA,
        _ => Access::NONE,
    }
}

/// A node, its attributes, and security information from the time of its open.
pub(crate) type Subject<'a> = (&'a dyn Node, &'a Attributes, Option<&'a NodeSecurityCache>);

/// All rights of `caller` to a node, within the volume's maximum. The parent may grant DELETE, too:
/// see [`crate::RequestFiles::open`].
///
/// With [`ExecuteRule::ByBit`], execute on a directory is search permission, which the kernel
/// checks by POSIX. A stored descriptor decides all other rights ([`acl::to_posix`]).
///
/// Root needs no grant, but with [`ExecuteRule::ByBit`] executes a file only if some x bit is set,
/// as CAP_DAC_OVERRIDE requires.
pub(crate) fn rights_to(
    volume: &Volume,
    caller: &Caller,
    (node, attributes, security): Subject<'_>,
    execute: ExecuteRule,
) -> Access {
    let is_directory = attributes.kind == FileKind::Directory;
    let by_node = || {
        let in_force = EffectiveSecurity::known(node, attributes, security);
        let access = in_force.access(caller, execute);
        match execute {
            ExecuteRule::ByBit if is_directory && in_force.is_stored() => {
                let by_posix = EffectiveSecurity::posix(node, attributes, security);
                // Removing a name takes a lookup, which needs search permission.
                match by_posix.access(caller, execute).contains(Access::EXECUTE) {
                    true => access | Access::EXECUTE,
                    false => access - (Access::EXECUTE | Access::DELETE_CHILD),
                }
            }
            _ => access,
        }
    };
    let rights = allowed_by(volume, caller, by_node);
    let is_program = is_directory || attributes.mode & 0o111 != 0;
    match execute {
        ExecuteRule::ByBit if caller.is_root() && !is_program => rights - Access::EXECUTE,
        _ => rights,
    }
}

/// As [`rights_to`] for an opened node, with [`ExecuteRule::WithRead`].
pub(crate) fn rights_to_opened(volume: &Volume, caller: &Caller, opened: &OpenedNode) -> Access {
    let subject = (&*opened.node, &opened.attributes, None);
    rights_to(volume, caller, subject, ExecuteRule::WithRead)
}

/// As [`rights_to`] by the attributes alone, for a node without a stored descriptor or POSIX ACL.
pub(crate) fn rights_by_mode(volume: &Volume, caller: &Caller, attributes: &Attributes) -> Access {
    let list = PosixAcl::of_mode(attributes.mode);
    EffectiveSecurity::Posix(facts(attributes), list).rights(volume, caller)
}

/// The descriptor of a node as presented to clients, stored or synthesised.
pub(crate) fn shown(node: &dyn Node, attributes: &Attributes) -> Descriptor {
    stored(node).unwrap_or_else(|| synthesised(node, attributes))
}

/// The stored descriptor, if there is a valid one.
pub(crate) fn stored(node: &dyn Node) -> Option<Descriptor> {
    let bytes = node.security_descriptor().ok().flatten()?;
    Descriptor::decode(&bytes).ok()
}

/// All rights that a stored descriptor grants; none if POSIX permissions decide, which costs one
/// read of the node.
///
/// # Errors
/// [`FsError::Io`].
pub(crate) fn rights_by_descriptor(
    volume: &Volume,
    caller: &Caller,
    node: &dyn Node,
) -> Result<Option<Access>> {
    let Some(descriptor) = stored(node) else { return Ok(None) };
    let Attributes { uid, gid, .. } = node.attributes(AttributeRequest::default())?;
    Ok(Some(allowed(volume, caller, &descriptor.with_local_owner(uid, gid))))
}

/// Descriptor that presents the POSIX permissions.
fn synthesised(node: &dyn Node, attributes: &Attributes) -> Descriptor {
    let has_list = attributes.stored.posix_acl;
    let list = if has_list { node.posix_acl().ok().flatten() } else { None };
    acl::from_posix(&facts(attributes), list.as_ref())
}

/// POSIX ownership and mode of a node, for descriptors.
pub(crate) fn facts(attributes: &Attributes) -> PosixFacts {
    PosixFacts {
        uid: attributes.uid,
        gid: attributes.gid,
        mode: attributes.mode,
        is_directory: attributes.kind == FileKind::Directory,
    }
}

/// Whether the owner belongs to the owning group, as known if the caller is the owner.
pub(crate) fn owner_group(caller: &Caller, facts: &PosixFacts) -> OwnerGroup {
    let identity = &caller.identity;
    match identity.uid == facts.uid && identity.in_group(facts.gid) {
        true => OwnerGroup::Member,
        false => OwnerGroup::Unknown,
    }
}

/// Whether a stored descriptor of a file or its directory grants removal of the file's name. MS-FSA
/// 2.1.5.1.2.1.
pub(crate) fn stored_lets_remove(
    volume: &Volume,
    caller: &Caller,
    (file, attributes): (&dyn Node, &Attributes),
    parent: &OpenedNode,
) -> bool {
    EffectiveSecurity::of(file, attributes).lets(volume, caller, Access::DELETE)
        || EffectiveSecurity::of(&*parent.node, &parent.attributes).lets(
            volume,
            caller,
            Access::DELETE_CHILD,
        )
}

/// All rights of `caller` under a descriptor that is or will be stored.
pub(crate) fn allowed(volume: &Volume, caller: &Caller, descriptor: &Descriptor) -> Access {
    allowed_by(volume, caller, || acl::maximal_access(descriptor, &caller.token))
}

/// All rights, with `by_node` evaluated unless the caller is root.
pub(crate) fn allowed_by(
    volume: &Volume,
    caller: &Caller,
    by_node: impl FnOnce() -> Access,
) -> Access {
    let rights =
        if caller.is_root() { Access::FILE_ALL | Access::SYSTEM_SECURITY } else { by_node() };
    rights & volume.max_access()
}

/// Checks that the caller may create in `directory`. Returns the directory's stored descriptor.
/// Without one, the backend applies POSIX rules at creation.
///
/// # Errors
/// [`FsError::AccessDenied`].
pub(crate) fn may_add(
    volume: &Volume,
    caller: &Caller,
    directory: &OpenedNode,
    is_directory: bool,
) -> Result<Option<Descriptor>> {
    may_add_known(volume, caller, (directory, None), is_directory)
}

/// As [`may_add`], with security information of the directory.
///
/// # Errors
/// As [`may_add`].
pub(crate) fn may_add_known(
    volume: &Volume,
    caller: &Caller,
    (directory, security): (&OpenedNode, Option<&NodeSecurityCache>),
    is_directory: bool,
) -> Result<Option<Descriptor>> {
    let node = &*directory.node;
    let stored = match security {
        _ if !directory.attributes.stored.descriptor => None,
        Some(security) => security.descriptor(node).ok().flatten().map(Descriptor::decode),
        None => stored(node).map(Ok),
    };
    let Some(Ok(descriptor)) = stored else { return Ok(None) };
    // The directory rights ADD_FILE and ADD_SUBDIRECTORY share these bits.
    let needed = if is_directory { Access::APPEND_DATA } else { Access::WRITE_DATA };
    let Attributes { uid, gid, .. } = directory.attributes;
    let known = descriptor.clone().with_local_owner(uid, gid);
    if allowed(volume, caller, &known).contains(needed) {
        Ok(Some(descriptor))
    } else {
        Err(FsError::AccessDenied)
    }
}

/// Rights that the read-only attribute withholds from all users, root included, on an existing
/// file. MS-FSA 2.1.5.1.2.
pub(crate) fn withheld_by_readonly(attributes: &Attributes) -> Access {
    let is_readonly = attributes.dos.bits.unwrap_or(0) & dos::READONLY != 0;
    match attributes.kind {
        FileKind::Directory => Access::NONE,
        _ if is_readonly => Access::WRITE_DATA | Access::APPEND_DATA,
        _ => Access::NONE,
    }
}

/// Rights that an inode flag or a read-only mount withholds from all users, root included.
/// chattr(1). A server open writes at any offset, which an append-only file refuses.
pub(crate) fn withheld_by_system(volume: &Volume, attributes: &Attributes) -> Access {
    let is_directory = attributes.kind == FileKind::Directory;
    // Devices and pipes can be written on a read-only mount.
    let is_stored = is_directory || attributes.kind == FileKind::File;
    let all = Access::WRITE_DATA | Access::APPEND_DATA | Access::WRITE_EA | Access::DELETE_CHILD;
    match attributes.protection {
        Protection::Immutable => all,
        Protection::AppendOnly if is_directory => Access::DELETE_CHILD | Access::WRITE_EA,
        Protection::AppendOnly => all,
        Protection::None if is_stored && volume.vfs.is_read_only() => all,
        Protection::None => Access::NONE,
    }
}

/// A caller with the elevation that one step of an operation needs, for calls on a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    identity: Identity,
    elevated: Option<ElevationReason>,
}

impl Authority {
    /// The caller with its own rights.
    pub(crate) fn of(caller: &Caller) -> Self {
        Self { identity: caller.identity.clone(), elevated: None }
    }

    fn beyond(caller: &Caller, elevated: ElevationReason) -> Self {
        Self { identity: caller.identity.clone(), elevated: Some(elevated) }
    }

    /// The actor of the backend call.
    pub(crate) fn actor(&self) -> Actor<'_> {
        match self.elevated {
            Some(elevated) => Actor::elevate(&self.identity, elevated),
            None => self.identity.actor(),
        }
    }
}

/// Authority to change attributes that POSIX reserves for the owner, after the descriptor has
/// granted it.
pub(crate) fn as_owner(caller: &Caller, attributes: &Attributes) -> Authority {
    match is_own(caller, attributes) {
        true => Authority::of(caller),
        false => Authority::beyond(caller, ElevationReason::Attributes),
    }
}

/// Authority to change DOS attributes and reparse data, after the right was checked. They are
/// extended attributes: POSIX requires the w bit to change and the r bit to merge them.
/// WRITE_ATTRIBUTES requires neither.
pub(crate) fn dos_authority(caller: &Caller, attributes: &Attributes) -> Authority {
    const OWNER_READS_AND_WRITES: u32 = 0o600;
    match attributes.mode & OWNER_READS_AND_WRITES {
        OWNER_READS_AND_WRITES => as_owner(caller, attributes),
        _ => Authority::beyond(caller, ElevationReason::Attributes),
    }
}

/// Whether the caller owns the file, or is root.
pub(crate) fn is_own(caller: &Caller, attributes: &Attributes) -> bool {
    caller.is_root() || caller.identity.uid == attributes.uid
}

/// Authority to change extended attributes and streams, after the right was checked. It exceeds
/// POSIX where a stored descriptor granted the right.
pub(crate) fn as_granted(caller: &Caller, node: &dyn Node) -> Authority {
    let is_stored = node.security_descriptor().is_ok_and(|stored| stored.is_some());
    match is_stored {
        true => Authority::beyond(caller, ElevationReason::StoredData),
        false => Authority::of(caller),
    }
}

/// The set-user-ID and set-group-ID bits.
pub(crate) const SET_IDS: u32 = 0o6000;

/// Permission bits for a request of `mode`. Only the owner may set or retain set-user-ID and
/// set-group-ID, whatever a stored ACL grants.
pub(crate) fn permitted_mode(caller: &Caller, present: &Attributes, mode: u32) -> u32 {
    if is_own(caller, present) { mode } else { mode & !SET_IDS }
}

/// Checks that a caller with WRITE_OWNER may set these owners. It may take the file for itself and
/// its own groups; only root may give it away. MS-FSA 2.1.5.17; POSIX chown.
///
/// # Errors
/// [`FsError::InvalidOwner`]; [`FsError::AccessDenied`] for a group that the caller is not in.
pub(crate) fn check_new_owner(
    caller: &Caller,
    present: &Attributes,
    owner: vfs::OwnerChange,
) -> Result<()> {
    let is_other = |new: Option<u32>, now| new.is_some_and(|id| id != now);
    if caller.is_root() {
        return Ok(());
    }
    if is_other(owner.uid, present.uid) && owner.uid != Some(caller.identity.uid) {
        return Err(FsError::InvalidOwner);
    }
    let is_member = owner.gid.is_some_and(|gid| caller.identity.in_group(gid));
    if is_other(owner.gid, present.gid) && !is_member {
        return Err(FsError::AccessDenied);
    }
    Ok(())
}

/// Whether POSIX certainly refuses that the caller removes a name from a directory with these
/// attributes. A POSIX ACL may refuse more, but grants nothing beyond: its mask is the mode's group
/// bits.
pub(crate) fn posix_forbids_removal(
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
