//! Symbolic links: left out, kept and followed; sources that cannot be read; lines for each file.

use crate::support::copying::{SmbAndNfsServer, copied, folder, output_text, set_time};
use crate::support::{PASSWORD, Setup, anabranch, text, user};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

/// Links of a tree, and what each says.
const LINKS: [(&str, &str); 4] =
    [("to-file", "dir/b"), ("to-dir", "dir"), ("dir/back", "../a"), ("dangling", "dir/no.where")];

fn tree(folder: &Path) -> PathBuf {
    let root = folder.join("tree");
    std::fs::create_dir_all(root.join("dir")).unwrap();
    for (name, data) in [("a", "first"), ("dir/b", "second")] {
        std::fs::write(root.join(name), data).unwrap();
        set_time(&root.join(name), 0);
    }
    for (name, to) in LINKS {
        symlink(to, root.join(name)).unwrap();
    }
    root
}

/// Runs `copy` without robocopy's exit codes.
fn run(state: &Path, arguments: &[&str]) -> Output {
    let mut command = anabranch();
    command.arg("copy").args(arguments).args(["--any-interface", "--state"]).arg(state);
    command.env("ANABRANCH_PASSWORD", PASSWORD).output().unwrap()
}

fn assert_links(root: &Path) {
    for (name, to) in LINKS {
        assert_eq!(std::fs::read_link(root.join(name)).unwrap(), Path::new(to), "{name}");
    }
}

/// Copies with links from place to place; a second run has nothing to do.
fn chain(state: &Path, places: &[&str]) {
    for pair in places.windows(2) {
        let arguments = [pair[0], pair[1], "--links"];
        let summary = copied(state, &arguments, 1);
        assert_eq!(summary["links_copied"], 4, "{pair:?}: {summary}");
        let summary = copied(state, &arguments, 0);
        assert_eq!((&summary["links_copied"], &summary["files_unchanged"]), (&0.into(), &6.into()));
    }
}

#[test]
fn links_are_kept_between_directories_exports_and_shares() {
    let both = SmbAndNfsServer::start(141);
    let folder = folder();
    let (root, back, state) =
        (tree(folder.path()), folder.path().join("back"), folder.path().join("state"));
    let there = both.server.data();
    let (root_path, back_path) = (root.to_str().unwrap(), back.to_str().unwrap());
    let places = [root_path, &both.nfs_url("one"), &both.nfs_url("two"), back_path];
    chain(&state, &places);
    assert_links(&there.join("one"));
    assert_links(&back);
    // A share that follows links lists what they lead to; the links are found all the same.
    copied(&state, &[root_path, &both.smb_url("share"), "--links"], 1);
    assert_links(&there.join("share"));
    let summary = copied(&state, &[root_path, &both.smb_url("share"), "--links"], 0);
    assert_eq!(summary["files_unchanged"], 6, "{summary}");
    // A link that leads elsewhere now is replaced; a file in a link's place is left alone.
    std::fs::remove_file(root.join("to-file")).unwrap();
    symlink("a", root.join("to-file")).unwrap();
    for url in [both.nfs_url("one"), both.smb_url("share"), back_path.to_owned()] {
        assert_eq!(copied(&state, &[root_path, &url, "--links"], 1)["links_copied"], 1, "{url}");
    }
    for place in [there.join("one"), there.join("share"), back.clone()] {
        assert_eq!(std::fs::read_link(place.join("to-file")).unwrap(), Path::new("a"));
        assert_eq!(std::fs::read(place.join("a")).unwrap(), b"first");
    }
    std::fs::remove_file(back.join("to-dir")).unwrap();
    std::fs::write(back.join("to-dir"), "mine").unwrap();
    assert_eq!(copied(&state, &[root_path, back_path, "--links"], 4)["mismatched"], 1);
    assert_eq!(std::fs::read(back.join("to-dir")).unwrap(), b"mine");
}

#[test]
fn links_of_a_share_that_shows_them_are_kept() {
    let mut setup = Setup::new();
    setup.shares += "show_symlinks = true\n";
    let server = setup.start();
    let folder = folder();
    let (root, back, state) =
        (tree(folder.path()), folder.path().join("back"), folder.path().join("state"));
    let url = |path: &str| format!("smb://{}@{}/data/{path}", user(), server.smb);
    let places = [root.to_str().unwrap(), &url("one"), &url("two"), back.to_str().unwrap()];
    chain(&state, &places);
    assert_links(&back);
    let summary = copied(&state, &[&url("one"), &url("followed"), "--copy-links"], 9);
    assert_eq!((&summary["files_copied"], &summary["failed"]), (&6.into(), &1.into()), "{summary}");
}

#[test]
fn followed_links_become_files_and_loops_are_reported() {
    let both = SmbAndNfsServer::start(142);
    let folder = folder();
    let (root, state) = (tree(folder.path()), folder.path().join("state"));
    symlink("..", root.join("dir/up")).unwrap();
    let exported = both.server.data().join("from");
    copied(&state, &[root.to_str().unwrap(), &both.nfs_url("from"), "--links"], 1);
    symlink("/etc/passwd", exported.join("outside")).unwrap();
    for (from, to, extra) in
        [(root.to_str().unwrap(), "local", 0), (&both.nfs_url("from"), "from-nfs", 1)]
    {
        let to = folder.path().join(to);
        let output = run(&state, &[from, to.to_str().unwrap(), "-L"]);
        let printed = output_text(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        for (name, data) in [
            ("to-file", "second"),
            ("to-dir/b", "second"),
            ("dir/back", "first"),
            ("to-dir/back", "first"),
        ] {
            assert!(!to.join(name).is_symlink(), "{name}");
            assert_eq!(std::fs::read(to.join(name)).unwrap(), data.as_bytes(), "{name}: {printed}");
        }
        assert!(printed.contains("not copied: dangling: the link leads nowhere"), "{printed}");
        let failed = format!("{} NOT copied", 3 + extra);
        assert!(printed.contains(&failed), "both ways up, and the dangling one: {printed}");
        assert!(printed.contains("dir/up: the link leads to a directory that contains it"));
        assert!(extra == 0 || printed.contains("outside: the link leads out of the source"));
    }
}

#[test]
fn links_are_named_unless_they_are_left_out_silently() {
    let folder = folder();
    let (root, state) = (tree(folder.path()), folder.path().join("state"));
    let to = folder.path().join("to");
    let (root, to) = (root.to_str().unwrap(), to.to_str().unwrap());
    let output = run(&state, &[root, to]);
    assert!(output.status.success(), "{}", output_text(&output));
    assert!(text(&output.stderr).contains("to-file: skipped, a symbolic link"));
    let silent = run(&state, &[root, to, "--skip-links"]);
    assert_eq!(text(&silent.stderr), "", "nothing is new, and nothing is named");
}

#[test]
fn verbose_copy_prints_a_line_for_each_file() {
    let folder = folder();
    let (root, state) = (tree(folder.path()), folder.path().join("state"));
    let to = folder.path().join("to");
    std::fs::create_dir(&to).unwrap();
    std::fs::write(to.join("extra"), "").unwrap();
    std::fs::write(to.join("a"), "another").unwrap();
    let arguments = [root.to_str().unwrap(), to.to_str().unwrap(), "-v", "-l"];
    let output = run(&state, &[&arguments[..], &["--mirror", "--delete", "--yes"]].concat());
    let printed = text(&output.stderr);
    let lines = [
        "replaced a (5 bytes)",
        "created dir/",
        "copied dir/b (6 bytes)",
        "linked to-dir -> dir",
        "removed extra",
    ];
    for line in lines {
        assert!(printed.lines().any(|one| one == line), "{line}: {printed}");
    }
}

#[test]
fn mirror_of_an_unreadable_source_removes_nothing_of_it() {
    let mut setup = Setup::new();
    // Root of the client is nobody on the server, so the tests may run as root.
    let nfs = setup.serve_nfs(143, 24457);
    let server = setup.start();
    let folder = folder();
    let (state, to) = (folder.path().join("state"), folder.path().join("to"));
    let data = server.data();
    for name in ["locked", "open"] {
        std::fs::create_dir(data.join(name)).unwrap();
        std::fs::write(data.join(name).join("a"), "a").unwrap();
    }
    std::fs::write(data.join("file"), "a").unwrap();
    let url = format!("nfs://{nfs}/data");
    let mirror = [&url, to.to_str().unwrap(), "--mirror", "--delete", "--yes"];
    let first = run(&state, &mirror);
    assert_eq!(first.status.code(), Some(0), "{}", output_text(&first));
    for name in ["locked/old", "open/old"] {
        std::fs::write(to.join(name), "").unwrap();
    }
    std::fs::write(data.join("file"), "changed").unwrap();
    let lock = |name: &str, mode| {
        std::fs::set_permissions(data.join(name), Permissions::from_mode(mode)).unwrap();
    };
    lock("locked", 0);
    lock("file", 0);
    let second = run(&state, &mirror);
    let printed = output_text(&second);
    assert_eq!(second.status.code(), Some(1), "{printed}");
    assert!(printed.contains("not copied: locked: "), "{printed}");
    assert!(printed.contains("not copied: file: "), "{printed}");
    assert!(to.join("locked/a").exists() && to.join("locked/old").exists(), "{printed}");
    assert_eq!(std::fs::read(to.join("file")).unwrap(), b"a", "the former copy stays");
    assert!(!to.join("open/old").exists(), "its directory was listed: {printed}");
    // Nothing at all is listed.
    lock("", 0);
    let third = run(&state, &mirror);
    lock("", 0o755);
    assert_ne!(third.status.code(), Some(0), "{}", output_text(&third));
    for name in ["locked/a", "locked/old", "open/a", "file"] {
        assert!(to.join(name).exists(), "{name}: {}", output_text(&third));
    }
    lock("locked", 0o755);
}

#[test]
fn access_lists_go_between_directories() {
    let folder = folder();
    let (root, state, to) =
        (folder.path().join("root"), folder.path().join("state"), folder.path().join("to"));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a"), "a").unwrap();
    std::fs::set_permissions(root.join("a"), Permissions::from_mode(0o640)).unwrap();
    let summary = copied(&state, &[root.to_str().unwrap(), to.to_str().unwrap(), "--all"], 1);
    assert_eq!(summary["failed"], 0, "{summary}");
    let mode = to.join("a").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
}

#[test]
fn mirror_to_share_removes_links_but_not_their_targets() {
    let both = SmbAndNfsServer::start(144);
    let folder = folder();
    let (root, state) = (folder.path().join("root"), folder.path().join("state"));
    for (name, link) in [("docs", "latest"), ("v1", "cur"), ("old/kept", "old/inner")] {
        std::fs::create_dir_all(root.join(name)).unwrap();
        for file in ["a", "b"] {
            std::fs::write(root.join(name).join(file), file).unwrap();
        }
        symlink(Path::new(name).file_name().unwrap(), root.join(link)).unwrap();
    }
    symlink("../docs", root.join("old/far")).unwrap();
    symlink("docs/a", root.join("file")).unwrap();
    let (there, url) = (both.server.data().join("to"), both.smb_url("to"));
    let mirror = [root.to_str().unwrap(), &url, "--links", "--mirror", "--delete", "--yes"];
    copied(&state, &mirror, 1);
    assert_eq!(std::fs::read_link(there.join("latest")).unwrap(), Path::new("docs"));
    // The links go, a directory takes a link's place, and a directory goes that holds links.
    std::fs::remove_file(root.join("latest")).unwrap();
    std::fs::remove_file(root.join("file")).unwrap();
    std::fs::remove_file(root.join("cur")).unwrap();
    std::fs::create_dir(root.join("cur")).unwrap();
    std::fs::write(root.join("cur/new"), "new").unwrap();
    std::fs::remove_dir_all(root.join("old")).unwrap();
    let output = run(&state, &mirror);
    let printed = output_text(&output);
    for name in ["docs/a", "docs/b", "v1/a", "v1/b"] {
        assert!(there.join(name).exists(), "{name}: {printed}");
    }
    for name in ["latest", "file", "old"] {
        assert!(there.join(name).symlink_metadata().is_err(), "{name}: {printed}");
    }
    assert!(!there.join("v1/new").exists(), "nothing is written through a link: {printed}");
    assert_eq!(std::fs::read_link(there.join("cur")).unwrap(), Path::new("v1"), "{printed}");
    assert!(printed.contains("cur: a directory on the source, a link on the target"), "{printed}");
}

#[test]
fn followed_links_into_the_target_are_refused() {
    let folder = folder();
    let (root, state, to) =
        (folder.path().join("root"), folder.path().join("state"), folder.path().join("all/to"));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a"), "a").unwrap();
    std::fs::create_dir_all(&to).unwrap();
    symlink("../all/to", root.join("into")).unwrap();
    symlink("../all", root.join("above")).unwrap();
    for _ in 0..2 {
        let output = run(&state, &[root.to_str().unwrap(), to.to_str().unwrap(), "-L"]);
        let printed = output_text(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        for name in ["into", "above"] {
            let why = format!("not copied: {name}: the link leads to the target, or to");
            assert!(printed.contains(&why), "{name}: {printed}");
            assert!(!to.join(name).exists(), "{name}: {printed}");
        }
        assert!(to.join("a").exists(), "{printed}");
    }
    // The same by the names on the command line.
    symlink(&root, folder.path().join("alias")).unwrap();
    let (alias, below) = (folder.path().join("alias"), root.join("below"));
    let output = run(&state, &[alias.to_str().unwrap(), below.to_str().unwrap(), "-L"]);
    let printed = output_text(&output);
    assert!(!below.exists() && printed.contains("the target is within the source"), "{printed}");
}

#[test]
fn access_lists_alone_keep_a_private_file_private() {
    let folder = folder();
    let (root, state, to) =
        (folder.path().join("root"), folder.path().join("state"), folder.path().join("to"));
    std::fs::create_dir_all(root.join("dir")).unwrap();
    std::fs::write(root.join("a"), "a").unwrap();
    std::fs::write(root.join("dir/b"), "b").unwrap();
    let modes = [("a", 0o600), ("dir/b", 0o644), ("dir", 0o750), ("", 0o711)];
    for (name, mode) in modes {
        std::fs::set_permissions(root.join(name), Permissions::from_mode(mode)).unwrap();
    }
    copied(&state, &[root.to_str().unwrap(), to.to_str().unwrap(), "--acls"], 1);
    for (name, mode) in modes {
        let found = to.join(name).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{name}");
    }
}
