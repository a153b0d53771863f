//! Files with long streams, moves between mounts, and the features and ids of mounted file systems,
//! in a mount namespace of their own.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use vfs::{
    Actor, AttributeChanges, Case, CreateHow, FileKind, FileSystemId, FsError, Name, Node,
    NodeHandle, OpenHow, RelPath, Replace, Result, StreamName, TimeChange, Timestamp, Vfs, Wait,
};
use vfs_local::LocalVfs;

const WHO: Actor<'static> = Actor::SUPERUSER;
const READ: OpenHow = OpenHow { read: true, ..OpenHow::looking(Wait::Allowed) };
/// Longer than any attribute of Linux.
const LONG: usize = 300_000;

/// Runs a test of this program once more, in a mount namespace of its own. Returns true in there.
fn has_own_mounts(test: &str) -> bool {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let parent = std::os::unix::process::parent_id().to_string();
    if namespace("self") != namespace(&parent) {
        return true;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    let may = command.arg("true").status().is_ok_and(|status| status.success());
    if !may {
        eprintln!("skipped: no mount namespaces here");
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe().unwrap());
    let run = command.args(["--exact", test, "--nocapture"]).output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && text.contains("1 passed"), "{text}{errors}");
    false
}

fn mount(arguments: &[&str], at: &Path) {
    std::fs::create_dir_all(at).unwrap();
    assert!(Command::new("mount").args(arguments).arg(at).status().unwrap().success());
}

fn path(text: &str) -> RelPath {
    text.split('/').map(|name| Name::new(name.as_bytes()).unwrap()).collect()
}

fn stream() -> StreamName {
    StreamName::new(&b"s"[..]).unwrap()
}

fn put(vfs: &LocalVfs, at: &str, data: &[u8]) {
    let how = CreateHow::plain(FileKind::File, 0o644);
    let node = vfs.create(WHO, &path(at), Case::Sensitive, how).unwrap().node;
    node.need_streams().unwrap().create_stream(WHO, &stream(), Case::Insensitive).unwrap();
    node.need_streams().unwrap().write_stream(WHO, &stream(), 0, data).unwrap();
}

fn look(vfs: &LocalVfs, at: &str) -> Arc<dyn Node> {
    vfs.open(WHO, &path(at), OpenHow::looking(Wait::Allowed)).unwrap().node
}

fn read(vfs: &LocalVfs, at: &str) -> Result<Vec<u8>> {
    let mut into = Vec::new();
    look(vfs, at).need_streams().unwrap().read_stream(WHO, &stream(), 0, 1 << 24, &mut into)?;
    Ok(into)
}

#[test]
fn move_between_mounts_is_refused_and_leaves_long_streams() {
    if !has_own_mounts("move_between_mounts_is_refused_and_leaves_long_streams") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("share");
    std::fs::create_dir_all(root.join("part")).unwrap();
    // Another file system, and the same one by another mount: the kernel moves between neither.
    mount(&["-t", "tmpfs", "tmpfs"], &root.join("other"));
    mount(&["--bind", root.join("part").to_str().unwrap()], &root.join("bound"));
    let vfs = LocalVfs::open(&root).unwrap();
    if !vfs.features().xattrs {
        return eprintln!("skipped: no extended attributes here");
    }
    let data: Vec<u8> = (0..LONG).map(|at| at as u8).collect();
    put(&vfs, "f", &data);
    for (target, has_node) in [("other/f", false), ("bound/f", false), ("part/f", true)] {
        let moved = vfs.rename(WHO, &path("f"), &path(target), Replace::Never);
        let linked = vfs.link(
            WHO,
            &*look(&vfs, if has_node { "part/f" } else { "f" }),
            &path("other/g"),
            Replace::Never,
        );
        assert_eq!(linked, Err(FsError::CrossDevice), "{target}");
        if has_node {
            assert_eq!(moved, Ok(()));
            continue;
        }
        assert_eq!(moved, Err(FsError::CrossDevice), "{target}");
        assert_eq!(read(&vfs, "f").unwrap(), data, "{target}");
    }
    // The same file by both mounts.
    assert_eq!(read(&vfs, "part/f").unwrap(), data);
    assert_eq!(read(&vfs, "bound/f").unwrap(), data);
    vfs.rename(WHO, &path("bound/f"), &path("bound/g"), Replace::Never).unwrap();
    assert_eq!(read(&vfs, "part/g").unwrap(), data);

    // The client copies instead; each file system has the streams of its files.
    if rustix::fs::getxattr(root.join("other"), "user.none", &mut [0u8; 1])
        == Err(rustix::io::Errno::OPNOTSUPP)
    {
        return eprintln!("skipped: no user attributes on tmpfs");
    }
    put(&vfs, "other/f", &data);
    assert!(root.join("other/.anabranch-streams").exists());
    let key = look(&vfs, "part/g").key();
    vfs.remove(WHO, &path("part/g"), key).unwrap();
    assert_eq!(read(&vfs, "other/f").unwrap(), data);
    vfs.rename(WHO, &path("other/f"), &path("other/g"), Replace::Never).unwrap();
    assert_eq!(read(&vfs, "other/g").unwrap(), data);
}

/// Unmounts, as soon as the background scan of a served directory has closed it.
fn unmount(at: &Path) {
    const TRIES_MAX: u32 = 500;
    let is_unmounted = (0..TRIES_MAX).any(|_| {
        let output = Command::new("umount").arg(at).output().unwrap();
        let is_busy = String::from_utf8_lossy(&output.stderr).contains("busy");
        assert!(output.status.success() || is_busy, "{output:?}");
        if is_busy {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        !is_busy
    });
    assert!(is_unmounted, "{} stays busy", at.display());
}

/// Creates an image of a file system; false if the kernel or the tools have none of this kind.
fn make_image(kind: &str, at: &Path) -> bool {
    make_image_with(kind, &[], at)
}

/// As [`make_image`], with options of `mkfs`.
fn make_image_with(kind: &str, options: &[&str], at: &Path) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap();
    let is_known = known.lines().any(|line| line.trim() == kind);
    std::fs::File::create(at).unwrap().set_len(320 << 20).unwrap();
    let made = is_known
        .then(|| Command::new(format!("mkfs.{kind}")).arg("-q").args(options).arg(at).output());
    let is_made = made.is_some_and(|made| made.is_ok_and(|made| made.status.success()));
    if !is_made {
        eprintln!("left out: no {kind} here");
    }
    is_made
}

type LastingId = (Option<FileSystemId>, Option<NodeHandle>);

fn lasting_id(vfs: &LocalVfs, at: &str) -> LastingId {
    let node = look(vfs, at);
    (vfs.features_of(&*node).file_system, vfs.handles().unwrap().persistent_id(&*node))
}

fn inode_of(at: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(at).unwrap())
}

#[test]
fn features_are_those_of_the_nodes_own_file_system() {
    if !has_own_mounts("features_are_those_of_the_nodes_own_file_system") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("share");
    mount(&["-t", "tmpfs", "tmpfs"], &root);
    for directory in ["part/deep", "ram"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    mount(&["-t", "ramfs", "ramfs"], &root.join("ram"));
    mount(&["--bind", "-o", "ro", root.join("part").to_str().unwrap()], &root.join("bound"));
    std::fs::create_dir(root.join("ram/deep")).unwrap();
    std::fs::write(root.join("ram/deep/f"), "").unwrap();
    std::os::unix::fs::symlink("f", root.join("ram/deep/link")).unwrap();
    let vfs = LocalVfs::open(&root).unwrap();
    let own = vfs.features();
    assert!(own.sparse && own.hard_links && own.symlinks && own.case_sensitive);

    assert_eq!(vfs.features_of(&*look(&vfs, "part/deep")), own);
    assert_eq!(vfs.features_of(&*look(&vfs, "bound/deep")), own);
    let is_read_only = |at: &str| vfs.is_read_only_at(&*look(&vfs, at));
    assert_eq!(["part", "bound", "bound/deep"].map(is_read_only), [false, true, true]);
    for at in ["ram", "ram/deep", "ram/deep/f", "ram/deep/link"] {
        let found = vfs.features_of(&*look(&vfs, at));
        assert!(found.hard_links && found.symlinks, "{at}: {found:?}");
        assert!(!found.sparse && !found.xattrs && !found.reflink, "{at}: {found:?}");
        assert_eq!((found.file_system, found.stream_bytes_max), (None, 0), "{at}");
    }
    // Nothing is left by the probes.
    assert_eq!(std::fs::read_dir(root.join("ram")).unwrap().count(), 1);

    // Another file system at the same place.
    unmount(&root.join("ram"));
    mount(&["-t", "tmpfs", "tmpfs"], &root.join("ram"));
    let found = vfs.features_of(&*look(&vfs, "ram"));
    assert!(found.sparse && found.file_system.is_some(), "{found:?}");
    assert_ne!(found.file_system, own.file_system);
}

#[test]
fn features_of_an_overlay_are_the_same_for_files_of_each_layer() {
    if !has_own_mounts("features_of_an_overlay_are_the_same_for_files_of_each_layer") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [root, lower, upper] = ["share", "lower", "upper"].map(|name| folder.path().join(name));
    mount(&["-t", "tmpfs", "tmpfs"], &lower);
    mount(&["-t", "tmpfs", "tmpfs"], &upper);
    for directory in [root.join("inner"), lower.join("d"), upper.join("files"), upper.join("work")]
    {
        std::fs::create_dir_all(directory).unwrap();
    }
    std::fs::write(lower.join("d/below"), "").unwrap();
    // Without xino the files of each layer have a device number of their own.
    let layers = format!(
        "lowerdir={},upperdir={},workdir={},xino=off",
        lower.display(),
        upper.join("files").display(),
        upper.join("work").display()
    );
    let inner = root.join("inner");
    let mut command = Command::new("mount");
    command.args(["-t", "overlay", "-o", &layers, "overlay"]).arg(&inner);
    if !command.status().unwrap().success() {
        return eprintln!("skipped: no overlays here");
    }
    std::fs::write(inner.join("d/above"), "").unwrap();
    let device = |at: &str| rustix::fs::stat(inner.join(at)).unwrap().st_dev;
    let devices = ["d", "d/below", "d/above"].map(device);
    assert!(devices[0] != devices[1] && devices[1] != devices[2], "{devices:?}");

    for (vfs, top) in
        [(LocalVfs::open(&root).unwrap(), "inner/"), (LocalVfs::open(&inner).unwrap(), "")]
    {
        // Regular files come first, so that no directory's features are cached.
        let found = ["d/below", "d/above", "d"]
            .map(|at| vfs.features_of(&*look(&vfs, &format!("{top}{at}"))));
        assert_eq!(found[0], found[2], "{top}");
        assert_eq!(found[1], found[2], "{top}");
        assert_eq!(found[0].xattrs, found[0].stream_bytes_max > 0);
        assert_eq!(found[0].xattrs, has_xattrs(&inner.join("d/above")), "{top}");
    }
}

fn has_xattrs(at: &Path) -> bool {
    rustix::fs::getxattr(at, "user.none", &mut [0u8; 1]) != Err(rustix::io::Errno::OPNOTSUPP)
}

#[test]
fn features_of_a_mounted_file_are_those_of_its_file_system() {
    if !has_own_mounts("features_of_a_mounted_file_are_those_of_its_file_system") {
        return;
    }
    for kind in ["ext4", "xfs", "btrfs", "tmpfs", "ramfs"] {
        let folder = tempfile::tempdir().unwrap();
        let [root, image, whole] = ["share", "image", "whole"].map(|name| folder.path().join(name));
        if ["tmpfs", "ramfs"].contains(&kind) {
            mount(&["-t", kind, kind], &whole);
        } else if make_image(kind, &image) {
            mount(&["-o", "loop", image.to_str().unwrap()], &whole);
        } else {
            continue;
        }
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("one"), "").unwrap();
        std::fs::write(whole.join("f"), "").unwrap();
        assert!(
            Command::new("mount")
                .arg("--bind")
                .args([whole.join("f"), root.join("one")])
                .status()
                .unwrap()
                .success()
        );
        let vfs = LocalVfs::open(&root).unwrap();
        let expected = LocalVfs::open(&whole).unwrap().features();
        for how in [OpenHow::looking(Wait::Allowed), READ] {
            let node = vfs.open(WHO, &path("one"), how).unwrap().node;
            let found = vfs.features_of(&*node);
            assert_eq!(found.xattrs, expected.xattrs, "{kind}");
            assert_eq!(found.stream_bytes_max, expected.stream_bytes_max, "{kind}");
            assert_eq!(found.file_system, expected.file_system, "{kind}");
        }
        unmount(&root.join("one"));
        unmount(&whole);
    }
}

#[test]
fn features_below_a_removed_directory_are_not_cached() {
    if !has_own_mounts("features_below_a_removed_directory_are_not_cached") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [root, image] = ["share", "image"].map(|name| folder.path().join(name));
    if !make_image("xfs", &image) {
        return;
    }
    let inner = root.join("inner");
    mount(&["-o", "loop", image.to_str().unwrap()], &inner);
    std::fs::create_dir(inner.join("d")).unwrap();
    for file in ["d/f", "g"] {
        std::fs::write(inner.join(file), "").unwrap();
    }
    let vfs = LocalVfs::open(&root).unwrap();
    let removed = look(&vfs, "inner/d/f");
    std::fs::remove_dir_all(inner.join("d")).unwrap();
    assert!(!vfs.features_of(&*removed).reflink);
    assert!(vfs.features_of(&*look(&vfs, "inner/g")).reflink);
    drop(removed);
    drop(vfs);
    unmount(&inner);
}

#[test]
fn lasting_id_survives_a_mount_and_is_never_reused() {
    /// Attempts to get an inode number again.
    const TRIES_MAX: u32 = 200;
    if !has_own_mounts("lasting_id_survives_a_mount_and_is_never_reused") {
        return;
    }
    for kind in ["ext4", "xfs", "btrfs"] {
        let folder = tempfile::tempdir().unwrap();
        let [root, image, other] = ["share", "image", "other"].map(|name| folder.path().join(name));
        if !make_image(kind, &image) || !make_image(kind, &other) {
            continue;
        }
        let (inner, beside) = (root.join("inner"), folder.path().join("beside"));
        let images = [&image, &other].map(|at| at.to_str().unwrap());
        mount(&["-o", "loop", images[0]], &inner);
        let file = inner.join("f");
        std::fs::write(&file, "").unwrap();
        let device = || rustix::fs::stat(&inner).unwrap().st_dev;
        let (before, known) = (device(), lasting_id(&LocalVfs::open(&root).unwrap(), "inner/f"));
        assert!(known.0.is_some() && known.1.is_some(), "{kind}: {known:?}");

        // The other image takes the device.
        unmount(&inner);
        mount(&["-o", "loop", images[1]], &beside);
        mount(&["-o", "loop", images[0]], &inner);
        if before == device() {
            eprintln!("{kind}: the same device number");
        }
        let vfs = LocalVfs::open(&root).unwrap();
        assert_eq!(lasting_id(&vfs, "inner/f"), known, "{kind}");
        std::fs::write(beside.join("f"), "").unwrap();
        let of_other = lasting_id(&LocalVfs::open(&beside).unwrap(), "f");
        assert_ne!(of_other.0, known.0, "{kind}: another file system");

        let number = inode_of(&file);
        std::fs::remove_file(&file).unwrap();
        let again = (0..TRIES_MAX).map(|at| format!("next{at}")).find(|name| {
            // XFS frees inodes in the background.
            std::thread::sleep(std::time::Duration::from_millis(5));
            std::fs::write(inner.join(name), "").unwrap();
            inode_of(&inner.join(name)) == number
        });
        // btrfs never uses a number again.
        assert_eq!(again.is_some(), kind != "btrfs", "{kind}");
        if let Some(name) = again {
            assert_ne!(lasting_id(&vfs, &format!("inner/{name}")), known, "{kind}");
        }
        drop(vfs);
        unmount(&inner);
        unmount(&beside);
    }
}

/// XFS gives handles another form under inode32, with the same inode number and generation.
#[test]
fn lasting_id_is_the_same_under_inode32_and_inode64() {
    if !has_own_mounts("lasting_id_is_the_same_under_inode32_and_inode64") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [root, image] = ["share", "image"].map(|name| folder.path().join(name));
    if !make_image("xfs", &image) {
        return;
    }
    let found = ["inode64", "inode32", "inode64"].map(|option| {
        mount(&["-o", &format!("loop,{option}"), image.to_str().unwrap()], &root);
        std::fs::create_dir_all(root.join("d")).unwrap();
        std::fs::OpenOptions::new().append(true).create(true).open(root.join("f")).unwrap();
        let vfs = LocalVfs::open(&root).unwrap();
        let ids = ["d", "f"].map(|at| lasting_id(&vfs, at));
        drop(vfs);
        unmount(&root);
        ids
    });
    assert!(found[0].iter().all(|(system, node)| system.is_some() && node.is_some()), "{found:?}");
    assert_eq!(found[1], found[0]);
    assert_eq!(found[2], found[0]);
}

#[derive(Clone, Default)]
struct LogLines(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log of `call`.
fn logged(call: impl FnOnce()) -> String {
    let lines = LogLines::default();
    let writer = lines.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, call);
    String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn warning_of_a_clamped_time_names_both_ends_of_the_range() {
    /// 1601 and 9999, in seconds since 1970: what SMB clients can set.
    const FAR: [i64; 2] = [-11_644_473_600, 253_402_300_799];
    const YEAR_SECONDS: i64 = 31_556_952;
    if !has_own_mounts("warning_of_a_clamped_time_names_both_ends_of_the_range") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut mounted = Vec::new();
    for (name, kind, options) in [
        ("XFS", "xfs", ["-m", "bigtime=0"]),
        ("XFS", "xfs", ["-m", "bigtime=1"]),
        ("ext4", "ext4", ["-I", "256"]),
        ("ext4", "ext4", ["-I", "128"]),
    ] {
        let image = folder.path().join(format!("image{}", mounted.len()));
        if !make_image_with(kind, &options, &image) {
            continue;
        }
        // All stay mounted: the first clamped time of each device is logged.
        let root = folder.path().join(format!("share{}", mounted.len()));
        mount(&["-o", "loop", image.to_str().unwrap()], &root);
        std::fs::write(root.join("f"), "").unwrap();
        let node = look(&LocalVfs::open(&root).unwrap(), "f");
        let mut ends = [0; 2];
        let text = logged(|| {
            for (end, seconds) in ends.iter_mut().zip(FAR) {
                let time = Timestamp(i128::from(seconds) * 1_000_000_000);
                let modified = TimeChange::Set(time);
                node.set_attributes(WHO, &AttributeChanges { modified, ..Default::default() })
                    .unwrap();
                let held = rustix::fs::stat(root.join("f")).unwrap().st_mtime;
                *end = 1970 + held.div_euclid(YEAR_SECONDS);
            }
        });
        assert_eq!(text.matches(" WARN ").count(), 1, "{options:?}: {text}");
        let range = text.split_once(&format!("{name}: ")).unwrap().1.split([';', ')']).next();
        let has = |words: String| range.is_some_and(|range| range.contains(&words));
        assert!(has(format!("from {}", ends[0])), "{options:?} {ends:?}: {text}");
        assert!(has(format!("to {}", ends[1])), "{options:?} {ends:?}: {text}");
        mounted.push(root);
    }
    for root in mounted {
        unmount(&root);
    }
}
