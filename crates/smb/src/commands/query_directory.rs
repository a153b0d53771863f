//! QUERY_DIRECTORY. MS-SMB2 3.3.5.18, MS-FSA 2.1.5.6.3.
//!
//! Entries are encoded into the response while the backend lists them ([`entries`]). A pattern
//! without wildcards is looked up. Short directories are listed inline; for others a worker fills
//! the rest of the response.

mod entries;

use crate::conversion::status::status_of;
use crate::extensions::posix::is_posix;
use crate::opens::directory_scan::DirectoryScan;
use crate::opens::open::Open;
use crate::request::context::{HandlerOutcome, Request, malformed};
use entries::{EncoderParts, EntryEncoder};
use files::{Access, OpenFile};
use limits::Cost;
use std::sync::Arc;
use wire::codec::utf16_units;
use wire::fscc::{DirectoryClass, FILE_POSIX_INFORMATION};
use wire::ntstatus::NtStatus;
use wire::smb::{QueryDirectoryRequest, QueryFlags};

/// Longest pattern in UTF-16 units.
const PATTERN_UNITS_MAX: usize = 1024;
/// The pattern of a client that sends none.
const ALL_NAMES: u16 = b'*' as u16;
/// Names that are read inline, without a worker.
const INLINE_NAMES_MAX: usize = 64;

/// Lists a directory.
///
/// # Errors
/// `NO_SUCH_FILE` if nothing matches a new pattern, `NO_MORE_FILES` at the end,
/// `INFO_LENGTH_MISMATCH` if not even one entry fits.
pub async fn query_directory(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = QueryDirectoryRequest::decode(&mut request.body()?).map_err(malformed)?;
    request.check_payload(0, body.output_bytes as usize)?;
    let open = request.open(body.file_id)?;
    let open = request.admit(open, Cost::metadata()).await?;
    let file = open.file()?;
    if !file.is_directory() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if !file.granted().intersects(Access::READ_DATA) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let shape = EntryFormat::of(body.class, file)?;
    // Concurrent requests continue where the previous one ended.
    let mut slot = open.scan.lock().await;
    let scan = start_scan(slot.take(), &body)?;
    let first = !scan.found_any;
    // The fixed part of the response comes first; its fields are filled in at the end.
    let offset = request.w.position() + 8;
    request.w.u16(9);
    request.w.u16(offset as u16);
    let length_field = request.w.position();
    request.w.u32(0);
    let start = request.w.buffer().len();
    let entries = EntryEncoder::new(EncoderParts {
        files: request.files.clone(),
        file: file.clone(),
        shape,
        is_apple: open.tree.has_apple_details(),
        // The response's own buffer remains valid if this fails.
        out: request.w.buffer().clone(),
        start,
        limit: body.output_bytes as usize,
        single: body.flags.has(QueryFlags::SINGLE),
        scan,
    });
    let mut entries = fill(request, &open, entries).await?;
    *request.w.buffer() = std::mem::take(&mut entries.out);
    let (wrote, full) = (entries.wrote_any(), entries.is_full);
    entries.scan.found_any = true;
    *slot = Some(entries.scan);
    scan_result(wrote, full, first)?;
    let length = request.w.buffer().len() - start;
    request.w.patch_u32(length_field, length as u32);
    Ok(HandlerOutcome::success())
}

/// Writes entries until the buffer is full or the directory ends.
async fn fill(
    request: &Request<'_>,
    open: &Arc<Open>,
    mut entries: EntryEncoder,
) -> Result<EntryEncoder, NtStatus> {
    let (files, file) = (request.files, open.file()?);
    entries.put_dots()?;
    if !entries.scan.pattern.has_wildcards() {
        entries.put_named()?;
        return Ok(entries);
    }
    if entries.has_more() {
        entries.names_left = Some(INLINE_NAMES_MAX);
        let (cookie, wanted) = (entries.scan.cookie, entries.wanted());
        let ended = files.readdir_with_attributes(file, cookie, wanted, &mut entries);
        entries.end(ended.map_err(status_of)?);
    }
    if entries.has_more() {
        entries.names_left = None;
        entries.make_room();
        let (cookie, wanted) = (entries.scan.cookie, entries.wanted());
        let listed = files.readdir_on_worker(file.clone(), cookie, wanted, entries).await;
        let (mut listed, ended) = listed.map_err(status_of)?;
        listed.end(ended);
        return Ok(listed);
    }
    Ok(entries)
}

fn scan_result(wrote: bool, full: bool, first: bool) -> Result<(), NtStatus> {
    match (wrote, full, first) {
        (true, ..) => Ok(()),
        (false, true, _) => Err(NtStatus::INFO_LENGTH_MISMATCH),
        (false, false, true) => Err(NtStatus::NO_SUCH_FILE),
        (false, false, false) => Err(NtStatus::NO_MORE_FILES),
    }
}

/// The scan to continue; a new one on request, or if there is none.
fn start_scan(
    present: Option<DirectoryScan>,
    body: &QueryDirectoryRequest<'_>,
) -> Result<DirectoryScan, NtStatus> {
    let units = utf16_units(body.pattern, "pattern").map_err(malformed)?;
    if units.len() > PATTERN_UNITS_MAX {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    let reopen = body.flags.has(QueryFlags::REOPEN);
    let restart = body.flags.has(QueryFlags::RESTART);
    match present.filter(|_| !reopen) {
        Some(scan) if !restart => Ok(scan),
        Some(scan) => {
            let units = if units.is_empty() { scan.units } else { units };
            Ok(DirectoryScan { found_any: scan.found_any, ..DirectoryScan::new(units) })
        }
        None if units.is_empty() => Ok(DirectoryScan::new(vec![ALL_NAMES])),
        None => Ok(DirectoryScan::new(units)),
    }
}

/// The requested form of entries.
#[derive(Clone, Copy, Debug)]
pub enum EntryFormat {
    Windows(DirectoryClass),
    Posix,
}

impl EntryFormat {
    fn of(class: u8, file: &OpenFile) -> Result<Self, NtStatus> {
        if class == FILE_POSIX_INFORMATION && is_posix(file) {
            return Ok(Self::Posix);
        }
        DirectoryClass::from_number(class).map(Self::Windows).ok_or(NtStatus::INVALID_INFO_CLASS)
    }
}
