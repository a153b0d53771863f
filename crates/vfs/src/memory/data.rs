//! Sparse data of a file in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Allocation unit in bytes.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// Unit that a disk writes atomically.
const SECTOR_BYTES: u64 = 512;
const SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES;

/// Longest file in bytes, as on ext4.
pub(super) const SIZE_BYTES_MAX: u64 = 16 << 40;

/// A sparse array of bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct SparseBytes {
    blocks: BTreeMap<u64, Box<[u8; BLOCK_BYTES as usize]>>,
    size_bytes: u64,
}

/// Splits `offset..offset + length` at block boundaries into (block number, start in the block,
/// bytes).
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (block, start) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
        let count = (BLOCK_BYTES - start).min(end - at);
        at += count;
        Some((block, start as usize, count as usize))
    })
}

/// The blocks of a range. A client may request terabytes, so callers visit the allocated blocks,
/// not each block of the range.
fn touched(offset: u64, length: u64) -> Option<RangeInclusive<u64>> {
    let last = (offset + length).checked_sub(1).filter(|_| length > 0)?;
    Some(offset / BLOCK_BYTES..=last / BLOCK_BYTES)
}

impl SparseBytes {
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of the allocated blocks.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_BYTES
    }

    /// Bytes that allocating the range would add.
    pub(super) fn missing_bytes(&self, offset: u64, length: u64) -> u64 {
        let Some(touched) = touched(offset, length) else { return 0 };
        let all = touched.end() - touched.start() + 1;
        let present = self.blocks.range(touched).count() as u64;
        (all - present) * BLOCK_BYTES
    }

    /// Appends up to `length` bytes at `offset` to `into`; returns how many.
    pub(super) fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>) -> usize {
        let length = (length as u64).min(self.size_bytes.saturating_sub(offset));
        for (block, start, count) in pieces(offset, length) {
            match self.blocks.get(&block) {
                Some(bytes) => into.extend_from_slice(&bytes[start..start + count]),
                None => into.resize(into.len() + count, 0),
            }
        }
        length as usize
    }

    /// Writes `data`; the caller has checked its end against the limits.
    pub(super) fn write(&mut self, offset: u64, mut data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        for (block, start, count) in pieces(offset, data.len() as u64) {
            let (now, later) = data.split_at(count);
            self.block(block)[start..start + count].copy_from_slice(now);
            data = later;
        }
        self.size_bytes = self.size_bytes.max(end);
    }

    /// Allocates the blocks of the range.
    pub(super) fn allocate(&mut self, offset: u64, length: u64) {
        for (block, ..) in pieces(offset, length) {
            self.block(block);
        }
    }

    /// Zeroes the range and frees whole blocks.
    pub(super) fn punch_hole(&mut self, offset: u64, length: u64) {
        let Some(touched) = touched(offset, length) else { return };
        let present: Vec<u64> = self.blocks.range(touched).map(|(block, _)| *block).collect();
        for block in present {
            let begin = block * BLOCK_BYTES;
            let from = offset.max(begin) - begin;
            let to = (offset + length).min(begin + BLOCK_BYTES) - begin;
            if to - from == BLOCK_BYTES {
                self.blocks.remove(&block);
            } else if let Some(bytes) = self.blocks.get_mut(&block) {
                bytes[from as usize..to as usize].fill(0);
            }
        }
    }

    pub(super) fn set_size(&mut self, size_bytes: u64) {
        if size_bytes < self.size_bytes {
            self.blocks.split_off(&size_bytes.div_ceil(BLOCK_BYTES));
            if let Some(bytes) = self.blocks.get_mut(&(size_bytes / BLOCK_BYTES)) {
                bytes[(size_bytes % BLOCK_BYTES) as usize..].fill(0);
            }
        }
        self.size_bytes = size_bytes;
    }

    /// The first range of allocated blocks at or after `offset`, cut to the file.
    pub(super) fn seek_data(&self, offset: u64) -> Option<(u64, u64)> {
        let (first, _) = self.blocks.range(offset / BLOCK_BYTES..).next()?;
        let start = (first * BLOCK_BYTES).max(offset);
        if start >= self.size_bytes {
            return None;
        }
        let mut end = first + 1;
        while self.blocks.contains_key(&end) {
            end += 1;
        }
        Some((start, (end * BLOCK_BYTES).min(self.size_bytes)))
    }

    /// Content of the disk after a power loss. Each sector is the one written back (`self`) or the
    /// one in memory (`newer`), as `takes` decides. Sector number `u64::MAX` stands for the length.
    pub(super) fn mixed(&self, newer: &Self, mut takes: impl FnMut(u64) -> bool) -> Self {
        let size_bytes = if takes(u64::MAX) { newer.size_bytes } else { self.size_bytes };
        let mut mixed = self.clone();
        mixed.set_size(self.size_bytes.max(newer.size_bytes));
        let blocks: BTreeSet<u64> =
            self.blocks.keys().chain(newer.blocks.keys()).copied().collect();
        for sector in blocks.iter().flat_map(|b| b * SECTORS..(b + 1) * SECTORS) {
            if takes(sector) {
                let mut bytes = Vec::new();
                newer.read(sector * SECTOR_BYTES, SECTOR_BYTES as usize, &mut bytes);
                bytes.resize(SECTOR_BYTES as usize, 0);
                mixed.write(sector * SECTOR_BYTES, &bytes);
            }
        }
        mixed.set_size(size_bytes);
        mixed
    }

    fn block(&mut self, block: u64) -> &mut [u8; BLOCK_BYTES as usize] {
        self.blocks.entry(block).or_insert_with(|| Box::new([0; BLOCK_BYTES as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_spans_blocks_and_holes_read_as_zeros() {
        let mut data = SparseBytes::default();
        data.write(BLOCK_BYTES * 3 - 2, b"abcd");
        let mut read = Vec::new();
        assert_eq!(data.read(BLOCK_BYTES * 3 - 4, 100, &mut read), 6);
        assert_eq!(read, b"\0\0abcd");
        assert_eq!(data.allocated_bytes(), 2 * BLOCK_BYTES);
        assert_eq!(data.seek_data(0), Some((2 * BLOCK_BYTES, 3 * BLOCK_BYTES + 2)));
    }

    #[test]
    fn holes_of_huge_ranges_are_found_at_once() {
        let mut data = SparseBytes::default();
        data.set_size(SIZE_BYTES_MAX);
        for block in [0, 2, 1 << 30] {
            data.write(block * BLOCK_BYTES, &[7; BLOCK_BYTES as usize]);
        }
        assert_eq!(data.missing_bytes(1, 3 * BLOCK_BYTES), 2 * BLOCK_BYTES, "of four blocks");
        assert_eq!(data.missing_bytes(5, 0), 0);
        assert_eq!(data.missing_bytes(0, SIZE_BYTES_MAX), SIZE_BYTES_MAX - 3 * BLOCK_BYTES);
        data.punch_hole(BLOCK_BYTES - 1, SIZE_BYTES_MAX - BLOCK_BYTES);
        assert_eq!(data.allocated_bytes(), BLOCK_BYTES);
        let mut bytes = Vec::new();
        data.read(BLOCK_BYTES - 2, 3, &mut bytes);
        assert_eq!(bytes, [7, 0, 0]);
    }

    #[test]
    fn sector_is_old_or_new_as_a_whole() {
        let (mut old, mut new) = (SparseBytes::default(), SparseBytes::default());
        old.write(0, &[1; 1024]);
        new.write(0, &[2; 2048]);
        let mixed = old.mixed(&new, |sector| sector == 1 || sector == u64::MAX);
        let mut read = Vec::new();
        mixed.read(0, 4096, &mut read);
        assert_eq!(read, [vec![1; 512], vec![2; 512], vec![0; 1024]].concat());
        let mut read = Vec::new();
        old.mixed(&new, |sector| sector != u64::MAX).read(0, 4096, &mut read);
        assert_eq!(read, [2; 1024], "the new length was lost");
    }

    #[test]
    fn truncated_data_does_not_come_back() {
        let mut data = SparseBytes::default();
        data.write(0, &[7; 100]);
        data.set_size(10);
        data.set_size(20);
        let mut read = Vec::new();
        data.read(0, 100, &mut read);
        assert_eq!(read, [[7; 10], [0; 10]].concat());
    }
}
