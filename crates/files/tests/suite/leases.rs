//! Leases: keys and their files, handle breaks before name changes, and directory leases.

use crate::harness::*;
use files::{
    CacheBreak, CacheHolder, CacheKey, CacheKeyWish, CacheWish, CachingRights, OpenPlan, Semantics,
    ShareMode, VolumeOptions,
};
use futures_util::FutureExt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use vfs::FsError;

const RH: CachingRights = CachingRights(3);

/// A client that records its break notifications.
#[derive(Debug, Default)]
struct LeaseClient {
    breaks: Mutex<Vec<(CachingRights, CachingRights)>>,
    granting: AtomicI32,
    guid: [u8; 16],
}

impl CacheHolder for LeaseClient {
    fn client(&self) -> Option<[u8; 16]> {
        Some(self.guid)
    }

    fn handle_break(&self, cache_break: &CacheBreak) {
        self.breaks.lock().unwrap().push((cache_break.from, cache_break.to));
    }

    fn handle_grant_begun(&self) {
        self.granting.fetch_add(1, Ordering::Relaxed);
    }

    fn handle_grant_ended(&self) {
        self.granting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LeaseClient {
    fn of(guid: [u8; 16]) -> Arc<Self> {
        Arc::new(Self { guid, ..Self::default() })
    }

    fn breaks(&self) -> Vec<(CachingRights, CachingRights)> {
        std::mem::take(&mut self.breaks.lock().unwrap())
    }
}

fn key(number: u8) -> CacheKey {
    CacheKey { client: [1; 16], key: [number; 16] }
}

fn leased(plan: OpenPlan, number: u8, parent: Option<u8>, client: &Arc<LeaseClient>) -> OpenPlan {
    let parent = parent.map(|number| key(number).key);
    let key = CacheKeyWish { key: key(number), epoch: 0, parent, of_directories: true };
    let caching = CacheWish { wanted: RH, key: Some(key), holder: client.clone() };
    OpenPlan { caching: Some(caching), share: ShareMode::ALL, ..plan }
}

#[test]
fn lease_key_of_another_file_refuses_create() {
    let served = serve();
    let client = Arc::new(LeaseClient::default());
    let first = served.try_open(leased(new_file("a"), 1, None, &client)).unwrap();
    assert_eq!(first.caching.has, RH);
    let other = leased(new_file("b"), 1, None, &client);
    assert_eq!(served.refusal(other), FsError::InvalidParameter);
    assert!(!served.exists("b"));
    served.put("c", b"");
    let other = leased(plan("c", READ), 1, None, &client);
    assert_eq!(served.refusal(other), FsError::InvalidParameter);
    // The renamed file is the same file.
    now(served.files.rename(&first.open, &path("d"), false)).unwrap();
    let second = served.try_open(leased(plan("d", READ), 1, None, &client)).unwrap();
    served.close(first.open);
    assert_eq!(second.open.caching(), RH, "for as long as one is open");
    served.close(second.open);
    let free = served.try_open(leased(plan("c", READ), 1, None, &client)).unwrap();
    drop(free);
    assert_eq!(client.granting.load(Ordering::Relaxed), 2, "two replies are on their way");
    drop((first.granting, second.granting));
    assert_eq!(client.granting.load(Ordering::Relaxed), 0);
    served.assert_nothing_held();
}

#[test]
fn rename_waits_for_handle_breaks() {
    let served = serve();
    let (one, two) = (Arc::new(LeaseClient::default()), Arc::new(LeaseClient::default()));
    let first = served.try_open(leased(new_file("a"), 1, None, &one)).unwrap();
    let second = served.try_open(leased(plan("a", READ), 2, None, &two)).unwrap();
    let target = path("b");
    let mut renaming = Box::pin(served.files.rename(&first.open, &target, false));
    assert!(renaming.as_mut().now_or_never().is_none());
    assert_eq!((one.breaks(), two.breaks()), (vec![], vec![(RH, CachingRights::READ)]));
    assert!(served.exists("a"));
    served.files.acknowledge_key(key(2), CachingRights::READ).unwrap();
    renaming.now_or_never().expect("nothing to wait for").unwrap();
    assert!(served.exists("b"));
    // Delete pending breaks likewise, and a close counts as an acknowledgement.
    let third = served.try_open(leased(plan("b", READ), 3, None, &two)).unwrap();
    let mut asking = Box::pin(served.files.break_handles_before_delete(&first.open));
    assert!(asking.as_mut().now_or_never().is_none());
    assert_eq!(two.breaks(), [(RH, CachingRights::READ)]);
    served.close(third.open);
    asking.now_or_never().expect("nothing to wait for").unwrap();
    served.close(second.open);
    served.close(first.open);
}

/// The result of a request for the name `asked`, whose file a client opens under a lease and renames
/// to `other` while the request waits for the lease's break.
fn result_after_move(
    served: &ServedVolume,
    request: impl Future<Output = vfs::Result<()>>,
    after_move: impl FnOnce(),
) -> vfs::Result<()> {
    let client = Arc::new(LeaseClient::default());
    let held = served.try_open(leased(new_file("asked"), 1, None, &client)).unwrap();
    let mut request = Box::pin(request);
    assert!(request.as_mut().now_or_never().is_none());
    assert_eq!(client.breaks(), [(RH, CachingRights::READ)]);
    // The lease holder's own rename waits for no break.
    now(served.files.rename(&held.open, &path("other"), false)).unwrap();
    after_move();
    served.files.acknowledge_key(key(1), CachingRights::READ).unwrap();
    let result = request.now_or_never().expect("nothing to wait for");
    assert!(!held.open.is_delete_pending());
    served.close(held.open);
    assert!(served.exists("other"));
    result
}

#[test]
fn removal_removes_no_name_that_its_file_got_meanwhile() {
    let served = serve();
    let (root, asked) = (served.root(), name("asked"));
    let removal = served.files.remove_object(&served.alice, &root, &asked);
    assert_eq!(result_after_move(&served, removal, || ()), Err(FsError::NotFound));
    served.assert_nothing_held();
}

#[test]
fn rename_moves_no_name_that_its_file_got_meanwhile() {
    let served = serve();
    let (root, asked, to) = (served.root(), name("asked"), name("to"));
    let rename = served.files.rename_object(&served.alice, (&root, &asked), (&root, &to));
    assert_eq!(result_after_move(&served, rename, || ()), Err(FsError::NotFound));
    assert!(!served.exists("to"));
    served.assert_nothing_held();
}

#[test]
fn rename_moves_the_file_that_has_the_name_at_last() {
    let served = serve();
    let (root, asked, to) = (served.root(), name("asked"), name("to"));
    let rename = served.files.rename_object(&served.alice, (&root, &asked), (&root, &to));
    result_after_move(&served, rename, || served.put("asked", b"another file")).unwrap();
    assert_eq!(served.get("to").unwrap(), b"another file");
    assert!(!served.exists("asked"));
    served.assert_nothing_held();
}

#[test]
fn removal_removes_the_file_that_has_the_name_at_last() {
    let served = serve();
    let (root, asked) = (served.root(), name("asked"));
    let removal = served.files.remove_object(&served.alice, &root, &asked);
    result_after_move(&served, removal, || served.put("asked", b"another file")).unwrap();
    assert!(!served.exists("asked"));
    served.assert_nothing_held();
}

#[test]
fn delete_on_close_waits_for_handle_breaks() {
    let served = serve();
    let (one, two) = (Arc::new(LeaseClient::default()), Arc::new(LeaseClient::default()));
    let first = served.try_open(leased(new_file("a"), 1, None, &one)).unwrap();
    let delete_on_close = OpenPlan { delete_on_close: true, ..plan("a", acl::Access::DELETE) };
    let second = served.try_open(leased(delete_on_close.clone(), 2, None, &two)).unwrap();
    let mut asking = Box::pin(served.files.break_handles_before_close(&second.open));
    assert!(asking.as_mut().now_or_never().is_none());
    assert_eq!((one.breaks(), two.breaks()), (vec![(RH, CachingRights::READ)], vec![]));
    served.files.acknowledge_key(key(1), CachingRights::READ).unwrap();
    asking.now_or_never().expect("nothing to wait for").unwrap();
    served.close(second.open);
    // The name is delete pending: the next close breaks nothing.
    assert_eq!(served.refusal(plan("a", READ)), FsError::DeletePending);
    served.close(first.open);
    assert!(!served.exists("a"));
    served.assert_nothing_held();
}

#[test]
fn posix_replacement_breaks_handle_caching() {
    let served = serve();
    let client = Arc::new(LeaseClient::default());
    let posix = |plan| OpenPlan { semantics: Semantics::Posix, ..plan };
    served.put("b", b"new");
    let first = served.try_open(leased(posix(new_file("a")), 1, None, &client)).unwrap();
    let source = served.try_open(posix(plan("b", DELETE))).unwrap().open;
    now(served.files.rename(&source, &path("a"), true)).unwrap();
    assert_eq!(client.breaks(), [(RH, CachingRights::READ)]);
    served.close(source);
    served.close(first.open);
    assert_eq!(served.get("a").unwrap(), b"new");
    served.assert_nothing_held();
}

#[test]
fn directory_rename_waits_for_lease_held_files() {
    let served = serve();
    served.put_directory("d");
    let client = Arc::new(LeaseClient::default());
    let file = served.try_open(leased(new_file("d/f"), 1, None, &client)).unwrap();
    let directory = served.open("d", DELETE);
    let target = path("e");
    let mut renaming = Box::pin(served.files.rename(&directory, &target, false));
    assert!(renaming.as_mut().now_or_never().is_none());
    assert_eq!(client.breaks(), [(RH, CachingRights::READ)]);
    served.close(file.open);
    renaming.now_or_never().expect("nothing to wait for").unwrap();
    // A file in use by a program is not broken.
    let file = served.open("e/f", READ);
    let back = path("d");
    assert_eq!(now(served.files.rename(&directory, &back, false)), Err(FsError::AccessDenied));
    served.close(file);
    served.close(directory);
}

#[test]
fn link_that_waits_for_lease_break_holds_no_turn() {
    let served = serve();
    ["d", "e"].into_iter().for_each(|at| served.put_directory(at));
    served.put("f", b"");
    let client = Arc::new(LeaseClient::default());
    let held = served.try_open(leased(plan("d", READ | DELETE), 1, None, &client)).unwrap();
    assert_eq!(held.caching.has, RH);
    drop(held.granting);
    let root = now(served.files.root_object(&served.volume)).unwrap();
    let child = |at: &str| now(served.files.lookup(&served.alice, &root, &name(at))).unwrap();
    let (file, directory, link) = (child("f"), child("d"), name("link"));
    let mut linking = Box::pin(served.files.link_object(&served.alice, &file, &directory, &link));
    assert!(linking.as_mut().now_or_never().is_none());
    assert_eq!(client.breaks(), [(RH, CachingRights::READ)]);
    let other = served.open("e", DELETE);
    let target = path("moved");
    let renamed = served.files.rename(&other, &target, false).now_or_never();
    assert_eq!(renamed, Some(Ok(())), "a directory of the same tree");
    served.close(held.open);
    linking.now_or_never().expect("nothing to wait for").unwrap();
    assert!(served.exists("d/link"));
    served.close(other);
    served.assert_nothing_held();
}

#[test]
fn directory_change_breaks_leases_but_parent_key() {
    let served = serve();
    let (one, two) = (Arc::new(LeaseClient::default()), Arc::new(LeaseClient::default()));
    let listing = OpenPlan { desired: READ, ..new_directory("d") };
    let directory = served.try_open(leased(listing, 9, None, &one)).unwrap();
    assert_eq!(directory.caching.has, RH);
    let lost = || vec![(RH, CachingRights::NONE)];
    let again = || {
        served.files.acknowledge_key(key(9), CachingRights::NONE).unwrap();
        let open = served.try_open(leased(plan("d", READ), 9, None, &one)).unwrap();
        assert_eq!(open.caching.has, RH);
    };
    let file = served.try_open(leased(new_file("d/known"), 1, Some(9), &two)).unwrap();
    served.files.write(file.open.caller(), &file.open, 0, b"x").unwrap();
    served.close(file.open);
    assert_eq!(one.breaks(), [], "it names the directory's own key");
    let file = served.try_open(leased(new_file("d/f"), 1, Some(8), &two)).unwrap();
    assert_eq!(one.breaks(), lost(), "made");
    again();
    served.files.write(file.open.caller(), &file.open, 0, b"x").unwrap();
    assert_eq!(one.breaks(), [], "not yet");
    now(served.files.set_size(file.open.caller(), &file.open, 9)).unwrap();
    assert_eq!(one.breaks(), lost(), "the size");
    again();
    now(served.files.rename(&file.open, &path("d/g"), false)).unwrap();
    assert_eq!(one.breaks(), lost(), "renamed");
    again();
    served.close(file.open);
    assert_eq!(one.breaks(), lost(), "written, and closed");
    again();
    let file = served.open("d/g", DELETE);
    served.files.set_delete(&file, true, false).unwrap();
    assert_eq!(one.breaks(), [], "it is there still");
    served.close(file);
    assert_eq!(one.breaks(), lost(), "removed");
    served.files.acknowledge_key(key(9), CachingRights::NONE).unwrap();
    served.close(directory.open);
}

#[test]
fn local_write_breaks_lease() {
    let served = serve();
    served.put("f", b"x");
    let client = Arc::new(LeaseClient::default());
    let first = served.try_open(leased(plan("f", READ), 1, None, &client)).unwrap();
    assert_eq!(served.outside_file_count(), (1, 1), "a read-only open watches every write");
    let second = served.try_open(leased(plan("f", ALL), 1, None, &client)).unwrap();
    assert_eq!(served.outside_file_count(), (1, 0), "our own writes must not be reported");
    served.somebody_wrote(false);
    assert_eq!(client.breaks(), []);
    served.somebody_wrote(true);
    assert_eq!(client.breaks(), [(RH, CachingRights::NONE)]);
    served.files.acknowledge_key(key(1), CachingRights::NONE).unwrap();
    assert_eq!(served.outside_file_count(), (0, 0), "no caching is left");
    served.close(first.open);
    served.close(second.open);
    let again = served.try_open(leased(plan("f", READ), 2, None, &client)).unwrap();
    served.somebody_wrote(false);
    assert_eq!(client.breaks(), [(RH, CachingRights::NONE)]);
    served.close(again.open);
    assert_eq!(served.outside_file_count(), (0, 0));
}

#[test]
fn uncached_file_is_not_watched() {
    let served = serve();
    served.put("f", b"x");
    let open = served.open("f", READ);
    assert_eq!(served.outside_file_count(), (0, 0));
    let client = Arc::new(LeaseClient::default());
    let kept = served.try_open(leased(plan("f", READ), 1, None, &client)).unwrap();
    assert_eq!(served.outside_file_count(), (1, 1));
    served.close(kept.open);
    assert_eq!(served.outside_file_count(), (0, 0));
    served.close(open);
}

#[test]
fn local_change_breaks_directory_lease() {
    let served = serve();
    served.put_directory("d");
    let client = Arc::new(LeaseClient::default());
    let kept = served.try_open(leased(plan("d", READ), 1, None, &client)).unwrap();
    assert_eq!((kept.caching.has, served.outside_watch_count()), (RH, 1));
    let new = vfs::ExternalName { name: name("new"), is_directory: false };
    served.somebody_did(&vfs::ExternalChange::Added(new));
    assert_eq!(client.breaks(), [(RH, CachingRights::NONE)]);
    served.close(kept.open);
    assert_eq!(served.outside_watch_count(), 0);
}

#[test]
fn own_break_follows_response() {
    let served = serve();
    served.put_directory("d");
    served.put("f", b"");
    let (own, other) = (LeaseClient::of([1; 16]), LeaseClient::of([2; 16]));
    let of_other = CacheKey { client: [2; 16], key: [2; 16] };
    let kept = served.try_open(leased(plan("d", READ), 1, None, &own)).unwrap();
    let mut seen = leased(plan("d", READ), 2, None, &other);
    seen.caching.as_mut().unwrap().key.as_mut().unwrap().key = of_other;
    let seen = served.try_open(seen).unwrap();
    let file = served.open("f", READ | DELETE);
    let (asking, answer) = served.requests_of([1; 16]);
    now(asking.link(&file, &path("d/f"), false)).unwrap();
    assert_eq!(other.breaks(), [(RH, CachingRights::NONE)], "at once");
    assert_eq!(own.breaks(), [], "not yet");
    drop(answer);
    assert_eq!(own.breaks(), [(RH, CachingRights::NONE)]);
    served.files.acknowledge_key(of_other, CachingRights::NONE).unwrap();
    served.files.acknowledge_key(key(1), CachingRights::NONE).unwrap();
    let again = served.try_open(leased(plan("d", READ), 1, None, &own)).unwrap();
    let (asking, answer) = served.requests_of([1; 16]);
    now(asking.rename(&file, &path("d/g"), false)).unwrap();
    assert_eq!(own.breaks(), []);
    drop(answer);
    assert_eq!(own.breaks(), [(RH, CachingRights::NONE)]);
    [kept.open, seen.open, again.open, file].into_iter().for_each(|open| served.close(open));
}

#[test]
fn waiting_request_sends_its_own_break_first() {
    let served = serve();
    let own = LeaseClient::of([1; 16]);
    let first = served.try_open(leased(new_file("a"), 1, None, &own)).unwrap();
    let second = served.try_open(leased(plan("a", READ), 2, None, &own)).unwrap();
    let ((asking, _answer), target) = (served.requests_of([1; 16]), path("b"));
    let mut renaming = Box::pin(asking.rename(&first.open, &target, false));
    assert!(renaming.as_mut().now_or_never().is_none());
    assert_eq!(own.breaks(), [(RH, CachingRights::READ)]);
    served.files.acknowledge_key(key(2), CachingRights::READ).unwrap();
    renaming.now_or_never().expect("nothing to wait for").unwrap();
    served.close(first.open);
    served.close(second.open);
}

#[test]
fn lease_granted_during_write_is_broken() {
    let first = Arc::new(HookedWorkers::default());
    let served = Arc::new(serve_with(VolumeOptions::default(), first.clone()));
    served.put("f", &[1; 8192]);
    let open = served.open("f", ALL);
    let client = Arc::new(LeaseClient::default());
    let kept = served.try_open(leased(plan("f", READ), 1, None, &client)).unwrap();
    *first.0.lock().unwrap() = {
        let (reader, reading) = (served.clone(), client.clone());
        Some(Box::new(move || {
            assert_eq!(reading.breaks(), [(RH, CachingRights::NONE)], "it begins to change");
            reader.files.acknowledge_key(key(1), CachingRights::NONE).ok();
            let again = reader.try_open(leased(plan("f", READ), 1, None, &reading)).unwrap();
            assert!(again.caching.has.contains(CachingRights::READ));
            reader.close(again.open);
        }))
    };
    now(served.files.zero_range(open.caller(), &open, 0, 4096)).unwrap();
    assert_eq!(client.breaks(), [(RH, CachingRights::NONE)], "it has changed");
    served.close(kept.open);
    served.close(open);
}
