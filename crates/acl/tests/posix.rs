//! The descriptor that shows permissions grants what POSIX grants.

use acl::{
    ExecuteRule, PosixAcl, PosixFacts, PosixName, Sid, Token, from_posix, maximal_access, to_posix,
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
        // Without named entries a list has no mask, and says what a mode says.
        let mask = mask.or((!named.is_empty()).then_some(7));
        PosixAcl { mask, named, ..PosixAcl::of_mode(mode) }
    }
}

fn token(user: u32, groups: &[u32]) -> Token {
    let groups = groups.iter().map(|gid| Sid::unix_group(*gid)).chain([Sid::everyone()]).collect();
    Token { user: Some(Sid::unix_user(user)), groups, ..Token::default() }
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
    fn shown_descriptor_stored_gives_nobody_more(list in lists(), is_directory: bool) {
        let facts = PosixFacts { uid: OWNER, gid: GROUP, mode: list.mode(), is_directory };
        let back = to_posix(&from_posix(&facts, Some(&list)), &facts);
        let data = |list: &PosixAcl, user, groups: &[u32]| {
            let access = list.access(&facts, (user, groups), ExecuteRule::WithRead);
            access & (acl::Access::READ_DATA | acl::Access::WRITE_DATA)
        };
        for (user, groups) in [(OWNER, &[][..]), (2, &[]), (6, &[GROUP]), (6, &[11]), (6, &[14])] {
            let (before, after) = (data(&list, user, groups), data(&back, user, groups));
            prop_assert!(before.contains(after), "{user} {groups:?}: {before:?} {after:?}");
        }
    }
}
