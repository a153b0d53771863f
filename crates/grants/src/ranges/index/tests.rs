//! The index against a plain list, with blocks small enough to split and merge all the time.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

#[derive(Clone, Debug)]
enum IndexStep {
    Insert(Interval<u64>),
    Remove(usize),
    Extract(u64, u64, u64),
}

fn interval() -> impl Strategy<Value = Interval<u64>> {
    (0..40u64, 0..12u64, 0..4u64).prop_map(|(first, length, holder)| Interval {
        first,
        last: first + length,
        holder,
    })
}

fn steps() -> impl Strategy<Value = Vec<IndexStep>> {
    let step = prop_oneof![
        6 => interval().prop_map(IndexStep::Insert),
        5 => any::<usize>().prop_map(IndexStep::Remove),
        1 => (0..4u64, 0..40u64, 0..40u64).prop_map(|(h, a, b)| IndexStep::Extract(h, a, b)),
    ];
    prop::collection::vec(step, 1..200)
}

fn agrees(index: &IntervalIndex<u64, 4>, list: &[Interval<u64>]) -> TestCaseResult {
    for from in 0..54 {
        for to in from.max(1) - 1..54 {
            for except in [None, Some(0), Some(2)] {
                let fits =
                    |i: &Interval<u64>| i.first <= to && i.last >= from && Some(i.holder) != except;
                let found = index.find(from, to, except);
                prop_assert_eq!(found.is_some(), list.iter().any(fits));
                prop_assert!(found.is_none_or(|i| fits(&i) && list.contains(&i)));
            }
        }
    }
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    for holder in 0..4 {
        for firsts in [(0, u64::MAX), (7, 21), (30, 30), (9, 3)] {
            let expected = sorted.iter().filter(|i| i.holder == holder && within(i.first, firsts));
            prop_assert!(index.of(holder, firsts).eq(expected.copied()));
        }
    }
    prop_assert_eq!(index.first(), sorted.first().map(|i| i.first));
    let sizes = index.blocks.iter().map(|block| block.intervals.len());
    prop_assert!(sizes.clone().all(|size| (1..=4).contains(&size)), "no block is empty");
    prop_assert!(index.blocks.len() <= 1 + list.len(), "blocks merge");
    Ok(())
}

proptest! {
    #[test]
    fn interval_index_agrees_with_plain_list(steps in steps()) {
        let mut index = IntervalIndex::<u64, 4>::default();
        let mut list: Vec<Interval<u64>> = Vec::new();
        for step in steps {
            match step {
                IndexStep::Insert(interval) => {
                    index.insert(interval);
                    list.push(interval);
                }
                IndexStep::Remove(at) if !list.is_empty() => {
                    let old = list.swap_remove(at % list.len());
                    prop_assert!(index.remove(&old));
                    let is_there = list.contains(&old);
                    prop_assert_eq!(index.remove(&old), is_there);
                    if is_there {
                        index.insert(old);
                    }
                }
                IndexStep::Remove(_) => {}
                IndexStep::Extract(holder, from, to) => {
                    let is_of = |i: &Interval<u64>| i.holder == holder && within(i.first, (from, to));
                    let mut expected: Vec<_> = list.extract_if(.., |i| is_of(i)).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(index.extract_of(holder, (from, to)), expected);
                }
            }
        }
        agrees(&index, &list)?;
    }
}

#[test]
fn ascending_intervals_fill_their_blocks() {
    let mut index = IntervalIndex::<u64>::default();
    for at in 0..6400 {
        index.insert(Interval { first: 2 * at, last: 2 * at, holder: 1 });
    }
    assert_eq!(index.blocks.len(), 100);
    for at in (0..6400).filter(|at| at % 64 != 0) {
        assert!(index.remove(&Interval { first: 2 * at, last: 2 * at, holder: 1 }));
    }
    let held: usize = index.blocks.iter().map(|block| block.intervals.capacity()).sum();
    assert!(held <= 800, "room for {held} where 100 are left");
    assert_eq!(index.extract_of(1, (0, u64::MAX)).len(), 100);
    assert!(index.first().is_none() && index.reaches.is_empty());
}
