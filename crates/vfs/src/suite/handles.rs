//! Tests of persistent handles.

use super::*;
use crate::{FsError, NodeHandle, Replace, SpecialKind};

const LOOK: OpenHow = OpenHow { read: false, write: false, no_follow: true, ..HOW };

/// The node's handle; none if the backend has none.
fn handle(vfs: &dyn Vfs, at: &str) -> Option<NodeHandle> {
    let found = vfs.open(root(), &path(at), LOOK).unwrap();
    Some(vfs.handles()?.handle(root(), &*found.node).unwrap())
}

fn found_at(vfs: &dyn Vfs, handle: &NodeHandle) -> Result<RelPath> {
    vfs.handles().unwrap().find(root(), handle, AttributeRequest::default()).map(|found| {
        assert!(found.is_certain);
        assert_eq!(found.node.key(), found.attributes.key);
        found.path
    })
}

pub fn handle_finds_its_node_after_renames(vfs: &dyn Vfs) {
    directory(vfs, "d");
    file(vfs, "d/f", b"x");
    vfs.symlink(root(), &path("d/l"), b"f").unwrap();
    let Some(root_handle) = handle(vfs, "") else { return };
    let handles = ["d", "d/f", "d/l"].map(|at| handle(vfs, at).unwrap());
    assert_eq!(found_at(vfs, &root_handle), Ok(RelPath::root()));
    for (handle, at) in handles.iter().zip(["d", "d/f", "d/l"]) {
        assert_eq!(found_at(vfs, handle), Ok(path(at)));
    }
    vfs.rename(root(), &path("d"), &path("e"), Replace::Never).unwrap();
    vfs.rename(root(), &path("e/f"), &path("g"), Replace::Never).unwrap();
    for (known, at) in handles.iter().zip(["e", "g", "e/l"]) {
        assert_eq!(found_at(vfs, known), Ok(path(at)));
        assert_eq!(handle(vfs, at).as_ref(), Some(known), "it keeps its handle");
        let node =
            vfs.handles().unwrap().find(root(), known, AttributeRequest::default()).unwrap().node;
        assert_eq!(vfs.handles().unwrap().path_of(root(), &*node), Ok(path(at)));
    }
    let node =
        vfs.handles().unwrap().find(root(), &handles[0], AttributeRequest::default()).unwrap().node;
    vfs.rename(root(), &path("e"), &path("elsewhere"), Replace::Never).unwrap();
    assert_eq!(
        vfs.handles().unwrap().path_of(root(), &*node),
        Ok(path("elsewhere")),
        "it is open and has moved"
    );
}

pub fn handle_of_deleted_node_is_stale(vfs: &dyn Vfs) {
    for (at, kind) in [("f", FileKind::File), ("d", FileKind::Directory)] {
        let key = make(vfs, at, kind).unwrap().node.key();
        let Some(handle) = handle(vfs, at) else { return };
        vfs.remove(root(), &path(at), key).unwrap();
        assert_eq!(found_at(vfs, &handle), Err(FsError::Stale));
        make(vfs, at, kind).unwrap();
        assert_eq!(found_at(vfs, &handle), Err(FsError::Stale), "another one has its name");
    }
}

pub fn malformed_handle_is_refused(vfs: &dyn Vfs) {
    file(vfs, "f", b"x");
    let Some(good) = handle(vfs, "f") else { return };
    let good = good.as_bytes();
    assert_eq!(NodeHandle::new([]), Err(FsError::InvalidParameter));
    assert_eq!(NodeHandle::new([0; NodeHandle::BYTES_MAX + 1]), Err(FsError::InvalidParameter));
    for at in 0..good.len() {
        let mut bytes = good.to_vec();
        for flip in [1, 0x80, 0xFF] {
            bytes[at] = good[at] ^ flip;
            // The bytes may happen to be the handle of another node of the tree, but of no node
            // outside.
            if let Ok(found) = vfs.handles().unwrap().find(
                root(),
                &NodeHandle::new(&*bytes).unwrap(),
                AttributeRequest::default(),
            ) {
                assert!(["", "f"].map(path).contains(&found.path), "{found:?} by {bytes:?}");
            }
        }
        if at > 0 {
            let cut = NodeHandle::new(&good[..at]).unwrap();
            assert!(
                vfs.handles().unwrap().find(root(), &cut, AttributeRequest::default()).is_err(),
                "{at} bytes"
            );
        }
    }
}

pub fn listed_entry_has_the_handle_of_its_node(vfs: &dyn Vfs) {
    directory(vfs, "d");
    directory(vfs, "d/d");
    file(vfs, "d/f", b"");
    vfs.symlink(root(), &path("d/l"), b"nowhere").unwrap();
    let parent = vfs.open(root(), &path("d"), LOOK).unwrap().node;
    for child in ["d", "f", "l"] {
        let Some(own) = handle(vfs, &format!("d/{child}")) else { return };
        let known =
            parent.child_attributes(root(), &name(child), AttributeRequest::default()).unwrap();
        assert_eq!(
            vfs.handles().unwrap().child_handle(root(), &*parent, &name(child), &known),
            Ok(own)
        );
    }
}

pub fn open_node_needs_no_path(vfs: &dyn Vfs) {
    file(vfs, "f", b"before");
    let node = vfs.open(root(), &path("f"), LOOK).unwrap().node;
    let both = OpenHow { no_follow: true, ..HOW };
    let Ok(first) = vfs.open_node(root(), &*node, both) else { return };
    vfs.rename(root(), &path("f"), &path("g"), Replace::Never).unwrap();
    file(vfs, "f", b"another");
    let opened = vfs.open_node(root(), &*node, both).unwrap();
    assert_eq!(content(&*opened.node), b"before");
    opened.node.write(root(), 0, b"after!").unwrap();
    assert_eq!(content(&*first.node), b"after!");
    vfs.remove(root(), &path("g"), node.key()).unwrap();
    let opened = vfs.open_node(root(), &*node, both).unwrap();
    assert_eq!((content(&*opened.node), opened.attributes.links), (b"after!".to_vec(), 0));
    directory(vfs, "d");
    let directory = vfs.open(root(), &path("d"), LOOK).unwrap().node;
    let listed = vfs.open_node(root(), &*directory, both).unwrap();
    assert_eq!(listed.node.is_empty(), Ok(true));
}

pub fn special_nodes_report_their_kind(vfs: &dyn Vfs) {
    let make = |at, kind| vfs.create_special(root(), &path(at), kind, CreationMode::exactly(0o640));
    let fifo = match make("fifo", SpecialKind::Fifo) {
        Err(FsError::NotSupported) => return,
        other => other.unwrap(),
    };
    assert_eq!((fifo.attributes.kind, fifo.attributes.mode), (FileKind::Fifo, 0o640));
    assert_eq!(make("fifo", SpecialKind::Socket).unwrap_err(), FsError::AlreadyExists);
    let socket = make("socket", SpecialKind::Socket).unwrap();
    assert_eq!(socket.attributes.kind, FileKind::Socket);
    // The whiteout of overlayfs: it is no device, so every user may create it.
    let device = crate::Device { is_block: false, major: 0, minor: 0 };
    match make("device", SpecialKind::Device(device)) {
        Err(FsError::AccessDenied) => {}
        other => assert_eq!(other.unwrap().attributes.device, Some(device)),
    }
}

pub fn posix_rename_replaces_an_empty_directory(vfs: &dyn Vfs) {
    directory(vfs, "a");
    directory(vfs, "b");
    file(vfs, "f", b"");
    let rename = |from, to| vfs.rename(root(), &path(from), &path(to), Replace::Any);
    assert_eq!(rename("a", "f"), Err(FsError::NotDirectory));
    assert_eq!(rename("f", "a"), Err(FsError::IsDirectory));
    file(vfs, "a/x", b"");
    assert_eq!(rename("b", "a"), Err(FsError::NotEmpty));
    assert_eq!(rename("a", "b"), Ok(()));
    assert_eq!(content_at(vfs, "b/x").unwrap(), b"");
    file(vfs, "g", b"g");
    assert_eq!(rename("g", "f"), Ok(()));
    assert_eq!(content_at(vfs, "f").unwrap(), b"g");
}

pub fn verifier_of_creator_reads_back(vfs: &dyn Vfs) {
    if !vfs.features().xattrs {
        return;
    }
    let node = file(vfs, "f", b"");
    assert_eq!(node.exclusive_creation().unwrap().verifier(root()), Err(FsError::NotFound));
    node.exclusive_creation().unwrap().set_verifier(root(), *b"verifier").unwrap();
    drop(node);
    let node = vfs.open(root(), &path("f"), LOOK).unwrap().node;
    assert_eq!(node.exclusive_creation().unwrap().verifier(root()), Ok(*b"verifier"));
    assert_eq!(
        node.need_xattrs().unwrap().xattr_names(root()).unwrap(),
        [],
        "it is not the user's"
    );
}

pub fn every_change_has_a_new_change_attribute(vfs: &dyn Vfs) {
    let node = file(vfs, "f", b"");
    let change = || node.attributes(AttributeRequest::default()).unwrap().change;
    let mut before = change();
    let mut must_differ = |what: &str| {
        let now = change();
        assert_ne!(now, before, "{what}");
        before = now;
    };
    node.write(root(), 0, b"x").unwrap();
    must_differ("written");
    let mode = crate::AttributeChanges { mode: Some(0o600), ..Default::default() };
    node.set_attributes(root(), &mode).unwrap();
    must_differ("another mode");
    vfs.link(root(), &*node, &path("g"), Replace::Never).unwrap();
    must_differ("another name");
}

/// A path of 6,000 bytes: one system call takes 4,095.
pub fn path_longer_than_path_max_is_resolved(vfs: &dyn Vfs) {
    const LEVELS: usize = 30;
    let names = |count| [vec!["top".to_owned()], vec!["n".repeat(200); count]].concat();
    let at = |count| names(count).join("/");
    let nodes: Vec<_> = (0..=LEVELS).map(|count| directory(vfs, &at(count))).collect();
    let bottom = at(LEVELS);
    let node = file(vfs, &format!("{bottom}/file"), b"content");
    vfs.symlink(root(), &path(&format!("{bottom}/link")), b"file").unwrap();
    vfs.link(root(), &*node, &path(&format!("{bottom}/second")), Replace::Never).unwrap();
    assert_eq!(content_at(vfs, &format!("{bottom}/link")).unwrap(), b"content");
    for count in [18, 19, 20, 21, LEVELS] {
        let found = vfs.open(root(), &path(&at(count)), LOOK).unwrap().node;
        assert_eq!(found.key(), nodes[count].key());
        let Some(handles) = vfs.handles() else { continue };
        assert_eq!(handles.path_of(root(), &*found), Ok(path(&at(count))));
        let handle = handle(vfs, &at(count)).unwrap();
        assert_eq!(found_at(vfs, &handle), Ok(path(&at(count))), "level {count}");
    }
    vfs.rename(root(), &path("top"), &path("other"), Replace::Never).unwrap();
    let bottom = bottom.replacen("top", "other", 1);
    if let Some(handles) = vfs.handles() {
        let moved = handles.path_of(root(), &*nodes[LEVELS]);
        assert_eq!(moved, Ok(path(&bottom)), "by none of the paths that it was opened by");
    }
    let (from, to) = (format!("{bottom}/file"), format!("{bottom}/renamed"));
    vfs.rename(root(), &path(&from), &path(&to), Replace::Never).unwrap();
    let mut listed = Vec::new();
    let list = open(vfs, &bottom).unwrap().node;
    list.readdir(0, &mut |entry| {
        listed.push(String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
        true
    })
    .unwrap();
    listed.sort_unstable();
    assert_eq!(listed.iter().filter(|name| !name.starts_with('.')).count(), 3, "{listed:?}");
    for name in ["renamed", "link", "second"] {
        let at = path(&format!("{bottom}/{name}"));
        let key = vfs.open(root(), &at, LOOK).unwrap().node.key();
        vfs.remove(root(), &at, key).unwrap();
    }
    for count in (0..=LEVELS).rev() {
        let at = path(&at(count).replacen("top", "other", 1));
        vfs.remove(root(), &at, nodes[count].key()).unwrap();
    }
}
