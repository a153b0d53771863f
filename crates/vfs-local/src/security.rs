//! Windows security descriptors, kept beside POSIX permissions.
//!
//! They are stored in Samba's `security.NTACL`, which only the superuser may
//! write. A process without that power keeps them in `user.anabranch.NTACL`,
//! and a process with it never looks there: local users could have made it.

use crate::errors::refusal;
use crate::identity::Acting;
use crate::node::LocalNode;
use crate::ntacl::{self, Counts};
use crate::posix_acl::{self, state_hash};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::sync::OnceLock;
use vfs::{
    Actor, AttributeChanges, Elevated, FsError, Node, OwnerChange, PosixAcl, Result,
    SecurityChange, ServerWork,
};

const TRUSTED: &str = "security.NTACL";
const OWN: &str = "user.anabranch.NTACL";

/// Where descriptors are kept.
pub fn name() -> &'static str {
    static NAME: OnceLock<&str> = OnceLock::new();
    NAME.get_or_init(|| if may_write_trusted() { TRUSTED } else { OWN })
}

/// Whether this process has CAP_SYS_ADMIN over file systems: not only within
/// a user namespace of its own.
fn may_write_trusted() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let status = read("/proc/thread-self/status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let map = read("/proc/self/uid_map");
    held & CAP_SYS_ADMIN != 0 && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The descriptor in force, if one is stored and the permissions are those
/// that it was stored beside.
pub fn load(node: &LocalNode) -> Result<Option<Vec<u8>>> {
    let value = match node.get_xattr(name()) {
        Ok(value) => value,
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => return Ok(None),
        Err(errno) => return Err(refusal("get descriptor", errno)),
    };
    let Some(stored) = ntacl::decode(&value) else { return Ok(None) };
    let counts = match stored.counts {
        Counts::Always => true,
        Counts::While(hash) => hash[..32] == state_hash(node)? && hash[32..] == [0; 32],
        Counts::Unknown => false,
    };
    Ok(counts.then_some(stored.descriptor))
}

/// Stores a descriptor, then owner and permissions. Which of them the actor may change was
/// decided before; each is changed with no more power than it takes.
///
/// The descriptor comes first, since there may be no room for it, and again
/// if it then stands beside others: killed in between, the file has its new
/// permissions and no descriptor that counts.
pub fn store(node: &LocalNode, who: Actor<'_>, change: &SecurityChange<'_>) -> Result<()> {
    let _telling = node.telling();
    let Some(descriptor) = change.descriptor else { return put(node, None) };
    let before = state_hash(node)?;
    put(node, Some((descriptor, &before)))?;
    if change.owner != OwnerChange::default() {
        let owner = change.owner;
        let changes = AttributeChanges { owner, ..AttributeChanges::default() };
        node.set_attributes(elevated(who, Elevated::TakeOwnership), &changes)?;
    }
    if let Some(permissions) = change.permissions {
        store_permissions(node, who, permissions)?;
    }
    let after = state_hash(node)?;
    if after == before { Ok(()) } else { put(node, Some((descriptor, &after))) }
}

/// The actor with a power of its own for this part of the change.
fn elevated(who: Actor<'_>, power: Elevated) -> Actor<'_> {
    who.user().map_or(who, |user| Actor::beyond(user, power))
}

/// Sets permissions. What runs as its owner or group is for the owner to share out: anybody else
/// takes the set-user-ID and set-group-ID bits of a file away.
fn store_permissions(node: &LocalNode, who: Actor<'_>, permissions: &PosixAcl) -> Result<()> {
    const SET_IDS: u32 = 0o6000;
    let stat = node.raw_stat()?;
    let mode = stat.st_mode & 0o7777;
    let is_own = who.user().is_none_or(|user| user.uid == 0 || user.uid == stat.st_uid);
    if !is_own && mode & SET_IDS != 0 {
        let changes = AttributeChanges { mode: Some(mode & !SET_IDS), ..Default::default() };
        node.set_attributes(elevated(who, Elevated::Attributes), &changes)?;
    }
    let _acting = Acting::begin(elevated(who, Elevated::Attributes))?;
    posix_acl::store(node, permissions)
}

fn put(node: &LocalNode, value: Option<(&[u8], &[u8; 32])>) -> Result<()> {
    let encoded = value.and_then(|(descriptor, hash)| ntacl::encode(descriptor, hash));
    if value.is_some() && encoded.is_none() {
        return Err(FsError::InvalidParameter);
    }
    let _acting = Acting::server(ServerWork::Metadata)?;
    match node.put_xattr(name(), encoded.as_deref(), XattrFlags::empty()) {
        Ok(()) => Ok(()),
        Err(Errno::NODATA) if value.is_none() => Ok(()),
        Err(Errno::PERM | Errno::OPNOTSUPP) => Err(FsError::NotSupported),
        Err(Errno::RANGE | Errno::TOOBIG) => Err(FsError::NoSpace),
        Err(errno) => Err(refusal("set descriptor", errno)),
    }
}
