//! NFSv4 ACLs: entries for the owner, the group, everyone, and users and groups by number. RFC 8881
//! 6.2.1, 6.4. Their access bits equal those of Windows, and both kinds of list are evaluated in
//! order until a right is decided.
//!
//! As in Windows, inheritable entries of the owner or group are separate from their effective
//! entries. One entry with both effects becomes two.

use crate::{Access, Ace, AceKind, Sid};

/// The trustee of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedWho {
    /// The file's owner (OWNER@).
    Owner,
    /// The file's group (GROUP@).
    Group,
    /// Everyone, owner and group included (EVERYONE@).
    Everyone,
    /// A user, by number.
    User(u32),
    /// The members of a group, by number.
    Members(u32),
    /// A trustee that only Windows knows.
    Other(Sid),
}

/// One entry of an NFSv4 ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAce {
    /// The entry grants rights; otherwise it denies them.
    pub allows: bool,
    /// Inheritance flags, as in an [`Ace`].
    pub flags: u8,
    /// Rights.
    pub access: Access,
    /// The trustee.
    pub who: NamedWho,
}

/// An NFSv4 ACL with its inheritance flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedList {
    /// The list inherits entries of its parent directory, and follows their changes
    /// (ACL4_AUTO_INHERIT).
    pub is_inherited: bool,
    /// The list does not inherit (ACL4_PROTECTED).
    pub is_protected: bool,
    /// Its entries.
    pub entries: Vec<NamedAce>,
}

/// Most entries of an accepted list; each may become two.
pub const NAMED_ACES_MAX: usize = 1024;

const INHERITS: u8 = Ace::OBJECT_INHERIT | Ace::CONTAINER_INHERIT;

/// Converts the list of a file with this owner and group. Entries that neither allow nor deny are
/// omitted; inherit-only entries stay.
#[must_use]
pub fn to_named(list: &[Ace], uid: u32, gid: u32) -> Vec<NamedAce> {
    let named = |ace: &Ace| {
        let (allows, sid) = ace.effect()?;
        let who = who_of(&sid, ace, uid, gid);
        Some(NamedAce { allows, flags: ace.flags, access: ace.access, who })
    };
    list.iter().filter_map(named).collect()
}

fn who_of(sid: &Sid, ace: &Ace, uid: u32, gid: u32) -> NamedWho {
    let inherited_only = !ace.is_in_force();
    match (sid.as_unix_user(), sid.as_unix_group()) {
        // An inherited entry would apply to the owner of the new file instead.
        (Some(user), _) if user == uid && ace.flags & INHERITS == 0 => NamedWho::Owner,
        (_, Some(group)) if group == gid && ace.flags & INHERITS == 0 => NamedWho::Group,
        (Some(user), _) => NamedWho::User(user),
        (_, Some(group)) => NamedWho::Members(group),
        _ if *sid == Sid::everyone() => NamedWho::Everyone,
        _ if *sid == Sid::owner_rights() => NamedWho::Owner,
        _ if *sid == Sid::creator_owner() && inherited_only => NamedWho::Owner,
        _ if *sid == Sid::creator_group() && inherited_only => NamedWho::Group,
        _ => NamedWho::Other(sid.clone()),
    }
}

/// Converts the list for a descriptor; none if it is longer than [`NAMED_ACES_MAX`].
#[must_use]
pub fn from_named(list: &[NamedAce], uid: u32, gid: u32, is_directory: bool) -> Option<Vec<Ace>> {
    if list.len() > NAMED_ACES_MAX {
        return None;
    }
    let mut aces = Vec::with_capacity(list.len());
    for entry in list {
        // Files have no descendants.
        let flags = if is_directory { entry.flags } else { entry.flags & Ace::INHERITED };
        let ace = |sid, flags| Ace {
            kind: if entry.allows { AceKind::Allow } else { AceKind::Deny },
            flags,
            access: entry.access,
            sid,
        };
        let (own, creator) = match &entry.who {
            NamedWho::Owner => (Sid::unix_user(uid), Some(Sid::creator_owner())),
            NamedWho::Group => (Sid::unix_group(gid), Some(Sid::creator_group())),
            NamedWho::Everyone => (Sid::everyone(), None),
            NamedWho::User(user) => (Sid::unix_user(*user), None),
            NamedWho::Members(group) => (Sid::unix_group(*group), None),
            NamedWho::Other(sid) => (sid.clone(), None),
        };
        let is_in_force = entry.flags & Ace::INHERIT_ONLY == 0 || !is_directory;
        match creator {
            Some(creator) if flags & INHERITS != 0 => {
                if is_in_force {
                    aces.push(ace(own, flags & Ace::INHERITED));
                }
                aces.push(ace(creator, flags | Ace::INHERIT_ONLY));
            }
            _ if is_directory || entry.flags & Ace::INHERIT_ONLY == 0 => aces.push(ace(own, flags)),
            // An inherit-only entry of a file has no effect.
            _ => {}
        }
    }
    Some(aces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessToken, Descriptor, control, inherit, maximal_access};
    use proptest::prelude::*;

    const OWNER: u32 = 1000;
    const GROUP: u32 = 100;

    fn entries() -> impl Strategy<Value = Vec<NamedAce>> {
        let who = prop_oneof![
            Just(NamedWho::Owner),
            Just(NamedWho::Group),
            Just(NamedWho::Everyone),
            (1000..1003u32).prop_map(NamedWho::User),
            (100..103u32).prop_map(NamedWho::Members),
            Just(NamedWho::Other(Sid::authenticated_users())),
        ];
        let flags = prop_oneof![3 => Just(0u8), 1 => 0..16u8];
        let entry =
            (any::<bool>(), flags, 0..0x200u32, who).prop_map(|(allows, flags, access, who)| {
                // Inheritance flags are meaningless without an INHERIT bit.
                let flags = if flags & INHERITS == 0 { 0 } else { flags };
                NamedAce { allows, flags, access: Access(access), who }
            });
        prop::collection::vec(entry, 0..8)
    }

    fn token(uid: u32, groups: &[u32]) -> AccessToken {
        let mut of = vec![Sid::everyone(), Sid::authenticated_users()];
        of.extend(groups.iter().map(|gid| Sid::unix_group(*gid)));
        AccessToken { user: Some(Sid::unix_user(uid)), groups: of, ..AccessToken::default() }
    }

    fn descriptor(list: Vec<Ace>) -> Descriptor {
        Descriptor {
            control: control::DACL_PRESENT,
            owner: Some(Sid::unix_user(OWNER)),
            group: Some(Sid::unix_group(GROUP)),
            sacl: None,
            dacl: Some(list),
        }
    }

    /// RFC 8881 6.2.1: the first entry for a trustee decides a right.
    fn decided(list: &[NamedAce], uid: u32, groups: &[u32]) -> Access {
        let (mut granted, mut refused) = (Access::NONE, Access::NONE);
        for entry in list.iter().filter(|entry| entry.flags & Ace::INHERIT_ONLY == 0) {
            let is_about = match &entry.who {
                NamedWho::Owner => uid == OWNER,
                NamedWho::Group => groups.contains(&GROUP),
                NamedWho::Everyone | NamedWho::Other(_) => true,
                NamedWho::User(user) => uid == *user,
                NamedWho::Members(group) => groups.contains(group),
            };
            if is_about && entry.allows {
                granted |= entry.access - refused;
            } else if is_about {
                refused |= entry.access - granted;
            }
        }
        granted
    }

    #[test]
    fn inheritable_owner_entry_becomes_creator_owner() {
        let flags = Ace::OBJECT_INHERIT | Ace::CONTAINER_INHERIT;
        let entry = NamedAce { allows: true, flags, access: Access(7), who: NamedWho::Owner };
        let list = from_named(std::slice::from_ref(&entry), OWNER, GROUP, true).unwrap();
        let parts: Vec<(u8, Sid)> = list.iter().map(|ace| (ace.flags, ace.sid.clone())).collect();
        let handed = flags | Ace::INHERIT_ONLY;
        assert_eq!(parts, [(0, Sid::unix_user(OWNER)), (handed, Sid::creator_owner())]);
        let creator = crate::Creator { owner: Sid::unix_user(5), group: Sid::unix_group(6) };
        let child = inherit(&descriptor(list), &creator, false).unwrap();
        let shown = to_named(&child.dacl.unwrap(), 5, 6);
        assert_eq!(shown.iter().map(|e| e.who.clone()).collect::<Vec<_>>(), [NamedWho::Owner]);
        let of_file = from_named(&[entry], OWNER, GROUP, false).unwrap();
        assert_eq!(of_file, [Ace::allow(Sid::unix_user(OWNER), Access(7))]);
    }

    #[test]
    fn overlong_named_list_is_refused() {
        let who = NamedWho::Everyone;
        let entry = NamedAce { allows: true, flags: 0, access: Access(1), who };
        let list = vec![entry; NAMED_ACES_MAX + 1];
        assert!(from_named(&list[1..], OWNER, GROUP, true).is_some());
        assert_eq!(from_named(&list, OWNER, GROUP, true), None);
    }

    proptest! {
        #[test]
        fn named_and_posix_lists_grant_the_same(list in entries(), is_directory in any::<bool>()) {
            let aces = from_named(&list, OWNER, GROUP, is_directory).unwrap();
            let descriptor = descriptor(aces);
            // An owner has these rights without any list.
            let own = Access::READ_CONTROL | Access::WRITE_DAC;
            for (uid, groups) in [
                (OWNER, &[][..]),
                (OWNER, &[GROUP]),
                (1001, &[GROUP, 101]),
                (1002, &[102]),
                (7, &[]),
            ] {
                let expected = decided(&list, uid, groups);
                let real = maximal_access(&descriptor, &token(uid, groups));
                prop_assert_eq!(real - own, expected - own, "{} {:?}", uid, groups);
            }
        }

        #[test]
        fn shown_list_round_trips(list in entries()) {
            let aces = from_named(&list, OWNER, GROUP, true).unwrap();
            let shown = to_named(&aces, OWNER, GROUP);
            prop_assert_eq!(from_named(&shown, OWNER, GROUP, true), Some(aces));
        }
    }
}
