//! Selection of the cuts that a run tries.

use super::recording::{CutPoint, DiskRecording, SplitMix, UnflushedFate};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Up to `count` different cuts within `range`, in the order of their numbers. Half of them, if
/// there are as many flushes, lose all requests after a flush at the latest point, where most is
/// promised.
pub fn choose(
    recording: &DiskRecording,
    range: RangeInclusive<usize>,
    count: usize,
    seed: u64,
) -> Vec<CutPoint> {
    let (first, last) = (*range.start(), *range.end());
    let mut random = SplitMix(seed);
    let flushes = recording.flushes().filter(|flush| range.contains(flush));
    let mut latest: Vec<usize> = flushes.chain([last]).collect();
    while latest.len() > count.div_ceil(2) {
        latest.swap_remove(random.below(latest.len() as u64) as usize);
    }
    let dropped = latest.into_iter().map(|at| CutPoint { at, unflushed: UnflushedFate::Dropped });
    let mut points: BTreeSet<CutPoint> = dropped.collect();
    // A draw without unflushed requests yields no cut, so there are more draws than cuts.
    for _ in 0..count * 50 {
        if points.len() >= count {
            break;
        }
        let at = first + random.below((last - first + 1) as u64) as usize;
        let seed = random.next();
        let unflushed = if random.below(3) == 0 {
            UnflushedFate::Kept
        } else {
            UnflushedFate::Partial(seed >> 32)
        };
        if recording.flushed_before(at) < at {
            points.insert(CutPoint { at, unflushed });
        }
    }
    points.into_iter().collect()
}

/// First and last point with the same disk after this cut: they bound the permitted and the
/// required content.
pub fn same_disk(recording: &DiskRecording, cut: CutPoint) -> [usize; 2] {
    match cut.unflushed {
        UnflushedFate::Dropped => [recording.flushed_before(cut.at), cut.at],
        UnflushedFate::Kept | UnflushedFate::Partial(_) => [cut.at, cut.at],
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::DiskRequest;
    use super::*;

    fn recording() -> DiskRecording {
        let mut recording = DiskRecording::default();
        for at in 0..100 {
            let write = DiskRequest::Write(at * 4096, vec![1; 4096].into());
            recording.push(at, if at % 10 == 9 { DiskRequest::Flush } else { write });
        }
        recording
    }

    #[test]
    fn chosen_points_are_distinct_sorted_and_as_many_as_asked_for() {
        let recording = recording();
        let points = choose(&recording, 20..=90, 100, 1);
        assert_eq!(points.len(), 100);
        assert!(points.is_sorted());
        assert_eq!(points, choose(&recording, 20..=90, 100, 1));
        assert_ne!(points, choose(&recording, 20..=90, 100, 2));
        let dropped = points.iter().filter(|p| p.unflushed == UnflushedFate::Dropped);
        let dropped: Vec<_> = dropped.map(|point| point.at).collect();
        assert_eq!(dropped, [29, 39, 49, 59, 69, 79, 89, 90]);
        assert!(points.iter().any(|point| point.unflushed == UnflushedFate::Kept));
    }

    #[test]
    fn dropped_disk_is_the_same_since_the_flush() {
        let cut = CutPoint { at: 25, unflushed: UnflushedFate::Dropped };
        assert_eq!(same_disk(&recording(), cut), [20, 25]);
    }
}
