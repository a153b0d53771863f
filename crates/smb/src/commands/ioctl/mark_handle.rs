//! FSCTL_MARK_HANDLE: selects the data copy that an open reads. MS-FSCC 2.3.39.

use super::IoctlOutput;
use crate::opens::open::Open;
use crate::request::context::QueryRefusal;
use wire::codec::Reader;
use wire::fscc::FILE_NO_INTERMEDIATE_BUFFERING;
use wire::ntstatus::NtStatus;
use wire::smb::IoctlRequest;

/// MARK_HANDLE_INFO.
const INFO_BYTES: usize = 24;
const MARK_HANDLE_READ_COPY: u32 = 0x80;
const MARK_HANDLE_NOT_READ_COPY: u32 = 0x100;
/// Open.File.Volume.NumberOfDataCopies: the file system handles further copies itself.
const DATA_COPIES: u32 = 1;

/// Refuses to select a copy, because there is only one. Not selecting one succeeds, as it is the
/// state of every open. MS-FSA 2.1.5.10.19.
pub(super) fn mark_handle(
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, QueryRefusal> {
    let mut r = Reader::new(body.input);
    let short = |_| QueryRefusal::BufferTooSmall(INFO_BYTES);
    let copy = r.u32("copy number").map_err(short)?;
    r.skip(4 + 8, "unused").map_err(short)?;
    let flags = r.u32("handle info").map_err(short)?;
    r.skip(4, "reserved").map_err(short)?;
    if open.file()?.is_directory() {
        return Err(NtStatus::DIRECTORY_NOT_SUPPORTED.into());
    }
    let is_one = [MARK_HANDLE_READ_COPY, MARK_HANDLE_NOT_READ_COPY].contains(&flags);
    let is_cached = open.mode() & FILE_NO_INTERMEDIATE_BUFFERING == 0;
    if !is_one || is_cached || copy >= DATA_COPIES {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    match flags {
        MARK_HANDLE_READ_COPY => Err(NtStatus::NOT_REDUNDANT_STORAGE.into()),
        _ => Ok(IoctlOutput::empty()),
    }
}
