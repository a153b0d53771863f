//! Byte ranges of a file: its data, the copied part, and the blocks that remain.

use std::ops::Range;

/// Disjoint ranges in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    parts: Vec<Range<u64>>,
}

impl Ranges {
    /// The whole of a file of `size_bytes`.
    #[must_use]
    pub fn all(size_bytes: u64) -> Self {
        let mut all = Self::default();
        all.insert(0..size_bytes);
        all
    }

    /// The union of `parts`, which may overlap and stand in any order.
    #[must_use]
    pub fn of(mut parts: Vec<Range<u64>>) -> Self {
        parts.retain(|part| part.start < part.end);
        parts.sort_by_key(|part| part.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(parts.len());
        for part in parts {
            match joined.last_mut() {
                Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
                _ => joined.push(part),
            }
        }
        Self { parts: joined }
    }

    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        let mut parts = std::mem::take(&mut self.parts);
        parts.push(range);
        *self = Self::of(parts);
    }

    /// Total length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.end - part.start).sum()
    }

    /// The ranges.
    #[must_use]
    pub fn parts(&self) -> &[Range<u64>] {
        &self.parts
    }

    /// The set difference: bytes of `self` that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut taken = other.parts.iter().peekable();
        for part in &self.parts {
            let mut start = part.start;
            while let Some(hole) = taken.peek() {
                if hole.end <= start {
                    taken.next();
                    continue;
                }
                if hole.start >= part.end {
                    break;
                }
                if hole.start > start {
                    left.push(start..hole.start);
                }
                start = hole.end;
                if hole.end >= part.end {
                    break;
                }
                taken.next();
            }
            if start < part.end {
                left.push(start..part.end);
            }
        }
        Self { parts: left }
    }

    /// Splits the ranges at multiples of `block_bytes`, so that blocks are the same in each run.
    pub fn blocks(&self, block_bytes: u32) -> impl Iterator<Item = Range<u64>> + '_ {
        let step = u64::from(block_bytes.max(1));
        self.parts.iter().flat_map(move |part| {
            let mut at = part.start;
            std::iter::from_fn(move || {
                if at >= part.end {
                    return None;
                }
                let end = ((at / step + 1).saturating_mul(step)).min(part.end);
                let block = at..end;
                at = end;
                Some(block)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn bytes(ranges: &Ranges) -> BTreeSet<u64> {
        ranges.parts().iter().cloned().flatten().collect()
    }

    fn some() -> impl Strategy<Value = Ranges> {
        proptest::collection::vec((0u64..60, 0u64..12), 0..8)
            .prop_map(|list| Ranges::of(list.into_iter().map(|(at, len)| at..at + len).collect()))
    }

    proptest! {
        #[test]
        fn difference_of_ranges_equals_difference_of_bytes(a in some(), b in some()) {
            let left = a.without(&b);
            let expected: BTreeSet<u64> = bytes(&a).difference(&bytes(&b)).copied().collect();
            prop_assert_eq!(bytes(&left), expected);
            prop_assert_eq!(left.bytes(), bytes(&left).len() as u64);
            prop_assert_eq!(Ranges::of(left.parts().to_vec()), left, "apart and in order");
        }

        #[test]
        fn blocks_cover_each_byte_once_and_end_at_multiples(a in some(), step in 1u32..9) {
            let blocks: Vec<_> = a.blocks(step).collect();
            let all: Vec<u64> = blocks.iter().cloned().flatten().collect();
            prop_assert_eq!(&all, &bytes(&a).into_iter().collect::<Vec<_>>());
            for block in blocks {
                prop_assert!(!block.is_empty());
                prop_assert_eq!(block.start / u64::from(step), (block.end - 1) / u64::from(step));
            }
        }
    }
}
