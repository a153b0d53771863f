//! Cached listings: served without a stat of the entries, and never stale.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

#[path = "names/support.rs"]
mod support;

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use support::*;
use vfs::{
    Actor, AttributeChanges, Case, DosInfo, Identity, NameCache, NameLookup, OpenHow, TimeChange,
    Timestamp, Vfs, Wait,
};
use vfs_cache::{CacheCount, CacheOptions, CachedVfs};
use vfs_local::LocalVfs;

/// Serialises these tests: an unreported change by one process invalidates all of its listings.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listing(cached: &CachedVfs) -> CacheCount {
    let counts = cached.counts();
    counts.into_iter().find(|(kind, _)| *kind == "listings").unwrap().1
}

fn opened(vfs: &dyn Vfs, at: &str, write: bool) -> vfs::OpenedNode {
    let how = OpenHow { read: true, write, ..how(Case::Sensitive, Wait::Allowed) };
    vfs.open(Actor::SUPERUSER, &path(at), how).unwrap()
}

/// A folder of so many files, each as long as its number, with a cache over it.
fn folder_of(files: usize) -> (tempfile::TempDir, Arc<LocalVfs>, CachedVfs) {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..files {
        std::fs::write(folder.path().join(format!("file {number}")), vec![0; number % 100])
            .unwrap();
    }
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let cached = over(local.clone(), CacheOptions::default());
    (folder, local, cached)
}

fn list(names: NameLookup<'_>, piece: usize) -> Vec<ListingEntry> {
    list_all(names, &*opened(names.backend(), "", false).node, Actor::SUPERUSER, piece)
}

#[test]
fn repeated_listing_is_served_from_the_cache() {
    let _alone = alone();
    let (_folder, local, cached) = folder_of(2_000);
    let truth = list(NameLookup::Backend(&*local), 5_000);
    assert_eq!(list(NameLookup::Cache(&cached), 700), truth);
    assert_eq!(listing(&cached).hits, 0, "what is asked for once is not kept");
    assert_eq!(list(NameLookup::Cache(&cached), 700), truth);
    let before = listing(&cached);
    assert!(before.bytes > 100 * 2_000, "{before:?}");
    for piece in [1, 7, 512, 700, 5_000] {
        assert_eq!(list(NameLookup::Cache(&cached), piece), truth, "by {piece}");
    }
    let after = listing(&cached);
    assert_eq!(after.misses, before.misses, "nobody was asked");
    assert!(after.hits > before.hits + 2_000);
}

#[test]
fn any_change_of_a_listed_file_shows_in_next_listing() {
    let _alone = alone();
    let (folder, local, cached) = folder_of(20);
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let at = |name: &str| folder.path().join(name);
    let file = |name: &str| std::fs::File::options().write(true).open(at(name)).unwrap();
    let (long, held) = (file("file 7"), opened(&*local, "file 8", true).node);
    let root = Identity::root();
    let accessed = TimeChange::Set(Timestamp(5_000_000_000));
    let touched = AttributeChanges { accessed, ..Default::default() };
    let dos = Some(DosInfo { bits: Some(0x22), created: None });
    let hidden = AttributeChanges { dos, ..Default::default() };
    let changes: [(&str, &dyn Fn()); 16] = [
        ("written", &|| std::fs::write(at("file 3"), b"other").unwrap()),
        ("written while open", &|| {
            std::os::unix::fs::FileExt::write_all_at(&long, b"x", 4000).unwrap();
        }),
        ("again", &|| std::os::unix::fs::FileExt::write_all_at(&long, b"x", 5000).unwrap()),
        ("by a node", &|| held.write(Actor::SUPERUSER, 6000, b"x").unwrap()),
        ("cut off", &|| long.set_len(3).unwrap()),
        ("mode", &|| {
            std::fs::set_permissions(at("file 4"), std::fs::Permissions::from_mode(0o600)).unwrap();
        }),
        ("times", &|| long.set_modified(std::time::UNIX_EPOCH).unwrap()),
        ("time of access", &|| held.set_attributes(root.actor(), &touched).unwrap()),
        ("extended attribute", &|| {
            held.set_attributes(root.actor(), &hidden).unwrap();
        }),
        ("renamed", &|| std::fs::rename(at("file 6"), at("renamed")).unwrap()),
        ("replaced", &|| std::fs::rename(at("file 9"), at("file 10")).unwrap()),
        ("removed", &|| std::fs::remove_file(at("file 11")).unwrap()),
        ("made", &|| std::fs::write(at("new"), b"new").unwrap()),
        ("made below", &|| std::fs::write(at("sub/below"), b"").unwrap()),
        ("linked by us", &|| {
            let node = opened(&*local, "file 12", false).node;
            local.link(root.actor(), &*node, &path("sub/link"), vfs::Replace::Never).unwrap();
        }),
        ("written by its other name", &|| std::fs::write(at("sub/link"), b"by a link").unwrap()),
    ];
    for (what, change) in changes {
        let before = listing(&cached).hits;
        (0..4).for_each(|_| drop(list(NameLookup::Cache(&cached), 6)));
        assert!(listing(&cached).hits > before, "{what}: it was served from the cache before");
        change();
        assert_eq!(
            list(NameLookup::Cache(&cached), 6),
            list(NameLookup::Backend(&*local), 6),
            "{what}"
        );
    }
}

/// Sets the mode of a folder.
fn set_mode(local: &LocalVfs, folder: &std::path::Path, mode: u32) {
    // The thread may still have Alice's identity.
    local.space(Actor::SUPERUSER).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn alice() -> Identity {
    Identity { uid: 4001, gid: 4001, groups: Vec::new() }
}

#[test]
fn cached_listing_needs_search_permission() {
    let _alone = alone();
    let (folder, local, cached) = folder_of(10);
    let set = |mode| set_mode(&local, folder.path(), mode);
    set(0o755);
    (0..3).for_each(|_| drop(list(NameLookup::Cache(&cached), 100)));
    let alice = alice();
    let how = OpenHow { read: true, ..how(Case::Sensitive, Wait::Allowed) };
    let seen = |names: NameLookup<'_>, node: &dyn vfs::Node| {
        list_all(names, node, alice.actor(), 100).len()
    };
    let node = cached.open(alice.actor(), &path(""), how).unwrap().node;
    assert_eq!(seen(NameLookup::Cache(&cached), &*node), 10);
    set(0o744);
    (0..3).for_each(|_| drop(list(NameLookup::Cache(&cached), 100)));
    // A user without search permission sees names alone.
    assert_eq!(
        seen(NameLookup::Cache(&cached), &*node),
        seen(NameLookup::Backend(&*local), &*node)
    );
    set(0o755);
    assert_eq!(seen(NameLookup::Cache(&cached), &*node), 10);
}

/// Cached entries of the folder for a user that has not opened it.
fn known(cached: &CachedVfs, node: &dyn vfs::Node, actor: Actor<'_>) -> Option<usize> {
    let wanted = vfs::ListingRequest {
        attributes: true,
        stored: Some(vfs::ServerWork::Metadata),
        few: false,
    };
    let mut sink = BoundedSink { left: 100, cookie: 0, seen: Vec::new() };
    let ended = cached.readdir_cached(node, actor, 0, wanted, &mut sink).unwrap();
    assert_ne!(ended, Some(false), "there is room for all");
    ended.map(|_| sink.seen.len())
}

#[test]
fn cached_listing_without_open_needs_read_permission() {
    let _alone = alone();
    let (folder, local, cached) = folder_of(10);
    let set = |mode| set_mode(&local, folder.path(), mode);
    set(0o755);
    let (root, alice) = (Identity::root(), alice());
    let looked = opened(&cached, "", false).node;
    let read = OpenHow { read: true, ..how(Case::Sensitive, Wait::Allowed) };
    let list_as = |actor: Actor<'_>| {
        let node = cached.open_node(actor, &*looked, read).unwrap().node;
        assert_eq!(list_all(NameLookup::Cache(&cached), &*node, actor, 100).len(), 10);
    };
    (0..3).for_each(|_| list_as(root.actor()));
    assert_eq!(known(&cached, &*looked, root.actor()), Some(10));
    assert_eq!(known(&cached, &*looked, alice.actor()), None, "she has not shown that she may");
    list_as(alice.actor());
    assert_eq!(known(&cached, &*looked, alice.actor()), Some(10));
    // Alice has it open and retains search permission, but lost read permission.
    let held = cached.open_node(alice.actor(), &*looked, read).unwrap().node;
    set(0o711);
    assert_eq!(known(&cached, &*looked, alice.actor()), None, "it was heard");
    (0..3).for_each(|_| list_as(root.actor()));
    assert_eq!(list_all(NameLookup::Cache(&cached), &*held, alice.actor(), 100).len(), 10);
    assert_eq!(known(&cached, &*looked, alice.actor()), None, "she could not open it now");
    assert!(cached.open_node(alice.actor(), &*looked, read).is_err());
    assert_eq!(known(&cached, &*looked, root.actor()), Some(10));
    local.space(root.actor()).unwrap();
    std::fs::write(folder.path().join("file 3"), b"other").unwrap();
    assert_eq!(known(&cached, &*looked, root.actor()), None, "it has changed");
}

#[test]
fn unreported_change_shows_within_six_ticks() {
    let _alone = alone();
    let (folder, local, cached) = folder_of(10);
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    (0..3).for_each(|_| drop(list(NameLookup::Cache(&cached), 100)));
    let map = |name: &str| folder.path().join(name);
    // Another process, because this one would report the change.
    let linked = std::process::Command::new("ln").args([map("file 1"), map("sub/link")]).status();
    assert!(linked.unwrap().success());
    std::fs::write(map("sub/link"), b"unheard").unwrap();
    (0..5).for_each(|_| cached.tick());
    cached.tick();
    assert_eq!(list(NameLookup::Cache(&cached), 100), list(NameLookup::Backend(&*local), 100));
}

#[test]
fn write_by_a_removed_name_shows_within_six_ticks() {
    let _alone = alone();
    let (folder, local, cached) = folder_of(3);
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let at = |name: &str| folder.path().join(name);
    let held = opened(&*local, "file 1", true).node;
    let linked = std::process::Command::new("ln").args([at("file 1"), at("sub/link")]).status();
    assert!(linked.unwrap().success());
    std::fs::remove_file(at("file 1")).unwrap();
    let list = |names: NameLookup<'_>| {
        list_all(names, &*opened(names.backend(), "sub", false).node, Actor::SUPERUSER, 100)
    };
    (0..3).for_each(|_| drop(list(NameLookup::Cache(&cached))));
    // The kernel notifies the directory through which the file was opened.
    held.write(Actor::SUPERUSER, 0, b"by another name").unwrap();
    assert_eq!(opened(&cached, "sub/link", false).attributes.size_bytes, 15, "a look tells");
    (0..6).for_each(|_| cached.tick());
    assert_eq!(list(NameLookup::Cache(&cached)), list(NameLookup::Backend(&*local)));
}

#[test]
fn no_listing_is_cached_without_a_feed() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let at = folder.path().join("sub/File");
    std::fs::write(&at, b"1").unwrap();
    let local = LocalVfs::open(folder.path()).unwrap();
    let cached = over(ScanCounter::deaf(local), CacheOptions::default());
    for length in 2..50 {
        let found = opened(&cached, "sub/File", false).attributes.size_bytes;
        assert_eq!(found, length - 1);
        let other = how(Case::Insensitive, Wait::Allowed);
        assert!(cached.open(Actor::SUPERUSER, &path("SUB/FILE"), other).is_ok());
        let listed = opened(&cached, "sub", false).node;
        let listed = list_all(NameLookup::Cache(&cached), &*listed, Actor::SUPERUSER, 100);
        assert_eq!(listed.len(), 1);
        std::fs::write(&at, vec![0; length as usize]).unwrap();
    }
    let counts = cached.counts();
    assert!(counts.iter().all(|(_, count)| count.hits == 0 && count.bytes == 0), "{counts:?}");
}

#[test]
fn listings_use_a_quarter_and_evict_by_use() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let names = ["one", "two", "three", "four"];
    for name in names {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        let file = |number| folder.path().join(name).join(format!("file {number}"));
        (0..500).for_each(|number| std::fs::write(file(number), b"").unwrap());
    }
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    // The budget fits three of them.
    let options = CacheOptions { budget_bytes: 4 * 220_000, ..CacheOptions::default() };
    let cached = over(local, options);
    let list = |name: &str| {
        list_all(
            NameLookup::Cache(&cached),
            &*opened(&cached, name, false).node,
            Actor::SUPERUSER,
            900,
        )
    };
    for name in names {
        (0..3).for_each(|_| assert_eq!(list(name).len(), 500));
        list("one");
        assert!(listing(&cached).bytes <= 220_000, "{:?}", listing(&cached));
    }
    let kept = listing(&cached);
    assert!(kept.bytes > 100_000 && kept.evictions >= 1, "{kept:?}");
    let before = listing(&cached).misses;
    list("one");
    assert_eq!(listing(&cached).misses, before, "what is used stays");
    cached.set_budget(4 * 20_000);
    (0..4).for_each(|_| drop(list("two")));
    assert!(listing(&cached).bytes <= 20_000, "what does not fit is not kept");
}
