//! IOCTL. MS-SMB2 3.3.5.15.

mod copy_chunk;
mod duplicate;
mod mark_handle;
mod network;
mod pipe;
mod ranges;
mod reparse;

use crate::conversion::status::status_of;
use crate::extensions::previous_versions::snapshot_array;
use crate::opens::durability::Durability;
use crate::opens::open::{Open, OpenTarget};
use crate::opens::stable::{self, Promise};
use crate::request::context::{HandlerOutcome, QueryRefusal, Request, ResponseParts, malformed};
use files::OpenFile;
use limits::Cost;
use std::sync::Arc;
use vfs::{FileSystemId, FsError};
use wire::codec::Reader;
use wire::fscc::{self, OBJECT_ID_BUFFER_BYTES};
use wire::ntstatus::NtStatus;
use wire::smb::{Dialect, FileId, IoctlRequest, IoctlResponse, fsctl};

/// COMPRESSION_FORMAT_NONE, _DEFAULT and _LZNT1. MS-FSCC 2.3.18.
const COMPRESSION_NONE: u16 = 0;
const COMPRESSION_DEFAULT: u16 = 1;
const COMPRESSION_LZNT1: u16 = 2;

/// Output of a control code, with its status.
struct IoctlOutput {
    status: NtStatus,
    output: Vec<u8>,
}

impl IoctlOutput {
    fn ok(output: Vec<u8>) -> Self {
        Self { status: NtStatus::SUCCESS, output }
    }

    fn empty() -> Self {
        Self::ok(Vec::new())
    }
}

/// Executes a control code.
pub async fn ioctl(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = IoctlRequest::decode(&mut request.body()?).map_err(malformed)?;
    if !body.is_fsctl {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    let room = body.output_bytes_max as usize + body.input_bytes_max as usize;
    request.check_payload(body.input.len(), room)?;
    // MS-SMB2 3.3.5.15: session and tree are checked first.
    let _ = request.tree()?.free_of_charge();
    let mut file_id = body.file_id;
    let about_connection = [fsctl::VALIDATE_NEGOTIATE_INFO, fsctl::QUERY_NETWORK_INTERFACE_INFO];
    if about_connection.contains(&body.code) && file_id != FileId::RELATED {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    match answer(request, &body, &mut file_id).await {
        Ok(answer) => respond(request, &body, file_id, answer),
        Err(refusal) => request.refuse_query(refusal),
    }
}

async fn answer(
    request: &mut Request<'_>,
    body: &IoctlRequest<'_>,
    file_id: &mut FileId,
) -> Result<IoctlOutput, QueryRefusal> {
    Ok(match body.code {
        fsctl::VALIDATE_NEGOTIATE_INFO => network::validate_negotiate(request, body)?,
        fsctl::QUERY_NETWORK_INTERFACE_INFO => network::interfaces(request, body)?,
        // DFS is not served; with this status clients do not retry.
        fsctl::DFS_GET_REFERRALS | fsctl::DFS_GET_REFERRALS_EX => {
            return Err(NtStatus::FS_DRIVER_REQUIRED.into());
        }
        fsctl::PIPE_WAIT => pipe::wait(request, body)?,
        _ => {
            let open = request.open(body.file_id)?;
            let open = request.admit(open, Cost::metadata()).await?;
            *file_id = open.id;
            let stabilizing =
                stable::before(request.files, &open, Promise::of_ioctl(body.code)).await?;
            let answer = on_open(request, &open, body).await?;
            if let OpenTarget::File(file) = &open.target {
                stabilizing.after(request.files, file).await?;
            }
            answer
        }
    })
}

fn respond(
    request: &mut Request<'_>,
    body: &IoctlRequest<'_>,
    file_id: FileId,
    answer: IoctlOutput,
) -> Result<HandlerOutcome, NtStatus> {
    let room = body.output_bytes_max as usize;
    let cut = &answer.output[..answer.output.len().min(room)];
    IoctlResponse { code: body.code, file_id, output: cut }.encode(&mut request.w);
    let status =
        if cut.len() < answer.output.len() { NtStatus::BUFFER_OVERFLOW } else { answer.status };
    Ok(HandlerOutcome::Done(ResponseParts::with_status(status)))
}

async fn on_open(
    request: &mut Request<'_>,
    open: &Arc<Open>,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, QueryRefusal> {
    if let OpenTarget::Pipe(_) = &open.target {
        return Ok(pipe::on_pipe(request, open, body)?);
    }
    let file = open.file()?;
    Ok(match body.code {
        fsctl::LMR_REQUEST_RESILIENCY => request_resiliency(request, open, body)?,
        fsctl::SRV_REQUEST_RESUME_KEY => copy_chunk::resume_key(open, body)?,
        fsctl::SRV_COPYCHUNK | fsctl::SRV_COPYCHUNK_WRITE => {
            copy_chunk::copy(request, open, body).await?
        }
        fsctl::DUPLICATE_EXTENTS_TO_FILE | fsctl::DUPLICATE_EXTENTS_TO_FILE_EX => {
            duplicate::duplicate(request, open, body).await?
        }
        fsctl::SET_SPARSE => ranges::set_sparse(request, open, body)?,
        fsctl::SET_ZERO_DATA => ranges::set_zero_data(request, open, body).await?,
        fsctl::QUERY_ALLOCATED_RANGES => ranges::allocated(request, open, body).await?,
        fsctl::QUERY_FILE_REGIONS => ranges::regions(request, open, body)?,
        fsctl::FILE_LEVEL_TRIM => ranges::trim(request, open, body).await?,
        fsctl::GET_COMPRESSION => compression(request, file, body)?,
        fsctl::SET_COMPRESSION => set_compression(request, file, body).await?,
        fsctl::CREATE_OR_GET_OBJECT_ID | fsctl::GET_OBJECT_ID => object_id(file, body)?,
        fsctl::GET_REPARSE_POINT => reparse::get(request, open)?,
        fsctl::SET_REPARSE_POINT => reparse::set(request, open, body).await?,
        fsctl::DELETE_REPARSE_POINT => reparse::delete(request, open, body).await?,
        fsctl::MARK_HANDLE => mark_handle::mark_handle(open, body)?,
        fsctl::SRV_ENUMERATE_SNAPSHOTS => snapshots(request, file, body).await?,
        // MS-FSA 2.1.5.10.20, 2.1.5.10.21: the volume's storage has no offloaded copies.
        fsctl::OFFLOAD_READ | fsctl::OFFLOAD_WRITE => {
            return Err(NtStatus::NOT_SUPPORTED.into());
        }
        // MS-SMB2 3.3.5.15: a control that the server allows on none of its file systems; it is
        // ReFS' own.
        fsctl::REFS_STREAM_SNAPSHOT_MANAGEMENT => return Err(NtStatus::NOT_SUPPORTED.into()),
        // MS-SMB2 3.3.5.15.7: BranchCache hashes are not served.
        fsctl::SRV_READ_HASH => return Err(NtStatus::NOT_SUPPORTED.into()),
        // This control is for volume opens, which do not exist here.
        fsctl::IS_VOLUME_DIRTY => return Err(NtStatus::INVALID_PARAMETER.into()),
        // Controls of absent file system features: integrity streams, journals, quotas, changes of
        // object ids, zeros on release. MS-FSA 2.1.5.10.
        _ => return Err(NtStatus::INVALID_DEVICE_REQUEST.into()),
    })
}

/// Makes an open resilient. MS-SMB2 3.3.5.15.9.
fn request_resiliency(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    if request.negotiated.dialect == Dialect::Smb202 {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let mut r = Reader::new(body.input);
    let requested_ms = r.u32("timeout").map_err(malformed)?;
    r.skip(4, "reserved").map_err(malformed)?;
    let durability = Durability::resilient(requested_ms)?;
    let durable = &open.origin.charges.durable;
    if durable.get().is_none() {
        let charge = request.server.holdings.durable.take(&request.session()?.holder);
        // A concurrent request may have charged it; one charge suffices.
        let _ = durable.set(charge.map_err(|_| NtStatus::INSUFFICIENT_RESOURCES)?);
    }
    open.set_durability(durability);
    Ok(IoctlOutput::empty())
}

/// The times of the share's snapshots. MS-SMB2 3.3.5.15.1.
async fn snapshots(
    request: &Request<'_>,
    file: &OpenFile,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    if body.output_bytes_max < 16 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let times = match request.files.snapshots(file.volume()).await {
        // The share has no snapshots, or none yet.
        Err(FsError::NotFound | FsError::PathNotFound) => Vec::new(),
        other => other.map_err(status_of)?,
    };
    Ok(IoctlOutput::ok(snapshot_array(&times, body.output_bytes_max as usize)))
}

/// The compression state of a file. Every open may query it.
fn compression(
    request: &Request<'_>,
    file: &OpenFile,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    if body.output_bytes_max < 2 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let compressed = request.files.attributes_unchecked(file).map_err(status_of)?.compressed;
    let format = if compressed { COMPRESSION_LZNT1 } else { COMPRESSION_NONE };
    Ok(IoctlOutput::ok(format.to_le_bytes().to_vec()))
}

/// Enables or disables compression; the file system chooses the algorithm.
async fn set_compression(
    request: &Request<'_>,
    file: &Arc<OpenFile>,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    let format = Reader::new(body.input).u16("compression").map_err(malformed)?;
    if ![COMPRESSION_NONE, COMPRESSION_DEFAULT, COMPRESSION_LZNT1].contains(&format) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let compressed = format != COMPRESSION_NONE;
    request.files.set_compressed(file, compressed).await.map_err(status_of)?;
    Ok(IoctlOutput::empty())
}

/// Every file of a file system that identifies its files for good has an object id, which is
/// independent of the mount. MS-FSA 2.1.5.10.1, 2.1.5.10.13.
fn object_id(file: &OpenFile, body: &IoctlRequest<'_>) -> Result<IoctlOutput, NtStatus> {
    let FileSystemId(file_system) =
        file.features().file_system.ok_or(NtStatus::VOLUME_NOT_UPGRADED)?;
    if (body.output_bytes_max as usize) < OBJECT_ID_BUFFER_BYTES {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let persistent = file.persistent_id().ok_or(NtStatus::OBJECTID_NOT_FOUND)?;
    let id = fscc::object_id(file_system, persistent.as_bytes());
    Ok(IoctlOutput::ok(fscc::object_id_buffer(file_system, id)))
}
