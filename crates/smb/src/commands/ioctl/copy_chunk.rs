//! Server-side copy between two opens. MS-SMB2 3.3.5.15.5, 3.3.5.15.6.

use super::IoctlOutput;
use crate::conversion::status::status_of;
use crate::limits::{COPY_CHUNK_BYTES_MAX, COPY_CHUNKS_MAX, COPY_TOTAL_BYTES_MAX};
use crate::opens::open::Open;
use crate::request::context::{Request, malformed};
use files::{Access, OpenFile};
use limits::Cost;
use std::sync::Arc;
use vfs::FsError;
use wire::ntstatus::NtStatus;
use wire::smb::fsctl::{self, CopyChunkRequest};
use wire::smb::{FileId, IoctlRequest};

/// The resume key of a source open: its FileId, valid in its own session only.
pub(super) fn resume_key(open: &Open, body: &IoctlRequest<'_>) -> Result<IoctlOutput, NtStatus> {
    if body.output_bytes_max < 32 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let mut output = vec![0; 32];
    output[..8].copy_from_slice(&open.id.persistent.to_le_bytes());
    output[8..16].copy_from_slice(&open.id.volatile.to_le_bytes());
    Ok(IoctlOutput::ok(output))
}

/// Copies chunks in order, and reports the progress.
pub(super) async fn copy(
    request: &mut Request<'_>,
    target: &Arc<Open>,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    if body.output_bytes_max < 12 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let wish = CopyChunkRequest::decode(body.input, COPY_CHUNKS_MAX).map_err(malformed)?;
    let total: u64 = wish.chunks.iter().map(|c| u64::from(c.length_bytes)).sum();
    let too_large =
        wish.chunks.iter().any(|c| c.length_bytes == 0 || c.length_bytes > COPY_CHUNK_BYTES_MAX);
    if wish.chunk_count > COPY_CHUNKS_MAX || too_large || total > u64::from(COPY_TOTAL_BYTES_MAX) {
        let limits = result(COPY_CHUNKS_MAX, COPY_CHUNK_BYTES_MAX, COPY_TOTAL_BYTES_MAX);
        return Ok(IoctlOutput { status: NtStatus::INVALID_PARAMETER, output: limits });
    }
    let source = find_source(request, &wish.source_key)?;
    let (from, to) = (source.file()?, target.file()?);
    if from.is_directory() || to.is_directory() {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    if !from.granted().intersects(Access::READ_DATA | Access::EXECUTE)
        || !to.granted().intersects(Access::WRITE_DATA | Access::APPEND_DATA)
    {
        return Err(NtStatus::ACCESS_DENIED);
    }
    // SRV_COPYCHUNK lets the client read the result, so the open needs read access.
    if body.code == fsctl::SRV_COPYCHUNK && !to.granted().intersects(Access::READ_DATA) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let size = request.files.attributes_unchecked(from).map_err(status_of)?.size_bytes;
    if wish.chunks.is_empty() && target.tree.is_apple() {
        copy_file(request, (&source, from), (target, to), size).await?;
        return Ok(IoctlOutput::ok(result(0, 0, u32::try_from(size).unwrap_or(u32::MAX))));
    }
    let (mut chunks, mut written) = (0, 0);
    for chunk in &wish.chunks {
        let length = u64::from(chunk.length_bytes);
        let copied = if chunk.source_offset.checked_add(length).is_none_or(|end| end > size) {
            Err(NtStatus::INVALID_VIEW_SIZE)
        } else {
            admit_copy(request, (&source, target), length).await?;
            let files = request.files;
            let (source_at, target_at) = (chunk.source_offset, chunk.target_offset);
            files.copy_range(to.caller(), (from, source_at), (to, target_at), length).await.map_err(
                |error| match error {
                    FsError::InvalidParameter => NtStatus::INVALID_VIEW_SIZE,
                    other => status_of(other),
                },
            )
        };
        if let Err(status) = copied {
            return Ok(IoctlOutput { status, output: result(chunks, 0, written) });
        }
        chunks += 1;
        written += chunk.length_bytes;
    }
    Ok(IoctlOutput::ok(result(chunks, 0, written)))
}

/// Waits for the limits of the read and of the write.
async fn admit_copy(
    request: &mut Request<'_>,
    (source, target): (&Open, &Open),
    length: u64,
) -> Result<(), NtStatus> {
    let mut left = length;
    while left > 0 {
        let part = left.min(u64::from(COPY_CHUNK_BYTES_MAX));
        let [read, write] = Cost::copy(part);
        request.admit_further(source, read).await?;
        request.admit_further(target, write).await?;
        left -= part;
    }
    Ok(())
}

/// Copies the whole file with its streams: Apple clients request it with an empty chunk list.
async fn copy_file(
    request: &mut Request<'_>,
    (source, from): (&Open, &Arc<OpenFile>),
    (target, to): (&Open, &Arc<OpenFile>),
    size: u64,
) -> Result<(), NtStatus> {
    let files = request.files;
    files.set_size(to.caller(), to, size).await.map_err(status_of)?;
    let mut done = 0;
    while done < size {
        let length = (size - done).min(u64::from(COPY_TOTAL_BYTES_MAX));
        admit_copy(request, (source, target), length).await?;
        let files = request.files;
        files.copy_range(to.caller(), (from, done), (to, done), length).await.map_err(status_of)?;
        done += length;
    }
    request.files.copy_streams(from, to).await.map_err(status_of)
}

fn find_source(request: &Request<'_>, key: &[u8; 24]) -> Result<Arc<Open>, NtStatus> {
    let half = |at: usize| key[at..at + 8].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
    let id = FileId { persistent: half(0), volatile: half(8) };
    request.session()?.open(id).map_err(|_| NtStatus::OBJECT_NAME_NOT_FOUND)
}

fn result(chunks: u32, chunk_bytes: u32, total_bytes: u32) -> Vec<u8> {
    [chunks, chunk_bytes, total_bytes].iter().flat_map(|n| n.to_le_bytes()).collect()
}
