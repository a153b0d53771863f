//! Tests of names: create, open, list, rename, remove, link.

use super::*;
use crate::{
    AttributeChanges, Attributes, ChildName, ChildRename, DosInfo, ElevationReason, EntryChoice,
    ExpectedChild, FileKey, FsError, ListSink, ListedEntry, ListingRequest, NameActor, NameLookup,
    NewChild, OwnerChange, Replace, ServerWork, SpecialKind,
};
use std::collections::BTreeSet;

fn insensitive(vfs: &dyn Vfs, at: &str) -> Result<OpenedNode> {
    vfs.open(root(), &path(at), OpenHow { case: Case::Insensitive, ..HOW })
}

fn rename(vfs: &dyn Vfs, from: &str, to: &str, replace: Replace) -> Result<()> {
    vfs.rename(root(), &path(from), &path(to), replace)
}

pub fn create_of_existing_name_is_refused(vfs: &dyn Vfs) {
    let made = make(vfs, "a", FileKind::File).unwrap();
    assert_eq!(made.path, path("a"));
    assert_eq!(made.attributes.kind, FileKind::File);
    assert_eq!((made.attributes.links, made.attributes.size_bytes), (1, 0));
    assert_eq!(make(vfs, "a", FileKind::File).unwrap_err(), FsError::AlreadyExists);
    assert_eq!(make(vfs, "a", FileKind::Directory).unwrap_err(), FsError::AlreadyExists);
    let how = CreateHow::plain(FileKind::File, 0o644);
    let by_case = vfs.create(root(), &path("A"), Case::Insensitive, how);
    assert_eq!(by_case.unwrap_err(), FsError::AlreadyExists);
    assert!(vfs.create(root(), &path("A"), Case::Sensitive, how).is_ok());
}

pub fn insensitive_lookup_finds_other_case_on_request(vfs: &dyn Vfs) {
    directory(vfs, "Dir");
    let node = file(vfs, "Dir/Name", b"x");
    assert_eq!(open(vfs, "Dir/NAME").unwrap_err(), FsError::NotFound);
    let found = insensitive(vfs, "dIR/nAME").unwrap();
    assert_eq!((found.node.key(), found.path), (node.key(), path("Dir/Name")));
    // An exact match takes precedence.
    let other = file(vfs, "Dir/NAME", b"y");
    assert_eq!(insensitive(vfs, "dir/NAME").unwrap().node.key(), other.key());
    assert_eq!(insensitive(vfs, "dir/Name").unwrap().node.key(), node.key());
    // Of several the first in byte order.
    assert_eq!(insensitive(vfs, "dir/name").unwrap().node.key(), other.key());
    let made = CreateHow::plain(FileKind::File, 0o644);
    let made = vfs.create(root(), &path("DIR/new"), Case::Insensitive, made).unwrap();
    assert_eq!(made.path, path("Dir/new"), "the directory as it is spelt");
}

pub fn missing_name_and_missing_directory_differ(vfs: &dyn Vfs) {
    file(vfs, "file", b"");
    directory(vfs, "d");
    for case in [Case::Sensitive, Case::Insensitive] {
        let open = |at| vfs.open(root(), &path(at), OpenHow { case, ..HOW }).unwrap_err();
        assert_eq!(open("gone"), FsError::NotFound);
        assert_eq!(open("d/gone"), FsError::NotFound);
        assert_eq!(open("gone/x"), FsError::PathNotFound);
        assert_eq!(open("d/gone/x"), FsError::PathNotFound);
        assert_eq!(open("file/x"), FsError::PathNotFound);
    }
    assert_eq!(make(vfs, "gone/x", FileKind::File).unwrap_err(), FsError::PathNotFound);
    assert_eq!(make(vfs, "file/x", FileKind::Directory).unwrap_err(), FsError::PathNotFound);
}

pub fn remove_of_unexpected_node_is_refused(vfs: &dyn Vfs) {
    let old = file(vfs, "a", b"old").key();
    rename(vfs, "a", "b", Replace::Never).unwrap();
    let new = file(vfs, "a", b"new");
    assert_eq!(vfs.remove(root(), &path("a"), old), Err(FsError::NotFound));
    assert_eq!(vfs.remove(root(), &path("A"), new.key()), Err(FsError::NotFound));
    assert_eq!(vfs.remove(root(), &path("a"), new.key()), Ok(()));
    assert_eq!(vfs.remove(root(), &path("a"), new.key()), Err(FsError::NotFound));
    assert_eq!(open(vfs, "a").unwrap_err(), FsError::NotFound);
    assert_eq!(content_at(vfs, "b").unwrap(), b"old");
}

pub fn nonempty_directory_is_not_removed(vfs: &dyn Vfs) {
    let key = directory(vfs, "d").key();
    let inner = file(vfs, "d/x", b"").key();
    assert_eq!(vfs.remove(root(), &path("d"), key), Err(FsError::NotEmpty));
    assert!(!open(vfs, "d").unwrap().node.is_empty().unwrap());
    vfs.remove(root(), &path("d/x"), inner).unwrap();
    assert!(open(vfs, "d").unwrap().node.is_empty().unwrap());
    assert_eq!(vfs.remove(root(), &path("d"), key), Ok(()));
}

pub fn root_is_neither_removed_nor_renamed(vfs: &dyn Vfs) {
    let key = open(vfs, "").unwrap().node.key();
    assert_eq!(vfs.remove(root(), &path(""), key), Err(FsError::AccessDenied));
    assert_eq!(rename(vfs, "", "x", Replace::Never), Err(FsError::AccessDenied));
    file(vfs, "y", b"");
    assert_eq!(rename(vfs, "y", "", Replace::File), Err(FsError::AccessDenied));
}

pub fn rename_replaces_file_on_request_and_no_directory(vfs: &dyn Vfs) {
    file(vfs, "a", b"a");
    file(vfs, "b", b"b");
    directory(vfs, "d");
    assert_eq!(rename(vfs, "gone", "x", Replace::File), Err(FsError::NotFound));
    assert_eq!(rename(vfs, "a", "gone/x", Replace::File), Err(FsError::PathNotFound));
    assert_eq!(rename(vfs, "a", "b", Replace::Never), Err(FsError::AlreadyExists));
    assert_eq!(content_at(vfs, "b").unwrap(), b"b");
    let onto_directory = rename(vfs, "a", "d", Replace::File).unwrap_err();
    assert_eq!(onto_directory, FsError::IsDirectory);
    assert!(rename(vfs, "d", "a", Replace::File).is_err());
    directory(vfs, "e");
    assert_eq!(
        rename(vfs, "d", "e", Replace::File),
        Err(FsError::IsDirectory),
        "also an empty one"
    );
    assert_eq!(rename(vfs, "d", "d", Replace::File), Ok(()));
    assert_eq!(rename(vfs, "a", "b", Replace::File), Ok(()));
    assert_eq!(content_at(vfs, "b").unwrap(), b"a");
    assert_eq!(open(vfs, "a").unwrap_err(), FsError::NotFound);
}

pub fn rename_changes_case_of_a_name(vfs: &dyn Vfs) {
    let key = file(vfs, "name", b"x").key();
    assert_eq!(rename(vfs, "name", "NAME", Replace::Never), Ok(()));
    assert_eq!(open(vfs, "name").unwrap_err(), FsError::NotFound);
    assert_eq!(insensitive(vfs, "name").unwrap().path, path("NAME"));
    assert_eq!(rename(vfs, "NAME", "NAME", Replace::File), Ok(()));
    assert_eq!(open(vfs, "NAME").unwrap().node.key(), key);
}

pub fn rename_moves_directory_with_its_content(vfs: &dyn Vfs) {
    directory(vfs, "from");
    directory(vfs, "to");
    let inner = file(vfs, "from/x", b"x");
    let links = || open(vfs, "to").unwrap().attributes.links;
    let before = links();
    assert_eq!(rename(vfs, "from", "to/inside", Replace::Never), Ok(()));
    assert_eq!(open(vfs, "to/inside/x").unwrap().node.key(), inner.key());
    assert_eq!(open(vfs, "from/x").unwrap_err(), FsError::PathNotFound);
    // A file system that counts subdirectories counts this one.
    assert!(links() == before + 1 || before == 1);
}

pub fn rename_of_directory_into_itself_is_refused(vfs: &dyn Vfs) {
    directory(vfs, "d");
    directory(vfs, "d/e");
    assert!(rename(vfs, "d", "d/x", Replace::Never).is_err());
    assert!(rename(vfs, "d", "d/e/x", Replace::Never).is_err());
    assert!(open(vfs, "d/e").is_ok());
}

pub fn hard_link_is_the_same_file(vfs: &dyn Vfs) {
    let node = file(vfs, "a", b"1");
    vfs.link(root(), &*node, &path("b"), Replace::Never).unwrap();
    let other = open(vfs, "b").unwrap();
    assert_eq!((other.node.key(), other.attributes.links), (node.key(), 2));
    other.node.write(root(), 1, b"2").unwrap();
    assert_eq!(content(&*node), b"12");
    let again = vfs.link(root(), &*node, &path("b"), Replace::Never);
    assert_eq!(again, Err(FsError::AlreadyExists));
    file(vfs, "c", b"c");
    vfs.link(root(), &*node, &path("c"), Replace::File).unwrap();
    assert_eq!(content_at(vfs, "c").unwrap(), b"12");
    vfs.remove(root(), &path("a"), node.key()).unwrap();
    assert_eq!(open(vfs, "b").unwrap().attributes.links, 2);
    let directory = directory(vfs, "d");
    let linked = vfs.link(root(), &*directory, &path("e"), Replace::Never);
    assert_eq!(linked, Err(FsError::NotSupported));
}

pub fn symlink_is_followed_unless_no_follow(vfs: &dyn Vfs) {
    directory(vfs, "d");
    let node = file(vfs, "d/x", b"x");
    let link = vfs.symlink(root(), &path("link"), b"d/x").unwrap();
    assert_eq!(link.attributes.kind, FileKind::Symlink);
    assert_eq!(link.node.readlink(root()).unwrap(), b"d/x");
    vfs.symlink(root(), &path("d/up"), b"../d").unwrap();
    assert_eq!(open(vfs, "link").unwrap().node.key(), node.key());
    assert_eq!(open(vfs, "d/up/x").unwrap().node.key(), node.key());
    let itself = vfs.open(root(), &path("link"), OpenHow { no_follow: true, ..HOW }).unwrap();
    assert_eq!(itself.node.key(), link.node.key());
    assert_eq!(itself.attributes.size_bytes, 3);
    assert_eq!(node.readlink(root()).unwrap_err(), FsError::NotSupported);
    let taken = vfs.symlink(root(), &path("link"), b"d");
    assert_eq!(taken.unwrap_err(), FsError::AlreadyExists);
    vfs.symlink(root(), &path("dangling"), b"nowhere").unwrap();
    assert_eq!(open(vfs, "dangling").unwrap_err(), FsError::NotFound);
    // Removing the link leaves its target.
    vfs.remove(root(), &path("link"), link.node.key()).unwrap();
    assert_eq!(content_at(vfs, "d/x").unwrap(), b"x");
}

pub fn escaping_or_looping_symlink_is_refused(vfs: &dyn Vfs) {
    vfs.symlink(root(), &path("out"), b"../etc").unwrap();
    vfs.symlink(root(), &path("absolute"), b"/etc").unwrap();
    vfs.symlink(root(), &path("circle"), b"circle").unwrap();
    for at in ["out", "out/passwd", "absolute", "absolute/passwd"] {
        assert_eq!(open(vfs, at).unwrap_err(), FsError::SymlinkEscapes, "{at}");
    }
    assert_eq!(open(vfs, "circle").unwrap_err(), FsError::SymlinkLoop);
    assert!(make(vfs, "out/x", FileKind::File).is_err());
}

pub fn listing_in_pieces_has_each_name_once(vfs: &dyn Vfs) {
    let node = directory(vfs, "d");
    let names: BTreeSet<String> = (0..100).map(|n| format!("name{n}")).collect();
    names.iter().for_each(|n| drop(make(vfs, &format!("d/{n}"), FileKind::File)));
    directory(vfs, "d/sub");
    for piece in [1, 7, 1000] {
        let (mut cookie, mut seen, mut rounds) = (0, Vec::new(), 0);
        loop {
            let mut left = piece;
            let ended = node.readdir(cookie, &mut |entry| {
                if left == 0 {
                    return false;
                }
                left -= 1;
                cookie = entry.next;
                seen.push((entry.name, entry.kind));
                true
            });
            rounds += 1;
            assert!(rounds < 200, "it ends");
            if ended.unwrap() {
                break;
            }
        }
        let listed: BTreeSet<String> =
            seen.iter().map(|(n, _)| String::from_utf8_lossy(n.as_bytes()).into()).collect();
        assert_eq!(seen.len(), 101, "by {piece}");
        assert!(listed.is_superset(&names) && listed.contains("sub"));
        let kind = seen.iter().find(|(n, _)| *n == name("sub")).and_then(|(_, kind)| *kind);
        assert!(kind.is_none_or(|kind| kind == FileKind::Directory));
    }
    let file = file(vfs, "f", b"");
    assert_eq!(file.readdir(0, &mut |_| true).unwrap_err(), FsError::NotDirectory);
    let child = node.child_attributes(root(), &name("sub"), AttributeRequest::default()).unwrap();
    assert_eq!(child.kind, FileKind::Directory);
    let missing = node.child_attributes(root(), &name("SUB"), AttributeRequest::default());
    assert_eq!(missing.unwrap_err(), FsError::NotFound);
}

/// Sink that takes up to `left` entries and skips one name.
struct LimitedSink {
    left: usize,
    cookie: u64,
    seen: Vec<(String, Option<Attributes>)>,
}

impl ListSink for LimitedSink {
    fn choose(&mut self, name: &[u8], next: u64) -> EntryChoice {
        if name == b"passed" {
            self.cookie = next;
            return EntryChoice::Pass;
        }
        if self.left == 0 { EntryChoice::Stop } else { EntryChoice::Take }
    }

    fn put(&mut self, entry: ListedEntry<'_>) -> bool {
        self.left -= 1;
        self.cookie = entry.next;
        self.seen.push((String::from_utf8_lossy(entry.name).into(), entry.attributes));
        true
    }
}

pub fn listed_attributes_equal_those_of_stat(vfs: &dyn Vfs) {
    cached_attributes_equal_those_of_stat(NameLookup::Backend(vfs));
}

/// The same through a cache.
pub fn cached_attributes_equal_those_of_stat(names: NameLookup<'_>) {
    let vfs = names.backend();
    let node = directory(vfs, "d");
    for n in 0..40 {
        let file = file(vfs, &format!("d/{n}"), &vec![b'x'; n]);
        let dos = Some(DosInfo { bits: Some(n as u32 % 8), created: None });
        file.set_attributes(root(), &AttributeChanges { dos, ..Default::default() }).unwrap();
    }
    directory(vfs, "d/sub");
    vfs.symlink(root(), &path("d/link"), b"1").unwrap();
    file(vfs, "d/passed", b"");
    let wanted =
        ListingRequest { attributes: true, stored: Some(ServerWork::Metadata), few: false };
    for (piece, few) in [(1, true), (7, false), (1000, false), (1000, false)] {
        let mut sink = LimitedSink { left: 0, cookie: 0, seen: Vec::new() };
        let wanted = ListingRequest { few, ..wanted };
        let rounds = (0..200).take_while(|_| {
            sink.left = piece;
            let cookie = sink.cookie;
            !names.readdir_with_attributes(&*node, root(), cookie, wanted, &mut sink).unwrap()
        });
        assert!(rounds.count() < 199, "it ends");
        assert_eq!(sink.seen.len(), 42, "by {piece}");
        for (at, attributes) in sink.seen {
            let look = node.child_attributes(
                root(),
                &name(&at),
                AttributeRequest { dos: Some(ServerWork::Metadata) },
            );
            assert_eq!(attributes, Some(look.unwrap()), "{at}");
        }
    }
    let mut sink = LimitedSink { left: 1000, cookie: 0, seen: Vec::new() };
    assert!(
        names
            .readdir_with_attributes(&*node, root(), 0, ListingRequest::default(), &mut sink)
            .unwrap()
    );
    assert_eq!(sink.seen.len(), 42, "names alone");
}

pub fn listing_stats_entries_as_its_caller(vfs: &dyn Vfs) {
    cached_listing_stats_entries_as_its_caller(NameLookup::Backend(vfs));
}

/// The same through a cache.
pub fn cached_listing_stats_entries_as_its_caller(names: NameLookup<'_>) {
    let vfs = names.backend();
    let [owner, other] = [54_321, 54_322].map(|id| Identity { uid: id, gid: id, groups: vec![] });
    let node = directory(vfs, "d");
    file(vfs, "d/a", b"");
    let uid = Some(owner.uid);
    let change = AttributeChanges {
        mode: Some(0o700),
        owner: OwnerChange { uid, gid: None },
        ..Default::default()
    };
    if node.set_attributes(root(), &change).is_err() {
        return; // The process may not give files away.
    }
    let wanted =
        ListingRequest { attributes: true, stored: Some(ServerWork::Metadata), few: false };
    for actor in [owner.actor(), root()] {
        // The thread now has an identity without permission.
        assert!(vfs.open(other.actor(), &path("d/a"), HOW).is_err());
        let mut sink = LimitedSink { left: 9, cookie: 0, seen: Vec::new() };
        names.readdir_with_attributes(&*node, actor, 0, wanted, &mut sink).unwrap();
        assert_eq!(sink.seen.len(), 1);
        assert!(vfs.open(other.actor(), &path("d/a"), HOW).is_err());
        assert!(
            node.child_attributes(
                actor,
                &name("a"),
                AttributeRequest { dos: Some(ServerWork::Metadata) }
            )
            .is_ok()
        );
    }
    // This user has the directory open but lacks search permission on it.
    let mut sink = InaccessibleSink::default();
    assert!(names.readdir_with_attributes(&*node, other.actor(), 0, wanted, &mut sink).unwrap());
    assert_eq!(sink.0, [("a".to_owned(), FsError::AccessDenied)], "its name is listed");
}

/// Sink of entries whose stat fails.
#[derive(Default)]
struct InaccessibleSink(Vec<(String, FsError)>);

impl ListSink for InaccessibleSink {
    fn choose(&mut self, _: &[u8], _: u64) -> EntryChoice {
        EntryChoice::Take
    }

    fn put(&mut self, entry: ListedEntry<'_>) -> bool {
        panic!("{entry:?}");
    }

    fn put_inaccessible(&mut self, entry: ListedEntry<'_>, error: FsError) -> bool {
        self.0.push((String::from_utf8_lossy(entry.name).into(), error));
        true
    }
}

pub fn node_has_one_key_by_all_its_names(vfs: &dyn Vfs) {
    let a = file(vfs, "a", b"");
    let b = file(vfs, "b", b"");
    assert_ne!(a.key(), b.key());
    rename(vfs, "a", "c", Replace::Never).unwrap();
    let renamed = open(vfs, "c").unwrap();
    assert_eq!((renamed.node.key(), renamed.attributes.key), (a.key(), a.key()));
}

fn user() -> Identity {
    Identity { uid: 4001, gid: 4001, groups: Vec::new() }
}

const NEW_FILE: CreateHow = CreateHow {
    kind: FileKind::File,
    mode: CreationMode::exactly(0o644),
    dos: None,
    wanted: AttributeRequest { dos: None },
    initialiser: None,
};

pub fn child_calls_stay_in_open_directory_after_swap(vfs: &dyn Vfs) {
    let (directory, other) = (directory(vfs, "d"), directory(vfs, "other"));
    for at in ["d/old", "other/old"] {
        file(vfs, at, at.as_bytes());
    }
    let old = open(vfs, "d/old").unwrap().attributes.key;
    rename(vfs, "d", "away", Replace::Never).unwrap();
    vfs.symlink(root(), &path("d"), b"other").unwrap();
    let paths = ["d/new", "d/NEW", "d/link", "d/pipe", "d/old", "d/moved"].map(path);
    let [new, by_case, link, pipe, present, moved] =
        paths.each_ref().map(|path| ChildName { directory: &*directory, path });
    let user = user();
    let actor = NameActor::Granted(&user);
    let made = vfs.create_in(actor, new, Case::Insensitive, NEW_FILE).unwrap();
    assert_eq!((made.path, made.attributes.kind), (path("d/new"), FileKind::File));
    let taken = |case, at| vfs.create_in(actor, at, case, NEW_FILE).unwrap_err();
    assert_eq!(taken(Case::Insensitive, by_case), FsError::AlreadyExists);
    assert_eq!(taken(Case::Sensitive, new), FsError::AlreadyExists);
    let made = vfs.create_special_in(actor, link, NewChild::Symlink(b"new")).unwrap();
    assert_eq!(made.node.readlink(root()).unwrap(), b"new");
    let fifo = NewChild::Special { kind: SpecialKind::Fifo, mode: CreationMode::exactly(0o600) };
    assert_eq!(vfs.create_special_in(actor, pipe, fifo).unwrap().attributes.kind, FileKind::Fifo);
    let device = crate::Device { is_block: false, major: 1, minor: 3 };
    let device =
        NewChild::Special { kind: SpecialKind::Device(device), mode: CreationMode::exactly(0o600) };
    assert_eq!(vfs.create_special_in(actor, moved, device).unwrap_err(), FsError::AccessDenied);
    let (replace, replaced) = (Replace::Never, None);
    let rename = ChildRename { from: present, moved: old, to: moved, replace, replaced };
    vfs.rename_in(actor, rename).unwrap();
    assert_eq!(content_at(vfs, "away/moved").unwrap(), b"d/old");
    let expected = ExpectedChild { key: old, is_file_as_seen: false };
    vfs.remove_in(actor, moved, expected).unwrap();
    let names = |node: &dyn Node| {
        let mut names = BTreeSet::new();
        let each = &mut |entry: crate::DirEntry| names.insert(entry.name.as_bytes().to_vec());
        node.readdir(0, each).unwrap();
        names
    };
    let expected: [&[u8]; 3] = [b"link", b"new", b"pipe"];
    assert_eq!(names(&*directory), expected.map(<[u8]>::to_vec).into());
    assert_eq!(names(&*other), [b"old".to_vec()].into());
    assert_eq!(content_at(vfs, "other/old").unwrap(), b"other/old");
}

pub fn child_calls_spare_unexpected_nodes(vfs: &dyn Vfs) {
    let directory = directory(vfs, "d");
    let (a, b) = (file(vfs, "d/a", b"a").key(), file(vfs, "d/b", b"b").key());
    let (path_a, path_b, root_path) = (path("d/a"), path("d/b"), path(""));
    let at = |path| ChildName { directory: &*directory, path };
    let user = user();
    let actor = NameActor::Granted(&user);
    let remove =
        |path, key| vfs.remove_in(actor, at(path), ExpectedChild { key, is_file_as_seen: false });
    assert_eq!(remove(&path_a, b), Err(FsError::NotFound));
    assert_eq!(remove(&root_path, a), Err(FsError::AccessDenied));
    let rename = |moved, replace, replaced: Option<FileKey>| {
        let (from, to) = (at(&path_a), at(&path_b));
        vfs.rename_in(actor, ChildRename { from, moved, to, replace, replaced })
    };
    assert_eq!(rename(b, Replace::File, Some(b)), Err(FsError::NotFound));
    assert_eq!(rename(a, Replace::File, None), Err(FsError::AlreadyExists));
    assert_eq!(rename(a, Replace::File, Some(a)), Err(FsError::AlreadyExists));
    assert_eq!(rename(a, Replace::Never, Some(b)), Err(FsError::AlreadyExists));
    assert_eq!(content_at(vfs, "d/b").unwrap(), b"b");
    assert_eq!(rename(a, Replace::File, Some(b)), Ok(()));
    assert_eq!(content_at(vfs, "d/b").unwrap(), b"a");
    assert_eq!(remove(&path_b, a), Ok(()));
    assert!(directory.is_empty().unwrap());
}

pub fn elevated_calls_resolve_no_path(vfs: &dyn Vfs) {
    elevated_calls_resolve_no_cached_path(NameLookup::Backend(vfs));
}

/// The same through a cache.
pub fn elevated_calls_resolve_no_cached_path(names: NameLookup<'_>) {
    let vfs = names.backend();
    let directory = directory(vfs, "d");
    let node = file(vfs, "d/f", b"");
    let user = user();
    let powers = ElevationReason::ALL.map(|elevated| Actor::elevate(&user, elevated));
    for actor in powers.into_iter().chain([Actor::server(ServerWork::OpenChecked)]) {
        let (present, new) = (path("d/f"), path("d/new"));
        let child = ChildName { directory: &*directory, path: &new };
        let own = NameActor::Own(actor);
        let refused = [
            vfs.open(actor, &present, HOW).map(drop),
            names.open_directory(actor, &path("d"), Case::Sensitive, Wait::Allowed).map(drop),
            vfs.create(actor, &new, Case::Sensitive, NEW_FILE).map(drop),
            vfs.create_in(own, child, Case::Sensitive, NEW_FILE).map(drop),
            vfs.remove(actor, &present, node.key()),
            vfs.rename(actor, &present, &new, Replace::Never),
            vfs.link(actor, &*node, &new, Replace::Never),
            vfs.symlink(actor, &new, b"f").map(drop),
            vfs.create_special(actor, &new, SpecialKind::Fifo, CreationMode::exactly(0o600))
                .map(drop),
        ];
        assert_eq!(refused, [Err(FsError::AccessDenied); 9], "{actor:?}");
    }
    assert_eq!(open(vfs, "d/f").unwrap().attributes.links, 1);
}
