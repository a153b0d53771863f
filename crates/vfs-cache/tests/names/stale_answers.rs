//! Hunt for stale answers: after any change beneath the cache, by any process, its next answer
//! equals the backend's.

use crate::support::*;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::{
    Actor, Attributes, Case, DelayedVfs, DosInfo, FileKey, FileKind, FsError, Identity, NameLookup,
    OpenHow, OpenWithSecurity, OpenedNode, RelPath, Replace, Result, SecurityChange, Vfs, Wait,
};
use vfs_cache::{CacheOptions, CachedVfs};
use vfs_local::LocalVfs;

#[test]
fn local_changes_show_at_once_thousands_of_times() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cached = over(Arc::new(LocalVfs::open(folder.path()).unwrap()), CacheOptions::default());
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
    let (_, names) = cached.counts()[1];
    assert!(names.hits >= 20_000 && names.misses <= 4, "answered from what is kept: {names:?}");
}

#[test]
fn concurrent_changes_of_a_read_directory_apply() {
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
        // Reads repeatedly while another thread writes.
        while writing.load(Ordering::Acquire) {
            let cached = over(local.clone(), CacheOptions::default());
            assert!(is_missing(spelt(&cached, "none")));
            let done = (0..3_000).take_while(|n| spelt(&*local, &format!("New{n}")).is_ok());
            for number in 0..done.count() {
                let name = format!("New{number}");
                assert_eq!(spelt(&cached, &name.to_uppercase()).unwrap(), name);
            }
        }
    });
    let cached = over(local, CacheOptions::default());
    assert!(is_missing(spelt(&cached, "old7")));
    assert_eq!(spelt(&cached, "NEW2999").unwrap(), "New2999");
}

#[test]
fn feed_overflow_makes_directories_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let counting = ScanCounter::over(LocalVfs::open(folder.path()).unwrap());
    let cached = over(counting.clone(), CacheOptions::default());
    assert!(is_missing(spelt(&cached, "none")));
    let most = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let most: usize = most.trim().parse().unwrap();
    // More events than the kernel queues; the last one counts.
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
fn recreated_directory_is_a_different_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cached = over(Arc::new(LocalVfs::open(folder.path()).unwrap()), CacheOptions::default());
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

/// A step by one of two callers behind a cache, or by one without.
#[derive(Clone, Debug)]
enum CallerStep {
    Make(usize, usize, bool),
    Remove(usize, usize),
    Rename(usize, usize, usize),
    Link(usize, usize, usize),
    Mode(usize, usize, u32),
    Dos(usize, usize, u32),
    Descriptor(usize, usize, u8),
    Write(usize, usize, u8),
}

const PLACES: [&str; 14] = [
    "a", "A", "b", "B", "a/x", "a/X", "A/x", "b/x", "b/X", "a/x/y", "a/X/Y", "b/x/y", "B/x/Y", "c",
];

fn steps() -> impl Strategy<Value = Vec<CallerStep>> {
    let place = || 0..PLACES.len();
    let actor = || 0..3usize;
    let step = prop_oneof![
        4 => (actor(), place(), any::<bool>()).prop_map(|(w, p, d)| CallerStep::Make(w, p, d)),
        2 => (actor(), place()).prop_map(|(w, p)| CallerStep::Remove(w, p)),
        2 => (actor(), place(), place()).prop_map(|(w, f, t)| CallerStep::Rename(w, f, t)),
        1 => (actor(), place(), place()).prop_map(|(w, f, t)| CallerStep::Link(w, f, t)),
        1 => (actor(), place(), prop::sample::select(vec![0o755, 0o700, 0o644]))
            .prop_map(|(w, p, m)| CallerStep::Mode(w, p, m)),
        1 => (actor(), place(), 0..8u32).prop_map(|(w, p, b)| CallerStep::Dos(w, p, b)),
        1 => (actor(), place(), 0..4u8).prop_map(|(w, p, d)| CallerStep::Descriptor(w, p, d)),
        1 => (actor(), place(), 0..9u8).prop_map(|(w, p, n)| CallerStep::Write(w, p, n)),
    ];
    prop::collection::vec(step, 1..40)
}

/// Runs a step; a refusal does not matter.
fn take(step: &CallerStep, views: &[&dyn Vfs; 3]) {
    let root = Identity::root();
    let exact = how(Case::Sensitive, Wait::Allowed);
    let _: Result<()> = match step {
        CallerStep::Make(actor, at, is_directory) => {
            let kind = if *is_directory { FileKind::Directory } else { FileKind::File };
            make(views[*actor], PLACES[*at], kind)
        }
        CallerStep::Remove(actor, at) => {
            let (vfs, at) = (views[*actor], path(PLACES[*at]));
            vfs.open(root.actor(), &at, exact)
                .and_then(|o| vfs.remove(root.actor(), &at, o.attributes.key))
        }
        CallerStep::Rename(actor, from, to) => views[*actor].rename(
            root.actor(),
            &path(PLACES[*from]),
            &path(PLACES[*to]),
            Replace::File,
        ),
        CallerStep::Link(actor, from, to) => {
            let vfs = views[*actor];
            let from = vfs.open(root.actor(), &path(PLACES[*from]), exact);
            from.and_then(|from| {
                vfs.link(root.actor(), &*from.node, &path(PLACES[*to]), Replace::Never)
            })
        }
        CallerStep::Mode(actor, at, mode) => {
            let changes = vfs::AttributeChanges { mode: Some(*mode), ..Default::default() };
            let opened = views[*actor].open(root.actor(), &path(PLACES[*at]), exact);
            opened.and_then(|opened| opened.node.set_attributes(root.actor(), &changes))
        }
        CallerStep::Dos(actor, at, bits) => {
            let dos = Some(DosInfo { bits: Some(*bits), created: None });
            let changes = vfs::AttributeChanges { dos, ..Default::default() };
            let opened = views[*actor].open(root.actor(), &path(PLACES[*at]), exact);
            opened.and_then(|opened| opened.node.set_attributes(root.actor(), &changes))
        }
        CallerStep::Descriptor(actor, at, byte) => {
            let descriptor = [*byte; 20];
            let change = SecurityChange { descriptor: Some(&descriptor), ..Default::default() };
            let opened = views[*actor].open(root.actor(), &path(PLACES[*at]), exact);
            opened.and_then(|opened| opened.node.set_security(Actor::SUPERUSER, &change))
        }
        CallerStep::Write(actor, at, byte) => {
            let how = OpenHow { read: true, write: true, ..exact };
            let opened = views[*actor].open(root.actor(), &path(PLACES[*at]), how);
            opened
                .and_then(|opened| opened.node.write(Actor::SUPERUSER, u64::from(*byte), &[*byte]))
        }
    };
}

/// Observed state of a path: spelling, attributes, descriptor.
type Observation = (RelPath, Attributes, Option<Vec<u8>>);

fn seen(
    names: NameLookup<'_>,
    actor: Actor<'_>,
    place: &str,
    read: bool,
) -> std::result::Result<Observation, bool> {
    let how = OpenHow { read, ..how(Case::Insensitive, Wait::Allowed) };
    // Without search permission the reason of a failed lookup does not matter.
    let known = names
        .open_with_security(actor, &path(place), how)
        .map_err(|e| actor.effective_identity().uid == 0 || !is_no(e))?;
    let OpenWithSecurity { opened: OpenedNode { node, attributes, path }, security } = known;
    let descriptor = match security {
        Some(security) => security.descriptor(&*node).unwrap().map(<[u8]>::to_vec),
        None => node.security_descriptor().unwrap(),
    };
    Ok((path, attributes, descriptor))
}

/// Observed permissions of a directory.
fn rights(names: NameLookup<'_>, actor: Actor<'_>, place: &str) -> Option<(FileKey, u32)> {
    let found = names.open_directory(actor, &path(place), Case::Insensitive, Wait::Allowed).ok()?;
    let attributes = found.opened.attributes;
    (attributes.kind == FileKind::Directory).then_some((attributes.key, attributes.mode))
}

/// Listing of a directory with attributes, after repeated requests.
fn listed(names: NameLookup<'_>, actor: Actor<'_>, place: &str) -> Option<Vec<ListingEntry>> {
    let how = OpenHow { read: true, ..how(Case::Sensitive, Wait::Allowed) };
    let opened = names.backend().open(actor, &path(place), how).ok()?;
    let is_directory = opened.attributes.kind == FileKind::Directory;
    let list = |_| list_all(names, &*opened.node, actor, 3);
    is_directory.then(|| {
        let mut seen: Vec<_> = (0..3).map(list).collect();
        assert!(
            seen[1] == seen[0] && seen[2] == seen[0],
            "{place} as {}: {seen:?}",
            actor.effective_identity().uid
        );
        seen.swap_remove(0)
    })
}

/// Checks that every view equals the backend at every path, for root and for Alice.
fn compare(views: &[NameLookup<'_>; 3]) {
    let alice = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
    for actor in [Identity::root(), alice] {
        for place in PLACES {
            for read in [false, true] {
                let truth = seen(views[2], actor.actor(), place, read);
                for view in &views[..2] {
                    let said = seen(*view, actor.actor(), place, read);
                    assert_eq!(said, truth, "{place} as {}, read {read}", actor.uid);
                }
            }
            let truth = listed(views[2], actor.actor(), place);
            views[..2]
                .iter()
                .for_each(|view| assert_eq!(listed(*view, actor.actor(), place), truth));
            let truth = rights(views[2], actor.actor(), place);
            views[..2]
                .iter()
                .for_each(|view| assert_eq!(rights(*view, actor.actor(), place), truth));
        }
    }
}

fn is_no(error: FsError) -> bool {
    matches!(error, FsError::AccessDenied | FsError::NotFound | FsError::PathNotFound)
}

fn hunt(backend: Arc<dyn Vfs>, steps: &[CallerStep], cache: &dyn Fn() -> CachedVfs) {
    let (one, other) = (cache(), cache());
    let views =
        [NameLookup::Cache(&one), NameLookup::Cache(&other), NameLookup::Backend(&*backend)];
    for step in steps {
        take(step, &views.map(NameLookup::backend));
        compare(&views);
    }
    // Cleanup runs as root.
    let _ = backend.space(Actor::SUPERUSER);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn two_caches_and_a_local_writer_agree_in_memory(steps in steps(), room in any::<bool>()) {
        let (backend, clock) = in_memory();
        let options = if room { CacheOptions::default() } else { LITTLE };
        hunt(backend.clone(), &steps, &|| {
            CachedVfs::new(backend.clone(), options, clock.clone())
        });
    }

    #[test]
    fn two_caches_and_a_local_writer_agree_on_disk(steps in steps(), room in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        let options = if room { CacheOptions::default() } else { LITTLE };
        let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
        hunt(local.clone(), &steps, &|| over(local.clone(), options));
    }

    /// On this backend opens of created files are retained, too.
    #[test]
    fn two_caches_and_a_local_writer_agree_on_slow_disk(steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
        let slow = Arc::new(DelayedVfs::new(local.clone(), Arc::new(|| {})));
        hunt(local, &steps, &|| over(slow.clone(), CacheOptions::default()));
    }
}

/// A budget for almost nothing.
const LITTLE: CacheOptions =
    CacheOptions { budget_bytes: 6_000, directories_max: 2, open_nodes_max: 4 };

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
}
