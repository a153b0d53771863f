//! Lists of create contexts. MS-SMB2 2.2.13.2.

use crate::codec::{DecodeError, Reader};

/// Maximum number of contexts in one CREATE. Real clients send at most eight.
const CONTEXTS_MAX: usize = 64;

/// Iterates over a list of create contexts.
#[derive(Clone, Debug)]
pub struct CreateContexts<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> CreateContexts<'a> {
    /// Iterates over an encoded list, which may be empty.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, left: CONTEXTS_MAX }
    }

    fn take(&mut self) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
        let mut r = Reader::new(self.bytes);
        let next = r.u32("context")? as usize;
        let name_offset = usize::from(r.u16("context")?);
        let name_length = usize::from(r.u16("context")?);
        r.skip(2, "context")?;
        let data_offset = usize::from(r.u16("context")?);
        let data_length = r.u32("context")? as usize;
        if self.left == 0
            || name_length < 4
            || (next != 0 && (next < 16 || !next.is_multiple_of(8) || next >= self.bytes.len()))
        {
            return Err(r.malformed("context"));
        }
        self.left -= 1;
        let end = if next == 0 { self.bytes.len() } else { next };
        let one = self.bytes.get(..end).ok_or_else(|| r.malformed("context next"))?;
        let part = Reader::new(one);
        let found = (
            part.part(name_offset, name_length, "context name")?,
            part.part(data_offset, data_length, "context data")?,
        );
        self.bytes = if next == 0 { &[] } else { &self.bytes[next..] };
        Ok(found)
    }
}

impl<'a> Iterator for CreateContexts<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let item = self.take();
        if item.is_err() {
            self.bytes = &[];
        }
        Some(item)
    }
}

/// Appends one context to a list and links the previous one to it.
pub fn put_context(list: &mut Vec<u8>, name: &[u8], data: &[u8]) {
    chain_previous(list);
    let name_end = 16 + name.len();
    let data_offset = name_end.next_multiple_of(8);
    list.extend_from_slice(&0u32.to_le_bytes());
    list.extend_from_slice(&16u16.to_le_bytes());
    list.extend_from_slice(&(name.len() as u16).to_le_bytes());
    list.extend_from_slice(&0u16.to_le_bytes());
    let shown = if data.is_empty() { 0 } else { data_offset as u16 };
    list.extend_from_slice(&shown.to_le_bytes());
    list.extend_from_slice(&(data.len() as u32).to_le_bytes());
    list.extend_from_slice(name);
    list.resize(list.len() + data_offset - name_end, 0);
    list.extend_from_slice(data);
}

fn chain_previous(list: &mut Vec<u8>) {
    if list.is_empty() {
        return;
    }
    let mut last = 0;
    while let Some(next) =
        list.get(last..last + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    {
        if next == 0 {
            break;
        }
        last += next as usize;
    }
    list.resize(list.len().next_multiple_of(8), 0);
    let distance = (list.len() - last) as u32;
    list[last..last + 4].copy_from_slice(&distance.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_context_list_round_trips() {
        let mut list = Vec::new();
        put_context(&mut list, b"MxAc", &[]);
        put_context(&mut list, b"QFid", &[1, 2, 3]);
        put_context(&mut list, b"0123456789abcdef", &[9; 5]);
        let read: Result<Vec<_>, _> = CreateContexts::new(&list).collect();
        let read = read.unwrap();
        assert_eq!(
            read,
            [(&b"MxAc"[..], &[][..]), (b"QFid", &[1, 2, 3]), (b"0123456789abcdef", &[9; 5])]
        );
    }

    #[test]
    fn context_list_with_an_overrun_ends_in_an_error() {
        let mut list = Vec::new();
        put_context(&mut list, b"MxAc", &[0; 8]);
        put_context(&mut list, b"QFid", &[0; 8]);
        for length in 1..list.len() {
            let read: Vec<_> = CreateContexts::new(&list[..length]).collect();
            assert!(read.last().unwrap().is_err(), "{length}");
        }
    }
}
