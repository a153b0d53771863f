//! Claims against a model: random changes of names, polled in random order.
#![allow(clippy::unwrap_used, reason = "a test, which fails by it")]

use super::*;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;

/// Devices of the test: a share's root and a file system mounted below it.
const ROOT: u64 = 1;
const MOUNTED: u64 = 2;

fn key(device: u64, inode: u64) -> FileKey {
    FileKey { device, inode }
}

fn change(inode: u64, is_directory: bool) -> TurnRequest {
    TurnRequest { root_device: ROOT, file: key(ROOT, inode), moves_directory: is_directory }
}

#[derive(Clone, Debug)]
enum TurnStep {
    /// Takes a turn for a file in up to two directories.
    Take { file: u64, is_directory: bool, directories: Vec<u64> },
    /// Drops a turn or a wait.
    Drop(usize),
    /// Polls a wait.
    Poll(usize),
}

fn step() -> impl Strategy<Value = TurnStep> {
    let directories = prop::collection::vec(100..104_u64, 0..3);
    prop_oneof![
        (0..4_u64, prop::bool::weighted(0.1), directories).prop_map(
            |(file, is_directory, directories)| TurnStep::Take { file, is_directory, directories }
        ),
        (0..16_usize).prop_map(TurnStep::Drop),
        (0..16_usize).prop_map(TurnStep::Poll),
    ]
}

fn conflicts(a: &RenameTurn, b: &RenameTurn) -> bool {
    a.claims.iter().any(|one| {
        b.claims
            .iter()
            .any(|two| one.subject == two.subject && (one.is_exclusive || two.is_exclusive))
    })
}

proptest! {
    /// No two turns conflict, and when nobody holds a turn, the first waiter gets one.
    #[test]
    fn random_claims_exclude_each_other_and_all_are_granted(steps in prop::collection::vec(step(), 1..80)) {
        let turns = Arc::<RenameTurns>::default();
        let mut waits: Vec<BoxFuture<'_, RenameTurn>> = Vec::new();
        let mut held: Vec<RenameTurn> = Vec::new();
        for step in steps {
            match step {
                TurnStep::Take { file, is_directory, directories } => {
                    let turns = &turns;
                    let wait = async move {
                        let keys: Vec<_> = directories.iter().map(|d| key(ROOT, *d)).collect();
                        turns.take(&change(file, is_directory), &keys).await
                    };
                    waits.push(Box::pin(wait));
                }
                TurnStep::Drop(at) if at < held.len() => drop(held.swap_remove(at)),
                TurnStep::Drop(at) if at - held.len() < waits.len() => {
                    drop(waits.remove(at - held.len()));
                }
                TurnStep::Poll(at) if at < waits.len() => {
                    if let Some(turn) = waits[at].as_mut().now_or_never() {
                        drop(waits.remove(at));
                        held.push(turn);
                    }
                }
                TurnStep::Drop(_) | TurnStep::Poll(_) => {}
            }
            for (at, one) in held.iter().enumerate() {
                prop_assert!(!held[at + 1..].iter().any(|two| conflicts(one, two)));
            }
        }
        drop(held);
        while !waits.is_empty() {
            let before = waits.len();
            waits.retain_mut(|wait| wait.as_mut().now_or_never().is_none());
            prop_assert!(waits.len() < before, "{before} changes wait for each other");
        }
        prop_assert!(turns.queues.lock().by_subject.is_empty());
    }
}

#[test]
fn crossing_changes_do_not_wait_for_each_other_in_a_circle() {
    let turns = Arc::<RenameTurns>::default();
    let (a, b) = (key(ROOT, 100), key(ROOT, 101));
    let first = turns.try_take(&change(1, false), &[a, b]).unwrap();
    let mut second = Box::pin(async { turns.take(&change(2, false), &[b, a]).await });
    assert!(second.as_mut().now_or_never().is_none());
    assert!(turns.try_take(&change(3, false), &[key(ROOT, 102)]).is_some());
    drop(first);
    assert!(second.now_or_never().is_some());
}

#[test]
fn change_of_directory_waits_for_files_and_holds_up_later_ones() {
    let turns = Arc::<RenameTurns>::default();
    let file = turns.try_take(&change(1, false), &[]).unwrap();
    let mut directory = Box::pin(async { turns.take(&change(2, true), &[]).await });
    assert!(directory.as_mut().now_or_never().is_none());
    assert!(turns.try_take(&change(3, false), &[]).is_none(), "it would overtake");
    let elsewhere = TurnRequest { root_device: 77, file: key(77, 3), moves_directory: true };
    assert!(turns.try_take(&elsewhere, &[]).is_some());
    drop(file);
    let mut directory = directory.now_or_never().unwrap();
    assert!(directory.try_add_directories(&[key(ROOT, 100)]), "the tree is claimed");
}

#[test]
fn directory_of_unclaimed_file_system_needs_a_new_turn() {
    let turns = Arc::<RenameTurns>::default();
    let mut turn = turns.try_take(&change(1, false), &[]).unwrap();
    assert!(turn.try_add_directories(&[key(ROOT, 100), key(ROOT, 100)]));
    assert!(turn.try_add_directories(&[key(ROOT, 100)]), "it is claimed already");
    assert!(!turn.try_add_directories(&[key(MOUNTED, 100)]));
    drop(turn);
    let mut turn = turns.try_take(&change(1, false), &[key(MOUNTED, 100)]).unwrap();
    assert!(turn.try_add_directories(&[key(MOUNTED, 101)]));
    drop(turn);
    assert!(turns.queues.lock().by_subject.is_empty());
}

#[test]
fn epoch_sees_renames_of_its_own_tree_only() {
    let turns = Arc::<RenameTurns>::default();
    let before = turns.epoch(ROOT).unwrap();
    let mounted =
        TurnRequest { root_device: MOUNTED, file: key(MOUNTED, 1), moves_directory: false };
    let turn = turns.try_take(&mounted, &[]).unwrap();
    let renaming = turns.begin_rename(&turn);
    assert_eq!((turns.epoch(ROOT), turns.epoch(MOUNTED)), (Some(before), None));
    turns.note_device(ROOT, MOUNTED);
    assert_eq!(turns.epoch(ROOT), None, "it is mounted below");
    drop(renaming);
    assert_ne!(turns.epoch(ROOT).unwrap(), before);
}

#[test]
fn dropped_waits_leave_no_entry_and_hold_up_nobody() {
    let turns = Arc::<RenameTurns>::default();
    let file = turns.try_take(&change(1, false), &[]).unwrap();
    let mut whole = Box::pin(async { turns.take_tree(ROOT).await });
    assert!(whole.as_mut().now_or_never().is_none());
    let mut behind = Box::pin(async { turns.take(&change(2, false), &[]).await });
    assert!(behind.as_mut().now_or_never().is_none(), "first come, first served");
    let mut again = Box::pin(async { turns.take(&change(1, false), &[]).await });
    assert!(again.as_mut().now_or_never().is_none());
    let waiting =
        || turns.queues.lock().by_subject.values().map(|queue| queue.waiting.len()).sum::<usize>();
    assert_eq!(waiting(), 3);
    drop(whole);
    assert_eq!(waiting(), 0, "the tree is shared again");
    assert!(behind.now_or_never().is_some());
    assert!(again.as_mut().now_or_never().is_none(), "the file is claimed");
    assert_eq!(waiting(), 1);
    drop(again);
    assert_eq!(waiting(), 0);
    drop(file);
    assert!(turns.queues.lock().by_subject.is_empty());
}
