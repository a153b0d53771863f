//! POSIX access control lists in the kernel's form, and Samba's hash of a file's permissions.
//! acl(5); linux/posix_acl_xattr.h.

use crate::errors::refusal;
use crate::group_mark::note_mode;
use crate::local_node::LocalNode;
use crate::ntacl::StateHash;
use aws_lc_rs::digest;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use vfs::{FileKind, Node, OwnerChange, PosixAcl, PosixName, Result};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const VERSION: u32 = 2;
/// The id field of entries without an id.
const NO_ID: u32 = u32::MAX;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PosixAclEntry {
    tag: u16,
    bits: u16,
    id: u32,
}

/// Loads the ACL; `None` if the mode expresses all permissions.
pub fn load(node: &LocalNode) -> Result<Option<PosixAcl>> {
    Ok(entries(node, ACCESS)?.map(|entries| list_of(&entries)))
}

/// Stores the ACL. If the file system has no ACLs or no room, stores a mode that grants nobody
/// more.
pub fn store(node: &LocalNode, list: &PosixAcl) -> Result<()> {
    let value = encode(&entries_of(list));
    match node.put_xattr(ACCESS, Some(&value), XattrFlags::empty()) {
        Ok(()) => return Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::DQUOT | Errno::INVAL) => {}
        Err(errno) => return Err(refusal("set permissions", errno)),
    }
    store_mode(node, list.mode_without_names())
}

/// Replaces an ACL that has named entries with a mode that grants nobody more.
pub fn drop_names(node: &LocalNode) -> Result<()> {
    match load(node)? {
        Some(list) => store_mode(node, list.mode_without_names()),
        None => Ok(()),
    }
}

/// Replaces an ACL with a mode. The mode is set first: it acts as the mask, so that named entries
/// lose all permissions beyond it.
fn store_mode(node: &LocalNode, mode: u32) -> Result<()> {
    let present = node.raw_stat()?.st_mode & 0o7000;
    let mode = rustix::fs::Mode::from_raw_mode(present | mode);
    let path = node.proc_path();
    rustix::fs::chmodat(rustix::fs::CWD, path, mode, rustix::fs::AtFlags::empty())
        .map_err(|e| refusal("chmod", e))?;
    note_mode(mode);
    match node.put_xattr(ACCESS, None, XattrFlags::empty()) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(refusal("remove permissions", errno)),
    }
}

/// Restores the access ACL of a state, and the permission bits that follow from it. The caller must
/// have set credentials that permit the change.
pub fn restore_list(node: &LocalNode, state: &PermissionState) -> Result<()> {
    match &state.access {
        Some(entries) => node
            .put_xattr(ACCESS, Some(&encode(entries)), XattrFlags::empty())
            .map_err(|e| refusal("put permissions back", e)),
        None => store_mode(node, state.mode & 0o777),
    }
}

/// The complete POSIX permissions of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionState {
    pub uid: u32,
    pub gid: u32,
    /// Mode, including the file type.
    pub mode: u32,
    /// Access ACL; `None` if the mode expresses all permissions.
    access: Option<Vec<PosixAclEntry>>,
    /// Default ACL of a directory.
    default: Option<Vec<PosixAclEntry>>,
    /// True if the node has a name.
    pub is_linked: bool,
}

impl PermissionState {
    /// Reads the permissions of a node.
    pub fn of(node: &LocalNode) -> Result<Self> {
        let stat = node.raw_stat()?;
        let default = match node.kind() {
            FileKind::Directory => Some(entries(node, DEFAULT)?.unwrap_or_default()),
            _ => None,
        };
        Ok(Self {
            uid: stat.st_uid,
            gid: stat.st_gid,
            mode: stat.st_mode,
            access: entries(node, ACCESS)?,
            default,
            is_linked: stat.st_nlink > 0,
        })
    }

    /// The permissions after a change of the owner.
    #[must_use]
    pub fn with_owner(self, owner: OwnerChange) -> Self {
        Self { uid: owner.uid.unwrap_or(self.uid), gid: owner.gid.unwrap_or(self.gid), ..self }
    }

    /// The permissions after chmod(2), which sets the mask of an ACL instead of its group entry.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Self {
        self.mode = self.mode & !0o7777 | mode & 0o7777;
        let entries = self.access.iter_mut().flatten();
        for entry in entries {
            match entry.tag {
                USER_OBJ => entry.bits = (mode >> 6 & 7) as u16,
                MASK => entry.bits = (mode >> 3 & 7) as u16,
                OTHER => entry.bits = (mode & 7) as u16,
                _ => {}
            }
        }
        self
    }

    /// The permissions after the first half of chmod(2) on a file with an ACL: the ACL is
    /// unchanged.
    #[must_use]
    pub fn with_bare_mode(self, mode: u32) -> Self {
        Self { mode: self.mode & !0o7777 | mode & 0o7777, ..self }
    }

    /// The permissions on XFS after the first half of a change of the ACL: the mode is unchanged.
    #[must_use]
    pub fn with_bare_list(self, list: &PosixAcl) -> Self {
        let mode = self.mode;
        Self { mode, ..self.with_list(list) }
    }

    /// The permissions after the ACL of another state is restored with its permission bits, and the
    /// states that [`restore_list`] passes through.
    #[must_use]
    pub fn with_list_of(self, other: &Self) -> (Self, [Self; 2]) {
        let mode = self.mode & !0o777 | other.mode & 0o777;
        let bare_mode = self.clone().with_bare_mode(mode);
        let access = other.access.clone();
        let second = match &access {
            Some(_) => Self { access: access.clone(), ..self.clone() },
            None => self.clone().with_mode(mode),
        };
        (Self { mode, access, ..self }, [bare_mode, second])
    }

    /// The permissions during and after [`store_mode`], which stores an ACL without its names.
    pub fn without_names(&self, list: &PosixAcl) -> [Self; 3] {
        let bits = list.mode_without_names();
        let mode = self.mode & !0o777 | bits;
        let stored = self.clone().with_list(&PosixAcl::of_mode(bits));
        [self.clone().with_bare_mode(mode), self.clone().with_mode(mode), stored]
    }

    /// True if these permissions are `self`, or follow from it by [`drop_names`], whatever became
    /// of set-user-ID and set-group-ID.
    pub fn may_have_dropped_names(&self, now: &Self) -> bool {
        let plain = |state: &Self| state.clone().with_bare_mode(state.mode & 0o1777).hash();
        let dropped = self.access.as_deref().map(|list| self.without_names(&list_of(list)));
        let mut states = dropped.iter().flatten().chain([self]);
        states.any(|state| plain(state) == plain(now))
    }

    /// True if a mode replaces an ACL. XFS removes the ACL before it sets the mode, so the mask
    /// temporarily becomes the group's permissions.
    #[must_use]
    pub fn may_lose_list_before_mode(&self, next: &PosixAcl) -> bool {
        self.access.is_some() && is_mode(next)
    }

    /// The permissions after a change of the ACL. An ACL that is equivalent to a mode is stored as
    /// one.
    #[must_use]
    pub fn with_list(self, list: &PosixAcl) -> Self {
        let group = list.mask.unwrap_or(list.group);
        let bits = (list.owner & 7) << 6 | (group & 7) << 3 | list.others & 7;
        let access = if is_mode(list) { None } else { Some(entries_of(list)) };
        Self { mode: self.mode & !0o777 | bits, access, ..self }
    }

    /// See [`acl::narrowed_mode`].
    pub fn narrowed_to(&self, next: &PosixAcl) -> u32 {
        let list = self.access.as_deref().map(list_of);
        acl::narrowed_mode(self.mode, list.as_ref(), next)
    }

    fn entries_of_mode(&self) -> Vec<PosixAclEntry> {
        entries_of(&PosixAcl::of_mode(self.mode))
    }

    /// SHA-256 of the form that Samba hashes: NDR of its `smb_acl_wrapper`, in which files have no
    /// default ACL and directories always have one.
    pub fn hash(&self) -> StateHash {
        let of_mode = self.entries_of_mode();
        let access = self.access.as_deref().unwrap_or(&of_mode);
        let bytes = wrapper(access, self.default.as_deref(), (self.uid, self.gid, self.mode));
        let mut hash = StateHash::default();
        hash.copy_from_slice(digest::digest(&digest::SHA256, &bytes).as_ref());
        hash
    }
}

/// True if an ACL is equivalent to a mode.
fn is_mode(list: &PosixAcl) -> bool {
    list.named.is_empty() && list.mask.is_none()
}

fn entries(node: &LocalNode, name: &str) -> Result<Option<Vec<PosixAclEntry>>> {
    match node.get_xattr(name) {
        Ok(value) => Ok(decode(&value)),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(None),
        Err(errno) => Err(refusal("get permissions", errno)),
    }
}

fn decode(bytes: &[u8]) -> Option<Vec<PosixAclEntry>> {
    let (version, rest) = bytes.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || rest.len() % 8 != 0 {
        return None;
    }
    let entry = |c: &[u8]| PosixAclEntry {
        tag: u16::from_le_bytes([c[0], c[1]]),
        bits: u16::from_le_bytes([c[2], c[3]]),
        id: u32::from_le_bytes([c[4], c[5], c[6], c[7]]),
    };
    Some(rest.chunks_exact(8).map(entry).collect())
}

fn encode(entries: &[PosixAclEntry]) -> Vec<u8> {
    let mut out = VERSION.to_le_bytes().to_vec();
    for entry in entries {
        out.extend_from_slice(&entry.tag.to_le_bytes());
        out.extend_from_slice(&entry.bits.to_le_bytes());
        out.extend_from_slice(&entry.id.to_le_bytes());
    }
    out
}

fn list_of(entries: &[PosixAclEntry]) -> PosixAcl {
    let mut list = PosixAcl::default();
    for entry in entries {
        let bits = u32::from(entry.bits) & 7;
        match entry.tag {
            USER_OBJ => list.owner = bits,
            GROUP_OBJ => list.group = bits,
            OTHER => list.others = bits,
            MASK => list.mask = Some(bits),
            USER => list.named.push((PosixName::User(entry.id), bits)),
            GROUP => list.named.push((PosixName::Group(entry.id), bits)),
            _ => {}
        }
    }
    list
}

fn entries_of(list: &PosixAcl) -> Vec<PosixAclEntry> {
    let entry = |tag, bits: u32, id| PosixAclEntry { tag, bits: (bits & 7) as u16, id };
    let mut named: Vec<_> = list.named.clone();
    named.sort_unstable();
    let of = |named: &[(PosixName, u32)], wanted: u16| -> Vec<PosixAclEntry> {
        let tagged = named.iter().map(|(name, bits)| match name {
            PosixName::User(uid) => entry(USER, *bits, *uid),
            PosixName::Group(gid) => entry(GROUP, *bits, *gid),
        });
        tagged.filter(|e| e.tag == wanted).collect()
    };
    let mut entries = vec![entry(USER_OBJ, list.owner, NO_ID)];
    entries.extend(of(&named, USER));
    entries.push(entry(GROUP_OBJ, list.group, NO_ID));
    entries.extend(of(&named, GROUP));
    entries.extend(list.mask.map(|bits| entry(MASK, bits, NO_ID)));
    entries.push(entry(OTHER, list.others, NO_ID));
    entries
}

/// Samba's `smb_acl_wrapper` in NDR: two pointers, owner and group (64 bits each), mode, then the
/// lists.
fn wrapper(
    access: &[PosixAclEntry],
    default: Option<&[PosixAclEntry]>,
    facts: (u32, u32, u32),
) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&0x0002_0000u32.to_le_bytes());
    out.extend_from_slice(&if default.is_some() { 0x0002_0004u32 } else { 0 }.to_le_bytes());
    out.extend_from_slice(&u64::from(facts.0).to_le_bytes());
    out.extend_from_slice(&u64::from(facts.1).to_le_bytes());
    out.extend_from_slice(&facts.2.to_le_bytes());
    put_list(&mut out, access);
    if let Some(default) = default {
        put_list(&mut out, default);
    }
    out
}

fn put_list(out: &mut Vec<u8>, entries: &[PosixAclEntry]) {
    let count = (entries.len() as u32).to_le_bytes();
    align(out, 4);
    out.extend_from_slice(&count);
    align(out, 8);
    out.extend_from_slice(&count);
    // The cursor, which is unused.
    out.extend_from_slice(&[0; 4]);
    for entry in entries {
        align(out, 8);
        let tag = samba_tag(entry.tag).to_le_bytes();
        // Twice: the field, and the discriminant of the union that follows.
        out.extend_from_slice(&tag);
        out.extend_from_slice(&tag);
        if entry.tag == USER || entry.tag == GROUP {
            align(out, 8);
            out.extend_from_slice(&u64::from(entry.id).to_le_bytes());
        }
        align(out, 4);
        out.extend_from_slice(&u32::from(entry.bits).to_le_bytes());
    }
}

fn samba_tag(tag: u16) -> u16 {
    match tag {
        USER => 1,
        USER_OBJ => 2,
        GROUP => 3,
        GROUP_OBJ => 4,
        OTHER => 5,
        MASK => 6,
        _ => 0,
    }
}

fn align(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> PosixAcl {
        let named = vec![(PosixName::User(1001), 7), (PosixName::Group(1001), 5)];
        PosixAcl { owner: 7, group: 5, others: 5, mask: Some(7), named }
    }

    fn hash(bytes: &[u8]) -> String {
        let digest = digest::digest(&digest::SHA256, bytes);
        digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn posix_acl_has_the_kernel_encoding() {
        let bytes = encode(&entries_of(&list()));
        assert_eq!(bytes[..12], [2, 0, 0, 0, 1, 0, 7, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(bytes.len(), 4 + 6 * 8);
        assert_eq!(list_of(&decode(&bytes).unwrap()), list());
        for length in 0..bytes.len() {
            let _ = decode(&bytes[..length]);
        }
    }

    /// Samba stored these hashes for files with these permissions.
    #[test]
    fn permission_hash_equals_sambas() {
        let entries = entries_of(&list());
        let file = wrapper(&entries, None, (1001, 1001, 0o100_775));
        assert_eq!(hash(&file), "b97d1cf7c759bfea8efdca1ff760f411a2249f571fdc9509f23724b25a631392");
        let directory = wrapper(&entries, Some(&entries), (1001, 1001, 0o40_775));
        assert_eq!(
            hash(&directory),
            "a0128344665c815f99d0e7ccae68b7d5ff6b4288a23c4bc8b18214cf7380d78d"
        );
    }
}
