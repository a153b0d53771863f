//! Previous versions: they are immutable, and their permissions apply.

use crate::harness::*;
use files::{BasicChange, IfExists, OpenPlan, Volume, VolumeOptions};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use vfs::{FsError, Timestamp};
use vfs_local::{LocalSnapshots, NameFormat, SnapshotNaming, SnapshotPlace};

const AT: Timestamp = Timestamp(1_000_000_000_000_000_000);

/// A share with a file `f` that has changed, and a snapshot of its earlier state.
fn serve_kept() -> (ServedVolume, Arc<Volume>) {
    let mut served = serve();
    let kept = served.dir.path().join("kept/1000000000");
    fs::create_dir_all(&kept).unwrap();
    fs::set_permissions(&kept, Permissions::from_mode(0o777)).unwrap();
    served.put("kept/1000000000/f", b"as it was");
    served.put("kept/1000000000/private", b"");
    fs::set_permissions(kept.join("private"), Permissions::from_mode(0o0)).unwrap();
    served.put("f", b"as it is");
    let place = SnapshotPlace {
        directory: served.dir.path().join("kept"),
        root: served.dir.path().into(),
        naming: SnapshotNaming::Names(vec![NameFormat::new("%s").unwrap()]),
        inside: "".into(),
        follows_links: true,
    };
    let snapshots = Some(Arc::new(LocalSnapshots::new(place)) as _);
    let options = VolumeOptions { snapshots, ..VolumeOptions::default() };
    served.volume = Arc::new(Volume::new(served.vfs.clone(), options));
    let kept = now(served.files.snapshot(&served.volume, AT)).unwrap();
    (served, kept)
}

#[test]
fn snapshot_open_uses_rights_of_its_time() {
    let (served, kept) = serve_kept();
    assert_eq!(now(served.files.snapshots(&served.volume)), Ok(vec![AT]));
    let none = now(served.files.snapshot(&served.volume, Timestamp(AT.0 + 1_000_000_000)));
    assert_eq!(none.map(drop), Err(FsError::NotFound));
    let open = |plan| now(served.files.open(&kept, &served.alice, plan)).map(|o| o.open);
    let mut data = Vec::new();
    let old = open(plan("F", READ)).unwrap();
    now(served.files.read(&old, 0, 100, &mut data)).unwrap();
    assert_eq!(data, b"as it was");
    if served.is_root {
        assert_eq!(open(plan("private", READ)).unwrap_err(), FsError::AccessDenied);
    }
}

#[test]
fn previous_version_refuses_each_change() {
    let (served, kept) = serve_kept();
    let open = |plan| now(served.files.open(&kept, &served.alice, plan)).map(|o| o.open);
    for refused in [
        new_file("new"),
        new_directory("new"),
        OpenPlan { if_exists: IfExists::Overwrite, ..plan("f", READ) },
        OpenPlan { if_exists: IfExists::Supersede, ..plan("f", READ) },
        OpenPlan { delete_on_close: true, ..plan("f", DELETE) },
    ] {
        assert_eq!(open(refused).unwrap_err(), FsError::ReadOnly);
    }
    let files = &served.files;
    let f = open(plan("f", ALL)).unwrap();
    assert_eq!(files.write(f.caller(), &f, 0, b"x"), Err(FsError::ReadOnly));
    assert_eq!(now(files.set_size(f.caller(), &f, 0)), Err(FsError::ReadOnly));
    assert_eq!(files.set_attributes(&f, &BasicChange::default()), Err(FsError::ReadOnly));
    assert_eq!(files.set_delete(&f, true, false), Err(FsError::ReadOnly));
    assert_eq!(files.set_xattr(&f, &xattr_name("a"), Some(b"b")), Err(FsError::ReadOnly));
    assert_eq!(now(files.set_symlink(&f, b"x".to_vec())), Err(FsError::ReadOnly));
    assert_eq!(now(files.rename(&f, &path("g"), false)), Err(FsError::CrossDevice));
    assert_eq!(now(files.link(&f, &path("g"), false)), Err(FsError::CrossDevice));
    let current = served.open("f", WRITE);
    now(files.copy_range(current.caller(), (&f, 0), (&current, 0), 9)).unwrap();
    assert_eq!(served.get("f").unwrap(), b"as it was", "it can be restored");
    assert_eq!(
        now(files.copy_range(f.caller(), (&current, 0), (&f, 0), 1)).unwrap_err(),
        FsError::AccessDenied
    );
    assert_eq!(served.get("kept/1000000000/f").unwrap(), b"as it was");
}
