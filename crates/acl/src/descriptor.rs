//! Self-relative security descriptors. MS-DTYP 2.4.4 to 2.4.6.

use crate::{Access, Sid};
use std::borrow::Cow;

/// Control bits. MS-DTYP 2.4.6.
#[allow(missing_docs, reason = "the names are the specification's")]
pub mod control {
    pub const DACL_PRESENT: u16 = 0x0004;
    pub const SACL_PRESENT: u16 = 0x0010;
    pub const DACL_AUTO_INHERIT_REQ: u16 = 0x0100;
    pub const SACL_AUTO_INHERIT_REQ: u16 = 0x0200;
    pub const DACL_AUTO_INHERITED: u16 = 0x0400;
    pub const SACL_AUTO_INHERITED: u16 = 0x0800;
    pub const DACL_PROTECTED: u16 = 0x1000;
    pub const SACL_PROTECTED: u16 = 0x2000;
    pub const SELF_RELATIVE: u16 = 0x8000;
}

/// Entries of one ACL.
const ENTRIES_MAX: usize = 2048;
/// Size of one accepted descriptor in bytes.
const DESCRIPTOR_BYTES_MAX: usize = 64 * 1024;

/// The bytes are no security descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDescriptor;

/// Type of an ACE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AceKind {
    /// Grants rights.
    Allow,
    /// Denies rights.
    Deny,
    /// Any other type, with its body: stored unchanged, without effect on access.
    Other(u8, Vec<u8>),
}

/// One access control entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ace {
    /// See [`AceKind`].
    pub kind: AceKind,
    /// Inheritance flags; see the constants.
    pub flags: u8,
    /// Rights.
    pub access: Access,
    /// The trustee.
    pub sid: Sid,
}

#[allow(missing_docs, reason = "the names are the specification's")]
impl Ace {
    pub const OBJECT_INHERIT: u8 = 1;
    pub const CONTAINER_INHERIT: u8 = 2;
    pub const NO_PROPAGATE: u8 = 4;
    pub const INHERIT_ONLY: u8 = 8;
    pub const INHERITED: u8 = 16;
    /// Audit flags: successes and failures.
    pub const AUDITS: u8 = 0xC0;

    /// True and the trustee for a granting entry, false for a denying one; none without an effect.
    /// A conditional deny entry denies unconditionally, because conditions are not evaluated here.
    /// MS-DTYP 2.4.4.17.
    #[must_use]
    pub fn effect(&self) -> Option<(bool, Cow<'_, Sid>)> {
        const DENIED_CALLBACK: u8 = 10;
        match &self.kind {
            AceKind::Allow => Some((true, Cow::Borrowed(&self.sid))),
            AceKind::Deny => Some((false, Cow::Borrowed(&self.sid))),
            AceKind::Other(DENIED_CALLBACK, body) => Some((false, Cow::Owned(Sid::decode(body)?))),
            AceKind::Other(..) => None,
        }
    }

    /// True if the entry applies to the file itself, not only to its descendants.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        self.flags & Self::INHERIT_ONLY == 0
    }

    /// A granting entry for the file itself only.
    #[must_use]
    pub fn allow(sid: Sid, access: Access) -> Self {
        Self { kind: AceKind::Allow, flags: 0, access, sid }
    }
}

/// A security descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// See [`control`].
    pub control: u16,
    /// Owner.
    pub owner: Option<Sid>,
    /// Primary group.
    pub group: Option<Sid>,
    /// SACL.
    pub sacl: Option<Vec<Ace>>,
    /// DACL; `None` with [`control::DACL_PRESENT`] grants all access to everyone.
    pub dacl: Option<Vec<Ace>>,
}

impl Descriptor {
    /// Decodes a self-relative descriptor.
    ///
    /// # Errors
    /// [`InvalidDescriptor`] if a part exceeds the bytes or has an unknown form.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidDescriptor> {
        let head: &[u8; 20] = bytes.first_chunk().ok_or(InvalidDescriptor)?;
        if head[0] != 1 || bytes.len() > DESCRIPTOR_BYTES_MAX {
            return Err(InvalidDescriptor);
        }
        let control = u16::from_le_bytes([head[2], head[3]]);
        let offset = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        let sid = |at| match offset(at) {
            0 => Ok(None),
            start => bytes.get(start..).and_then(Sid::decode).map(Some).ok_or(InvalidDescriptor),
        };
        let list = |at, present| match offset(at) {
            start if start != 0 && control & present != 0 => {
                decode_list(bytes.get(start..).ok_or(InvalidDescriptor)?).map(Some)
            }
            _ => Ok(None),
        };
        Ok(Self {
            control,
            owner: sid(4)?,
            group: sid(8)?,
            sacl: list(12, control::SACL_PRESENT)?,
            dacl: list(16, control::DACL_PRESENT)?,
        })
    }

    /// Encodes the self-relative form: owner, group, SACL, DACL. Some clients read the parts
    /// sequentially, not by their offsets; Samba writes this order as well.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 20];
        out[0] = 1;
        out[2..4].copy_from_slice(&(self.control | control::SELF_RELATIVE).to_le_bytes());
        let mut place = |at: usize, part: Option<Vec<u8>>| {
            if let Some(part) = part {
                let offset = out.len() as u32;
                out[at..at + 4].copy_from_slice(&offset.to_le_bytes());
                out.extend_from_slice(&part);
            }
        };
        place(4, self.owner.as_ref().map(encode_sid));
        place(8, self.group.as_ref().map(encode_sid));
        place(12, self.sacl.as_deref().map(encode_list));
        place(16, self.dacl.as_deref().map(encode_list));
        out
    }

    /// The descriptor in its stored form: effective entries have file rights instead of generic
    /// ones. Inherit-only entries stay unchanged. MS-FSA 2.1.5.17.
    #[must_use]
    pub fn with_file_rights(mut self) -> Self {
        for ace in self.dacl.iter_mut().chain(&mut self.sacl).flatten() {
            if ace.is_in_force() {
                ace.access = ace.access.map_generic();
            }
        }
        self
    }

    /// Replaces owner and group by this machine's SIDs, if they are accounts of another machine or
    /// domain. The other server identified them with the same file owner.
    #[must_use]
    pub fn with_local_owner(mut self, uid: u32, gid: u32) -> Self {
        let known =
            [(self.owner.clone(), Sid::unix_user(uid)), (self.group.clone(), Sid::unix_group(gid))];
        for (theirs, ours) in known {
            let Some(theirs) = theirs.filter(Sid::is_domain_account) else { continue };
            let entries = self.dacl.iter_mut().flatten().map(|ace| &mut ace.sid);
            let all = entries.chain(&mut self.owner).chain(&mut self.group);
            all.filter(|sid| **sid == theirs).for_each(|sid| *sid = ours.clone());
        }
        self
    }

    /// True without a DACL, which grants all access to everyone.
    #[must_use]
    pub fn has_null_dacl(&self) -> bool {
        self.dacl.is_none()
    }
}

fn encode_sid(sid: &Sid) -> Vec<u8> {
    let mut out = Vec::new();
    sid.encode(&mut out);
    out
}

fn decode_list(bytes: &[u8]) -> Result<Vec<Ace>, InvalidDescriptor> {
    let head: &[u8; 8] = bytes.first_chunk().ok_or(InvalidDescriptor)?;
    let size = usize::from(u16::from_le_bytes([head[2], head[3]]));
    let count = usize::from(u16::from_le_bytes([head[4], head[5]]));
    let mut rest = bytes.get(8..size).ok_or(InvalidDescriptor)?;
    // Windows accepts every revision from 2 to 4, and smbcacls sends 3.
    if !(2..=4).contains(&head[0]) || count > ENTRIES_MAX {
        return Err(InvalidDescriptor);
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let entry: &[u8; 8] = rest.first_chunk().ok_or(InvalidDescriptor)?;
        let size = usize::from(u16::from_le_bytes([entry[2], entry[3]]));
        let body = rest.get(8..size).ok_or(InvalidDescriptor)?;
        let access = Access(u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]));
        entries.push(decode_entry(entry[0], entry[1], access, body)?);
        rest = &rest[size..];
    }
    Ok(entries)
}

fn decode_entry(
    kind: u8,
    flags: u8,
    access: Access,
    body: &[u8],
) -> Result<Ace, InvalidDescriptor> {
    let known = match kind {
        0 => AceKind::Allow,
        1 => AceKind::Deny,
        other => AceKind::Other(other, body.to_vec()),
    };
    let sid = match known {
        AceKind::Other(..) => Sid::new(0, &[]),
        _ => Sid::decode(body).ok_or(InvalidDescriptor)?,
    };
    Ok(Ace { kind: known, flags, access, sid })
}

fn encode_list(entries: &[Ace]) -> Vec<u8> {
    // Object-specific entries need revision 4. MS-DTYP 2.4.5.
    let of_objects = |a: &Ace| matches!(a.kind, AceKind::Other(5..=8 | 11 | 12 | 15 | 16, _));
    let revision = if entries.iter().any(of_objects) { 4 } else { 2 };
    let mut out = vec![revision, 0, 0, 0, 0, 0, 0, 0];
    for ace in entries {
        let (kind, body) = match &ace.kind {
            AceKind::Allow => (0, encode_sid(&ace.sid)),
            AceKind::Deny => (1, encode_sid(&ace.sid)),
            AceKind::Other(kind, body) => (*kind, body.clone()),
        };
        out.extend_from_slice(&[kind, ace.flags]);
        out.extend_from_slice(&((8 + body.len()) as u16).to_le_bytes());
        out.extend_from_slice(&ace.access.0.to_le_bytes());
        out.extend_from_slice(&body);
    }
    let size = (out.len() as u16).to_le_bytes();
    out[2..4].copy_from_slice(&size);
    out[4..6].copy_from_slice(&(entries.len() as u16).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Descriptor {
        Descriptor {
            control: control::SELF_RELATIVE | control::DACL_PRESENT,
            owner: Some(Sid::unix_user(1000)),
            group: Some(Sid::unix_group(1000)),
            sacl: None,
            dacl: Some(vec![
                Ace { kind: AceKind::Deny, flags: 3, access: Access::DELETE, sid: Sid::everyone() },
                Ace::allow(Sid::unix_user(1000), Access::FILE_ALL),
                Ace {
                    kind: AceKind::Other(5, vec![1; 20]),
                    flags: 0,
                    access: Access(7),
                    sid: Sid::new(0, &[]),
                },
            ]),
        }
    }

    #[test]
    fn descriptor_round_trips() {
        assert_eq!(Descriptor::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn owner_sid_of_another_server_is_the_same_owner() {
        let theirs = Sid::new(5, &[21, 1, 2, 3, 1000]);
        let ace = Ace::allow(theirs.clone(), Access::FILE_ALL);
        let of = |owner: &Sid| Descriptor {
            owner: Some(owner.clone()),
            dacl: Some(vec![ace.clone()]),
            ..sample()
        };
        let known = of(&theirs).with_local_owner(7, 8);
        assert_eq!(known.owner, Some(Sid::unix_user(7)));
        assert_eq!(known.dacl.unwrap()[0].sid, Sid::unix_user(7));
        let stranger = of(&Sid::unix_user(7)).with_local_owner(7, 8);
        assert_eq!(stranger.dacl.unwrap()[0].sid, theirs, "an unknown account");
        let everyone = of(&Sid::everyone()).with_local_owner(7, 8);
        assert_eq!(everyone.owner, Some(Sid::everyone()), "only accounts are renamed");
    }

    /// Offsets of owner, group, SACL and DACL.
    fn offsets(bytes: &[u8]) -> [usize; 4] {
        [4, 8, 12, 16].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize)
    }

    #[test]
    fn descriptor_parts_follow_the_order_of_their_offsets() {
        let bytes = Descriptor { sacl: Some(Vec::new()), ..sample() }.encode();
        let offsets = offsets(&bytes);
        assert_eq!(offsets[0], 20, "behind the header");
        assert!(offsets.is_sorted() && offsets[3] < bytes.len(), "{offsets:?}");
    }

    #[test]
    fn acl_revisions_that_windows_accepts_are_decoded() {
        let mut bytes = sample().encode();
        let [.., access] = offsets(&bytes);
        assert_eq!(bytes[access], 4, "it has an entry about an object");
        for (revision, is_taken) in [(1, false), (2, true), (3, true), (4, true), (5, false)] {
            bytes[access] = revision;
            assert_eq!(Descriptor::decode(&bytes).is_ok(), is_taken, "revision {revision}");
        }
    }

    proptest! {
        #[test]
        fn corrupted_descriptor_never_panics(at in 0usize..200, value: u8, cut in 0usize..200) {
            let mut bytes = sample().encode();
            let length = bytes.len();
            bytes[at % length] = value;
            bytes.truncate(length - cut % length);
            if let Ok(d) = Descriptor::decode(&bytes) {
                let _ = Descriptor::decode(&d.encode());
            }
        }
    }
}
