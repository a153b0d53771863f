//! Claims against a model: random changes of names, polled in random order.
#![allow(clippy::unwrap_used, reason = "a test, which fails by it")]

use super::*;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;

/// Devices of the test: a share's root and a file system mounted below it.
const ROOT: u64 = 1;
const MOUNTED: u64 = 2;
/// Device of another share.
const OTHER: u64 = 5;

fn key(device: u64, inode: u64) -> FileKey {
    FileKey { device, inode }
}

fn change(inode: u64, is_directory: bool) -> TurnRequest {
    TurnRequest { root_device: ROOT, file: key(ROOT, inode), moves_directory: is_directory }
}

#[derive(Clone, Debug)]
enum TurnStep {
    /// Takes a turn for a file in up to two directories.
    Take { file: FileKey, is_directory: bool, directories: Vec<FileKey> },
    /// Takes a whole tree.
    TakeTree { root_device: u64 },
    /// Adds directories to a held turn; releases it if that is not possible.
    Add { turn: usize, directories: Vec<FileKey> },
    /// Drops a turn or a wait.
    Drop(usize),
    /// Polls a wait.
    Poll(usize),
}

/// Two of the devices are below the share of the third.
fn device() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(ROOT), 1 => Just(MOUNTED), 1 => Just(OTHER)]
}

fn keys(inodes: std::ops::Range<u64>) -> impl Strategy<Value = FileKey> {
    (device(), inodes).prop_map(|(device, inode)| key(device, inode))
}

fn step() -> impl Strategy<Value = TurnStep> {
    let directories = || prop::collection::vec(keys(100..104), 0..3);
    prop_oneof![
        4 => (keys(0..4), prop::bool::weighted(0.1), directories()).prop_map(
            |(file, is_directory, directories)| TurnStep::Take { file, is_directory, directories }
        ),
        1 => device().prop_map(|root_device| TurnStep::TakeTree { root_device }),
        2 => (0..8_usize, directories())
            .prop_map(|(turn, directories)| TurnStep::Add { turn, directories }),
        3 => (0..16_usize).prop_map(TurnStep::Drop),
        3 => (0..16_usize).prop_map(TurnStep::Poll),
    ]
}

/// Each claim that a change relies on is in its turn, or its tree is.
fn assert_claims(turn: &RenameTurn, directories: &[FileKey]) {
    let whole = turn.trees(|claim| claim.is_exclusive);
    for wanted in directories {
        let is_claimed = turn.claims.contains(&directory(*wanted));
        assert!(is_claimed || whole.contains(TreeSet::of(wanted.device)), "{wanted:?}: {turn:?}");
        assert!(turn.trees(|_| true).contains(TreeSet::of(wanted.device)), "{turn:?}");
    }
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
        turns.note_device(ROOT, MOUNTED);
        let mut waits: Vec<BoxFuture<'_, RenameTurn>> = Vec::new();
        let mut held: Vec<RenameTurn> = Vec::new();
        for step in steps {
            match step {
                TurnStep::Take { file, is_directory, directories } => {
                    let turns = &turns;
                    waits.push(Box::pin(async move {
                        let root_device = if file.device == OTHER { OTHER } else { ROOT };
                        let change = TurnRequest { root_device, file, moves_directory: is_directory };
                        let turn = turns.take(&change, &directories).await;
                        assert_claims(&turn, &directories);
                        turn
                    }));
                }
                TurnStep::TakeTree { root_device } => {
                    let turns = &turns;
                    waits.push(Box::pin(async move { turns.take_tree(root_device).await }));
                }
                TurnStep::Add { turn: at, directories } if at < held.len() => {
                    match held[at].try_add_directories(&directories) {
                        true => assert_claims(&held[at], &directories),
                        false => drop(held.swap_remove(at)),
                    }
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
                TurnStep::Add { .. } | TurnStep::Drop(_) | TurnStep::Poll(_) => {}
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

/// Each of two changes holds one directory and waits for the other's, unless both claim them in the
/// same order.
#[test]
fn crossing_changes_do_not_wait_for_each_other_in_a_circle() {
    let turns = Arc::<RenameTurns>::default();
    let (a, b) = (key(ROOT, 100), key(ROOT, 101));
    let holders = [(8, a), (9, b)]
        .map(|(file, directory)| turns.try_take(&change(file, false), &[directory]).unwrap());
    let mut first = Box::pin(async { turns.take(&change(1, false), &[a, b]).await });
    let mut second = Box::pin(async { turns.take(&change(2, false), &[b, a]).await });
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    assert!(turns.try_take(&change(3, false), &[key(ROOT, 102)]).is_some());
    drop(holders);
    let (one, two) = (first.as_mut().now_or_never(), second.as_mut().now_or_never());
    assert!(one.is_some() && two.is_none(), "first come, first served");
    drop(one);
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

fn subject<'a>(root_device: u64, file: Option<FileKey>, path: &'a RelPath) -> RenameSubject<'a> {
    RenameSubject { root_device, file, path }
}

fn path(text: &str) -> RelPath {
    RelPath::of_bytes(text.as_bytes()).unwrap()
}

#[test]
fn directory_rename_concerns_opens_of_its_own_tree_only() {
    let turns = Arc::<RenameTurns>::default();
    let (epoch, at) = (turns.epoch(), path("f"));
    let is_current = |root| turns.is_current(epoch, subject(root, None, &at));
    let mounted =
        TurnRequest { root_device: MOUNTED, file: key(MOUNTED, 1), moves_directory: true };
    let turn = turns.try_take(&mounted, &[]).unwrap();
    let renaming = turns.begin_rename(&turn);
    assert_eq!((is_current(ROOT), is_current(MOUNTED)), (true, false));
    assert!(!turns.is_in_flight(subject(ROOT, None, &at)));
    turns.note_device(ROOT, MOUNTED);
    assert!(!is_current(ROOT) && turns.is_in_flight(subject(ROOT, None, &at)), "mounted below");
    drop(renaming);
    assert!(!is_current(ROOT), "it has ended since");
    assert!(!turns.is_in_flight(subject(ROOT, None, &at)));
    assert!(turns.is_current(turns.epoch(), subject(ROOT, None, &at)));
}

#[test]
fn file_rename_concerns_opens_of_the_file_and_by_its_names() {
    let turns = Arc::<RenameTurns>::default();
    let epoch = turns.epoch();
    let is_current = |file: u64, at: &str| {
        turns.is_current(epoch, subject(ROOT, Some(key(ROOT, file)), &path(at)))
    };
    let (from, to) = (path("a/x"), path("b/y"));
    let mut renaming = turns.begin_file_rename(key(ROOT, 1), &[&from, &to]);
    renaming.note_file(key(ROOT, 2));
    let concerned = [(1, "link"), (2, "link"), (3, "a/x"), (3, "b/y"), (3, "Y"), (3, "c/X")];
    let concerns_them = || !concerned.iter().any(|(file, at)| is_current(*file, at));
    assert!(concerns_them());
    // Other counts may coincide with a probability of 1 in 500 each; not these many.
    let others = || (10..60).filter(|file| is_current(*file, &format!("b/{file}"))).count();
    assert!(others() > 40, "{} of 50", others());
    assert!(turns.is_tree_current(epoch, ROOT), "no directory is renamed");
    drop(renaming);
    assert!(concerns_them(), "it has ended since");
    assert!(others() > 40, "{} of 50", others());
    assert!(turns.is_current(turns.epoch(), subject(ROOT, Some(key(ROOT, 1)), &to)));
}

#[test]
fn dropped_waits_leave_no_entry_and_delay_no_rename() {
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
