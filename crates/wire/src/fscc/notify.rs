//! Records of changes in a directory. MS-FSCC 2.7.1.

/// What happened to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NotifyAction {
    /// It came to be, or came from another directory.
    Added = 1,
    /// It is gone, or went to another directory.
    Removed = 2,
    /// What it names was changed.
    Modified = 3,
    /// It was renamed and had this name.
    RenamedOldName = 4,
    /// It was renamed and has this name.
    RenamedNewName = 5,
    /// A named stream of it came to be.
    AddedStream = 6,
    /// A named stream of it is gone.
    RemovedStream = 7,
    /// A named stream of it was changed.
    ModifiedStream = 8,
}

/// Bytes of a record before its name.
const FIXED: usize = 12;

/// Bytes that a list has once a record with a name of `units` follows the
/// `length_bytes` that it has.
#[must_use]
pub fn notify_list_bytes(length_bytes: usize, units: usize) -> usize {
    length_bytes.next_multiple_of(4) + FIXED + 2 * units
}

/// A list under construction, at the end of a buffer.
#[derive(Debug)]
pub struct NotifyList<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    previous: Option<usize>,
}

impl<'a> NotifyList<'a> {
    /// An empty list that begins at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start, previous: None }
    }

    /// Appends a record. The one before it is padded to 4 bytes, the last one is not.
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
    fn records_begin_at_multiples_of_four_and_the_last_is_not_padded() {
        let mut out = vec![0xFF; 3];
        let mut list = NotifyList::new(&mut out);
        list.put(NotifyAction::Added, &units("a"));
        list.put(NotifyAction::Removed, &units("b"));
        let expected: &[u8] = &[
            0xFF, 0xFF, 0xFF, // What was there.
            16, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'a', 0, 0, 0, // Padded.
            0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, b'b', 0,
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn the_length_is_known_before_it_is_written() {
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
