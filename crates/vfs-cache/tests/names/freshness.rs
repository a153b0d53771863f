//! Visibility within one request: changes made before it arrived, and all later changes by this
//! process. `freshness.rs` beside this folder tests that it drains no more often.

use crate::support::*;
use std::sync::Arc;
use vfs::{
    Actor, ArrivalOrder, AttributeChanges, Case, FileKind, FsError, Identity, Replace, Vfs, Wait,
};
use vfs_cache::{CacheOptions, CachedVfs};
use vfs_local::{LocalVfs, keep_identity, rest_without_power};

fn served() -> (tempfile::TempDir, CachedVfs) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("Dir")).unwrap();
    std::fs::write(folder.path().join("Dir/Old"), b"").unwrap();
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let cached = over(local, CacheOptions::default());
    // Names are cached from the second request on.
    for _ in 0..3 {
        assert!(is_missing(spelt(&cached, "DIR/NEW")));
    }
    (folder, cached)
}

#[test]
fn request_sees_all_changes_of_this_process() {
    let (folder, cached) = served();
    let root = Identity::root();
    let order = ArrivalOrder::next();
    let request = Actor::SUPERUSER.in_order(order);
    assert!(is_missing(spelt_for(&cached, request, "DIR/OWN")));
    make_for(&cached, request, "Dir/Own", FileKind::File).unwrap();
    assert_eq!(spelt_for(&cached, request, "DIR/OWN"), Ok("Dir/Own".into()));
    let node = cached.open(
        root.actor().in_order(order),
        &path("Dir/Own"),
        how(Case::Sensitive, Wait::Allowed),
    );
    let key = node.unwrap().attributes.key;
    cached
        .rename(root.actor().in_order(order), &path("Dir/Own"), &path("Dir/Moved"), Replace::Never)
        .unwrap();
    assert!(is_missing(spelt_for(&cached, request, "DIR/OWN")));
    assert_eq!(spelt_for(&cached, request, "DIR/MOVED"), Ok("Dir/Moved".into()));
    cached.remove(root.actor().in_order(order), &path("Dir/Moved"), key).unwrap();
    assert!(is_missing(spelt_for(&cached, request, "DIR/MOVED")));
    std::thread::scope(|scope| {
        scope.spawn(|| make_for(&cached, request, "Dir/Theirs", FileKind::File).unwrap());
    });
    assert_eq!(
        spelt_for(&cached, request, "DIR/THEIRS"),
        Ok("Dir/Theirs".into()),
        "by another thread"
    );
    drop(folder);
}

#[test]
fn create_meets_a_later_case_variant() {
    let (folder, cached) = served();
    let order = ArrivalOrder::next();
    let request = Actor::SUPERUSER.in_order(order);
    assert!(is_missing(spelt_for(&cached, request, "DIR/NAME")));
    std::fs::write(folder.path().join("Dir/Name"), b"").unwrap();
    assert_eq!(make_for(&cached, request, "Dir/NAME", FileKind::File), Err(FsError::AlreadyExists));
}

#[test]
fn request_is_bound_by_its_own_permission_change() {
    let (folder, cached) = served();
    if !crate::rustix_is_root() {
        return;
    }
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open_to_all).unwrap();
    let alice = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
    let ask = |actor: Actor<'_>| {
        cached.open(actor, &path("Dir/Missing"), how(Case::Sensitive, Wait::Allowed)).err()
    };
    for _ in 0..3 {
        assert_eq!(ask(alice.actor()), Some(FsError::NotFound));
    }
    let order = ArrivalOrder::next();
    assert_eq!(ask(alice.actor().in_order(order)), Some(FsError::NotFound));
    let root = Identity::root();
    let directory = cached
        .open(root.actor().in_order(order), &path("Dir"), how(Case::Sensitive, Wait::Allowed))
        .unwrap()
        .node;
    let closed = AttributeChanges { mode: Some(0o700), ..AttributeChanges::default() };
    directory.set_attributes(root.actor().in_order(order), &closed).unwrap();
    assert_eq!(ask(alice.actor().in_order(order)), Some(FsError::AccessDenied));
    // The thread has the last user's identity; the directory is removed as ours.
    cached.space(Actor::SUPERUSER).unwrap();
}

/// A permission of "others" applies only to users without a narrower one as owner or group.
#[test]
fn excluded_group_is_refused_at_each_lookup() {
    if !crate::rustix_is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(folder.path(), mode(0o755)).unwrap();
    let directory = folder.path().join("Dir");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("File"), b"").unwrap();
    std::os::unix::fs::chown(&directory, None, Some(4001)).unwrap();
    std::fs::set_permissions(&directory, mode(0o705)).unwrap();
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let cached = over(local, CacheOptions::default());
    let user = |gid| Identity { uid: 4000 + gid, gid, groups: Vec::new() };
    let (shut_out, other) = (user(4001), user(4002));
    let look = |actor: &Identity| {
        let how = how(Case::Sensitive, Wait::Allowed);
        keep_identity(|| cached.open(actor.actor(), &path("Dir/File"), how).map(drop))
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rest_without_power();
            for _ in 0..5 {
                assert_eq!(look(&other), Ok(()));
                assert_eq!(look(&shut_out), Err(FsError::AccessDenied));
            }
        });
    });
    // Now the other user is denied.
    std::os::unix::fs::chown(&directory, None, Some(4002)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rest_without_power();
            for _ in 0..5 {
                assert_eq!(look(&other), Err(FsError::AccessDenied));
                assert_eq!(look(&shut_out), Ok(()));
            }
        });
    });
}
