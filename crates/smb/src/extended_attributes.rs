//! Extended attributes as SMB speaks of them: which names are good, what a list
//! to set may hold, and where a scan of them goes on. MS-FSA 2.1.5.12.11,
//! 2.1.5.15.4.

use std::ops::Range;
use vfs::XattrName;
use wire::fscc::decode_ea_list;
use wire::ntstatus::NtStatus;

/// Bytes of one value: its length has 16 bits.
pub const VALUE_BYTES_MAX: usize = u16::MAX as usize;
/// Characters that no name has, beside those below a space. MS-FSCC 2.4.16.
const NOT_IN_NAMES: &[u8] = b"\\/:*?\"<>|,+=[];";
/// FILE_NEED_EA: who does not understand the attribute must not open the file.
const NEED_EA: u8 = 0x80;

/// A name, and the value to set or none to remove.
pub type Change = (XattrName, Option<Vec<u8>>);
/// A name and a value.
pub type Shown = (Vec<u8>, Vec<u8>);

/// Flags of a query. MS-SMB2 2.2.37.
pub const RESTART_SCAN: u32 = 1;
/// See [`RESTART_SCAN`].
pub const RETURN_SINGLE_ENTRY: u32 = 2;
/// See [`RESTART_SCAN`].
pub const INDEX_SPECIFIED: u32 = 4;

/// Whether a name can be one.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| *b >= 0x20 && !NOT_IN_NAMES.contains(b))
}

/// Names and values to set; an empty value stands for one to remove. All are
/// looked at before any is set.
///
/// # Errors
/// `EA_LIST_INCONSISTENT` if the list leads out of itself, `INVALID_EA_NAME`.
pub fn decode(list: &[u8]) -> Result<Vec<Change>, NtStatus> {
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

/// Which of `count` attributes a query is about, given where the last one of
/// its open ended. Numbers of attributes begin at 1.
///
/// # Errors
/// `NO_EAS_ON_FILE`, `NONEXISTENT_EA_ENTRY` for a number beyond them,
/// `NO_MORE_EAS` for the one behind the last, and at the end of a scan.
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
        // Fewer than there were.
        start if start > count => Err(NtStatus::NO_MORE_EAS),
        start if flags & RETURN_SINGLE_ENTRY != 0 => Ok(start..start + 1),
        start => Ok(start..count),
    }
}

/// Where the next query goes on after one that showed attributes from `start`
/// to `end`. One that had them all at once begins no scan: clients ask again
/// for all.
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
    fn a_list_is_taken_whole_or_not_at_all() {
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
    fn a_scan_shows_each_once_and_ends() {
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
    fn an_index_counts_from_one() {
        assert_eq!(page(3, INDEX_SPECIFIED | RETURN_SINGLE_ENTRY, 2, 0), Ok(1..2));
        assert_eq!(page(3, INDEX_SPECIFIED, 4, 0), Err(NtStatus::NO_MORE_EAS));
        for index in [0, 5] {
            let refused = page(3, INDEX_SPECIFIED, index, 0);
            assert_eq!(refused, Err(NtStatus::NONEXISTENT_EA_ENTRY), "{index}");
        }
        assert_eq!(page(0, RESTART_SCAN, 0, 0), Err(NtStatus::NO_EAS_ON_FILE));
    }
}
