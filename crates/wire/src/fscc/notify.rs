//! Change records of CHANGE_NOTIFY. MS-FSCC 2.7.1.

/// The change that a record reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NotifyAction {
    /// The file was created, or moved in from another directory.
    Added = 1,
    /// The file was removed, or moved to another directory.
    Removed = 2,
    /// The data or attributes of the file were changed.
    Modified = 3,
    /// The file was renamed; the record holds its old name.
    RenamedOldName = 4,
    /// The file was renamed; the record holds its new name.
    RenamedNewName = 5,
    /// A named stream was created.
    AddedStream = 6,
    /// A named stream was removed.
    RemovedStream = 7,
    /// A named stream was changed.
    ModifiedStream = 8,
}

/// Length of a record before its name, in bytes.
const FIXED: usize = 12;

/// The length of a list of `length_bytes` after a record with a name of `units` UTF-16 code units
/// is appended.
#[must_use]
pub fn notify_list_bytes(length_bytes: usize, units: usize) -> usize {
    length_bytes.next_multiple_of(4) + FIXED + 2 * units
}

/// Builds a list at the end of a buffer.
#[derive(Debug)]
pub struct NotifyList<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    previous: Option<usize>,
}

impl<'a> NotifyList<'a> {
    /// Starts an empty list at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start, previous: None }
    }

    /// Appends a record. The previous record is padded to 4 bytes; the last one is not.
    pub fn put(&mut self, action: NotifyAction, name: &[u16]) {
        let at = self.start + (self.out.len() - self.start).next_multiple_of(4);
        self.out.resize(at, 0);
        if let Some(previous) = self.previous.replace(at) {
            let next = (at - previous) as u32;
            self.out[previous..previous + 4].copy_from_slice(&next.to_le_bytes());
        }
        self.out.extend_from_slice(&0u32.to_le_bytes());
        self.out.extend_from_slice(&(action as u32).to_le_bytes());
        self.out.extend_from_slice(&(2 * name.len() as u32).to_le_bytes());
        name.iter().for_each(|unit| self.out.extend_from_slice(&unit.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn records_are_aligned_and_the_last_is_unpadded() {
        let mut out = vec![0xFF; 3];
        let mut list = NotifyList::new(&mut out);
        list.put(NotifyAction::Added, &units("a"));
        list.put(NotifyAction::Removed, &units("b"));
        let expected: &[u8] = &[
            0xFF, 0xFF, 0xFF, // Existing contents.
            16, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'a', 0, 0, 0, // Padded.
            0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, b'b', 0,
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn predicted_notify_length_matches_the_written_list() {
        let mut out = Vec::new();
        let mut expected = 0;
        for name in ["", "odd", "even", "x"] {
            expected = notify_list_bytes(expected, name.len());
        }
        let mut list = NotifyList::new(&mut out);
        for name in ["", "odd", "even", "x"] {
            list.put(NotifyAction::Modified, &units(name));
        }
        assert_eq!(out.len(), expected);
    }
}
