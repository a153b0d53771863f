//! XDR, external data representation (RFC 4506): the reader, the writer and the two traits of all
//! RPC and NFS codecs. All integers are big-endian, and every item occupies a multiple of four
//! bytes.

use crate::codec::{DecodeError, Reader};
use std::ops::Deref;

/// Decodes one message front to back. Copies share the bytes, not the position.
#[derive(Clone, Copy, Debug)]
pub struct XdrReader<'a> {
    inner: Reader<'a>,
}

impl<'a> XdrReader<'a> {
    /// Creates a reader at the first byte of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { inner: Reader::new(bytes) }
    }

    /// Position of the next read, in bytes from the start.
    #[must_use]
    pub fn position(&self) -> usize {
        self.inner.position()
    }

    /// Number of bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.inner.remaining()
    }

    /// Takes all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        self.inner.rest()
    }

    /// The bytes read since `position`.
    #[must_use]
    pub fn since(&self, position: usize) -> &'a [u8] {
        &self.inner.whole()[position..self.inner.position()]
    }

    /// A [`DecodeError`] at the current position.
    #[must_use]
    pub fn malformed(&self, what: &'static str) -> DecodeError {
        self.inner.malformed(what)
    }

    /// Decodes one value of the inferred type.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes end early or do not decode.
    #[inline]
    pub fn get<T: Decode<'a>>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }

    /// Reads an unsigned integer.
    ///
    /// # Errors
    /// [`DecodeError`] at the end of the message.
    #[inline]
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.inner.array(what)?))
    }

    /// Reads an unsigned hyper integer.
    ///
    /// # Errors
    /// As [`XdrReader::u32`].
    #[inline]
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.inner.array(what)?))
    }

    /// Reads a boolean.
    ///
    /// # Errors
    /// [`DecodeError`] if the value is neither 0 nor 1. RFC 4506 4.4.
    #[inline]
    pub fn bool(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.u32(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed(what)),
        }
    }

    /// Reads fixed-length opaque data and its padding.
    ///
    /// # Errors
    /// [`DecodeError`] if fewer bytes are left.
    #[inline]
    pub fn fixed(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let data = self.inner.take(length, what)?;
        // RFC 4506 4.9 requires zeros. The reader ignores their values, because old clients send
        // others.
        self.inner.skip(padding(length), what)?;
        Ok(data)
    }

    /// Reads a fixed array of bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if fewer bytes are left.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let data = self.inner.array(what)?;
        self.inner.skip(padding(N), what)?;
        Ok(data)
    }

    /// Reads variable-length opaque data of at most `length_max` bytes, and its padding.
    ///
    /// # Errors
    /// [`DecodeError`] if the length exceeds the limit or the remaining bytes.
    #[inline]
    pub fn opaque(
        &mut self,
        length_max: usize,
        what: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        let length = self.u32(what)? as usize;
        if length > length_max {
            return Err(self.malformed(what));
        }
        self.fixed(length, what)
    }

    /// Reads the count of a variable-length array.
    ///
    /// # Errors
    /// [`DecodeError`] if the count exceeds the limit.
    #[inline]
    pub fn count(&mut self, count_max: usize, what: &'static str) -> Result<usize, DecodeError> {
        let count = self.u32(what)? as usize;
        if count > count_max { Err(self.malformed(what)) } else { Ok(count) }
    }
}

/// Number of padding bytes behind `length` bytes, to a multiple of four.
#[must_use]
pub const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// Appends to a buffer, which may already hold other messages.
#[derive(Debug)]
pub struct XdrWriter<'a> {
    out: &'a mut Vec<u8>,
}

/// A reserved integer whose value is filled in later. See [`XdrWriter::reserve_u32`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is reserved must be filled"]
pub struct ReservedWord(usize);

impl ReservedWord {
    /// Position of the reserved integer, in bytes from the start of the buffer.
    #[must_use]
    pub fn position(self) -> usize {
        self.0
    }

    /// The reserved integer `words` further on.
    pub fn plus_words(self, words: u32) -> Self {
        Self(self.0 + 4 * words as usize)
    }
}

impl<'a> XdrWriter<'a> {
    /// Creates a writer at the current end of `out`, which must be a multiple of four bytes after
    /// the start of the message.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Length of the buffer: the position of the next byte.
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// The underlying buffer, for appending bulk data without a copy. The caller then calls
    /// [`XdrWriter::finish_opaque`].
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Discards everything from `position` on.
    pub fn truncate(&mut self, position: usize) {
        self.out.truncate(position);
    }

    /// Writes one value.
    #[inline]
    pub fn put<T: Encode + ?Sized>(&mut self, value: &T) {
        value.encode(self);
    }

    /// Writes an unsigned integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes an unsigned hyper integer.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes a boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Writes fixed-length opaque data and its padding.
    #[inline]
    pub fn fixed(&mut self, data: &[u8]) {
        self.out.extend_from_slice(data);
        self.out.extend_from_slice(&[0; 3][..padding(data.len())]);
    }

    /// Writes the length of `data`, `data` and its padding.
    #[inline]
    pub fn opaque(&mut self, data: &[u8]) {
        self.u32(data.len() as u32);
        self.fixed(data);
    }

    /// Reserves an integer that [`XdrWriter::fill_u32`] writes later.
    #[inline]
    pub fn reserve_u32(&mut self) -> ReservedWord {
        let at = self.out.len();
        self.u32(0);
        ReservedWord(at)
    }

    /// Writes a reserved integer.
    #[inline]
    pub fn fill_u32(&mut self, place: ReservedWord, value: u32) {
        self.out[place.0..place.0 + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Completes opaque data that was appended to [`XdrWriter::buffer`] directly behind the
    /// reserved `length`: fills in the length and pads. Returns the length in bytes.
    #[inline]
    pub fn finish_opaque(&mut self, length: ReservedWord) -> usize {
        let bytes = self.out.len() - length.0 - 4;
        self.fill_u32(length, bytes as u32);
        self.out.extend_from_slice(&[0; 3][..padding(bytes)]);
        bytes
    }
}

/// A type that can be decoded. It may borrow from the message.
pub trait Decode<'a>: Sized {
    /// Decodes one value.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes end early or do not decode.
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError>;
}

/// A type that can be encoded.
pub trait Encode {
    /// Writes the value.
    fn encode(&self, w: &mut XdrWriter<'_>);
}

macro_rules! integer {
    ($($type:ty, $read:ident, $write:ident as $wide:ty;)*) => {$(
        impl Decode<'_> for $type {
            #[inline]
            fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
                r.$read(stringify!($type)).map(|value| value as $type)
            }
        }

        impl Encode for $type {
            #[inline]
            fn encode(&self, w: &mut XdrWriter<'_>) {
                w.$write(*self as $wide);
            }
        }
    )*};
}

integer! {
    u32, u32, u32 as u32;
    i32, u32, u32 as u32;
    u64, u64, u64 as u64;
    i64, u64, u64 as u64;
    bool, bool, bool as bool;
}

/// The arguments or results of operations that have none.
impl Decode<'_> for () {
    #[inline]
    fn decode(_: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl Encode for () {
    #[inline]
    fn encode(&self, _: &mut XdrWriter<'_>) {}
}

impl<const N: usize> Decode<'_> for [u8; N] {
    #[inline]
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
        r.array("fixed opaque")
    }
}

impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, w: &mut XdrWriter<'_>) {
        w.fixed(self);
    }
}

/// Variable-length opaque data and strings, borrowed from the message and bounded by its length
/// only.
impl<'a> Decode<'a> for &'a [u8] {
    #[inline]
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        r.opaque(usize::MAX, "opaque")
    }
}

impl Encode for &[u8] {
    #[inline]
    fn encode(&self, w: &mut XdrWriter<'_>) {
        w.opaque(self);
    }
}

/// Optional data. RFC 4506 4.19.
impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    #[inline]
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        if r.bool("optional")? { r.get().map(Some) } else { Ok(None) }
    }
}

impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, w: &mut XdrWriter<'_>) {
        w.bool(self.is_some());
        if let Some(value) = self {
            w.put(value);
        }
    }
}

/// Borrowed opaque data or a string of at most `MAX` bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Opaque<'a, const MAX: usize>(pub &'a [u8]);

impl<'a, const MAX: usize> Decode<'a> for Opaque<'a, MAX> {
    #[inline]
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        r.opaque(MAX, "bounded opaque").map(Self)
    }
}

impl<const MAX: usize> Encode for Opaque<'_, MAX> {
    #[inline]
    fn encode(&self, w: &mut XdrWriter<'_>) {
        w.opaque(self.0);
    }
}

impl<const MAX: usize> Deref for Opaque<'_, MAX> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

/// At most `MAX` elements. Memory grows with the decoded elements, not with the announced count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct List<T, const MAX: usize>(pub Vec<T>);

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'a, T: Decode<'a>, const MAX: usize> Decode<'a> for List<T, MAX> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        let count = r.count(MAX, "list")?;
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(r.get()?);
        }
        Ok(Self(elements))
    }
}

impl<T: Encode, const MAX: usize> Encode for List<T, MAX> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        w.u32(self.0.len() as u32);
        self.0.iter().for_each(|element| w.put(element));
    }
}

impl<T, const MAX: usize> Deref for List<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MAX: usize> From<Vec<T>> for List<T, MAX> {
    fn from(elements: Vec<T>) -> Self {
        Self(elements)
    }
}

/// Declares a structure with its codec. The fields are on the wire in the order of their
/// declaration.
macro_rules! xdr_struct {
    ($($(#[$meta:meta])* struct $name:ident $(<$life:lifetime>)? {
        $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        $crate::nfs::xdr::xdr_struct!(@decode $name $(<$life>)? $($field)*);

        impl $(<$life>)? $crate::nfs::xdr::Encode for $name $(<$life>)? {
            #[inline]
            fn encode(&self, w: &mut $crate::nfs::xdr::XdrWriter<'_>) {
                $(w.put(&self.$field);)*
            }
        }
    )*};
    (@decode $name:ident <$life:lifetime> $($field:ident)*) => {
        impl<$life> $crate::nfs::xdr::Decode<$life> for $name<$life> {
            #[inline]
            fn decode(
                r: &mut $crate::nfs::xdr::XdrReader<$life>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                Ok(Self { $($field: $crate::nfs::xdr::field(
                    r, concat!(stringify!($name), ".", stringify!($field)))?,)* })
            }
        }
    };
    (@decode $name:ident $($field:ident)*) => {
        impl $crate::nfs::xdr::Decode<'_> for $name {
            #[inline]
            fn decode(
                r: &mut $crate::nfs::xdr::XdrReader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                Ok(Self { $($field: $crate::nfs::xdr::field(
                    r, concat!(stringify!($name), ".", stringify!($field)))?,)* })
            }
        }
    };
}

/// Decodes one field of a structure, and names it in an error.
#[inline]
pub(super) fn field<'a, T: Decode<'a>>(
    r: &mut XdrReader<'a>,
    what: &'static str,
) -> Result<T, DecodeError> {
    T::decode(r).map_err(|inner| DecodeError { what, at: inner.at })
}

/// Declares a closed enumeration with its codec; any other number is malformed.
macro_rules! xdr_enum {
    ($($(#[$meta:meta])* enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $value,)*
        }

        impl $crate::nfs::xdr::Decode<'_> for $name {
            #[inline]
            fn decode(
                r: &mut $crate::nfs::xdr::XdrReader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                match r.u32(stringify!($name))? {
                    $($value => Ok(Self::$variant),)*
                    _ => Err(r.malformed(stringify!($name))),
                }
            }
        }

        impl $crate::nfs::xdr::Encode for $name {
            #[inline]
            fn encode(&self, w: &mut $crate::nfs::xdr::XdrWriter<'_>) {
                w.u32(*self as u32);
            }
        }
    )*};
}

/// Declares flags of a word; unknown bits are preserved.
macro_rules! xdr_flags {
    ($($(#[$meta:meta])* flags $name:ident {
        $($(#[$flag_meta:meta])* $flag:ident = $value:expr,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$flag_meta])* pub const $flag: Self = Self($value);)*

            /// True if all bits of `other` are set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// True if any bit of `other` is set.
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = Self;

            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        $crate::nfs::xdr::xdr_newtype!($name);
    )*};
}

/// Implements the codec of a one-field structure as that of its field.
macro_rules! xdr_newtype {
    ($($name:ident)*) => {$(
        impl $crate::nfs::xdr::Decode<'_> for $name {
            #[inline]
            fn decode(
                r: &mut $crate::nfs::xdr::XdrReader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                $crate::nfs::xdr::field(r, stringify!($name)).map(Self)
            }
        }

        impl $crate::nfs::xdr::Encode for $name {
            #[inline]
            fn encode(&self, w: &mut $crate::nfs::xdr::XdrWriter<'_>) {
                w.put(&self.0);
            }
        }
    )*};
}

pub(crate) use {xdr_enum, xdr_flags, xdr_newtype, xdr_struct};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_data_is_padded_to_four_bytes() {
        for (data, bytes) in [
            (&b""[..], &[0u8, 0, 0, 0][..]),
            (b"a", &[0, 0, 0, 1, b'a', 0, 0, 0]),
            (b"abcd", &[0, 0, 0, 4, b'a', b'b', b'c', b'd']),
            (b"abcde", &[0, 0, 0, 5, b'a', b'b', b'c', b'd', b'e', 0, 0, 0]),
        ] {
            let mut out = Vec::new();
            XdrWriter::new(&mut out).opaque(data);
            assert_eq!(out, bytes);
            let mut r = XdrReader::new(&out);
            assert_eq!(r.opaque(5, "x"), Ok(data));
            assert_eq!(r.remaining(), 0);
        }
    }

    #[test]
    fn length_above_the_limit_or_the_input_is_refused() {
        let bytes = [0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0];
        assert!(XdrReader::new(&bytes).opaque(4, "x").is_err());
        assert!(XdrReader::new(&bytes[..11]).opaque(5, "x").is_err(), "the padding counts");
        assert!(XdrReader::new(&[0xFF; 8]).opaque(usize::MAX, "x").is_err());
        assert!(XdrReader::new(&[0xFF; 8]).get::<List<u32, 4>>().is_err());
    }

    #[test]
    fn xdr_boolean_is_zero_or_one() {
        assert_eq!(XdrReader::new(&[0, 0, 0, 1]).bool("x"), Ok(true));
        assert!(XdrReader::new(&[0, 0, 0, 2]).bool("x").is_err());
    }

    #[test]
    fn data_behind_a_reserved_length_is_opaque_data() {
        let mut out = vec![9; 4];
        let mut w = XdrWriter::new(&mut out);
        let length = w.reserve_u32();
        w.buffer().extend_from_slice(b"hello");
        assert_eq!(w.finish_opaque(length), 5);
        assert_eq!(out[4..], *b"\0\0\0\x05hello\0\0\0");
    }
}
