//! Access lists through the attributes acl and dacl, and modes beside them.

use crate::harness::{READ_WRITE, ServerUnderTest, SessionClient, open_args};
use wire::nfs::acl::{AceFlags, AceMask, AceType, Acl41, AclFlags, NfsAce};
use wire::nfs::attributes::{ModeMasked, ModeUmask, NfsAttributes, attribute};
use wire::nfs::ops::*;
use wire::nfs::{Access, Bitmap4, NfsStatus, StateId};

/// An unprivileged user with a group of the same number.
const USER: u32 = 4005;

fn allow(who: &[u8], mask: AceMask) -> NfsAce<'_> {
    NfsAce { ace_type: AceType::Allow, flags: AceFlags(0), mask, who }
}

fn acl(entries: Vec<NfsAce<'_>>) -> NfsAttributes<'_> {
    NfsAttributes { acl: Some(entries.into()), ..NfsAttributes::default() }
}

fn set(client: &mut SessionClient, name: &[u8], attributes: &NfsAttributes<'_>) -> NfsStatus {
    let mut values = Vec::new();
    let mut operations = client.walk(&[b"share", name]);
    let attributes = attributes.to_fattr(&mut values);
    operations.push(Operation::SetAttr(SetAttrArgs { state_id: StateId::ANONYMOUS, attributes }));
    client.status(&operations)
}

fn shown(client: &mut SessionClient, name: &[u8]) -> Vec<NfsAce<'static>> {
    client.attributes(&[b"share", name], &[attribute::ACL]).acl.unwrap().to_vec()
}

fn mode(client: &mut SessionClient, name: &[u8]) -> u32 {
    client.attributes(&[b"share", name], &[attribute::MODE]).mode.unwrap()
}

fn access(client: &mut SessionClient, name: &[u8], access: Access) -> Access {
    let mut operations = client.walk(&[b"share", name]);
    operations.push(Operation::Access(AccessArgs { access }));
    client.last(&operations, |r| r.get::<AccessResult>().unwrap().access)
}

#[test]
fn mode_is_reported_as_owner_group_everyone_entries() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"file");
    let list = shown(&mut client, b"file");
    let who: Vec<&[u8]> = list.iter().map(|ace| ace.who).collect();
    assert_eq!(who, [&b"OWNER@"[..], b"GROUP@", b"EVERYONE@"]);
    assert!(list[0].mask.contains(AceMask::WRITE_DATA));
    assert!(!list[2].mask.intersects(AceMask::WRITE_DATA));
    let whole = client.attributes(&[b"share"], &[attribute::ACLSUPPORT]);
    assert_eq!(whole.aclsupport, Some(3), "allowing and denying entries");
}

#[test]
fn set_list_reads_back_and_governs_access_and_open() {
    let bench = ServerUnderTest::new();
    let mut root = bench.client("one");
    let mut user = bench.client("two");
    user.user = USER;
    root.make_file(b"file");
    assert_eq!(
        set(&mut root, b"file", &NfsAttributes { mode: Some(0o600), ..NfsAttributes::default() }),
        NfsStatus::OK
    );
    assert_eq!(access(&mut user, b"file", Access::READ | Access::MODIFY), Access(0));
    let writes = AceMask::READ_DATA | AceMask::WRITE_DATA | AceMask::APPEND_DATA;
    let list = vec![
        allow(b"OWNER@", writes | AceMask::READ_ACL),
        allow(b"4005", AceMask::READ_DATA | AceMask::READ_ACL),
        allow(b"EVERYONE@", AceMask::READ_ATTRIBUTES),
    ];
    assert_eq!(set(&mut root, b"file", &acl(list.clone())), NfsStatus::OK);
    assert_eq!(shown(&mut root, b"file"), list);
    assert_eq!(shown(&mut user, b"file"), list);
    assert_eq!(access(&mut user, b"file", Access::READ | Access::MODIFY), Access::READ);
    let open = |client: &SessionClient, access| {
        let mut operations = client.walk(&[b"share"]);
        operations.push(Operation::Open(open_args(b"file", access, 0, false)));
        operations
    };
    let (reads, writes) = (open(&user, 1), open(&user, READ_WRITE));
    assert_eq!(user.status(&writes), NfsStatus::ACCESS);
    assert_eq!(user.status(&reads), NfsStatus::OK);
    assert_eq!(set(&mut user, b"file", &acl(list)), NfsStatus::PERM, "it is not theirs to change");
    let deny = NfsAce { ace_type: AceType::Deny, ..allow(b"4005", AceMask::READ_DATA) };
    let list = vec![deny, allow(b"EVERYONE@", AceMask::READ_DATA)];
    assert_eq!(set(&mut root, b"file", &acl(list)), NfsStatus::OK);
    assert_eq!(access(&mut user, b"file", Access::READ), Access(0));
}

#[test]
fn mode_replaces_list_and_precedes_it_in_one_request() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"file");
    let list = vec![allow(b"OWNER@", AceMask::READ_DATA), allow(b"7", AceMask::READ_DATA)];
    let both = NfsAttributes { mode: Some(0o777), ..acl(list.clone()) };
    assert_eq!(set(&mut client, b"file", &both), NfsStatus::OK);
    assert_eq!(shown(&mut client, b"file"), list);
    assert_eq!(mode(&mut client, b"file") & 0o7027, 0, "the list decides on the mode's bits");
    let mode_alone = NfsAttributes { mode: Some(0o640), ..NfsAttributes::default() };
    assert_eq!(set(&mut client, b"file", &mode_alone), NfsStatus::OK);
    assert_eq!(mode(&mut client, b"file"), 0o640);
    assert!(shown(&mut client, b"file").iter().all(|ace| ace.who != b"7"));
}

#[test]
fn masked_mode_changes_the_bits_of_its_mask() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"file");
    let before = mode(&mut client, b"file");
    let masked = |value, mask| NfsAttributes {
        mode_set_masked: Some(ModeMasked { value, mask }),
        ..NfsAttributes::default()
    };
    assert_eq!(set(&mut client, b"file", &masked(0o070, 0o020)), NfsStatus::OK);
    assert_eq!(mode(&mut client, b"file"), before | 0o020);
    assert_eq!(set(&mut client, b"file", &masked(0, 0o1_0000)), NfsStatus::INVAL);
    let twice = NfsAttributes { mode: Some(0o600), ..masked(0, 0o777) };
    assert_eq!(set(&mut client, b"file", &twice), NfsStatus::INVAL);
    let mut operations = client.walk(&[b"share"]);
    let mut values = Vec::new();
    let mut args = open_args(b"made", READ_WRITE, 0, true);
    let masked = masked(0o600, 0o777);
    args.how = NfsOpenHow::Create(NfsCreateHow::Guarded(masked.to_fattr(&mut values)));
    operations.push(Operation::Open(args));
    assert_eq!(client.status(&operations), NfsStatus::OK);
    assert_eq!(mode(&mut client, b"made"), 0o600);
    let get = GetAttrArgs { requested: Bitmap4::of(&[attribute::MODE_SET_MASKED]) };
    let mut operations = client.walk(&[b"share", b"made"]);
    operations.push(Operation::GetAttr(get));
    assert_eq!(client.status(&operations), NfsStatus::INVAL, "it can only be set");
}

#[test]
fn directory_list_is_inherited_by_new_objects() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let handed_down = AceFlags::FILE_INHERIT | AceFlags::DIRECTORY_INHERIT;
    let read = AceMask::READ_DATA | AceMask::READ_ACL | AceMask::READ_ATTRIBUTES;
    let all = AceMask(0x1F_01FF);
    let entries = vec![
        allow(b"OWNER@", all),
        NfsAce { flags: handed_down, ..allow(b"4005", read) },
        NfsAce { flags: handed_down | AceFlags::IDENTIFIER_GROUP, ..allow(b"4006", read) },
    ];
    let dacl = Acl41 { flags: AclFlags::AUTO_INHERIT, entries: entries.into() };
    let with = NfsAttributes { dacl: Some(dacl.clone()), ..NfsAttributes::default() };
    let mut values = Vec::new();
    let create = CreateArgs {
        object_type: CreateType::Directory,
        name: b"dir",
        attributes: with.to_fattr(&mut values),
    };
    let mut operations = client.walk(&[b"share"]);
    operations.push(Operation::Create(create));
    assert_eq!(client.status(&operations), NfsStatus::OK);
    let found = client.attributes(&[b"share", b"dir"], &[attribute::DACL]).dacl.unwrap();
    assert_eq!(found, dacl);
    let mut operations = client.walk(&[b"share", b"dir"]);
    operations.push(Operation::Open(open_args(b"below", READ_WRITE, 0, true)));
    assert_eq!(client.status(&operations), NfsStatus::OK);
    let found = client.attributes(&[b"share", b"dir", b"below"], &[attribute::DACL]).dacl.unwrap();
    assert_eq!(found.flags, AclFlags::AUTO_INHERIT);
    let inherited = |ace: &&NfsAce<'_>| ace.flags.contains(AceFlags::INHERITED);
    let who: Vec<&[u8]> = found.entries.iter().filter(inherited).map(|ace| ace.who).collect();
    assert_eq!(who, [&b"4005"[..], b"4006"]);
    let plain = client.attributes(&[b"share", b"dir", b"below"], &[attribute::ACL]).acl.unwrap();
    assert!(!plain.iter().any(|ace| inherited(&ace)), "acl does not say what was inherited");
}

#[test]
fn inherited_list_is_limited_by_mode_not_by_umask() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let flags = AceFlags::FILE_INHERIT | AceFlags::DIRECTORY_INHERIT;
    let data = AceMask::READ_DATA | AceMask::WRITE_DATA | AceMask::APPEND_DATA;
    let list = vec![allow(b"OWNER@", data), NfsAce { flags, ..allow(b"4005", data) }];
    let mut operations = client.walk(&[b"share"]);
    let mut values = Vec::new();
    let with = acl(list);
    let attributes = with.to_fattr(&mut values);
    operations.push(Operation::Create(CreateArgs {
        object_type: CreateType::Directory,
        name: b"dir",
        attributes,
    }));
    assert_eq!(client.status(&operations), NfsStatus::OK);
    let mut made = |name: &[u8], attributes: NfsAttributes<'_>| {
        let mut operations = client.walk(&[b"share", b"dir"]);
        let mut values = Vec::new();
        let mut args = open_args(name, READ_WRITE, 0, true);
        args.how = NfsOpenHow::Create(NfsCreateHow::Unchecked(attributes.to_fattr(&mut values)));
        operations.push(Operation::Open(args));
        assert_eq!(client.status(&operations), NfsStatus::OK);
        let list = client.attributes(&[b"share", b"dir", name], &[attribute::ACL]).acl.unwrap();
        list.iter().find(|ace| ace.who == b"4005").map(|ace| ace.mask)
    };
    let mode = NfsAttributes { mode: Some(0o644), ..NfsAttributes::default() };
    assert_eq!(made(b"a", mode), Some(AceMask::READ_DATA));
    let mode_umask = Some(ModeUmask { mode: 0o666, umask: 0o022 });
    assert_eq!(made(b"b", NfsAttributes { mode_umask, ..NfsAttributes::default() }), Some(data));
}

#[test]
fn new_file_is_private_until_its_list_is_set() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let list = |who: &'static [u8], count| NfsAttributes {
        mode: Some(0o775),
        ..acl(vec![allow(who, AceMask::READ_DATA); count])
    };
    let mut create = |name: &'static [u8], is_directory: bool, with: &NfsAttributes<'_>| {
        let mut values = Vec::new();
        let attributes = with.to_fattr(&mut values);
        let mut operations = client.walk(&[b"share"]);
        operations.push(match is_directory {
            true => {
                let object_type = CreateType::Directory;
                Operation::Create(CreateArgs { object_type, name, attributes })
            }
            false => {
                let mut args = open_args(name, READ_WRITE, 0, true);
                args.how = NfsOpenHow::Create(NfsCreateHow::Unchecked(attributes));
                Operation::Open(args)
            }
        });
        (client.status(&operations), mode(&mut client, name))
    };
    // On a list that is too long the changes before the list stay undone.
    let too_long = list(b"S-1-5-21-1-2-3-4-5-6-7-8-9-10-11-12-13-14", 700);
    assert_eq!(create(b"file", false, &too_long), (NfsStatus::ATTRNOTSUPP, 0o711));
    assert_eq!(create(b"dir", true, &too_long), (NfsStatus::ATTRNOTSUPP, 0o711));
    assert_eq!(create(b"listed", false, &list(b"4005", 1)).0, NfsStatus::OK);
    assert_eq!(shown(&mut client, b"listed")[0].who, b"4005");
}

#[test]
fn readdir_reports_lists_and_bad_owner_is_refused() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"file");
    let list = vec![allow(b"S-1-5-21-1-2-3-500", AceMask::READ_DATA)];
    assert_eq!(set(&mut client, b"file", &acl(list)), NfsStatus::OK, "whom Windows knows");
    for (bad, expected) in [
        (allow(b"alice", AceMask::READ_DATA), NfsStatus::BADOWNER),
        (
            NfsAce { ace_type: AceType::Alarm, ..allow(b"7", AceMask::READ_DATA) },
            NfsStatus::ATTRNOTSUPP,
        ),
    ] {
        assert_eq!(set(&mut client, b"file", &acl(vec![bad])), expected);
    }
    let mut operations = client.walk(&[b"share"]);
    operations.push(Operation::ReadDir(ReadDirArgs {
        cookie: 0,
        cookie_verifier: Default::default(),
        directory_bytes: 1000,
        bytes_max: 10_000,
        requested: Bitmap4::of(&[attribute::ACL]),
    }));
    client.last(&operations, |r| {
        let listed: ReadDirResult<'_> = r.get().unwrap();
        let list = listed.entries[0].attributes.attributes().unwrap().acl.unwrap();
        assert_eq!(list[0].who, b"S-1-5-21-1-2-3-500");
    });
}
