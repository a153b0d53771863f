//! Cached opens: no path walk on a hit, no stale node, and a bounded life.

use crate::support::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use vfs::memory::MemoryVfs;
use vfs::{
    Actor, ArrivalOrder, AttributeChanges, AttributeRequest, Case, DelayedVfs, DosInfo, FileKind,
    Identity, NameCache, NameLookup, Node, OpenHow, PersistentHandles, Replace, Vfs, Wait,
};
use vfs_cache::{CacheOptions, CachedVfs};
use vfs_local::LocalVfs;

/// Waits until a file counts as unchanged long enough.
fn settle() {
    std::thread::sleep(Duration::from_millis(60));
}

fn open(vfs: &dyn Vfs, at: &str, read: bool) -> vfs::Result<vfs::OpenedNode> {
    let how = OpenHow { read, ..how(Case::Insensitive, Wait::Allowed) };
    vfs.open(Actor::SUPERUSER, &path(at), how)
}

fn content(node: &dyn Node) -> Vec<u8> {
    let mut bytes = Vec::new();
    node.read(0, 100, &mut bytes, Wait::Allowed).unwrap();
    bytes
}

fn cached_memory(options: CacheOptions) -> (Arc<MemoryVfs>, CachedVfs) {
    let (memory, clock) = in_memory();
    (memory.clone(), CachedVfs::new(memory, options, clock))
}

#[test]
fn cached_file_is_opened_without_a_path_walk() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
    std::fs::write(folder.path().join("a/b/file"), b"content").unwrap();
    let counting = ScanCounter::over(LocalVfs::open(folder.path()).unwrap());
    let cached = over(counting.clone(), CacheOptions::default());
    settle();
    // A single request is not worth caching.
    drop(open(&cached, "a/b/file", true).unwrap());
    let first = open(&cached, "a/b/file", true).unwrap();
    let calls = || counting.calls.load(std::sync::atomic::Ordering::Relaxed);
    let before = calls();
    let looked = open(&cached, "a/b/file", false).unwrap();
    assert_eq!((looked.attributes, calls()), (first.attributes, before), "looking shares it");
    let other = open(&cached, "a/b/file", true).unwrap();
    assert_eq!(calls(), before + 1, "who reads has a descriptor alone");
    drop((first, looked, other));
    for _ in 0..10 {
        let again = open(&cached, "a/b/file", true).unwrap();
        assert_eq!(content(&*again.node), b"content");
    }
    assert_eq!(calls(), before + 1);
    let alice = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
    let _ = cached.open(alice.actor(), &path("a/b/file"), how(Case::Sensitive, Wait::Allowed));
    assert_eq!(calls(), before + 2, "another user is let in by the system, or not");
    cached.space(Actor::SUPERUSER).unwrap();
}

#[test]
fn open_for_writing_reports_current_attributes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), b"").unwrap();
    let cached = over(Arc::new(LocalVfs::open(folder.path()).unwrap()), CacheOptions::default());
    let local = LocalVfs::open(folder.path()).unwrap();
    let open = |vfs: &dyn Vfs, write| {
        let wanted = AttributeRequest { dos: Some(vfs::ServerWork::Metadata) };
        let how = OpenHow { read: true, write, wanted, ..how(Case::Sensitive, Wait::Allowed) };
        vfs.open(Actor::SUPERUSER, &path("file"), how).unwrap()
    };
    for turn in 0..6 {
        settle();
        (0..3).for_each(|_| drop(open(&cached, false)));
        for _ in 0..2 {
            assert_eq!(open(&cached, true).attributes.dos, open(&local, false).attributes.dos);
        }
        let bits = Some(if turn % 2 == 0 { 0x22 } else { 0x20 });
        let dos = Some(DosInfo { bits, created: None });
        let changes = AttributeChanges { dos, ..AttributeChanges::default() };
        open(&local, true).node.set_attributes(Actor::SUPERUSER, &changes).unwrap();
        for _ in 0..2 {
            assert_eq!(open(&cached, true).attributes.dos.bits, bits, "turn {turn}");
        }
    }
    let (_, security) = cached.counts()[3];
    assert!(security.hits > 0, "cached security is used: {security:?}");
}

#[test]
fn open_for_writing_reuses_cached_security() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), b"").unwrap();
    let cached = over(Arc::new(LocalVfs::open(folder.path()).unwrap()), CacheOptions::default());
    let security = |write| {
        let wanted = AttributeRequest { dos: Some(vfs::ServerWork::Metadata) };
        let how = OpenHow { read: true, write, wanted, ..how(Case::Sensitive, Wait::Allowed) };
        cached.open_with_security(Actor::SUPERUSER, &path("file"), how).unwrap().security
    };
    settle();
    let asked = (0..3).filter_map(|_| security(false)).next_back().unwrap();
    assert!(Arc::ptr_eq(&asked, &security(true).unwrap()));
    std::fs::write(folder.path().join("file"), b"changed").unwrap();
    assert!(security(true).is_none(), "it may be another one now");
}

#[test]
fn cycling_through_too_many_files_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    (0..50).for_each(|n| std::fs::write(folder.path().join(format!("file {n}")), b"").unwrap());
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let cached = over(local, CacheOptions { open_nodes_max: 4, ..CacheOptions::default() });
    settle();
    for n in 0..1000 {
        drop(open(&cached, &format!("file {}", n % 50), false).unwrap());
    }
    let (_, handles) = cached.counts()[0];
    assert!((64..300).contains(&handles.evictions), "kept in vain: {handles:?}");
    (0..20).for_each(|_| drop(open(&cached, "file 1", false).unwrap()));
    let (_, hot) = cached.counts()[0];
    assert!(hot.hits >= handles.hits + 10, "what is of use is kept soon: {hot:?}");
}

#[test]
fn any_change_of_a_cached_file_shows_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let cached = over(local.clone(), CacheOptions::default());
    std::fs::create_dir_all(at("d/e")).unwrap();
    std::fs::create_dir(at("elsewhere")).unwrap();
    let mode = |name: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let changes: [(&str, &dyn Fn()); 9] = [
        ("written", &|| std::fs::write(at("d/e/f"), b"another content").unwrap()),
        ("its mode", &|| mode("d/e/f", 0o600)),
        ("through a link", &|| std::fs::write(at("elsewhere/link"), b"linked").unwrap()),
        ("replaced", &|| {
            std::fs::write(at("new"), b"new").unwrap();
            std::fs::rename(at("new"), at("d/e/f")).unwrap();
        }),
        ("its directory renamed", &|| {
            std::fs::rename(at("d/e"), at("d/g")).unwrap();
            std::fs::create_dir(at("d/e")).unwrap();
        }),
        ("put back", &|| std::fs::rename(at("d/g/f"), at("d/e/f")).unwrap()),
        ("the directory above renamed", &|| std::fs::rename(at("d"), at("h")).unwrap()),
        ("a symbolic link in its place", &|| {
            std::os::unix::fs::symlink("h", at("d")).unwrap();
        }),
        ("removed", &|| std::fs::remove_file(at("h/e/f")).unwrap()),
    ];
    std::fs::write(at("d/e/f"), b"content").unwrap();
    std::fs::hard_link(at("d/e/f"), at("elsewhere/link")).unwrap();
    let seen = |vfs: &dyn Vfs| {
        let opened = open(vfs, "d/e/f", true)?;
        let (bytes, accessed) = (content(&*opened.node), opened.attributes.accessed);
        Ok::<_, vfs::FsError>((
            opened.path,
            vfs::Attributes { accessed, ..opened.attributes },
            bytes,
        ))
    };
    for (what, change) in changes {
        settle();
        (0..3).for_each(|_| drop(seen(&cached)));
        change();
        let (said, truth) = (seen(&cached), seen(&*local));
        let bytes = |seen: &vfs::Result<(_, vfs::Attributes, Vec<u8>)>| {
            seen.as_ref().map(|(_, a, bytes)| (a.mode, a.key, a.changed, bytes.clone())).ok()
        };
        assert_eq!(bytes(&said), bytes(&truth), "{what}");
        assert_eq!(said.map(|s: (vfs::RelPath, _, _)| s.0), truth.map(|t| t.0), "{what}");
    }
}

#[test]
fn another_users_lookup_does_not_revive_lost_rights() {
    let (memory, cached) = cached_memory(CacheOptions::default());
    let alice = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
    make(&*memory, "file", FileKind::File).unwrap();
    make(&*memory, "elsewhere", FileKind::Directory).unwrap();
    let node = open(&*memory, "file", false).unwrap().node;
    memory.link(Actor::SUPERUSER, &*node, &path("elsewhere/link"), Replace::Never).unwrap();
    let read_as = |actor: Actor<'_>| {
        let how = OpenHow { read: true, ..how(Case::Sensitive, Wait::Allowed) };
        cached.open(actor, &path("file"), how).map(drop)
    };
    for actor in [&alice, &Identity::root()] {
        (0..3).for_each(|_| read_as(actor.actor()).unwrap());
    }
    // The directory of the other link is not followed.
    let linked = open(&*memory, "elsewhere/link", false).unwrap().node;
    let changes = AttributeChanges { mode: Some(0o700), ..AttributeChanges::default() };
    linked.set_attributes(Actor::SUPERUSER, &changes).unwrap();
    (0..3).for_each(|_| read_as(Actor::SUPERUSER).unwrap());
    assert_eq!(read_as(alice.actor()), Err(vfs::FsError::AccessDenied));
}

#[test]
fn cached_open_closes_when_idle_or_removed() {
    let (memory, cached) = cached_memory(CacheOptions::default());
    let actor = Identity::root();
    make(&cached, "d", FileKind::Directory).unwrap();
    make(&cached, "d/f", FileKind::File).unwrap();
    let twice = |at: &str| (0..2).map(|_| open(&cached, at, true).unwrap().attributes.key).last();
    let before = memory.open_count();
    let key = twice("d/f").unwrap();
    assert_eq!(memory.open_count(), before + 1);
    cached.remove(actor.actor(), &path("d/f"), key).unwrap();
    assert_eq!(memory.open_count(), before);
    make(&cached, "d/f", FileKind::File).unwrap();
    twice("d/f");
    for _ in 0..5 {
        cached.tick();
    }
    assert!(memory.open_count() > 0);
    cached.tick();
    assert_eq!(memory.open_count(), 0);
    twice("d/f");
    cached.rename(actor.actor(), &path("d"), &path("e"), Replace::Never).unwrap();
    assert!(memory.open_count() <= 1, "nothing below it: the root at most");
    twice("e/f");
    assert!(memory.open_count() > 0);
    cached.set_enabled(false);
    assert_eq!(memory.open_count(), 0);
}

#[test]
fn open_for_writing_is_not_cached() {
    let (memory, cached) = cached_memory(CacheOptions::default());
    make(&cached, "f", FileKind::File).unwrap();
    let before = memory.open_count();
    let how = OpenHow { read: true, write: true, ..how(Case::Insensitive, Wait::Allowed) };
    drop(cached.open(Actor::SUPERUSER, &path("f"), how).unwrap());
    assert_eq!(memory.open_count(), before);
}

#[test]
fn cached_opens_are_bounded() {
    let options = CacheOptions { open_nodes_max: 10, ..CacheOptions::default() };
    let (memory, cached) = cached_memory(options);
    for number in 0..50 {
        make(&cached, &format!("f{number}"), FileKind::File).unwrap();
        (0..2).for_each(|_| drop(open(&cached, &format!("f{number}"), true).unwrap()));
        assert!(memory.open_count() <= 10);
    }
    let (kind, handles) = cached.counts()[0];
    assert!(kind == "handles" && handles.evictions >= 40, "{handles:?}");
}

#[test]
fn just_written_executable_can_be_executed() {
    let folder = tempfile::tempdir().unwrap();
    let cached = over(Arc::new(LocalVfs::open(folder.path()).unwrap()), CacheOptions::default());
    make(&cached, "program", FileKind::File).unwrap();
    let how = OpenHow { read: true, write: true, ..how(Case::Insensitive, Wait::Allowed) };
    let program = std::fs::read(Path::new("/bin/true")).unwrap();
    cached
        .open(Actor::SUPERUSER, &path("program"), how)
        .unwrap()
        .node
        .write(Actor::SUPERUSER, 0, &program)
        .unwrap();
    settle();
    drop(open(&cached, "program", true).unwrap());
    let ran = std::process::Command::new(folder.path().join("program")).status();
    assert!(ran.unwrap().success());
}

/// Only root may mount.
#[test]
fn mount_over_a_directory_shows_after_the_next_tick() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(folder.path().join("d/Below"), b"").unwrap();
    let cached = over(Arc::new(LocalVfs::open(folder.path()).unwrap()), CacheOptions::default());
    (0..3).for_each(|_| assert!(spelt(&cached, "D/BELOW").is_ok()));
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "tmpfs"])
        .arg(folder.path().join("d"))
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        eprintln!("skipped: mounting takes root");
        return;
    }
    let unmount = || std::process::Command::new("umount").arg(folder.path().join("d")).status();
    std::fs::write(folder.path().join("d/Above"), b"").unwrap();
    cached.tick();
    let seen = (spelt(&cached, "D/BELOW").is_ok(), spelt(&cached, "D/ABOVE").is_ok());
    cached.set_enabled(false);
    assert!(unmount().unwrap().success(), "nothing is kept open there");
    assert_eq!(seen, (false, true));
}

#[test]
fn cached_handle_is_found_while_its_path_holds() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("d")).unwrap();
    std::fs::write(at("d/f"), b"content").unwrap();
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let cached = over(local.clone(), CacheOptions::default());
    let handle =
        local.handle(Actor::SUPERUSER, &*open(&*local, "d/f", false).unwrap().node).unwrap();
    let known = || cached.find_cached(&handle, ArrivalOrder::next()).map(|(_, path)| path);
    let find = || {
        cached.find(Actor::SUPERUSER, &handle, AttributeRequest::default()).map(|found| found.path)
    };
    assert_eq!((known(), find().unwrap()), (None, path("d/f")));
    assert_eq!(known(), None, "asked for once is not worth keeping");
    assert_eq!((find().unwrap(), known()), (path("d/f"), Some(path("d/f"))));
    std::fs::write(at("d/f"), b"another content").unwrap();
    assert_eq!(known(), Some(path("d/f")), "it is the same file");
    std::fs::rename(at("d/f"), at("d/g")).unwrap();
    assert_eq!(known(), None);
    if find() == Ok(path("d/g")) {
        // By a kernel handle, not by an earlier path.
        (0..2).for_each(|_| drop(find()));
        assert_eq!(known(), Some(path("d/g")));
        std::fs::rename(at("d"), at("e")).unwrap();
        assert_eq!((known(), find().unwrap()), (None, path("e/g")), "the directory above");
        (0..2).for_each(|_| drop(find()));
        let node = Arc::downgrade(&cached.find_cached(&handle, ArrivalOrder::next()).unwrap().0);
        std::fs::remove_file(at("e/g")).unwrap();
        std::fs::write(at("e/g"), b"another file").unwrap();
        assert_eq!((known(), node.upgrade().map(drop)), (None, None), "nor is it kept open");
        assert_eq!(find(), Err(vfs::FsError::Stale));
    }
}

#[test]
fn created_file_reopens_without_the_slow_backend() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pauses = Arc::new(AtomicUsize::new(0));
    let counted = pauses.clone();
    let pause = Arc::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let slow = Arc::new(DelayedVfs::new(local, pause));
    let cached = over(slow, CacheOptions { open_nodes_max: 16, ..CacheOptions::default() });
    let asks = |vfs: &CachedVfs, name: &str, read| {
        let before = pauses.load(Ordering::Relaxed);
        let opened = open(vfs, name, read);
        (pauses.load(Ordering::Relaxed) - before, opened)
    };
    std::fs::create_dir(at("d")).unwrap();
    // Requests until the directory is followed.
    (0..4).for_each(|_| assert!(is_missing(open(&cached, "d/none", false))));
    make(&cached, "d/one", FileKind::File).unwrap();
    std::fs::write(at("d/one"), b"written").unwrap();
    for read in [false, true, false] {
        let (asked, opened) = asks(&cached, "d/one", read);
        assert_eq!((asked, opened.unwrap().attributes.size_bytes), (0, 7), "read {read}");
    }
    std::fs::write(at("d/other"), b"another").unwrap();
    std::fs::rename(at("d/other"), at("d/one")).unwrap();
    let (asked, opened) = asks(&cached, "d/one", true);
    assert_eq!((asked, content(&*opened.unwrap().node)), (1, b"another".to_vec()));
    // The latest two are retained.
    let names = ["d/two", "d/three", "d/four"];
    names.iter().for_each(|name| make(&cached, name, FileKind::File).unwrap());
    assert_eq!(names.map(|name| asks(&cached, name, false).0), [1, 0, 0]);
    let alice = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
    let how = OpenHow::looking(Wait::Allowed);
    let before = pauses.load(Ordering::Relaxed);
    cached.open(alice.actor(), &path("d/four"), how).unwrap();
    assert_eq!(pauses.load(Ordering::Relaxed), before + 1, "of her nothing is known");
    let key = open(&cached, "d/four", false).unwrap().attributes.key;
    cached.remove(Actor::SUPERUSER, &path("d/four"), key).unwrap();
    assert!(is_missing(open(&cached, "d/four", false)));
}

#[test]
fn cached_handle_closes_when_idle() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), b"content").unwrap();
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let options = CacheOptions { open_nodes_max: 10, ..CacheOptions::default() };
    let cached = over(local.clone(), options);
    let handle = local.handle(Actor::SUPERUSER, &*open(&*local, "f", false).unwrap().node).unwrap();
    let find = || cached.find(Actor::SUPERUSER, &handle, AttributeRequest::default()).unwrap();
    (0..2).for_each(|_| drop(find()));
    (0..5).for_each(|_| cached.tick());
    assert!(cached.find_cached(&handle, ArrivalOrder::next()).is_some(), "and is used again");
    (0..6).for_each(|_| cached.tick());
    assert!(cached.find_cached(&handle, ArrivalOrder::next()).is_none());
    (0..2).for_each(|_| drop(find()));
    assert!(cached.find_cached(&handle, ArrivalOrder::next()).is_some());
    for number in 0..10 {
        let name = format!("other{number}");
        std::fs::write(folder.path().join(&name), b"").unwrap();
        let other =
            local.handle(Actor::SUPERUSER, &*open(&*local, &name, false).unwrap().node).unwrap();
        (0..2).for_each(|_| {
            drop(cached.find(Actor::SUPERUSER, &other, AttributeRequest::default()).unwrap())
        });
    }
    assert!(
        cached.find_cached(&handle, ArrivalOrder::next()).is_none(),
        "no more is kept than may be"
    );
    cached.set_enabled(false);
}

#[test]
fn directory_path_is_right_after_every_rename() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("a/b")).unwrap();
    std::fs::write(at("a/b/f"), b"").unwrap();
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let cached = over(local.clone(), CacheOptions::default());
    let node = open(&*local, "a/b", false).unwrap().node;
    let renames = [("a/b", "a/c"), ("a", "d"), ("d/c", "c"), ("c", "d/b"), ("d", "a")];
    for (from, to) in renames {
        let file = local
            .path_of(Actor::SUPERUSER, &*node)
            .unwrap()
            .join(&vfs::Name::new(&b"f"[..]).unwrap());
        let file = String::from_utf8(file.as_bytes().to_vec()).unwrap();
        // The directory is followed from the second request on.
        (0..3).for_each(|_| drop(open(&cached, &file, false).unwrap()));
        assert_eq!(
            cached.path_of(Actor::SUPERUSER, &*node),
            local.path_of(Actor::SUPERUSER, &*node)
        );
        std::fs::rename(at(from), at(to)).unwrap();
        assert_eq!(
            cached.path_of(Actor::SUPERUSER, &*node),
            local.path_of(Actor::SUPERUSER, &*node),
            "{from} to {to}"
        );
    }
    std::fs::remove_file(at("a/b/f")).unwrap();
    std::fs::remove_dir(at("a/b")).unwrap();
    std::fs::create_dir(at("a/b")).unwrap();
    assert_eq!(cached.path_of(Actor::SUPERUSER, &*node), Err(vfs::FsError::Stale));
}

#[test]
fn change_attribute_is_cached_until_the_next_event() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("dir").join(name);
    std::fs::create_dir(at("")).unwrap();
    let local: Arc<dyn Vfs> = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let cached = over(local.clone(), CacheOptions::default());
    // Followed from the first creation in it.
    make(&cached, "dir/file", FileKind::File).unwrap();
    let directory = open(&cached, "dir", true).unwrap().node;
    let now =
        || NameLookup::Backend(&*local).change_attribute(Actor::SUPERUSER, &*directory).unwrap();
    assert_eq!(
        cached.cached_change_attribute(&*directory, ArrivalOrder::next()),
        None,
        "nobody has looked"
    );
    assert_eq!(cached.change_attribute(Actor::SUPERUSER, &*directory), Ok(now()));
    let mode: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let (actor, file) = (Identity::root(), path("dir/made"));
    let key = || open(&cached, "dir/made", false).unwrap().node.key();
    let done: [&dyn Fn(); 6] = [
        &|| std::fs::write(at("new"), b"").unwrap(),
        &|| std::fs::rename(at("new"), at("other")).unwrap(),
        &|| std::fs::remove_file(at("other")).unwrap(),
        &|| std::fs::set_permissions(at(""), mode.clone()).unwrap(),
        &|| make(&cached, "dir/made", FileKind::File).unwrap(),
        &|| cached.remove(actor.actor(), &file, key()).unwrap(),
    ];
    for (number, done) in done.iter().enumerate() {
        let before = now();
        assert_eq!(
            cached.cached_change_attribute(&*directory, ArrivalOrder::next()),
            Some(before),
            "{number}"
        );
        // The kernel's clock has ticks.
        std::thread::sleep(Duration::from_millis(20));
        done();
        assert_eq!(
            cached.cached_change_attribute(&*directory, ArrivalOrder::next()),
            None,
            "{number}"
        );
        assert_ne!(cached.change_attribute(Actor::SUPERUSER, &*directory), Ok(before), "{number}");
        assert_eq!(
            cached.cached_change_attribute(&*directory, ArrivalOrder::next()),
            Some(now()),
            "{number}"
        );
    }
}
