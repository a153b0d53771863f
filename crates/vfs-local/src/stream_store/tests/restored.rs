//! Adoption of a restored stream by one of several files.

use super::*;

const ATTRIBUTE: &str = "user.DosStream.s:$DATA";

struct Backup {
    folder: tempfile::TempDir,
    data: Vec<u8>,
}

/// The store of a share whose file `f` is gone, and copies of that file with these names and modes.
/// `None` if the kernel has no handles.
fn restored(files: &[(&str, u32)]) -> Option<Backup> {
    let (_folder, share) = share()?;
    let data = bytes(LONG, 21);
    drop(share.put("f", &data));
    let mode = std::fs::Permissions::from_mode;
    let original = share.root.join("f");
    std::fs::set_permissions(&original, mode(0o600)).unwrap();
    let store_file = share.files().remove(0);
    let (handles, _) = (persistent_id(std::fs::File::open(&original).unwrap().as_fd())?, ());
    assert!(!handles.as_bytes().is_empty());
    // As after the daily scan, which records the file's current rights.
    sweep::look_at_all(&mut sweep::Breaks::default());
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join(NAME);
    std::fs::create_dir(&store).unwrap();
    std::fs::set_permissions(&store, mode(STORE_MODE)).unwrap();
    restore(&store_file, &store.join(store_file.file_name().unwrap()), RECORD);
    for (name, bits) in files {
        let file = folder.path().join(name);
        restore(&original, &file, ATTRIBUTE);
        std::fs::set_permissions(&file, mode(*bits)).unwrap();
    }
    std::fs::remove_file(&original).unwrap();
    Some(Backup { folder, data })
}

#[test]
fn restored_stream_is_denied_to_a_file_with_other_rights() {
    let Some(backup) = restored(&[("f", 0o600), ("g", 0o644)]) else { return };
    let share = StreamStoreShare::open(backup.folder.path());
    let g = share.look("g");
    assert_eq!(read(&g), Err(FsError::Unavailable));
    assert_eq!(
        g.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, b"x"),
        Err(FsError::Unavailable)
    );
    g.need_streams().unwrap().remove_stream(WHO, &stream("s")).unwrap();
    assert_eq!(share.files().len(), 1, "it is not removed by way of a copy");
    assert_eq!(read_soon(&share.look("f")).unwrap(), backup.data);
}

#[test]
fn restored_stream_belongs_to_the_first_file_that_refers_to_it() {
    let Some(backup) = restored(&[("f", 0o600), ("copy", 0o600)]) else { return };
    let share = StreamStoreShare::open(backup.folder.path());
    let f = share.look("f");
    assert_eq!(read_soon(&f).unwrap(), backup.data, "a read takes it over");
    let copy = share.look("copy");
    assert_eq!(read(&copy), Err(FsError::NotFound));
    copy.need_streams().unwrap().remove_stream(WHO, &stream("s")).unwrap();
    assert_eq!(read(&f).unwrap(), backup.data);
    f.need_streams().unwrap().remove_stream(WHO, &stream("s")).unwrap();
    assert!(share.files().is_empty());
}

#[test]
fn stream_restored_beside_its_existing_host_is_an_error() {
    let Some((_folder, share)) = share() else { return };
    let data = bytes(LONG, 22);
    let node = share.put("f", &data);
    if persistent_id(std::fs::File::open(share.root.join("f")).unwrap().as_fd()).is_none() {
        return;
    }
    let beside = tempfile::tempdir().unwrap();
    let store = beside.path().join(NAME);
    std::fs::create_dir(&store).unwrap();
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(STORE_MODE)).unwrap();
    let file = share.files().remove(0);
    restore(&file, &store.join(file.file_name().unwrap()), RECORD);
    restore(&share.root.join("f"), &beside.path().join("f"), ATTRIBUTE);
    let other = StreamStoreShare::open(beside.path());
    let restored = other.look("f");
    assert_eq!(read(&restored), Err(FsError::Unavailable));
    let created =
        restored.need_streams().unwrap().create_stream(WHO, &stream("s"), Case::Insensitive);
    assert_eq!(created, Err(FsError::Unavailable));
    assert_eq!(read(&node).unwrap(), data);
}
