//! What a caller may do to a node: decided here, for both protocols and every operation.
//!
//! Where a descriptor is stored it decides alone; where it grants what POSIX refuses, the
//! backend is asked with a power that is named ([`vfs::Elevated`]). Where none is stored the first
//! class of the POSIX permissions that is about the caller decides: see
//! [`acl::PosixAcl::access`]. A descriptor that shows permissions is never added up.

use crate::volume::dos;
use crate::{Caller, OpenFile, RequestFiles, Volume};
use acl::{Access, Descriptor, ExecuteRule, OwnerGroup, PosixAcl, PosixFacts};
use vfs::{
    Actor, Attributes, Elevated, FileKind, FsError, Identity, KnownSecurity, Node, Opened,
    Protection, Result, Wanted,
};

/// What decides about a node.
pub(crate) enum InForce {
    /// The stored descriptor, alone.
    Stored(Descriptor),
    /// POSIX permissions.
    Posix(PosixFacts, PosixAcl),
}

impl InForce {
    pub(crate) fn of(node: &dyn Node, attributes: &Attributes) -> Self {
        Self::known(node, attributes, None)
    }

    /// The same for a node of which this is known beside, from when it was opened.
    pub(crate) fn known(
        node: &dyn Node,
        attributes: &Attributes,
        security: Option<&KnownSecurity>,
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
            return Self::Stored(descriptor.with_names_of(attributes.uid, attributes.gid));
        }
        Self::posix(node, attributes, security)
    }

    /// What POSIX permissions grant, whatever descriptor is stored.
    fn posix(node: &dyn Node, attributes: &Attributes, security: Option<&KnownSecurity>) -> Self {
        let list = posix_list(node, attributes, security);
        Self::Posix(facts(attributes), list)
    }

    /// Whether a stored descriptor decides.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self, Self::Stored(_))
    }

    /// All that it grants the caller, who is not the superuser.
    fn access(&self, caller: &Caller, execute: ExecuteRule) -> Access {
        let who = &caller.identity;
        match self {
            Self::Stored(descriptor) => acl::maximal_access(descriptor, &caller.token),
            Self::Posix(facts, list) => {
                let groups: Vec<u32> = who.groups.iter().copied().chain([who.gid]).collect();
                let access = list.access(facts, (who.uid, &groups), execute);
                let access = access - withheld_in_sticky(facts, who.uid, execute);
                access | acl::privileges(&caller.token)
            }
        }
    }

    /// As [`rights_to`] by [`ExecuteRule::WithRead`].
    pub(crate) fn rights(&self, volume: &Volume, caller: &Caller) -> Access {
        allowed_by(volume, caller, || self.access(caller, ExecuteRule::WithRead))
    }

    /// Whether it is stored and grants one of these rights.
    fn lets(&self, volume: &Volume, caller: &Caller, access: Access) -> bool {
        self.is_stored() && self.rights(volume, caller).intersects(access)
    }
}

/// The POSIX permissions of a node. The mode has the mask of an access list where the group's bits
/// are, and where those are empty Linux looks at the mode alone (`acl_permission_check` in
/// fs/namei.c).
fn posix_list(
    node: &dyn Node,
    attributes: &Attributes,
    security: Option<&KnownSecurity>,
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
        // A list that cannot be read grants nobody but the owner anything.
        Err(_) => PosixAcl { group: 0, others: 0, ..of_mode },
    }
}

/// What a sticky directory keeps from all but its owner beside others' names: its extended
/// attributes (`xattr_permission` in fs/xattr.c). SMB shows the right all the same, since generic
/// ones contain it.
fn withheld_in_sticky(facts: &PosixFacts, uid: u32, execute: ExecuteRule) -> Access {
    const STICKY: u32 = 0o1000;
    let is_sticky = facts.is_directory && facts.mode & STICKY != 0;
    match execute {
        ExecuteRule::ByBit if is_sticky && uid != facts.uid => Access::WRITE_EA,
        _ => Access::NONE,
    }
}

/// A node, its attributes, and what is known of its security from when it was opened.
pub(crate) type Subject<'a> = (&'a dyn Node, &'a Attributes, Option<&'a KnownSecurity>);

/// All that `caller` may do to a node, within what the volume lets anybody do. Deleting may
/// also be the parent's to grant: see [`crate::RequestFiles::open`].
///
/// By [`ExecuteRule::ByBit`] the right to execute a directory is search permission, on which the
/// kernel decides: a stored descriptor decides on all but the way through ([`acl::to_posix`]).
///
/// The superuser needs no grant, but executes a file by [`ExecuteRule::ByBit`] only if
/// somebody may: the kernel's CAP_DAC_OVERRIDE asks for one x bit.
pub(crate) fn rights_to(
    volume: &Volume,
    caller: &Caller,
    (node, attributes, security): Subject<'_>,
    execute: ExecuteRule,
) -> Access {
    let is_directory = attributes.kind == FileKind::Directory;
    let by_node = || {
        let in_force = InForce::known(node, attributes, security);
        let access = in_force.access(caller, execute);
        match execute {
            ExecuteRule::ByBit if is_directory && in_force.is_stored() => {
                let by_posix = InForce::posix(node, attributes, security);
                // Who removes a name looks it up.
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

/// The same of what was opened, by [`ExecuteRule::WithRead`].
pub(crate) fn rights_to_opened(volume: &Volume, caller: &Caller, opened: &Opened) -> Access {
    let subject = (&*opened.node, &opened.attributes, None);
    rights_to(volume, caller, subject, ExecuteRule::WithRead)
}

impl RequestFiles {
    /// Whether a request of `caller` may read or write by an open that may be somebody else's:
    /// clients of NFS send one user's state ids with another's credentials. RFC 8881 18.22.3,
    /// 18.32.3.
    ///
    /// An open is good for who opened it, whatever has become of the permissions, as for a
    /// local process. Anybody else needs them now; the owner of a file without a stored
    /// descriptor has them, as by knfsd's NFSD_MAY_OWNER_OVERRIDE. Who may execute a file may
    /// read it.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`]; those of the backend.
    pub fn authorize_by_open(
        &self,
        open: &OpenFile,
        caller: &Caller,
        access: Access,
    ) -> Result<()> {
        let needed = access & (Access::READ_DATA | Access::WRITE_DATA);
        if needed.is_empty() || caller.identity == open.caller.identity {
            return Ok(());
        }
        let attributes = open.node.attributes(Wanted::default())?;
        let in_force = InForce::of(&*open.node, &attributes);
        if caller.identity.uid == attributes.uid && !in_force.is_stored() {
            return Ok(());
        }
        let by_node = || in_force.access(caller, ExecuteRule::ByBit);
        let mut rights = allowed_by(open.volume(), caller, by_node);
        if rights.contains(Access::EXECUTE) {
            rights |= Access::READ_DATA;
        }
        if rights.contains(needed) { Ok(()) } else { Err(FsError::AccessDenied) }
    }
}

/// The same of a node without a stored descriptor or an access list, by its attributes alone.
pub(crate) fn rights_by_mode(volume: &Volume, caller: &Caller, attributes: &Attributes) -> Access {
    let list = PosixAcl::of_mode(attributes.mode);
    InForce::Posix(facts(attributes), list).rights(volume, caller)
}

/// The descriptor in force for a node, to show and to change.
pub(crate) fn shown(node: &dyn Node, attributes: &Attributes) -> Descriptor {
    stored(node).unwrap_or_else(|| synthesised(node, attributes))
}

/// The stored descriptor, if there is one that counts.
pub(crate) fn stored(node: &dyn Node) -> Option<Descriptor> {
    let bytes = node.security_descriptor().ok().flatten()?;
    Descriptor::decode(&bytes).ok()
}

/// All that a stored descriptor grants the caller; none where permissions decide, which costs one
/// look at the node.
///
/// # Errors
/// [`FsError::Io`].
pub(crate) fn rights_by_descriptor(
    volume: &Volume,
    caller: &Caller,
    node: &dyn Node,
) -> Result<Option<Access>> {
    let Some(descriptor) = stored(node) else { return Ok(None) };
    let Attributes { uid, gid, .. } = node.attributes(Wanted::default())?;
    Ok(Some(allowed(volume, caller, &descriptor.with_names_of(uid, gid))))
}

/// The descriptor that shows POSIX permissions.
fn synthesised(node: &dyn Node, attributes: &Attributes) -> Descriptor {
    let has_list = attributes.stored.posix_acl;
    let list = if has_list { node.posix_acl().ok().flatten() } else { None };
    acl::from_posix(&facts(attributes), list.as_ref())
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

/// Whether the owner is in the owning group, as far as the caller is the owner.
pub(crate) fn owner_group(caller: &Caller, facts: &PosixFacts) -> OwnerGroup {
    let identity = &caller.identity;
    match identity.uid == facts.uid && identity.in_group(facts.gid) {
        true => OwnerGroup::Member,
        false => OwnerGroup::Unknown,
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

/// All that `caller` may do to a node with this descriptor, which is stored, or is about to be.
pub(crate) fn allowed(volume: &Volume, caller: &Caller, descriptor: &Descriptor) -> Access {
    allowed_by(volume, caller, || acl::maximal_access(descriptor, &caller.token))
}

/// The same, where what decides has to be found first: the superuser needs nothing.
pub(crate) fn allowed_by(
    volume: &Volume,
    caller: &Caller,
    by_node: impl FnOnce() -> Access,
) -> Access {
    let rights =
        if caller.is_root() { Access::FILE_ALL | Access::SYSTEM_SECURITY } else { by_node() };
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

/// Rights that the DOS attribute "read-only" keeps from everybody, the superuser included, once
/// a file is there: opening it for writing. MS-FSA 2.1.5.1.2.
pub(crate) fn withheld_by_readonly(attributes: &Attributes) -> Access {
    let is_readonly = attributes.dos.bits.unwrap_or(0) & dos::READONLY != 0;
    match attributes.kind {
        FileKind::Directory => Access::NONE,
        _ if is_readonly => Access::WRITE_DATA | Access::APPEND_DATA,
        _ => Access::NONE,
    }
}

/// Rights that a flag of the node in its file system, or the mount, keeps from everybody, the superuser
/// included. chattr(1). Files are opened for writing anywhere, which an append-only one is not.
pub(crate) fn withheld_by_system(volume: &Volume, attributes: &Attributes) -> Access {
    let is_directory = attributes.kind == FileKind::Directory;
    // Devices and pipes are written wherever their names are.
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

/// A caller together with the power that one part of an operation takes, for calls on a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    identity: Identity,
    elevated: Option<Elevated>,
}

impl Authority {
    /// The caller's own rights.
    pub(crate) fn of(caller: &Caller) -> Self {
        Self { identity: caller.identity.clone(), elevated: None }
    }

    fn beyond(caller: &Caller, elevated: Elevated) -> Self {
        Self { identity: caller.identity.clone(), elevated: Some(elevated) }
    }

    /// Who makes the backend call.
    pub(crate) fn actor(&self) -> Actor<'_> {
        match self.elevated {
            Some(elevated) => Actor::beyond(&self.identity, elevated),
            None => self.identity.actor(),
        }
    }
}

/// With which power attributes are changed that POSIX reserves for the owner, once the
/// descriptor has decided that the caller may.
pub(crate) fn as_owner(caller: &Caller, attributes: &Attributes) -> Authority {
    match is_own(caller, attributes) {
        true => Authority::of(caller),
        false => Authority::beyond(caller, Elevated::Attributes),
    }
}

/// With which power DOS attributes and reparse data are changed, once the right to was checked:
/// they are extended attributes, which POSIX lets the owner change by the w bit and merge with
/// what is stored by the r bit, and WRITE_ATTRIBUTES asks for neither.
pub(crate) fn dos_authority(caller: &Caller, attributes: &Attributes) -> Authority {
    const OWNER_READS_AND_WRITES: u32 = 0o600;
    match attributes.mode & OWNER_READS_AND_WRITES {
        OWNER_READS_AND_WRITES => as_owner(caller, attributes),
        _ => Authority::beyond(caller, Elevated::Attributes),
    }
}

/// Whether the caller is the file's owner, or the superuser, who may what owners may.
pub(crate) fn is_own(caller: &Caller, attributes: &Attributes) -> bool {
    caller.is_root() || caller.identity.uid == attributes.uid
}

/// With which power extended attributes and streams are changed, once the rights to were
/// checked: beyond POSIX where a stored descriptor gave them and POSIX may not.
pub(crate) fn as_granted(caller: &Caller, node: &dyn Node) -> Authority {
    let is_stored = node.security_descriptor().is_ok_and(|stored| stored.is_some());
    match is_stored {
        true => Authority::beyond(caller, Elevated::StoredData),
        false => Authority::of(caller),
    }
}

/// The bits that have a program run as its owner or group.
pub(crate) const SET_IDS: u32 = 0o6000;

/// The permission bits that the caller gives a file by asking for `mode`: set-user-ID and
/// set-group-ID bits are the owner's to give and to keep, whatever a stored list grants.
pub(crate) fn mode_by(caller: &Caller, present: &Attributes, mode: u32) -> u32 {
    if is_own(caller, present) { mode } else { mode & !SET_IDS }
}

/// Whether the caller, who was granted to change owners, may have these: a file is taken for
/// oneself and one's own groups, and given to nobody else, but by the superuser.
/// MS-FSA 2.1.5.17; POSIX chown.
///
/// # Errors
/// [`FsError::InvalidOwner`]; [`FsError::AccessDenied`] for a foreign group.
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
