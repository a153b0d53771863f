//! Directory entries, encoded one after another.

use super::EntryFormat;
use crate::conversion::attributes::{allocation_bytes, attribute_bits, size_bytes, times};
use crate::conversion::names::{PushUnits, SmbPath, parse_path, push_shown, push_units};
use crate::conversion::reparse::{tag_by_kind, tag_of};
use crate::conversion::status::status_of;
use crate::extensions::apple;
use crate::extensions::posix::{parse_posix_path, posix_info, push_posix_units};
use crate::opens::directory_scan::DirectoryScan;
use files::private_use::{TRAILING_DOT, TRAILING_SPACE, mapped_name};
use files::{OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{
    Attributes, EntryChoice, FsError, ListSink, ListedEntry, ListingRequest, Name, RelPath,
    ServerWork,
};
use wire::fscc::{
    DirectoryClass, DirectoryRecord, put_directory_record, put_posix_directory_record,
};
use wire::ntstatus::NtStatus;

/// Most bytes reserved for entries at once.
const RESERVED_BYTES_MAX: usize = 1 << 20;

/// The parameters of an encoder.
pub struct EncoderParts {
    pub files: RequestFiles,
    /// The directory.
    pub file: Arc<OpenFile>,
    pub shape: EntryFormat,
    /// Entries carry details for Apple clients.
    pub is_apple: bool,
    /// The response so far.
    pub out: Vec<u8>,
    /// Offset of the entries in it.
    pub start: usize,
    /// Most bytes of the entries.
    pub limit: usize,
    /// The client requests a single entry.
    pub single: bool,
    pub scan: DirectoryScan,
}

/// Writes entries until the buffer is full or the directory ends.
pub struct EntryEncoder {
    files: RequestFiles,
    file: Arc<OpenFile>,
    shape: EntryFormat,
    is_apple: bool,
    pub out: Vec<u8>,
    start: usize,
    limit: usize,
    /// Offset of the last entry.
    previous: Option<usize>,
    single: bool,
    pub is_full: bool,
    /// Names that this pass may still read.
    pub names_left: Option<usize>,
    pub scan: DirectoryScan,
    /// The present entry; its name buffer is reused.
    record: DirectoryRecord,
}

impl EntryEncoder {
    pub fn new(parts: EncoderParts) -> Self {
        let EncoderParts { files, file, shape, is_apple, out, start, limit, single, scan } = parts;
        Self {
            files,
            file,
            shape,
            is_apple,
            out,
            start,
            limit,
            previous: None,
            single,
            is_full: false,
            names_left: None,
            scan,
            record: DirectoryRecord::default(),
        }
    }

    /// True if the response has an entry.
    pub fn wrote_any(&self) -> bool {
        self.previous.is_some()
    }

    /// True if there may be more entries, and room for them.
    pub fn has_more(&self) -> bool {
        !self.is_done() && !self.scan.at_end
    }

    /// Reserves memory for a long listing. The sending thread does it, because it has such memory
    /// from the previous response.
    pub fn make_room(&mut self) {
        let room = (self.start + self.limit).saturating_sub(self.out.len());
        self.out.reserve(room.min(RESERVED_BYTES_MAX));
    }

    /// Ends a pass: the backend has no more entries, or was stopped.
    pub fn end(&mut self, ended: bool) {
        self.scan.at_end = ended && !self.is_full;
    }

    /// The attributes that each entry needs.
    pub fn wanted(&self) -> ListingRequest {
        let needs = match self.shape {
            EntryFormat::Windows(class) => class.needs_attributes(),
            EntryFormat::Posix => true,
        };
        let stored = needs.then_some(ServerWork::Metadata);
        ListingRequest { attributes: needs, stored, few: self.single }
    }

    fn is_done(&self) -> bool {
        self.is_full || (self.single && self.wrote_any())
    }

    /// Adds `.` and `..`, which no backend lists.
    pub fn put_dots(&mut self) -> Result<(), NtStatus> {
        while self.scan.dots_done < 2 && !self.is_done() {
            let name: &[u16] = if self.scan.dots_done == 0 { &[0x2E] } else { &[0x2E, 0x2E] };
            self.set_name(|units| units.extend_from_slice(name));
            if self.matches_pattern() {
                let attributes = self.files.attributes_unchecked(&self.file);
                let attributes = attributes.map_err(status_of)?;
                if !self.put_record(None, Some(&attributes)) {
                    return Ok(());
                }
            }
            self.scan.dots_done += 1;
        }
        Ok(())
    }

    /// Adds the one entry that a pattern without wildcards names.
    pub fn put_named(&mut self) -> Result<(), NtStatus> {
        if !self.has_more() {
            return Ok(());
        }
        let parsed = match self.shape {
            EntryFormat::Windows(_) => parse_path(&self.scan.units),
            EntryFormat::Posix => parse_posix_path(&self.scan.units),
        };
        let found = parsed.and_then(|named| self.find_named(&named));
        let (name, attributes) = match found {
            Ok(found) => found,
            Err(
                FsError::NotFound
                | FsError::PathNotFound
                | FsError::AccessDenied
                | FsError::InvalidName
                | FsError::InvalidParameter
                | FsError::NameTooLong,
            ) => {
                self.scan.at_end = true;
                return Ok(());
            }
            Err(error) => return Err(status_of(error)),
        };
        self.set_shown_name(name.as_bytes());
        let named = self.put_record(Some(name.as_bytes()), Some(&attributes));
        self.scan.at_end = named;
        Ok(())
    }

    /// The child that the client names. If the name has two readings,
    /// [`RequestFiles::resolve_private_use`] describes the choice.
    fn find_named(&self, named: &SmbPath) -> Result<(Name, Attributes), FsError> {
        let name_of = |path: &RelPath| {
            let split = path.split().filter(|(parent, _)| parent.is_root());
            split.map(|(_, name)| name).ok_or(FsError::InvalidName)
        };
        if named.stream.is_some() {
            return Err(FsError::InvalidName);
        }
        let mapped = name_of(&named.path)?;
        match &named.ambiguous {
            Some(other) if !self.files.directory_has_name(&self.file, mapped.as_bytes()) => {
                self.files.find_child(&self.file, &name_of(&other.literal)?)
            }
            _ => self.files.find_child(&self.file, &mapped),
        }
    }

    fn set_name(&mut self, write: impl FnOnce(&mut Vec<u16>)) {
        self.record.name.clear();
        write(&mut self.record.name);
    }

    fn set_shown_name(&mut self, name: &[u8]) {
        let push: PushUnits = match self.shape {
            EntryFormat::Posix => push_posix_units,
            EntryFormat::Windows(_) => push_units,
        };
        let Self { files, file, record, .. } = self;
        record.name.clear();
        push_shown(&mut record.name, name, push, |other| files.directory_has_name(file, other));
    }

    /// True if the pattern matches. The pattern of a POSIX client may be a literal name that looks
    /// like a pattern.
    fn matches_pattern(&mut self) -> bool {
        let Self { scan, record, .. } = self;
        let is_it = matches!(self.shape, EntryFormat::Posix) && scan.units == record.name;
        is_it || scan.pattern.matches(&record.name) || matches_at_end(scan, &mut record.name)
    }

    /// Adds the entry whose name is in `record`; false if it does not fit. `child` is its name on
    /// disk, unless it is a dot entry.
    fn put_record(&mut self, child: Option<&[u8]>, attributes: Option<&Attributes>) -> bool {
        let (start, previous, limit) = (self.start, self.previous, self.limit);
        let placed = match (self.shape, attributes) {
            (EntryFormat::Posix, attributes) => {
                let info = attributes.map(posix_info).unwrap_or_default();
                let name = &self.record.name;
                put_posix_directory_record(&info, name, &mut self.out, start, previous, limit)
            }
            (EntryFormat::Windows(class), attributes) => {
                if let Some(attributes) = attributes {
                    self.describe(class, child, attributes);
                }
                put_directory_record(class, &self.record, &mut self.out, start, previous, limit)
            }
        };
        match placed {
            Some(at) => self.previous = Some(at),
            None => self.is_full = true,
        }
        placed.is_some()
    }

    /// A reparse point has its tag in the field for the length of extended attributes, which is
    /// omitted then.
    fn describe(&mut self, class: DirectoryClass, child: Option<&[u8]>, attributes: &Attributes) {
        let (files, file) = (&self.files, &*self.file);
        let name = || child.and_then(|name| Name::new(name).ok());
        let looked_at = || name().and_then(|name| files.child_reparse(file, &name).ok());
        let tag = child.map_or(0, |_| {
            tag_by_kind(attributes).unwrap_or_else(|| looked_at().map_or(0, |found| tag_of(&found)))
        });
        let has_apple_details = self.is_apple && class == DirectoryClass::IdBothDirectory;
        let shows_xattrs =
            tag == 0 && attributes.stored.xattrs && class.shows_ea_bytes() && !has_apple_details;
        let record = &mut self.record;
        record.times = times(attributes);
        record.size_bytes = size_bytes(attributes);
        record.allocation_bytes = allocation_bytes(attributes);
        record.attributes = attribute_bits(attributes);
        record.file_index = attributes.key.inode;
        record.ea_bytes = match child {
            Some(name) if shows_xattrs => {
                Name::new(name).map_or(0, |name| files.child_xattr_bytes(file, &name))
            }
            _ => tag,
        };
        let apple = || name().map(|name| apple::details(files, file, &name, attributes));
        record.apple = if has_apple_details { apple() } else { None };
    }
}

/// True if the pattern matches a name by its own last character, where a dot or a space is shown as
/// a mapped character. As on Windows, `name"` and `name.` match `name.`.
fn matches_at_end(scan: &mut DirectoryScan, name: &mut [u16]) -> bool {
    let Some(last) = name.last_mut() else { return false };
    let own = match u32::from(*last) {
        TRAILING_DOT => b'.',
        TRAILING_SPACE => b' ',
        _ => return false,
    };
    let shown = std::mem::replace(last, own.into());
    let matches = scan.pattern.matches(name);
    if let Some(last) = name.last_mut() {
        *last = shown;
    }
    matches
}

impl ListSink for EntryEncoder {
    fn choose(&mut self, name: &[u8], next: u64) -> EntryChoice {
        if self.is_done() {
            return EntryChoice::Stop;
        }
        if let Some(left) = &mut self.names_left {
            // The shown form may need a search through the whole directory, so a worker continues.
            if mapped_name(name).is_some() {
                return EntryChoice::Stop;
            }
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => return EntryChoice::Stop,
            }
        }
        self.set_shown_name(name);
        if self.matches_pattern() {
            return EntryChoice::Take;
        }
        self.scan.cookie = next;
        EntryChoice::Pass
    }

    fn put(&mut self, entry: ListedEntry<'_>) -> bool {
        let placed = self.put_record(Some(entry.name), entry.attributes.as_ref());
        if placed {
            self.scan.cookie = entry.next;
        }
        placed
    }
}
