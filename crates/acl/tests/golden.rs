//! The access check against cases whose results were derived by hand from MS-DTYP 2.5.3.2, and
//! against a naive reference check.

use acl::{
    Access, AccessToken, Ace, AceKind, Descriptor, Sid, check_access, control, maximal_access,
};
use proptest::prelude::*;

const ALICE: u32 = 1;
const BOB: u32 = 2;
const STAFF: u32 = 10;

fn alice() -> Sid {
    Sid::unix_user(ALICE)
}

fn token(uid: u32, groups: &[u32]) -> AccessToken {
    let mut all = vec![Sid::everyone(), Sid::authenticated_users()];
    all.extend(groups.iter().map(|gid| Sid::unix_group(*gid)));
    AccessToken { user: Some(Sid::unix_user(uid)), groups: all, ..AccessToken::default() }
}

fn allow(sid: Sid, access: Access) -> Ace {
    Ace::allow(sid, access)
}

fn deny(sid: Sid, access: Access) -> Ace {
    Ace { kind: AceKind::Deny, ..Ace::allow(sid, access) }
}

fn other(kind: u8, sid: &Sid, access: Access) -> Ace {
    let mut body = Vec::new();
    sid.encode(&mut body);
    Ace { kind: AceKind::Other(kind, body), ..Ace::allow(Sid::new(0, &[]), access) }
}

fn owned_by_alice(dacl: Option<Vec<Ace>>) -> Descriptor {
    Descriptor {
        control: control::DACL_PRESENT,
        owner: Some(alice()),
        dacl,
        ..Descriptor::default()
    }
}

const READ: Access = Access::READ_DATA;
const WRITE: Access = Access::WRITE_DATA;
const OWN: Access = Access(Access::READ_CONTROL.0 | Access::WRITE_DAC.0);

const BOTH: Access = Access(READ.0 | WRITE.0);

/// Description, DACL, rights of alice (owner, member of staff), rights of bob.
type GoldenCase = (&'static str, Option<Vec<Ace>>, Access, Access);

fn staff() -> Sid {
    Sid::unix_group(STAFF)
}

fn inherit_only(ace: Ace) -> Ace {
    Ace { flags: Ace::INHERIT_ONLY | Ace::OBJECT_INHERIT, ..ace }
}

fn of_users_and_groups() -> Vec<GoldenCase> {
    vec![
        ("no list", None, Access::FILE_ALL, Access::FILE_ALL),
        ("an empty list", Some(vec![]), OWN, Access::NONE),
        ("everyone", Some(vec![allow(Sid::everyone(), READ)]), READ | OWN, READ),
        ("a group", Some(vec![allow(staff(), READ)]), READ | OWN, Access::NONE),
        (
            "a refusal before a grant",
            Some(vec![deny(staff(), WRITE), allow(Sid::everyone(), BOTH)]),
            READ | OWN,
            BOTH,
        ),
        (
            "a grant before a refusal",
            Some(vec![allow(Sid::everyone(), BOTH), deny(staff(), WRITE)]),
            BOTH | OWN,
            BOTH,
        ),
        (
            "grants add up over users and groups",
            Some(vec![allow(alice(), READ), allow(staff(), WRITE)]),
            BOTH | OWN,
            Access::NONE,
        ),
    ]
}

fn of_flags_and_generic_rights() -> Vec<GoldenCase> {
    vec![
        (
            "inherit-only entries",
            Some(vec![
                inherit_only(deny(Sid::everyone(), READ)),
                allow(Sid::everyone(), READ),
                inherit_only(allow(Sid::everyone(), WRITE)),
            ]),
            READ | OWN,
            READ,
        ),
        (
            "inherited entries count as others do",
            Some(vec![Ace { flags: Ace::INHERITED, ..allow(Sid::everyone(), READ) }]),
            READ | OWN,
            READ,
        ),
        (
            "generic rights",
            Some(vec![allow(Sid::everyone(), Access::GENERIC_READ)]),
            Access::FILE_READ | OWN,
            Access::FILE_READ,
        ),
        (
            "generic refusals",
            Some(vec![
                deny(Sid::everyone(), Access::GENERIC_WRITE),
                allow(Sid::everyone(), Access::GENERIC_ALL),
            ]),
            // The owner's implicit rights come from ownership, not from the list.
            (Access::FILE_ALL - Access::FILE_WRITE) | OWN,
            Access::FILE_ALL - Access::FILE_WRITE,
        ),
    ]
}

fn of_owners_and_other_kinds() -> Vec<GoldenCase> {
    vec![
        (
            "owner rights in the owner's place",
            Some(vec![allow(Sid::owner_rights(), READ), allow(Sid::everyone(), WRITE)]),
            BOTH,
            WRITE,
        ),
        (
            "owner rights refused",
            Some(vec![
                deny(Sid::owner_rights(), Access::WRITE_DAC),
                allow(Sid::everyone(), Access::FILE_ALL),
            ]),
            Access::FILE_ALL - Access::WRITE_DAC,
            Access::FILE_ALL,
        ),
        (
            "owner rights that are only handed on leave the owner's",
            Some(vec![inherit_only(allow(Sid::owner_rights(), READ))]),
            OWN,
            Access::NONE,
        ),
        (
            "CREATOR OWNER matches no caller",
            Some(vec![allow(Sid::creator_owner(), Access::FILE_ALL)]),
            OWN,
            Access::NONE,
        ),
        (
            "a conditional grant has no effect, a conditional denial has",
            Some(vec![
                other(9, &Sid::everyone(), WRITE),
                other(10, &Sid::everyone(), READ),
                allow(Sid::everyone(), READ | Access::EXECUTE),
            ]),
            Access::EXECUTE | OWN,
            Access::EXECUTE,
        ),
        (
            "audit and object entries have no effect",
            Some(vec![
                other(2, &Sid::everyone(), READ),
                other(5, &Sid::everyone(), READ),
                other(6, &Sid::everyone(), WRITE),
                allow(Sid::everyone(), WRITE),
            ]),
            WRITE | OWN,
            WRITE,
        ),
    ]
}

#[test]
fn access_check_agrees_with_the_specification() {
    let cases = of_users_and_groups().into_iter().chain(of_flags_and_generic_rights());
    for (what, dacl, of_alice, of_bob) in cases.chain(of_owners_and_other_kinds()) {
        let descriptor = owned_by_alice(dacl);
        assert_eq!(maximal_access(&descriptor, &token(ALICE, &[STAFF])), of_alice, "{what}: alice");
        assert_eq!(maximal_access(&descriptor, &token(BOB, &[])), of_bob, "{what}: bob");
    }
}

#[test]
fn privileges_add_rights_beyond_the_dacl() {
    let descriptor = owned_by_alice(Some(vec![]));
    let bob = token(BOB, &[]);
    let security = Access::SYSTEM_SECURITY;
    assert_eq!(check_access(&descriptor, &bob, security), None);
    assert_eq!(check_access(&descriptor, &bob, Access::WRITE_OWNER), None);
    let audits = AccessToken { may_audit: true, ..bob.clone() };
    assert_eq!(check_access(&descriptor, &audits, security), Some(security));
    let maximum = check_access(&descriptor, &audits, Access::MAXIMUM_ALLOWED);
    assert_eq!(maximum, Some(Access::NONE), "only if it is named");
    let takes = AccessToken { may_take_ownership: true, ..bob };
    let taken = check_access(&descriptor, &takes, Access::WRITE_OWNER);
    assert_eq!(taken, Some(Access::WRITE_OWNER));
}

fn sids() -> impl Strategy<Value = Sid> {
    prop::sample::select(vec![
        Sid::everyone(),
        Sid::owner_rights(),
        Sid::creator_owner(),
        Sid::unix_user(ALICE),
        Sid::unix_user(BOB),
        Sid::unix_group(STAFF),
    ])
}

fn entries() -> impl Strategy<Value = Vec<Ace>> {
    let access = prop::sample::select(vec![
        Access::READ_DATA,
        Access::FILE_READ | Access::DELETE,
        Access::FILE_WRITE,
        Access::GENERIC_ALL,
        Access::GENERIC_EXECUTE | Access::WRITE_DATA,
        Access::READ_CONTROL,
        Access::WRITE_DAC | Access::WRITE_OWNER,
    ]);
    let entry =
        (sids(), access, any::<bool>(), 0u8..32).prop_map(|(sid, access, denies, flags)| {
            let kind = if denies { AceKind::Deny } else { AceKind::Allow };
            Ace { kind, flags, access, sid }
        });
    prop::collection::vec(entry, 0..8)
}

/// Evaluates one right, entry by entry: the first matching entry decides.
fn single(descriptor: &Descriptor, token: &AccessToken, right: Access) -> bool {
    let Some(entries) = &descriptor.dacl else { return Access::FILE_ALL.contains(right) };
    let owns = descriptor.owner.as_ref().is_some_and(|owner| token.has(owner));
    let in_force = || entries.iter().filter(|ace| ace.is_in_force());
    let limited = in_force().any(|ace| ace.sid == Sid::owner_rights());
    if owns && !limited && OWN.contains(right) {
        return true;
    }
    in_force()
        .filter(|ace| token.has(&ace.sid) || (owns && ace.sid == Sid::owner_rights()))
        .find(|ace| ace.access.map_generic().contains(right))
        .is_some_and(|ace| ace.kind == AceKind::Allow)
}

proptest! {
    #[test]
    fn maximum_allowed_is_the_union_of_single_rights(
        list in prop::option::weighted(0.95, entries()),
        uid in 1u32..4,
        in_staff: bool,
    ) {
        let descriptor = owned_by_alice(list);
        let token = token(uid, if in_staff { &[STAFF] } else { &[] });
        let maximum = check_access(&descriptor, &token, Access::MAXIMUM_ALLOWED).unwrap();
        for bit in 0..25 {
            let right = Access(1 << bit);
            let alone = check_access(&descriptor, &token, right);
            prop_assert_eq!(alone.is_some(), maximum.contains(right));
            prop_assert_eq!(alone.is_some(), single(&descriptor, &token, right), "{:?}", right);
        }
        prop_assert_eq!(check_access(&descriptor, &token, maximum), Some(maximum));
    }
}
