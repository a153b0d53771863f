//! NFS clients, which use handles, beside clients that use paths.

use crate::harness::*;
use crate::watch::EVERYTHING;
use files::{
    Access, HandleSeal, IfExists, IfMissing, ListWish, ListedObject, LockKind, LockOwner, NamedAce,
    NamedList, NamedWho, NewMode, NewObject, Object, ObjectChanges, ObjectListSink, ObjectOpen,
    OpenAction, OpenAt, OpenFile, OpenPlan, OpenResult, OwnerLockOutcome, Range, RangeLock,
    SecurityParts, ShareMode, Sid, VolumeId, VolumeOptions, XattrSetMode,
};
use futures_util::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfs::{FileKind, FsError, Result, SpecialKind, TimeChange, Timestamp};

const V: VolumeId = VolumeId(7);

impl ServedVolume {
    pub fn root(&self) -> Object {
        now(self.files.root_object(&self.volume)).unwrap()
    }

    pub fn object(&self, at: &str) -> Result<Object> {
        let mut object = self.root();
        for part in at.split('/') {
            object = now(self.files.lookup(&self.alice, &object, &name(part)))?;
        }
        Ok(object)
    }

    fn find(&self, bytes: &[u8]) -> Result<Object> {
        let handle = self.files.parse_handle(bytes)?;
        assert_eq!(handle.volume(), V);
        now(self.files.find_object(&self.volume, &handle))
    }

    fn handle(&self, object: &Object) -> Vec<u8> {
        self.files.handle(V, object).unwrap().as_bytes().to_vec()
    }

    fn make(&self, directory: &Object, at: &str, new: NewObject) -> Result<Object> {
        now(self.files.create_object(&self.alice, directory, &name(at), new))
    }

    fn remove(&self, directory: &Object, at: &str) -> Result<()> {
        now(self.files.remove_object(&self.alice, directory, &name(at)))
    }

    fn open_at(&self, at: OpenAt, plan: OpenPlan) -> Result<OpenResult> {
        now(self.files.open_object(&self.alice, &at, plan, ObjectOpen::default()))
    }

    fn create_in(&self, directory: &Object, at: &str) -> Result<OpenResult> {
        self.open_at(OpenAt::Name(directory.clone(), name(at)), exclusively())
    }
}

/// Creates a file that must not exist, with all rights.
fn exclusively() -> OpenPlan {
    OpenPlan {
        if_exists: IfExists::Fail,
        if_missing: IfMissing::Create,
        ..OpenPlan::posix(READ | WRITE, ShareMode::ALL)
    }
}

fn of(object: &Object) -> OpenAt {
    OpenAt::Object(object.clone())
}

#[test]
fn handle_survives_renames_and_restart() {
    let served = serve();
    let root = served.root();
    let directory = served
        .make(&root, "d", NewObject::Directory { mode: Some(NewMode::exactly(0o755)) })
        .unwrap();
    served.put("d/f", b"x");
    let file = served.object("d/f").unwrap();
    let handles = [&root, &directory, &file].map(|object| served.handle(object));
    now(served.files.rename_object(&served.alice, (&root, &name("d")), (&root, &name("e"))))
        .unwrap();
    let keys = handles.each_ref().map(|bytes| served.find(bytes).unwrap().key());
    assert_eq!(keys, [root.key(), directory.key(), file.key()]);
    let again = Arc::new(files::Files::new(Arc::new(Inline))).for_server();
    let handle = again.parse_handle(&handles[2]).unwrap();
    let found = now(again.find_object(&served.volume, &handle)).unwrap();
    assert_eq!(found.key(), file.key());
    served.remove(&served.object("e").unwrap(), "f").unwrap();
    drop((file, found));
    assert_eq!(served.find(&handles[2]).unwrap_err(), FsError::Stale);
}

#[derive(Debug)]
struct Seal(u8);

impl HandleSeal for Seal {
    fn seal(&self, bytes: &[u8]) -> [u8; 8] {
        let sum = bytes.iter().fold(u64::from(self.0), |sum, byte| {
            sum.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(u64::from(*byte))
        });
        sum.to_le_bytes()
    }
}

#[test]
fn sealed_handles_cannot_be_forged() {
    let served = serve();
    let sealed = files::Files::new(Arc::new(Inline)).with_handle_seal(Arc::new(Seal(1)));
    let handle = sealed.handle(V, &served.root()).unwrap();
    let bytes = handle.as_bytes();
    assert!(bytes.len() <= files::ObjectHandle::BYTES_MAX);
    assert_eq!(sealed.parse_handle(bytes), Ok(handle.clone()));
    for at in 0..bytes.len() {
        let mut other = bytes.to_vec();
        other[at] ^= 1;
        assert_eq!(sealed.parse_handle(&other), Err(FsError::InvalidParameter), "byte {at}");
        assert!(sealed.parse_handle(&bytes[..at]).is_err(), "{at} bytes");
    }
    let other = files::Files::new(Arc::new(Inline)).with_handle_seal(Arc::new(Seal(2)));
    assert!(other.parse_handle(bytes).is_err(), "of another server");
    assert!(served.files.parse_handle(bytes).is_err(), "sealed, where none are");
}

#[test]
fn names_lead_down_and_up_but_not_out() {
    let options = VolumeOptions { absolute_links: true, ..VolumeOptions::default() };
    let served = serve_with(options, Arc::new(Inline));
    let directory = served.make(&served.root(), "d", NewObject::Directory { mode: None }).unwrap();
    served.put("d/f", b"");
    let target = b"../..".to_vec();
    let link = served.make(&directory, "l", NewObject::Symlink { target: target.clone() }).unwrap();
    let up = |object: &Object| now(served.files.lookup_parent(&served.alice, object));
    assert_eq!(up(&directory).unwrap().key(), served.root().key());
    assert!(up(&directory).unwrap().is_root());
    assert_eq!(up(&served.root()).unwrap_err(), FsError::NotFound);
    assert_eq!(served.object("d/x").unwrap_err(), FsError::NotFound);
    assert_eq!(served.object("d/F").unwrap_err(), FsError::NotFound, "byte for byte");
    assert_eq!(served.object("d/f/x").unwrap_err(), FsError::NotDirectory);
    assert_eq!(served.object("d/l/x").unwrap_err(), FsError::IsSymlink);
    assert_eq!(link.kind(), FileKind::Symlink);
    assert_eq!(now(served.files.readlink_object(&served.alice, &link)), Ok(target));
}

#[test]
fn create_follows_moved_directory() {
    let served = serve();
    let directory = served.make(&served.root(), "d", NewObject::Directory { mode: None }).unwrap();
    std::fs::rename(served.dir.path().join("d"), served.dir.path().join("moved")).unwrap();
    std::fs::create_dir(served.dir.path().join("d")).unwrap();
    let made = served.create_in(&directory, "f").unwrap();
    assert_eq!(made.open.path(), path("moved/f"));
    served
        .make(&directory, "p", NewObject::Special { kind: SpecialKind::Fifo, mode: None })
        .unwrap();
    assert!(served.dir.path().join("moved/p").exists() && !served.dir.path().join("d/p").exists());
    served.close(made.open);
    std::fs::remove_dir(served.dir.path().join("d")).unwrap();
    std::fs::remove_dir_all(served.dir.path().join("moved")).unwrap();
    assert_eq!(served.create_in(&directory, "g").unwrap_err(), FsError::Stale);
}

#[test]
fn create_during_directory_move_stays_in_it() {
    let served = serve();
    let directory = served.make(&served.root(), "d", NewObject::Directory { mode: None }).unwrap();
    served.hook({
        let mut once = Some(served.dir.path().to_path_buf());
        move |_, at, _| {
            if at == HookPoint::BeforeCreate
                && let Some(top) = once.take()
            {
                std::fs::rename(top.join("d"), top.join("moved")).unwrap();
                std::fs::create_dir(top.join("d")).unwrap();
                let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
                std::fs::set_permissions(top.join("d"), open).unwrap();
            }
            Ok(())
        }
    });
    let made = served.create_in(&directory, "f").unwrap();
    assert_eq!(made.open.path(), path("moved/f"));
    assert!(!served.dir.path().join("d/f").exists(), "the misplaced file was removed");
}

#[test]
fn open_by_handle_ignores_reused_name() {
    let served = serve();
    served.put("f", b"mine");
    let object = served.object("f").unwrap();
    std::fs::rename(served.dir.path().join("f"), served.dir.path().join("g")).unwrap();
    served.put("f", b"other");
    let open = served.open_at(of(&object), OpenPlan::posix(READ, ShareMode::ALL)).unwrap().open;
    assert_eq!((open.key(), open.path()), (object.key(), path("g")));
    assert_eq!(served.read(&open).unwrap(), b"mine");
}

#[test]
fn unlinked_file_serves_its_opens() {
    let served = serve();
    if !served.is_root {
        return; // Handles are places there, and it is at none.
    }
    let root = served.root();
    let made = served.create_in(&root, "f").unwrap();
    let object = made.open.object();
    let handle = served.handle(&object);
    served.files.write(made.open.caller(), &made.open, 0, b"kept").unwrap();
    served.remove(&root, "f").unwrap();
    assert_eq!(served.object("f").unwrap_err(), FsError::NotFound);
    let found = served.find(&handle).unwrap();
    assert_eq!(served.files.object_attributes(&found).unwrap().links, 0);
    let again = served.open_at(of(&found), OpenPlan::posix(READ, ShareMode::ALL)).unwrap().open;
    assert_eq!(served.read(&again).unwrap(), b"kept");
    served.close(again);
    served.close(made.open);
    assert_eq!(served.find(&handle).unwrap_err(), FsError::Stale, "no client has it open");
}

#[test]
fn nfs_share_modes_and_removals_meet_windows_opens() {
    let served = serve();
    let root = served.root();
    served.put("f", b"");
    let object = served.object("f").unwrap();
    let plan = |access, share| OpenPlan::posix(access, share);
    let windows =
        served.try_open(OpenPlan { share: ShareMode::READ, ..crate::harness::plan("f", READ) });
    let windows = windows.unwrap().open;
    let refused = |result: Result<OpenResult>| result.map(|r| r.action).unwrap_err();
    assert_eq!(
        refused(served.open_at(of(&object), plan(WRITE, ShareMode::ALL))),
        FsError::ShareViolation
    );
    assert_eq!(served.remove(&root, "f"), Err(FsError::ShareViolation));
    let size = ObjectChanges { size_bytes: Some(3), ..Default::default() };
    let set = |by| now(served.files.set_object_attributes(&served.alice, &object, by, &size));
    assert_eq!(set(None), Err(FsError::ShareViolation), "cutting is writing");
    served.close(windows);
    let reader = served.open_at(of(&object), plan(READ, ShareMode(5))).unwrap().open;
    assert_eq!(served.refusal(crate::harness::plan("f", WRITE)), FsError::ShareViolation);
    assert_eq!(set(None), Err(FsError::ShareViolation));
    served.close(reader);
    let writer = served.open_at(of(&object), plan(READ | WRITE, ShareMode::READ)).unwrap().open;
    assert_eq!(set(None), Err(FsError::ShareViolation));
    assert_eq!(set(Some(&writer)), Ok(()));
    assert_eq!(served.files.object_attributes(&object).unwrap().size_bytes, 3);
}

#[test]
fn open_is_upgraded_in_place_and_downgraded() {
    let served = serve();
    served.put("f", b"");
    let object = served.object("f").unwrap();
    let plan = |access, share| OpenPlan::posix(access, share);
    let alone = ShareMode::READ;
    let first = served.open_at(of(&object), plan(READ, alone)).unwrap().open;
    let wanted = RangeLock { range: Range::to_end(0), kind: LockKind::Exclusive };
    let lock = served.files.lock_owned(&first, LockOwner(1), wanted, &HOLDER);
    assert_eq!(lock, Ok(OwnerLockOutcome::Granted));
    let other = served.open_at(of(&object), plan(READ, ShareMode::ALL)).unwrap().open;
    let upgrade = |share| {
        let with = ObjectOpen { instead_of: Some(first.clone()), ..Default::default() };
        now(served.files.open_object(&served.alice, &of(&object), plan(READ | WRITE, share), with))
    };
    assert_eq!(upgrade(ShareMode(0)).map(|o| o.action).unwrap_err(), FsError::ShareViolation);
    assert_eq!(
        served.refusal(crate::harness::plan("f", WRITE)),
        FsError::ShareViolation,
        "as before"
    );
    let second = upgrade(alone).unwrap().open;
    let range = RangeLock { range: Range::to_end(0), kind: LockKind::Shared };
    let gone = served.files.lock_owned(&first, LockOwner(2), range, &HOLDER);
    assert_eq!(gone, Err(FsError::RangeNotLocked), "another has taken its place");
    served.close(first.clone());
    assert!(second.has_locks_of(LockOwner(1)), "they came along");
    served.files.write(second.caller(), &second, 0, b"x").unwrap();
    assert_eq!(served.refusal(crate::harness::plan("f", WRITE)), FsError::ShareViolation);
    assert_eq!(
        served.files.downgrade(&second, ALL, ShareMode::ALL),
        Err(FsError::InvalidParameter)
    );
    served.files.downgrade(&second, READ, ShareMode::ALL).unwrap();
    assert_eq!(served.files.write(second.caller(), &second, 0, b"x"), Err(FsError::AccessDenied));
    assert!(served.try_open(crate::harness::plan("f", WRITE)).is_ok());
    drop(other);
    served.close(second.clone());
    assert_eq!(served.files.downgrade(&second, Access::NONE, ShareMode::ALL), Err(FsError::Stale));
    assert_eq!(served.files.open_file_count(), 0);
}

/// A concurrent rename makes the open retry: its first entry is withdrawn, and locks to be
/// transferred must remain with the previous open.
#[test]
fn upgrade_retains_locks_despite_concurrent_rename() {
    let served = serve();
    served.put("f", b"");
    served.put("other", b"");
    let object = served.object("f").unwrap();
    let first = served.open_at(of(&object), OpenPlan::posix(READ, ShareMode::ALL)).unwrap().open;
    let wanted = RangeLock { range: Range::to_end(0), kind: LockKind::Exclusive };
    let lock = |open: &Arc<OpenFile>, owner| {
        served.files.lock_owned(open, LockOwner(owner), wanted, &HOLDER)
    };
    assert_eq!(lock(&first, 1), Ok(OwnerLockOutcome::Granted));
    let mover = served.open("other", DELETE);
    let files = served.files.clone();
    served.hook_once(HookPoint::AfterOpen, move |_| {
        now(files.rename(&mover, &path("moved"), false)).unwrap();
    });
    let with = ObjectOpen { instead_of: Some(first.clone()), ..Default::default() };
    let plan = OpenPlan::posix(READ | WRITE, ShareMode::ALL);
    let second = now(served.files.open_object(&served.alice, &of(&object), plan, with)).unwrap();
    assert!(served.exists("moved"), "it was renamed in between");
    served.close(first);
    assert!(second.open.has_locks_of(LockOwner(1)));
    assert!(matches!(lock(&second.open, 2), Ok(OwnerLockOutcome::Denied(_))));
}

#[test]
fn exclusive_create_replays_for_its_verifier_only() {
    let served = serve();
    let create = |verifier: &[u8; 8]| {
        let with = ObjectOpen { verifier: Some(*verifier), ..Default::default() };
        let at = OpenAt::Name(served.root(), name("f"));
        now(served.files.open_object(&served.alice, &at, exclusively(), with))
    };
    let made = create(b"one made").unwrap();
    assert_eq!(made.action, OpenAction::Created);
    let key = made.open.key();
    served.close(made.open);
    let again = create(b"one made").unwrap();
    assert_eq!((again.action, again.open.key()), (OpenAction::Created, key));
    assert_eq!(create(b"two made").map(|o| o.action).unwrap_err(), FsError::AlreadyExists);
    assert_eq!(served.create_in(&served.root(), "f").unwrap_err(), FsError::AlreadyExists);
    let listed = now(served.files.object_xattr_names(&served.alice, &again.open.object()));
    assert_eq!(listed, Ok(vec![]));
}

#[test]
fn exclusive_create_replays_without_read_permission() {
    let served = serve();
    let mode = Some(NewMode::exactly(0o200));
    let create = || {
        let with = ObjectOpen { verifier: Some(*b"one made"), ..Default::default() };
        let at = OpenAt::Name(served.root(), name("f"));
        let plan = OpenPlan { mode, desired: WRITE, ..exclusively() };
        let opened = now(served.files.open_object(&served.alice, &at, plan, with))?;
        served.files.write(opened.open.caller(), &opened.open, 0, b"x").map(|()| opened.action)
    };
    assert_eq!([create(), create()], [Ok(OpenAction::Created), Ok(OpenAction::Created)]);
}

#[test]
fn extended_attributes_are_read_after_other_users() {
    let served = serve();
    served.put("f", b"");
    let (note, bob) = (xattr_name("note"), user(4002, 4002));
    let object = served.object("f").unwrap();
    let (value, wish) = (Some(b"text".to_vec()), XattrSetMode::Create);
    let set = served.files.set_object_xattr(&served.alice, &object, &note, value, wish);
    now(set).unwrap();
    served.set_mode("f", 0o600);
    let open = served.open("f", Access::READ_EA);
    let directory = served.open("", READ);
    let bob_is_served = || drop(now(served.files.lookup(&bob, &served.root(), &name("f"))));
    bob_is_served();
    let read = now(served.files.object_xattr(&served.alice, &object, &note));
    assert_eq!(read, Ok(b"text".to_vec()));
    bob_is_served();
    assert_eq!(served.files.xattrs(&open), Ok(vec![(note.clone(), b"text".to_vec())]));
    bob_is_served();
    let (whole, listed) = (served.files.xattr_bytes(&open), || {
        served.files.child_xattr_bytes(&directory, &name("f"))
    });
    assert_eq!((whole > 0, listed()), (true, whole));
    if served.is_root {
        let read = now(served.files.object_xattr(&bob, &object, &note));
        assert_eq!(read, Err(FsError::AccessDenied));
    }
}

#[test]
fn attributes_change_by_posix_rules() {
    let served = serve();
    served.put("f", b"12345");
    let object = served.object("f").unwrap();
    let set = |who, changes| now(served.files.set_object_attributes(who, &object, None, &changes));
    let time = Timestamp(1_000_000_000_000_000_000);
    let changes = ObjectChanges {
        mode: Some(0o640),
        size_bytes: Some(3),
        modified: TimeChange::Set(time),
        ..Default::default()
    };
    let before = served.files.object_attributes(&object).unwrap();
    set(&served.alice, changes).unwrap();
    let now_is = served.files.object_attributes(&object).unwrap();
    assert_eq!((now_is.mode, now_is.size_bytes, now_is.modified), (0o640, 3, time));
    assert_ne!(now_is.change, before.change);
    if !served.is_root {
        return;
    }
    let bob = user(4002, 4002);
    let mode = ObjectChanges { mode: Some(0o666), ..Default::default() };
    assert_eq!(set(&bob, mode), Err(FsError::AccessDenied));
    let owner = vfs::OwnerChange { uid: Some(4002), gid: None };
    let given = ObjectChanges { owner, ..Default::default() };
    assert_eq!(set(&served.alice, given), Err(FsError::InvalidOwner));
    let size = ObjectChanges { size_bytes: Some(0), ..Default::default() };
    assert_eq!(set(&bob, size), Err(FsError::AccessDenied));
    let access = |who| served.files.object_access(who, &object).unwrap();
    assert!(access(&served.alice).contains(Access::READ_DATA | Access::WRITE_DATA));
    assert!(!access(&bob).intersects(Access::READ_DATA | Access::WRITE_DATA));
    assert_eq!(set(&user(0, 0), given), Ok(()));
}

#[test]
fn writer_sets_times_to_now_only() {
    let served = serve();
    if !served.is_root {
        return;
    }
    served.put("f", b"12345");
    let object = served.object("f").unwrap();
    let (bob, old) = (user(4002, 4002), Timestamp(1_000_000_000_000_000_000));
    let set = |who, changes| now(served.files.set_object_attributes(who, &object, None, &changes));
    let (accessed, modified) = (TimeChange::Set(old), TimeChange::Set(old));
    let before = ObjectChanges { accessed, modified, ..Default::default() };
    let times = || {
        let is = served.files.object_attributes(&object).unwrap();
        (is.size_bytes, is.accessed > old, is.modified > old)
    };
    let written = ObjectChanges { modified: TimeChange::Now, ..Default::default() };
    let read = ObjectChanges { accessed: TimeChange::Now, ..Default::default() };
    let cut = ObjectChanges { size_bytes: Some(3), ..written };
    let wanted = [(written, (5, false, true)), (read, (5, true, false)), (cut, (3, false, true))];
    for (changes, now_is) in wanted.into_iter().chain([(cut, (3, false, true))]) {
        served.set_mode("f", 0o644);
        assert_eq!(set(&bob, changes), Err(FsError::AccessDenied), "{changes:?}");
        served.set_mode("f", 0o666);
        assert_eq!(set(&bob, before), Err(FsError::AccessDenied), "no time of their choice");
        set(&served.alice, before).unwrap();
        assert_eq!(set(&bob, changes), Ok(()), "{changes:?}");
        assert_eq!(times(), now_is, "{changes:?}");
    }
}

#[test]
fn execute_permission_grants_read_by_handle() {
    let served = serve();
    if !served.is_root {
        return;
    }
    served.put("f", b"#!");
    let object = served.object("f").unwrap();
    let bob = user(4002, 4002);
    let read = |mode| {
        served.set_mode("f", mode);
        let plan = OpenPlan::posix(Access::READ_DATA, ShareMode::ALL);
        let opened = now(served.files.open_object(&bob, &of(&object), plan, ObjectOpen::default()));
        opened.and_then(|opened| served.read(&opened.open))
    };
    assert_eq!(read(0o711), Ok(b"#!".to_vec()));
    assert_eq!(read(0o700), Err(FsError::AccessDenied));
    served.set_mode("f", 0o711);
    let by_path = now(served.files.open(&served.volume, &bob, plan("f", Access::READ_DATA)));
    assert_eq!(by_path.map(|o| o.action).unwrap_err(), FsError::AccessDenied);
}

#[test]
fn write_only_permission_suffices_to_write() {
    let served = serve();
    if !served.is_root {
        return;
    }
    served.put("f", b"one");
    served.set_mode("f", 0o622);
    let (bob, object) = (user(4002, 4002), served.object("f").unwrap());
    for at in [of(&object), OpenAt::Name(served.root(), name("f"))] {
        let open = |desired, if_exists| {
            let plan = OpenPlan { if_exists, ..OpenPlan::posix(desired, ShareMode::ALL) };
            now(served.files.open_object(&bob, &at, plan, ObjectOpen::default())).map(|o| o.open)
        };
        let desired = Access::WRITE_DATA | Access::APPEND_DATA | Access::READ_ATTRIBUTES;
        for (if_exists, left) in [(IfExists::Open, &b"twe"[..]), (IfExists::Overwrite, b"tw")] {
            let writes = open(desired, if_exists).unwrap();
            served.files.write(writes.caller(), &writes, 0, b"tw").unwrap();
            assert_eq!(served.read(&writes), Err(FsError::AccessDenied));
            assert_eq!(served.get("f").unwrap(), left);
        }
        assert!(matches!(open(READ, IfExists::Open), Err(FsError::AccessDenied)));
        served.put("f", b"one");
        served.set_mode("f", 0o622);
    }
}

#[test]
fn execute_permission_grants_read_by_name_in_directory() {
    let served = serve();
    if !served.is_root {
        return;
    }
    let bob = user(4002, 4002);
    let read = |desired| {
        let at = OpenAt::Name(served.root(), name("f"));
        let plan = OpenPlan::posix(desired, ShareMode::ALL);
        let opened = now(served.files.open_object(&bob, &at, plan, ObjectOpen::default()));
        opened.and_then(|opened| served.read(&opened.open))
    };
    served.put("f", b"#!");
    served.set_mode("f", 0o700);
    assert_eq!(read(Access::READ_DATA), Err(FsError::AccessDenied));
    served.set_mode("f", 0o711);
    assert_eq!(read(Access::READ_DATA), Ok(b"#!".to_vec()));
    let refused = read(Access::READ_DATA | Access::WRITE_DATA);
    assert_eq!(refused, Err(FsError::AccessDenied), "executing is reading, no more");
    // The name refers to another file after the first lookup.
    for looks in 1..4 {
        served.put("program", b"#!");
        served.put("secret", b"secret");
        served.set_mode("program", 0o711);
        served.set_mode("secret", 0o700);
        let mut left = looks;
        let rename = |vfs: &dyn vfs::Vfs, from| {
            let root = vfs::Identity::root();
            vfs.rename(root.actor(), &path(from), &path("f"), vfs::Replace::File).unwrap();
        };
        rename(&*served.vfs, "program");
        served.hook(move |vfs, at, _| {
            left -= i32::from(at == HookPoint::AfterOpen);
            if at == HookPoint::AfterOpen && left == 0 {
                rename(vfs, "secret");
            }
            Ok(())
        });
        let read = read(Access::READ_DATA);
        served.unhook();
        assert!(read.is_err() || read == Ok(b"#!".to_vec()), "{looks}: {read:?}");
    }
}

/// The kernel applies the first matching entry for each user, while a presented descriptor adds up
/// all entries. A caller refused by POSIX must not gain access through an elevated call.
#[test]
fn first_matching_posix_class_decides() {
    let served = serve();
    if !served.is_root {
        return;
    }
    let (bob, carol) = (user(4002, 4002), user(4003, 4003));
    served.put("f", b"12");
    let owner = vfs::OwnerChange { uid: None, gid: Some(4002) };
    let changes = vfs::AttributeChanges { owner, ..Default::default() };
    let file = served.look("f", false).unwrap().node;
    file.set_attributes(vfs::Identity::root().actor(), &changes).unwrap();
    let object = served.object("f").unwrap();
    let colour = xattr_name("colour");
    let wish = XattrSetMode::Either;
    let (files, value) = (&served.files, Some(b"red".to_vec()));
    now(files.set_object_xattr(&served.alice, &object, &colour, value, wish)).unwrap();
    served.set_mode("f", 0o707);
    for (who, may) in [(&bob, false), (&carol, true)] {
        let read = |at| {
            let plan = OpenPlan::posix(Access::READ_DATA, ShareMode::ALL);
            let opened = now(files.open_object(who, &at, plan, ObjectOpen::default()));
            opened.and_then(|opened| served.read(&opened.open)).is_ok()
        };
        assert_eq!(read(OpenAt::Name(served.root(), name("f"))), may);
        assert_eq!(read(of(&object)), may, "by its handle");
        let touched = ObjectChanges { modified: TimeChange::Now, ..Default::default() };
        let set = now(files.set_object_attributes(who, &object, None, &touched));
        assert_eq!(set.is_ok(), may);
        assert_eq!(now(files.object_xattr(who, &object, &colour)).is_ok(), may);
    }
    let stored = now(files.object_xattr(&served.alice, &object, &xattr_name("DOSATTRIB")));
    assert_eq!(stored, Err(FsError::NotFound), "stored attributes have another error");
}

#[test]
fn removed_directory_is_evicted_from_handle_cache() {
    let served = serve();
    let root = served.root();
    let directory = served.make(&root, "d", NewObject::Directory { mode: None }).unwrap();
    let handle = served.handle(&directory);
    for _ in 0..2 {
        assert_eq!(served.find(&handle).unwrap().key(), directory.key());
    }
    now(served.files.rename_object(&served.alice, (&root, &name("d")), (&root, &name("e"))))
        .unwrap();
    assert_eq!(served.find(&handle).unwrap().key(), directory.key());
    std::fs::remove_dir(served.dir.path().join("e")).unwrap();
    assert_eq!(served.find(&handle).unwrap_err(), FsError::Stale);
    assert_eq!(served.find(&handle).unwrap_err(), FsError::Stale);
}

#[test]
fn named_acl_equals_windows_descriptor() {
    let served = serve();
    served.put("f", b"");
    served.set_mode("f", 0o640);
    let object = served.object("f").unwrap();
    let list = || now(served.files.object_acl(&served.alice, &object)).unwrap();
    let who: Vec<NamedWho> = list().entries.into_iter().map(|entry| entry.who).collect();
    let of_mode = [NamedWho::Owner, NamedWho::Group, NamedWho::Everyone];
    assert_eq!(who, of_mode, "the system's entry is not shown");
    let entry = |who, access| NamedAce { allows: true, flags: 0, access, who };
    let entries = vec![
        entry(NamedWho::Owner, ALL),
        entry(NamedWho::User(4005), READ),
        entry(NamedWho::Everyone, Access::READ_ATTRIBUTES),
    ];
    let new = NamedList { is_protected: true, is_inherited: false, entries };
    now(served.files.set_object_acl(&served.alice, &object, &new)).unwrap();
    assert_eq!(list(), new);
    let parts = SecurityParts { dacl: true, ..SecurityParts::default() };
    let windows = served.open("f", Access::READ_CONTROL);
    let shown = served.files.descriptor(&windows, parts).unwrap().dacl.unwrap();
    let sids: Vec<Sid> = shown.into_iter().map(|ace| ace.sid).collect();
    let owner = Sid::unix_user(served.alice.identity.uid);
    assert_eq!(sids, [owner, Sid::unix_user(4005), Sid::everyone()]);
    let access = served.files.object_access(&user(4005, 4005), &object).unwrap();
    assert!(access.contains(Access::READ_DATA) && !access.intersects(Access::WRITE_DATA));
    let mode = ObjectChanges { mode: Some(0o600), ..Default::default() };
    now(served.files.set_object_attributes(&served.alice, &object, None, &mode)).unwrap();
    let access = served.files.object_access(&user(4005, 4005), &object).unwrap();
    assert!(!access.intersects(Access::READ_DATA), "a new mode takes the list's place");
}

fn wish(
    cookie: u64,
    (count_max, name_bytes_max): (usize, usize),
    handles: Option<VolumeId>,
) -> ListWish {
    let (bytes_max, entry_bytes, stored) = (1 << 20, 0, true);
    ListWish { cookie, count_max, name_bytes_max, bytes_max, entry_bytes, handles, stored }
}

#[test]
fn long_listing_has_each_name_once() {
    let served = serve();
    let root = served.root();
    for number in 0..200 {
        served.put(&format!("name{number}"), b"");
    }
    for count in [1000, 200, 65, 64, 63] {
        let (mut cookie, mut names, mut pieces) = (0, Vec::new(), 0);
        loop {
            let wish = wish(cookie, (count, 100_000), None);
            let piece = now(served.files.readdir_object(&served.alice, &root, wish)).unwrap();
            pieces += 1;
            names.extend(piece.entries.iter().map(|entry| entry.name.clone()));
            if piece.is_end {
                break;
            }
            assert_eq!(piece.entries.len(), count, "as many as are wanted");
            cookie = piece.entries.last().unwrap().cookie;
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 200, "in {pieces} pieces of {count}");
    }
}

/// Accepts a limited number of names.
struct LimitedList {
    names: Vec<vfs::Name>,
    left: usize,
}

impl ObjectListSink for LimitedList {
    fn take(&mut self, entry: ListedObject) -> bool {
        let is_taken = self.left > 0;
        if is_taken {
            self.left -= 1;
            self.names.push(entry.name);
        }
        is_taken
    }
}

#[test]
fn listing_ends_before_refused_entry() {
    let served = serve();
    let root = served.root();
    for number in 0..200 {
        served.put(&format!("name{number}"), b"");
    }
    let whole =
        now(served.files.readdir_object(&served.alice, &root, wish(0, (1000, 100_000), None)));
    let whole: Vec<_> = whole.unwrap().entries.into_iter().map(|entry| entry.name).collect();
    for left in [0, 1, 63, 64, 65, 199, 200, 201] {
        let few = LimitedList { names: Vec::new(), left };
        let listed = served.files.readdir_object_into(
            &served.alice,
            &root,
            wish(0, (1000, 100_000), None),
            few,
        );
        let (few, is_end) = now(listed).unwrap();
        assert_eq!((&few.names[..], is_end), (&whole[..left.min(200)], left >= 200), "{left}");
    }
}

#[test]
fn exclusive_create_on_worker_skips_lookup() {
    let served = serve();
    served.vfs.makes_slowly.store(true, Ordering::Relaxed);
    let looks = Arc::new(AtomicUsize::new(0));
    served.hook({
        let looks = looks.clone();
        move |_, at, at_path| {
            let is_look = at == HookPoint::AfterOpen && *at_path == path("new");
            looks.fetch_add(usize::from(is_look), Ordering::Relaxed);
            Ok(())
        }
    });
    let made = served.create_in(&served.root(), "new").unwrap();
    assert_eq!((made.action, looks.load(Ordering::Relaxed)), (OpenAction::Created, 0));
    let again = served.create_in(&served.root(), "new");
    assert_eq!(again.map(|made| made.action), Err(FsError::AlreadyExists));
    assert_ne!(looks.load(Ordering::Relaxed), 0, "a lookup finds the reason");
}

#[test]
fn listing_agrees_with_lookup() {
    let served = serve();
    let root = served.root();
    for at in ["a", "b", "c"] {
        served.put(at, at.as_bytes());
    }
    served.make(&root, "d", NewObject::Directory { mode: None }).unwrap();
    let list = |cookie, count| {
        now(served.files.readdir_object(&served.alice, &root, wish(cookie, (count, 1000), Some(V))))
            .unwrap()
    };
    let whole = list(0, 100);
    assert!(whole.is_end && whole.entries.len() == 4);
    for entry in &whole.entries {
        let object = served.object(std::str::from_utf8(entry.name.as_bytes()).unwrap()).unwrap();
        assert_eq!(entry.attributes, served.files.object_attributes(&object).unwrap());
        assert_eq!(entry.handle, served.files.handle(V, &object).ok());
        assert_eq!(entry.mounted_on, object.key().inode);
    }
    let (mut cookie, mut pieces) = (0, Vec::new());
    loop {
        let piece = list(cookie, 1);
        pieces.extend(piece.entries.iter().map(|entry| entry.name.clone()));
        let Some(last) = piece.entries.last() else { break };
        cookie = last.cookie;
    }
    let names: Vec<_> = whole.entries.iter().map(|entry| entry.name.clone()).collect();
    assert_eq!(pieces, names);
    let few =
        now(served.files.readdir_object(&served.alice, &root, wish(0, (100, 2), None))).unwrap();
    assert_eq!((few.entries.len(), few.is_end), (2, false));
    let one =
        now(served.files.readdir_object(&served.alice, &root, wish(0, (100, 0), None))).unwrap();
    assert_eq!((one.entries.len(), one.is_end), (1, false), "one in any case");
    let fitting = |bytes_max| {
        let wish = ListWish { bytes_max, entry_bytes: 10, ..wish(0, (100, 1000), None) };
        now(served.files.readdir_object(&served.alice, &root, wish)).unwrap().entries.len()
    };
    assert_eq!([0, 11, 21, 22, 43, 44].map(fitting), [1, 1, 1, 2, 3, 4], "a byte of name each");
}

#[test]
fn names_change_by_posix_rules() {
    let served = serve();
    let root = served.root();
    for at in ["d", "e", "e/x"] {
        let parent = if at == "e/x" { served.object("e").unwrap() } else { root.clone() };
        let last = at.rsplit('/').next().unwrap();
        served.make(&parent, last, NewObject::Directory { mode: None }).unwrap();
    }
    served.put("f", b"f");
    let rename = |from: &str, to: &str| {
        now(served.files.rename_object(&served.alice, (&root, &name(from)), (&root, &name(to))))
    };
    assert_eq!(served.remove(&root, "e"), Err(FsError::NotEmpty));
    assert_eq!(served.remove(&root, "nothing"), Err(FsError::NotFound));
    assert_eq!(rename("d", "e"), Err(FsError::NotEmpty));
    assert_eq!(rename("f", "d"), Err(FsError::IsDirectory));
    assert_eq!(rename("d", "f"), Err(FsError::NotDirectory));
    assert_eq!(rename("e", "d"), Ok(()), "an empty one is replaced");
    assert_eq!(served.object("d/x").map(|_| ()), Ok(()));
    let inner = served.object("d/x").unwrap();
    let (d, y) = (name("d"), name("y"));
    let into = now(served.files.rename_object(&served.alice, (&root, &d), (&inner, &y)));
    assert_eq!(into, Err(FsError::InvalidParameter));
    let file = served.object("f").unwrap();
    let link = |at: &str| now(served.files.link_object(&served.alice, &file, &root, &name(at)));
    assert_eq!(link("g"), Ok(()));
    assert_eq!(link("g"), Err(FsError::AlreadyExists));
    assert_eq!(rename("f", "g"), Ok(()), "two names of one file both stay");
    assert!(served.object("f").is_ok() && served.object("g").is_ok());
    assert_eq!(served.remove(&root, "f"), Ok(()));
    assert_eq!(served.files.object_attributes(&file).unwrap().links, 1);
    let linked = now(served.files.link_object(&served.alice, &root, &root, &name("h")));
    assert_eq!(linked, Err(FsError::IsDirectory));
}

#[test]
fn extended_attributes_honour_setxattr_option() {
    let served = serve();
    served.put("f", b"");
    let object = served.object("f").unwrap();
    let set = |value: Option<&[u8]>, wish| {
        let value = value.map(<[u8]>::to_vec);
        now(served.files.set_object_xattr(&served.alice, &object, &xattr_name("a"), value, wish))
    };
    assert_eq!(set(Some(b"1"), XattrSetMode::Replace), Err(FsError::NotFound));
    assert_eq!(set(None, XattrSetMode::Either), Err(FsError::NotFound));
    assert_eq!(set(Some(b"1"), XattrSetMode::Create), Ok(()));
    assert_eq!(set(Some(b"2"), XattrSetMode::Create), Err(FsError::AlreadyExists));
    assert_eq!(set(Some(b"2"), XattrSetMode::Replace), Ok(()));
    let got = now(served.files.object_xattr(&served.alice, &object, &xattr_name("a")));
    assert_eq!(got.as_deref(), Ok(&b"2"[..]));
    assert_eq!(
        now(served.files.object_xattr_names(&served.alice, &object)),
        Ok(vec![xattr_name("a")])
    );
    assert_eq!(set(None, XattrSetMode::Either), Ok(()));
}

#[test]
fn owner_locks_bind_windows_opens_only() {
    let served = serve();
    served.put("f", b"0123456789");
    let object = served.object("f").unwrap();
    let plan = || OpenPlan::posix(READ | WRITE, ShareMode::ALL);
    let (one, two) = (
        served.open_at(of(&object), plan()).unwrap().open,
        served.open_at(of(&object), plan()).unwrap().open,
    );
    let windows = served.open("f", READ | WRITE);
    let lock = |from, length| RangeLock {
        range: Range::new(from, length).unwrap(),
        kind: LockKind::Exclusive,
    };
    let granted = served.files.lock_owned(&one, LockOwner(1), lock(0, 4), &HOLDER);
    assert_eq!(granted, Ok(OwnerLockOutcome::Granted));
    assert_eq!(served.files.write(windows.caller(), &windows, 0, b"x"), Err(FsError::LockConflict));
    assert_eq!(served.files.write(two.caller(), &two, 0, b"x"), Ok(()), "an agreement");
    assert_eq!(
        served.files.try_locks(&windows, &[lock(3, 1)], &HOLDER),
        Err(FsError::LockNotGranted)
    );
    served.files.try_locks(&windows, &[lock(8, 1)], &HOLDER).unwrap();
    assert_eq!(served.files.write(two.caller(), &two, 8, b"x"), Err(FsError::LockConflict));
    let held = served.files.find_lock(&object, Some(LockOwner(2)), lock(2, 8)).unwrap();
    assert_eq!((held.lock, held.owner), (lock(0, 4), Some(LockOwner(1))));
    let mut waits = Box::pin(served.files.wait_for_unlock(&two, LockOwner(2), lock(3, 1)));
    assert_eq!(waits.as_mut().now_or_never(), None);
    served.files.unlock_owned(&one, LockOwner(1), Range::new(3, 1).unwrap(), &HOLDER).unwrap();
    assert_eq!(waits.as_mut().now_or_never(), Some(Ok(())));
    assert!(!two.has_locks_of(LockOwner(2)), "it is only notified");
    drop(waits);
    served.close(one);
    assert_eq!(served.files.find_lock(&object, Some(LockOwner(2)), lock(0, 4)), None);
}

#[test]
fn windows_watch_reports_changes_by_handle() {
    let served = serve();
    let root = served.root();
    let watch = served.watch("", EVERYTHING, false);
    served.make(&root, "d", NewObject::Directory { mode: None }).unwrap();
    assert_eq!(watch.reported(), "+d");
    served.make(&root, "l", NewObject::Symlink { target: b"d".to_vec() }).unwrap();
    assert_eq!(watch.reported(), "+l");
    served.remove(&root, "l").unwrap();
    assert_eq!(watch.reported(), "-l");
    let mode = ObjectChanges { mode: Some(0o700), ..Default::default() };
    let directory = served.object("d").unwrap();
    now(served.files.set_object_attributes(&served.alice, &directory, None, &mode)).unwrap();
    assert_eq!(watch.reported(), "!d");
    now(served.files.rename_object(&served.alice, (&root, &name("d")), (&root, &name("e"))))
        .unwrap();
    assert_eq!(watch.reported(), "<d >e");
    let made = served.create_in(&root, "f").unwrap();
    served.files.write(made.open.caller(), &made.open, 0, b"x").unwrap();
    assert_eq!(watch.reported(), "+f !f");
    served.close(made.open);
    assert_eq!(watch.reported(), "");
    let file = served.object("f").unwrap();
    now(served.files.link_object(&served.alice, &file, &root, &name("g"))).unwrap();
    assert_eq!(watch.reported(), "+g");
}

#[test]
fn hostile_bytes_are_no_handles() {
    let served = serve();
    let good = served.handle(&served.root());
    let mut state = 1u64;
    for round in 0..20_000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut bytes = good.clone();
        let at = (state >> 33) as usize % bytes.len();
        bytes[at] = (state >> 50) as u8;
        bytes.truncate(if round % 3 == 0 { at + 1 } else { bytes.len() });
        if round % 5 == 0 {
            bytes.resize(at * 4 + 1, (state >> 40) as u8);
        }
        if let Ok(handle) = served.files.parse_handle(&bytes)
            && let Ok(found) = now(served.files.find_object(&served.volume, &handle))
        {
            assert_eq!(found.key(), served.root().key(), "{bytes:?}");
        }
    }
}

/// The path has 6,000 bytes, and Linux accepts 4,095 in one call; each step uses the directory's
/// handle.
#[test]
fn directory_of_any_depth_is_usable_and_removable() {
    let served = serve();
    let level = "n".repeat(200);
    let directory = || NewObject::Directory { mode: Some(NewMode::exactly(0o755)) };
    let mut objects = vec![served.make(&served.root(), "top", directory()).unwrap()];
    for _ in 0..30 {
        let made = served.make(objects.last().unwrap(), &level, directory()).unwrap();
        objects.push(served.find(&served.handle(&made)).unwrap());
    }
    let bottom = objects.last().unwrap();
    let open = served.create_in(bottom, "file").unwrap().open;
    let file = now(served.files.lookup(&served.alice, bottom, &name("file"))).unwrap();
    assert_eq!(served.find(&served.handle(&file)).unwrap().key(), open.key());
    now(served.files.close(open)).unwrap();
    now(served.files.link_object(&served.alice, &file, bottom, &name("second"))).unwrap();
    let changes = ObjectChanges { mode: Some(0o640), ..ObjectChanges::default() };
    let set = served.files.set_object_attributes(&served.alice, &file, None, &changes);
    now(set).unwrap();
    let rename = |from: (&Object, &str), to: (&Object, &str)| {
        let (old, new) = (name(from.1), name(to.1));
        now(served.files.rename_object(&served.alice, (from.0, &old), (to.0, &new))).unwrap();
    };
    rename((bottom, "file"), (bottom, "renamed"));
    rename((&served.root(), "top"), (&served.root(), "other"));
    // Windows opens by the whole path.
    let path = [vec!["other"], vec![&level; 30]].concat().join("/");
    let listed = served.open(&path, READ);
    let removed = served.open(&format!("{path}/renamed"), Access::DELETE);
    now(served.files.close(listed)).unwrap();
    now(served.files.close(removed)).unwrap();
    for name in ["renamed", "second"] {
        served.remove(bottom, name).unwrap();
    }
    for parent in objects.iter().rev().skip(1) {
        served.remove(parent, &level).unwrap();
    }
    served.remove(&served.root(), "other").unwrap();
}
