//! COPY, OFFLOAD_STATUS, OFFLOAD_CANCEL. RFC 7862 15.2, 15.8, 15.9.
//!
//! A large copy runs asynchronously if the client permits it and has a backchannel. Other copies
//! are synchronous and limited in length, so that the client asks for the rest. The server refuses
//! copies between servers and has no COPY_NOTIFY, so that clients read and write themselves.

use super::paid_open::{PaidOpen, copy_opens};
use crate::callback::offload::AsyncCopy;
use crate::limits::{COPY_BYTES_MAX, COPY_LATER_BYTES_MIN};
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use files::{Caller, OpenFile};
use std::sync::Arc;
use wire::nfs::ops::{
    CopyArgs, CopyReply, CopyRequirements, CopyResult, NfsWriteResponse, OffloadArgs,
    OffloadStatusResult,
};
use wire::nfs::{NfsStatus, StableHow, StateId, Verifier};

pub(crate) async fn copy(run: &mut CompoundRun<'_>, args: &CopyArgs<'_>) -> CopyReply {
    match try_copy(run, args).await {
        Ok(result) => CopyReply::Copied(result),
        Err(status) => CopyReply::Failed(status),
    }
}

async fn try_copy(run: &mut CompoundRun<'_>, args: &CopyArgs<'_>) -> Result<CopyResult, NfsStatus> {
    if !args.source_servers.is_empty() {
        return Err(NfsStatus::NOTSUPP);
    }
    let ids = (args.source_state_id, args.destination_state_id);
    let (from, PaidOpen { open: to, caller }) = copy_opens(run, ids).await?;
    let files = run.files().clone();
    let size = files.attributes_unchecked(&from).or_status()?.size_bytes;
    let left = size.checked_sub(args.source_offset).ok_or(NfsStatus::INVAL)?;
    // RFC 7862 15.2.3: zero means up to the end of the file, and a range beyond it is INVAL.
    // Linux's client cuts the range to the size that it knows and flushes that range before it
    // sends COPY. It knows a larger size after a write behind a hole that it has not flushed. A
    // short count, as by Linux's server, would be taken for the end of the file there, and the rest
    // would be lost.
    let wished = match args.count {
        0 => left,
        count if count > left => return Err(NfsStatus::INVAL),
        count => count,
    };
    if args.destination_offset.checked_add(wished).is_none_or(|end| end > i64::MAX as u64) {
        return Err(NfsStatus::FBIG);
    }
    // A copy in pieces would read its own output; Linux refuses this, too.
    let distance = args.source_offset.abs_diff(args.destination_offset);
    if from.key() == to.key() && distance < wished {
        return Err(NfsStatus::INVAL);
    }
    if !args.is_synchronous
        && wished > COPY_LATER_BYTES_MIN
        && let Some(result) = copy_later(run, args, (&from, &to, &caller), wished)?
    {
        return Ok(result);
    }
    let count = wished.min(COPY_BYTES_MAX);
    let verifier = run.server().write_verifier(to.key());
    if count > 0 {
        let (source_at, target_at) = (args.source_offset, args.destination_offset);
        let queues = run.copy_queues();
        run.admit_copy(&queues, [&from, &to], count).await;
        files.copy_range(&caller, (&from, source_at), (&to, target_at), count).await.or_status()?;
    }
    Ok(result_of(verifier, None, count))
}

/// Result of COPY; with a state id the copy is asynchronous.
fn result_of(verifier: Verifier, id: Option<StateId>, count: u64) -> CopyResult {
    let callback_id: Vec<StateId> = id.into_iter().collect();
    let (callback_id, committed) = (callback_id.into(), StableHow::Unstable);
    CopyResult {
        response: NfsWriteResponse { callback_id, count, committed, verifier },
        requirements: CopyRequirements { is_consecutive: true, is_synchronous: id.is_none() },
    }
}

/// Starts an asynchronous copy. None if the client has no working backchannel or too many copies.
fn copy_later(
    run: &mut CompoundRun<'_>,
    args: &CopyArgs<'_>,
    (from, to, caller): (&Arc<OpenFile>, &Arc<OpenFile>, &Arc<Caller>),
    length_bytes: u64,
) -> Result<Option<CopyResult>, NfsStatus> {
    let (server, client) = (run.server().clone(), run.client()?);
    let verifier = server.write_verifier(to.key());
    if !client.answers_callbacks() {
        return Ok(None);
    }
    let handle = run.place()?.handle(&server.files)?;
    let Ok(share) = server.holdings.copies.take(&client.holder) else { return Ok(None) };
    let Some((id, progress)) = client.copies.begin() else { return Ok(None) };
    let copy_job = AsyncCopy {
        id,
        progress,
        _share: share,
        source: (from.clone(), args.source_offset),
        target: (to.clone(), args.destination_offset),
        caller: caller.clone(),
        length_bytes,
        handle,
        referring: run.referring(),
        queues: run.copy_queues(),
    };
    let host = server.host.clone();
    host.carry_on(Box::pin(copy_job.run(server, client)));
    Ok(Some(result_of(verifier, Some(id), 0)))
}

pub(crate) fn offload_status(
    run: &mut CompoundRun<'_>,
    args: &OffloadArgs,
) -> Result<OffloadStatusResult, NfsStatus> {
    run.place()?;
    run.client()?.copies.status(&args.state_id)
}

pub(crate) fn offload_cancel(
    run: &mut CompoundRun<'_>,
    args: &OffloadArgs,
) -> Result<(), NfsStatus> {
    run.place()?;
    run.client()?.copies.cancel(&args.state_id)
}
