//! Descriptors: checked, inherited, changed. MS-DTYP 2.5.3, MS-FSA 2.1.5.17.

use crate::harness::*;
use acl::{Ace, control};
use files::{Access, Descriptor, OpenPlan, SecurityParts, Sid};
use vfs::FsError;

const LIST: SecurityParts = SecurityParts { owner: false, group: false, dacl: true, sacl: false };
const OWNER: SecurityParts = SecurityParts { owner: true, group: false, dacl: false, sacl: false };

fn list(entries: Vec<Ace>) -> Descriptor {
    Descriptor { control: control::DACL_PRESENT, dacl: Some(entries), ..Descriptor::default() }
}

fn inherited_by_all(sid: Sid, access: Access) -> Ace {
    Ace { flags: Ace::CONTAINER_INHERIT | Ace::OBJECT_INHERIT, ..Ace::allow(sid, access) }
}

/// None where descriptors cannot be stored, or users cannot be told apart.
fn serve_two() -> Option<Served> {
    let served = serve();
    if !served.is_root {
        eprintln!("skipped: needs the superuser, who alone may store descriptors");
        return None;
    }
    Some(served)
}

#[test]
fn a_stored_list_decides_who_may_do_what() {
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

#[test]
fn what_is_made_inherits_and_its_maker_has_what_was_asked_for() {
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
    served.files.set_descriptor(&directory, &list(entries), LIST).unwrap();
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
fn the_directory_s_list_decides_what_may_be_made_in_it() {
    let Some(served) = serve_two() else { return };
    served.put_directory("directory");
    served.put("outside", b"");
    let directory = served.open("directory", ALL);
    // The right that makes files is there, the one that makes directories is not.
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
fn deleting_is_granted_by_the_file_or_by_its_directory() {
    let Some(served) = serve_two() else { return };
    served.put("file", b"");
    let entries = vec![Ace::allow(Sid::everyone(), Access::FILE_READ)];
    let open = served.open("file", ALL);
    served.files.set_descriptor(&open, &list(entries), LIST).unwrap();
    served.close(open);
    let mallory = user(4002, 4002);
    // The root directory may be written to by all, and so be emptied by all.
    assert!(served.try_open_as(&mallory, plan("file", DELETE)).is_ok());
    served.set_mode("", 0o755);
    assert_eq!(
        served.try_open_as(&mallory, plan("file", DELETE)).unwrap_err(),
        FsError::AccessDenied
    );
}

#[test]
fn each_part_needs_its_right() {
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
fn a_file_is_given_away_to_nobody_and_taken_by_who_may() {
    let Some(served) = serve_two() else { return };
    served.put("file", b"");
    let open = served.open("file", ALL);
    let owner = |uid| Descriptor { owner: Some(Sid::unix_user(uid)), ..Descriptor::default() };
    assert_eq!(served.files.set_descriptor(&open, &owner(4002), OWNER), Err(FsError::AccessDenied));
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
fn a_given_descriptor_without_a_list_is_not_one_that_lets_everyone_in() {
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
    assert_eq!(served.refusal(plan("file", Access::SYSTEM_SECURITY)), FsError::AccessDenied);
    let made = OpenPlan { desired: ALL | Access::SYSTEM_SECURITY, ..new_file("new") };
    assert_eq!(served.refusal(made), FsError::AccessDenied);
    assert!(!served.exists("new"));
}
