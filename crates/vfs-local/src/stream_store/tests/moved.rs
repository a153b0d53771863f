//! Streams of files that are moved between shares, and look-up of stores.

use super::*;

/// Two sibling shares; a file `f` with a stream was moved from the first to the second.
fn moved(data: &[u8]) -> Option<(tempfile::TempDir, StreamStoreShare, StreamStoreShare)> {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        StreamStoreShare::open(&folder.path().join(name))
    };
    let (from, to) = (open("from"), open("to"));
    if !from.vfs.features().xattrs {
        return None;
    }
    drop(from.put("f", data));
    std::fs::rename(from.root.join("f"), to.root.join("f")).unwrap();
    Some((folder, from, to))
}

#[test]
fn stream_used_after_a_move_needs_no_former_share() {
    let data = bytes(LONG, 41);
    let Some((_folder, from, to)) = moved(&data) else { return };
    let node = to.look("f");
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, &data[..1]).unwrap();
    assert_eq!((from.files().len(), to.files().len()), (0, 1));
    assert_eq!(read(&node).unwrap(), data);
    drop(from);
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, b"x").unwrap();
    assert_eq!(read(&node).unwrap()[..2], [b'x', data[1]]);
    node.need_streams().unwrap().remove_stream(WHO, &stream("s")).unwrap();
    assert!(to.files().is_empty());
}

#[test]
fn stream_of_a_moved_file_survives_share_retirement() {
    let data = bytes(LONG, 42);
    let Some((_folder, from, to)) = moved(&data) else { return };
    drop(from);
    let node = to.look("f");
    assert_eq!(read(&node).unwrap(), data);
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, &data[..1]).unwrap();
    assert_eq!(to.files().len(), 1);
}

#[test]
fn read_does_not_move_a_stream() {
    let data = bytes(LONG, 46);
    let Some((_folder, from, to)) = moved(&data) else { return };
    let node = to.look("f");
    for _ in 0..2 {
        assert_eq!(read(&node).unwrap(), data);
        assert_eq!(node.streams(WHO).unwrap().len(), 1);
    }
    assert_eq!(from.files().len(), 1);
    assert!(!to.root.join(NAME).exists(), "the share may be read-only");
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, &data[..1]).unwrap();
    assert_eq!((from.files().len(), to.files().len()), (0, 1));
}

#[test]
fn retired_root_is_released_after_the_sweep() {
    let data = bytes(LONG, 47);
    let Some((_folder, from, to)) = moved(&data) else { return };
    let key = key_of(&rustix::fs::stat(&from.root).unwrap());
    drop(from);
    let is_settled = (0..2000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        roots::retired_count(key) == 0
    });
    assert!(is_settled, "its file system can be unmounted");
    assert_eq!(read(&to.look("f")).unwrap(), data);
}

#[test]
fn stream_in_an_unknown_share_is_an_error_until_moved() {
    let data = bytes(LONG, 43);
    let Some((folder, from, to)) = moved(&data) else { return };
    // As after a restart, when no share leads there.
    let aside = folder.path().join("aside");
    std::fs::rename(from.root.join(NAME), &aside).unwrap();
    drop(from);
    let node = to.look("f");
    assert_eq!(read(&node), Err(FsError::Unavailable));
    let created = node.need_streams().unwrap().create_stream(WHO, &stream("s"), Case::Insensitive);
    assert_eq!(created, Err(FsError::Unavailable));
    // The log gives the remedy.
    let file = std::fs::read_dir(aside).unwrap().next().unwrap().unwrap();
    let store = to.root.join(NAME);
    std::fs::create_dir(&store).unwrap();
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::rename(file.path(), store.join(file.file_name())).unwrap();
    assert_eq!(read(&node).unwrap(), data);
}

#[test]
fn stream_of_a_file_linked_in_both_shares_stays() {
    let data = bytes(LONG, 44);
    let Some((_folder, from, to)) = moved(&data) else { return };
    std::fs::hard_link(to.root.join("f"), from.root.join("g")).unwrap();
    assert_eq!(read(&to.look("f")).unwrap(), data);
    assert_eq!(read(&from.look("g")).unwrap(), data);
    assert_eq!((from.files().len(), to.files().len()), (1, 0));
}

#[test]
fn found_stream_is_not_looked_up_in_other_shares() {
    let data = bytes(LONG, 45);
    let folder = tempfile::tempdir().unwrap();
    let root = |name: &str| {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        StreamStoreShare::open(&folder.path().join(name))
    };
    let (other, share) = (root("other"), root("share"));
    if !share.vfs.features().xattrs {
        return;
    }
    let node = share.put("f", &data);
    let other = key_of(&rustix::fs::stat(&other.root).unwrap());
    let other = roots::served().into_iter().find(|root| root.key == other).unwrap();
    let looks = || other.looks.load(Ordering::Relaxed);
    // The scan of a concurrent test may access it.
    let is_passed_over = (0..50).any(|_| {
        let before = looks();
        assert_eq!(read(&node).unwrap(), data);
        node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, &data[..1]).unwrap();
        looks() == before
    });
    assert!(is_passed_over);
}
