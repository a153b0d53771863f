//! Hidden and vetoed names, and access-based listings.

use crate::harness::*;
use files::{
    BasicChange, IfExists, IfMissing, NamePatterns, NewObject, OpenPlan, VolumeOptions,
    WatchAnswer, WatchWish, dos,
};
use futures_util::FutureExt;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use vfs::{Case, FsError};

fn patterns(of: &[&str]) -> NamePatterns {
    NamePatterns::new(of.iter().copied(), Case::Insensitive)
}

fn serve_names(hidden: &[&str], veto: &[&str], hide_unreadable: bool) -> ServedVolume {
    let options = VolumeOptions {
        hidden_names: patterns(hidden),
        veto_names: patterns(veto),
        hide_unreadable,
        ..VolumeOptions::default()
    };
    serve_with(options, Arc::new(Inline))
}

impl ServedVolume {
    /// Names in a listing by `alice`.
    fn listed(&self, at: &str) -> Vec<String> {
        let open = self.open(at, READ);
        let mut names = Vec::new();
        let ended = self.files.readdir(&open, 0, &mut |entry| {
            names.push(entry.name);
            true
        });
        assert!(ended.unwrap());
        names.retain(|name| match self.files.child_attributes(&open, name) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error, FsError::NotFound);
                false
            }
        });
        let mut names: Vec<String> =
            names.iter().map(|n| String::from_utf8_lossy(n.as_bytes()).into_owned()).collect();
        names.sort();
        names
    }
}

#[test]
fn hidden_names_have_attribute_and_can_be_replaced() {
    let served = serve_names(&[".*", "*.Log"], &[], false);
    let made = served.try_open(new_file("Some.LOG")).unwrap();
    let is_hidden = |attributes: &vfs::Attributes| {
        attributes.dos.bits.is_some_and(|bits| bits & dos::HIDDEN != 0)
    };
    assert!(is_hidden(&made.attributes), "by the creating open");
    assert!(is_hidden(&served.files.attributes(&made.open).unwrap()), "by a query");
    served.close(made.open);
    let root = served.open("", READ);
    let attributes = served.files.child_attributes(&root, &name("Some.LOG")).unwrap();
    assert_eq!(attributes.dos.bits, Some(dos::ARCHIVE | dos::HIDDEN), "by a listing");
    // The attribute is implied, so an overwrite need not repeat it.
    let over =
        OpenPlan { if_exists: IfExists::Overwrite, dos_bits: dos::NORMAL, ..plan("some.log", ALL) };
    served.close(served.try_open(over).unwrap().open);
    served.put_directory(".cache");
    assert!(is_hidden(&served.files.attributes(&served.open(".cache", LOOK)).unwrap()));
    served.put("plain", b"");
    assert!(!is_hidden(&served.files.attributes(&served.open("plain", LOOK)).unwrap()));
    assert!(!is_hidden(&served.files.attributes(&served.open("", LOOK)).unwrap()), "the root");
}

#[test]
fn implied_hidden_attribute_is_not_stored() {
    let served = serve_names(&[".*"], &[], false);
    served.put(".profile", b"");
    let open = served.open(".profile", ALL);
    let bits = dos::HIDDEN | dos::READONLY;
    let change = BasicChange { dos_bits: Some(bits), ..BasicChange::default() };
    served.files.set_attributes(&open, &change).unwrap();
    assert_eq!(served.files.attributes(&open).unwrap().dos.bits, Some(bits));
    let stored = served.look(".profile", false).unwrap().attributes.dos.bits;
    assert_eq!(stored, Some(dos::READONLY));
}

#[test]
fn vetoed_names_are_unfindable_and_not_creatable() {
    let served = serve_names(&[], &["*.EXE", "private"], false);
    make_beneath(&*served.vfs, "setup.exe");
    std::fs::create_dir(served.dir.path().join("Private")).unwrap();
    std::fs::write(served.dir.path().join("Private/inside"), b"x").unwrap();
    served.put("plain", b"");
    assert_eq!(served.listed(""), ["plain"]);
    assert_eq!(served.refusal(plan("SETUP.exe", READ)), FsError::NotFound);
    assert_eq!(served.refusal(plan("private/inside", READ)), FsError::PathNotFound);
    assert_eq!(served.refusal(new_file("other.exe")), FsError::AccessDenied);
    assert_eq!(served.refusal(new_directory("PRIVATE")), FsError::AccessDenied);
    let open_if = OpenPlan { if_missing: IfMissing::Create, ..plan("setup.exe", READ) };
    assert_eq!(served.refusal(open_if), FsError::AccessDenied, "there or not");
    let open = served.open("plain", ALL);
    let to = path("plain.exe");
    assert_eq!(now(served.files.rename(&open, &to, true)), Err(FsError::AccessDenied));
    assert_eq!(now(served.files.link(&open, &to, true)), Err(FsError::AccessDenied));
    drop(open);
    served.assert_nothing_held();
}

/// Names that an NFS client or local program may store, and that a client may request.
#[test]
fn vetoed_name_with_win32_tail_is_not_served() {
    let served = serve_names(&[], &["*.exe"], false);
    served.put("plain", b"");
    for tail in [".", " ", ". .", ":s", "::$DATA"] {
        let at = format!("setup.EXE{tail}");
        std::fs::write(served.dir.path().join(&at), b"x").unwrap();
        assert_eq!(served.refusal(plan(&at, READ)), FsError::NotFound, "{at}");
        assert_eq!(served.object(&at).unwrap_err(), FsError::NotFound, "{at}, over NFS");
        assert_eq!(served.refusal(new_file(&format!("x.exe{tail}"))), FsError::AccessDenied);
        let new = NewObject::Directory { mode: None };
        let root = served.root();
        let name = crate::harness::name(&format!("d.exe{tail}"));
        let made = now(served.files.create_object(&served.alice, &root, &name, new));
        assert_eq!(made.unwrap_err(), FsError::AccessDenied, "{at}, over NFS");
        let open = served.open("plain", ALL);
        let to = path(&at);
        assert_eq!(now(served.files.rename(&open, &to, true)), Err(FsError::AccessDenied));
        assert_eq!(now(served.files.link(&open, &to, true)), Err(FsError::AccessDenied));
    }
    let stream = vfs::StreamName::new(b"s".to_vec()).unwrap();
    let of_stream = OpenPlan { stream: Some(stream), ..plan("setup.exe", READ) };
    assert_eq!(served.refusal(of_stream), FsError::NotFound);
    assert_eq!(served.listed(""), ["plain"]);
}

/// Links created locally; clients cannot store a link that leads to a vetoed name without naming
/// it. A hard link is a name of its own.
#[test]
fn link_to_a_vetoed_name_leads_to_nothing() {
    let served = serve_names(&[], &["*.exe", "private"], false);
    let at = |name: &str| served.dir.path().join(name);
    make_beneath(&*served.vfs, "setup.exe");
    std::fs::create_dir(at("private")).unwrap();
    std::fs::set_permissions(at("private"), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(at("private/inside"), b"x").unwrap();
    served.put("plain", b"data");
    served.put_directory("d");
    served.put("d/file", b"data");
    for (target, link) in [
        ("setup.exe", "to-file"),
        ("to-file", "to-link"),
        ("private", "to-directory"),
        ("private/inside", "to-inside"),
        ("d", "to-served"),
    ] {
        std::os::unix::fs::symlink(target, at(link)).unwrap();
    }
    std::fs::hard_link(at("setup.exe"), at("hard")).unwrap();
    for link in ["to-file", "TO-FILE", "to-link", "to-directory"] {
        assert_eq!(served.refusal(plan(link, READ)), FsError::NotFound, "{link}");
        let makes = OpenPlan { if_missing: IfMissing::Create, ..plan(link, READ) };
        assert_eq!(served.refusal(makes), FsError::AccessDenied, "{link}");
    }
    for below in ["to-inside", "to-directory/inside"] {
        assert_eq!(served.refusal(plan(below, READ)), FsError::PathNotFound, "{below}");
    }
    assert_eq!(served.refusal(new_file("to-directory/new")), FsError::PathNotFound);
    assert!(!at("private/new").exists());
    let open = served.open("plain", ALL);
    let to = path("to-directory/moved");
    assert_eq!(now(served.files.rename(&open, &to, true)), Err(FsError::PathNotFound));
    assert_eq!(now(served.files.link(&open, &to, true)), Err(FsError::PathNotFound));
    drop(open);
    let root = served.open("", READ);
    let listed = |name: &str| {
        served.files.child_attributes(&root, &crate::harness::name(name)).unwrap().kind
    };
    assert_eq!(listed("to-directory"), vfs::FileKind::Symlink);
    assert_eq!(listed("to-served"), vfs::FileKind::Directory);
    drop(root);
    for served_name in ["plain", "to-served", "to-served/file", "hard"] {
        served.open(served_name, READ);
    }
    served.put("to-served/new", b"data");
    assert!(at("d/new").exists());
}

#[test]
fn hidden_name_with_win32_tail_is_hidden() {
    let served = serve_names(&["*.log"], &[], false);
    for (at, is_hidden) in
        [("a.log", true), ("b.LOG. ", true), ("c.log:s", true), ("d.log.x", false)]
    {
        served.put(at, b"");
        let bits = served.files.attributes(&served.open(at, LOOK)).unwrap().dos.bits;
        assert_eq!(bits.is_some_and(|bits| bits & dos::HIDDEN != 0), is_hidden, "{at}");
    }
}

#[test]
fn directory_with_vetoed_names_lists_empty_and_stays() {
    let served = serve_names(&[], &["*.tmp"], false);
    served.put_directory("directory");
    std::fs::write(served.dir.path().join("directory/a.tmp"), b"x").unwrap();
    assert_eq!(served.listed("directory"), [""; 0]);
    let open = served.open("directory", ALL);
    assert_eq!(served.files.set_delete(&open, true, false), Err(FsError::NotEmpty));
}

#[test]
fn vetoed_names_are_not_reported_to_watches() {
    let served = serve_names(&[], &["*.tmp"], false);
    let root = served.open("", READ);
    let wish = WatchWish {
        filter: files::WatchFilter(u32::MAX),
        tree: true,
        room_bytes: 100,
        measure: |length, _| length + 1,
    };
    let asked = served.files.watch(&root, &wish, &crate::watch::somebody()).unwrap();
    let of =
        |name: &str| vfs::ExternalName { name: crate::harness::name(name), is_directory: false };
    served.somebody_did(&vfs::ExternalChange::Added(of("a.tmp")));
    served.somebody_did(&vfs::ExternalChange::Added(of("a.txt")));
    let Some(WatchAnswer::Changes(changes)) = asked.answer().now_or_never() else {
        panic!("one change is reported");
    };
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].path, path("a.txt"));
}

#[test]
fn access_based_listing_omits_unreadable() {
    let served = serve_names(&[], &[], true);
    if !served.is_root {
        return eprintln!("skipped: needs the superuser, to have files of two users");
    }
    served.put("own", b"");
    served.put_directory("own directory");
    // Created below the file layer, so root owns them.
    make_beneath(&*served.vfs, "readable");
    make_beneath(&*served.vfs, "unreadable");
    served.set_mode("unreadable", 0o600);
    std::fs::create_dir(served.dir.path().join("closed")).unwrap();
    served.set_mode("closed", 0o700);
    assert_eq!(served.listed(""), ["own", "own directory", "readable"]);
    // A hidden name still exists: hiding protects nothing.
    assert_eq!(served.refusal(plan("unreadable", READ)), FsError::AccessDenied);
}
