//! Sets of small numbers: `bitmap4`. RFC 8881 3.3.7.

use super::limits::BITMAP_WORDS_MAX;
use super::xdr::{Decode, Encode, XdrReader, XdrWriter};
use crate::codec::DecodeError;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not, Sub};

/// A set of the numbers 0 to 126.
///
/// Every greater number, which no specification defines, maps to [`Bitmap4::UNKNOWN`]. A set thus
/// records that it contained an undefined number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bitmap4(pub u128);

impl Bitmap4 {
    /// The empty set.
    pub const EMPTY: Self = Self(0);
    /// Stands for all numbers above 126.
    pub const UNKNOWN: u32 = 127;

    /// The set of these numbers, each below 128.
    #[must_use]
    pub const fn of(numbers: &[u32]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < numbers.len() {
            bits |= 1 << numbers[at];
            at += 1;
        }
        Self(bits)
    }

    /// True if the set contains `number`.
    #[must_use]
    pub const fn contains(self, number: u32) -> bool {
        number < 128 && self.0 >> number & 1 == 1
    }

    /// True if the set contains all of `other`.
    #[must_use]
    pub const fn contains_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds `number`, which must be below 128.
    pub fn insert(&mut self, number: u32) {
        self.0 |= 1 << number;
    }

    /// Removes `number`, which must be below 128.
    pub fn remove(&mut self, number: u32) {
        self.0 &= !(1 << number);
    }

    /// The numbers in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            let number = bits.trailing_zeros();
            bits &= bits.wrapping_sub(1);
            (number < 128).then_some(number)
        })
    }
}

impl BitOr for Bitmap4 {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Bitmap4 {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Bitmap4 {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for Bitmap4 {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl Not for Bitmap4 {
    type Output = Self;

    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl Decode<'_> for Bitmap4 {
    #[inline]
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
        let words = r.count(BITMAP_WORDS_MAX, "bitmap")?;
        let mut bits = 0;
        for at in 0..words {
            let word = u128::from(r.u32("bitmap")?);
            if at < 4 {
                bits |= word << (32 * at);
            } else if word != 0 {
                bits |= 1 << Self::UNKNOWN;
            }
        }
        Ok(Self(bits))
    }
}

impl Encode for Bitmap4 {
    /// Writes the words up to the last nonzero one.
    #[inline]
    fn encode(&self, w: &mut XdrWriter<'_>) {
        let words = (128 - self.0.leading_zeros()).div_ceil(32);
        w.u32(words);
        for at in 0..words {
            w.u32((self.0 >> (32 * at)) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmap_words_end_with_the_last_nonzero_word() {
        let mut out = Vec::new();
        XdrWriter::new(&mut out).put(&Bitmap4::of(&[0, 33, 82]));
        assert_eq!(out, [0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 4, 0, 0]);
        assert_eq!(XdrReader::new(&out).get(), Ok(Bitmap4::of(&[0, 33, 82])));
        out.clear();
        XdrWriter::new(&mut out).put(&Bitmap4::EMPTY);
        assert_eq!(out, [0; 4]);
        assert_eq!(Bitmap4::of(&[0, 33, 82]).iter().collect::<Vec<_>>(), [0, 33, 82]);
        assert_eq!(Bitmap4(u128::MAX).iter().count(), 128);
    }

    #[test]
    fn undefined_bitmap_numbers_are_recorded_as_unknown() {
        let mut bytes = vec![0, 0, 0, 5];
        bytes.extend([0; 19]);
        bytes.push(1);
        assert_eq!(XdrReader::new(&bytes).get(), Ok(Bitmap4::of(&[Bitmap4::UNKNOWN])));
        assert!(XdrReader::new(&[0, 0, 0, 17]).get::<Bitmap4>().is_err());
    }
}
