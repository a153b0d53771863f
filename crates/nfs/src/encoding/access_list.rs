//! NFSv4 access lists on the wire: the attributes acl and dacl. RFC 8881 6.2.
//!
//! The bits of rights and inheritance equal those of security descriptors, except the inherited
//! bit. A principal without a uid or gid is encoded as its SID. So a client sees the whole list
//! that Windows wrote, and can set it again unchanged.

use crate::encoding::owner::{decimal, number_of};
use files::{Access, Ace as Entry, NAMED_ACES_MAX, NamedAce, NamedList, NamedWho, Sid};
use wire::nfs::NfsStatus;
use wire::nfs::acl::{AceFlags, AceMask, AceType, AclFlags, NfsAce, support, who};
use wire::nfs::xdr::XdrWriter;

/// Supported entry types: the attribute aclsupport.
pub const SUPPORT: u32 = support::ALLOW | support::DENY;

/// Inheritance flags with the same value in both forms.
const HANDED_DOWN: u8 =
    Entry::OBJECT_INHERIT | Entry::CONTAINER_INHERIT | Entry::NO_PROPAGATE | Entry::INHERIT_ONLY;

/// Encodes a list as the attribute acl, which has no inherited flag. RFC 8881 6.2.1.4.1.
pub fn put_acl(w: &mut XdrWriter<'_>, list: &NamedList) {
    w.u32(list.entries.len() as u32);
    list.entries.iter().for_each(|entry| put_entry(w, entry, HANDED_DOWN));
}

/// Encodes a list as the attribute dacl.
pub fn put_dacl(w: &mut XdrWriter<'_>, list: &NamedList) {
    let when = |is, flag| if is { flag } else { AclFlags(0) };
    w.put(
        &(when(list.is_inherited, AclFlags::AUTO_INHERIT)
            | when(list.is_protected, AclFlags::PROTECTED)),
    );
    w.u32(list.entries.len() as u32);
    list.entries.iter().for_each(|entry| put_entry(w, entry, HANDED_DOWN | Entry::INHERITED));
}

fn put_entry(w: &mut XdrWriter<'_>, entry: &NamedAce, shown: u8) {
    let mut flags = AceFlags(u32::from(entry.flags & shown & HANDED_DOWN));
    if entry.flags & shown & Entry::INHERITED != 0 {
        flags |= AceFlags::INHERITED;
    }
    let ace_type = if entry.allows { AceType::Allow } else { AceType::Deny };
    let (digits, text);
    let who = match &entry.who {
        NamedWho::Owner => who::OWNER,
        NamedWho::Group => {
            flags |= AceFlags::IDENTIFIER_GROUP;
            who::GROUP
        }
        NamedWho::Everyone => who::EVERYONE,
        NamedWho::User(uid) => {
            digits = decimal(*uid);
            &digits.0[digits.1..]
        }
        NamedWho::Members(gid) => {
            flags |= AceFlags::IDENTIFIER_GROUP;
            digits = decimal(*gid);
            &digits.0[digits.1..]
        }
        NamedWho::Other(sid) if *sid == Sid::authenticated_users() => who::AUTHENTICATED,
        NamedWho::Other(sid) if *sid == Sid::anonymous() => who::ANONYMOUS,
        NamedWho::Other(sid) => {
            text = sid.to_string();
            text.as_bytes()
        }
    };
    let mask = AceMask((entry.access.map_generic() & Access::FILE_ALL).0);
    w.put(&NfsAce { ace_type, flags, mask, who });
}

/// Decodes a list that a client sets. With `has_inherited_flags` it may mark entries as inherited.
///
/// # Errors
/// ATTRNOTSUPP for entry types without effect here (RFC 8881 6.2.1.2) and for too many entries;
/// BADOWNER for an unknown principal.
pub fn entries_of(
    entries: &[NfsAce<'_>],
    has_inherited_flags: bool,
) -> Result<Vec<NamedAce>, NfsStatus> {
    if entries.len() > NAMED_ACES_MAX {
        return Err(NfsStatus::ATTRNOTSUPP);
    }
    entries.iter().map(|entry| entry_of(entry, has_inherited_flags)).collect()
}

fn entry_of(entry: &NfsAce<'_>, has_inherited_flags: bool) -> Result<NamedAce, NfsStatus> {
    let allows = match entry.ace_type {
        AceType::Allow => true,
        AceType::Deny => false,
        AceType::Audit | AceType::Alarm => return Err(NfsStatus::ATTRNOTSUPP),
    };
    let mut flags = (entry.flags.0 & u32::from(HANDED_DOWN)) as u8;
    if has_inherited_flags && entry.flags.contains(AceFlags::INHERITED) {
        flags |= Entry::INHERITED;
    }
    // Without OBJECT_INHERIT or CONTAINER_INHERIT the other flags have no effect.
    if flags & (Entry::OBJECT_INHERIT | Entry::CONTAINER_INHERIT) == 0 {
        flags &= Entry::INHERITED;
    }
    let who = who_of(entry.who, entry.flags.contains(AceFlags::IDENTIFIER_GROUP))?;
    // The server has no retention, so these rights have no effect.
    let access = Access(entry.mask.0) & Access::FILE_ALL;
    Ok(NamedAce { allows, flags, access, who })
}

/// Well-known names without a domain determine by themselves whether they are groups.
fn who_of(name: &[u8], is_group: bool) -> Result<NamedWho, NfsStatus> {
    Ok(match name {
        who::OWNER => NamedWho::Owner,
        who::GROUP => NamedWho::Group,
        who::EVERYONE => NamedWho::Everyone,
        who::AUTHENTICATED => NamedWho::Other(Sid::authenticated_users()),
        who::ANONYMOUS => NamedWho::Other(Sid::anonymous()),
        name if name.starts_with(b"S-") => {
            let sid = std::str::from_utf8(name).ok().and_then(Sid::from_text);
            let sid = sid.ok_or(NfsStatus::BADOWNER)?;
            match (sid.as_unix_user(), sid.as_unix_group()) {
                (Some(uid), _) => NamedWho::User(uid),
                (_, Some(gid)) => NamedWho::Members(gid),
                _ => NamedWho::Other(sid),
            }
        }
        name if is_group => NamedWho::Members(number_of(name)?),
        name => NamedWho::User(number_of(name)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::nfs::acl::Acl41;
    use wire::nfs::xdr::XdrReader;

    fn entries() -> impl Strategy<Value = Vec<NamedAce>> {
        let who = prop_oneof![
            Just(NamedWho::Owner),
            Just(NamedWho::Group),
            Just(NamedWho::Everyone),
            (0..u32::MAX).prop_map(NamedWho::User),
            (0..u32::MAX).prop_map(NamedWho::Members),
            Just(NamedWho::Other(Sid::authenticated_users())),
            Just(NamedWho::Other(Sid::anonymous())),
            Just(NamedWho::Other(Sid::new(5, &[21, 1, 2, 3, 500]))),
        ];
        let flags = (any::<bool>(), 0..16u8).prop_map(|(inherited, flags)| {
            let handed_down = if flags & 3 == 0 { 0 } else { flags };
            handed_down | if inherited { Entry::INHERITED } else { 0 }
        });
        let entry =
            (any::<bool>(), flags, any::<u32>(), who).prop_map(|(allows, flags, bits, who)| {
                NamedAce { allows, flags, access: Access(bits) & Access::FILE_ALL, who }
            });
        prop::collection::vec(entry, 0..8)
    }

    proptest! {
        #[test]
        fn encoded_list_decodes_unchanged(
            entries in entries(),
            is_inherited: bool,
            is_protected: bool,
        ) {
            let list = NamedList { is_inherited, is_protected, entries };
            let mut bytes = Vec::new();
            put_dacl(&mut XdrWriter::new(&mut bytes), &list);
            let sent: Acl41<'_> = XdrReader::new(&bytes).get().unwrap();
            prop_assert_eq!(sent.flags.contains(AclFlags::AUTO_INHERIT), is_inherited);
            prop_assert_eq!(sent.flags.contains(AclFlags::PROTECTED), is_protected);
            prop_assert_eq!(&entries_of(&sent.entries, true).unwrap(), &list.entries);
            let forgetful = entries_of(&sent.entries, false).unwrap();
            prop_assert!(forgetful.iter().all(|entry| entry.flags & Entry::INHERITED == 0));
        }
    }

    #[test]
    fn principal_is_a_number_a_sid_or_a_special_name() {
        assert_eq!(who_of(b"7", false), Ok(NamedWho::User(7)));
        assert_eq!(who_of(b"7@example.org", true), Ok(NamedWho::Members(7)));
        assert_eq!(who_of(b"GROUP@", false), Ok(NamedWho::Group), "whatever the flag says");
        assert_eq!(who_of(b"S-1-22-1-7", false), Ok(NamedWho::User(7)));
        for nobody in [&b"alice"[..], b"", b"INTERACTIVE@", b"S-1-x", b"S-\xff", b"owner@"] {
            assert_eq!(who_of(nobody, false), Err(NfsStatus::BADOWNER));
        }
    }

    #[test]
    fn audit_entries_are_refused_and_void_rights_dropped() {
        let flags = AceFlags::IDENTIFIER_GROUP | AceFlags::INHERIT_ONLY;
        let mask = AceMask::READ_DATA | AceMask::WRITE_RETENTION;
        let ace = NfsAce { ace_type: AceType::Audit, flags, mask, who: b"8" };
        assert_eq!(entries_of(&[ace], false), Err(NfsStatus::ATTRNOTSUPP));
        let kept = entries_of(&[NfsAce { ace_type: AceType::Deny, ..ace }], false).unwrap();
        let (access, who) = (Access::READ_DATA, NamedWho::Members(8));
        assert_eq!(kept, [NamedAce { allows: false, flags: 0, access, who }]);
        let many = vec![NfsAce { ace_type: AceType::Allow, ..ace }; NAMED_ACES_MAX + 1];
        assert_eq!(entries_of(&many, false), Err(NfsStatus::ATTRNOTSUPP));
        assert!(entries_of(&many[1..], false).is_ok());
    }
}
