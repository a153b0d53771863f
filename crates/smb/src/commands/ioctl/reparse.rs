//! Reparse points of an open file. MS-FSA 2.1.5.10.12, 2.1.5.10.35, 2.1.5.10.5.

use super::IoctlOutput;
use crate::conversion::reparse::{self, tag_of};
use crate::conversion::status::status_of;
use crate::opens::open::Open;
use crate::request::context::Request;
use files::Reparse;
use vfs::FsError;
use wire::codec::DecodeError;
use wire::fscc::{
    LX_VERSION_BYTES, REPARSE_TAG_LX_SYMLINK, REPARSE_TAG_NFS, REPARSE_TAG_SYMLINK, ReparseBuffer,
    Symlink, decode_nfs_link,
};
use wire::ntstatus::NtStatus;
use wire::smb::IoctlRequest;

/// Returns the reparse point of the file.
pub(super) fn get(request: &Request<'_>, open: &Open) -> Result<IoctlOutput, NtStatus> {
    let found = present(request, open)?.ok_or(NtStatus::NOT_A_REPARSE_POINT)?;
    reparse::buffer_of(found).map(IoctlOutput::ok).ok_or(NtStatus::IO_REPARSE_DATA_INVALID)
}

/// Sets a reparse point on the file.
pub(super) async fn set(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    let invalid = |_| NtStatus::IO_REPARSE_DATA_INVALID;
    let buffer = ReparseBuffer::decode(body.input).map_err(invalid)?;
    if present(request, open)?.is_some_and(|found| tag_of(&found) != buffer.tag) {
        return Err(NtStatus::IO_REPARSE_TAG_MISMATCH);
    }
    let NewLink { target, text } = NewLink::of(&buffer).map_err(invalid)?;
    let (files, file) = (request.files, open.file()?);
    let store = || files.set_reparse(file, body.input.to_vec(), text.as_deref());
    let turned = match (target, reparse::special_of(&buffer).map_err(invalid)?) {
        (Some(target), _) => files.set_symlink(file, target).await,
        (None, Some(kind)) => files.set_special(file, kind).await,
        (None, None) => Err(FsError::NotSupported),
    };
    let done = match turned {
        // A file with content, or a device that the user may not create, keeps its kind; the
        // reparse data are stored as an attribute.
        Err(FsError::NotSupported) => store().await,
        other => other,
    };
    done.map(|()| IoctlOutput::empty()).map_err(status_of)
}

/// The symbolic link that a client's reparse buffer describes.
#[derive(Debug)]
struct NewLink {
    /// The target of a link on disk; none if the disk cannot represent it.
    target: Option<Vec<u8>>,
    /// The target as text; none for other reparse points.
    text: Option<Vec<u8>>,
}

impl NewLink {
    fn of(buffer: &ReparseBuffer<'_>) -> Result<Self, DecodeError> {
        Ok(match buffer.tag {
            REPARSE_TAG_SYMLINK => {
                let link = Symlink::decode(buffer.data)?;
                let text = reparse::link_text(&link);
                Self { target: reparse::posix_target(&link), text: Some(text) }
            }
            REPARSE_TAG_NFS => {
                let link = decode_nfs_link(buffer.data)?;
                let text = link.as_ref().map(|units| String::from_utf16_lossy(units).into_bytes());
                Self { target: link.and_then(|units| reparse::nfs_target(&units)), text }
            }
            REPARSE_TAG_LX_SYMLINK => {
                let text = buffer.data.get(LX_VERSION_BYTES..).unwrap_or_default();
                Self { target: None, text: Some(text.to_vec()) }
            }
            _ => Self { target: None, text: None },
        })
    }
}

/// Removes the reparse point of the file.
pub(super) async fn delete(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    let buffer =
        ReparseBuffer::decode(body.input).map_err(|_| NtStatus::IO_REPARSE_DATA_INVALID)?;
    let found = present(request, open)?.ok_or(NtStatus::NOT_A_REPARSE_POINT)?;
    if !buffer.data.is_empty() {
        return Err(NtStatus::IO_REPARSE_DATA_INVALID);
    }
    if tag_of(&found) != buffer.tag {
        return Err(NtStatus::IO_REPARSE_TAG_MISMATCH);
    }
    let done = request.files.delete_reparse(open.file()?).await;
    done.map(|()| IoctlOutput::empty()).map_err(status_of)
}

fn present(request: &Request<'_>, open: &Open) -> Result<Option<Reparse>, NtStatus> {
    match request.files.reparse(open.file()?) {
        Ok(found) => Ok(Some(found)),
        Err(FsError::NotFound) => Ok(None),
        Err(error) => Err(status_of(error)),
    }
}
