//! Reported rights agree with the outcome: ACCESS and maximal access against opens that the kernel
//! decides. acl(5), RFC 8881 18.1.

use crate::harness::*;
use acl::{PosixAcl, PosixName};
use files::{
    Access, BasicChange, Caller, Descriptor, ListWish, NewMode, NewObject, ObjectOpen, OpenAt,
    OpenPlan, RequestedKind, ShareMode, XattrSetMode, dos,
};
use std::sync::Arc;
use vfs::{
    Actor, AttributeChanges, AttributeRequest, FsError, Identity, OwnerChange, SecurityChange,
    SpecialKind,
};

const OWNER: u32 = 6000;
const GROUP: u32 = 5000;
const NAMED_USER: u32 = 6001;
const NAMED_GROUP: u32 = 5001;

fn member(uid: u32, gid: u32, groups: &[u32]) -> Arc<Caller> {
    Arc::new(Caller::of(Identity { uid, gid, groups: groups.to_vec() }))
}

/// Users of each class, of several classes, and of none.
fn callers() -> Vec<Arc<Caller>> {
    vec![
        member(OWNER, 7000, &[]),
        member(OWNER, GROUP, &[NAMED_GROUP]),
        member(NAMED_USER, 7000, &[]),
        member(NAMED_USER, GROUP, &[NAMED_GROUP]),
        member(6002, GROUP, &[]),
        member(6002, NAMED_GROUP, &[]),
        member(6002, 7000, &[NAMED_GROUP, GROUP]),
        member(6003, 7000, &[]),
        member(0, 0, &[]),
    ]
}

fn lists() -> Vec<PosixAcl> {
    let of_modes = [0o604, 0o606, 0o640, 0o600, 0o044, 0o064, 0o711, 0o200, 0o000, 0o755];
    let mut lists: Vec<PosixAcl> = of_modes.into_iter().map(PosixAcl::of_mode).collect();
    for (user, group, mask) in [(0, 6, 7), (6, 0, 4), (2, 4, 6), (7, 7, 0), (0, 0, 7)] {
        let named =
            vec![(PosixName::User(NAMED_USER), user), (PosixName::Group(NAMED_GROUP), group)];
        lists.push(PosixAcl { mask: Some(mask), named, ..PosixAcl::of_mode(0o646) });
    }
    lists
}

/// Sets the owner, group and permissions of these tests, without a descriptor.
fn put(served: &ServedVolume, at: &str, list: &PosixAcl) {
    let node = served.look(at, false).unwrap().node;
    let owner = OwnerChange { uid: Some(OWNER), gid: Some(GROUP) };
    let (mode, root) = (Some(list.mode()), Identity::root());
    let change = AttributeChanges { owner, mode, ..AttributeChanges::default() };
    node.set_attributes(root.actor(), &change).unwrap();
    // Permissions are stored with a descriptor, which is removed again.
    let descriptor = Descriptor::default().encode();
    let permissions = Some(list);
    let stored = SecurityChange { descriptor: Some(&descriptor), permissions, ..no_change() };
    node.set_security(Actor::SUPERUSER, &stored).unwrap();
    node.set_security(Actor::SUPERUSER, &no_change()).unwrap();
    // An ACL adds no x bit to files.
    node.set_attributes(root.actor(), &AttributeChanges { mode, ..AttributeChanges::default() })
        .unwrap();
    let is = node.attributes(AttributeRequest::default()).unwrap();
    assert_eq!((is.uid, is.gid, is.mode & 0o777), (OWNER, GROUP, list.mode()));
    if !list.named.is_empty() {
        assert_eq!(node.posix_acl().unwrap().as_ref(), Some(list));
    }
}

fn no_change() -> SecurityChange<'static> {
    SecurityChange { descriptor: None, owner: OwnerChange::default(), permissions: None }
}

#[test]
fn access_agrees_with_open_for_each_class() {
    let served = serve();
    if !served.is_root {
        eprintln!("skipped: needs the superuser, to act as others");
        return;
    }
    served.put("f", b"data");
    for list in lists() {
        put(&served, "f", &list);
        for caller in callers() {
            let root = now(served.files.root_object(&served.volume)).unwrap();
            let object = now(served.files.lookup(&caller, &root, &name("f"))).unwrap();
            let reported = served.files.object_access(&caller, &object).unwrap();
            let shown = {
                let look = plan("f", Access::READ_ATTRIBUTES);
                let open = served.try_open_as(&caller, look).unwrap().open;
                served.files.maximal_access(&open).unwrap()
            };
            for right in [Access::READ_DATA, Access::WRITE_DATA] {
                let plan_of = OpenPlan::posix(right, ShareMode::ALL);
                let at = OpenAt::Object(object.clone());
                let opened =
                    now(served.files.open_object(&caller, &at, plan_of, ObjectOpen::default()));
                // By handle, execute permission grants read.
                let may = reported.contains(right)
                    || (right == Access::READ_DATA && reported.contains(Access::EXECUTE));
                let what = format!("{list:?} {:?} {right:?}", caller.identity);
                assert_eq!(opened.is_ok(), may, "NFS: {what}");
                assert!(matches!(opened, Ok(_) | Err(FsError::AccessDenied)), "{what}");
                let by_path = served.try_open_as(&caller, plan("f", right));
                assert_eq!(by_path.is_ok(), shown.contains(right), "SMB: {what}");
            }
        }
    }
}

#[test]
fn access_agrees_with_open_for_readonly_files() {
    let served = serve();
    served.put("f", b"data");
    served.put_directory("d");
    for (at, is_directory) in [("f", false), ("d", true)] {
        let open = served.open(at, ALL);
        let change = BasicChange { dos_bits: Some(dos::READONLY), ..BasicChange::default() };
        served.files.set_attributes(&open, &change).unwrap();
        served.close(open);
        let object = served.object(at).unwrap();
        for caller in [served.alice.clone(), user(0, 0)] {
            let reported = served.files.object_access(&caller, &object).unwrap();
            for right in [Access::READ_DATA, Access::WRITE_DATA, Access::APPEND_DATA] {
                let may = is_directory || right == Access::READ_DATA;
                assert_eq!(reported.contains(right), may, "{at} {:?} {right:?}", caller.identity);
                let plan_of = OpenPlan::posix(right, ShareMode::ALL);
                let at = OpenAt::Object(object.clone());
                let opened =
                    now(served.files.open_object(&caller, &at, plan_of, ObjectOpen::default()));
                assert!(opened.is_ok() == may || is_directory, "{:?} {right:?}", caller.identity);
            }
        }
    }
}

/// Sets an inode flag with chattr(1); false if that fails. Flags must be cleared again, or the
/// folder cannot be removed.
fn set_flag(served: &ServedVolume, at: &str, flag: &str) -> bool {
    let mut command = std::process::Command::new("chattr");
    command.arg(flag).arg(served.dir.path().join(at)).stderr(std::process::Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn access_agrees_with_open_for_inode_flags() {
    let served = serve();
    served.put("f", b"data");
    served.put_directory("d");
    let reported = |at: &str, caller: &Arc<Caller>| {
        served.files.object_access(caller, &served.object(at).unwrap()).unwrap()
    };
    let callers = [served.alice.clone(), user(0, 0)];
    for (flag, no_flag) in [("+i", "-i"), ("+a", "-a")] {
        for (at, is_directory) in [("f", false), ("d", true)] {
            if !served.is_root || !set_flag(&served, at, flag) {
                eprintln!("skipped: no superuser, or no {flag} here");
                return;
            }
            let access: Vec<Access> = callers.iter().map(|caller| reported(at, caller)).collect();
            let plan = OpenPlan::posix(Access::WRITE_DATA, ShareMode::ALL);
            let object = OpenAt::Object(served.object(at).unwrap());
            let opened = callers.clone().map(|caller| {
                let how = ObjectOpen::default();
                now(served.files.open_object(&caller, &object, plan.clone(), how)).is_ok()
            });
            let added = std::fs::write(served.dir.path().join("d/new"), b"").is_ok();
            let removed = std::fs::remove_file(served.dir.path().join("d/new")).is_ok();
            assert!(set_flag(&served, at, no_flag));
            let may_add = is_directory && flag == "+a";
            for (access, opened) in access.into_iter().zip(opened) {
                assert!(access.contains(Access::READ_DATA), "{at} {flag}");
                assert_eq!(access.contains(Access::WRITE_DATA), may_add, "{at} {flag}");
                assert!(!access.intersects(Access::DELETE_CHILD | Access::WRITE_EA));
                assert!(is_directory || !opened, "{at} {flag}");
            }
            if is_directory {
                assert_eq!((added, removed), (may_add, false), "{flag}");
            }
        }
    }
}

#[test]
fn access_on_read_only_mount_is_read_only() {
    let served = serve();
    served.put("f", b"data");
    served.put_directory("d");
    served.vfs.read_only.store(true, std::sync::atomic::Ordering::Relaxed);
    for (at, caller) in [("f", served.alice.clone()), ("d", user(0, 0))] {
        let object = served.object(at).unwrap();
        let reported = served.files.object_access(&caller, &object).unwrap();
        assert!(reported.contains(Access::READ_DATA), "{at}");
        let changes = Access::WRITE_DATA | Access::APPEND_DATA | Access::DELETE_CHILD;
        assert!(!reported.intersects(changes | Access::WRITE_EA), "{at}");
    }
}

/// Modes and ACLs of directories; with an empty mask the kernel evaluates the mode alone.
fn lists_of_directories() -> Vec<PosixAcl> {
    let of_modes = [0o755, 0o705, 0o750, 0o733, 0o711, 0o744, 0o070, 0o000, 0o1777];
    let mut lists: Vec<PosixAcl> = of_modes.into_iter().map(PosixAcl::of_mode).collect();
    for (user, group, mask, mode) in
        [(0, 7, 7, 0o757), (7, 0, 5, 0o770), (7, 7, 0, 0o707), (0, 0, 0, 0o707), (5, 0, 0, 0o750)]
    {
        let named =
            vec![(PosixName::User(NAMED_USER), user), (PosixName::Group(NAMED_GROUP), group)];
        lists.push(PosixAcl { mask: Some(mask), named, ..PosixAcl::of_mode(mode) });
    }
    lists
}

#[test]
fn access_agrees_with_lookup_readdir_and_create() {
    let served = serve();
    if !served.is_root {
        eprintln!("skipped: needs the superuser, to act as others");
        return;
    }
    served.put_directory("d");
    served.put("d/child", b"data");
    for list in lists_of_directories() {
        put(&served, "d", &list);
        for caller in callers() {
            let directory = served.object("d").unwrap();
            let reported = served.files.object_access(&caller, &directory).unwrap();
            let listed = now(served.files.readdir_object(&caller, &directory, all_of_it()));
            let found = now(served.files.lookup(&caller, &directory, &name("child")));
            let fifo =
                NewObject::Special { kind: SpecialKind::Fifo, mode: Some(NewMode::exactly(0o600)) };
            let made = now(served.files.create_object(&caller, &directory, &name("pipe"), fifo));
            std::fs::remove_file(served.dir.path().join("d/pipe")).ok();
            let what = format!("{list:?} {:?}", caller.identity);
            assert_eq!(listed.is_ok(), reported.contains(Access::READ_DATA), "READDIR: {what}");
            assert_eq!(found.is_ok(), reported.contains(Access::EXECUTE), "LOOKUP: {what}");
            assert_eq!(made.is_ok(), reported.contains(Access::WRITE_DATA), "CREATE: {what}");
            let by_smb = |right| {
                let kind = RequestedKind::Directory;
                served.try_open_as(&caller, OpenPlan { kind, ..plan("d", right) }).is_ok()
            };
            let shown = by_smb(Access::READ_DATA);
            assert_eq!(shown, reported.contains(Access::READ_DATA), "list over SMB: {what}");
            let in_search = reported.contains(Access::EXECUTE);
            if in_search {
                let adds = by_smb(Access::WRITE_DATA);
                assert_eq!(adds, reported.contains(Access::WRITE_DATA), "add over SMB: {what}");
            }
        }
    }
}

fn all_of_it() -> ListWish {
    let (cookie, count_max, name_bytes_max, bytes_max) = (0, 100, 10_000, 100_000);
    let (entry_bytes, handles, stored) = (0, None, false);
    ListWish { cookie, count_max, name_bytes_max, bytes_max, entry_bytes, handles, stored }
}

#[test]
fn xattrs_of_sticky_directory_need_its_owner() {
    let served = serve();
    if !served.is_root {
        eprintln!("skipped: needs the superuser, to act as others");
        return;
    }
    served.put_directory("d");
    for mode in [0o777, 0o1777] {
        put(&served, "d", &PosixAcl::of_mode(mode));
        for caller in [member(OWNER, 7000, &[]), member(6003, 7000, &[])] {
            let directory = served.object("d").unwrap();
            let reported = served.files.object_access(&caller, &directory).unwrap();
            let (value, wish) = (Some(b"value".to_vec()), XattrSetMode::Either);
            let name = xattr_name("name");
            let set = served.files.set_object_xattr(&caller, &directory, &name, value, wish);
            let what = format!("{mode:o} {:?}", caller.identity);
            assert_eq!(now(set).is_ok(), reported.contains(Access::WRITE_EA), "{what}");
        }
    }
}

#[test]
fn execute_over_nfs_follows_x_bits_and_over_smb_read() {
    let served = serve();
    if !served.is_root {
        eprintln!("skipped: needs the superuser, to act as others");
        return;
    }
    served.put("f", b"data");
    let other = member(6003, 7000, &[]);
    let executes = |mode: u32, caller: &Arc<Caller>| {
        put(&served, "f", &PosixAcl::of_mode(mode));
        let root = now(served.files.root_object(&served.volume)).unwrap();
        let object = now(served.files.lookup(caller, &root, &name("f"))).unwrap();
        let open = served.try_open_as(caller, plan("f", Access::READ_ATTRIBUTES)).unwrap().open;
        let by_smb = served.files.maximal_access(&open).unwrap();
        let by_nfs = served.files.object_access(caller, &object).unwrap();
        [by_smb, by_nfs].map(|access| access.contains(Access::EXECUTE))
    };
    assert_eq!(executes(0o644, &other), [true, false]);
    assert_eq!(executes(0o645, &other), [true, true]);
    assert_eq!(executes(0o641, &other), [true, true]);
    assert_eq!(executes(0o640, &other), [false, false]);
    let root = member(0, 0, &[]);
    assert_eq!(executes(0o644, &root), [true, false]);
    assert_eq!(executes(0o700, &root), [true, true]);
}

#[test]
fn open_of_another_user_needs_current_permissions() {
    let served = serve();
    if !served.is_root {
        eprintln!("skipped: needs the superuser, to act as others");
        return;
    }
    served.put("f", b"data");
    put(&served, "f", &PosixAcl::of_mode(0o644));
    let (owner, other) = (member(OWNER, GROUP, &[]), member(6003, 7000, &[]));
    let root = now(served.files.root_object(&served.volume)).unwrap();
    let object = now(served.files.lookup(&owner, &root, &name("f"))).unwrap();
    let both = OpenPlan::posix(Access::READ_DATA | Access::WRITE_DATA, ShareMode::ALL);
    let at = OpenAt::Object(object);
    let open = now(served.files.open_object(&owner, &at, both, ObjectOpen::default()));
    let open = open.unwrap().open;
    let may = |caller: &Caller, right| served.files.authorize_by_open(&open, caller, right);
    let denied = Err(FsError::AccessDenied);
    assert_eq!(may(&other, Access::READ_DATA), Ok(()));
    assert_eq!(may(&other, Access::WRITE_DATA), denied);
    put(&served, "f", &PosixAcl::of_mode(0o000));
    assert_eq!(may(&other, Access::READ_DATA), denied);
    assert_eq!(may(&owner, Access::WRITE_DATA), Ok(()), "it has it open");
    let in_other_groups = member(OWNER, 7000, &[]);
    assert_eq!(may(&in_other_groups, Access::WRITE_DATA), Ok(()), "the owner");
    assert_eq!(may(&member(0, 0, &[]), Access::WRITE_DATA), Ok(()));
    put(&served, "f", &PosixAcl::of_mode(0o711));
    assert_eq!(may(&other, Access::READ_DATA), Ok(()), "a program");
    assert_eq!(may(&other, Access::WRITE_DATA), denied);
}
