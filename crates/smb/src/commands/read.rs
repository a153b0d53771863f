//! READ. MS-SMB2 3.3.5.12.

use crate::conversion::status::status_of;
use crate::extensions::apple::{is_info, read_unwritten};
use crate::limits::SENDFILE_BYTES_MIN;
use crate::opens::open::{Open, OpenTarget};
use crate::opens::pipe::PipeData;
use crate::request::context::{AsyncReply, HandlerOutcome, Request, ResponseParts, malformed};
use crate::request::unpaid::UnpaidOpen;
use files::{OpenFile, ShareQueue};
use futures_util::future::{Either, select};
use limits::Cost;
use std::pin::pin;
use std::sync::Arc;
use wire::codec::Writer;
use wire::ntstatus::NtStatus;
use wire::smb::{Flags, Header, ReadRequest, ReadResponse};

/// Reads from a file or a pipe.
///
/// # Errors
/// `INVALID_PARAMETER` past the negotiated size, `FILE_CLOSED`, `END_OF_FILE` if fewer than
/// MinimumCount bytes are left, and the file layer's refusals.
pub async fn read(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = ReadRequest::decode(&mut request.body()?).map_err(malformed)?;
    let length = body.length_bytes as usize;
    request.check_payload(0, length)?;
    let open = request.open(body.file_id)?;
    match open.target() {
        OpenTarget::File(_) => read_open(request, open, &body).await,
        OpenTarget::Pipe(_) => read_pipe(request, open.free_of_charge(), length),
        OpenTarget::Quotas(_) => Err(NtStatus::INVALID_DEVICE_REQUEST),
    }
}

async fn read_open(
    request: &mut Request<'_>,
    open: UnpaidOpen,
    body: &ReadRequest,
) -> Result<HandlerOutcome, NtStatus> {
    // The last addressable byte is the one before 2^63.
    if body.offset_bytes > i64::MAX as u64
        || body.offset_bytes + u64::from(body.length_bytes) > i64::MAX as u64
    {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if matches!(open.target(), OpenTarget::File(file) if file.is_directory()) {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let cost = Cost::read(u64::from(body.length_bytes));
    let open = request.admit(open, cost).await?;
    let file = open.file()?;
    let before = request.w.buffer().len();
    let outcome = read_file(request, file, body).await;
    if let Some(queue) = open.tree.queue() {
        refund_unused(queue, request, file, (cost, before), &outcome);
    }
    outcome
}

/// Refunds the cost of bytes that were not read.
fn refund_unused(
    queue: &ShareQueue,
    request: &mut Request<'_>,
    file: &OpenFile,
    (cost, before): (Cost, usize),
    outcome: &Result<HandlerOutcome, NtStatus>,
) {
    let read = match outcome {
        Ok(HandlerOutcome::Done(ResponseParts { file: Some(range), .. })) => range.length_bytes,
        Ok(_) => request.w.buffer().len().saturating_sub(before),
        Err(_) => 0,
    };
    let unused = cost.bytes.saturating_sub(read as u64);
    if unused > 0 {
        queue.give_back(file, cost, unused);
    }
}

async fn read_file(
    request: &mut Request<'_>,
    file: &Arc<OpenFile>,
    body: &ReadRequest,
) -> Result<HandlerOutcome, NtStatus> {
    let length = body.length_bytes as usize;
    if length >= SENDFILE_BYTES_MIN
        && leaves_plain(request)
        && let Some(outcome) = send_file(request, file, body)?
    {
        return Ok(outcome);
    }
    let response = ReadResponse::begin(&mut request.w);
    let files = request.files;
    let (offset, out) = (body.offset_bytes, request.w.buffer());
    let mut count = files.read(file, offset, length, out).await.map_err(status_of)?;
    if count == 0 && is_info(file) {
        count = read_unwritten(offset, length, out);
    }
    check_end(count, body)?;
    response.finish(&mut request.w, count as u32);
    file.set_position(body.offset_bytes + count as u64);
    Ok(HandlerOutcome::success())
}

/// True if the response is alone in its frame, unsigned and unencrypted.
fn leaves_plain(request: &Request<'_>) -> bool {
    let session = request.channel.map(|c| &c.session);
    let protects = session.is_none_or(|s| s.signing_required || s.encrypt_data);
    request.is_single
        && !request.is_sealed
        && !protects
        && !request.header.flags.contains(Flags::SIGNED)
}

/// Leaves the data in the page cache, for sendfile.
fn send_file(
    request: &mut Request<'_>,
    file: &Arc<OpenFile>,
    body: &ReadRequest,
) -> Result<Option<HandlerOutcome>, NtStatus> {
    let files = request.files;
    let found = files
        .read_resident(file, body.offset_bytes, body.length_bytes as usize)
        .map_err(status_of)?;
    let Some(range) = found else { return Ok(None) };
    check_end(range.length_bytes, body)?;
    file.set_position(body.offset_bytes + range.length_bytes as u64);
    let response = ReadResponse::begin(&mut request.w);
    response.finish(&mut request.w, range.length_bytes as u32);
    Ok(Some(HandlerOutcome::Done(ResponseParts { file: Some(range), ..ResponseParts::default() })))
}

fn check_end(count: usize, body: &ReadRequest) -> Result<(), NtStatus> {
    let past_end = count == 0 && body.length_bytes > 0;
    if past_end || count < body.minimum_bytes as usize {
        Err(NtStatus::END_OF_FILE)
    } else {
        Ok(())
    }
}

/// Returns available data; without any the read waits.
fn read_pipe(
    request: &mut Request<'_>,
    open: Arc<Open>,
    length: usize,
) -> Result<HandlerOutcome, NtStatus> {
    let OpenTarget::Pipe(pipe) = &open.target else { return Err(NtStatus::INVALID_DEVICE_REQUEST) };
    match pipe.read(length)? {
        Some(data) => Ok(HandlerOutcome::status(put_pipe_data(&mut request.w, &data))),
        None => Ok(HandlerOutcome::Wait(Box::pin(wait_for_pipe_data(open, length)))),
    }
}

async fn wait_for_pipe_data(open: Arc<Open>, length: usize) -> Result<AsyncReply, NtStatus> {
    let OpenTarget::Pipe(pipe) = &open.target else { return Err(NtStatus::INVALID_DEVICE_REQUEST) };
    let data = match select(pin!(pipe.answer(length)), pin!(open.closed.raised())).await {
        Either::Left((data, _)) => data?,
        Either::Right(_) => return Err(NtStatus::PIPE_BROKEN),
    };
    // Offsets in the body count from the header, which is added later.
    let mut message = vec![0; Header::LENGTH];
    let status = put_pipe_data(&mut Writer::with_origin(&mut message, 0), &data);
    let body = message.split_off(Header::LENGTH);
    Ok(AsyncReply { reply: ResponseParts::with_status(status), body, open: None })
}

fn put_pipe_data(w: &mut Writer<'_>, (data, more): &PipeData) -> NtStatus {
    let response = ReadResponse::begin(w);
    w.bytes(data);
    response.finish(w, data.len() as u32);
    if *more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS }
}
