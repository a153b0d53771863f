//! LOCK. MS-SMB2 3.3.5.14.

use crate::conversion::status::status_of;
use crate::limits::LOCKS_PER_REQUEST_MAX;
use crate::opens::open::Open;
use crate::request::context::{AsyncReply, HandlerOutcome, Request, ResponseParts, malformed};
use crate::server::SmbServer;
use files::{LockKind, Range, RangeLock, RequestFiles};
use futures_util::future::{Either, select};
use limits::{Cost, LedgerHolder};
use std::pin::pin;
use std::sync::Arc;
use wire::codec::Writer;
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::capabilities;
use wire::smb::{EmptyBody, LockElement, LockRequest};

/// Locks or unlocks ranges.
///
/// # Errors
/// `INVALID_PARAMETER` for contradicting flags, `INVALID_LOCK_RANGE`, `LOCK_NOT_GRANTED`,
/// `RANGE_NOT_LOCKED`; `FILE_NOT_AVAILABLE` for a stale request.
pub async fn lock(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body =
        LockRequest::decode(&mut request.body()?, LOCKS_PER_REQUEST_MAX).map_err(malformed)?;
    let open = request.open(body.file_id)?;
    let open = request.admit(open, Cost::metadata()).await?;
    let file = open.file()?;
    if file.is_directory() {
        // MS-FSA 2.1.5.8.
        return Err(NtStatus::INVALID_PARAMETER);
    }
    // Without multichannel nothing is replayed. MS-SMB2 3.3.5.14.
    let multichannel = request.negotiated.capabilities & capabilities::MULTI_CHANNEL != 0;
    let sequence = if multichannel { body.sequence } else { 0 };
    // The request comes from a lost channel, after its successor. The client would not know of the
    // lock.
    if multichannel && request.outstanding.is_none() && open.lock_sequences().is_behind(sequence) {
        return Err(NtStatus::FILE_NOT_AVAILABLE);
    }
    let is_replay = open.lock_sequences().is_replay(sequence);
    if is_replay {
        // The record of the first request may not be written yet.
        request.server.update_record(&open).await?;
        EmptyBody.encode(&mut request.w);
        return Ok(HandlerOutcome::success());
    }
    let is_unlock = body.elements[0].flags & LockElement::UNLOCK != 0;
    // Unlocking remains possible after the ticket's expiry; locking does not.
    if !is_unlock && request.session()?.is_expired(|| request.server.host.now().wall) {
        return Err(NtStatus::NETWORK_SESSION_EXPIRED);
    }
    if is_unlock {
        unlock_all(request.files, &open, &body.elements)?;
    } else {
        let (locks, waits) = wanted(&body.elements)?;
        let holder = request.session()?.holder.clone();
        match request.files.try_locks(file, &locks, &holder) {
            Ok(()) => {
                record_locks(request.server, request.files, &open, &locks, sequence).await?;
                EmptyBody.encode(&mut request.w);
                return Ok(HandlerOutcome::success());
            }
            Err(vfs::FsError::LockNotGranted) if waits => {
                let (server, files) = (request.server.clone(), request.files.clone());
                let waiting = wait(server, files, open, locks, sequence, holder);
                return Ok(HandlerOutcome::Wait(Box::pin(waiting)));
            }
            Err(error) => return Err(status_of(error)),
        }
    }
    open.lock_sequences().handle_done(sequence);
    request.server.update_record(&open).await?;
    EmptyBody.encode(&mut request.w);
    Ok(HandlerOutcome::success())
}

/// Records granted locks. A persistent open has its locks after a restart, or the request fails.
async fn record_locks(
    server: &SmbServer,
    files: &RequestFiles,
    open: &Open,
    locks: &[RangeLock],
    sequence: u32,
) -> Result<(), NtStatus> {
    open.lock_sequences().handle_done(sequence);
    let kept = server.update_record(open).await;
    if kept.is_err() {
        open.lock_sequences().handle_undone(sequence);
        files.release_all(open.file()?, locks);
    }
    kept
}

/// Unlocks the ranges in order; ranges before a failure stay unlocked.
fn unlock_all(files: &RequestFiles, open: &Open, elements: &[LockElement]) -> Result<(), NtStatus> {
    let mut ranges = Vec::with_capacity(elements.len());
    let failed = elements.iter().map(unlocked_range).find_map(|range| match range {
        Ok(range) => {
            ranges.push(range);
            None
        }
        Err(status) => Some(status),
    });
    files.unlock_all(open.file()?, &ranges).map_err(status_of)?;
    failed.map_or(Ok(()), Err)
}

fn unlocked_range(element: &LockElement) -> Result<Range, NtStatus> {
    if element.flags == LockElement::UNLOCK {
        range_of(element)
    } else {
        Err(NtStatus::INVALID_PARAMETER)
    }
}

/// The locks of a request, and true if it may wait for them.
fn wanted(elements: &[LockElement]) -> Result<(Vec<RangeLock>, bool), NtStatus> {
    let mut waits = false;
    let mut locks = Vec::with_capacity(elements.len());
    for element in elements {
        let fails = element.flags & LockElement::FAIL_IMMEDIATELY != 0;
        let kind = match element.flags & !LockElement::FAIL_IMMEDIATELY {
            LockElement::SHARED => LockKind::Shared,
            LockElement::EXCLUSIVE => LockKind::Exclusive,
            _ => return Err(NtStatus::INVALID_PARAMETER),
        };
        // Only a single range may wait.
        if !fails && elements.len() > 1 {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        waits |= !fails;
        locks.push(RangeLock { range: range_of(element)?, kind });
    }
    Ok((locks, waits))
}

fn range_of(element: &LockElement) -> Result<Range, NtStatus> {
    Range::new(element.offset_bytes, element.length_bytes).ok_or(NtStatus::INVALID_LOCK_RANGE)
}

async fn wait(
    server: Arc<SmbServer>,
    files: RequestFiles,
    open: Arc<Open>,
    locks: Vec<RangeLock>,
    sequence: u32,
    holder: LedgerHolder,
) -> Result<AsyncReply, NtStatus> {
    let file = open.file()?.clone();
    for &lock in &locks {
        let granted = files.lock(&file, lock, &holder);
        match select(pin!(open.closed.raised()), pin!(granted)).await {
            Either::Left(_) => return Err(NtStatus::RANGE_NOT_LOCKED),
            Either::Right((result, _)) => result.map_err(status_of)?,
        }
    }
    record_locks(&server, &files, &open, &locks, sequence).await?;
    let mut body = Vec::new();
    EmptyBody.encode(&mut Writer::new(&mut body));
    Ok(AsyncReply { reply: ResponseParts::default(), body, open: None })
}
