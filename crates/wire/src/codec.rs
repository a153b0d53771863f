//! The reader and the writer that all codecs of this crate share. All integers of SMB are
//! little-endian.

use std::fmt;

/// Bytes that do not form the message they claim to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The structure or field that was being decoded.
    pub what: &'static str,
    /// Byte offset at which decoding stopped, from the start of the [`Reader`].
    pub at: usize,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed {} at byte {}", self.what, self.at)
    }
}

impl std::error::Error for DecodeError {}

/// Decodes one message front to back, and its parts by offset.
///
/// Offsets count from the start of the underlying slice. For SMB2 that is the first byte of the
/// SMB2 header, the origin of the protocol's own offset fields.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the first byte of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Position of the next read, in bytes from the start.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Number of bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The complete underlying slice, read or not.
    #[must_use]
    pub fn whole(&self) -> &'a [u8] {
        self.bytes
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    /// [`DecodeError`] with `what` if fewer bytes are left.
    #[inline]
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(count).ok_or(DecodeError { what, at: self.at })?;
        let taken = self.bytes.get(self.at..end).ok_or(DecodeError { what, at: self.at })?;
        self.at = end;
        Ok(taken)
    }

    /// Takes the next `N` bytes as an array.
    ///
    /// # Errors
    /// [`DecodeError`] if fewer bytes are left.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let at = self.at;
        let taken = self.take(N, what)?;
        taken.try_into().map_err(|_| DecodeError { what, at })
    }

    /// Takes all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`DecodeError`] at the end of the message.
    #[inline]
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// Reads a little-endian 16-bit integer.
    ///
    /// # Errors
    /// As [`Reader::u8`].
    #[inline]
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// Reads a little-endian 32-bit integer.
    ///
    /// # Errors
    /// As [`Reader::u8`].
    #[inline]
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Reads a little-endian 64-bit integer.
    ///
    /// # Errors
    /// As [`Reader::u8`].
    #[inline]
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Skips `count` bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if fewer bytes are left.
    #[inline]
    pub fn skip(&mut self, count: usize, what: &'static str) -> Result<(), DecodeError> {
        self.take(count, what).map(|_| ())
    }

    /// Reads the `StructureSize` that starts every SMB2 body, and checks it.
    ///
    /// # Errors
    /// [`DecodeError`] if the value is not `expected`.
    #[inline]
    pub fn structure_size(&mut self, expected: u16, what: &'static str) -> Result<(), DecodeError> {
        let at = self.at;
        if self.u16(what)? == expected { Ok(()) } else { Err(DecodeError { what, at }) }
    }

    /// The `length` bytes at `offset` from the start, the form of SMB2's offset and length fields.
    /// An empty part may have any offset.
    ///
    /// # Errors
    /// [`DecodeError`] if a non-empty part exceeds the message.
    pub fn part(
        &self,
        offset: usize,
        length: usize,
        what: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        if length == 0 {
            return Ok(&[]);
        }
        let end = offset.checked_add(length).ok_or(DecodeError { what, at: self.at })?;
        self.bytes.get(offset..end).ok_or(DecodeError { what, at: self.at })
    }

    /// A [`DecodeError`] at the current position.
    #[must_use]
    pub fn malformed(&self, what: &'static str) -> DecodeError {
        DecodeError { what, at: self.at }
    }
}

/// Appends one message to a buffer, which may already hold others.
///
/// Offsets in the message are relative to [`Writer::origin`]: the length of the buffer when the
/// writer was created, or a value that the caller chose.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    origin: usize,
}

impl<'a> Writer<'a> {
    /// Creates a writer whose origin is the current end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let origin = out.len();
        Self { out, origin }
    }

    /// Creates a writer into `out` whose offsets count from `origin`, for instance from the SMB2
    /// header of this message.
    pub fn with_origin(out: &'a mut Vec<u8>, origin: usize) -> Self {
        Self { out, origin }
    }

    /// Bytes since the origin: the offset of the next byte.
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len() - self.origin
    }

    /// The origin of offsets, in bytes from the start of the buffer.
    #[must_use]
    pub fn origin(&self) -> usize {
        self.origin
    }

    /// The underlying buffer, for appending bulk data without a copy.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Writes one byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// Writes a little-endian 16-bit integer.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Writes a little-endian 32-bit integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Writes a little-endian 64-bit integer.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Writes `bytes` as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes `count` zero bytes.
    #[inline]
    pub fn zeros(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, 0);
    }

    /// Pads with zeros until [`Writer::position`] is a multiple of `alignment`.
    pub fn align(&mut self, alignment: usize) {
        let over = self.position() % alignment;
        if over != 0 {
            self.zeros(alignment - over);
        }
    }

    /// Overwrites the 16-bit field at `offset` from the origin.
    pub fn patch_u16(&mut self, offset: usize, value: u16) {
        let at = self.origin + offset;
        self.out[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    /// Overwrites the 32-bit field at `offset` from the origin.
    pub fn patch_u32(&mut self, offset: usize, value: u32) {
        let at = self.origin + offset;
        self.out[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

/// Decodes UTF-16LE without a terminator into code units, without loss.
///
/// # Errors
/// [`DecodeError`] if the length is odd. Lone surrogates are preserved.
pub fn utf16_units(bytes: &[u8], what: &'static str) -> Result<Vec<u16>, DecodeError> {
    if !bytes.len().is_multiple_of(2) {
        return Err(DecodeError { what, at: bytes.len() });
    }
    Ok(bytes.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect())
}

/// Appends `text` as UTF-16LE, without a terminator.
pub fn put_utf16(out: &mut Vec<u8>, text: &str) {
    for unit in text.encode_utf16() {
        out.extend_from_slice(&unit.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_refuses_a_part_outside_the_message() {
        let r = Reader::new(&[1, 2, 3, 4]);
        assert_eq!(r.part(1, 2, "x"), Ok(&[2u8, 3][..]));
        assert!(r.part(3, 2, "x").is_err());
        assert!(r.part(usize::MAX, 2, "x").is_err());
        assert_eq!(r.part(99, 0, "x"), Ok(&[][..]));
    }

    #[test]
    fn writer_alignment_counts_from_the_origin() {
        let mut out = vec![9; 3];
        let mut w = Writer::new(&mut out);
        w.u8(1);
        w.align(8);
        assert_eq!(w.position(), 8);
        assert_eq!(out.len(), 11);
    }
}
