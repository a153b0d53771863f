//! State of a single watch.

use super::super::ChangeAction;
use super::*;
use proptest::prelude::*;
use vfs::{Name, RelPath};

/// Four bytes and the name, without padding.
fn measure(length_bytes: usize, change: &WatchChange) -> usize {
    length_bytes + 4 + change.path.as_bytes().len()
}

fn change(kind: ChangeAction, name: &str) -> WatchChange {
    WatchChange {
        kind,
        path: RelPath::from_iter([Name::new(name.as_bytes()).unwrap()]),
        stream: None,
    }
}

fn added(name: &str) -> WatchChange {
    change(ChangeAction::Added, name)
}

fn watch(room_bytes: usize) -> WatchState {
    WatchState::new(room_bytes, measure)
}

fn changes_of(names: &[&str]) -> WatchAnswer {
    WatchAnswer::Changes(names.iter().map(|name| added(name)).collect())
}

#[test]
fn request_waits_for_change_and_later_ones_are_buffered() {
    let mut watch = watch(100);
    let first = watch.handle_request(100);
    assert_eq!(watch.poll_answer(), None);
    watch.handle_change(added("a"));
    assert_eq!(watch.poll_answer(), Some((first, changes_of(&["a"]))));
    watch.handle_change(added("b"));
    watch.handle_change(added("c"));
    assert_eq!(watch.poll_answer(), None);
    let second = watch.handle_request(100);
    assert_eq!(watch.poll_answer(), Some((second, changes_of(&["b", "c"]))));
}

#[test]
fn repeated_change_is_reported_once() {
    let mut watch = watch(100);
    for name in ["a", "a", "b", "a"] {
        watch.handle_change(added(name));
    }
    let id = watch.handle_request(100);
    assert_eq!(watch.poll_answer(), Some((id, changes_of(&["a", "b", "a"]))));
}

#[test]
fn changes_beyond_first_room_overflow_once() {
    let mut watch = watch(10);
    watch.handle_change(added("a"));
    watch.handle_change(added("b"));
    watch.handle_change(added("c"));
    let id = watch.handle_request(1000);
    assert_eq!(watch.poll_answer(), Some((id, WatchAnswer::Overflow)));
    let id = watch.handle_request(1000);
    assert_eq!(watch.poll_answer(), None);
    watch.handle_change(added("d"));
    watch.handle_change(added("e"));
    assert_eq!(watch.poll_answer(), Some((id, changes_of(&["d", "e"]))), "10 bytes fit exactly");
}

#[test]
fn changes_too_large_for_request_overflow() {
    let mut watch = watch(100);
    watch.handle_change(added("a"));
    let id = watch.handle_request(4);
    assert_eq!(watch.poll_answer(), Some((id, WatchAnswer::Overflow)));
    watch.handle_request(100);
    assert_eq!(watch.poll_answer(), None);
}

#[test]
fn requests_are_answered_in_order_without_cancelled_ones() {
    let mut watch = watch(100);
    let ids = [(); 3].map(|()| watch.handle_request(100));
    assert!(watch.handle_cancel(ids[0]));
    watch.handle_change(added("a"));
    assert_eq!(watch.poll_answer(), Some((ids[1], changes_of(&["a"]))));
    assert_eq!(watch.poll_answer(), None);
    assert!(!watch.handle_cancel(ids[1]), "it was answered");
    watch.handle_change(added("b"));
    assert_eq!(watch.poll_answer(), Some((ids[2], changes_of(&["b"]))));
}

#[test]
fn undelivered_answer_precedes_later_changes() {
    let mut watch = watch(100);
    watch.handle_request(100);
    watch.handle_change(added("a"));
    let (_, undelivered) = watch.poll_answer().unwrap();
    watch.handle_change(added("b"));
    watch.handle_undelivered(undelivered);
    let id = watch.handle_request(100);
    assert_eq!(watch.poll_answer(), Some((id, changes_of(&["a", "b"]))));
    watch.handle_undelivered(WatchAnswer::Overflow);
    let id = watch.handle_request(100);
    assert_eq!(watch.poll_answer(), Some((id, WatchAnswer::Overflow)));
}

#[test]
fn delete_pending_directory_answers_until_cancelled() {
    let mut watch = watch(100);
    let ids = [(); 2].map(|()| watch.handle_request(100));
    watch.handle_end(WatchEnd::DeletePending);
    for id in ids {
        assert_eq!(watch.poll_answer(), Some((id, WatchAnswer::DeletePending)));
    }
    let id = watch.handle_request(100);
    assert_eq!(watch.poll_answer(), Some((id, WatchAnswer::DeletePending)));
    watch.handle_delete_cancelled();
    let id = watch.handle_request(100);
    assert_eq!(watch.poll_answer(), None);
    watch.handle_end(WatchEnd::Closed);
    watch.handle_delete_cancelled();
    watch.handle_end(WatchEnd::DeletePending);
    assert_eq!(watch.poll_answer(), Some((id, WatchAnswer::Closed)), "closed is closed");
}

#[derive(Clone, Debug)]
enum WatchStep {
    Change(u8),
    Request(usize),
    Cancel(usize),
    Undelivered,
}

fn step() -> impl Strategy<Value = WatchStep> {
    prop_oneof![
        4 => (0u8..4).prop_map(WatchStep::Change),
        2 => (0usize..40).prop_map(WatchStep::Request),
        1 => (0usize..4).prop_map(WatchStep::Cancel),
        1 => Just(WatchStep::Undelivered),
    ]
}

proptest! {
    /// A client that polls receives every change in order, or an overflow.
    #[test]
    fn each_change_is_reported_in_order_or_overflows(
        room in 0usize..40,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut watch = watch(room);
        let mut happened: Vec<WatchChange> = Vec::new();
        let mut reported: Vec<WatchChange> = Vec::new();
        let mut line: Vec<(RequestId, usize)> = Vec::new();
        let mut undelivered = false;
        for step in steps {
            match step {
                WatchStep::Change(number) => {
                    let change = added(&number.to_string());
                    watch.handle_change(change.clone());
                    happened.push(change);
                }
                WatchStep::Request(room) => line.push((watch.handle_request(room), room)),
                WatchStep::Cancel(at) if at < line.len() => {
                    prop_assert!(watch.handle_cancel(line.remove(at).0));
                }
                WatchStep::Cancel(_) => {}
                WatchStep::Undelivered => undelivered = true,
            }
            while let Some((id, answer)) = watch.poll_answer() {
                let (first, request_room) = line.remove(0);
                prop_assert_eq!(id, first);
                if std::mem::take(&mut undelivered) {
                    watch.handle_undelivered(answer);
                    continue;
                }
                match answer {
                    WatchAnswer::Changes(changes) => {
                        let bytes = changes.iter().fold(0, measure);
                        prop_assert!(!changes.is_empty() && bytes <= room.min(request_room));
                        reported.extend(changes);
                    }
                    _ => reported.clone_from(&happened),
                }
            }
            let mut expected = happened.clone();
            expected.dedup();
            reported.dedup();
            prop_assert!(expected.starts_with(&reported), "{:?} {:?}", expected, reported);
            prop_assert!(line.is_empty() || reported == expected, "someone waits in vain");
        }
    }
}

#[test]
fn excess_data_changes_wait_for_tick_or_other_change() {
    let mut watch = watch(100);
    let modified = |name: &str| change(ChangeAction::Modified, name);
    for name in ["a", "b", "c", "d", "e", "d"] {
        watch.handle_data_change(modified(name));
    }
    let taken = |watch: &mut WatchState| {
        watch.handle_request(100);
        watch.poll_answer().map(|(_, answer)| answer)
    };
    let changes_of =
        |names: &[&str]| WatchAnswer::Changes(names.iter().map(|name| modified(name)).collect());
    assert_eq!(taken(&mut watch), Some(changes_of(&["a", "b", "c"])));
    assert!(watch.memory_bytes() > 0 && watch.has_reported(&modified("d")));
    assert!(watch.handle_tick());
    assert_eq!(taken(&mut watch), Some(changes_of(&["d", "e"])));
    assert_eq!(watch.memory_bytes(), 0);
    for name in ["a", "b", "c"] {
        watch.handle_data_change(modified(name));
    }
    watch.handle_change(added("new"));
    let changes = [modified("a"), modified("b"), modified("c"), added("new")];
    assert_eq!(taken(&mut watch), Some(WatchAnswer::Changes(changes.into())));
    assert!(!watch.handle_tick());
}

/// Answers to a client that always polls, for data changes of these names.
fn answers_to(watch: &mut WatchState, names: std::ops::Range<usize>) -> Vec<WatchAnswer> {
    let mut answers = Vec::new();
    for number in names {
        watch.handle_data_change(change(ChangeAction::Modified, &number.to_string()));
        assert!(watch.deferred.len() <= DEFERRED_MAX);
        answers.extend(next_answer(watch));
    }
    answers
}

fn next_answer(watch: &mut WatchState) -> Option<WatchAnswer> {
    let request = watch.handle_request(1 << 20);
    let answer = watch.poll_answer();
    watch.handle_cancel(request);
    answer.map(|(_, answer)| answer)
}

fn modified(numbers: std::ops::Range<usize>) -> WatchAnswer {
    let one = |number: usize| change(ChangeAction::Modified, &number.to_string());
    WatchAnswer::Changes(numbers.map(one).collect())
}

#[test]
fn deferred_changes_are_bounded_without_duplicates() {
    let mut watch = watch(1 << 20);
    let at_once = [modified(0..1), modified(1..2), modified(2..3)];
    assert_eq!(answers_to(&mut watch, 0..3 + DEFERRED_MAX), at_once);
    assert!(watch.handle_tick());
    assert_eq!(next_answer(&mut watch), Some(modified(3..3 + DEFERRED_MAX)));
    assert_eq!((next_answer(&mut watch), watch.memory_bytes()), (None, 0));
}

#[test]
fn thousand_changed_names_cost_four_answers_a_tick() {
    let mut watch = watch(1 << 20);
    let answers = answers_to(&mut watch, 0..1000);
    let at_once = [modified(0..1), modified(1..2), modified(2..3), WatchAnswer::Overflow];
    assert_eq!(answers, at_once);
    for _ in 0..3 {
        assert!(watch.handle_tick());
        assert_eq!(next_answer(&mut watch), Some(WatchAnswer::Overflow), "of the later ones");
        let answers = answers_to(&mut watch, 0..1000);
        assert_eq!(answers, [modified(0..1), modified(1..2), WatchAnswer::Overflow]);
    }
    // An added name is reported meanwhile, and the tick's answer stays due.
    watch.handle_change(added("new"));
    assert_eq!(next_answer(&mut watch), Some(changes_of(&["new"])));
    assert!(watch.handle_tick());
    assert_eq!(next_answer(&mut watch), Some(WatchAnswer::Overflow));
    assert!(!watch.handle_tick());
    assert_eq!((next_answer(&mut watch), watch.memory_bytes()), (None, 0));
}

#[test]
fn deferred_changes_outlive_cancelled_delete_pending() {
    let mut watch = watch(1 << 20);
    assert_eq!(answers_to(&mut watch, 0..5).len(), 3);
    watch.handle_end(WatchEnd::DeletePending);
    assert!(watch.handle_tick(), "they still wait");
    watch.handle_delete_cancelled();
    assert!(watch.handle_tick());
    assert_eq!(next_answer(&mut watch), Some(modified(3..5)));
    // Changes in between are not buffered: the client enumerates.
    let changes: [fn(&mut WatchState); 2] = [
        |watch| watch.handle_change(added("new")),
        |watch| watch.handle_data_change(change(ChangeAction::Modified, "new")),
    ];
    for happens in changes {
        watch.handle_end(WatchEnd::DeletePending);
        happens(&mut watch);
        watch.handle_delete_cancelled();
        assert_eq!(next_answer(&mut watch), Some(WatchAnswer::Overflow));
    }
    assert_eq!((next_answer(&mut watch), watch.memory_bytes()), (None, 0));
}
