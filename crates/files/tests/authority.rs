//! Limits of stored ACLs, tested on a real file system as root: set-ID bits, foreign owners and
//! groups, device nodes. Skipped without root.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use acl::{Ace, AceKind, POSIX_NAMES_MAX, control};
use files::dos;
use files::{
    Access, BasicChange, Caller, Descriptor, Files, IfExists, IfMissing, Inline, ListWish, NewMode,
    NewObject, Object, ObjectChanges, OpenFile, OpenPlan, RequestFiles, RequestedKind,
    SecurityParts, Semantics, ShareMode, Sid, TimeSetting, Volume, VolumeOptions,
};
use futures_util::FutureExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{
    Device, DosInfo, FsError, Identity, Name, OpenHow, OwnerChange, RelPath, SpecialKind,
    TimeChange, Timestamp, Vfs, Wait,
};
use vfs_cache::{CacheOptions, CachedVfs, Clock};

const OWNER: u32 = 54_301;
const OTHER: u32 = 54_302;
const FOREIGN: u32 = 54_303;
const SHARED: u32 = 54_304;

struct Fixture {
    folder: tempfile::TempDir,
    files: RequestFiles,
    volume: Arc<Volume>,
    root: Arc<Caller>,
    owner: Arc<Caller>,
    /// User with all rights by the file's stored ACL, but not its owner.
    other: Arc<Caller>,
}

fn caller(id: u32) -> Arc<Caller> {
    Arc::new(Caller::of(Identity { uid: id, gid: id, groups: vec![] }))
}

/// None without the right to act as other users.
fn fixture(device_nodes: bool) -> Option<Fixture> {
    fixture_over(VolumeOptions { device_nodes, ..VolumeOptions::default() }, false)
}

fn fixture_over(options: VolumeOptions, is_cached: bool) -> Option<Fixture> {
    let folder = tempfile::tempdir().unwrap();
    if chown(folder.path(), Some(0), Some(0)).is_err() {
        return None;
    }
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(vfs_local::LocalVfs::open(folder.path()).unwrap());
    let volume = Arc::new(if is_cached {
        let clock = Clock(Arc::new(|| Timestamp(1_000_000_000)));
        let cache = CachedVfs::new(vfs, CacheOptions::default(), clock);
        Volume::cached(Arc::new(cache), options)
    } else {
        Volume::new(vfs, options)
    });
    let root = Arc::new(Caller::of(Identity::root()));
    let files = Arc::new(Files::new(Arc::new(Inline))).for_server();
    Some(Fixture { folder, files, volume, root, owner: caller(OWNER), other: caller(OTHER) })
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("answered at once")
}

fn path(name: &str) -> RelPath {
    [Name::new(name.as_bytes()).unwrap()].into_iter().collect()
}

fn full_control() -> Descriptor {
    let inherited = Ace::OBJECT_INHERIT | Ace::CONTAINER_INHERIT;
    let entry = Ace { flags: inherited, ..Ace::allow(Sid::everyone(), Access::FILE_ALL) };
    Descriptor { control: control::DACL_PRESENT, dacl: Some(vec![entry]), ..Descriptor::default() }
}

const LIST: SecurityParts = SecurityParts { owner: false, group: false, dacl: true, sacl: false };

impl Fixture {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open_as(&self, caller: &Arc<Caller>, name: &str, kind: RequestedKind) -> Arc<OpenFile> {
        let plan = OpenPlan {
            path: path(name),
            if_missing: IfMissing::Create,
            kind,
            semantics: Semantics::Windows,
            ..OpenPlan::posix(Access::FILE_ALL, ShareMode::ALL)
        };
        now(self.files.open(&self.volume, caller, plan)).unwrap().open
    }

    /// A set-ID program of the owner, whose stored ACL grants everyone everything.
    fn granted_file(&self, name: &str) -> PathBuf {
        self.listed_file(name, &full_control())
    }

    /// A set-ID program of the owner with this stored ACL.
    fn listed_file(&self, name: &str, list: &Descriptor) -> PathBuf {
        let open = self.open_as(&self.owner, name, RequestedKind::File);
        self.files.write(open.caller(), &open, 0, b"#!/bin/sh\n").unwrap();
        self.files.set_descriptor(&open, list, LIST).unwrap();
        now(self.files.close(open)).unwrap();
        self.at(name)
    }

    fn list_of(&self, name: &str) -> Option<Vec<Ace>> {
        let open = self.open_as(&self.root, name, RequestedKind::File);
        let list = self.files.descriptor(&open, LIST).unwrap().dacl;
        now(self.files.close(open)).unwrap();
        list
    }

    fn object(&self, name: &str) -> Object {
        let root = now(self.files.root_object(&self.volume)).unwrap();
        now(self.files.lookup(&self.root, &root, &Name::new(name.as_bytes()).unwrap())).unwrap()
    }

    fn set(&self, caller: &Arc<Caller>, name: &str, changes: ObjectChanges) -> vfs::Result<()> {
        now(self.files.set_object_attributes(caller, &self.object(name), None, &changes))
    }
}

fn mode(at: &PathBuf) -> u32 {
    std::fs::symlink_metadata(at).unwrap().mode() & 0o7777
}

fn ids(at: &PathBuf) -> (u32, u32) {
    let metadata = std::fs::symlink_metadata(at).unwrap();
    (metadata.uid(), metadata.gid())
}

fn of_mode(mode: u32) -> ObjectChanges {
    ObjectChanges { mode: Some(mode), ..ObjectChanges::default() }
}

fn of_owner(uid: Option<u32>, gid: Option<u32>) -> ObjectChanges {
    ObjectChanges { owner: OwnerChange { uid, gid }, ..ObjectChanges::default() }
}

#[test]
fn set_id_bits_are_not_granted_by_acl_over_nfs() {
    let Some(f) = fixture(false) else { return };
    for wanted in [0o4755, 0o2755, 0o6777] {
        let at = f.granted_file("tool");
        f.set(&f.other, "tool", of_mode(wanted)).unwrap();
        assert_eq!(mode(&at), wanted & 0o777, "{wanted:o}");
        f.set(&f.owner, "tool", of_mode(wanted)).unwrap();
        assert_eq!(mode(&at), wanted, "the owner may");
        std::fs::remove_file(at).unwrap();
    }
}

#[test]
fn set_id_bits_are_not_granted_by_acl_over_smb() {
    let Some(f) = fixture(false) else { return };
    let at = f.granted_file("tool");
    let open = f.open_as(&f.other, "tool", RequestedKind::File);
    f.files.set_mode(&open, 0o6755).unwrap();
    assert_eq!(mode(&at), 0o755);
    let own = f.open_as(&f.owner, "tool", RequestedKind::File);
    f.files.set_mode(&own, 0o6755).unwrap();
    assert_eq!(mode(&at), 0o6755);
}

#[test]
fn set_id_bits_are_cleared_when_non_owner_sets_acl() {
    let Some(f) = fixture(false) else { return };
    let at = f.granted_file("tool");
    let open = f.open_as(&f.other, "tool", RequestedKind::File);
    std::fs::set_permissions(&at, PermissionsExt::from_mode(mode(&at) | 0o6000)).unwrap();
    f.files.set_descriptor(&open, &full_control(), LIST).unwrap();
    assert_eq!(mode(&at) & 0o6000, 0);
    let own = f.open_as(&f.owner, "tool", RequestedKind::File);
    std::fs::set_permissions(&at, PermissionsExt::from_mode(mode(&at) | 0o6000)).unwrap();
    f.files.set_descriptor(&own, &full_control(), LIST).unwrap();
    assert_eq!(mode(&at) & 0o4000, 0o4000, "the owner retains its set-user-ID bit");
}

/// Independent of the user that the thread served before: root retains these bits when it writes.
#[test]
fn set_id_bits_are_cleared_by_each_data_change() {
    let Some(f) = fixture(false) else { return };
    let at = f.granted_file("tool");
    let source = f.open_as(&f.other, "source", RequestedKind::File);
    f.files.write(source.caller(), &source, 0, &[1; 8192]).unwrap();
    let open = f.open_as(&f.other, "tool", RequestedKind::File);
    type Change<'a> = Box<dyn Fn() -> vfs::Result<()> + 'a>;
    let changes: [(&str, Change<'_>); 5] = [
        ("write", Box::new(|| f.files.write(open.caller(), &open, 0, b"evil"))),
        ("truncate", Box::new(|| now(f.files.set_size(open.caller(), &open, 2)))),
        ("extend", Box::new(|| now(f.files.set_size(open.caller(), &open, 100_000)))),
        ("zero", Box::new(|| now(f.files.zero_range(open.caller(), &open, 0, 4096)))),
        (
            "copy",
            Box::new(|| now(f.files.copy_range(open.caller(), (&source, 0), (&open, 0), 4096))),
        ),
    ];
    for (what, change) in changes {
        vfs_local::keep_identity(|| {
            std::fs::set_permissions(&at, PermissionsExt::from_mode(0o6777)).unwrap();
            let by_root = f.open_as(&f.root, "source", RequestedKind::File);
            now(f.files.close(by_root)).unwrap();
            change().unwrap();
        });
        assert_eq!(mode(&at), 0o777, "{what}");
    }
}

/// Grants the owner read access only: OWNER RIGHTS remove the owner's implicit rights.
fn read_only_for_its_owner() -> Descriptor {
    let dacl = Some(vec![Ace::allow(Sid::owner_rights(), Access::FILE_READ)]);
    Descriptor { dacl, ..full_control() }
}

/// Each attribute change that POSIX reserves for the owner.
fn changes_of_owner() -> [(&'static str, ObjectChanges); 5] {
    let past = TimeChange::Set(Timestamp(1_000_000_000_000_000_000));
    let hidden = DosInfo { bits: Some(dos::HIDDEN), created: None };
    let default = ObjectChanges::default();
    [
        ("mode", of_mode(0o4755)),
        ("group", of_owner(None, Some(SHARED))),
        ("times", ObjectChanges { accessed: past, modified: past, ..default }),
        ("times to now", ObjectChanges { modified: TimeChange::Now, ..default }),
        ("DOS attributes", ObjectChanges { dos: Some(hidden), ..default }),
    ]
}

#[test]
fn stored_acl_binds_owner_over_nfs() {
    let Some(f) = fixture(false) else { return };
    let owner =
        Arc::new(Caller::of(Identity { uid: OWNER, gid: OWNER, groups: vec![OWNER, SHARED] }));
    let at = f.listed_file("f", &read_only_for_its_owner());
    let metadata = || std::fs::symlink_metadata(&at).unwrap();
    let (list, before) = (f.list_of("f"), metadata());
    for (what, changes) in changes_of_owner() {
        assert_eq!(f.set(&owner, "f", changes), Err(FsError::AccessDenied), "{what}");
        let after = metadata();
        assert_eq!((mode(&at), ids(&at)), (before.mode() & 0o7777, (OWNER, OWNER)), "{what}");
        assert_eq!(after.modified().unwrap(), before.modified().unwrap(), "{what}");
        assert_eq!(f.list_of("f"), list, "{what}");
    }
    f.set(&owner, "f", of_owner(Some(OWNER), Some(OWNER))).expect("names the present owner");
    for (what, changes) in changes_of_owner() {
        f.granted_file("g");
        f.set(&owner, "g", changes).expect(what);
        std::fs::remove_file(f.at("g")).unwrap();
    }
}

#[test]
fn created_object_gets_attributes_despite_inherited_acl() {
    let Some(f) = fixture(false) else { return };
    for (what, changes) in changes_of_owner().into_iter().filter(|(what, _)| *what != "group") {
        let at = f.listed_file("new", &read_only_for_its_owner());
        let object = f.object("new");
        let set = f.files.initialise_object_attributes(&f.owner, &object, None, &changes);
        assert_eq!(now(set), Ok(()), "{what}");
        std::fs::remove_file(at).unwrap();
    }
}

#[test]
fn owner_without_the_w_bit_sets_dos_attributes() {
    let Some(f) = fixture(false) else { return };
    let hidden = |name: &str| {
        let bits = f.files.object_attributes(&f.object(name)).unwrap().dos.bits;
        bits.unwrap_or(0) & dos::HIDDEN != 0
    };
    let past = TimeSetting::Set(Timestamp(1_000_000_000_000_000_000));
    let basic = BasicChange { dos_bits: Some(dos::HIDDEN), modified: past, ..Default::default() };
    for name in ["smb", "nfs"] {
        let at = f.at(name);
        let open = f.open_as(&f.owner, name, RequestedKind::File);
        std::fs::set_permissions(&at, PermissionsExt::from_mode(0o4500)).unwrap();
        match name {
            "smb" => f.files.set_attributes(&open, &basic).unwrap(),
            _ => {
                let (_, changes) = changes_of_owner()[4];
                f.set(&f.owner, name, ObjectChanges { mode: Some(0o6500), ..changes }).unwrap();
                assert_eq!(mode(&at), 0o6500, "the owner's bits beside them");
                assert_eq!(f.set(&f.other, name, changes), Err(FsError::AccessDenied));
            }
        }
        assert!(hidden(name), "{name}");
        now(f.files.close(open)).unwrap();
    }
}

#[test]
fn foreign_owners_and_groups_are_refused_under_any_acl() {
    let Some(f) = fixture(false) else { return };
    let at = f.granted_file("f");
    for (uid, gid) in [(Some(FOREIGN), None), (Some(0), None)] {
        let refused = f.set(&f.other, "f", of_owner(uid, gid));
        assert_eq!(refused, Err(FsError::InvalidOwner), "{uid:?}");
    }
    for gid in [FOREIGN, 0, 42] {
        let refused = f.set(&f.other, "f", of_owner(None, Some(gid)));
        assert_eq!(refused, Err(FsError::AccessDenied), "{gid}");
        let refused = f.set(&f.owner, "f", of_owner(None, Some(gid)));
        assert_eq!(refused, Err(FsError::AccessDenied), "not the owner either: {gid}");
    }
    assert_eq!(ids(&at), (OWNER, OWNER));
}

#[test]
fn taken_file_loses_set_id_bits() {
    let Some(f) = fixture(false) else { return };
    let at = f.granted_file("f");
    std::fs::set_permissions(&at, PermissionsExt::from_mode(mode(&at) | 0o6111)).unwrap();
    // A change of the mode would remove the ACL.
    let open = f.open_as(&f.owner, "f", RequestedKind::File);
    f.files.set_descriptor(&open, &full_control(), LIST).unwrap();
    f.set(&f.other, "f", of_owner(Some(OTHER), Some(OTHER))).unwrap();
    assert_eq!((ids(&at), mode(&at) & 0o6000), ((OTHER, OTHER), 0));
}

#[test]
fn object_created_by_acl_belongs_to_creator() {
    let Some(f) = fixture(false) else { return };
    let directory = f.open_as(&f.root, "d", RequestedKind::Directory);
    let entry = Ace::allow(Sid::everyone(), Access::FILE_ALL);
    // POSIX refuses all: only the ACL grants it.
    let list = Descriptor { dacl: Some(vec![entry]), ..full_control() };
    f.files.set_descriptor(&directory, &list, LIST).unwrap();
    let plan = OpenPlan {
        path: [Name::new(&b"d"[..]).unwrap(), Name::new(&b"new"[..]).unwrap()]
            .into_iter()
            .collect(),
        if_missing: IfMissing::Create,
        if_exists: IfExists::Fail,
        kind: RequestedKind::File,
        ..OpenPlan::posix(Access::FILE_ALL, ShareMode::ALL)
    };
    now(f.files.open(&f.volume, &f.other, plan)).unwrap();
    assert_eq!(ids(&f.at("d/new")), (OTHER, OTHER));
}

#[test]
fn device_nodes_need_root_and_are_off_by_default() {
    for device_nodes in [false, true] {
        let Some(f) = fixture(device_nodes) else { return };
        let directory = f.open_as(&f.root, "d", RequestedKind::Directory);
        f.files.set_descriptor(&directory, &full_control(), LIST).unwrap();
        let device = Device { is_block: false, major: 1, minor: 5 };
        let create = |caller: &Arc<Caller>, name: &[u8], kind| {
            let new = NewObject::Special { kind, mode: Some(NewMode::exactly(0o666)) };
            let name = Name::new(name).unwrap();
            now(f.files.create_object(caller, &f.object("d"), &name, new)).map(drop)
        };
        let denied = create(&f.other, b"zero", SpecialKind::Device(device));
        assert_eq!(denied, Err(FsError::PrivilegeNotHeld));
        let by_root = create(&f.root, b"zero", SpecialKind::Device(device));
        // Root in a container may lack CAP_MKNOD.
        let is_right = match device_nodes {
            true => matches!(by_root, Ok(()) | Err(FsError::AccessDenied)),
            false => by_root == Err(FsError::PrivilegeNotHeld),
        };
        assert!(is_right, "{device_nodes}: {by_root:?}");
        assert_eq!(create(&f.other, b"pipe", SpecialKind::Fifo), Ok(()));
        assert_eq!(ids(&f.at("d/pipe")), (OTHER, OTHER));
    }
}

/// The owner, users and groups of these tests in several combinations, and root.
fn callers() -> Vec<Arc<Caller>> {
    let member = |uid, gid, groups: &[u32]| {
        Arc::new(Caller::of(Identity { uid, gid, groups: groups.to_vec() }))
    };
    vec![
        member(OWNER, OWNER, &[]),
        member(OWNER, OWNER, &[SHARED]),
        member(OTHER, OTHER, &[]),
        member(OTHER, OTHER, &[SHARED]),
        member(FOREIGN, SHARED, &[OWNER]),
        member(STRANGER, STRANGER, &[]),
        member(STRANGER, SHARED, &[FOREIGN]),
        Arc::new(Caller::of(Identity::root())),
    ]
}

const STRANGER: u32 = 54_309;

fn denial(sid: Sid, access: Access) -> Ace {
    Ace { kind: AceKind::Deny, ..Ace::allow(sid, access) }
}

/// ACLs that once granted too much or too little, and others.
fn lists() -> Vec<Vec<Ace>> {
    let (user, group, all) = (Sid::unix_user, Sid::unix_group, Access::FILE_ALL);
    let everyone = |access| Ace::allow(Sid::everyone(), access);
    let many = 60_000..60_000 + POSIX_NAMES_MAX as u32;
    let mut denied: Vec<_> = many.map(|uid| denial(user(uid), all)).collect();
    denied.extend([denial(group(SHARED), all), everyone(all)]);
    let mut lists = vec![
        vec![denial(user(OTHER), all), denial(group(OWNER), all), everyone(all)],
        vec![denial(user(OTHER), all), denial(group(OWNER), all), everyone(Access::FILE_READ)],
        vec![denial(group(SHARED), Access::READ_DATA), Ace::allow(group(FOREIGN), all)],
        vec![Ace::allow(user(OTHER), Access::FILE_WRITE), Ace::allow(group(OTHER), all)],
        vec![denial(group(SHARED), all), Ace::allow(user(OTHER), all)],
        vec![Ace::allow(group(OWNER), all)],
        vec![everyone(Access::DELETE_CHILD)],
        vec![everyone(Access::APPEND_DATA)],
        vec![],
        denied,
    ];
    let mut state = 1_u64;
    let mut below = |end: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    let ids = [OWNER, OTHER, FOREIGN, SHARED];
    let rights = [
        all,
        Access::FILE_READ,
        Access::FILE_WRITE,
        Access::EXECUTE,
        Access::READ_DATA,
        Access(0x1301BF),
    ];
    for _ in 0..60 {
        let mut entry = || {
            let id = ids[below(ids.len())];
            let whom = [user(id), group(id), group(id), Sid::everyone(), Sid::owner_rights()];
            let entry = Ace::allow(whom[below(whom.len())].clone(), rights[below(rights.len())]);
            if below(3) == 0 { denial(entry.sid, entry.access) } else { entry }
        };
        lists.push((0..4).map(|_| entry()).collect());
    }
    lists
}

impl Fixture {
    /// A file and a directory with a child, both with this stored ACL.
    fn put_listed(&self, number: usize, entries: &[Ace]) -> (String, String) {
        let (file, directory) = (format!("f{number}"), format!("d{number}"));
        let list = Descriptor { dacl: Some(entries.to_vec()), ..full_control() };
        self.listed_file(&file, &list);
        let open = self.open_as(&self.owner, &directory, RequestedKind::Directory);
        std::fs::write(self.at(&directory).join("child"), b"data").unwrap();
        self.files.set_descriptor(&open, &list, LIST).unwrap();
        now(self.files.close(open)).unwrap();
        (file, directory)
    }

    /// The kernel's decision for a local process of the user.
    fn kernel_opens(&self, caller: &Caller, name: &str, read: bool, write: bool) -> bool {
        let how = OpenHow { read, write, ..OpenHow::looking(Wait::Allowed) };
        self.volume.vfs.open(caller.identity.actor(), &path(name), how).is_ok()
    }

    fn reads_directory(&self, caller: &Arc<Caller>, directory: &Object) -> bool {
        let (cookie, count_max, name_bytes_max, bytes_max) = (0, 100, 10_000, 100_000);
        let (entry_bytes, handles, stored) = (0, None, false);
        let wish =
            ListWish { cookie, count_max, name_bytes_max, bytes_max, entry_bytes, handles, stored };
        let listed = now(self.files.readdir_object(caller, directory, wish));
        assert!(matches!(listed, Ok(_) | Err(FsError::AccessDenied)), "{listed:?}");
        listed.is_ok()
    }

    /// Rights that the caller's NFS operations prove, as far as ACCESS has a bit for them.
    fn done_over_nfs(&self, caller: &Arc<Caller>, directory: &Object, at: &Path) -> Access {
        let name = |name: &str| Name::new(name.as_bytes()).unwrap();
        let mut done = Access::NONE;
        let mut note = |is_done, right| done |= if is_done { right } else { Access::NONE };
        note(self.reads_directory(caller, directory), Access::READ_DATA);
        note(now(self.files.lookup(caller, directory, &name("child"))).is_ok(), Access::EXECUTE);
        let fifo =
            NewObject::Special { kind: SpecialKind::Fifo, mode: Some(NewMode::exactly(0o600)) };
        let is_made = now(self.files.create_object(caller, directory, &name("pipe"), fifo)).is_ok();
        note(is_made, Access::WRITE_DATA);
        let new = NewObject::Directory { mode: None };
        let is_made = now(self.files.create_object(caller, directory, &name("inner"), new)).is_ok();
        note(is_made, Access::APPEND_DATA);
        let is_removed = now(self.files.remove_object(caller, directory, &name("child"))).is_ok();
        note(is_removed, Access::DELETE_CHILD);
        std::fs::remove_file(at.join("pipe")).ok();
        std::fs::remove_dir(at.join("inner")).ok();
        std::fs::write(at.join("child"), b"data").unwrap();
        done
    }
}

#[test]
fn stored_acl_grants_local_users_no_more_on_disk() {
    let Some(f) = fixture(false) else { return };
    for (number, entries) in lists().into_iter().enumerate() {
        let (file, directory) = f.put_listed(number, &entries);
        for caller in callers() {
            for (name, write) in [(&file, false), (&file, true), (&directory, false)] {
                let reported = f.files.object_access(&caller, &f.object(name)).unwrap();
                let right = if write { Access::WRITE_DATA } else { Access::READ_DATA };
                let lets = f.kernel_opens(&caller, name, !write, write);
                let (mode, who) = (mode(&f.at(name)), &caller.identity);
                assert!(!lets || reported.contains(right), "{who:?} {name} {mode:o} {entries:?}");
            }
        }
    }
}

#[test]
fn access_reports_rights_of_stored_acl_on_directory() {
    let asked = Access::READ_DATA | Access::EXECUTE | Access::WRITE_DATA | Access::APPEND_DATA;
    let asked = asked | Access::DELETE_CHILD;
    for is_cached in [false, true] {
        let Some(f) = fixture_over(VolumeOptions::default(), is_cached) else { return };
        for (number, entries) in lists().into_iter().enumerate() {
            let (_, name) = f.put_listed(number, &entries);
            let (object, at) = (f.object(&name), f.at(&name));
            for caller in callers() {
                let reported = f.files.object_access(&caller, &object).unwrap() & asked;
                let done = f.done_over_nfs(&caller, &object, &at);
                let who = &caller.identity;
                assert_eq!(
                    reported,
                    done,
                    "{is_cached} {who:?} {name} {:o} {entries:?}",
                    mode(&at)
                );
                // A cached listing must be granted to the same users.
                for _ in 0..4 {
                    let lists = f.reads_directory(&caller, &object);
                    assert_eq!(
                        lists,
                        reported.contains(Access::READ_DATA),
                        "{is_cached} {who:?} {name}"
                    );
                }
            }
        }
    }
}

/// NFS clients send one user's stateid with another's credentials: root's own open would retain
/// these bits.
#[test]
fn set_id_bits_are_cleared_when_user_writes_by_roots_open() {
    let Some(f) = fixture(false) else { return };
    let at = f.granted_file("tool");
    let source = f.open_as(&f.other, "source", RequestedKind::File);
    f.files.write(&f.other, &source, 0, &[1; 8192]).unwrap();
    let open = f.open_as(&f.root, "tool", RequestedKind::File);
    let (files, by) = (&f.files, &f.other);
    files.authorize_by_open(&open, by, Access::WRITE_DATA).unwrap();
    type Change<'a> = Box<dyn Fn() -> vfs::Result<()> + 'a>;
    let changes: [(&str, Change<'_>); 9] = [
        ("write", Box::new(|| files.write(by, &open, 0, b"evil"))),
        ("append", Box::new(|| files.write(by, &open, u64::MAX, b"evil"))),
        ("truncate", Box::new(|| now(files.set_size(by, &open, 2)))),
        ("extend", Box::new(|| now(files.set_size(by, &open, 100_000)))),
        ("reserve", Box::new(|| now(files.set_allocation(by, &open, 300_000)))),
        ("allocate", Box::new(|| now(files.allocate_range(by, &open, 0, 400_000)))),
        ("zero", Box::new(|| now(files.zero_range(by, &open, 0, 4096)))),
        ("trim", Box::new(|| now(files.trim_range(by, &open, 0, 8192)).map(|_| ()))),
        ("copy", Box::new(|| now(files.copy_range(by, (&source, 0), (&open, 0), 4096)))),
    ];
    for (what, change) in changes {
        std::fs::set_permissions(&at, PermissionsExt::from_mode(0o6777)).unwrap();
        change().unwrap();
        assert_eq!(mode(&at), 0o777, "{what}");
    }
    std::fs::set_permissions(&at, PermissionsExt::from_mode(0o6777)).unwrap();
    files.write(&f.root, &open, 0, b"root").unwrap();
    assert_eq!(mode(&at), 0o6777, "root retains them");
}
