//! A descriptor made from POSIX permissions grants what POSIX grants.

use acl::{
    Access, AccessToken, Ace, AceKind, Descriptor, ExecuteRule, OwnerGroup, POSIX_NAMES_MAX,
    PosixAcl, PosixFacts, PosixName, Sid, control, from_posix, maximal_access, to_posix,
};
use proptest::prelude::*;

const OWNER: u32 = 1;
const GROUP: u32 = 10;

fn named() -> impl Strategy<Value = Vec<(PosixName, u32)>> {
    let users = prop::collection::btree_map((1u32..6).prop_map(PosixName::User), 0u32..8, 0..4);
    let groups = prop::collection::btree_map((10u32..14).prop_map(PosixName::Group), 0u32..8, 0..4);
    (users, groups).prop_map(|(users, groups)| users.into_iter().chain(groups).collect())
}

prop_compose! {
    fn lists()(
        mode in 0u32..0o1000,
        mask in prop::option::weighted(0.7, 0u32..8),
        named in named(),
    ) -> PosixAcl {
        // A list without named entries needs no mask, and equals a mode.
        let mask = mask.or((!named.is_empty()).then_some(7));
        PosixAcl { mask, named, ..PosixAcl::of_mode(mode) }
    }
}

/// True if Linux grants a user the bits `want`: `acl_permission_check` in fs/namei.c and
/// `posix_acl_permission` in fs/posix_acl.c, reimplemented.
fn kernel_lets(list: &PosixAcl, uid: u32, gid: u32, user: u32, groups: &[u32], want: u32) -> bool {
    let mode = list.mode();
    if user == uid {
        return want & !(mode >> 6) == 0;
    }
    if list.mask.is_some() && mode & 0o070 != 0 {
        return kernel_lets_by_list(list, gid, user, groups, want);
    }
    let is_member = want & (mode ^ mode >> 3) != 0 && groups.contains(&gid);
    want & !(if is_member { mode >> 3 } else { mode }) == 0
}

fn kernel_lets_by_list(list: &PosixAcl, gid: u32, user: u32, groups: &[u32], want: u32) -> bool {
    let mask = list.mask.unwrap_or(7);
    for (name, bits) in &list.named {
        if *name == PosixName::User(user) {
            return bits & mask & want == want;
        }
    }
    let mut found = groups.contains(&gid);
    if found && list.group & want == want {
        return mask & want == want;
    }
    for (name, bits) in &list.named {
        let PosixName::Group(named) = name else { continue };
        if groups.contains(named) {
            found = true;
            if bits & want == want {
                return mask & want == want;
            }
        }
    }
    !found && list.others & want == want
}

fn trustee() -> impl Strategy<Value = Sid> {
    prop_oneof![
        3 => (1u32..6).prop_map(Sid::unix_user),
        4 => (10u32..15).prop_map(Sid::unix_group),
        3 => Just(Sid::everyone()),
        1 => Just(Sid::authenticated_users()),
        1 => Just(Sid::owner_rights()),
    ]
}

fn rights() -> impl Strategy<Value = Access> {
    let sets = [
        Access::FILE_ALL,
        Access::FILE_READ,
        Access::FILE_WRITE,
        Access::FILE_EXECUTE,
        Access::READ_DATA,
        Access::WRITE_DATA,
        Access::EXECUTE,
        Access::DELETE_CHILD,
        Access::GENERIC_READ,
        Access::READ_DATA | Access::WRITE_DATA | Access::EXECUTE,
    ];
    prop::sample::select(sets.to_vec())
}

fn entry() -> impl Strategy<Value = Ace> {
    (trustee(), rights(), prop::bool::weighted(0.4), prop::bool::weighted(0.1)).prop_map(
        |(sid, access, denies, is_inherit_only)| {
            let kind = if denies { AceKind::Deny } else { AceKind::Allow };
            let flags = if is_inherit_only { Ace::INHERIT_ONLY } else { 0 };
            Ace { kind, flags, ..Ace::allow(sid, access) }
        },
    )
}

const REFUSED: std::ops::Range<u32> = 1000..1000 + POSIX_NAMES_MAX as u32;

/// Deny entries for as many users as a POSIX ACL has room for; with further entries there are more.
fn many_refusals() -> impl Strategy<Value = Vec<Ace>> {
    let refused = |uid| {
        let reads = Access::READ_DATA | Access::EXECUTE;
        Ace { kind: AceKind::Deny, ..Ace::allow(Sid::unix_user(uid), reads) }
    };
    prop_oneof![3 => Just(Vec::new()), 1 => Just(REFUSED.map(refused).collect())]
}

fn stored(entries: Vec<Ace>) -> Descriptor {
    Descriptor {
        control: control::DACL_PRESENT,
        owner: Some(Sid::unix_user(OWNER)),
        group: Some(Sid::unix_group(GROUP)),
        dacl: Some(entries),
        ..Descriptor::default()
    }
}

/// Describes a user with a right by these permissions that the list does not grant, if any.
fn gets_more(
    list: &Descriptor,
    shown: &PosixAcl,
    facts: &PosixFacts,
    owner_group: OwnerGroup,
) -> Option<String> {
    let PosixFacts { mode, is_directory, .. } = *facts;
    let all_groups = [&[][..], &[10], &[11], &[12, 13], &[10, 14], &[11, 12, 13, 14]];
    let users = (1..8).chain(REFUSED.end - 4..REFUSED.end);
    for (user, groups) in users.flat_map(|user| all_groups.map(|groups| (user, groups))) {
        if (user, owner_group) == (OWNER, OwnerGroup::Member) && !groups.contains(&GROUP) {
            continue;
        }
        let granted = maximal_access(list, &token(user, groups));
        let file_rights = [(1, Access::EXECUTE)];
        let data_rights = [(4, Access::READ_DATA), (2, Access::WRITE_DATA)];
        let of_kind = if is_directory { &[][..] } else { &file_rights };
        for (bit, right) in data_rights.iter().chain(of_kind) {
            let lets = kernel_lets(shown, OWNER, GROUP, user, groups, *bit);
            if lets && !granted.contains(*right) {
                return Some(format!("{user} {groups:?} has {right:?} by {shown:?}"));
            }
        }
    }
    let is_program = shown.mode() & 0o111 & !mode != 0 && !is_directory;
    is_program.then(|| format!("a file became a program by {shown:?}"))
}

fn token(user: u32, groups: &[u32]) -> AccessToken {
    let wellknown = [Sid::everyone(), Sid::authenticated_users()];
    let groups = groups.iter().map(|gid| Sid::unix_group(*gid)).chain(wellknown).collect();
    AccessToken { user: Some(Sid::unix_user(user)), groups, ..AccessToken::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn shown_descriptor_grants_what_posix_grants(
        list in lists(),
        user in 1u32..7,
        groups in prop::collection::vec(10u32..15, 0..4),
        is_directory: bool,
    ) {
        let facts = PosixFacts { uid: OWNER, gid: GROUP, mode: list.mode(), is_directory };
        let by_posix = list.access(&facts, (user, &groups), ExecuteRule::WithRead);
        let by_descriptor =
            maximal_access(&from_posix(&facts, Some(&list)), &token(user, &groups));
        prop_assert_eq!(by_descriptor, by_posix);
    }

    #[test]
    fn stored_shown_descriptor_grants_no_more(list in lists(), is_directory: bool) {
        let facts = PosixFacts { uid: OWNER, gid: GROUP, mode: list.mode(), is_directory };
        let shown = from_posix(&facts, Some(&list));
        let back = to_posix(&shown, &facts, OwnerGroup::Unknown);
        let data = |list: &PosixAcl, user, groups: &[u32]| {
            let access = list.access(&facts, (user, groups), ExecuteRule::WithRead);
            access & (acl::Access::READ_DATA | acl::Access::WRITE_DATA)
        };
        for (user, groups) in [(OWNER, &[][..]), (2, &[]), (6, &[GROUP]), (6, &[11]), (6, &[14])] {
            let (before, after) = (data(&list, user, groups), data(&back, user, groups));
            prop_assert!(before.contains(after), "{user} {groups:?}: {before:?} {after:?}");
        }
    }

    #[test]
    fn stored_list_grants_local_users_no_more(
        own in prop::collection::vec(entry(), 1..6),
        refusals in many_refusals(),
        refusals_last: bool,
        mode in 0u32..0o1000,
        is_directory: bool,
    ) {
        let entries = if refusals_last { [own, refusals].concat() } else { [refusals, own].concat() };
        let list = stored(entries);
        let facts = PosixFacts { uid: OWNER, gid: GROUP, mode, is_directory };
        for owner_group in [OwnerGroup::Member, OwnerGroup::Unknown] {
            let shown = to_posix(&list, &facts, owner_group);
            prop_assert_eq!(gets_more(&list, &shown, &facts, owner_group), None);
            let alone = PosixAcl::of_mode(shown.mode_without_names());
            prop_assert_eq!(gets_more(&list, &alone, &facts, owner_group), None);
        }
    }

    #[test]
    fn posix_access_agrees_with_linux(
        list in lists(),
        user in 1u32..7,
        groups in prop::collection::vec(10u32..15, 0..4),
    ) {
        let facts = PosixFacts { uid: OWNER, gid: GROUP, mode: list.mode(), is_directory: false };
        let access = list.access(&facts, (user, &groups), ExecuteRule::ByBit);
        let rights = [(4, Access::READ_DATA), (2, Access::WRITE_DATA), (1, Access::EXECUTE)];
        for (bit, right) in rights {
            let lets = kernel_lets(&list, OWNER, GROUP, user, &groups, bit);
            prop_assert_eq!(access.contains(right), lets, "{:?}", right);
        }
    }
}
