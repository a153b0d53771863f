//! Block cloning. MS-SMB2 3.3.5.15.17, 3.3.5.15.18, MS-FSCC 2.3.8.

use super::IoctlOutput;
use crate::conversion::status::status_of;
use crate::opens::open::Open;
use crate::request::context::{Request, malformed};
use files::dos;
use vfs::{Attributes, FsError};
use wire::ntstatus::NtStatus;
use wire::smb::IoctlRequest;
use wire::smb::fsctl::{self, DuplicateExtents};

/// Clients round lengths up to whole clusters.
const CLUSTER_BYTES: u64 = 4096;

/// Clones a range of another file into the file of `target`.
pub(super) async fn duplicate(
    request: &Request<'_>,
    target: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    let to = target.file()?;
    if !to.features().reflink {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let extents = match body.code {
        fsctl::DUPLICATE_EXTENTS_TO_FILE => DuplicateExtents::decode(body.input),
        _ => DuplicateExtents::decode_extended(body.input),
    };
    let mut extents = extents.map_err(malformed)?;
    let source = request.session()?.open(extents.source).map_err(|_| NtStatus::INVALID_HANDLE)?;
    let from = source.file().map_err(|_| NtStatus::INVALID_HANDLE)?;
    if from.is_directory() || to.is_directory() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let files = request.files;
    let facts = |file| files.attributes_unchecked(file).map_err(status_of);
    extents.length_bytes = length(&extents, &facts(from)?, &facts(to)?)?;
    if extents.length_bytes == 0 {
        return Ok(IoctlOutput::empty());
    }
    let DuplicateExtents { source_offset, target_offset, length_bytes, .. } = extents;
    match files
        .clone_range(to.caller(), (from, source_offset), (to, target_offset), length_bytes)
        .await
    {
        Ok(()) => Ok(IoctlOutput::empty()),
        Err(FsError::CrossDevice) => Err(NtStatus::INVALID_HANDLE),
        Err(error) => Err(status_of(error)),
    }
}

/// The length to clone: the range ends at the end of either file.
fn length(extents: &DuplicateExtents, from: &Attributes, to: &Attributes) -> Result<u64, NtStatus> {
    let end_of = |offset: u64| {
        let end = offset.checked_add(extents.length_bytes).filter(|end| *end <= i64::MAX as u64);
        end.ok_or(NtStatus::INVALID_PARAMETER)
    };
    let (from_end, to_end) = (end_of(extents.source_offset)?, end_of(extents.target_offset)?);
    if from_end > from.size_bytes.next_multiple_of(CLUSTER_BYTES) {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    if extents.target_offset > to.size_bytes {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let overlaps = extents.source_offset < to_end && extents.target_offset < from_end;
    if from.key == to.key && overlaps {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    // Windows refuses a sparse source for a plain target, contrary to the specification.
    let is_sparse = |file: &Attributes| file.dos.bits.unwrap_or(0) & dos::SPARSE != 0;
    if is_sparse(from) && !is_sparse(to) {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    let in_source = from.size_bytes.saturating_sub(extents.source_offset);
    let in_target = to.size_bytes - extents.target_offset;
    Ok(extents.length_bytes.min(in_source).min(in_target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::{FileKey, FileKind};
    use wire::smb::FileId;

    fn file(inode: u64, size_bytes: u64, bits: Option<u32>) -> Attributes {
        Attributes {
            key: FileKey { device: 1, inode },
            kind: FileKind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            links: 1,
            size_bytes,
            allocated_bytes: 0,
            accessed: vfs::Timestamp(0),
            modified: vfs::Timestamp(0),
            changed: vfs::Timestamp(0),
            change: 0,
            born: None,
            dos: vfs::DosInfo { bits, created: None },
            set_changed: None,
            stored: vfs::MetadataPresence::UNKNOWN,
            device: None,
            compressed: false,
            protection: vfs::Protection::None,
        }
    }

    fn ask(source_offset: u64, target_offset: u64, length_bytes: u64) -> DuplicateExtents {
        let source = FileId { persistent: 1, volatile: 1 };
        DuplicateExtents { source, source_offset, target_offset, length_bytes }
    }

    #[test]
    fn cloned_range_ends_with_either_file() {
        let (from, to) = (file(1, 5000, None), file(2, 4096, None));
        assert_eq!(length(&ask(0, 0, 8192), &from, &to), Ok(4096));
        assert_eq!(length(&ask(4096, 0, 4096), &from, &to), Ok(904));
        assert_eq!(length(&ask(0, 4096, 4096), &from, &to), Ok(0));
        assert_eq!(length(&ask(0, 0, 8193), &from, &to), Err(NtStatus::NOT_SUPPORTED));
        assert_eq!(length(&ask(0, 8192, 4096), &from, &to), Err(NtStatus::INVALID_PARAMETER));
        let wraps = ask(u64::MAX, 0, 2);
        assert_eq!(length(&wraps, &from, &to), Err(NtStatus::INVALID_PARAMETER));
    }

    #[test]
    fn clone_refuses_overlapping_ranges() {
        let one = file(1, 32768, None);
        assert_eq!(length(&ask(0, 16384, 16384), &one, &one), Ok(16384));
        assert_eq!(length(&ask(0, 8192, 16384), &one, &one), Err(NtStatus::NOT_SUPPORTED));
    }

    #[test]
    fn sparse_source_is_not_cloned_into_a_plain_file() {
        let (plain, sparse) = (file(1, 4096, None), file(2, 4096, Some(dos::SPARSE)));
        assert_eq!(length(&ask(0, 0, 4096), &sparse, &plain), Err(NtStatus::NOT_SUPPORTED));
        assert_eq!(length(&ask(0, 0, 4096), &plain, &sparse), Ok(4096));
    }
}
