//! Receive buffers that each thread retains for its next reader, of either protocol.

use crate::limits::{SPARE_BUFFER_BYTES_MAX, SPARE_BUFFERS_MAX};
use bytes::BytesMut;
use std::cell::RefCell;

thread_local! {
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// Takes a retained buffer, else returns one without capacity.
pub fn take() -> BytesMut {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Retains the allocation of `buffer` if it is empty, within the size limit and there is room.
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
