//! Searches for references to streams, and the conditions that abort them.

use super::mounts::Extent;
use super::*;
use crate::stream_store::restored;
use std::collections::HashSet;

/// A directory with a share whose file `f` was removed. A copy of `f` outside the share retains its
/// reference.
struct RemovedHost {
    folder: tempfile::TempDir,
    share: StreamStoreShare,
    id: StoredId,
    device: u64,
    data: Vec<u8>,
}

/// `None` if the kernel has no handles.
fn removed(seed: u8) -> Option<RemovedHost> {
    let folder = tempfile::tempdir().unwrap();
    let (root, beside) = (folder.path().join("share"), folder.path().join("beside"));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&beside).unwrap();
    let share = StreamStoreShare::open(&root);
    if !share.vfs.features().xattrs {
        return None;
    }
    let data = bytes(LONG, seed);
    drop(share.put("f", &data));
    persistent_id(std::fs::File::open(root.join("f")).unwrap().as_fd())?;
    restore(&root.join("f"), &beside.join("f"), "user.DosStream.s:$DATA");
    std::fs::remove_file(root.join("f")).unwrap();
    let name = share.files().remove(0);
    let id = StoredId::of_file_name(name.file_name().unwrap().as_encoded_bytes()).unwrap();
    let device = std::fs::metadata(&root).unwrap().dev();
    Some(RemovedHost { folder, share, id, device, data })
}

impl RemovedHost {
    /// A file system on which the temporary directory is mounted, as mountinfo describes it.
    fn extent(&self, lines: &[(&str, &Path)]) -> Extent {
        let (major, minor) = (rustix::fs::major(self.device), rustix::fs::minor(self.device));
        let line = |(root, at): &(&str, &Path)| {
            format!("9 1 {major}:{minor} {root} {} rw - ext4 /dev/vda rw\n", at.display())
        };
        let list = self.folder.path().join("mountinfo");
        std::fs::write(&list, lines.iter().map(line).collect::<String>()).unwrap();
        Extent::Mounts(list)
    }

    fn search(&self, extent: &Extent, pause: &mut dyn FnMut()) -> Option<bool> {
        let sought = HashSet::from([self.id]);
        let left = restored::without_reference(self.device, sought, extent, pause)?;
        Some(!left.contains(&self.id))
    }

    /// Like [`RemovedHost::search`], while no concurrent test removes its directory.
    fn search_alone(&self, extent: &Extent) -> Option<bool> {
        (0..500).find_map(|_| {
            let found = self.search(extent, &mut || {});
            if found.is_none() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            found
        })
    }

    fn give_back(&self) {
        let there = self.share.root.join("back");
        std::fs::rename(self.folder.path().join("beside/f"), there).unwrap();
        assert_eq!(read_soon(&self.share.look("back")).unwrap(), self.data);
    }
}

#[test]
fn reference_outside_the_served_tree_is_found() {
    let Some(removed) = removed(61) else { return };
    assert_eq!(removed.search_alone(&Extent::Served), Some(false), "not below what is served");
    let whole = removed.extent(&[("/", removed.folder.path())]);
    assert_eq!(removed.search_alone(&whole), Some(true));
    removed.give_back();
}

#[test]
fn reference_below_another_mount_of_the_file_system_is_found() {
    let Some(removed) = removed(62) else { return };
    let beside = removed.folder.path().join("beside");
    let bound = removed.extent(&[("/x", &removed.share.root), ("/y", &beside)]);
    // Former shares of other tests are missing, and no mount here covers them.
    let found = (0..500).find_map(|_| removed.search(&bound, &mut || {}));
    assert_ne!(found, Some(false));
    removed.give_back();
}

#[test]
fn unopenable_mount_aborts_the_search() {
    let Some(removed) = removed(63) else { return };
    let (root, hidden) = (removed.folder.path(), removed.folder.path().join("missing"));
    let extent = removed.extent(&[("/a", &removed.share.root), ("/b", &hidden)]);
    assert_eq!(removed.search(&extent, &mut || {}), None);
    let covered = removed.extent(&[("/", root), ("/b", &hidden)]);
    assert_eq!(removed.search_alone(&covered), Some(true));
}

#[test]
fn unreadable_entry_aborts_the_search() {
    let Some(removed) = removed(64) else { return };
    let root = removed.folder.path();
    let extent = removed.extent(&[("/", root)]);
    let sought = HashSet::from([removed.id]);
    // The buffer for attribute names is too small.
    let found = restored::search(vec![0], removed.device, sought, &extent, &mut || {});
    assert_eq!(found, None);
    assert_eq!(removed.search_alone(&extent), Some(true));
}

#[test]
fn directory_moved_during_the_search_aborts_it() {
    let Some(removed) = removed(65) else { return };
    let root = removed.folder.path();
    for number in 0..400 {
        std::fs::write(root.join(format!("plain{number}")), b"").unwrap();
    }
    let extent = removed.extent(&[("/", root)]);
    let mut count = 0;
    let mut move_away = || {
        count += 1;
        let at =
            |number| root.join(if number == 0 { "beside".into() } else { format!("b{number}") });
        std::fs::rename(at(count - 1), at(count)).unwrap();
    };
    assert_eq!(removed.search(&extent, &mut move_away), None);
}
