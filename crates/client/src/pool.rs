//! Pool of receive buffers.

use crate::limits::{LARGE_FRAME_BYTES, SPARE_LARGE_BYTES_MAX, SPARE_SMALL_MAX};
use std::ops::{Deref, Range};
use std::sync::Arc;
use sync::Mutex;

/// Spare buffers. Their length is their initialised size, so that no buffer is cleared twice.
#[derive(Debug, Default)]
pub struct BufferPool {
    small: Mutex<Vec<Vec<u8>>>,
    large: Mutex<Large>,
}

#[derive(Debug, Default)]
struct Large {
    spare: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    /// A buffer of at least `length` bytes with arbitrary contents.
    #[must_use]
    pub fn take(&self, length: usize) -> Vec<u8> {
        let mut buffer = if length <= LARGE_FRAME_BYTES {
            self.small.lock().pop().unwrap_or_default()
        } else {
            let mut large = self.large.lock();
            let buffer = large.spare.pop().unwrap_or_default();
            large.bytes -= buffer.len();
            buffer
        };
        if buffer.len() < length {
            buffer.resize(length.max(LARGE_FRAME_BYTES), 0);
        }
        buffer
    }

    /// Returns a buffer to the pool.
    pub fn give(&self, buffer: Vec<u8>) {
        if buffer.len() <= LARGE_FRAME_BYTES {
            let mut small = self.small.lock();
            if small.len() < SPARE_SMALL_MAX {
                small.push(buffer);
            }
            return;
        }
        let mut large = self.large.lock();
        if large.bytes + buffer.len() <= SPARE_LARGE_BYTES_MAX {
            large.bytes += buffer.len();
            large.spare.push(buffer);
        }
    }
}

/// Bytes in a buffer that returns to its pool on drop.
#[derive(Debug)]
pub struct PooledBytes {
    buffer: Vec<u8>,
    range: Range<usize>,
    pool: Arc<BufferPool>,
}

impl PooledBytes {
    /// These bytes of a buffer, which returns to `pool`.
    #[must_use]
    pub fn new(buffer: Vec<u8>, range: Range<usize>, pool: Arc<BufferPool>) -> Self {
        debug_assert!(range.end <= buffer.len());
        Self { buffer, range, pool }
    }

    /// A part of the bytes, in the same buffer.
    #[must_use]
    pub fn part(mut self, part: Range<usize>) -> Self {
        let start = self.range.start;
        self.range = start + part.start..(start + part.end).min(self.range.end);
        self
    }
}

impl Deref for PooledBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl AsRef<[u8]> for PooledBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for PooledBytes {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_return_to_a_bounded_pool() {
        let pool = Arc::new(BufferPool::default());
        for length in [100, LARGE_FRAME_BYTES, 1 << 20] {
            let buffer = pool.take(length);
            let address = buffer.as_ptr();
            drop(PooledBytes::new(buffer, 10..20, pool.clone()));
            let again = pool.take(length);
            assert_eq!(again.as_ptr(), address, "{length}");
        }
        for _ in 0..100 {
            pool.give(vec![0; 1 << 20]);
        }
        assert!(pool.large.lock().bytes <= SPARE_LARGE_BYTES_MAX);
    }

    #[test]
    fn pooled_bytes_part_is_clamped_to_its_range() {
        let data = PooledBytes::new(vec![1, 2, 3, 4, 5], 1..5, Arc::new(BufferPool::default()));
        assert_eq!(&data.part(1..99)[..], [3, 4, 5]);
    }
}
