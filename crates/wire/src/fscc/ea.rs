//! Lists of extended attributes. MS-FSCC 2.4.16.

use crate::codec::{DecodeError, Reader};

/// Maximum number of extended attributes in one list.
const ENTRIES_MAX: usize = 4096;

/// One extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EaEntry<'a> {
    /// `FILE_NEED_EA` or 0.
    pub flags: u8,
    /// Name, in ASCII by custom.
    pub name: &'a [u8],
    /// Value. In a set request an empty value removes the attribute.
    pub value: &'a [u8],
}

/// Reads a list of names and values.
///
/// # Errors
/// [`DecodeError`] if an entry exceeds the list.
pub fn decode_ea_list(mut bytes: &[u8]) -> Result<Vec<EaEntry<'_>>, DecodeError> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let mut r = Reader::new(bytes);
        let next = r.u32("ea")? as usize;
        let flags = r.u8("ea")?;
        let name_length = usize::from(r.u8("ea")?);
        let value_length = usize::from(r.u16("ea")?);
        let name = r.take(name_length, "ea name")?;
        r.skip(1, "ea name")?;
        let value = r.take(value_length, "ea value")?;
        entries.push(EaEntry { flags, name, value });
        if next == 0 {
            break;
        }
        if next < r.position() || next >= bytes.len() || entries.len() == ENTRIES_MAX {
            return Err(r.malformed("ea next"));
        }
        bytes = &bytes[next..];
    }
    Ok(entries)
}

/// Decodes the list of names of a query. MS-FSCC 2.4.16.1.
///
/// # Errors
/// [`DecodeError`] if an entry exceeds the list.
pub fn decode_ea_names(mut bytes: &[u8]) -> Result<Vec<&[u8]>, DecodeError> {
    let mut names = Vec::new();
    while !bytes.is_empty() {
        let mut r = Reader::new(bytes);
        let next = r.u32("ea name")? as usize;
        let length = usize::from(r.u8("ea name")?);
        names.push(r.take(length, "ea name")?);
        if next == 0 {
            break;
        }
        if next < r.position() || next >= bytes.len() || names.len() == ENTRIES_MAX {
            return Err(r.malformed("ea name next"));
        }
        bytes = &bytes[next..];
    }
    Ok(names)
}

/// Appends entries until `limit` bytes are used. Returns the number of entries written.
pub fn put_ea_list(entries: &[(Vec<u8>, Vec<u8>)], out: &mut Vec<u8>, limit: usize) -> usize {
    let start = out.len();
    let mut previous = None;
    for (count, (name, value)) in entries.iter().enumerate() {
        let at = start + (out.len() - start).next_multiple_of(4);
        if at - start + 9 + name.len() + value.len() > limit {
            return count;
        }
        out.resize(at, 0);
        if let Some(previous) = previous {
            let previous: usize = previous;
            out[previous..previous + 4].copy_from_slice(&((at - previous) as u32).to_le_bytes());
        }
        out.extend_from_slice(&[0; 5]);
        out.push(name.len() as u8);
        out.extend_from_slice(&(value.len() as u16).to_le_bytes());
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(value);
        previous = Some(at);
    }
    entries.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ea_list_round_trips_and_stops_at_its_limit() {
        let entries = vec![(b"ONE".to_vec(), b"1".to_vec()), (b"TWO".to_vec(), vec![2; 300])];
        let mut out = Vec::new();
        assert_eq!(put_ea_list(&entries, &mut out, 1000), 2);
        let read = decode_ea_list(&out).unwrap();
        assert_eq!(read[1], EaEntry { flags: 0, name: b"TWO", value: &[2; 300] });
        for length in 1..out.len() {
            assert!(decode_ea_list(&out[..length]).is_err());
        }
        assert_eq!(put_ea_list(&entries, &mut Vec::new(), 20), 1);
    }
}
