//! Receive buffers that a thread keeps for whoever wakes next, of either protocol.

use crate::limits::{SPARE_BUFFER_BYTES_MAX, SPARE_BUFFERS_MAX};
use bytes::BytesMut;
use std::cell::RefCell;

thread_local! {
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// A buffer that was kept; else one without room.
pub fn take() -> BytesMut {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Keeps the room of `buffer`, if nothing is in it and there is place for one of its size.
pub fn give_back(buffer: &mut BytesMut) {
    if !buffer.is_empty() || buffer.capacity() == 0 {
        return;
    }
    let buffer = std::mem::take(buffer);
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < SPARE_BUFFERS_MAX && buffer.capacity() <= SPARE_BUFFER_BYTES_MAX {
            spare.push(buffer);
        }
    });
}
