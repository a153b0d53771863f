//! Send queue: owned bytes, and shared data that is sent without a copy.

use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Maximum number of slices per system call.
pub(crate) const SLICES_MAX: usize = 64;

/// The queue.
#[derive(Debug, Default)]
pub struct RequestOutbox {
    /// Headers, bodies and short data.
    own: Vec<u8>,
    /// Number of bytes of `own` that were sent.
    sent: usize,
    /// Lengths of parts of `own`, and the shared data between them. A last part of `own` without an
    /// entry follows them all.
    pieces: VecDeque<Piece>,
    /// Number of bytes of `own` that the pieces cover.
    covered: usize,
}

#[derive(Debug)]
enum Piece {
    Own(usize),
    Shared(Bytes),
}

impl RequestOutbox {
    /// True if nothing is left to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.own.len() == self.covered
    }

    /// The buffer for owned bytes.
    pub(crate) fn own(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    /// Appends shared data.
    pub(crate) fn share(&mut self, data: Bytes) {
        let fresh = self.own.len() - self.covered;
        if fresh > 0 {
            self.pieces.push_back(Piece::Own(fresh));
            self.covered = self.own.len();
        }
        self.pieces.push_back(Piece::Shared(data));
    }

    /// Fills `out` with the next slices; returns their number.
    pub(crate) fn slices<'a>(&'a self, out: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let (mut at, mut count) = (self.sent, 0);
        for piece in self.pieces.iter().take(SLICES_MAX) {
            out[count] = match piece {
                Piece::Own(length) => {
                    at += length;
                    IoSlice::new(&self.own[at - length..at])
                }
                Piece::Shared(data) => IoSlice::new(data),
            };
            count += 1;
        }
        if count < SLICES_MAX && self.pieces.len() == count && self.own.len() > at {
            out[count] = IoSlice::new(&self.own[at..]);
            count += 1;
        }
        count
    }

    /// The first `count` bytes were sent.
    pub(crate) fn advance(&mut self, mut count: usize) {
        while count > 0 {
            match self.pieces.front_mut() {
                Some(Piece::Own(length)) => {
                    let taken = count.min(*length);
                    *length -= taken;
                    self.sent += taken;
                    count -= taken;
                    if *length == 0 {
                        self.pieces.pop_front();
                    }
                }
                Some(Piece::Shared(data)) => {
                    let taken = count.min(data.len());
                    data.advance(taken);
                    count -= taken;
                    if data.is_empty() {
                        self.pieces.pop_front();
                    }
                }
                None => {
                    let taken = count.min(self.own.len() - self.sent);
                    debug_assert_eq!(taken, count, "no more is sent than there is");
                    self.sent += taken;
                    self.covered = self.sent;
                    break;
                }
            }
        }
        if self.pieces.is_empty() && self.sent == self.own.len() {
            self.own.clear();
            (self.sent, self.covered) = (0, 0);
        }
    }

    /// All queued bytes, concatenated.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = self.slices(&mut slices);
        slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outbox_preserves_order_with_partial_writes() {
        for step in 1..12 {
            let mut outbox = RequestOutbox::default();
            outbox.own().extend_from_slice(b"head1");
            outbox.share(Bytes::from_static(b"DATA1"));
            outbox.share(Bytes::from_static(b"DATA2"));
            outbox.own().extend_from_slice(b"head2");
            let (mut sent, mut more) = (Vec::new(), Some(&b"head3"[..]));
            while !outbox.is_empty() {
                let bytes = outbox.to_bytes();
                let taken = step.min(bytes.len());
                sent.extend_from_slice(&bytes[..taken]);
                outbox.advance(taken);
                if let Some(more) = more.take() {
                    outbox.own().extend_from_slice(more);
                }
            }
            assert_eq!(sent, b"head1DATA1DATA2head2head3", "{step}");
            assert_eq!((outbox.own.len(), outbox.sent, outbox.covered), (0, 0, 0));
        }
    }
}
