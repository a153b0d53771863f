//! Reparse points.

use crate::harness::*;
use files::{Access, LinkOnPath, NewObject, OpenFile, OpenPlan, Reparse, Volume, VolumeOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::process::Command;
use std::sync::Arc;
use vfs::{FileKind, FsError, SpecialKind};
use vfs_local::LocalVfs;

/// A volume on which clients see links and follow them themselves.
fn serve_showing() -> ServedVolume {
    let mut served = serve();
    let vfs = Arc::new(LocalVfs::open_with(served.dir.path(), false).unwrap());
    served.volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
    served
}

fn itself(plan: OpenPlan) -> OpenPlan {
    OpenPlan { no_follow: true, ..plan }
}

fn turned(served: &ServedVolume, plan: OpenPlan, target: &str) -> Arc<OpenFile> {
    let open = served.try_open(itself(plan)).unwrap().open;
    now(served.files.set_symlink(&open, target.into())).unwrap();
    open
}

#[test]
fn client_symlink_is_symlink_on_disk() {
    let served = serve();
    let open = turned(&served, new_file("link"), "x/../a b");
    let on_disk = served.dir.path().join("link");
    assert_eq!(std::fs::read_link(&on_disk).unwrap().to_str(), Some("x/../a b"));
    assert_eq!(open.key().inode, std::fs::symlink_metadata(&on_disk).unwrap().ino());
    assert_eq!(served.files.reparse(&open), Ok(Reparse::Symlink(b"x/../a b".to_vec())));
    assert_eq!(served.files.attributes(&open).unwrap().kind, FileKind::Symlink);
    served.close(open);
    // As a directory, too; deletion removes the link.
    let delete_on_close = OpenPlan { delete_on_close: true, ..new_directory("dir") };
    let open = turned(&served, delete_on_close, "there");
    assert!(std::fs::read_link(served.dir.path().join("dir")).is_ok());
    served.close(open);
    let names: Vec<_> = std::fs::read_dir(served.dir.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn client_pipe_and_socket_are_special_files_on_disk() {
    let served = serve();
    for (at, kind) in [("pipe", SpecialKind::Fifo), ("socket", SpecialKind::Socket)] {
        let open = served.try_open(itself(new_file(at))).unwrap().open;
        now(served.files.set_special(&open, kind)).unwrap();
        let on_disk = std::fs::symlink_metadata(served.dir.path().join(at)).unwrap();
        let is_fifo = kind == SpecialKind::Fifo;
        assert_eq!(
            (on_disk.file_type().is_fifo(), on_disk.file_type().is_socket()),
            (is_fifo, !is_fifo)
        );
        assert_eq!(on_disk.ino(), open.key().inode);
        assert!(matches!(served.files.reparse(&open), Ok(Reparse::Special(_))));
        served.close(open);
        let again = served.try_open(itself(plan(at, ALL))).unwrap().open;
        assert!(matches!(served.files.reparse(&again), Ok(Reparse::Special(_))), "{at}");
        served.close(again);
    }
    let device = SpecialKind::Device(vfs::Device { is_block: false, major: 1, minor: 3 });
    let open = served.try_open(itself(new_file("device"))).unwrap().open;
    let refused = now(served.files.set_special(&open, device));
    assert_eq!(refused, Err(FsError::NotSupported), "it is stored, where no device may be");
    served.put("file", b"data");
    let open = served.try_open(itself(plan("file", ALL))).unwrap().open;
    let refused = now(served.files.set_special(&open, SpecialKind::Fifo));
    assert_eq!(refused, Err(FsError::NotSupported), "there is data in it");
}

#[test]
fn nonempty_file_does_not_become_link() {
    let served = serve();
    served.put("file", b"data");
    served.put_directory("d");
    served.put("d/e", b"");
    let link = |open: &Arc<OpenFile>| now(served.files.set_symlink(open, b"x".to_vec()));
    let open = served.try_open(itself(plan("file", ALL))).unwrap().open;
    assert_eq!(link(&open), Err(FsError::NotSupported), "there is data in it");
    let open = served.try_open(itself(plan("d", ALL))).unwrap().open;
    assert_eq!(link(&open), Err(FsError::NotEmpty));
    let open = served.try_open(itself(new_file("new"))).unwrap().open;
    let other = served.open("new", READ);
    assert_eq!(link(&open), Err(FsError::ShareViolation), "another open exists");
    assert_eq!(link(&other), Err(FsError::AccessDenied));
    served.close(other);
    assert_eq!(link(&open), Ok(()));
    assert_eq!(served.get("file").unwrap(), b"data");
}

#[test]
fn link_becomes_a_file_again() {
    let served = serve();
    symlink("nowhere", served.dir.path().join("link")).unwrap();
    if served.is_root {
        let id = served.alice.identity.uid;
        std::os::unix::fs::lchown(served.dir.path().join("link"), Some(id), None).unwrap();
    }
    let open = served.try_open(itself(plan("link", ALL))).unwrap().open;
    now(served.files.delete_reparse(&open)).unwrap();
    assert_eq!(served.get("link").unwrap(), b"");
    assert_eq!(served.files.reparse(&open), Err(FsError::NotFound));
}

#[test]
fn path_stops_at_each_link_for_following_clients() {
    let served = serve_showing();
    served.put_directory("real");
    served.put("real/file", b"data");
    symlink("real", served.dir.path().join("link")).unwrap();
    symlink("/etc/passwd", served.dir.path().join("real/out")).unwrap();
    for at in ["link", "LINK", "link/file", "LINK/File", "link/none", "real/out"] {
        assert_eq!(served.refusal(plan(at, LOOK)), FsError::SymlinkMet, "{at}");
    }
    assert_eq!(served.refusal(new_file("link/new")), FsError::SymlinkMet);
    let met = |at| now(served.files.first_link(&served.volume, &served.alice, path(at)));
    let link = |target: &str, rest| Some(LinkOnPath { target: target.into(), rest: path(rest) });
    assert_eq!(met("Link/File/deep"), Ok(link("real", "File/deep")));
    assert_eq!(met("real/out"), Ok(link("/etc/passwd", "")));
    assert_eq!(met("real/file"), Ok(None));
    let open = served.try_open(itself(plan("link", LOOK))).unwrap().open;
    assert_eq!(served.files.reparse(&open), Ok(Reparse::Symlink(b"real".to_vec())));
    let listed = |at: &str, child| {
        let directory = served.open(at, READ);
        served.files.child_attributes(&directory, &name(child)).unwrap().kind
    };
    assert_eq!(listed("", "link"), FileKind::Symlink);
}

#[test]
fn link_to_directory_has_directory_attribute() {
    let served = serve_showing();
    served.put_directory("real");
    served.put_directory("real/sub");
    served.put("real/file", b"data");
    let link = |target: &str, at: &str| symlink(target, served.dir.path().join(at)).unwrap();
    link("real", "link");
    link("../link", "real/again");
    link("./real//sub/..", "around");
    link("real/file", "to-file");
    link("..", "out");
    link("/", "absolute");
    link("round", "round");
    link("nowhere", "dangling");
    let is_directory = |at: &str, child: &str| {
        let directory = served.open(at, READ);
        let listed = served.files.child_attributes(&directory, &name(child)).unwrap();
        let at = if at.is_empty() { child.to_owned() } else { format!("{at}/{child}") };
        let opened = served.try_open(itself(plan(&at, LOOK))).unwrap();
        let bit = |attributes: vfs::Attributes| {
            assert_eq!(attributes.kind, FileKind::Symlink);
            attributes.dos.bits.unwrap_or(0) & files::dos::DIRECTORY != 0
        };
        let asked = served.files.attributes(&opened.open).unwrap();
        assert_eq!((bit(listed), bit(asked)), (bit(opened.attributes), bit(opened.attributes)));
        bit(listed)
    };
    for (at, child) in [("", "link"), ("real", "again"), ("", "around")] {
        assert!(is_directory(at, child), "{child}");
    }
    for child in ["to-file", "out", "absolute", "round", "dangling"] {
        assert!(!is_directory("", child), "{child}");
    }
}

#[test]
fn listing_shows_link_targets_where_followed() {
    let served = serve();
    served.put_directory("real");
    symlink("real", served.dir.path().join("link")).unwrap();
    symlink("/etc", served.dir.path().join("out")).unwrap();
    let directory = served.open("", READ);
    let listed = |child| served.files.child_attributes(&directory, &name(child)).unwrap();
    assert_eq!(listed("link").key, listed("real").key);
    assert_eq!(listed("out").kind, FileKind::Symlink, "it can be seen and deleted");
}

#[test]
fn stored_reparse_point_is_opened_only_as_such() {
    let served = serve();
    let open = served.try_open(itself(new_file("f"))).unwrap().open;
    let data = b"\x14\0\0\x80\x08\0\0\0FIFO\0\0\0\0".to_vec();
    now(served.files.set_reparse(&open, data.clone(), None)).unwrap();
    served.close(open);
    assert_eq!(served.refusal(plan("f", READ)), FsError::ReparsePoint);
    served.set_mode("f", 0o200);
    assert_eq!(
        served.refusal(plan("f", WRITE)),
        FsError::ReparsePoint,
        "also without read permission"
    );
    served.set_mode("f", 0o644);
    let open = served.try_open(itself(plan("f", ALL))).unwrap().open;
    assert_eq!(served.files.reparse(&open), Ok(Reparse::Stored(data)));
    now(served.files.delete_reparse(&open)).unwrap();
    served.close(open);
    assert_eq!(served.files.reparse(&served.open("f", LOOK)), Err(FsError::NotFound));
}

#[test]
fn local_pipes_are_listed_and_not_opened() {
    let served = serve();
    let at = served.dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&at).status().unwrap().success());
    assert!(at.metadata().unwrap().file_type().is_fifo());
    assert_eq!(served.refusal(plan("pipe", READ)), FsError::ReparsePoint);
    assert!(served.try_open(plan("pipe", LOOK)).is_ok(), "looking is free");
    let open = served.try_open(itself(plan("pipe", LOOK))).unwrap().open;
    let found = served.files.reparse(&open);
    assert!(matches!(found, Ok(Reparse::Special(ref a)) if a.kind == FileKind::Fifo), "{found:?}");
}

/// Link texts that lead out of the root, and one that does not.
const OUTWARD: [&str; 4] = ["/etc/passwd", "..", "../x", "a/../../x"];
const INWARD: &str = "a/../x";

#[test]
fn outbound_link_is_stored_only_with_absolute_links() {
    for absolute_links in [false, true] {
        let options = VolumeOptions { absolute_links, ..VolumeOptions::default() };
        let served = serve_with(options, Arc::new(Inline));
        let expected = |text: &str| match absolute_links || text == INWARD {
            true => Ok(()),
            false => Err(FsError::PrivilegeNotHeld),
        };
        for (at, text) in OUTWARD.iter().chain([&INWARD]).enumerate() {
            let made = format!("made {at}");
            let (on_disk, made) = (served.dir.path().join(&made), name(&made));
            let new = NewObject::Symlink { target: text.as_bytes().to_vec() };
            let made = now(served.files.create_object(&served.alice, &served.root(), &made, new));
            assert_eq!(made.map(drop), expected(text), "{text}");
            assert_eq!(on_disk.is_symlink(), expected(text).is_ok());

            let open = served.try_open(itself(new_file(&format!("turned {at}")))).unwrap().open;
            let turned = now(served.files.set_symlink(&open, text.as_bytes().to_vec()));
            assert_eq!(turned, expected(text), "{text}");

            let open = served.try_open(itself(new_file(&format!("stored {at}")))).unwrap().open;
            let link = Some(text.as_bytes());
            let stored = now(served.files.set_reparse(&open, b"any data".to_vec(), link));
            assert_eq!(stored, expected(text), "{text}");
        }
    }
}

/// Renamed and hard-linked over NFS and SMB: the target is relative to the new name.
#[test]
fn link_is_not_renamed_to_lead_out() {
    for absolute_links in [false, true] {
        let options = VolumeOptions { absolute_links, ..VolumeOptions::default() };
        let served = serve_with(options, Arc::new(Inline));
        let expected = match absolute_links {
            true => Ok(()),
            false => Err(FsError::PrivilegeNotHeld),
        };
        served.put_directory("d");
        let (root, directory) = (served.root(), served.object("d").unwrap());
        let make = |called: &str| {
            let new = NewObject::Symlink { target: b"../x".to_vec() };
            now(served.files.create_object(&served.alice, &directory, &name(called), new)).unwrap()
        };
        let rename = |from: &str, to: (&files::Object, &str)| {
            let (from, to) = ((&directory, &name(from)), (to.0, &name(to.1)));
            now(served.files.rename_object(&served.alice, from, to))
        };
        let link = make("a");
        let linked = now(served.files.link_object(&served.alice, &link, &root, &name("linked")));
        assert_eq!(linked, expected);
        assert_eq!(rename("a", (&root, "renamed")), expected);
        make("b");
        let open = served.try_open(itself(plan("d/b", Access::FILE_ALL))).unwrap().open;
        assert_eq!(now(served.files.link(&open, &path("linked by smb"), false)), expected);
        assert_eq!(now(served.files.rename(&open, &path("renamed by smb"), false)), expected);
        make("c");
        assert_eq!(rename("c", (&directory, "e")), Ok(()), "within the share");
        for called in ["linked", "renamed", "linked by smb", "renamed by smb"] {
            assert_eq!(served.dir.path().join(called).is_symlink(), absolute_links, "{called}");
        }
    }
}

#[test]
fn link_that_leads_out_already_is_renamed() {
    let served = serve();
    symlink("/etc/passwd", served.dir.path().join("l")).unwrap();
    let (root, from, to) = (served.root(), name("l"), name("m"));
    let renamed = served.files.rename_object(&served.alice, (&root, &from), (&root, &to));
    assert_eq!(now(renamed), Ok(()));
}

#[test]
fn link_out_of_the_share_that_exists_is_shown() {
    let served = serve_showing();
    symlink("/etc/passwd", served.dir.path().join("link")).unwrap();
    let open = served.try_open(itself(plan("link", LOOK))).unwrap().open;
    assert_eq!(served.files.reparse(&open), Ok(Reparse::Symlink(b"/etc/passwd".to_vec())));
}
