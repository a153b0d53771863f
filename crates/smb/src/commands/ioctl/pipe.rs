//! Control codes of named pipes. MS-SMB2 3.3.5.15.2, 3.3.5.15.4, 3.3.5.15.10.

use super::IoctlOutput;
use crate::opens::open::{Open, OpenTarget};
use crate::opens::pipe::OpenPipe;
use crate::request::context::{Request, malformed};
use wire::codec::utf16_units;
use wire::ntstatus::NtStatus;
use wire::rpc::RpcInterface;
use wire::smb::fsctl::{self, decode_pipe_wait};
use wire::smb::{FileId, IoctlRequest};

/// FILE_PIPE_CONNECTED_STATE. MS-FSCC 2.4.37.
const CONNECTED: u32 = 3;
/// Size of a PIPE_PEEK response before the data.
const PEEK_BYTES: usize = 16;

/// Executes a control code on an open pipe.
pub(super) fn on_pipe(
    request: &Request<'_>,
    open: &Open,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    let OpenTarget::Pipe(pipe) = &open.target else { return Err(NtStatus::INVALID_DEVICE_REQUEST) };
    match body.code {
        fsctl::PIPE_TRANSCEIVE => transceive(request, pipe, body),
        fsctl::PIPE_PEEK => peek(pipe, body),
        _ => Err(NtStatus::NOT_SUPPORTED),
    }
}

/// Writes a call and reads its response in one round trip.
fn transceive(
    request: &Request<'_>,
    pipe: &OpenPipe,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    let (now, room) = (request.server.host.now().wall, body.output_bytes_max as usize);
    let (output, more) = pipe.transceive(body.input, room, now)?;
    Ok(IoctlOutput {
        status: if more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS },
        output,
    })
}

/// Returns available data without consuming it. MS-FSCC 2.3.48.
fn peek(pipe: &OpenPipe, body: &IoctlRequest<'_>) -> Result<IoctlOutput, NtStatus> {
    let room = body.output_bytes_max as usize;
    let Some(data_room) = room.checked_sub(PEEK_BYTES) else {
        return Err(NtStatus::INVALID_PARAMETER);
    };
    let (data, available) = pipe.peek(data_room);
    let available = available as u32;
    let messages = u32::from(available > 0);
    let mut output = [CONNECTED, available, messages, available].map(u32::to_le_bytes).concat();
    output.extend_from_slice(&data);
    let cut = output.len() < PEEK_BYTES + available as usize;
    Ok(IoctlOutput {
        status: if cut { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS },
        output,
    })
}

/// Reports whether a pipe exists; an existing pipe is always available.
pub(super) fn wait(
    request: &mut Request<'_>,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    if !request.tree()?.free_of_charge().share.is_ipc() || body.file_id != FileId::RELATED {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let name = decode_pipe_wait(body.input).map_err(malformed)?;
    let name = utf16_units(name, "pipe name").map_err(malformed)?;
    let known = RpcInterface::of_pipe(&String::from_utf16_lossy(&name));
    known.map(|_| IoctlOutput::empty()).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)
}
