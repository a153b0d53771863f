//! Unreachable references: an error never becomes a missing stream.

use super::*;

/// No client operation on the stream `s` succeeds, or makes the stream missing.
fn assert_out_of_reach(node: &Arc<dyn Node>, other: &str) {
    let is_error = |result: Result<()>, what: &str| match result {
        Ok(()) | Err(FsError::NotFound | FsError::AlreadyExists) => panic!("{what}: {result:?}"),
        Err(_) => {}
    };
    let s = stream("s");
    is_error(read(node).map(|_| ()), "read");
    is_error(node.find_stream(WHO, &s, Case::Insensitive).map(|_| ()), "find");
    is_error(node.streams(WHO).map(|_| ()), "list");
    is_error(node.need_streams().unwrap().create_stream(WHO, &s, Case::Insensitive), "create");
    is_error(node.need_streams().unwrap().write_stream(WHO, &s, 0, b"new"), "write");
    is_error(node.need_streams().unwrap().set_stream_size(WHO, &s, 0), "cut");
    is_error(node.need_streams().unwrap().stream_data(WHO, &s, true).map(|_| ()), "data");
    is_error(
        node.need_streams().unwrap().rename_stream(WHO, &stream(other), &s, Replace::File),
        "replace",
    );
}

#[test]
fn stream_behind_an_io_error_is_not_lost() {
    let Some((_folder, share)) = share() else { return };
    let data = bytes(LONG, 11);
    let node = share.put("f", &data);
    node.need_streams().unwrap().create_stream(WHO, &stream("t"), Case::Insensitive).unwrap();
    let file = share.files().remove(0);
    let aside = share.root.join("aside");
    std::fs::rename(&file, &aside).unwrap();
    assert_out_of_reach(&node, "t");
    // The open fails, as it would for lack of memory.
    symlink(&aside, &file).unwrap();
    assert_out_of_reach(&node, "t");
    std::fs::remove_file(&file).unwrap();
    std::fs::rename(&aside, &file).unwrap();
    assert_eq!(read(&node).unwrap(), data);
}

#[test]
fn unreachable_store_is_an_error_for_its_streams() {
    let Some((_folder, share)) = share() else { return };
    let data = bytes(LONG, 12);
    let node = share.put("f", &data);
    node.need_streams().unwrap().create_stream(WHO, &stream("t"), Case::Insensitive).unwrap();
    let store = share.root.join(NAME);
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&store, mode(0o777)).unwrap();
    assert_out_of_reach(&node, "t");
    std::fs::set_permissions(&store, mode(STORE_MODE)).unwrap();
    assert_eq!(read(&node).unwrap(), data);
}

#[test]
fn retired_inner_share_stream_is_found_and_removed() {
    let Some((_folder, outer)) = share() else { return };
    let inner_root = outer.root.join("data/inner");
    std::fs::create_dir_all(&inner_root).unwrap();
    let inner = StreamStoreShare::open(&inner_root);
    let data = bytes(LONG, 13);
    drop(inner.put("f", &data));
    drop(inner);
    let store_files = || std::fs::read_dir(inner_root.join(NAME)).unwrap().count();
    // With a store of its own, the outer share is searched first.
    drop(outer.put("g", &data));
    let node = outer.look("data/inner/f");
    assert_eq!(read(&node).unwrap(), data);
    let created = node.need_streams().unwrap().create_stream(WHO, &stream("s"), Case::Insensitive);
    assert_eq!(created, Err(FsError::AlreadyExists));
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, b"x").unwrap();
    drop(node);
    assert_eq!(store_files(), 1);
    std::fs::remove_file(inner_root.join("f")).unwrap();
    let is_gone = (0..2000).any(|_| {
        look_for_days(|| {
            let entries = std::fs::read_dir(inner_root.join(NAME)).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        });
        store_files() == 0
    });
    assert!(is_gone || persistent_id(std::fs::File::open(&inner_root).unwrap().as_fd()).is_none());
}

#[test]
fn stream_is_found_from_a_share_further_up() {
    let Some((folder, share)) = share() else { return };
    drop(share);
    let below = folder.path().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    let share = StreamStoreShare::open(&below);
    let data = bytes(LONG, 14);
    drop(share.put("f", &data));
    drop(share);
    let share = StreamStoreShare::open(folder.path());
    assert_eq!(read(&share.look("a/b/f")).unwrap(), data);
    std::fs::create_dir(below.join("c")).unwrap();
    std::fs::rename(below.join("f"), below.join("c/f")).unwrap();
    drop(share);
    let share = StreamStoreShare::open(&below.join("c"));
    assert_eq!(read(&share.look("f")).unwrap(), data, "the store is above the share");
}

#[test]
fn sync_of_a_file_syncs_its_long_streams() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 15));
    let plain = share.put("plain", b"short");
    assert_eq!((node.sync(WHO, true), plain.sync(WHO, true)), (Ok(()), Ok(())));
    let file = share.files().remove(0);
    let aside = share.root.join("aside");
    std::fs::rename(&file, &aside).unwrap();
    symlink(&aside, &file).unwrap();
    assert_eq!(
        node.sync(WHO, true),
        Err(FsError::AccessDenied),
        "it has to open the stream's file"
    );
    assert_eq!(plain.sync(WHO, true), Ok(()));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(
        node.sync(WHO, true),
        Err(FsError::AccessDenied),
        "what this process wrote there is not stable"
    );
    // Another file with the reference, because a scan may know this one again at any time.
    let copy = share.create("copy");
    copy_attribute(&share.root.join("f"), &share.root.join("copy"), "user.DosStream.s:$DATA");
    assert_eq!(copy.sync(WHO, true), Ok(()), "nothing was written to what is not there");
}

#[test]
fn locks_of_two_files_are_independent() {
    let key = |inode| FileKey { device: u64::MAX, inode };
    let one = lock_streams(key(1));
    let other = lock_streams(key(17));
    drop((one, other));
    drop(lock_streams(key(1)));
}
