//! Credentials of calls that read: the backend acts as the given actor, and calls without one need
//! no permission from the kernel.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use vfs::{
    Actor, AttributeChanges, AttributeRequest, Case, ChildName, DosInfo, ExpectedChild, FsError,
    Identity, Name, NameActor, Node, OpenHow, PersistentHandles, RelPath, SecurityChange,
    ServerWork, StreamName, TimeChange, Timestamp, UserQuotas, Vfs, Wait, XattrName,
};
use vfs_local::{LocalVfs, keep_identity, rest_as_process, rest_without_power};

const METADATA: Actor<'static> = Actor::server(ServerWork::Metadata);
/// The header of a self-relative descriptor without any part.
const DESCRIPTOR: [u8; 20] = [1, 0, 4, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const LOOK: OpenHow = OpenHow::looking(Wait::Allowed);
const READ: OpenHow = OpenHow { read: true, ..LOOK };

fn xattr_name(text: &str) -> XattrName {
    XattrName::new(text.as_bytes()).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn path(text: &str) -> RelPath {
    text.split('/').map(name).collect()
}

/// A user without any permission here.
fn stranger() -> Identity {
    Identity { uid: 4001, gid: 4001, groups: Vec::new() }
}

/// A tree that only the superuser may read or enter.
struct ClosedTree {
    folder: tempfile::TempDir,
    vfs: LocalVfs,
}

/// `None` if the process cannot act as others, or extended attributes cannot be stored.
fn closed() -> Option<ClosedTree> {
    let folder = tempfile::tempdir().unwrap();
    let vfs = LocalVfs::open(folder.path()).unwrap();
    if !rustix::process::geteuid().is_root() || !vfs.features().xattrs {
        eprintln!("skipped: no superuser, or no extended attributes here");
        return None;
    }
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(folder.path().join("d/f"), b"data").unwrap();
    std::os::unix::fs::symlink("target", folder.path().join("d/l")).unwrap();
    let closed = ClosedTree { folder, vfs };
    let who = Actor::SUPERUSER;
    let file = closed.open("d/f", READ);
    file.need_xattrs().unwrap().set_xattr(who, &xattr_name("note"), Some(b"value")).unwrap();
    file.need_reparse_data().unwrap().set_reparse_data(who, Some(b"reparse")).unwrap();
    file.exclusive_creation().unwrap().set_verifier(METADATA, *b"verifier").unwrap();
    file.need_streams().unwrap().create_stream(who, &stream(), Case::Sensitive).unwrap();
    file.need_streams().unwrap().write_stream(who, &stream(), 0, b"1234").unwrap();
    let dos = Some(DosInfo { bits: Some(2), created: None });
    file.set_attributes(who, &AttributeChanges { dos, ..Default::default() }).unwrap();
    for at in ["d/f", "d", ""] {
        set_mode(&closed.folder.path().join(at), 0);
    }
    let change = SecurityChange { descriptor: Some(&DESCRIPTOR), ..Default::default() };
    file.set_security(who, &change).unwrap();
    Some(closed)
}

#[test]
fn refused_times_leave_dos_attributes_unchanged() {
    let Some(closed) = closed() else { return };
    let at = closed.folder.path();
    set_mode(at, 0o755);
    std::fs::write(at.join("file"), b"").unwrap();
    // Everybody may store extended attributes, but only the owner may set times.
    set_mode(&at.join("file"), 0o666);
    let file = closed.open("file", READ);
    let wanted = AttributeRequest { dos: Some(ServerWork::Metadata) };
    let dos = DosInfo { bits: Some(2), created: Some(Timestamp(5_000_000_000)) };
    let both = AttributeChanges {
        dos: Some(dos),
        modified: TimeChange::Set(Timestamp(6_000_000_000)),
        ..Default::default()
    };
    let user = stranger();
    let stored = || file.attributes(wanted).unwrap().dos;
    assert_eq!(file.set_attributes(user.actor(), &both), Err(FsError::AccessDenied));
    assert_eq!(stored(), DosInfo::default(), "there were none");
    file.set_attributes(
        Actor::SUPERUSER,
        &AttributeChanges { dos: Some(dos), ..Default::default() },
    )
    .unwrap();
    let other = DosInfo { bits: Some(4), created: Some(Timestamp(7_000_000_000)) };
    let changes = AttributeChanges { dos: Some(other), ..both };
    assert_eq!(file.set_attributes(user.actor(), &changes), Err(FsError::AccessDenied));
    assert_eq!(stored(), dos);
}

/// Pipes and sockets have no user extended attributes: the kernel refuses them. xattr(7).
#[test]
fn times_are_set_on_pipes_and_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = LocalVfs::open(folder.path()).unwrap();
    let kinds = [("pipe", rustix::fs::FileType::Fifo), ("socket", rustix::fs::FileType::Socket)];
    for (at, kind) in kinds {
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mknodat(rustix::fs::CWD, folder.path().join(at), kind, mode, 0).unwrap();
        let node = vfs.open(Actor::SUPERUSER, &path(at), LOOK).unwrap().node;
        let time = Timestamp(5_000_000_000);
        let changes = AttributeChanges {
            dos: Some(DosInfo { bits: Some(2), created: Some(time) }),
            modified: TimeChange::Set(time),
            changed: Some(time),
            ..Default::default()
        };
        assert_eq!(node.set_attributes(Actor::SUPERUSER, &changes), Ok(()), "{at}");
        assert_eq!(node.attributes(AttributeRequest::default()).unwrap().modified, time, "{at}");
    }
}

/// Fills the file's attributes, on a file system that has 4 KiB of them (ext4).
#[test]
fn times_are_set_without_room_for_the_change_time() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = LocalVfs::open(folder.path()).unwrap();
    std::fs::write(folder.path().join("file"), b"").unwrap();
    let node = vfs.open(Actor::SUPERUSER, &path("file"), READ).unwrap().node;
    let mut is_full = false;
    'all: for length in [3000, 500, 100, 20, 1] {
        for at in 0..40 {
            let filled = node.need_xattrs().unwrap().set_xattr(
                Actor::SUPERUSER,
                &xattr_name(&format!("fill{length}.{at}")),
                Some(&vec![b'x'; length]),
            );
            is_full |= filled.is_err();
            if length == 3000 && at > 2 && !is_full {
                break 'all;
            }
            if filled.is_err() {
                break;
            }
        }
    }
    if !is_full {
        return eprintln!("skipped: there is room for more here");
    }
    let time = Timestamp(5_000_000_000);
    let alone = AttributeChanges { changed: Some(time), ..Default::default() };
    assert!(node.set_attributes(Actor::SUPERUSER, &alone).is_err(), "it is all that is asked for");
    let both = AttributeChanges { modified: TimeChange::Set(time), ..alone };
    assert_eq!(node.set_attributes(Actor::SUPERUSER, &both), Ok(()));
    assert_eq!(node.attributes(AttributeRequest::default()).unwrap().modified, time);
}

#[test]
fn dos_attributes_survive_concurrent_change_times() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = LocalVfs::open(folder.path()).unwrap();
    if !vfs.features().xattrs {
        return eprintln!("skipped: no extended attributes here");
    }
    std::fs::write(folder.path().join("file"), b"").unwrap();
    let open = || vfs.open(Actor::SUPERUSER, &path("file"), READ).unwrap().node;
    let (one, other) = (open(), open());
    let wanted = AttributeRequest { dos: Some(ServerWork::Metadata) };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let changed = Some(Timestamp(5_000_000_000));
            let changes = AttributeChanges { changed, ..Default::default() };
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                one.set_attributes(Actor::SUPERUSER, &changes).unwrap();
            }
        });
        let lost = (0..3000u32).find(|round| {
            let bits = Some(round % 2 + 1);
            let dos = Some(DosInfo { bits, created: None });
            let changes = AttributeChanges { dos, ..Default::default() };
            other.set_attributes(Actor::SUPERUSER, &changes).unwrap();
            std::thread::sleep(std::time::Duration::from_micros(50));
            other.attributes(wanted).unwrap().dos.bits != bits
        });
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(lost, None);
    });
}

fn stream() -> StreamName {
    StreamName::new(&b"stream"[..]).unwrap()
}

fn set_mode(at: &Path, mode: u32) {
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl ClosedTree {
    fn open(&self, at: &str, how: OpenHow) -> Arc<dyn Node> {
        self.vfs.open(Actor::SUPERUSER, &path(at), how).unwrap().node
    }
}

/// Runs `calls` on a thread without privileges.
fn without_power(calls: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rest_without_power();
            calls();
        });
    });
}

/// A thread starts with its creator's credentials, so by chance a file of the server's state could not
/// be read.
#[test]
fn thread_started_without_privileges_gets_those_of_the_process() {
    let Some(closed) = closed() else { return };
    let secret = closed.folder.path().join("d/f");
    let read_by_new_thread = |prepare: fn()| {
        let at = secret.clone();
        let reading = std::thread::spawn(move || {
            prepare();
            std::fs::read(at)
        });
        reading.join().unwrap()
    };
    without_power(|| {
        assert_eq!(read_by_new_thread(|| ()).unwrap_err().kind(), DENIED);
        assert!(read_by_new_thread(rest_as_process).is_ok());
    });
    assert!(std::fs::read(&secret).is_ok());
}

#[test]
fn calls_without_actor_need_no_permission() {
    let Some(closed) = closed() else { return };
    let (open, looked) = (closed.open("d/f", READ), closed.open("d/f", LOOK));
    let directory = closed.open("d", READ);
    let id = closed.vfs.persistent_id(&*looked);
    without_power(|| {
        assert_eq!(std::fs::read(closed.folder.path().join("d/f")).unwrap_err().kind(), DENIED);
        for node in [&open, &looked] {
            assert_eq!(node.attributes(AttributeRequest::default()).unwrap().size_bytes, 4);
            let descriptor = node.security_descriptor().unwrap();
            assert_eq!(descriptor.as_deref(), Some(&DESCRIPTOR[..]));
            assert_eq!(node.posix_acl(), Ok(None));
            assert_eq!(closed.vfs.persistent_id(&**node), id);
            assert!(!closed.vfs.is_read_only_at(&**node));
            closed.vfs.quota_state_of(&**node);
        }
        let mut data = Vec::new();
        assert_eq!(open.read(0, 9, &mut data, Wait::Allowed), Ok(4));
        assert_eq!(
            open.need_extents().unwrap().seek_data(0).unwrap().map(|(start, _)| start),
            Some(0)
        );
        open.local_file().unwrap().is_noatime();
        open.local_file().unwrap().is_resident(0, 4);
        open.local_file().unwrap().syncs_without_waiting();
        assert_eq!(directory.is_empty(), Ok(false));
        let mut count = 0;
        directory
            .readdir(0, &mut |entry| {
                count += usize::from(!entry.name.as_bytes().starts_with(b"."));
                true
            })
            .unwrap();
        assert_eq!(count, 2);
        closed.vfs.quota_state();
    });
}

const DENIED: std::io::ErrorKind = std::io::ErrorKind::PermissionDenied;

/// True if a call succeeds; panics on a failure other than a denied permission.
fn is_let<T>(result: Result<T, FsError>) -> bool {
    match result {
        Ok(_) => true,
        Err(FsError::AccessDenied) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn reads_use_the_given_actors_credentials() {
    let Some(closed) = closed() else { return };
    let (vfs, node, directory) = (&closed.vfs, closed.open("d/f", LOOK), closed.open("d", READ));
    let handle = vfs.handle(Actor::server(ServerWork::LocateNode), &*node).unwrap();
    let stream = stream();
    type Call<'a> = &'a dyn Fn(Actor<'_>) -> bool;
    let calls: [(&str, Call<'_>); 9] = [
        ("xattr", &|who| is_let(node.need_xattrs().unwrap().xattr(who, &xattr_name("note")))),
        ("child_xattrs", &|who| {
            !directory.need_xattrs().unwrap().child_xattrs(who, &name("f")).is_empty()
        }),
        ("reparse_data", &|who| is_let(node.reparse_data(who))),
        ("verifier", &|who| node.exclusive_creation().unwrap().verifier(who).is_ok()),
        ("set_verifier", &|who| {
            is_let(node.exclusive_creation().unwrap().set_verifier(who, *b"verifier"))
        }),
        ("streams", &|who| is_let(node.streams(who))),
        ("find_stream", &|who| is_let(node.find_stream(who, &stream, Case::Sensitive))),
        ("sync", &|who| is_let(node.sync(who, false))),
        ("find", &|who| is_let(vfs.find(who, &handle, AttributeRequest::default()))),
    ];
    let user = stranger();
    for (name, call) in calls {
        for (before, who, expected) in
            [(METADATA, user.actor(), false), (user.actor(), METADATA, true)]
        {
            keep_identity(|| {
                // The thread has other credentials when the call starts.
                vfs.space(before).unwrap();
                assert_eq!(call(who), expected, "{name} by {who:?}");
            });
        }
    }
}

#[test]
fn dos_attributes_are_read_for_the_given_work() {
    let Some(closed) = closed() else { return };
    let looked = closed.open("d/f", LOOK);
    without_power(|| {
        let wanted = AttributeRequest { dos: Some(ServerWork::Metadata) };
        assert_eq!(looked.attributes(wanted).unwrap().dos.bits, Some(2));
        assert_eq!(looked.attributes(AttributeRequest::default()).unwrap().dos.bits, None);
    });
}

#[test]
fn links_and_xattr_names_are_read_as_the_actor() {
    let Some(closed) = closed() else { return };
    let (link, looked) =
        (closed.open("d/l", OpenHow { no_follow: true, ..LOOK }), closed.open("d/f", LOOK));
    let user = stranger();
    // Linux requires no permission: everybody that could open them may know.
    assert_eq!(link.readlink(user.actor()).unwrap(), b"target");
    assert_eq!(
        looked.need_xattrs().unwrap().xattr_names(user.actor()).unwrap(),
        [xattr_name("note")]
    );
    let nobody = Identity { uid: Identity::INVALID_ID, ..stranger() };
    assert_eq!(link.readlink(nobody.actor()), Err(FsError::AccessDenied));
    assert_eq!(
        looked.need_xattrs().unwrap().xattr_names(nobody.actor()),
        Err(FsError::AccessDenied)
    );
}

/// The calling thread's file system user id.
fn fsuid() -> u32 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap()
}

/// A tree with a directory that everybody may search and one that only its owner may search, both
/// O_PATH; each has a file and a symbolic link.
struct GradedTree {
    _folder: tempfile::TempDir,
    vfs: LocalVfs,
    open: Arc<dyn Node>,
    own: Arc<dyn Node>,
}

fn graded() -> Option<GradedTree> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: no superuser");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, mode) in [("open", 0o755), ("own", 0o700)] {
        let at = folder.path().join(name);
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("f"), b"data").unwrap();
        set_mode(&at.join("f"), 0);
        std::os::unix::fs::symlink("f", at.join("l")).unwrap();
        std::os::unix::fs::chown(&at, Some(stranger().uid), Some(stranger().gid)).unwrap();
        set_mode(&at, mode);
    }
    let vfs = LocalVfs::open(folder.path()).unwrap();
    let [open, own] =
        ["open", "own"].map(|at| vfs.open(Actor::SUPERUSER, &path(at), LOOK).unwrap().node);
    Some(GradedTree { _folder: folder, vfs, open, own })
}

impl GradedTree {
    /// Whether a look-up succeeds, and the user id with which the thread made it.
    fn look(&self, directory: &Arc<dyn Node>, name: &str, how: OpenHow) -> (bool, u32) {
        let (found, who) = self.look_as(&stranger(), directory, name, how);
        (found == Some(true), who)
    }

    /// Whether a look-up finds the name, or `None` if it is denied or skipped; and the thread's
    /// user id.
    fn look_as(
        &self,
        user: &Identity,
        directory: &Arc<dyn Node>,
        name: &str,
        how: OpenHow,
    ) -> (Option<bool>, u32) {
        let path = path(name);
        let child = ChildName { directory: &**directory, path: &path };
        let look = || {
            self.vfs.lookup_child(user.actor(), child, how).map(|looked| match looked {
                Err(FsError::NotFound) => false,
                found => found.is_ok(),
            })
        };
        keep_identity(|| (look(), fsuid()))
    }
}

#[test]
fn public_lookup_changes_no_credentials() {
    let Some(graded) = graded() else { return };
    let wanted = OpenHow { wanted: AttributeRequest { dos: Some(ServerWork::Metadata) }, ..LOOK };
    let follow = OpenHow { no_follow: false, ..LOOK };
    without_power(|| {
        let look = |name, how| graded.look(&graded.open, name, how);
        let nobody = Identity::POWERLESS_ID;
        assert_eq!(look("f", LOOK), (true, nobody));
        assert_eq!(look("f", wanted), (true, nobody));
        assert_eq!(look("l", LOOK), (true, nobody));
        assert_eq!(look("l", follow), (false, nobody), "a link is the caller's to follow");
        assert_eq!(look("f", READ), (false, nobody), "no look");
        assert_eq!(look("none", LOOK), (false, nobody));
        assert_eq!(graded.look(&graded.own, "f", LOOK), (false, nobody));
    });
    assert_eq!(graded.look(&graded.open, "f", LOOK), (false, 0), "a thread that has power");
}

#[test]
fn negative_public_lookup_is_not_repeated_as_the_user() {
    let Some(graded) = graded() else { return };
    without_power(|| {
        let look = |directory| graded.look_as(&stranger(), directory, "none", LOOK);
        let nobody = Identity::POWERLESS_ID;
        assert_eq!(look(&graded.open), (Some(false), nobody));
        assert_eq!(look(&graded.own), (None, nobody), "nothing is said of a closed directory");
    });
}

#[test]
fn lookup_uses_the_threads_current_user_only() {
    let Some(graded) = graded() else { return };
    let other = Identity { uid: stranger().uid + 1, gid: 1, groups: Vec::new() };
    without_power(|| {
        keep_identity(|| {
            let user = stranger();
            graded.vfs.open(user.actor(), &path("own/f"), LOOK).unwrap();
            let look = |who, name| graded.look_as(who, &graded.own, name, LOOK);
            assert_eq!(look(&user, "f"), (Some(true), user.uid));
            assert_eq!(look(&user, "none"), (Some(false), user.uid));
            assert_eq!(look(&other, "f"), (None, user.uid), "another user's");
        });
    });
}

#[test]
fn directory_sync_reuses_one_descriptor() {
    let Some(graded) = graded() else { return };
    let other = Identity { uid: stranger().uid + 1, gid: 1, groups: Vec::new() };
    let sync = |who| graded.own.sync(who, false);
    assert_eq!(sync(other.actor()), Err(FsError::AccessDenied), "it opens the directory");
    assert_eq!(sync(Actor::server(ServerWork::Sync)), Ok(()));
    assert_eq!(sync(other.actor()), Ok(()), "it opens nothing");
}

#[test]
fn public_lookups_resume_after_a_refusal() {
    let Some(graded) = graded() else { return };
    without_power(|| {
        assert!(!graded.look(&graded.own, "f", LOOK).0);
        let public = (0..200).filter(|_| graded.look(&graded.open, "f", LOOK).0).count();
        assert_eq!(public, 200 - 64);
    });
}

/// Owner, group and mode of a directory, and whether the stranger may remove a name from it.
const REMOVALS: [(u32, u32, u32, bool); 7] = [
    (4001, 4001, 0o700, true),
    (4001, 0, 0o077, false),
    (4001, 0, 0o1700, true),
    (4002, 4001, 0o070, true),
    (4002, 4001, 0o707, false),
    (4002, 4002, 0o707, true),
    (4002, 4002, 0o1707, false),
];

#[test]
fn removal_asks_for_owner_and_groups_as_posix_does() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = LocalVfs::open(folder.path()).unwrap();
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: no superuser");
        return;
    }
    let at = folder.path().join("d");
    for (uid, gid, mode, is_allowed) in REMOVALS {
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("f"), b"").unwrap();
        std::os::unix::fs::chown(&at, Some(uid), Some(gid)).unwrap();
        set_mode(&at, mode);
        let directory = vfs.open(Actor::SUPERUSER, &path("d"), LOOK).unwrap().node;
        let key = vfs.open(Actor::SUPERUSER, &path("d/f"), LOOK).unwrap().attributes.key;
        let path = path("d/f");
        let child = ChildName { directory: &*directory, path: &path };
        without_power(|| {
            let (user, is_file_as_seen) = (stranger(), true);
            let who = NameActor::Own(user.actor());
            let expected = ExpectedChild { key, is_file_as_seen };
            let removed = keep_identity(|| is_let(vfs.remove_in(who, child, expected)));
            assert_eq!(removed, is_allowed, "{uid} {gid} {mode:o}");
            assert_eq!(fsuid(), Identity::POWERLESS_ID);
        });
        std::fs::remove_dir_all(&at).unwrap();
    }
}

#[test]
fn protected_hardlinks_do_not_restrict_posix_links() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = LocalVfs::open(folder.path()).unwrap();
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: no superuser");
        return;
    }
    set_mode(folder.path(), 0o755);
    for (at, mode) in [("open", 0o777), ("closed", 0o755)] {
        std::fs::create_dir(folder.path().join(at)).unwrap();
        set_mode(&folder.path().join(at), mode);
    }
    std::fs::write(folder.path().join("theirs"), b"").unwrap();
    set_mode(&folder.path().join("theirs"), 0o4600);
    let sysctl = std::fs::read_to_string("/proc/sys/fs/protected_hardlinks").unwrap_or_default();
    let user = stranger();
    let node = vfs.open(Actor::SUPERUSER, &path("theirs"), LOOK).unwrap().node;
    let denied = Err(FsError::AccessDenied);
    if sysctl.trim() == "1" {
        let by_host = vfs.link(user.actor(), &*node, &path("open/link"), vfs::Replace::Never);
        assert_eq!(by_host, denied);
    }
    let link = |at: &str| vfs.link_as_posix(user.actor(), &*node, &path(at));
    assert_eq!(link("open/link"), Ok(()));
    assert_eq!(link("open/link"), Err(FsError::AlreadyExists));
    assert_eq!(link("closed/link"), denied, "POSIX asks for the directory's permission");
    let file = std::fs::File::open(folder.path().join("theirs")).unwrap();
    let flags = rustix::fs::IFlags::IMMUTABLE;
    if rustix::fs::ioctl_setflags(&file, flags).is_ok() {
        assert_eq!(link("open/other"), denied);
        rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::empty()).unwrap();
    }
}

/// A set-group-ID bit without group execution runs nobody as the group. The kernel preserves it for
/// the group's members, and clears it when anybody else changes the file.
#[test]
fn setgid_without_exec_survives_group_writes() {
    let Some(closed) = closed() else { return };
    let at = closed.folder.path();
    set_mode(at, 0o755);
    std::fs::write(at.join("file"), b"").unwrap();
    std::os::unix::fs::chown(at.join("file"), None, Some(4001)).unwrap();
    let file = closed.open("file", OpenHow { write: true, ..READ });
    let member = stranger();
    let other = Identity { uid: 4002, gid: 4002, groups: Vec::new() };
    let mark = |mode| {
        let changes = AttributeChanges { mode: Some(mode), ..Default::default() };
        file.set_attributes(Actor::SUPERUSER, &changes).unwrap();
    };
    let mode_left = || file.attributes(AttributeRequest::default()).unwrap().mode;
    without_power(|| {
        for (who, mode, left) in
            [(&member, 0o6666, 0o2666), (&member, 0o6676, 0o676), (&other, 0o6666, 0o666)]
        {
            mark(mode);
            file.write(who.actor(), 0, b"data").unwrap();
            assert_eq!(mode_left(), left, "{mode:o}, written");
            mark(mode);
            file.append(who.actor(), b"data").unwrap();
            assert_eq!(mode_left(), left, "{mode:o}, appended");
        }
    });
}
