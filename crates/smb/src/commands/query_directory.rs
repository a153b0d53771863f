//! QUERY_DIRECTORY. MS-SMB2 3.3.5.18, MS-FSA 2.1.5.6.3.

use crate::apple;
use crate::attributes::{allocation_bytes, attribute_bits, size_bytes, times};
use crate::dispatch::{Outcome, Request, malformed};
use crate::names::push_units;
use crate::open::Open;
use crate::posix::{is_posix, posix_info, push_posix_units};
use crate::reparse::{tag_by_kind, tag_of};
use crate::status::status_of;
use files::{Access, Files, OpenFile};
use std::sync::PoisonError;
use vfs::{Attributes, DirEntry, FsError, Name};
use wire::codec::utf16_units;
use wire::fscc::{
    DirectoryClass, DirectoryRecord, FILE_POSIX_INFORMATION, has_wildcards, matches,
    put_directory_record, put_posix_directory_record,
};
use wire::ntstatus::NtStatus;
use wire::smb::{QueryDirectoryRequest, QueryFlags};

/// Where a listing stands. One for an open: MS-SMB2 3.3.1.10 EnumerationLocation.
#[derive(Debug, Default)]
pub struct Scan {
    pattern: Vec<u16>,
    /// `.` and `..` come first: how many of them are through.
    dots_done: u8,
    /// Cookie of the last entry that was given.
    cookie: u64,
    /// An entry that was read but did not fit.
    held: Option<DirEntry>,
    at_end: bool,
    found_any: bool,
}

/// Longest pattern in UTF-16 units.
const PATTERN_UNITS_MAX: usize = 1024;
/// Entries read ahead from the directory at once.
const BATCH: usize = 256;

/// Lists a directory.
///
/// # Errors
/// `NO_SUCH_FILE` if nothing matches a new pattern, `NO_MORE_FILES` at the end,
/// `INFO_LENGTH_MISMATCH` if not even one entry fits.
pub async fn query_directory(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    let body = QueryDirectoryRequest::decode(&mut request.body()?).map_err(malformed)?;
    request.check_payload(0, body.output_bytes as usize)?;
    let open = request.open(body.file_id)?;
    let file = open.file()?;
    if !file.is_directory() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if !file.granted().intersects(Access::READ_DATA) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let class = Shape::of(body.class, file)?;
    let mut scan = start_scan(&open, &body)?;
    let limit = body.output_bytes as usize;
    // The fixed part of the reply comes first; its fields are filled at the end.
    let offset = request.w.position() + 8;
    request.w.u16(9);
    request.w.u16(offset as u16);
    let length_field = request.w.position();
    request.w.u32(0);
    let start = request.w.buffer().len();
    let mut filler = Filler {
        files: &request.server.files,
        file,
        class,
        is_apple: open.tree.has_apple_details(),
        out: request.w.buffer(),
        start,
        limit,
        previous: None,
        single: body.flags.has(QueryFlags::SINGLE),
        full: false,
    };
    filler.fill(&mut scan)?;
    let (wrote, full) = (filler.previous.is_some(), filler.full);
    let length = request.w.buffer().len() - start;
    let first = !std::mem::replace(&mut scan.found_any, true);
    let state = scan_result(wrote, full, first);
    *open.scan.lock().unwrap_or_else(PoisonError::into_inner) = Some(scan);
    state?;
    request.w.patch_u32(length_field, length as u32);
    Ok(Outcome::success())
}

fn scan_result(wrote: bool, full: bool, first: bool) -> Result<(), NtStatus> {
    match (wrote, full, first) {
        (true, ..) => Ok(()),
        (false, true, _) => Err(NtStatus::INFO_LENGTH_MISMATCH),
        (false, false, true) => Err(NtStatus::NO_SUCH_FILE),
        (false, false, false) => Err(NtStatus::NO_MORE_FILES),
    }
}

/// The scan to go on with; a new one if asked for, or if there is none.
fn start_scan(open: &Open, body: &QueryDirectoryRequest<'_>) -> Result<Scan, NtStatus> {
    let pattern = utf16_units(body.pattern, "pattern").map_err(malformed)?;
    if pattern.len() > PATTERN_UNITS_MAX {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    let mut slot = open.scan.lock().unwrap_or_else(PoisonError::into_inner);
    let reopen = body.flags.has(QueryFlags::REOPEN);
    let restart = body.flags.has(QueryFlags::RESTART);
    let present = slot.take().filter(|_| !reopen);
    match present {
        Some(scan) if !restart => Ok(scan),
        Some(scan) => {
            let pattern = if pattern.is_empty() { scan.pattern } else { pattern };
            Ok(Scan { pattern, found_any: scan.found_any, ..Scan::default() })
        }
        None if pattern.is_empty() => Err(NtStatus::OBJECT_NAME_INVALID),
        None => Ok(Scan { pattern, ..Scan::default() }),
    }
}

/// In which form entries are asked for.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Windows(DirectoryClass),
    Posix,
}

impl Shape {
    fn of(class: u8, file: &OpenFile) -> Result<Self, NtStatus> {
        if class == FILE_POSIX_INFORMATION && is_posix(file) {
            return Ok(Self::Posix);
        }
        DirectoryClass::from_number(class).map(Self::Windows).ok_or(NtStatus::INVALID_INFO_CLASS)
    }
}

/// Writes entries until the buffer is full or the directory ends.
struct Filler<'a> {
    files: &'a Files,
    file: &'a OpenFile,
    class: Shape,
    /// Entries have details for clients of Apple.
    is_apple: bool,
    out: &'a mut Vec<u8>,
    start: usize,
    limit: usize,
    previous: Option<usize>,
    single: bool,
    full: bool,
}

impl Filler<'_> {
    fn fill(&mut self, scan: &mut Scan) -> Result<(), NtStatus> {
        while scan.dots_done < 2 && !self.is_done() {
            self.put_dots(scan)?;
        }
        if !self.is_done()
            && let Some(entry) = scan.held.take()
        {
            self.put_entry(scan, entry)?;
        }
        while !self.is_done() && !scan.at_end {
            self.put_batch(scan)?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.full || (self.single && self.previous.is_some())
    }

    /// `.` and `..`, which no backend lists.
    fn put_dots(&mut self, scan: &mut Scan) -> Result<(), NtStatus> {
        let name: &[u16] = if scan.dots_done == 0 { &[0x2E] } else { &[0x2E, 0x2E] };
        // A plain name never means them.
        if has_wildcards(&scan.pattern) && self.is_asked_for(scan, name) {
            let attributes = self.files.attributes_unchecked(self.file).map_err(status_of)?;
            if !self.put_record(name.to_vec(), &attributes, None) {
                return Ok(());
            }
        }
        scan.dots_done += 1;
        Ok(())
    }

    fn put_batch(&mut self, scan: &mut Scan) -> Result<(), NtStatus> {
        let mut batch = Vec::new();
        let ended = self.files.list(self.file, scan.cookie, &mut |entry| {
            batch.push(entry);
            batch.len() < BATCH
        });
        let ended = ended.map_err(status_of)?;
        for entry in batch {
            if self.is_done() {
                return Ok(());
            }
            self.put_entry(scan, entry)?;
        }
        scan.at_end = ended && !self.is_done();
        Ok(())
    }

    fn put_entry(&mut self, scan: &mut Scan, entry: DirEntry) -> Result<(), NtStatus> {
        let mut units = Vec::with_capacity(entry.name.as_bytes().len());
        match self.class {
            Shape::Posix => push_posix_units(&mut units, entry.name.as_bytes()),
            Shape::Windows(_) => push_units(&mut units, entry.name.as_bytes()),
        }
        let next = entry.next;
        if self.is_asked_for(scan, &units) {
            let Some(attributes) = self.attributes(&entry.name)? else {
                scan.cookie = next;
                return Ok(());
            };
            if !self.put_record(units, &attributes, Some(&entry.name)) {
                scan.held = Some(entry);
                scan.cookie = next;
                return Ok(());
            }
        }
        scan.cookie = next;
        Ok(())
    }

    /// A pattern of POSIX may be a name that merely looks like one.
    fn is_asked_for(&self, scan: &Scan, name: &[u16]) -> bool {
        match self.class {
            Shape::Windows(_) => matches(&scan.pattern, name),
            Shape::Posix if has_wildcards(&scan.pattern) => {
                scan.pattern == name || matches(&scan.pattern, name)
            }
            Shape::Posix => scan.pattern == name,
        }
    }

    /// Attributes of an entry; none if it has gone since it was listed.
    fn attributes(&self, name: &Name) -> Result<Option<Attributes>, NtStatus> {
        match self.files.child_attributes(self.file, name) {
            Ok(attributes) => Ok(Some(attributes)),
            Err(FsError::NotFound | FsError::AccessDenied) => Ok(None),
            Err(error) => Err(status_of(error)),
        }
    }

    fn reparse_tag(&self, name: &Name, attributes: &Attributes) -> u32 {
        let looked_at = || self.files.child_reparse(self.file, name);
        tag_by_kind(attributes).unwrap_or_else(|| looked_at().map_or(0, |found| tag_of(&found)))
    }

    /// `child`: its name on the disk, if it is one.
    fn put_record(
        &mut self,
        name: Vec<u16>,
        attributes: &Attributes,
        child: Option<&Name>,
    ) -> bool {
        let (start, previous, limit) = (self.start, self.previous, self.limit);
        let placed = match self.class {
            Shape::Posix => {
                let info = posix_info(attributes);
                put_posix_directory_record(&info, &name, self.out, start, previous, limit)
            }
            Shape::Windows(class) => {
                let tag = child.map_or(0, |name| self.reparse_tag(name, attributes));
                let mut record = record(name, attributes, tag);
                if self.is_apple && class == DirectoryClass::IdBothDirectory {
                    record.apple =
                        child.map(|name| apple::details(self.files, self.file, name, attributes));
                } else if let Some(name) = child.filter(|_| tag == 0 && class.shows_ea_bytes()) {
                    record.ea_bytes = self.files.child_xattr_bytes(self.file, name);
                }
                put_directory_record(class, &record, self.out, start, previous, limit)
            }
        };
        match placed {
            Some(at) => self.previous = Some(at),
            None => self.full = true,
        }
        placed.is_some()
    }
}

/// A reparse point's tag stands where others have the length of their extended
/// attributes, which is not told here.
fn record(name: Vec<u16>, attributes: &Attributes, tag: u32) -> DirectoryRecord {
    DirectoryRecord {
        index: 0,
        times: times(attributes),
        size_bytes: size_bytes(attributes),
        allocation_bytes: allocation_bytes(attributes),
        attributes: attribute_bits(attributes),
        ea_bytes: tag,
        file_index: attributes.key.inode,
        name,
        apple: None,
    }
}
