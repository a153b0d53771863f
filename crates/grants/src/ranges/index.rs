//! Ordered intervals with holders. It finds an interval that meets a range, excluding one holder,
//! without examining the others.
//!
//! Blocks hold the intervals in order of their first byte. A tree over the blocks stores how far
//! their intervals reach: the farthest, and the farthest of another holder. The first block that
//! reaches a range has an interval that meets it, or none has, since all later blocks begin farther
//! on.

#[cfg(test)]
use std::cell::Cell;

/// Maximum of intervals in a block.
const BLOCK_MAX: usize = 64;

/// Bytes from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Interval<H> {
    pub first: u64,
    pub last: u64,
    pub holder: H,
}

/// Farthest end of some intervals, and the farthest of another holder.
#[derive(Clone, Copy, Debug)]
struct Reach<H> {
    farthest: Option<(u64, H)>,
    other: Option<(u64, H)>,
}

impl<H: Copy + Eq> Reach<H> {
    const NONE: Self = Self { farthest: None, other: None };

    fn add(&mut self, new: (u64, H)) {
        match self.farthest {
            Some(farthest) if farthest.1 == new.1 => {
                self.farthest = Some((farthest.0.max(new.0), new.1));
            }
            Some(farthest) if new.0 <= farthest.0 => {
                if self.other.is_none_or(|other| other.0 < new.0) {
                    self.other = Some(new);
                }
            }
            before => (self.farthest, self.other) = (Some(new), before),
        }
    }

    fn of_both(mut self, other: Self) -> Self {
        other.farthest.into_iter().chain(other.other).for_each(|reach| self.add(reach));
        self
    }

    /// Whether an interval of another holder than `except` reaches `from`.
    fn is_at(&self, from: u64, except: Option<H>) -> bool {
        let foreign = match self.farthest {
            Some((_, holder)) if Some(holder) == except => self.other,
            farthest => farthest,
        };
        foreign.is_some_and(|(last, _)| last >= from)
    }
}

/// Adjacent intervals, with their reach.
#[derive(Debug)]
struct IntervalBlock<H> {
    intervals: Vec<Interval<H>>,
    reach: Reach<H>,
}

/// Index of intervals; see the module. `BLOCK` is the maximum of intervals in a block.
#[derive(Debug)]
pub(super) struct IntervalIndex<H, const BLOCK: usize = BLOCK_MAX> {
    /// Blocks, none of them empty.
    blocks: Vec<IntervalBlock<H>>,
    /// A binary tree in a list: the root is 1, node n has the children 2n and 2n + 1, and indexes
    /// beyond the end are blocks.
    reaches: Vec<Reach<H>>,
    /// Intervals and reaches that were read or computed.
    #[cfg(test)]
    pub steps: Cell<u64>,
}

impl<H, const BLOCK: usize> Default for IntervalIndex<H, BLOCK> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            reaches: Vec::new(),
            #[cfg(test)]
            steps: Cell::default(),
        }
    }
}

impl<H: Copy + Ord, const BLOCK: usize> IntervalIndex<H, BLOCK> {
    /// An interval that begins at `to` or before and ends at `from` or later, of another holder
    /// than `except`. For a range, `from` is its first byte and `to` its last.
    pub fn find(&self, from: u64, to: u64, except: Option<H>) -> Option<Interval<H>> {
        let block = &self.blocks[self.first_block_at(from, except)?].intervals;
        self.count_steps(block.len());
        let mut begun = block.iter().take_while(|interval| interval.first <= to);
        begun.find(|i| i.last >= from && Some(i.holder) != except).copied()
    }

    /// Adds an interval; duplicates are retained.
    pub fn insert(&mut self, new: Interval<H>) {
        if self.blocks.is_empty() {
            let block = IntervalBlock { intervals: Vec::with_capacity(1), reach: Reach::NONE };
            self.blocks.push(block);
        }
        let at = self.block_of(&new);
        let is_full = self.blocks[at].intervals.len() >= BLOCK;
        let at = if is_full { self.split(at, &new) } else { at };
        let block = &mut self.blocks[at];
        let place = block.intervals.partition_point(|interval| *interval < new);
        block.intervals.insert(place, new);
        block.reach.add((new.last, new.holder));
        self.update(at, is_full || self.reaches.is_empty());
    }

    /// Removes an equal interval. Returns false if there is none.
    pub fn remove(&mut self, old: &Interval<H>) -> bool {
        if self.blocks.is_empty() {
            return false;
        }
        let at = self.block_of(old);
        let Ok(place) = self.blocks[at].intervals.binary_search(old) else { return false };
        self.blocks[at].intervals.remove(place);
        self.recompute(at);
        let is_merged = self.merge_with_next(at) || (at > 0 && self.merge_with_next(at - 1));
        self.update(at, is_merged);
        true
    }

    /// Removes intervals of a holder that begin within `firsts`.
    pub fn extract_of(&mut self, holder: H, firsts: (u64, u64)) -> Vec<Interval<H>> {
        let is_of = |i: &mut Interval<H>| i.holder == holder && within(i.first, firsts);
        let (from, to) = self.blocks_within(firsts);
        let mut extracted = Vec::new();
        for at in from..to {
            let before = extracted.len();
            extracted.extend(self.blocks[at].intervals.extract_if(.., is_of));
            if extracted.len() > before {
                self.recompute(at);
            }
        }
        if !extracted.is_empty() {
            for at in (from.saturating_sub(1)..to).rev() {
                self.merge_with_next(at);
            }
            self.update(0, true);
        }
        extracted
    }

    /// Intervals of a holder that begin within `firsts`, in order.
    pub fn of(&self, holder: H, firsts: (u64, u64)) -> impl Iterator<Item = Interval<H>> + '_ {
        let (from, to) = self.blocks_within(firsts);
        let all = self.blocks[from..to].iter().flat_map(|block| &block.intervals).copied();
        all.filter(move |i| i.holder == holder && within(i.first, firsts))
    }

    /// First byte of the first interval.
    pub fn first(&self) -> Option<u64> {
        self.blocks.first().map(|block| block.intervals[0].first)
    }

    /// The blocks with intervals that begin within `firsts`, and perhaps one before.
    fn blocks_within(&self, (from, to): (u64, u64)) -> (usize, usize) {
        let begins = |block: &IntervalBlock<H>| block.intervals[0].first;
        let end = self.blocks.partition_point(|block| begins(block) <= to);
        let start = self.blocks.partition_point(|block| begins(block) < from).saturating_sub(1);
        let range = (start.min(end), end);
        self.count_steps(self.blocks[range.0..range.1].iter().map(|b| b.intervals.len()).sum());
        range
    }

    /// The block that contains the interval, or where it belongs.
    fn block_of(&self, interval: &Interval<H>) -> usize {
        self.count_steps(1 + self.blocks.len().ilog2() as usize);
        let is_before =
            |block: &IntervalBlock<H>| block.intervals.first().is_some_and(|i| i <= interval);
        self.blocks.partition_point(is_before).saturating_sub(1)
    }

    /// Splits a full block, and returns the half for `new`.
    fn split(&mut self, at: usize, new: &Interval<H>) -> usize {
        let intervals = &mut self.blocks[at].intervals;
        // Ascending locks leave full blocks behind.
        let is_behind = intervals.last().is_some_and(|last| last <= new);
        let rest = if is_behind { Vec::new() } else { intervals.split_off(BLOCK / 2) };
        let belongs_behind = rest.first().is_none_or(|first| first <= new);
        self.blocks.insert(at + 1, IntervalBlock { intervals: rest, reach: Reach::NONE });
        self.recompute(at);
        self.recompute(at + 1);
        at + usize::from(belongs_behind)
    }

    /// Removes an empty block, or merges two sparse ones.
    fn merge_with_next(&mut self, at: usize) -> bool {
        if self.blocks.get(at).is_some_and(|block| block.intervals.is_empty()) {
            self.blocks.remove(at);
            return true;
        }
        let Some([block, next]) = self.blocks.get_mut(at..at + 2) else { return false };
        if block.intervals.len() + next.intervals.len() > BLOCK / 2 {
            return false;
        }
        block.intervals.append(&mut next.intervals);
        block.reach = block.reach.of_both(next.reach);
        self.blocks.remove(at + 1);
        true
    }

    fn first_block_at(&self, from: u64, except: Option<H>) -> Option<usize> {
        let inner = self.reaches.len();
        let mut node = 1;
        if !self.reach(node).is_at(from, except) {
            return None;
        }
        while node < inner {
            self.count_steps(1);
            node *= 2;
            node += usize::from(!self.reach(node).is_at(from, except));
        }
        Some(node - inner)
    }

    fn reach(&self, node: usize) -> Reach<H> {
        match node.checked_sub(self.reaches.len()) {
            None => self.reaches[node],
            Some(at) => self.blocks.get(at).map_or(Reach::NONE, |block| block.reach),
        }
    }

    /// Recomputes a block's reach after a removal.
    fn recompute(&mut self, at: usize) {
        let block = &mut self.blocks[at];
        let mut reach = Reach::NONE;
        block.intervals.iter().for_each(|i| reach.add((i.last, i.holder)));
        block.reach = reach;
        let count = block.intervals.len();
        if block.intervals.capacity() > 4 * count.max(1) {
            block.intervals.shrink_to(2 * count);
        }
        self.count_steps(count);
    }

    /// Updates the tree after a block or the number of blocks has changed.
    fn update(&mut self, at: usize, has_other_blocks: bool) {
        if has_other_blocks {
            let inner = match self.blocks.len() {
                0 => 0,
                blocks => blocks.next_power_of_two(),
            };
            self.reaches = vec![Reach::NONE; inner];
            (1..inner).rev().for_each(|node| self.compute(node));
            return;
        }
        let mut node = (self.reaches.len() + at) / 2;
        while node > 0 {
            self.compute(node);
            node /= 2;
        }
    }

    fn compute(&mut self, node: usize) {
        self.count_steps(1);
        self.reaches[node] = self.reach(2 * node).of_both(self.reach(2 * node + 1));
    }

    #[cfg(test)]
    fn count_steps(&self, steps: usize) {
        self.steps.set(self.steps.get() + steps as u64);
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the tests count")]
    fn count_steps(&self, _: usize) {}
}

fn within(first: u64, (from, to): (u64, u64)) -> bool {
    (from..=to).contains(&first)
}

#[cfg(test)]
mod tests;
