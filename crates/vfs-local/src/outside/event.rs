//! Decodes fanotify(7) events. Numbers are in native byte order.

use crate::stream_store::reserved;
use vfs::Name;

/// Length of an event before its records.
const FIXED: usize = 24;
/// Length of a record before its handle: type, padding, length, file system.
const RECORD_FIXED: usize = 4 + 8;
/// Length of a handle before its own bytes: length, type.
const HANDLE_FIXED: usize = 8;

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub struct FanotifyEvent<'a> {
    /// The process that caused it; 0 if it is invisible to this one.
    pub pid: u32,
    /// Events before this one were lost.
    pub overflowed: bool,
    /// The name refers to a directory.
    pub is_directory: bool,
    mask: u64,
    records: &'a [u8],
}

/// A change of names in one directory.
#[derive(Debug, PartialEq, Eq)]
pub enum NameEvent {
    /// One or more changes of one name.
    Names { name: Name, added: bool, removed: bool, attributes: bool, data: bool },
    /// A rename within the directory.
    Renamed { from: Name, to: Name },
    /// A change of the directory's own attributes.
    Itself,
}

impl NameEvent {
    /// True if it refers to a stream store, which clients do not see.
    pub fn is_of_store(&self) -> bool {
        matches!(self, Self::Names { name, .. } if reserved::is_store_name(name.as_bytes()))
    }
}

/// The handle of a directory, and a name in it.
type EventName<'a> = (&'a [u8], Name);

/// The events in a buffer read from a group.
pub fn parse(buffer: &[u8]) -> impl Iterator<Item = FanotifyEvent<'_>> {
    let mut rest = buffer;
    std::iter::from_fn(move || {
        let fixed: &[u8; FIXED] = rest.first_chunk()?;
        let number = |at: usize| {
            u32::from_ne_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let length = number(0) as usize;
        let records_at = usize::from(u16::from_ne_bytes([fixed[6], fixed[7]]));
        let event = rest.get(..length).filter(|_| length >= FIXED)?;
        let mask = u64::from_ne_bytes(*fixed[8..].first_chunk()?);
        rest = &rest[length..];
        Some(FanotifyEvent {
            pid: number(20),
            overflowed: mask & libc::FAN_Q_OVERFLOW != 0,
            is_directory: mask & libc::FAN_ONDIR != 0,
            mask,
            records: event.get(records_at..).unwrap_or_default(),
        })
    })
}

impl<'a> FanotifyEvent<'a> {
    /// The handle of a file whose data changed, and the event mask.
    pub fn changed_file(&self) -> Option<(&'a [u8], u64)> {
        let what = self.mask & (libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE);
        if what == 0 {
            return None;
        }
        let mut records = self.records();
        let found = records.find(|(kind, ..)| *kind == libc::FAN_EVENT_INFO_TYPE_FID);
        found.map(|(_, handle, _)| (handle, what))
    }

    /// True if it is only a write, of which there may be many until the file is closed.
    pub fn is_write(&self) -> bool {
        self.mask & !libc::FAN_ONDIR == libc::FAN_MODIFY
    }

    /// Whether it is only the close of a file that was open for writing.
    pub fn is_close(&self) -> bool {
        self.mask & !libc::FAN_ONDIR == libc::FAN_CLOSE_WRITE
    }

    /// The changes, each with its directory's handle. A rename between two directories is one
    /// change in each watched directory.
    pub fn name_events(&self) -> Vec<(&'a [u8], NameEvent)> {
        let has = |bits| self.mask & bits != 0;
        let named = |name, added, removed| NameEvent::Names {
            name,
            added,
            removed,
            attributes: has(libc::FAN_ATTRIB),
            data: has(libc::FAN_CLOSE_WRITE | libc::FAN_MODIFY),
        };
        let place = |kind| self.places().find(|(other, _)| *other == kind).map(|(_, place)| place);
        let from = place(libc::FAN_EVENT_INFO_TYPE_OLD_DFID_NAME);
        let to = place(libc::FAN_EVENT_INFO_TYPE_NEW_DFID_NAME);
        match (from, to) {
            (Some(from), Some(to)) if from.0 == to.0 => {
                return vec![(from.0, NameEvent::Renamed { from: from.1, to: to.1 })];
            }
            (None, None) => {}
            (from, to) => {
                let from = from.map(|(handle, name)| (handle, named(name, false, true)));
                let to = to.map(|(handle, name)| (handle, named(name, true, false)));
                return from.into_iter().chain(to).collect();
            }
        }
        let added = has(libc::FAN_CREATE | libc::FAN_MOVED_TO);
        let removed = has(libc::FAN_DELETE | libc::FAN_MOVED_FROM);
        let place = place(libc::FAN_EVENT_INFO_TYPE_DFID_NAME);
        if place.is_none() && has(libc::FAN_ATTRIB) {
            // For a change of a directory itself the kernel reports the name `.`, whatever is
            // marked.
            let own = self.records().find(|(_, _, name)| *name == b".");
            return own.map(|(_, handle, _)| (handle, NameEvent::Itself)).into_iter().collect();
        }
        place.map(|(handle, name)| (handle, named(name, added, removed))).into_iter().collect()
    }

    /// The records with a place, and their types. The directory itself, with the name `.`, does not
    /// count as a name in it.
    fn places(&self) -> impl Iterator<Item = (u8, EventName<'a>)> {
        self.records()
            .filter_map(|(kind, handle, name)| Some((kind, (handle, Name::new(name).ok()?))))
    }

    /// Type, handle and name of each record that has them.
    fn records(&self) -> impl Iterator<Item = (u8, &'a [u8], &'a [u8])> {
        let mut rest = self.records;
        let records = std::iter::from_fn(move || {
            let &[kind, _, low, high] = rest.first_chunk()?;
            let length = usize::from(u16::from_ne_bytes([low, high]));
            let record = rest.get(..length).filter(|_| length >= RECORD_FIXED + HANDLE_FIXED)?;
            rest = &rest[length..];
            Some((kind, record))
        });
        records.filter_map(|(kind, record)| {
            let bytes = u32::from_ne_bytes(*record[RECORD_FIXED..].first_chunk()?) as usize;
            let end = (RECORD_FIXED + HANDLE_FIXED).checked_add(bytes)?;
            let name = record.get(end..)?.split(|&b| b == 0).next()?;
            Some((kind, &record[4..end], name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, directory: u8, name: &str) -> Vec<u8> {
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend([7; 8]);
        bytes.extend(1u32.to_ne_bytes());
        bytes.extend(1u32.to_ne_bytes());
        bytes.push(directory);
        bytes.extend(name.bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    fn event(mask: u64, pid: u32, records: &[Vec<u8>]) -> Vec<u8> {
        let records = records.concat();
        let mut bytes = ((FIXED + records.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend([3, 0]);
        bytes.extend((FIXED as u16).to_ne_bytes());
        bytes.extend(mask.to_ne_bytes());
        bytes.extend((-1i32).to_ne_bytes());
        bytes.extend(pid.to_ne_bytes());
        bytes.extend(records);
        bytes
    }

    /// The last byte of the directory's handle, and the change in it.
    fn name_events(bytes: &[u8]) -> Vec<(u8, NameEvent)> {
        let events = parse(bytes).flat_map(|event| event.name_events());
        events.map(|(handle, what)| (*handle.last().unwrap(), what)).collect()
    }

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn came(text: &str) -> NameEvent {
        NameEvent::Names {
            name: name(text),
            added: true,
            removed: false,
            attributes: false,
            data: false,
        }
    }

    #[test]
    fn events_are_decoded_in_order_with_their_process() {
        let mut bytes = event(libc::FAN_CREATE, 5, &[record(2, 1, "a")]);
        bytes.extend(event(libc::FAN_Q_OVERFLOW, 0, &[]));
        bytes.extend(event(libc::FAN_CREATE | libc::FAN_ONDIR, 6, &[record(2, 2, "bcde")]));
        let events: Vec<FanotifyEvent<'_>> = parse(&bytes).collect();
        assert_eq!(events.iter().map(|e| e.pid).collect::<Vec<_>>(), [5, 0, 6]);
        assert!(events[1].overflowed && events[2].is_directory && !events[0].is_directory);
        assert_eq!(name_events(&bytes), [(1, came("a")), (2, came("bcde"))]);
    }

    #[test]
    fn rename_is_reported_for_its_watched_directories() {
        let (old, new) = (record(10, 1, "a"), record(12, 1, "b"));
        let renamed = event(libc::FAN_RENAME, 5, &[old.clone(), new]);
        let both = NameEvent::Renamed { from: name("a"), to: name("b") };
        assert_eq!(name_events(&renamed), [(1, both)]);
        let went = |text| NameEvent::Names {
            name: name(text),
            added: false,
            removed: true,
            attributes: false,
            data: false,
        };
        let moved = event(libc::FAN_RENAME, 5, &[old.clone(), record(12, 2, "b")]);
        assert_eq!(name_events(&moved), [(1, went("a")), (2, came("b"))]);
        assert_eq!(name_events(&event(libc::FAN_RENAME, 5, &[old])), [(1, went("a"))]);
        let came_here = event(libc::FAN_RENAME, 5, &[record(12, 2, "b")]);
        assert_eq!(name_events(&came_here), [(2, came("b"))]);
    }

    #[test]
    fn own_change_is_distinguished_and_truncation_skipped() {
        let itself = event(libc::FAN_ATTRIB, 5, &[record(2, 1, ".")]);
        assert_eq!(name_events(&itself), [(1, NameEvent::Itself)]);
        assert_eq!(name_events(&event(libc::FAN_CLOSE_WRITE, 5, &[record(2, 1, ".")])), []);
        let whole = event(libc::FAN_CREATE, 5, &[record(2, 1, "a")]);
        for length in 0..whole.len() {
            assert_eq!(name_events(&whole[..length]), [], "{length}");
        }
        let mut lies = whole;
        lies[FIXED + RECORD_FIXED..FIXED + RECORD_FIXED + 4].copy_from_slice(&[0xFF; 4]);
        assert_eq!(name_events(&lies), []);
    }
}
