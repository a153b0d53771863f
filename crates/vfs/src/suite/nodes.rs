//! Tests of attributes and other metadata.

use super::*;
use crate::{
    AttributeChanges, DosInfo, FsError, OwnerChange, PosixAcl, SecurityChange, TimeChange,
    Timestamp,
};

fn change(node: &dyn Node, changes: AttributeChanges) -> Result<()> {
    node.set_attributes(root(), &changes)
}

pub fn attributes_read_back_as_set(vfs: &dyn Vfs) {
    directory(vfs, "d");
    file(vfs, "d/f", b"x");
    let (accessed, modified) = (Timestamp(1_000_000_000_000_000_000), Timestamp(-1_000_000_000));
    for at in ["d", "d/f"] {
        // A handle without access to data suffices.
        let how = OpenHow { read: false, write: false, ..HOW };
        let node = vfs.open(root(), &path(at), how).unwrap().node;
        let (set_accessed, set_modified) = (TimeChange::Set(accessed), TimeChange::Set(modified));
        let changes = AttributeChanges {
            mode: Some(0o750),
            accessed: set_accessed,
            modified: set_modified,
            ..Default::default()
        };
        change(&*node, changes).unwrap();
        let now = open(vfs, at).unwrap().attributes;
        assert_eq!((now.mode, now.accessed, now.modified), (0o750, accessed, modified));
        let changes = AttributeChanges { modified: TimeChange::Now, ..Default::default() };
        change(&*node, changes).unwrap();
        let now = open(vfs, at).unwrap().attributes;
        assert!(now.modified > accessed);
        assert_eq!((now.mode, now.accessed), (0o750, accessed));
    }
}

pub fn dos_attributes_are_merged(vfs: &dyn Vfs) {
    if !vfs.features().xattrs {
        return;
    }
    let created = Some(Timestamp(1_500_000_000_000_000_000));
    let dos = Some(DosInfo { bits: Some(0x22), created: None });
    let how = CreateHow {
        kind: FileKind::File,
        mode: CreationMode::exactly(0o644),
        dos,
        wanted: AttributeRequest { dos: Some(crate::ServerWork::Metadata) },
        initialiser: None,
    };
    let made = vfs.create(root(), &path("a"), Case::Sensitive, how).unwrap();
    assert_eq!(Some(made.attributes.dos), dos);
    let set = |dos| change(&*made.node, AttributeChanges { dos: Some(dos), ..Default::default() });
    set(DosInfo { bits: None, created }).unwrap();
    let now = || {
        made.node
            .attributes(AttributeRequest { dos: Some(crate::ServerWork::Metadata) })
            .unwrap()
            .dos
    };
    assert_eq!(now(), DosInfo { bits: Some(0x22), created });
    set(DosInfo { bits: Some(1), created: None }).unwrap();
    assert_eq!(now(), DosInfo { bits: Some(1), created });
    let unwanted = made.node.attributes(AttributeRequest::default()).unwrap().dos;
    assert_eq!(unwanted, DosInfo::default());
    let parent = open(vfs, "").unwrap().node;
    let child = parent
        .child_attributes(
            root(),
            &name("a"),
            AttributeRequest { dos: Some(crate::ServerWork::Metadata) },
        )
        .unwrap();
    assert_eq!(child.dos, now());
    assert_eq!(
        made.node.need_xattrs().unwrap().xattr_names(root()).unwrap(),
        [],
        "they are not the user's"
    );
}

pub fn set_change_time_holds_until_the_next_change(vfs: &dyn Vfs) {
    if !vfs.features().xattrs {
        return;
    }
    directory(vfs, "d");
    file(vfs, "d/f", b"x");
    let set = Timestamp(1_000_000_000_123_456_700);
    for at in ["d", "d/f"] {
        let how = OpenHow { read: false, write: false, ..HOW };
        let node = vfs.open(root(), &path(at), how).unwrap().node;
        let (created, bits) = (Some(Timestamp(1_500_000_000_000_000_000)), Some(0x22));
        let changes = AttributeChanges {
            dos: Some(DosInfo { bits, created }),
            changed: Some(set),
            ..Default::default()
        };
        change(&*node, changes).unwrap();
        let shown = || open(vfs, at).unwrap().attributes;
        assert_eq!((shown().set_changed, shown().shown_changed()), (Some(set), set), "{at}");
        assert_eq!(shown().dos, DosInfo { bits, created });
        assert_ne!(shown().changed, set, "the tree's own is not the client's");
        if at == "d/f" {
            let parent = open(vfs, "d").unwrap().node;
            let wanted = AttributeRequest { dos: Some(crate::ServerWork::Metadata) };
            let child = parent.child_attributes(root(), &name("f"), wanted).unwrap();
            assert_eq!(child.set_changed, Some(set));
        }
        let unwanted = node.attributes(AttributeRequest::default()).unwrap();
        assert_eq!(unwanted.set_changed, None);
        // A change within the same tick of the file system's clock is not detected.
        std::thread::sleep(std::time::Duration::from_millis(25));
        change(&*node, AttributeChanges { mode: Some(0o700), ..Default::default() }).unwrap();
        assert_eq!((shown().set_changed, shown().dos), (None, DosInfo { bits, created }), "{at}");
    }
}

pub fn xattrs_are_stored_listed_and_removed(vfs: &dyn Vfs) {
    if !vfs.features().xattrs {
        return;
    }
    file(vfs, "a", b"");
    directory(vfs, "d");
    for at in ["a", "d"] {
        let node = open(vfs, at).unwrap().node;
        assert_eq!(
            node.need_xattrs().unwrap().xattr(root(), &xattr_name("one")),
            Err(FsError::NotFound)
        );
        node.need_xattrs().unwrap().set_xattr(root(), &xattr_name("one"), Some(b"1")).unwrap();
        node.need_xattrs()
            .unwrap()
            .set_xattr(root(), &xattr_name("two"), Some(&[0xFF; 600]))
            .unwrap();
        node.need_xattrs().unwrap().set_xattr(root(), &xattr_name("one"), Some(b"11")).unwrap();
        let mut names = node.need_xattrs().unwrap().xattr_names(root()).unwrap();
        names.sort();
        assert_eq!(names, [xattr_name("one"), xattr_name("two")]);
        assert_eq!(node.need_xattrs().unwrap().xattr(root(), &xattr_name("one")).unwrap(), b"11");
        assert_eq!(
            node.need_xattrs().unwrap().xattr(root(), &xattr_name("two")).unwrap(),
            [0xFF; 600]
        );
        let mut lengths =
            open(vfs, "").unwrap().node.need_xattrs().unwrap().child_xattrs(root(), &name(at));
        lengths.sort();
        assert_eq!(lengths, [(xattr_name("one"), 2), (xattr_name("two"), 600)]);
        node.need_xattrs().unwrap().set_xattr(root(), &xattr_name("one"), None).unwrap();
        assert_eq!(
            node.need_xattrs().unwrap().set_xattr(root(), &xattr_name("one"), None),
            Ok(()),
            "it is gone already"
        );
        assert_eq!(node.need_xattrs().unwrap().xattr_names(root()).unwrap(), [xattr_name("two")]);
    }
}

pub fn xattr_takes_any_name_that_linux_takes(vfs: &dyn Vfs) {
    if !vfs.features().xattrs {
        return;
    }
    let node = file(vfs, "a", b"");
    let long = [b'n'; XattrName::LENGTH_MAX];
    let names: [&[u8]; 7] = [b"a/b", b"/", b".", b"..", b"not \xFF UTF-8", b"new\nline", &long];
    let mut names = names.map(|name| XattrName::new(name).unwrap());
    for name in &names {
        node.need_xattrs().unwrap().set_xattr(root(), name, Some(name.as_bytes())).unwrap();
    }
    for name in &names {
        assert_eq!(node.need_xattrs().unwrap().xattr(root(), name).unwrap(), name.as_bytes());
    }
    let mut listed = node.need_xattrs().unwrap().xattr_names(root()).unwrap();
    listed.sort();
    names.sort();
    assert_eq!(listed, names);
    for name in &names {
        node.need_xattrs().unwrap().set_xattr(root(), name, None).unwrap();
    }
    assert_eq!(node.need_xattrs().unwrap().xattr_names(root()).unwrap(), []);
    let longer = [b'n'; XattrName::LENGTH_MAX + 1];
    assert_eq!(XattrName::new(longer), Err(FsError::NameTooLong));
    for bad in [&b""[..], b"a\0b"] {
        assert_eq!(XattrName::new(bad), Err(FsError::InvalidName));
    }
}

// The header of a self-relative descriptor, and a tail that only its owner interprets.
const DESCRIPTOR: [u8; 23] =
    [1, 0, 4, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 9, 9, 9];

fn store(node: &dyn Node, permissions: Option<&PosixAcl>) -> Result<()> {
    let descriptor = Some(&DESCRIPTOR[..]);
    node.set_security(root(), &SecurityChange { descriptor, permissions, ..Default::default() })
}

pub fn descriptor_reads_back_unchanged(vfs: &dyn Vfs) {
    for node in [file(vfs, "a", b""), directory(vfs, "d")] {
        assert_eq!(node.security_descriptor().unwrap(), None);
        match store(&*node, None) {
            Err(FsError::NotSupported) => return,
            other => other.unwrap(),
        }
        assert_eq!(node.security_descriptor().unwrap().as_deref(), Some(&DESCRIPTOR[..]));
        node.set_security(root(), &SecurityChange::default()).unwrap();
        assert_eq!(node.security_descriptor().unwrap(), None);
    }
}

pub fn descriptor_is_void_after_a_change_of_permissions(vfs: &dyn Vfs) {
    for node in [file(vfs, "a", b""), directory(vfs, "d")] {
        let permissions = PosixAcl { owner: 7, group: 4, others: 1, ..PosixAcl::default() };
        if store(&*node, Some(&permissions)) == Err(FsError::NotSupported) {
            return;
        }
        let mode = |node: &dyn Node| node.attributes(AttributeRequest::default()).unwrap().mode;
        assert_eq!(mode(&*node), 0o741, "local users see what it grants");
        assert!(node.security_descriptor().unwrap().is_some());
        change(&*node, AttributeChanges { mode: Some(0o740), ..Default::default() }).unwrap();
        assert_eq!(node.security_descriptor().unwrap(), None, "the mode was changed");
        change(&*node, AttributeChanges { mode: Some(0o741), ..Default::default() }).unwrap();
        assert!(node.security_descriptor().unwrap().is_some(), "it is what it was");
    }
}

pub fn user_access_follows_the_mode(vfs: &dyn Vfs) {
    const USER: u32 = 54_321;
    let user = Identity { uid: USER, gid: USER, groups: vec![54_322] };
    let top = open(vfs, "").unwrap().node;
    change(&*top, AttributeChanges { mode: Some(0o1777), ..Default::default() }).unwrap();
    let how = CreateHow::plain(FileKind::File, 0o640);
    let own = vfs.create(user.actor(), &path("own"), Case::Sensitive, how).unwrap();
    if own.attributes.uid != USER {
        return; // The process may not act as others.
    }
    let theirs = file(vfs, "theirs", b"x");
    let as_user = |at, read, write| {
        vfs.open(user.actor(), &path(at), OpenHow { read, write, ..HOW }).map(|opened| opened.node)
    };
    let mode = |mode| change(&*theirs, AttributeChanges { mode: Some(mode), ..Default::default() });
    mode(0o600).unwrap();
    assert_eq!(as_user("theirs", true, false).unwrap_err(), FsError::AccessDenied);
    assert!(as_user("theirs", false, false).is_ok(), "looking needs no right");
    mode(0o604).unwrap();
    assert_eq!(as_user("theirs", true, true).unwrap_err(), FsError::AccessDenied);
    let reads = as_user("theirs", true, false).unwrap();
    let changes = AttributeChanges { mode: Some(0o777), ..Default::default() };
    assert_eq!(reads.set_attributes(user.actor(), &changes), Err(FsError::AccessDenied));
    mode(0o602).unwrap();
    assert_eq!(as_user("theirs", true, true).unwrap_err(), FsError::AccessDenied);
    assert_eq!(as_user("theirs", false, true).unwrap().write(root(), 0, b"y"), Ok(()));
    let only_writes = OpenHow { read: false, write: true, ..HOW };
    match vfs.open_node(user.actor(), &*theirs, only_writes) {
        Err(FsError::NotSupported) => {}
        anew => assert_eq!(anew.unwrap().node.write(root(), 0, b"z"), Ok(())),
    }
    let owner = OwnerChange { uid: None, gid: Some(54_322) };
    change(&*theirs, AttributeChanges { owner, ..Default::default() }).unwrap();
    mode(0o660).unwrap();
    assert!(as_user("theirs", true, true).is_ok(), "by a group");
    let key = theirs.key();
    assert_eq!(
        vfs.remove(user.actor(), &path("theirs"), key),
        Err(FsError::AccessDenied),
        "sticky"
    );
    assert_eq!(vfs.remove(user.actor(), &path("own"), own.node.key()), Ok(()));
    directory(vfs, "closed");
    file(vfs, "closed/x", b"");
    assert!(as_user("closed/x", true, false).is_ok());
    assert_eq!(
        vfs.create(user.actor(), &path("closed/y"), Case::Sensitive, how).unwrap_err(),
        FsError::AccessDenied
    );
    let closed = open(vfs, "closed").unwrap().node;
    change(&*closed, AttributeChanges { mode: Some(0o700), ..Default::default() }).unwrap();
    assert_eq!(as_user("closed/x", true, false).unwrap_err(), FsError::AccessDenied);
}
