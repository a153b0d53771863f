//! Hunts for stale answers: whatever is changed beneath the cache, by whomever,
//! what it says next is what the backend says.

use crate::support::*;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{Case, FileKind, FsError, Identity, Replace, Result, Vfs, Wait};
use vfs_cache::{CacheOptions, CachedVfs};
use vfs_local::LocalVfs;

#[test]
fn what_a_local_process_did_is_known_to_the_next_question_thousands_of_times() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cached =
        CachedVfs::new(Arc::new(LocalVfs::open(folder.path()).unwrap()), CacheOptions::default());
    std::fs::create_dir(at("Dir")).unwrap();
    for round in 0..5_000 {
        let (name, other) = (format!("Dir/Name{round}"), format!("Dir/Other{round}"));
        std::fs::write(at(&name), b"").unwrap();
        assert_eq!(spelt(&cached, &name.to_uppercase()).unwrap(), name);
        std::fs::rename(at(&name), at(&other)).unwrap();
        assert!(is_missing(spelt(&cached, &name.to_uppercase())));
        assert_eq!(spelt(&cached, &other.to_lowercase()).unwrap(), other);
        std::fs::remove_file(at(&other)).unwrap();
        assert!(is_missing(spelt(&cached, &other.to_lowercase())));
    }
    let (_, names) = cached.counts()[0];
    assert!(names.hits >= 20_000 && names.misses <= 4, "answered from what is kept: {names:?}");
}

#[test]
fn names_made_and_removed_while_a_directory_is_read_are_right_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..3_000 {
        std::fs::write(folder.path().join(format!("Old{number}")), b"").unwrap();
    }
    let local: Arc<dyn Vfs> = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let writing = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..3_000 {
                std::fs::write(folder.path().join(format!("New{number}")), b"").unwrap();
                std::fs::remove_file(folder.path().join(format!("Old{number}"))).unwrap();
            }
            writing.store(false, Ordering::Release);
        });
        // Read again and again, at whatever moment.
        while writing.load(Ordering::Acquire) {
            let cached = CachedVfs::new(local.clone(), CacheOptions::default());
            assert!(is_missing(spelt(&cached, "none")));
            let done = (0..3_000).take_while(|n| spelt(&*local, &format!("New{n}")).is_ok());
            for number in 0..done.count() {
                let name = format!("New{number}");
                assert_eq!(spelt(&cached, &name.to_uppercase()).unwrap(), name);
            }
        }
    });
    let cached = CachedVfs::new(local, CacheOptions::default());
    assert!(is_missing(spelt(&cached, "old7")));
    assert_eq!(spelt(&cached, "NEW2999").unwrap(), "New2999");
}

#[test]
fn what_could_not_be_heard_any_more_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let counting = Counting::over(LocalVfs::open(folder.path()).unwrap());
    let cached = CachedVfs::new(counting.clone(), CacheOptions::default());
    assert!(is_missing(spelt(&cached, "none")));
    let most = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let most: usize = most.trim().parse().unwrap();
    // More than the kernel keeps, and the last of it counts.
    for number in 0..most {
        let name = folder.path().join(format!("passing{}", number % 2));
        std::fs::write(&name, b"").unwrap();
        std::fs::remove_file(&name).unwrap();
    }
    std::fs::write(folder.path().join("Last"), b"").unwrap();
    assert_eq!(spelt(&cached, "LAST").unwrap(), "Last");
    assert_eq!(counting.scans(), (2, 0));
}

#[test]
fn a_directory_that_is_made_anew_under_its_name_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cached =
        CachedVfs::new(Arc::new(LocalVfs::open(folder.path()).unwrap()), CacheOptions::default());
    for round in 0..500 {
        let (name, before) = (format!("Name{round}"), format!("NAME{}", round - 1));
        std::fs::create_dir(at("Dir")).unwrap();
        std::fs::write(at("Dir").join(&name), b"").unwrap();
        assert_eq!(spelt(&cached, &format!("DIR/NAME{round}")).unwrap(), format!("Dir/{name}"));
        assert!(is_missing(spelt(&cached, &format!("dir/{before}"))));
        std::fs::remove_dir_all(at("Dir")).unwrap();
        assert!(is_missing(spelt(&cached, &format!("DIR/NAME{round}"))));
    }
}

/// Something that is done, by one of two who see the tree through a cache, or by
/// one who does not.
#[derive(Clone, Debug)]
enum Step {
    Make(usize, usize, bool),
    Remove(usize, usize),
    Rename(usize, usize, usize),
    Link(usize, usize, usize),
    Mode(usize, usize, u32),
}

const PLACES: [&str; 14] = [
    "a", "A", "b", "B", "a/x", "a/X", "A/x", "b/x", "b/X", "a/x/y", "a/X/Y", "b/x/y", "B/x/Y", "c",
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || 0..PLACES.len();
    let who = || 0..3usize;
    let step = prop_oneof![
        4 => (who(), place(), any::<bool>()).prop_map(|(w, p, d)| Step::Make(w, p, d)),
        2 => (who(), place()).prop_map(|(w, p)| Step::Remove(w, p)),
        2 => (who(), place(), place()).prop_map(|(w, f, t)| Step::Rename(w, f, t)),
        1 => (who(), place(), place()).prop_map(|(w, f, t)| Step::Link(w, f, t)),
        1 => (who(), place(), prop::sample::select(vec![0o755, 0o700, 0o644]))
            .prop_map(|(w, p, m)| Step::Mode(w, p, m)),
    ];
    prop::collection::vec(step, 1..40)
}

/// Does a step; what is refused is no matter.
fn take(step: &Step, views: &[&dyn Vfs; 3]) {
    let root = Identity::root();
    let exact = how(Case::Sensitive, Wait::Allowed);
    let _: Result<()> = match step {
        Step::Make(who, at, is_directory) => {
            let kind = if *is_directory { FileKind::Directory } else { FileKind::File };
            make(views[*who], PLACES[*at], kind)
        }
        Step::Remove(who, at) => {
            let (vfs, at) = (views[*who], path(PLACES[*at]));
            vfs.open(&root, &at, exact).and_then(|o| vfs.remove(&root, &at, o.attributes.key))
        }
        Step::Rename(who, from, to) => {
            views[*who].rename(&root, &path(PLACES[*from]), &path(PLACES[*to]), Replace::File)
        }
        Step::Link(who, from, to) => {
            let vfs = views[*who];
            let from = vfs.open(&root, &path(PLACES[*from]), exact);
            from.and_then(|from| vfs.link(&root, &*from.node, &path(PLACES[*to]), Replace::Never))
        }
        Step::Mode(who, at, mode) => {
            let changes = vfs::AttributeChanges { mode: Some(*mode), ..Default::default() };
            let opened = views[*who].open(&root, &path(PLACES[*at]), exact);
            opened.and_then(|opened| opened.node.set_attributes(&root, &changes))
        }
    };
}

/// Every view says of every place what the backend says, to root and to Alice.
fn compare(views: &[&dyn Vfs; 3]) {
    let alice = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
    for who in [Identity::root(), alice] {
        for place in PLACES {
            let seen = |vfs: &dyn Vfs| {
                let opened = vfs.open(&who, &path(place), how(Case::Insensitive, Wait::Allowed));
                // Without the right to search, why it is not found is of no consequence.
                opened.map(|o| (o.path, o.attributes)).map_err(|e| who.uid == 0 || !is_no(e))
            };
            let truth = seen(views[2]);
            for view in &views[..2] {
                assert_eq!(seen(*view), truth, "{place} as {}", who.uid);
            }
        }
    }
}

fn is_no(error: FsError) -> bool {
    matches!(error, FsError::AccessDenied | FsError::NotFound | FsError::PathNotFound)
}

fn hunt(backend: Arc<dyn Vfs>, steps: &[Step], options: CacheOptions) {
    let (one, other) =
        (CachedVfs::new(backend.clone(), options), CachedVfs::new(backend.clone(), options));
    let views: [&dyn Vfs; 3] = [&one, &other, &*backend];
    for step in steps {
        take(step, &views);
        compare(&views);
    }
    // Whoever cleans up does it as the superuser.
    let _ = backend.space(&Identity::root());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn two_caches_and_a_local_writer_see_one_tree_in_memory(steps in steps(), room in any::<bool>()) {
        let backend = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        let little = CacheOptions { budget_bytes: 1_200, directories_max: 2 };
        hunt(Arc::new(backend), &steps, if room { CacheOptions::default() } else { little });
    }

    #[test]
    fn two_caches_and_a_local_writer_see_one_tree_on_disk(steps in steps(), room in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        let little = CacheOptions { budget_bytes: 1_200, directories_max: 2 };
        let local = LocalVfs::open(folder.path()).unwrap();
        hunt(Arc::new(local), &steps, if room { CacheOptions::default() } else { little });
    }
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
}
