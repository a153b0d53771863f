//! Descriptors: access checks, inheritance, changes. MS-DTYP 2.5.3, MS-FSA 2.1.5.17.

use crate::harness::*;
use acl::{Ace, AceKind, control};
use files::{Access, Descriptor, OpenPlan, SecurityParts, Sid};
use std::os::unix::fs::PermissionsExt;
use vfs::{AttributeRequest, Case, FsError, Identity, OpenHow, Vfs, Wait};

const LIST: SecurityParts = SecurityParts { owner: false, group: false, dacl: true, sacl: false };
const OWNER: SecurityParts = SecurityParts { owner: true, group: false, dacl: false, sacl: false };

fn list(entries: Vec<Ace>) -> Descriptor {
    Descriptor { control: control::DACL_PRESENT, dacl: Some(entries), ..Descriptor::default() }
}

fn inherited_by_all(sid: Sid, access: Access) -> Ace {
    Ace { flags: Ace::CONTAINER_INHERIT | Ace::OBJECT_INHERIT, ..Ace::allow(sid, access) }
}

/// None where descriptors cannot be stored, or without several users.
fn serve_two() -> Option<ServedVolume> {
    let served = serve();
    if !served.is_root {
        eprintln!("skipped: needs root to store descriptors");
        return None;
    }
    Some(served)
}

#[test]
fn stored_acl_decides_access() {
    let Some(served) = serve_two() else { return };
    served.put("file", b"data");
    served.set_mode("file", 0o666);
    let mallory = user(4002, 4002);
    let open = served.open("file", ALL);
    let entries = vec![
        Ace::allow(Sid::unix_user(served.alice.identity.uid), Access::FILE_ALL),
        Ace::allow(Sid::unix_user(4002), Access::FILE_READ),
    ];
    served.files.set_descriptor(&open, &list(entries), LIST).unwrap();
    assert!(served.try_open_as(&mallory, plan("file", READ)).is_ok());
    assert_eq!(
        served.try_open_as(&mallory, plan("file", WRITE)).unwrap_err(),
        FsError::AccessDenied
    );
    let most = served.try_open_as(&mallory, plan("file", Access::MAXIMUM_ALLOWED)).unwrap().open;
    assert_eq!(most.granted() - DELETE, Access::FILE_READ);
    assert_eq!(served.files.maximal_access(&most).unwrap(), Access::FILE_READ);
}

/// As on `/tmp`. A client with DELETE could break leases by a rename that POSIX finally refuses.
#[test]
fn sticky_directory_withholds_delete_from_others() {
    let Some(served) = serve_two() else { return };
    served.put_directory("directory");
    served.put("directory/file", b"data");
    served.set_mode("directory/file", 0o666);
    let mallory = user(4002, 4002);
    let most = plan("directory/file", Access::MAXIMUM_ALLOWED);
    for (mode, is_granted) in [(0o1777, false), (0o777, true)] {
        served.set_mode("directory", mode);
        let open = served.try_open_as(&mallory, most.clone()).unwrap().open;
        assert_eq!(open.granted().contains(DELETE), is_granted, "{mode:o}");
        let asked = served.try_open_as(&mallory, plan("directory/file", DELETE));
        assert_eq!(asked.is_ok(), is_granted, "{mode:o}");
    }
}

#[test]
fn new_file_inherits_and_creator_gets_requested_rights() {
    let Some(served) = serve_two() else { return };
    served.put_directory("directory");
    let directory = served.open("directory", ALL);
    let entries = vec![
        inherited_by_all(
            Sid::unix_user(served.alice.identity.uid),
            Access::FILE_READ | Access::FILE_WRITE,
        ),
        inherited_by_all(Sid::unix_user(4002), Access::FILE_READ),
    ];
    let kept_in_step = control::DACL_AUTO_INHERIT_REQ | control::DACL_AUTO_INHERITED;
    let mut given = list(entries);
    given.control |= kept_in_step;
    served.files.set_descriptor(&directory, &given, LIST).unwrap();
    served.close(directory);
    let made = served.try_open(new_file("directory/file")).unwrap().open;
    assert_eq!(made.granted(), Access::FILE_ALL);
    let found = served.files.descriptor(&made, LIST).unwrap().dacl.unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|ace| ace.flags & Ace::INHERITED != 0));
    served.close(made);
    assert_eq!(served.refusal(plan("directory/file", Access::EXECUTE)), FsError::AccessDenied);
}

#[test]
fn directory_acl_decides_creation() {
    let Some(served) = serve_two() else { return };
    served.put_directory("directory");
    served.put("outside", b"");
    let directory = served.open("directory", ALL);
    // ADD_FILE is granted, ADD_SUBDIRECTORY is not.
    let access = Access::FILE_READ | Access::WRITE_DATA | Access::EXECUTE;
    let entries = vec![Ace::allow(Sid::everyone(), access)];
    served.files.set_descriptor(&directory, &list(entries), LIST).unwrap();
    assert!(served.try_open(new_file("directory/file")).is_ok());
    assert_eq!(served.refusal(new_directory("directory/sub")), FsError::AccessDenied);
    let entries = vec![Ace::allow(Sid::everyone(), Access::FILE_READ | Access::EXECUTE)];
    served.files.set_descriptor(&directory, &list(entries), LIST).unwrap();
    assert_eq!(served.refusal(new_file("directory/another")), FsError::AccessDenied);
    let outside = served.open("outside", ALL);
    let moved = now(served.files.rename(&outside, &path("directory/moved"), false));
    assert_eq!(moved, Err(FsError::AccessDenied));
}

#[test]
fn delete_is_granted_by_file_or_directory() {
    let Some(served) = serve_two() else { return };
    served.put("file", b"");
    let entries = vec![Ace::allow(Sid::everyone(), Access::FILE_READ)];
    let open = served.open("file", ALL);
    served.files.set_descriptor(&open, &list(entries), LIST).unwrap();
    served.close(open);
    let mallory = user(4002, 4002);
    // Everyone may write to the root directory, and so remove its entries.
    assert!(served.try_open_as(&mallory, plan("file", DELETE)).is_ok());
    served.set_mode("", 0o755);
    assert_eq!(
        served.try_open_as(&mallory, plan("file", DELETE)).unwrap_err(),
        FsError::AccessDenied
    );
}

#[test]
fn each_descriptor_part_needs_its_right() {
    let Some(served) = serve_two() else { return };
    served.put("file", b"");
    let open = served.open("file", Access::READ_CONTROL);
    let parts = SecurityParts { owner: true, group: true, dacl: true, sacl: false };
    let found = served.files.descriptor(&open, parts).unwrap();
    assert_eq!(found.owner, Some(Sid::unix_user(served.alice.identity.uid)));
    assert!(served.files.descriptor(&open, SecurityParts { sacl: true, ..parts }).is_err());
    assert_eq!(served.files.set_descriptor(&open, &list(vec![]), LIST), Err(FsError::AccessDenied));
    assert_eq!(
        served.files.set_descriptor(&open, &list(vec![]), OWNER),
        Err(FsError::AccessDenied)
    );
    assert!(served.files.descriptor(&served.open("file", LOOK), parts).is_err());
}

#[test]
fn file_is_taken_with_right_and_never_given_away() {
    let Some(served) = serve_two() else { return };
    served.put("file", b"");
    let open = served.open("file", ALL);
    let owner = |uid| Descriptor { owner: Some(Sid::unix_user(uid)), ..Descriptor::default() };
    assert_eq!(served.files.set_descriptor(&open, &owner(4002), OWNER), Err(FsError::InvalidOwner));
    served
        .files
        .set_descriptor(&open, &owner(served.alice.identity.uid), OWNER)
        .expect("their own already");
    served.close(open);
    let root = served.try_open_as(&user(0, 0), plan("file", ALL)).unwrap().open;
    served.files.set_descriptor(&root, &owner(4002), OWNER).unwrap();
    assert_eq!(served.look("file", false).unwrap().attributes.uid, 4002);
}

#[test]
fn foreign_primary_group_is_stored_and_the_posix_group_stays() {
    let Some(served) = serve_two() else { return };
    served.put("file", b"");
    let open = served.open("file", ALL);
    let parts = SecurityParts { group: true, ..SecurityParts::default() };
    let set = |group: Sid| {
        let descriptor = Descriptor { group: Some(group), ..Descriptor::default() };
        served.files.set_descriptor(&open, &descriptor, parts)
    };
    let before = served.look("file", false).unwrap().attributes;
    for foreign in [Sid::new(5, &[21, 1, 2, 3, 513]), Sid::new(5, &[32, 545])] {
        assert_eq!(set(foreign.clone()), Ok(()));
        assert_eq!(served.files.descriptor(&open, parts).unwrap().group, Some(foreign));
    }
    let after = served.look("file", false).unwrap().attributes;
    assert_eq!((after.uid, after.gid, after.mode), (before.uid, before.gid, before.mode));
    assert_eq!(set(Sid::unix_group(4002)), Err(FsError::AccessDenied), "a group of others");
}

#[test]
fn descriptor_without_dacl_is_not_null_dacl() {
    let Some(served) = serve_two() else { return };
    let owner_only = Descriptor {
        owner: Some(Sid::unix_user(served.alice.identity.uid)),
        ..Descriptor::default()
    };
    let plan_made = OpenPlan { descriptor: Some(owner_only.encode()), ..new_file("file") };
    served.close(served.try_open(plan_made).unwrap().open);
    let mallory = user(4002, 4002);
    assert_eq!(
        served.try_open_as(&mallory, plan("file", WRITE)).unwrap_err(),
        FsError::AccessDenied
    );
}

#[test]
fn audit_lists_need_the_privilege() {
    let served = serve();
    served.put("file", b"");
    assert_eq!(served.refusal(plan("file", Access::SYSTEM_SECURITY)), FsError::PrivilegeNotHeld);
    let made = OpenPlan { desired: ALL | Access::SYSTEM_SECURITY, ..new_file("new") };
    assert_eq!(served.refusal(made), FsError::PrivilegeNotHeld);
    assert!(!served.exists("new"));
}

fn mode_of(served: &ServedVolume, at: &str) -> u32 {
    served.look(at, false).unwrap().attributes.mode
}

fn set_list(served: &ServedVolume, at: &str, entries: Vec<Ace>) {
    let open = served.try_open_as(&user(0, 0), plan(at, Access::WRITE_DAC)).unwrap().open;
    served.files.set_descriptor(&open, &list(entries), LIST).unwrap();
}

#[test]
fn stored_acl_grants_beyond_mode() {
    let Some(served) = serve_two() else { return };
    served.put_directory("directory");
    served.put("directory/file", b"data");
    served.set_mode("directory", 0o755);
    served.set_mode("directory/file", 0o600);
    let mallory = user(4002, 4002);
    let denied =
        |plan| assert_eq!(served.try_open_as(&mallory, plan).unwrap_err(), FsError::AccessDenied);
    denied(plan("directory/file", READ));
    denied(new_file("directory/new"));
    // By a group whose members the mode cannot represent.
    let members = || Ace::allow(Sid::network(), Access::FILE_ALL);
    set_list(&served, "directory/file", vec![members()]);
    set_list(&served, "directory", vec![members(), Ace::allow(Sid::everyone(), Access::EXECUTE)]);
    assert_eq!(mode_of(&served, "directory/file"), 0, "local users gain nothing by it");
    let open = served.try_open_as(&mallory, plan("directory/file", READ | WRITE)).unwrap().open;
    served.files.write(open.caller(), &open, 0, b"DATA").unwrap();
    served.files.set_xattr(&open, &xattr_name("attribute"), Some(b"x")).unwrap();
    let most = plan("directory/file", Access::MAXIMUM_ALLOWED);
    let most = served.try_open_as(&mallory, most).unwrap().open;
    assert_eq!(most.granted(), ALL);
    now(served.files.rename(&most, &path("directory/renamed"), false)).unwrap();
    let made = served.try_open_as(&mallory, new_file("directory/new")).unwrap();
    assert_eq!((made.attributes.uid, made.attributes.gid), (4002, 4002));
    served.files.set_delete(&most, true, false).unwrap();
    drop((open, most));
    assert!(!served.exists("directory/renamed"), "deleted, where POSIX would not have it");
}

#[test]
fn mode_follows_acl_and_new_mode_drops_it() {
    let Some(served) = serve_two() else { return };
    let owner = served.alice.identity.uid;
    served.put("file", b"data");
    let (deny, mallory) = (Access::FILE_WRITE, Sid::unix_user(4002));
    set_list(
        &served,
        "file",
        vec![
            Ace { kind: AceKind::Deny, ..Ace::allow(mallory.clone(), deny) },
            Ace::allow(Sid::unix_user(owner), Access::FILE_ALL),
            Ace::allow(mallory, Access::FILE_READ | Access::FILE_WRITE),
        ],
    );
    // The mask, which bounds the named user, takes the place of the group bits.
    assert_eq!(mode_of(&served, "file"), 0o640);
    let file = served.dir.path().join("file");
    let reads = |uid| {
        served
            .vfs
            .open(
                (Identity { uid, gid: uid, groups: vec![] }).actor(),
                &path("file"),
                OpenHow {
                    read: true,
                    write: false,
                    case: Case::Sensitive,
                    wanted: AttributeRequest::default(),
                    no_follow: false,
                    wait: Wait::Allowed,
                },
            )
            .is_ok()
    };
    assert!(reads(owner) && reads(4002) && !reads(4003), "local users see it too");
    let found = |served: &ServedVolume| {
        let open = served.open("file", Access::READ_CONTROL);
        served.files.descriptor(&open, LIST).unwrap().dacl.unwrap()
    };
    assert_eq!(found(&served).len(), 3);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let shown = found(&served);
    assert_eq!(shown[0], Ace::allow(Sid::unix_user(owner), Access::FILE_ALL));
    assert!(shown.iter().all(|ace| ace.kind == AceKind::Allow), "from the present permissions");
    assert!(served.try_open_as(&user(4002, 4002), plan("file", READ)).is_err());
}

#[test]
fn file_acl_does_not_bypass_directory_search() {
    let Some(served) = serve_two() else { return };
    served.put_directory("closed");
    served.put("closed/file", b"");
    set_list(&served, "closed/file", vec![Ace::allow(Sid::everyone(), Access::FILE_ALL)]);
    served.set_mode("closed", 0o700);
    let mallory = user(4002, 4002);
    assert!(served.try_open_as(&mallory, plan("closed/file", READ)).is_err());
}
