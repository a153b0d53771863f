//! Streams of files that are moved from a share to another, and how stores are found.

use super::*;

/// Two shares beside each other; a file `f` with a stream was moved from the first to the second.
fn moved(data: &[u8]) -> Option<(tempfile::TempDir, Share, Share)> {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        Share::open(&folder.path().join(name))
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
fn stream_that_was_used_after_its_file_was_moved_needs_the_former_share_no_more() {
    let data = bytes(LONG, 41);
    let Some((_folder, from, to)) = moved(&data) else { return };
    let node = to.look("f");
    node.write_stream(WHO, &stream("s"), 0, &data[..1]).unwrap();
    assert_eq!((from.files().len(), to.files().len()), (0, 1));
    assert_eq!(read(&node).unwrap(), data);
    drop(from);
    node.write_stream(WHO, &stream("s"), 0, b"x").unwrap();
    assert_eq!(read(&node).unwrap()[..2], [b'x', data[1]]);
    node.remove_stream(WHO, &stream("s")).unwrap();
    assert!(to.files().is_empty());
}

#[test]
fn stream_of_a_file_that_was_moved_is_found_when_the_former_share_is_retired() {
    let data = bytes(LONG, 42);
    let Some((_folder, from, to)) = moved(&data) else { return };
    drop(from);
    let node = to.look("f");
    assert_eq!(read(&node).unwrap(), data);
    node.write_stream(WHO, &stream("s"), 0, &data[..1]).unwrap();
    assert_eq!(to.files().len(), 1);
}

#[test]
fn read_leaves_the_stream_of_a_moved_file_where_it_is() {
    let data = bytes(LONG, 46);
    let Some((_folder, from, to)) = moved(&data) else { return };
    let node = to.look("f");
    for _ in 0..2 {
        assert_eq!(read(&node).unwrap(), data);
        assert_eq!(node.streams(WHO).unwrap().len(), 1);
    }
    assert_eq!(from.files().len(), 1);
    assert!(!to.root.join(NAME).exists(), "the share may be read-only");
    node.write_stream(WHO, &stream("s"), 0, &data[..1]).unwrap();
    assert_eq!((from.files().len(), to.files().len()), (0, 1));
}

#[test]
fn retired_root_is_held_only_until_the_sweep_has_looked() {
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
fn stream_in_a_share_that_nobody_knows_any_more_is_an_error_until_it_is_moved() {
    let data = bytes(LONG, 43);
    let Some((folder, from, to)) = moved(&data) else { return };
    // As after a restart: nothing leads there.
    let aside = folder.path().join("aside");
    std::fs::rename(from.root.join(NAME), &aside).unwrap();
    drop(from);
    let node = to.look("f");
    assert_eq!(read(&node), Err(FsError::Unavailable));
    let created = node.create_stream(WHO, &stream("s"), Case::Insensitive);
    assert_eq!(created, Err(FsError::Unavailable));
    // The log names the remedy.
    let file = std::fs::read_dir(aside).unwrap().next().unwrap().unwrap();
    let store = to.root.join(NAME);
    std::fs::create_dir(&store).unwrap();
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::rename(file.path(), store.join(file.file_name())).unwrap();
    assert_eq!(read(&node).unwrap(), data);
}

#[test]
fn file_with_names_in_both_shares_keeps_its_stream_where_it_is() {
    let data = bytes(LONG, 44);
    let Some((_folder, from, to)) = moved(&data) else { return };
    std::fs::hard_link(to.root.join("f"), from.root.join("g")).unwrap();
    assert_eq!(read(&to.look("f")).unwrap(), data);
    assert_eq!(read(&from.look("g")).unwrap(), data);
    assert_eq!((from.files().len(), to.files().len()), (1, 0));
}

#[test]
fn stream_that_was_found_once_is_not_looked_for_in_other_shares() {
    let data = bytes(LONG, 45);
    let folder = tempfile::tempdir().unwrap();
    let root = |name: &str| {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        Share::open(&folder.path().join(name))
    };
    let (other, share) = (root("other"), root("share"));
    if !share.vfs.features().xattrs {
        return;
    }
    let node = share.put("f", &data);
    let other = key_of(&rustix::fs::stat(&other.root).unwrap());
    let other = roots::served().into_iter().find(|root| root.key == other).unwrap();
    let looks = || other.looks.load(Ordering::Relaxed);
    // The looks of another test may pass there just then.
    let is_passed_over = (0..50).any(|_| {
        let before = looks();
        assert_eq!(read(&node).unwrap(), data);
        node.write_stream(WHO, &stream("s"), 0, &data[..1]).unwrap();
        looks() == before
    });
    assert!(is_passed_over);
}
