//! Store files that the sweep must not remove.

use super::sweep::{FileState, Refresh};
use super::*;

fn opened(share: &StreamStoreShare) -> (OwnedFd, StoredId) {
    let root = std::fs::File::open(&share.root).unwrap();
    let file = share.files().remove(0);
    let name = file.file_name().unwrap().as_encoded_bytes();
    (open_store(root.as_fd()).unwrap(), StoredId::of_file_name(name).unwrap())
}

#[test]
fn store_file_without_a_record_is_retained() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 31));
    let (store, id) = opened(&share);
    let file = share.files().remove(0);
    rustix::fs::removexattr(&file, RECORD).unwrap();
    assert_eq!(sweep::state_of(&store, id, Refresh::Record), Some((FileState::Restored, None)));
    assert_eq!(read(&node), Err(FsError::Unavailable), "and is nobody's");
}

#[test]
fn adopted_store_file_is_retained() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 32));
    let (store, id) = opened(&share);
    let file = std::fs::File::open(share.files().remove(0)).unwrap();
    let present = record_of(file.as_fd()).unwrap().unwrap();
    let seen = StoreFileRecord { host_rights: None, ..present.clone() };
    assert_eq!(adoption::remove_unchanged(store.as_fd(), id, &seen), Ok(false));
    assert_eq!(read(&node).unwrap(), bytes(LONG, 32));
    assert_eq!(adoption::remove_unchanged(store.as_fd(), id, &present), Ok(true));
    assert!(share.files().is_empty());
}

#[test]
fn removed_stream_is_not_recorded() {
    let Some((_folder, share)) = share() else { return };
    for number in 0..20 {
        let node = share.put(&format!("f{number}"), &bytes(LONG, 33));
        let (_, id) = opened(&share);
        assert!(sweep::has_stream(node.key(), id));
        // The scan of a concurrent test records it under the stream lock, or not at all.
        node.need_streams().unwrap().remove_stream(WHO, &stream("s")).unwrap();
        assert!(!sweep::has_stream(node.key(), id));
    }
}

#[test]
fn rights_changed_by_a_client_are_recorded() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 35));
    let change = AttributeChanges { mode: Some(0o600), ..Default::default() };
    node.set_attributes(WHO, &change).unwrap();
    let file = std::fs::File::open(share.files().remove(0)).unwrap();
    let recorded = record_of(file.as_fd()).unwrap().unwrap().host_rights;
    let now = PermissionState::of(LocalNode::of(&*node).unwrap()).unwrap().hash();
    assert_eq!(recorded, Some(now));
}

#[test]
fn daily_scan_records_rights_changed_locally() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 34));
    let rights = || {
        let file = std::fs::File::open(share.files().remove(0)).unwrap();
        record_of(file.as_fd()).unwrap().unwrap().host_rights
    };
    let before = rights();
    std::fs::set_permissions(share.root.join("f"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(share.root.join("f"), Some(4001), Some(4002)).unwrap();
    }
    let (store, id) = opened(&share);
    if persistent_id(std::fs::File::open(share.root.join("f")).unwrap().as_fd()).is_none() {
        return;
    }
    let state = sweep::state_of(&store, id, Refresh::Record).map(|(state, _)| state);
    assert_eq!(state, Some(FileState::Referenced));
    assert_ne!(rights(), before);
    let now = PermissionState::of(LocalNode::of(&*node).unwrap()).unwrap().hash();
    assert_eq!(rights(), Some(now));
    let owner = std::fs::metadata(share.files().remove(0)).unwrap();
    assert!(!is_root || (owner.uid(), owner.gid()) == (4001, 4002), "whom its bytes count to");
}

#[test]
fn file_restored_after_local_removal_has_its_stream() {
    let Some((folder, share)) = share() else { return };
    let data = bytes(LONG, 36);
    drop(share.put("f", &data));
    drop(share.put("gone", &data));
    if persistent_id(std::fs::File::open(share.root.join("f")).unwrap().as_fd()).is_none() {
        return;
    }
    let backup = tempfile::tempdir().unwrap();
    restore(&folder.path().join("f"), &backup.path().join("f"), "user.DosStream.s:$DATA");
    std::fs::remove_file(folder.path().join("f")).unwrap();
    std::fs::remove_file(folder.path().join("gone")).unwrap();
    sweep::look_at_all(&mut sweep::Breaks::default());
    std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
    let restored = folder.path().join("a/b/f");
    restore(&backup.path().join("f"), &restored, "user.DosStream.s:$DATA");
    // No client opens it before the scan.
    let has_one = (0..2000).any(|_| {
        look_for_days(|| share.files());
        share.files().len() == 1
    });
    assert!(has_one, "what nothing refers to is removed");
    assert_eq!(read_soon(&share.look("a/b/f")).unwrap(), data);
}

#[test]
fn full_scan_yields_to_pending_removals() {
    let Some((_folder, share)) = share() else { return };
    for number in 0..=64 {
        drop(share.put(&format!("f{number}"), &bytes(LONG, 37)));
    }
    let known = share.files();
    if persistent_id(std::fs::File::open(&known[0]).unwrap().as_fd()).is_none() {
        return;
    }
    // The sweeping thread, or the scan of a concurrent test, may be faster.
    let is_seen = (0..50).any(|_| {
        let key = share.put("gone", &bytes(LONG, 37)).key();
        let file = share.files().into_iter().find(|file| !known.contains(file)).unwrap();
        let id = StoredId::of_file_name(file.file_name().unwrap().as_encoded_bytes()).unwrap();
        std::fs::remove_file(share.root.join("gone")).unwrap();
        sweep::add_pending(key, id);
        let mut breaks = sweep::Breaks::overdue();
        sweep::look_at_all(&mut breaks);
        let is_gone = (0..2000).any(|_| {
            sweep::look_at_pending_now();
            // Another thread may have taken the pending removals, and be about to do them.
            std::thread::sleep(std::time::Duration::from_millis(5));
            !file.exists()
        });
        assert!(is_gone);
        breaks.pending_seen > 0
    });
    assert!(is_seen);
    assert_eq!(share.files().len(), 65);
}

#[test]
fn orphan_mark_is_cleared_when_the_host_is_found() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 40));
    let (store, id) = opened(&share);
    let file = std::fs::File::open(share.files().remove(0)).unwrap();
    if persistent_id(file.as_fd()).is_none() {
        return;
    }
    // A scan could not load the host's inode.
    let mark = OrphanMark::new(ClockReading::now());
    mark.put(&file, XattrFlags::empty()).unwrap();
    let state = sweep::state_of(&store, id, Refresh::Record).map(|(state, _)| state);
    assert_eq!(state, Some(FileState::Referenced));
    assert_eq!(OrphanMark::of(&file), Ok(None));
    drop(node);
}

#[test]
fn stream_renamed_concurrently_is_never_unreferenced() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 42));
    let (_, id) = opened(&share);
    let path = share.root.join("f");
    let names = ["user.DosStream.s:$DATA", "user.DosStream.t:$DATA"];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let value = id.attribute();
            for turn in 0.. {
                let (from, to) = (names[turn % 2], names[(turn + 1) % 2]);
                rustix::fs::setxattr(&path, to, &value, XattrFlags::empty()).unwrap();
                rustix::fs::removexattr(&path, from).unwrap();
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let local = LocalNode::of(&*node).unwrap();
        let found: Vec<_> = (0..20_000).map(|_| crate::streams::refers_to(local, id)).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(!found.contains(&Ok(false)));
    });
}

#[test]
fn written_stream_is_accounted_to_the_new_owner() {
    let Some((_folder, share)) = share() else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let node = share.put("f", &bytes(LONG, 38));
    std::os::unix::fs::chown(share.root.join("f"), Some(4001), Some(4002)).unwrap();
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, b"x").unwrap();
    let owner = std::fs::metadata(share.files().remove(0)).unwrap();
    assert_eq!((owner.uid(), owner.gid()), (4001, 4002));
}

#[test]
fn inventory_counts_streams_without_changes() {
    let Some((folder, share)) = share() else { return };
    assert_eq!(StreamInventory::of(folder.path()), None);
    let length = LONG as u64;
    drop(share.put("kept", &bytes(LONG, 39)));
    let kept = share.files().remove(0);
    if persistent_id(std::fs::File::open(&kept).unwrap().as_fd()).is_none() {
        return;
    }
    let restored = share.root.join(NAME).join("0".repeat(32));
    restore(&kept, &restored, RECORD);
    let seen = StreamInventory::of(folder.path()).unwrap();
    let expected = StreamInventory { files: 2, bytes: 2 * length, unclaimed: 1, ..seen };
    assert_eq!(seen, expected);
    assert_eq!((seen.orphans, seen.orphan_bytes, seen.is_open_to_others), (0, 0, false));
    // The scan of a concurrent test may have the file open, or remove the stream.
    let has_orphan = (0..50).any(|_| {
        drop(share.put("gone", &bytes(LONG, 39)));
        std::fs::remove_file(folder.path().join("gone")).unwrap();
        let seen = StreamInventory::of(folder.path()).unwrap();
        seen.orphans > 0 && seen.orphan_bytes == seen.orphans * length
    });
    assert!(has_orphan);
    std::fs::set_permissions(share.root.join(NAME), PermissionsExt::from_mode(0o755)).unwrap();
    assert!(StreamInventory::of(folder.path()).unwrap().is_open_to_others);
}
