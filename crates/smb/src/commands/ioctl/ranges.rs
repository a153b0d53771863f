//! Ranges of a file: holes, allocated ranges, trim. MS-FSCC 2.3.13, 2.3.52, 2.3.55, 2.3.69, 2.3.71.

use super::IoctlOutput;
use crate::conversion::status::status_of;
use crate::limits::TRIM_RANGES_MAX;
use crate::opens::open::Open;
use crate::request::context::{QueryRefusal, Request, malformed};
use files::Access;
use wire::codec::Reader;
use wire::ntstatus::NtStatus;
use wire::smb::IoctlRequest;
use wire::smb::fsctl::{ByteRange, decode_trim};

/// Most ranges in one response to QUERY_ALLOCATED_RANGES.
const RANGES_MAX: usize = 4096;
/// FILE_REGION_USAGE_VALID_CACHED_DATA: all data of a file is valid.
const VALID_CACHED_DATA: u32 = 1;
/// Size of FILE_REGION_OUTPUT with one region.
const REGION_OUTPUT_BYTES: u32 = 40;
/// FILE_REGION_INPUT. MS-FSCC 2.3.55.
const REGION_INPUT_BYTES: usize = 24;
/// FILE_ALLOCATED_RANGE_BUFFER. MS-FSCC 2.3.52.
const RANGE_BYTES: usize = 16;

/// Marks a file as sparse; an empty input means true. Where the file system has no holes,
/// FileFsAttributeInformation does not report them either. MS-FSA 2.1.5.10.38.
pub(super) fn set_sparse(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    let file = open.file()?;
    if !file.features().sparse {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let sparse = body.input.first().is_none_or(|&b| b != 0);
    request.files.set_sparse(file, sparse).map_err(status_of)?;
    Ok(IoctlOutput::empty())
}

/// Zeroes a range.
pub(super) async fn set_zero_data(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    let (from, to) = two_numbers(body)?;
    if from > to || to > i64::MAX as u64 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let file = open.file()?;
    let zeroed = request.files.zero_range(file.caller(), file, from, to - from).await;
    zeroed.map_err(status_of)?;
    Ok(IoctlOutput::empty())
}

/// Frees the space of unused ranges.
pub(super) async fn trim(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    let file = open.file()?;
    if !file.features().sparse || file.is_directory() {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let ranges = decode_trim(body.input, TRIM_RANGES_MAX).map_err(malformed)?;
    if ranges.is_empty() || body.output_bytes_max < 4 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if ranges.iter().any(|(offset, length)| offset.checked_add(*length).is_none()) {
        return Err(NtStatus::INTEGER_OVERFLOW);
    }
    let mut processed = 0u32;
    for (offset, length) in ranges {
        let trimmed = request.files.trim_range(file.caller(), file, offset, length).await;
        processed += u32::from(trimmed.map_err(status_of)?);
    }
    if processed == 0 {
        return Err(NtStatus::NO_RANGES_PROCESSED);
    }
    Ok(IoctlOutput::ok(processed.to_le_bytes().to_vec()))
}

/// The parts of a range that contain data.
pub(super) async fn allocated(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, QueryRefusal> {
    // MS-FSA 2.1.5.10.22.
    if open.file()?.is_directory() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let (offset, length) = two_numbers(body)?;
    check_range(offset, length)?;
    let room = (body.output_bytes_max as usize / RANGE_BYTES).min(RANGES_MAX);
    let files = request.files;
    let found = files.allocated_ranges(open.file()?, offset, length, room).await;
    let (ranges, more) = found.map_err(status_of)?;
    if room == 0 && (more || !ranges.is_empty()) {
        return Err(QueryRefusal::BufferTooSmall(RANGE_BYTES));
    }
    let status =
        if more || ranges.len() > room { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
    let output = ranges
        .iter()
        .take(room)
        .flat_map(|(o, l)| [o.to_le_bytes(), l.to_le_bytes()].concat())
        .collect();
    Ok(IoctlOutput { status, output })
}

/// The valid data of a range: everything up to the end of the file.
pub(super) fn regions(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, QueryRefusal> {
    let file = open.file()?;
    if file.is_directory() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    if !file.granted().intersects(Access::READ_DATA) {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    if body.output_bytes_max < REGION_OUTPUT_BYTES {
        return Err(QueryRefusal::BufferTooSmall(REGION_OUTPUT_BYTES as usize));
    }
    let size = request.files.attributes_unchecked(file).map_err(status_of)?.size_bytes;
    let (offset, length) = wanted_region(body.input)?.unwrap_or((0, size));
    check_range(offset, length)?;
    let length = (offset + length).min(size).saturating_sub(offset);
    let count = u32::from(length > 0);
    let mut output = [0, count, count, 0].map(u32::to_le_bytes).concat();
    if count > 0 {
        output.extend([offset.to_le_bytes(), length.to_le_bytes()].concat());
        output.extend([VALID_CACHED_DATA, 0].map(u32::to_le_bytes).concat());
    }
    Ok(IoctlOutput::ok(output))
}

/// FILE_REGION_INPUT; none for an empty input.
fn wanted_region(input: &[u8]) -> Result<Option<ByteRange>, QueryRefusal> {
    if input.is_empty() {
        return Ok(None);
    }
    let short = |_| QueryRefusal::BufferTooSmall(REGION_INPUT_BYTES);
    let mut r = Reader::new(input);
    let range = (r.u64("region").map_err(short)?, r.u64("region").map_err(short)?);
    let usage = r.u32("region").map_err(short)?;
    r.skip(4, "region").map_err(short)?;
    let known = usage == VALID_CACHED_DATA;
    known.then_some(Some(range)).ok_or(NtStatus::INVALID_PARAMETER.into())
}

fn two_numbers(body: &IoctlRequest<'_>) -> Result<(u64, u64), NtStatus> {
    let mut r = Reader::new(body.input);
    let mut number = || r.u64("range").map_err(malformed);
    Ok((number()?, number()?))
}

fn check_range(offset: u64, length: u64) -> Result<(), NtStatus> {
    let end = offset.checked_add(length).filter(|end| *end <= i64::MAX as u64);
    end.map(drop).ok_or(NtStatus::INVALID_PARAMETER)
}
