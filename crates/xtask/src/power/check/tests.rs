//! The check finds planted violations, and nothing else.

use super::*;
use crate::power::descriptor::tests::{state, value};
use crate::power::journal::{Effect, FlushScope, JournalOperation, WorkloadJournal};
use crate::power::recording::{DiskRecording, DiskRequest};

const ROOT: u32 = 1;
const ROOT_INODE: u64 = 2;

/// A journal whose operations take 10 ns each, on a disk with one request each nanosecond.
#[derive(Default)]
struct ModelFixture {
    journal: WorkloadJournal,
    tree: ObservedTree,
    loses_replaced_names: bool,
    shows_cut_data: bool,
}

impl ModelFixture {
    fn new() -> Self {
        let mut planted = Self::default();
        planted.add(true, vec![created(ROOT, ObjectKind::Directory, ROOT_INODE, 0o755)]);
        planted.tree.root = ROOT_INODE;
        planted.put(ROOT_INODE, ObjectKind::Directory, 0o755);
        planted.tree.names.insert(ROOT_INODE, BTreeMap::new());
        planted
    }

    /// Appends an operation; its number.
    fn add(&mut self, promises: bool, effects: Vec<Effect>) -> usize {
        self.settle(promises, None, effects)
    }

    fn settle(
        &mut self,
        promises: bool,
        settles: Option<FlushScope>,
        effects: Vec<Effect>,
    ) -> usize {
        let number = self.journal.operations.len();
        self.journal.operations.push(JournalOperation {
            client: "client".to_owned(),
            row: format!("row {number}"),
            text: format!("operation {number}"),
            promises,
            settles,
            request: number as u64 * 10,
            answer: number as u64 * 10 + 9,
            effects,
        });
        number
    }

    fn put(&mut self, inode: u64, kind: ObjectKind, mode: u32) -> &mut ObservedInode {
        let found = ObservedInode {
            kind: Some(kind),
            mode,
            owner: (7, 8),
            size: 0,
            modified: 0,
            links: 1,
            attributes: BTreeMap::new(),
            cells: Vec::new(),
            target: None,
        };
        self.tree.inodes.insert(inode, found);
        self.tree.inodes.get_mut(&inode).unwrap()
    }

    fn entry(&mut self, name: &str, inode: u64) {
        self.tree.names.get_mut(&ROOT_INODE).unwrap().insert(name.to_owned(), inode);
    }

    fn remove(&mut self, name: &str) {
        self.tree.names.get_mut(&ROOT_INODE).unwrap().remove(name);
    }

    /// The violations after a cut when `operation` is answered.
    fn after(&self, operation: usize) -> Vec<String> {
        self.at(operation * 10 + 10)
    }

    /// The violations after a cut while `operation` is in flight.
    fn during(&self, operation: usize) -> Vec<String> {
        self.at(operation * 10 + 5)
    }

    fn at(&self, at: usize) -> Vec<String> {
        let mut recording = DiskRecording::default();
        (0..1000).for_each(|time| recording.push(time, DiskRequest::Flush));
        let mut model = PromiseModel::new(&self.journal, &recording);
        model.loses_replaced_names = self.loses_replaced_names;
        model.shows_cut_data = self.shows_cut_data;
        model.check(&self.tree, at).iter().map(ToString::to_string).collect()
    }
}

fn created(object: u32, kind: ObjectKind, inode: u64, mode: u32) -> Effect {
    Effect::Created { object, kind, inode, mode, owner: (7, 8), target: None }
}

fn name(name: &str, object: Option<u32>) -> Effect {
    Effect::Name { directory: ROOT, name: name.to_owned(), object }
}

/// An existing file `a`: object 2, inode 12.
fn with_file() -> ModelFixture {
    let mut planted = ModelFixture::new();
    planted.add(true, vec![name("a", Some(2)), created(2, ObjectKind::File, 12, 0o600)]);
    planted.entry("a", 12);
    planted.put(12, ObjectKind::File, 0o600);
    planted
}

#[test]
fn promised_file_must_be_there_and_requested_one_may() {
    let mut planted = with_file();
    assert_eq!(planted.after(1), [""; 0]);
    assert_eq!(planted.during(1), [""; 0]);
    planted.remove("a");
    assert_eq!(planted.during(1), [""; 0]);
    assert_eq!(planted.after(1), ["row 1: operation 1: entry a is not there"]);
}

#[test]
fn file_before_its_request_is_found() {
    let planted = with_file();
    assert_eq!(planted.at(10), ["nothing promised: : entry a is there"]);
}

#[test]
fn removed_file_that_is_back_is_found() {
    let mut planted = with_file();
    let remove = planted.add(true, vec![name("a", None)]);
    assert_eq!(planted.during(remove), [""; 0]);
    assert_eq!(planted.after(remove), ["row 2: operation 2: entry a is there"]);
}

#[test]
fn relaxed_operation_may_be_lost_until_it_is_flushed() {
    let mut planted = ModelFixture::new();
    planted.add(false, vec![name("a", Some(2)), created(2, ObjectKind::File, 12, 0o600)]);
    let flush = planted.settle(true, Some(FlushScope::Object(2)), Vec::new());
    assert_eq!(planted.during(flush), [""; 0]);
    assert_eq!(planted.after(flush), ["row 1: operation 1: entry a is not there"]);
}

#[test]
fn flush_of_a_directory_promises_its_names() {
    let mut planted = with_file();
    planted.add(false, vec![name("a", None)]);
    let flush = planted.settle(true, Some(FlushScope::Directory(ROOT)), Vec::new());
    assert_eq!(planted.during(flush), [""; 0]);
    assert_eq!(planted.after(flush), ["row 2: operation 2: entry a is there"]);
}

#[test]
fn half_a_rename_is_found() {
    let mut planted = with_file();
    let rename = planted.add(true, vec![name("a", None), name("b", Some(2))]);
    assert_eq!(planted.during(rename), [""; 0]);
    planted.remove("a");
    assert_eq!(
        planted.during(rename),
        ["row 2: operation 2: half of it is there: a is not there, b is not there"]
    );
    planted.entry("b", 12);
    assert_eq!(planted.during(rename), [""; 0]);
    assert_eq!(planted.after(rename), [""; 0]);
    planted.entry("a", 12);
    planted.tree.inodes.get_mut(&12).unwrap().links = 2;
    assert_eq!(
        planted.during(rename),
        ["row 2: operation 2: half of it is there: a is there, b is there"]
    );
}

#[test]
fn moved_file_may_have_both_names_and_none_if_it_was_removed() {
    let mut planted = with_file();
    planted.add(true, vec![name("d", Some(3)), created(3, ObjectKind::Directory, 13, 0o755)]);
    planted.entry("d", 13);
    planted.put(13, ObjectKind::Directory, 0o755);
    planted.tree.names.insert(13, BTreeMap::new());
    let to = Effect::Name { directory: 3, name: "b".to_owned(), object: Some(2) };
    let rename = planted.add(false, vec![name("a", None), to]);
    planted.tree.names.get_mut(&13).unwrap().insert("b".to_owned(), 12);
    planted.tree.inodes.get_mut(&12).unwrap().links = 2;
    assert_eq!(planted.after(rename), [""; 0]);
    planted.remove("a");
    planted.tree.names.get_mut(&13).unwrap().remove("b");
    let lost = "row 3: operation 3: half of it is there: a is not there, b is not there";
    assert!(planted.after(rename).contains(&lost.to_owned()), "{:?}", planted.after(rename));
    let to = Effect::Name { directory: 3, name: "b".to_owned(), object: None };
    let removal = planted.add(false, vec![to]);
    assert!(planted.after(rename).contains(&lost.to_owned()), "{:?}", planted.after(rename));
    assert_eq!(planted.after(removal), [""; 0]);
}

#[test]
fn old_name_may_stand_beside_the_name_of_a_later_move() {
    let mut planted = with_file();
    for (object, inode, directory) in [(3, 13, "d"), (4, 14, "e")] {
        let kind = ObjectKind::Directory;
        planted.add(true, vec![name(directory, Some(object)), created(object, kind, inode, 0o755)]);
        planted.entry(directory, inode);
        planted.put(inode, kind, 0o755);
        planted.tree.names.insert(inode, BTreeMap::new());
    }
    let in_directory = |directory, object| Effect::Name { directory, name: "b".to_owned(), object };
    planted.add(false, vec![name("a", None), in_directory(3, Some(2))]);
    planted.add(false, vec![in_directory(3, None), in_directory(4, Some(2))]);
    let flush = planted.settle(true, Some(FlushScope::Directory(3)), Vec::new());
    let half = "row 4: operation 4: half of it is there: a is there, b is not there".to_owned();
    assert!(planted.after(flush).contains(&half), "the file is not at its last name");
    planted.tree.names.get_mut(&14).unwrap().insert("b".to_owned(), 12);
    planted.tree.inodes.get_mut(&12).unwrap().links = 2;
    assert!(!planted.after(flush).contains(&half), "{:?}", planted.after(flush));
}

#[test]
fn rename_over_another_leaves_one_of_both() {
    let mut planted = with_file();
    planted.add(true, vec![name("b", Some(3)), created(3, ObjectKind::File, 13, 0o644)]);
    planted.entry("b", 13);
    planted.put(13, ObjectKind::File, 0o644);
    let rename = planted.add(true, vec![name("a", None), name("b", Some(2))]);
    assert_eq!(planted.during(rename), [""; 0]);
    assert_eq!(planted.after(rename).len(), 2);
    planted.remove("b");
    assert_eq!(planted.during(rename), ["row 2: operation 2: entry b is not there"]);
    planted.remove("a");
    planted.entry("b", 12);
    assert_eq!(planted.after(rename), [""; 0]);
}

#[test]
fn name_is_lost_to_an_unsynced_file_on_btrfs_alone() {
    for (is_synced, promises, loses, expected) in [
        (false, false, true, 0),
        (false, false, false, 1),
        (true, false, true, 1),
        (false, true, true, 1),
    ] {
        let mut planted = with_file();
        planted.loses_replaced_names = loses;
        let new = vec![name("b", Some(3)), created(3, ObjectKind::File, 13, 0o600)];
        planted.add(is_synced, new);
        let replacement = planted.add(promises, vec![name("b", None), name("a", Some(3))]);
        planted.remove("a");
        let found = planted.during(replacement);
        let lost = found.iter().filter(|text| text.contains("a is not there")).count();
        assert_eq!(lost.min(1), expected, "{found:?}");
    }
}

#[test]
fn replaced_file_may_return_on_btrfs_after_a_new_rename() {
    for (loses, promises, is_removed, expected) in [
        (true, false, true, 0),
        (false, false, true, 1),
        (true, true, true, 1),
        (true, false, false, 1),
    ] {
        let mut planted = with_file();
        planted.loses_replaced_names = loses;
        let new = vec![name("b", Some(3)), created(3, ObjectKind::File, 13, 0o600)];
        planted.add(true, new);
        let replacement = planted.add(promises, vec![name("b", None), name("a", Some(3))]);
        let flush = planted.settle(true, Some(FlushScope::Object(3)), Vec::new());
        let last = if is_removed { planted.add(false, vec![name("a", None)]) } else { flush };
        let found = planted.after(last);
        let text = format!("row {replacement}: operation {replacement}: entry a is another");
        let count = found.iter().filter(|one| one.starts_with(&text)).count();
        assert_eq!(count, expected, "{found:?}");
    }
}

#[test]
fn replaced_file_may_return_on_btrfs_after_a_flushed_move() {
    for (loses, promises, is_replaced, expected) in [
        (true, false, true, 0),
        (false, false, true, 1),
        (true, true, true, 1),
        // The name was the new file's alone.
        (true, false, false, 1),
    ] {
        let mut planted = with_file();
        planted.loses_replaced_names = loses;
        let new = vec![name("b", Some(3)), created(3, ObjectKind::File, 13, 0o600)];
        planted.add(true, new);
        if is_replaced {
            planted.add(promises, vec![name("b", None), name("a", Some(3))]);
        }
        let from = if is_replaced { "a" } else { "b" };
        planted.add(false, vec![name(from, None), name("c", Some(3))]);
        let flush = planted.settle(true, Some(FlushScope::Object(3)), Vec::new());
        planted.entry("c", 13);
        planted.put(13, ObjectKind::File, 0o600);
        if !is_replaced {
            planted.entry("b", 12);
        }
        let found = planted.after(flush);
        let is_there = format!("entry {from} is there");
        assert_eq!(
            found.iter().filter(|one| one.contains(&is_there)).count(),
            expected,
            "{found:?}"
        );
    }
}

#[test]
fn cut_off_data_may_return_on_btrfs_until_growth_is_stable() {
    for (shows, grows, cell, expected) in [
        (true, false, 1, 0),
        (false, false, 1, 1),
        (true, true, 1, 1),
        // In the next block.
        (true, false, 8, 1),
    ] {
        let mut planted = with_file();
        planted.shows_cut_data = shows;
        let size = |cells: u64| Effect::Size { object: 2, bytes: cells * 512 };
        let data = |first: usize, tags: Vec<u64>| Effect::Data { object: 2, cell: first, tags };
        planted.add(true, vec![size(10), data(0, vec![5; 10])]);
        planted.add(true, vec![size(1), data(1, vec![0; 9])]);
        let grown = planted.add(grows, vec![size(10)]);
        let found = planted.put(12, ObjectKind::File, 0o600);
        found.size = 10 * 512;
        found.cells = vec![Some(5); 1];
        found.cells.resize(10, Some(0));
        found.cells[cell] = Some(5);
        assert_eq!(planted.after(grown).len(), expected, "{shows} {grows} {cell}");
    }
}

#[test]
fn other_mode_owner_and_size_are_found() {
    let mut planted = with_file();
    let change = planted.add(
        true,
        vec![
            Effect::Mode { object: 2, mode: 0o640 },
            Effect::Owner { object: 2, owner: (9, 9) },
            Effect::Size { object: 2, bytes: 512 },
        ],
    );
    assert_eq!(planted.during(change), [""; 0]);
    assert_eq!(
        planted.after(change),
        [
            "row 2: operation 2: mode 600, may be 640",
            "row 2: operation 2: owner (7, 8), may be [(9, 9)]",
            "row 2: operation 2: size 0, may be 512 to 512",
        ]
    );
    let found = planted.tree.inodes.get_mut(&12).unwrap();
    (found.mode, found.owner, found.size) = (0o666, (9, 9), 512);
    assert_eq!(planted.during(change), ["row 1: operation 1: mode 666, may be 600 or 640"]);
}

#[test]
fn lost_torn_and_foreign_data_are_found() {
    let mut planted = with_file();
    let size = Effect::Size { object: 2, bytes: 1024 };
    let write =
        planted.add(true, vec![size, Effect::Data { object: 2, cell: 0, tags: vec![5, 5] }]);
    let found = planted.tree.inodes.get_mut(&12).unwrap();
    (found.size, found.cells) = (1024, vec![Some(5), Some(5)]);
    assert_eq!(planted.after(write), [""; 0]);
    for (cell, shown) in [(Some(0), "Some(0)"), (None, "None"), (Some(6), "Some(6)")] {
        planted.tree.inodes.get_mut(&12).unwrap().cells[1] = cell;
        let expected = format!("row 2: operation 2: cell 1 is {shown}, may be [5]");
        assert_eq!(planted.after(write), [expected]);
    }
    planted.tree.inodes.get_mut(&12).unwrap().cells[1] = Some(0);
    assert_eq!(planted.during(write), [""; 0]);
}

#[test]
fn committed_data_must_be_there() {
    let mut planted = with_file();
    let size = Effect::Size { object: 2, bytes: 512 };
    planted.add(false, vec![size, Effect::Data { object: 2, cell: 0, tags: vec![5] }]);
    let commit = planted.settle(true, Some(FlushScope::Data(2)), Vec::new());
    assert_eq!(planted.during(commit), [""; 0]);
    assert_eq!(planted.after(commit), ["row 2: operation 2: size 0, may be 512 to 512"]);
}

#[test]
fn other_attributes_and_times_are_found() {
    let mut planted = with_file();
    let value = Some("77".to_owned());
    let set = planted.add(
        true,
        vec![
            Effect::Attribute { object: 2, name: "user.x".to_owned(), value },
            Effect::Modified { object: 2, nanoseconds: Some(5) },
        ],
    );
    assert_eq!(planted.during(set), [""; 0]);
    assert_eq!(
        planted.after(set),
        [
            "row 2: operation 2: modified at 0, may be [5]",
            "row 2: operation 2: user.x is None, may be [Some(\"77\")]",
        ]
    );
    let found = planted.tree.inodes.get_mut(&12).unwrap();
    found.modified = 5;
    found.attributes.insert("user.x".to_owned(), "77".to_owned());
    assert_eq!(planted.after(set), [""; 0]);
    let found = planted.tree.inodes.get_mut(&12).unwrap();
    found.attributes.insert("user.y".to_owned(), "77".to_owned());
    assert_eq!(planted.after(set), ["nothing promised: : user.y was never set"]);
}

#[test]
fn entry_of_no_operation_and_wrong_link_count_are_found() {
    let mut planted = with_file();
    planted.entry(".anabranch-temporary", 12);
    assert_eq!(
        planted.after(1),
        [
            "nothing promised: : entry .anabranch-temporary is of no operation",
            "nothing promised: : inode 12 has 2 names, and counts 1",
        ]
    );
}

#[test]
fn promised_file_in_a_lost_directory_is_found() {
    let mut planted = ModelFixture::new();
    planted.add(false, vec![name("d", Some(2)), created(2, ObjectKind::Directory, 12, 0o755)]);
    let inside = Effect::Name { directory: 2, name: "f".to_owned(), object: Some(3) };
    let create = planted.add(true, vec![inside, created(3, ObjectKind::File, 13, 0o600)]);
    assert_eq!(planted.during(create), [""; 0]);
    assert_eq!(planted.after(create), ["row 2: operation 2: entry f is not there"]);
}

#[test]
fn reused_inode_is_the_object_that_fits() {
    let mut planted = with_file();
    planted.add(true, vec![name("a", None)]);
    let again =
        planted.add(false, vec![name("a", Some(3)), created(3, ObjectKind::File, 12, 0o640)]);
    planted.put(12, ObjectKind::File, 0o640);
    assert_eq!(planted.after(again), [""; 0]);
    planted.put(12, ObjectKind::File, 0o600);
    assert_eq!(planted.after(again), ["nothing promised: : mode 600, may be 640"]);
}

fn stored(value: &str) -> Effect {
    let (name, value) = (descriptor::NAME.to_owned(), Some(value.to_owned()));
    Effect::Attribute { object: 2, name, value }
}

#[test]
fn descriptor_beside_other_permissions_is_found() {
    let mut planted = with_file();
    let before = value(&[state(0o600)], 1);
    planted.add(true, vec![stored(&before)]);
    let mode = Effect::Mode { object: 2, mode: 0o640 };
    let after = value(&[state(0o640)], 2);
    let set = planted.add(true, vec![mode, stored(&after)]);
    let on_the_way = value(&[state(0o600), state(0o640)], 2);
    let void = |mode: u32| {
        format!(
            "row 3: operation 3: the descriptor is void beside mode {mode:o}, owner (7, 8), list None"
        )
    };
    for (stored, mode, expected) in [
        (&before, 0o600, None),
        (&after, 0o640, None),
        (&on_the_way, 0o600, None),
        (&on_the_way, 0o640, None),
        (&before, 0o640, Some(void(0o640))),
        (&after, 0o600, Some(void(0o600))),
    ] {
        let found = planted.put(12, ObjectKind::File, mode);
        found.attributes.insert(descriptor::NAME.to_owned(), stored.clone());
        let expected: Vec<String> = expected.into_iter().collect();
        assert_eq!(planted.during(set), expected, "{mode:o} {stored}");
    }
    let found = planted.tree.inodes.get_mut(&12).unwrap();
    (found.mode, found.attributes) =
        (0o640, BTreeMap::from([(descriptor::NAME.to_owned(), on_the_way)]));
    assert_eq!(planted.after(set).len(), 1, "answered, it is on no way");
}

#[test]
fn created_file_without_its_descriptor_is_found() {
    let mut planted = ModelFixture::new();
    let value = value(&[state(0o600)], 1);
    let file = created(2, ObjectKind::File, 12, 0o600);
    let create = planted.add(false, vec![name("a", Some(2)), file, stored(&value)]);
    assert_eq!(planted.during(create), [""; 0]);
    planted.entry("a", 12);
    planted.put(12, ObjectKind::File, 0o600);
    let expected =
        "row 1: operation 1: it is there without security.NTACL, which it is created with";
    assert_eq!(planted.during(create), [expected]);
    let found = planted.tree.inodes.get_mut(&12).unwrap();
    found.attributes.insert(descriptor::NAME.to_owned(), value);
    assert_eq!(planted.during(create), [""; 0]);
}

#[test]
fn new_directory_is_private_until_it_has_its_descriptor() {
    let mut planted = ModelFixture::new();
    let directory = created(2, ObjectKind::Directory, 12, 0o755);
    let value = value(&[state(0o755)], 1);
    let create = planted.add(true, vec![name("d", Some(2)), directory, stored(&value)]);
    planted.entry("d", 12);
    planted.put(12, ObjectKind::Directory, 0o700);
    assert_eq!(planted.during(create), [""; 0]);
    assert_eq!(planted.after(create).len(), 2, "mode and descriptor");
    planted.put(12, ObjectKind::Directory, 0o750);
    assert_eq!(planted.during(create).len(), 2);
}

#[test]
fn mode_is_narrow_while_the_owner_changes() {
    let mut planted = with_file();
    let mode = |mode| Effect::Mode { object: 2, mode };
    planted.add(true, vec![mode(0o754)]);
    let owner = Effect::Owner { object: 2, owner: (9, 9) };
    let give = planted.add(true, vec![owner, mode(0o644)]);
    for (found, expected) in
        [(0o754, 0), (0o644, 0), (0o644, 0), (0o600, 0), (0o654, 1), (0o700, 1)]
    {
        planted.put(12, ObjectKind::File, found);
        assert_eq!(planted.during(give).len(), expected, "{found:o}");
    }
    let found = planted.put(12, ObjectKind::File, 0o644);
    found.owner = (9, 9);
    assert_eq!(planted.after(give), [""; 0]);
    planted.tree.inodes.get_mut(&12).unwrap().mode = 0o600;
    assert_eq!(planted.after(give).len(), 1);
}

#[test]
fn attribute_that_was_removed_again_may_be_missing() {
    let mut planted = ModelFixture::new();
    let attribute = |value: Option<&str>| Effect::Attribute {
        object: 2,
        name: "user.x".to_owned(),
        value: value.map(str::to_owned),
    };
    let file = created(2, ObjectKind::File, 12, 0o600);
    planted.add(false, vec![name("a", Some(2)), file, attribute(Some("77"))]);
    planted.entry("a", 12);
    planted.put(12, ObjectKind::File, 0o600);
    assert_eq!(planted.after(1).len(), 1);
    let removal = planted.add(false, vec![attribute(None)]);
    assert_eq!(planted.during(removal), [""; 0]);
}
