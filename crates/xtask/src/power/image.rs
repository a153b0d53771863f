//! The content of a disk: a sparse map of blocks that copies share.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a block, which a disk writes whole or not at all: the sector size of the loop devices
/// of this lane.
pub const BLOCK_BYTES: usize = 4096;

/// A disk's content. A copy costs one reference for each block that is not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskImage {
    blocks: BTreeMap<u64, Arc<[u8; BLOCK_BYTES]>>,
}

impl DiskImage {
    /// Fills `out` from `offset_bytes` on; unwritten bytes are zero.
    pub fn read(&self, offset_bytes: u64, out: &mut [u8]) {
        for (block, within, range) in pieces(offset_bytes, out.len()) {
            let piece = &mut out[range];
            match self.blocks.get(&block) {
                Some(bytes) => piece.copy_from_slice(&bytes[within..within + piece.len()]),
                None => piece.fill(0),
            }
        }
    }

    /// Writes `data` at `offset_bytes`.
    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) {
        for (block, within, range) in pieces(offset_bytes, data.len()) {
            self.write_within(block, within, &data[range]);
        }
    }

    /// Zeros `length_bytes` at `offset_bytes`: a discard.
    pub fn zero(&mut self, offset_bytes: u64, length_bytes: u64) {
        let end = offset_bytes.saturating_add(length_bytes);
        let first_whole = offset_bytes.next_multiple_of(BLOCK_BYTES as u64);
        let end_whole = end / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        if first_whole >= end_whole {
            self.write(offset_bytes, &vec![0; (end - offset_bytes) as usize]);
            return;
        }
        self.write(offset_bytes, &vec![0; (first_whole - offset_bytes) as usize]);
        self.write(end_whole, &vec![0; (end - end_whole) as usize]);
        let (from, to) = (first_whole / BLOCK_BYTES as u64, end_whole / BLOCK_BYTES as u64);
        let gone: Vec<u64> = self.blocks.range(from..to).map(|(block, _)| *block).collect();
        for block in gone {
            self.blocks.remove(&block);
        }
    }

    fn write_within(&mut self, block: u64, within: usize, piece: &[u8]) {
        let mut bytes = match self.blocks.get(&block) {
            Some(bytes) if piece.len() < BLOCK_BYTES => **bytes,
            _ => [0; BLOCK_BYTES],
        };
        bytes[within..within + piece.len()].copy_from_slice(piece);
        if bytes.iter().all(|byte| *byte == 0) {
            self.blocks.remove(&block);
        } else {
            self.blocks.insert(block, Arc::new(bytes));
        }
    }
}

/// Block, offset within it and range of the buffer, for each block that a request touches.
pub fn pieces(
    offset_bytes: u64,
    length_bytes: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length_bytes {
            return None;
        }
        let at = offset_bytes + done as u64;
        let within = (at % BLOCK_BYTES as u64) as usize;
        let length = (BLOCK_BYTES - within).min(length_bytes - done);
        let range = done..done + length;
        done += length;
        Some((at / BLOCK_BYTES as u64, within, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unaligned_write_is_read_back_between_zeros() {
        let mut image = DiskImage::default();
        image.write(4000, &[7; 5000]);
        let mut out = vec![1; 10_000];
        image.read(0, &mut out);
        assert!(out[..4000].iter().all(|byte| *byte == 0));
        assert!(out[4000..9000].iter().all(|byte| *byte == 7));
        assert!(out[9000..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn discard_zeros_its_range_and_nothing_else() {
        for (offset, length) in [(0, 4096), (100, 200), (4000, 200), (100, 9000), (4096, 4096)] {
            let mut image = DiskImage::default();
            image.write(0, &[7; 16_384]);
            image.zero(offset, length);
            let mut out = vec![0; 16_384];
            image.read(0, &mut out);
            for (at, byte) in out.iter().enumerate() {
                let is_zero = (offset..offset + length).contains(&(at as u64));
                assert_eq!(*byte, if is_zero { 0 } else { 7 }, "{at} of {offset}+{length}");
            }
        }
    }

    #[test]
    fn copy_keeps_its_content_when_the_original_changes() {
        let mut image = DiskImage::default();
        image.write(0, &[7; 4096]);
        let copy = image.clone();
        image.write(0, &[8; 4096]);
        let mut out = [0; 1];
        copy.read(0, &mut out);
        assert_eq!(out, [7]);
    }
}
