//! WRITE. MS-SMB2 3.3.5.13.

use crate::conversion::status::status_of;
use crate::extensions::apple::{InfoWrite, decide_info_write, is_info};
use crate::extensions::posix::is_posix;
use crate::opens::open::{Open, OpenTarget};
use crate::request::context::{HandlerOutcome, Request, malformed};
use files::{Access, OpenFile, RequestFiles, UnstableObjects};
use limits::Cost;
use std::sync::Arc;
use wire::ntstatus::NtStatus;
use wire::smb::{WriteRequest, WriteResponse};

/// The offset that means the present end of the file. A POSIX client with append access only must
/// use it; no other client may.
const APPEND: u64 = u64::MAX;

fn appends(file: &OpenFile) -> bool {
    let granted = file.granted();
    granted.contains(Access::APPEND_DATA) && !granted.contains(Access::WRITE_DATA)
}

/// Writes AFP_AfpInfo, the Finder information of a file.
fn write_info(
    files: &RequestFiles,
    file: &OpenFile,
    body: &WriteRequest<'_>,
) -> Result<(), NtStatus> {
    match decide_info_write(body.offset_bytes, body.data)? {
        InfoWrite::Whole(info) => files.write(file.caller(), file, 0, &info).map_err(status_of)?,
        InfoWrite::Removed => files.discard_stream(file).map_err(status_of)?,
        InfoWrite::Ignored => {}
    }
    Ok(())
}

/// Writes to a file, and waits until the data is stable if the open or the request promises it.
async fn write_file(
    request: &Request<'_>,
    (open, file): (&Open, &Arc<OpenFile>),
    body: &WriteRequest<'_>,
) -> Result<(), NtStatus> {
    let files = request.files;
    if is_info(file) {
        write_info(files, file, body)?;
    } else {
        if is_posix(file) && appends(file) != (body.offset_bytes == APPEND) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        // The last addressable byte is the one before 2^63.
        let end = body.offset_bytes.checked_add(body.data.len() as u64);
        let end = end.filter(|end| *end <= i64::MAX as u64);
        if end.is_none() && !(is_posix(file) && body.offset_bytes == APPEND) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        files.write_waiting(file, body.offset_bytes, body.data).await.map_err(status_of)?;
        file.set_position(end.unwrap_or_default());
    }
    if open.writes_through() || body.flags & WriteRequest::WRITE_THROUGH != 0 {
        // Unlike FLUSH, this does not publish the change: leases on the directory last until the
        // close.
        let mut unstable = UnstableObjects::default();
        unstable.add_open(file);
        files.make_stable(unstable).await.map_err(status_of)?;
    }
    Ok(())
}

/// Writes to a file or a pipe.
///
/// # Errors
/// `INVALID_PARAMETER` past the negotiated size, `FILE_CLOSED`, and the file layer's refusals.
pub async fn write(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = WriteRequest::decode(&mut request.body()?).map_err(malformed)?;
    request.check_payload(body.data.len(), 0)?;
    let open = request.open(body.file_id)?;
    let open = request.admit(open, Cost::write(body.data.len() as u64)).await?;
    let file = match &open.target {
        OpenTarget::File(file) => file,
        OpenTarget::Pipe(pipe) => {
            pipe.write(body.data, request.server.host.now().wall)?;
            WriteResponse { count: body.data.len() as u32 }.encode(&mut request.w);
            return Ok(HandlerOutcome::success());
        }
        OpenTarget::Quotas(_) => return Err(NtStatus::INVALID_DEVICE_REQUEST),
    };
    if file.is_directory() {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    write_file(request, (&open, file), &body).await?;
    WriteResponse { count: body.data.len() as u32 }.encode(&mut request.w);
    Ok(HandlerOutcome::success())
}
