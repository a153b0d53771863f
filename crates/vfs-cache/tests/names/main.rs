//! Names: found without scans in any case, and never stale.
#![allow(clippy::unwrap_used)]

mod cached_opens;
mod freshness;
mod stale_answers;
mod support;

use std::sync::Arc;
use support::*;
use vfs::{Actor, Case, FileKind, FsError, Identity, Replace, Vfs, Wait};
use vfs_cache::{CacheOptions, CachedVfs};
use vfs_local::LocalVfs;

/// A local directory, a counter of its scans, and the cache.
fn served() -> (tempfile::TempDir, Arc<ScanCounter<LocalVfs>>, CachedVfs) {
    let folder = tempfile::tempdir().unwrap();
    let counting = ScanCounter::over(LocalVfs::open(folder.path()).unwrap());
    let cached = over(counting.clone(), CacheOptions::default());
    (folder, counting, cached)
}

#[test]
fn directory_is_read_once_for_many_lookups() {
    let (_folder, counting, cached) = served();
    make(&cached, "Dir", FileKind::Directory).unwrap();
    for number in 0..2_000 {
        make(&cached, &format!("dir/File{number}"), FileKind::File).unwrap();
        assert!(is_missing(spelt(&cached, &format!("DIR/none{number}"))));
        assert_eq!(
            spelt(&cached, &format!("dIR/fILE{number}")).unwrap(),
            format!("Dir/File{number}")
        );
        let again = make(&cached, &format!("Dir/FILE{number}"), FileKind::File);
        assert_eq!(again.unwrap_err(), FsError::AlreadyExists);
    }
    assert_eq!(counting.scans(), (2, 0), "the root's and the directory's names, once each");
}

#[test]
fn names_of_a_cached_directory_need_no_wait() {
    let (_folder, _, cached) = served();
    make(&cached, "Present", FileKind::File).unwrap();
    let actor = Identity::root();
    let at_once =
        |name: &str| cached.open(actor.actor(), &path(name), how(Case::Insensitive, Wait::Never));
    assert!(is_missing(spelt(&cached, "absent")), "asked for once");
    assert_eq!(at_once("absent").unwrap_err(), FsError::NotFound);
    assert_eq!(at_once("PRESENT").unwrap().path, path("Present"));
}

#[test]
fn names_follow_renames_links_and_removals_at_once() {
    let (_folder, counting, cached) = served();
    let actor = Identity::root();
    make(&cached, "One", FileKind::Directory).unwrap();
    make(&cached, "Two", FileKind::Directory).unwrap();
    make(&cached, "One/File", FileKind::File).unwrap();
    assert!(is_missing(spelt(&cached, "TWO/FILE")));
    cached.rename(actor.actor(), &path("One/File"), &path("Two/File"), Replace::Never).unwrap();
    assert!(is_missing(spelt(&cached, "ONE/FILE")));
    assert_eq!(spelt(&cached, "TWO/FILE").unwrap(), "Two/File");
    cached.rename(actor.actor(), &path("Two"), &path("Three"), Replace::Never).unwrap();
    assert!(is_missing(spelt(&cached, "TWO/FILE")));
    assert_eq!(spelt(&cached, "THREE/FILE").unwrap(), "Three/File");
    cached.rename(actor.actor(), &path("Three/File"), &path("Three/FILE"), Replace::File).unwrap();
    assert_eq!(spelt(&cached, "three/file").unwrap(), "Three/FILE");
    let node = cached.open(actor.actor(), &path("Three/FILE"), how(Case::Sensitive, Wait::Allowed));
    cached.link(actor.actor(), &*node.unwrap().node, &path("One/Link"), Replace::Never).unwrap();
    assert_eq!(spelt(&cached, "one/LINK").unwrap(), "One/Link");
    let link =
        cached.open(actor.actor(), &path("One/Link"), how(Case::Sensitive, Wait::Allowed)).unwrap();
    cached.remove(actor.actor(), &path("One/Link"), link.attributes.key).unwrap();
    assert!(is_missing(spelt(&cached, "one/LINK")));
    cached.symlink(actor.actor(), &path("One/Sym"), b"../Three/FILE").unwrap();
    assert_eq!(spelt(&cached, "ONE/SYM").unwrap(), "One/Sym");
    assert_eq!(counting.scans().1, 0);
}

#[test]
fn concurrent_creates_make_one_case_variant() {
    let (_folder, _, cached) = served();
    for round in 0..200 {
        let spellings = [format!("name{round}"), format!("NAME{round}"), format!("Name{round}")];
        let made: usize = std::thread::scope(|scope| {
            let tries = spellings.iter().map(|name| {
                let cached = &cached;
                scope.spawn(move || usize::from(make(cached, name, FileKind::File).is_ok()))
            });
            tries.collect::<Vec<_>>().into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(made, 1, "round {round}");
    }
}

#[test]
fn names_beyond_the_budget_are_evicted_and_reread() {
    let folder = tempfile::tempdir().unwrap();
    let counting = ScanCounter::over(LocalVfs::open(folder.path()).unwrap());
    let options = CacheOptions { budget_bytes: 54_000, directories_max: 100, open_nodes_max: 4 };
    let cached = over(counting.clone(), options);
    for directory in 0..30 {
        make(&cached, &format!("D{directory}"), FileKind::Directory).unwrap();
        for file in 0..100 {
            std::fs::write(folder.path().join(format!("D{directory}/F{file}")), b"").unwrap();
        }
    }
    for round in 0..3 {
        for directory in 0..30 {
            let found = spelt(&cached, &format!("d{directory}/f{round}")).unwrap();
            assert_eq!(found, format!("D{directory}/F{round}"));
            let (_, names) = cached.counts()[1];
            assert!(names.bytes <= 40_000, "{names:?}");
        }
    }
    let (_, names) = cached.counts()[1];
    assert!(names.evictions > 20, "{names:?}");
    assert_eq!(counting.scans().1, 0);
}

#[test]
fn oversized_directory_is_served_by_the_backend() {
    let folder = tempfile::tempdir().unwrap();
    let counting = ScanCounter::over(LocalVfs::open(folder.path()).unwrap());
    let options = CacheOptions { budget_bytes: 54_000, directories_max: 100, open_nodes_max: 4 };
    let cached = over(counting.clone(), options);
    for file in 0..4_000 {
        std::fs::write(folder.path().join(format!("File{file}")), b"").unwrap();
    }
    assert_eq!(spelt(&cached, "FILE17").unwrap(), "File17");
    assert!(is_missing(spelt(&cached, "none")));
    assert_eq!(counting.scans(), (1, 2), "tried once, then left to the backend");
    for file in 100..4_000 {
        std::fs::remove_file(folder.path().join(format!("File{file}"))).unwrap();
    }
    assert_eq!(spelt(&cached, "FILE18").unwrap(), "File18");
    assert_eq!(counting.scans(), (2, 2));
}

#[test]
fn backend_without_feed_is_asked_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut counting = ScanCounter::over(LocalVfs::open(folder.path()).unwrap());
    Arc::get_mut(&mut counting).unwrap().has_feed = false;
    let cached = over(counting.clone(), CacheOptions::default());
    make(&cached, "Name", FileKind::File).unwrap();
    assert_eq!(spelt(&cached, "name").unwrap(), "Name");
    assert_eq!(counting.scans(), (0, 2));
}

#[test]
fn disabled_cache_is_empty_and_fresh_when_enabled() {
    let (folder, counting, cached) = served();
    make(&cached, "Name", FileKind::File).unwrap();
    cached.set_enabled(false);
    assert_eq!(cached.counts()[1].1.bytes, 0);
    std::fs::rename(folder.path().join("Name"), folder.path().join("Other")).unwrap();
    let before = counting.scans();
    assert_eq!(spelt(&cached, "OTHER").unwrap(), "Other");
    assert_eq!(counting.scans().1, before.1 + 1);
    cached.set_enabled(true);
    assert!(is_missing(spelt(&cached, "name")));
    assert_eq!(spelt(&cached, "OTHER").unwrap(), "Other");
    assert_eq!(counting.scans(), (before.0 + 1, before.1 + 1));
}

#[test]
fn names_are_hidden_without_search_permission() {
    if !rustix_is_root() {
        return;
    }
    let (folder, _, cached) = served();
    make(&cached, "Dir", FileKind::Directory).unwrap();
    make(&cached, "Dir/Name", FileKind::File).unwrap();
    let alice = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
    let mode = |at: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        // Threads retain the identity of the last call; this runs as ours.
        cached.space(Actor::SUPERUSER).unwrap();
        let at = folder.path().join(at);
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    mode("Dir", 0o700);
    let asked =
        |at: &str| cached.open(alice.actor(), &path(at), how(Case::Insensitive, Wait::Allowed));
    for at in ["Dir/Name", "Dir/NAME", "dir/name", "Dir/none", "dir/none"] {
        assert_eq!(asked(at).unwrap_err(), FsError::AccessDenied, "{at}");
    }
    // Search permission is no read permission.
    mode("Dir", 0o711);
    assert_eq!(asked("dir/name").unwrap().path, path("Dir/Name"));
    assert_eq!(asked("dir/none").unwrap_err(), FsError::NotFound);
    // The thread has the last user's identity; the directory is removed as ours.
    cached.space(Actor::SUPERUSER).unwrap();
}

fn rustix_is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}
