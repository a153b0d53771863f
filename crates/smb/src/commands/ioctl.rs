//! IOCTL. MS-SMB2 3.3.5.15.

mod copy_chunk;
mod network;

use crate::dispatch::{Outcome, Reply, Request, malformed};
use crate::durable::Durability;
use crate::open::{Open, Target};
use crate::status::status_of;
use std::sync::Arc;
use wire::codec::Reader;
use wire::ntstatus::NtStatus;
use wire::smb::{Dialect, FileId, IoctlRequest, IoctlResponse, fsctl};

/// Ranges in one answer to QUERY_ALLOCATED_RANGES.
const RANGES_MAX: usize = 4096;

/// Output of a control code and the status it goes with.
struct Answer {
    status: NtStatus,
    output: Vec<u8>,
}

impl Answer {
    fn ok(output: Vec<u8>) -> Self {
        Self { status: NtStatus::SUCCESS, output }
    }
}

/// Carries out a control code.
pub async fn ioctl(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    let body = IoctlRequest::decode(&mut request.body()?).map_err(malformed)?;
    if !body.is_fsctl {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    let room = body.output_bytes_max as usize + body.input_bytes_max as usize;
    request.check_payload(body.input.len(), room)?;
    let mut file_id = body.file_id;
    let about_connection = [fsctl::VALIDATE_NEGOTIATE_INFO, fsctl::QUERY_NETWORK_INTERFACE_INFO];
    if about_connection.contains(&body.code) && file_id != FileId::RELATED {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let answer = match body.code {
        fsctl::VALIDATE_NEGOTIATE_INFO => network::validate_negotiate(request, &body)?,
        fsctl::QUERY_NETWORK_INTERFACE_INFO => network::interfaces(request, &body)?,
        // No DFS is served: said so, clients ask no further.
        fsctl::DFS_GET_REFERRALS | fsctl::DFS_GET_REFERRALS_EX => {
            return Err(NtStatus::FS_DRIVER_REQUIRED);
        }
        fsctl::PIPE_WAIT => return Err(NtStatus::NOT_SUPPORTED),
        _ => {
            let open = request.open(body.file_id)?;
            file_id = open.id;
            on_open(request, &open, &body).await?
        }
    };
    respond(request, &body, file_id, answer)
}

fn respond(
    request: &mut Request<'_>,
    body: &IoctlRequest<'_>,
    file_id: FileId,
    answer: Answer,
) -> Result<Outcome, NtStatus> {
    let room = body.output_bytes_max as usize;
    let cut = &answer.output[..answer.output.len().min(room)];
    IoctlResponse { code: body.code, file_id, output: cut }.encode(&mut request.w);
    let status =
        if cut.len() < answer.output.len() { NtStatus::BUFFER_OVERFLOW } else { answer.status };
    Ok(Outcome::Done(Reply::with_status(status)))
}

async fn on_open(
    request: &Request<'_>,
    open: &Arc<Open>,
    body: &IoctlRequest<'_>,
) -> Result<Answer, NtStatus> {
    if let Target::Pipe(_) = &open.target {
        return match body.code {
            fsctl::PIPE_TRANSCEIVE => transceive(open, body),
            _ => Err(NtStatus::NOT_SUPPORTED),
        };
    }
    let files = &request.server.files;
    let file = open.file()?;
    let mut r = Reader::new(body.input);
    match body.code {
        fsctl::LMR_REQUEST_RESILIENCY => request_resiliency(request, open, body),
        fsctl::SRV_REQUEST_RESUME_KEY => copy_chunk::resume_key(open, body),
        fsctl::SRV_COPYCHUNK | fsctl::SRV_COPYCHUNK_WRITE => {
            copy_chunk::copy(request, open, body).await
        }
        fsctl::SET_SPARSE => {
            let sparse = body.input.first().is_none_or(|&b| b != 0);
            files.set_sparse(file, sparse).map_err(status_of)?;
            Ok(Answer::ok(Vec::new()))
        }
        fsctl::SET_ZERO_DATA => {
            let mut offset = || r.u64("zero data").map_err(malformed);
            let (from, to) = (offset()?, offset()?);
            if from > to || to > i64::MAX as u64 {
                return Err(NtStatus::INVALID_PARAMETER);
            }
            files.zero_range(file, from, to - from).await.map_err(status_of)?;
            Ok(Answer::ok(Vec::new()))
        }
        fsctl::QUERY_ALLOCATED_RANGES => allocated_ranges(request, open, body),
        fsctl::FILE_LEVEL_TRIM
        | fsctl::SET_INTEGRITY_INFORMATION
        | fsctl::GET_INTEGRITY_INFORMATION => Err(NtStatus::INVALID_DEVICE_REQUEST),
        fsctl::GET_REPARSE_POINT => Err(NtStatus::NOT_A_REPARSE_POINT),
        fsctl::GET_COMPRESSION if body.output_bytes_max >= 2 => Ok(Answer::ok(vec![0, 0])),
        fsctl::SET_COMPRESSION => match r.u16("compression") {
            Ok(0) => Ok(Answer::ok(Vec::new())),
            Ok(_) => Err(NtStatus::NOT_SUPPORTED),
            Err(_) => Err(NtStatus::INVALID_PARAMETER),
        },
        fsctl::CREATE_OR_GET_OBJECT_ID => {
            let mut output = vec![0; 64];
            output[..8].copy_from_slice(&file.key().inode.to_le_bytes());
            output[8..16].copy_from_slice(&file.key().device.to_le_bytes());
            Ok(Answer::ok(output))
        }
        fsctl::SRV_ENUMERATE_SNAPSHOTS if body.output_bytes_max >= 16 => {
            // None, and none returned, in a list of two zeros.
            Ok(Answer::ok([[0u8; 8], [2, 0, 0, 0, 0, 0, 0, 0]].concat()))
        }
        _ => Err(NtStatus::INVALID_DEVICE_REQUEST),
    }
}

/// The open is to outlive its connection whatever others need. MS-SMB2 3.3.5.15.9.
fn request_resiliency(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<Answer, NtStatus> {
    if request.negotiated.dialect == Dialect::Smb202 {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let mut r = Reader::new(body.input);
    let asked_ms = r.u32("timeout").map_err(malformed)?;
    r.skip(4, "reserved").map_err(malformed)?;
    open.set_durability(Durability::resilient(asked_ms)?);
    Ok(Answer::ok(Vec::new()))
}

fn allocated_ranges(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<Answer, NtStatus> {
    let mut r = Reader::new(body.input);
    let mut number = || r.u64("range").map_err(malformed);
    let (offset, length) = (number()?, number()?);
    if offset > i64::MAX as u64 || length > i64::MAX as u64 || offset + length > i64::MAX as u64 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let room = (body.output_bytes_max as usize / 16).min(RANGES_MAX);
    let files = &request.server.files;
    let (ranges, more) =
        files.allocated_ranges(open.file()?, offset, length, room).map_err(status_of)?;
    if room == 0 && (more || !ranges.is_empty()) {
        return Err(NtStatus::BUFFER_TOO_SMALL);
    }
    let status =
        if more || ranges.len() > room { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
    let output = ranges
        .iter()
        .take(room)
        .flat_map(|(o, l)| [o.to_le_bytes(), l.to_le_bytes()].concat())
        .collect();
    Ok(Answer { status, output })
}

/// A call and its answer in one round trip.
fn transceive(open: &Open, body: &IoctlRequest<'_>) -> Result<Answer, NtStatus> {
    let Target::Pipe(pipe) = &open.target else { return Err(NtStatus::INVALID_DEVICE_REQUEST) };
    let (output, more) = pipe.transceive(body.input, body.output_bytes_max as usize)?;
    Ok(Answer { status: if more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS }, output })
}
