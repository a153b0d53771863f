//! Files with long streams and moves between mounts, in a mount namespace of their own.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use vfs::{
    Actor, Case, CreateHow, FileKind, FsError, Name, Node, OpenHow, RelPath, Replace, Result,
    StreamName, Vfs, Wait,
};
use vfs_local::LocalVfs;

const WHO: Actor<'static> = Actor::SUPERUSER;
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
