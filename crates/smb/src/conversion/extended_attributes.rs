//! Extended attributes in SMB: valid names, lists to set, and the position of a scan. MS-FSA
//! 2.1.5.12.11, 2.1.5.15.4.

use std::ops::Range;
use vfs::XattrName;
use wire::fscc::decode_ea_list;
use wire::ntstatus::NtStatus;

/// Size of one value: its length field has 16 bits.
pub const VALUE_BYTES_MAX: usize = u16::MAX as usize;
/// Characters that no name contains, beside control characters. MS-FSCC 2.4.16.
const NOT_IN_NAMES: &[u8] = b"\\/:*?\"<>|,+=[];";
/// FILE_NEED_EA: a client that does not understand the attribute must not open the file.
const NEED_EA: u8 = 0x80;

/// A name, and its new value; none removes the attribute.
pub type EaChange = (XattrName, Option<Vec<u8>>);
/// A name and a value.
pub type EaPair = (Vec<u8>, Vec<u8>);

/// Flags of a query. MS-SMB2 2.2.37.
pub const RESTART_SCAN: u32 = 1;
/// See [`RESTART_SCAN`].
pub const RETURN_SINGLE_ENTRY: u32 = 2;
/// See [`RESTART_SCAN`].
pub const INDEX_SPECIFIED: u32 = 4;

/// True if `name` is valid.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| *b >= 0x20 && !NOT_IN_NAMES.contains(b))
}

/// Decodes names and values to set; an empty value removes the attribute. The whole list is
/// validated before any change.
///
/// # Errors
/// `EA_LIST_INCONSISTENT` for an offset beyond the list, `INVALID_EA_NAME`.
pub fn decode(list: &[u8]) -> Result<Vec<EaChange>, NtStatus> {
    let entries = decode_ea_list(list).map_err(|_| NtStatus::EA_LIST_INCONSISTENT)?;
    let checked = entries.iter().map(|entry| {
        if !is_name(entry.name) || entry.flags & !NEED_EA != 0 {
            return Err(NtStatus::INVALID_EA_NAME);
        }
        let name = XattrName::new(entry.name).map_err(|_| NtStatus::INVALID_EA_NAME)?;
        Ok((name, (!entry.value.is_empty()).then(|| entry.value.to_vec())))
    });
    checked.collect()
}

/// The attributes of a query among `count`, given the end position of the open's last query.
/// Attribute indexes begin at 1.
///
/// # Errors
/// `NO_EAS_ON_FILE`; `NONEXISTENT_EA_ENTRY` for an index beyond them; `NO_MORE_EAS` for the index
/// after the last, and at the end of a scan.
pub fn page(
    count: usize,
    flags: u32,
    index: u32,
    position: usize,
) -> Result<Range<usize>, NtStatus> {
    if count == 0 {
        return Err(NtStatus::NO_EAS_ON_FILE);
    }
    let start = if flags & INDEX_SPECIFIED != 0 {
        (index as usize).checked_sub(1).ok_or(NtStatus::NONEXISTENT_EA_ENTRY)?
    } else if flags & RESTART_SCAN != 0 {
        0
    } else {
        position
    };
    match start {
        start if start == count => Err(NtStatus::NO_MORE_EAS),
        start if start > count && flags & INDEX_SPECIFIED != 0 => {
            Err(NtStatus::NONEXISTENT_EA_ENTRY)
        }
        // Attributes were removed since the last query.
        start if start > count => Err(NtStatus::NO_MORE_EAS),
        start if flags & RETURN_SINGLE_ENTRY != 0 => Ok(start..start + 1),
        start => Ok(start..count),
    }
}

/// The position of the next query after one that returned attributes `start` to `end`. A query that
/// returned all starts no scan: clients repeat it to get all again.
#[must_use]
pub fn next_position(start: usize, end: usize, count: usize, flags: u32) -> usize {
    let all_at_once = start == 0 && end == count && flags & RETURN_SINGLE_ENTRY == 0;
    if all_at_once { 0 } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::fscc::put_ea_list;

    fn list(entries: &[(&[u8], &[u8])]) -> Vec<u8> {
        let entries: Vec<_> = entries.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        let mut out = Vec::new();
        put_ea_list(&entries, &mut out, 1000);
        out
    }

    #[test]
    fn ea_list_with_an_invalid_name_is_refused_whole() {
        let good = decode(&list(&[(b"ONE", b"1"), (b"TWO", b"")])).unwrap();
        assert_eq!(good[0], (XattrName::new(*b"ONE").unwrap(), Some(b"1".to_vec())));
        assert_eq!(good[1].1, None, "to be removed");
        for bad in [&b""[..], b"a:b", b"a*", b"tab\t", b"[a]"] {
            let refused = decode(&list(&[(b"ONE", b"1"), (bad, b"2")]));
            assert_eq!(refused, Err(NtStatus::INVALID_EA_NAME), "{bad:?}");
        }
        let mut flagged = list(&[(b"ONE", b"1")]);
        flagged[4] = NEED_EA;
        assert!(decode(&flagged).is_ok());
        flagged[4] = 1;
        assert_eq!(decode(&flagged), Err(NtStatus::INVALID_EA_NAME));
        assert_eq!(decode(&[0; 5]), Err(NtStatus::EA_LIST_INCONSISTENT));
    }

    #[test]
    fn ea_scan_returns_each_attribute_once() {
        let (mut position, mut seen) = (0, Vec::new());
        while let Ok(range) = page(3, RETURN_SINGLE_ENTRY, 0, position) {
            seen.push(range.start);
            position = next_position(range.start, range.end, 3, RETURN_SINGLE_ENTRY);
        }
        assert_eq!((seen, position), (vec![0, 1, 2], 3));
        assert_eq!(page(3, 0, 0, position), Err(NtStatus::NO_MORE_EAS));
        assert_eq!(page(3, RESTART_SCAN, 0, position), Ok(0..3));
        // A buffer that took two of three.
        assert_eq!(page(3, 0, 0, next_position(0, 2, 3, 0)), Ok(2..3));
        assert_eq!(next_position(0, 3, 3, 0), 0, "all at once, and all again");
    }

    #[test]
    fn ea_index_counts_from_one() {
        assert_eq!(page(3, INDEX_SPECIFIED | RETURN_SINGLE_ENTRY, 2, 0), Ok(1..2));
        assert_eq!(page(3, INDEX_SPECIFIED, 4, 0), Err(NtStatus::NO_MORE_EAS));
        for index in [0, 5] {
            let refused = page(3, INDEX_SPECIFIED, index, 0);
            assert_eq!(refused, Err(NtStatus::NONEXISTENT_EA_ENTRY), "{index}");
        }
        assert_eq!(page(0, RESTART_SCAN, 0, 0), Err(NtStatus::NO_EAS_ON_FILE));
    }
}
