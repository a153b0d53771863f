//! Change notification: receivers and reported changes.

use crate::harness::*;
use files::{
    BasicChange, Caller, ChangeAction, Descriptor, IfExists, NextChanges, OpenFile, OpenPlan,
    SecurityParts, TimeSetting, VolumeOptions, WATCH_BYTES_MAX, WATCHES_PER_DIRECTORY_MAX,
    WatchAnswer, WatchChange, WatchFilter, WatchWish,
};
use futures_util::FutureExt;
use limits::LedgerHolder;
use std::sync::Arc;
use vfs::{ExternalChange, ExternalName, FsError, StreamName, Timestamp};

pub const EVERYTHING: WatchFilter = WatchFilter(u32::MAX);
const NAMES: WatchFilter = WatchFilter(WatchFilter::FILE_NAME.0 | WatchFilter::DIRECTORY_NAME.0);

/// A request in which every change counts as one byte.
fn wish(filter: WatchFilter, tree: bool) -> WatchWish {
    WatchWish { filter, tree, room_bytes: 100, measure: |length, _| length + 1 }
}

/// Holder that is charged for watches.
pub fn somebody() -> LedgerHolder {
    LedgerHolder::User("somebody".into())
}

/// A watched directory.
pub struct WatchedDirectory<'a> {
    served: &'a ServedVolume,
    open: Arc<OpenFile>,
    wish: WatchWish,
}

impl ServedVolume {
    pub fn watch(&self, at: &str, filter: WatchFilter, tree: bool) -> WatchedDirectory<'_> {
        self.watch_as(&self.alice, at, filter, tree)
    }

    pub fn watch_as(
        &self,
        by: &Arc<Caller>,
        at: &str,
        filter: WatchFilter,
        tree: bool,
    ) -> WatchedDirectory<'_> {
        let open = self.try_open_as(by, plan(at, READ)).unwrap().open;
        let watched = WatchedDirectory { served: self, open, wish: wish(filter, tree) };
        // The watch begins with its first request.
        assert_eq!(watched.reported(), "");
        watched
    }
}

impl WatchedDirectory<'_> {
    pub fn ask(&self) -> NextChanges {
        self.served.files.watch(&self.open, &self.wish, &somebody()).unwrap()
    }

    /// Unreported changes in a short form; empty if none.
    pub fn reported(&self) -> String {
        self.ask().answer().now_or_never().map(|answer| shown(&answer)).unwrap_or_default()
    }
}

fn shown(answer: &WatchAnswer) -> String {
    let one = |change: &WatchChange| {
        let sign = match change.kind {
            ChangeAction::Added => '+',
            ChangeAction::Modified => '!',
            ChangeAction::Removed => '-',
            ChangeAction::RenamedFrom => '<',
            ChangeAction::RenamedTo => '>',
            ChangeAction::AddedStream => '+',
            ChangeAction::ModifiedStream => '!',
            ChangeAction::RemovedStream => '-',
        };
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let stream = change.stream.as_ref().map(|s| format!(":{}", text(s.as_bytes())));
        format!("{sign}{}{}", text(change.path.as_bytes()), stream.unwrap_or_default())
    };
    match answer {
        WatchAnswer::Changes(changes) => changes.iter().map(one).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    }
}

fn remove(served: &ServedVolume, at: &str) {
    let open = served.open(at, DELETE);
    served.files.set_delete(&open, true, false).unwrap();
    served.close(open);
}

fn rename(served: &ServedVolume, from: &str, to: &str, replace: bool) {
    let open = served.open(from, DELETE);
    now(served.files.rename(&open, &path(to), replace)).unwrap();
    served.close(open);
}

#[test]
fn name_changes_reach_directory_and_trees_above() {
    let served = serve();
    served.put_directory("d");
    let root = served.watch("", NAMES, false);
    let tree = served.watch("", NAMES, true);
    let inner = served.watch("d", NAMES, false);
    served.put("d/f", b"");
    served.put_directory("d/sub");
    served.put("top", b"");
    remove(&served, "d/f");
    assert_eq!(root.reported(), "+top");
    assert_eq!(tree.reported(), "+d/f +d/sub +top -d/f");
    assert_eq!(inner.reported(), "+f +sub -f");
}

#[test]
fn waiting_request_is_answered_by_next_change() {
    let served = serve();
    let root = served.watch("", NAMES, false);
    let (first, second) = (root.ask().answer(), root.ask().answer());
    served.put("a", b"");
    served.put("b", b"");
    assert_eq!(shown(&now(first)), "+a");
    assert_eq!(shown(&now(second)), "+b");
}

#[test]
fn rename_is_reported_as_pair_or_as_remove_and_add() {
    let served = serve();
    served.put_directory("d");
    served.put("f", b"");
    let root = served.watch("", NAMES, false);
    let tree = served.watch("", NAMES, true);
    let inner = served.watch("d", NAMES, false);
    let waits = tree.ask().answer();
    rename(&served, "f", "g", false);
    assert_eq!(shown(&now(waits)), "<f >g", "a pair is not torn");
    rename(&served, "g", "d/g", false);
    rename(&served, "d/g", "d/G", false);
    assert_eq!(root.reported(), "<f >g -g");
    assert_eq!(tree.reported(), "-g +d/g <d/g >d/G");
    assert_eq!(inner.reported(), "+g <g >G");
}

#[test]
fn replaced_name_is_removed_before_new_one_is_added() {
    let served = serve();
    served.put("old", b"");
    served.put("new", b"");
    let root = served.watch("", NAMES, false);
    rename(&served, "new", "old", true);
    assert_eq!(root.reported(), "-old <new >old");
    let open = served.open("old", ALL);
    now(served.files.link(&open, &path("link"), false)).unwrap();
    assert_eq!(root.reported(), "+link");
}

#[test]
fn file_and_directory_names_have_separate_filters() {
    let served = serve();
    let files = served.watch("", WatchFilter::FILE_NAME, false);
    let directories = served.watch("", WatchFilter::DIRECTORY_NAME, false);
    served.put("f", b"");
    served.put_directory("d");
    rename(&served, "d", "e", false);
    remove(&served, "f");
    remove(&served, "e");
    assert_eq!(files.reported(), "+f -f");
    assert_eq!(directories.reported(), "+d <d >e -e");
}

/// Each kind of change against one watch for each kind.
#[test]
fn each_change_reaches_watches_of_its_kind() {
    let served = serve();
    served.put("f", b"");
    let kinds = [
        ("attributes", WatchFilter::ATTRIBUTES),
        ("size", WatchFilter::SIZE),
        ("write", WatchFilter::LAST_WRITE),
        ("access", WatchFilter::LAST_ACCESS),
        ("creation", WatchFilter::CREATION),
        ("ea", WatchFilter::EXTENDED_ATTRIBUTES),
        ("security", WatchFilter::SECURITY),
    ];
    let watches = kinds.map(|(name, filter)| (name, served.watch("", filter, false)));
    let reporting = || {
        let reported = watches.iter().filter(|(_, watch)| watch.reported() == "!f");
        reported.map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
    };
    let (files, open) = (&served.files, served.open("f", ALL));
    let basic = |change| files.set_attributes(&open, &change).unwrap();
    let set = TimeSetting::Set(Timestamp(1_000_000_000));
    basic(BasicChange { dos_bits: Some(2), ..BasicChange::default() });
    assert_eq!(reporting(), "attributes");
    basic(BasicChange { created: set, ..BasicChange::default() });
    assert_eq!(reporting(), "creation");
    basic(BasicChange { accessed: set, modified: set, ..BasicChange::default() });
    assert_eq!(reporting(), "write access");
    basic(BasicChange { accessed: TimeSetting::Freeze, ..BasicChange::default() });
    assert_eq!(reporting(), "");
    files.set_sparse(&open, true).unwrap();
    assert_eq!(reporting(), "attributes");
    // One open is reported a few times between two ticks.
    served.files.handle_tick();
    if files.set_xattr(&open, &xattr_name("note"), Some(b"1")).is_ok() {
        assert_eq!(reporting(), "ea");
    }
    let all = SecurityParts { dacl: true, ..SecurityParts::default() };
    let present: Descriptor = files.descriptor(&open, all).unwrap();
    if files.set_descriptor(&open, &present, all).is_ok() {
        assert_eq!(reporting(), "security");
    }
    served.close(open);
    assert_eq!(reporting(), "");
    let overwrite = OpenPlan { if_exists: IfExists::Overwrite, dos_bits: 2, ..plan("f", READ) };
    served.close(served.try_open(overwrite).unwrap().open);
    assert_eq!(reporting(), "attributes size write");
}

#[test]
fn first_request_determines_watch_filter() {
    let served = serve();
    served.put_directory("d");
    let mut root = served.watch("", WatchFilter::DIRECTORY_NAME, true);
    root.wish = wish(EVERYTHING, false);
    served.put("f", b"");
    served.put_directory("d/sub");
    assert_eq!(root.reported(), "+d/sub");
}

#[test]
fn too_many_changes_overflow_and_watch_continues() {
    let served = serve();
    let mut root = served.watch("", NAMES, false);
    for number in 0..101 {
        served.put(&number.to_string(), b"");
    }
    root.wish.room_bytes = usize::MAX;
    assert_eq!(root.reported(), "Overflow");
    served.put("next", b"");
    assert_eq!(root.reported(), "+next");
}

#[test]
fn watch_buffer_is_bounded_despite_requested_room() {
    let served = serve();
    let open = served.open("", READ);
    let half = |length, _: &WatchChange| length + WATCH_BYTES_MAX / 2;
    let wish = WatchWish { room_bytes: usize::MAX, measure: half, ..wish(NAMES, false) };
    let watched = WatchedDirectory { served: &served, open, wish };
    assert_eq!(watched.reported(), "");
    served.put("a", b"");
    served.put("b", b"");
    assert_eq!(watched.reported(), "+a +b");
    remove(&served, "a");
    remove(&served, "b");
    served.put("c", b"");
    assert_eq!(watched.reported(), "Overflow");
}

/// Watches directories one after the other until a watch is refused.
fn watch_all(
    served: &ServedVolume,
    names: &[String],
    by: &str,
) -> (Vec<Arc<OpenFile>>, Option<FsError>) {
    let mut opens = Vec::new();
    for name in names {
        let open = served.open(name, READ);
        let holder = LedgerHolder::User(by.into());
        let begun = served.files.watch(&open, &wish(NAMES, false), &holder);
        opens.push(open);
        if let Err(error) = begun {
            return (opens, Some(error));
        }
    }
    (opens, None)
}

#[test]
fn watches_of_one_user_leave_share_for_others() {
    let served = serve();
    let names: Vec<String> = (0..60).map(|number| format!("d{number}")).collect();
    names.iter().for_each(|name| served.put_directory(name));
    served.files.watches().set_max(80);
    let (hoarded, refusal) = watch_all(&served, &names, "hoarder");
    assert_eq!((hoarded.len(), refusal), (41, Some(FsError::TooMany)), "half of all");
    let (others, refusal) = watch_all(&served, &names[..16], "other");
    assert_eq!(refusal, None);
    hoarded.into_iter().chain(others).for_each(|open| served.close(open));
    assert_eq!((served.files.watches().usage().used, served.outside_watch_count()), (0, 0));
}

#[test]
fn watches_of_one_directory_are_bounded_by_user() {
    let served = serve();
    served.put_directory("d");
    let names = vec![String::new(); WATCHES_PER_DIRECTORY_MAX + 1];
    let (opens, refusal) = watch_all(&served, &names, "hoarder");
    assert_eq!((opens.len(), refusal), (names.len(), Some(FsError::TooMany)));
    assert_eq!(watch_all(&served, &["d".into()], "hoarder").1, None, "another directory");
    assert_eq!(watch_all(&served, &names[..1], "other").1, None, "another user");
    served.close(opens[0].clone());
    assert_eq!(watch_all(&served, &names[..1], "hoarder").1, None, "one has ended");
}

#[test]
fn changes_beyond_users_memory_overflow() {
    let served = serve();
    let root = served.watch("", NAMES, false);
    let bytes = served.files.watch_bytes();
    served.put("a", b"");
    let each = bytes.usage().used;
    assert!(each > 48, "the change itself takes as much");
    let due = root.ask();
    assert_eq!(bytes.usage().used, each, "an untaken answer");
    assert_eq!(shown(&now(due.answer())), "+a");
    assert_eq!(bytes.usage().used, 0);
    // Less than each user's reserve, while the total lasts.
    bytes.set_max(3 * each);
    for name in ["b", "c", "d"] {
        served.put(name, b"");
    }
    assert_eq!((bytes.usage().used, root.reported().as_str()), (3 * each, "+b +c +d"));
    for name in ["e", "f", "g", "h"] {
        served.put(name, b"");
    }
    assert_eq!((bytes.usage().used, root.reported().as_str()), (0, "Overflow"));
    assert_eq!(bytes.usage().refused, 1);
}

#[test]
fn watch_ends_with_its_open() {
    let served = serve();
    let (root, other) = (served.watch("", NAMES, true), served.watch("", NAMES, true));
    let (first, second) = (root.ask().answer(), root.ask().answer());
    served.close(root.open.clone());
    assert_eq!(now(first), WatchAnswer::Closed);
    assert_eq!(now(second), WatchAnswer::Closed);
    assert_eq!(root.reported(), "Closed");
    served.put("f", b"");
    assert_eq!(other.reported(), "+f");
    drop((root, other));
    served.assert_nothing_held();
}

#[test]
fn closed_open_cannot_be_watched() {
    let served = serve();
    let open = served.open("", READ);
    served.close(open.clone());
    let watched = WatchedDirectory { served: &served, open, wish: wish(NAMES, false) };
    assert_eq!(watched.reported(), "Closed");
    assert_eq!(served.outside_watch_count(), 0);
}

#[test]
fn delete_pending_ends_waiting_watch_requests() {
    let served = serve();
    served.put_directory("d");
    let watch = served.watch("d", NAMES, false);
    let waits = watch.ask().answer();
    let open = served.open("d", DELETE);
    served.files.set_delete(&open, true, false).unwrap();
    assert_eq!(now(waits), WatchAnswer::DeletePending);
    assert_eq!(watch.reported(), "DeletePending");
    served.files.set_delete(&open, false, false).unwrap();
    let waits = watch.ask().answer();
    served.put("d/f", b"");
    assert_eq!(shown(&now(waits)), "+f", "it was spared");
    remove(&served, "d/f");
    assert_eq!(watch.reported(), "-f");
    let waits = watch.ask().answer();
    let at_close = OpenPlan { delete_on_close: true, ..plan("d", DELETE) };
    served.close(served.try_open(at_close).unwrap().open);
    assert_eq!(now(waits), WatchAnswer::DeletePending);
}

#[test]
fn watch_follows_renamed_directory() {
    let served = serve();
    served.put_directory("d");
    let (inner, root) = (served.watch("d", NAMES, false), served.watch("", NAMES, true));
    rename(&served, "d", "e", false);
    served.put("e/f", b"");
    served.put_directory("d");
    served.put("d/g", b"");
    assert_eq!(inner.reported(), "+f");
    assert_eq!(root.reported(), "<d >e +e/f +d +d/g");
    drop(inner);
    served.put("e/h", b"");
    assert_eq!(root.reported(), "+e/h");
}

#[test]
fn dropped_watch_request_loses_no_change() {
    let served = serve();
    let root = served.watch("", NAMES, false);
    let (dropped, kept) = (root.ask(), root.ask().answer());
    drop(dropped);
    served.put("a", b"");
    assert_eq!(shown(&now(kept)), "+a");
    let answered = root.ask();
    served.put("b", b"");
    drop(answered);
    served.put("c", b"");
    assert_eq!(root.reported(), "+b +c");
}

#[test]
fn watch_needs_list_right() {
    let served = serve();
    served.put("f", b"");
    let refusal = |open: &Arc<OpenFile>| {
        let wish = wish(NAMES, false);
        served.files.watch(open, &wish, &somebody()).expect_err("it must be refused")
    };
    assert_eq!(refusal(&served.open("f", READ)), FsError::InvalidParameter);
    assert_eq!(refusal(&served.open("", LOOK)), FsError::AccessDenied);
}

#[test]
fn unlistable_directory_is_not_reported_to_watch() {
    let served = serve_with(
        VolumeOptions { directory_mode: 0o700, file_mode: 0o600, ..VolumeOptions::default() },
        Arc::new(Inline),
    );
    if !served.is_root {
        return;
    }
    let bob = user(4002, 4002);
    served.put_directory("private");
    let root = served.watch("", NAMES, true);
    let others = served.watch_as(&bob, "", NAMES, true);
    served.put("private/secret", b"");
    remove(&served, "private/secret");
    remove(&served, "private");
    assert_eq!(others.reported(), "-private");
    assert_eq!(root.reported(), "+private/secret -private/secret -private");
}

#[test]
fn volumes_of_one_tree_share_watches() {
    let served = serve();
    let root = served.watch("", NAMES, false);
    let volume = Arc::new(served.volume.with_options(VolumeOptions::default()));
    let made = now(served.files.open(&volume, &served.alice, new_file("f"))).unwrap();
    served.close(made.open);
    assert_eq!(root.reported(), "+f");
}

#[test]
fn failed_create_is_reported_as_added_and_removed() {
    let served = serve();
    let root = served.watch("", NAMES, false);
    let too_much = OpenPlan { allocation_bytes: Some(u64::MAX), ..new_file("f") };
    assert!(served.try_open(too_much).is_err());
    assert!(!served.exists("f"));
    assert_eq!(root.reported(), "+f -f");
}

#[test]
fn local_changes_are_reported_to_directory_watch() {
    let served = serve();
    served.put_directory("d");
    let of = |text: &str| ExternalName { name: name(text), is_directory: false };
    let (inner, root) =
        (served.watch("d", NAMES, true), served.watch("d", WatchFilter::SIZE, false));
    assert_eq!(served.outside_watch_count(), 2);
    served.somebody_did(&ExternalChange::Added(of("a")));
    served.somebody_did(&ExternalChange::Renamed(of("a"), name("b")));
    served.somebody_did(&ExternalChange::DataModified(of("b")));
    served.somebody_did(&ExternalChange::Removed(of("b")));
    assert_eq!(inner.reported(), "+a <a >b -b");
    assert_eq!(root.reported(), "!b");
    let waits = inner.ask().answer();
    served.somebody_did(&ExternalChange::AttributesModified(of("c")));
    served.somebody_did(&ExternalChange::Lost);
    assert_eq!(now(waits), WatchAnswer::Overflow);
    served.close(inner.open.clone());
    assert_eq!(served.outside_watch_count(), 1, "a watch ends with its open");
    drop((inner, root));
    assert_eq!(served.outside_watch_count(), 0);
}

fn of_stream(plan: OpenPlan, name: &str) -> OpenPlan {
    OpenPlan { stream: Some(StreamName::new(name.as_bytes()).unwrap()), ..plan }
}

const STREAMS: WatchFilter = WatchFilter(
    WatchFilter::STREAM_NAME.0 | WatchFilter::STREAM_SIZE.0 | WatchFilter::STREAM_WRITE.0,
);

#[test]
fn stream_changes_are_reported_with_file_name() {
    let served = serve();
    if !served.volume.has_streams() {
        return;
    }
    served.put_directory("d");
    let streams = served.watch("", STREAMS, true);
    let names = served.watch("", WatchFilter::STREAM_NAME | WatchFilter::FILE_NAME, true);
    let (sizes, data) = (
        served.watch("d", WatchFilter::SIZE, false),
        served.watch("d", WatchFilter::LAST_WRITE, false),
    );
    let open = served.try_open(of_stream(new_file("d/f"), "s")).unwrap().open;
    assert_eq!(names.reported(), "+d/f +d/f:s", "the file is new too");
    served.files.write(open.caller(), &open, 0, b"12").unwrap();
    assert_eq!(streams.reported(), "+d/f:s !d/f:s");
    served.close(open);
    assert_eq!(streams.reported(), "", "it was reported");
    assert_eq!(
        (sizes.reported(), data.reported()),
        (String::new(), "!f".into()),
        "its length is its own"
    );
    let open = served.try_open(of_stream(plan("d/f", ALL), "s")).unwrap().open;
    now(served.files.rename_stream(&open, &StreamName::new(&b"t"[..]).unwrap(), false)).unwrap();
    assert_eq!(streams.reported(), "-d/f:s +d/f:t");
    served.files.set_delete(&open, true, false).unwrap();
    served.close(open);
    assert_eq!(streams.reported(), "-d/f:t");
    assert_eq!(names.reported(), "-d/f:s +d/f:t -d/f:t");
    assert_eq!(sizes.reported(), "");
}

#[test]
fn overwritten_streams_are_reported_as_removed() {
    let served = serve();
    if !served.volume.has_streams() {
        return;
    }
    served.close(served.try_open(of_stream(new_file("f"), "s")).unwrap().open);
    let streams = served.watch("", STREAMS, false);
    let overwrite = |plan| OpenPlan { if_exists: IfExists::Overwrite, ..plan };
    served.close(served.try_open(of_stream(overwrite(plan("f", ALL)), "s")).unwrap().open);
    assert_eq!(streams.reported(), "!f:s");
    served.close(served.try_open(overwrite(plan("f", ALL))).unwrap().open);
    assert_eq!(streams.reported(), "-f:s");
    served.put_directory("d");
    let inner = served.watch("d", STREAMS, true);
    served.close(served.try_open(of_stream(new_file("d"), "s")).unwrap().open);
    assert_eq!(streams.reported(), "+d:s");
    assert_eq!(inner.reported(), "", "the watched directory is not in itself");
}

#[test]
fn local_changes_below_are_reported_to_tree_watch() {
    let served = serve();
    served.put_directory("d");
    served.put_directory("d/sub");
    let of = |text: &str| ExternalName { name: name(text), is_directory: false };
    let (tree, flat) = (served.watch("d", NAMES, true), served.watch("d", NAMES, false));
    let (root, sizes) = (served.watch("", NAMES, true), served.watch("", WatchFilter::SIZE, true));
    assert_eq!(served.outside_tree_count(), 3);
    served.somebody_did_in("d/sub", &ExternalChange::Added(of("a")));
    served.somebody_did_in("d/sub", &ExternalChange::Renamed(of("a"), name("b")));
    served.somebody_did_in("d/sub", &ExternalChange::DataModified(of("b")));
    served.somebody_did_in("dust", &ExternalChange::Added(of("c")));
    assert_eq!(tree.reported(), "+sub/a <sub/a >sub/b");
    assert_eq!(root.reported(), "+d/sub/a <d/sub/a >d/sub/b");
    assert_eq!(sizes.reported(), "!d/sub/b");
    // The directory's own watch reports this.
    served.somebody_did_in("d", &ExternalChange::Added(of("a")));
    assert_eq!(tree.reported(), "");
    assert_eq!(flat.reported(), "");
    drop((tree, flat, root, sizes));
    assert_eq!(served.outside_tree_count(), 0);
}

#[test]
fn local_changes_in_unlistable_directory_are_hidden() {
    let options =
        VolumeOptions { directory_mode: 0o700, file_mode: 0o600, ..VolumeOptions::default() };
    let served = serve_with(options, Arc::new(Inline));
    if !served.is_root {
        return;
    }
    served.put_directory("private");
    let bob = user(4002, 4002);
    let (root, others) = (served.watch("", NAMES, true), served.watch_as(&bob, "", NAMES, true));
    let secret = ExternalName { name: name("secret"), is_directory: false };
    served.somebody_did_in("private", &ExternalChange::Added(secret));
    assert_eq!((root.reported().as_str(), others.reported().as_str()), ("+private/secret", ""));
}
