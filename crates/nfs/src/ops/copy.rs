//! COPY, CLONE, OFFLOAD_STATUS, OFFLOAD_CANCEL. RFC 7862 15.2, 15.8, 15.9, 15.13.
//!
//! Copies are made before they are answered: a client asks for as much at once as it
//! would wait for.

use super::data::anonymous_open;
use crate::compound::Run;
use crate::limits::COPY_BYTES_MAX;
use crate::status::OrStatus;
use files::{Access as Rights, OpenFile};
use std::sync::Arc;
use wire::nfs::ops::{CloneArgs, CopyArgs, CopyReply, CopyRequirements, CopyResult, WriteResponse};
use wire::nfs::{NfsStatus, StableHow, StateId};

/// The opens of the saved and of the current file.
async fn both(
    run: &mut Run<'_>,
    (source, target): (StateId, StateId),
) -> Result<(Arc<OpenFile>, Arc<OpenFile>), NfsStatus> {
    let id = run.resolve_id(source)?;
    let from = if id.is_special() {
        let (object, export) = run.saved_object().await?;
        let caller = run.caller(&export);
        anonymous_open(run, object, caller, Rights::READ_DATA).await?
    } else {
        run.saved_open_by(&id, Rights::READ_DATA)?.open
    };
    let to = super::data::open_for(run, target, Rights::WRITE_DATA).await?;
    Ok((from, to))
}

pub(crate) async fn copy(run: &mut Run<'_>, args: &CopyArgs<'_>) -> CopyReply {
    match try_copy(run, args).await {
        Ok(result) => CopyReply::Copied(result),
        Err(status) => CopyReply::Failed(status),
    }
}

async fn try_copy(run: &mut Run<'_>, args: &CopyArgs<'_>) -> Result<CopyResult, NfsStatus> {
    if !args.source_servers.is_empty() {
        return Err(NfsStatus::NOTSUPP);
    }
    let (from, to) = both(run, (args.source_state_id, args.destination_state_id)).await?;
    let files = run.server().files.clone();
    let size = files.attributes_unchecked(&from).or_status()?.size_bytes;
    let left = size.checked_sub(args.source_offset).ok_or(NfsStatus::INVAL)?;
    // Nothing means all; more than there is, is wrong. RFC 7862 15.2.3.
    let wished = match args.count {
        0 => left,
        count if args.source_offset.checked_add(count).is_none() => return Err(NfsStatus::INVAL),
        count => count.min(left),
    };
    if args.destination_offset.checked_add(wished).is_none_or(|end| end > i64::MAX as u64) {
        return Err(NfsStatus::FBIG);
    }
    let count = wished.min(COPY_BYTES_MAX);
    if count > 0 {
        let (source_at, target_at) = (args.source_offset, args.destination_offset);
        files.copy_range(&from, source_at, &to, target_at, count).await.or_status()?;
    }
    Ok(CopyResult {
        response: WriteResponse {
            callback_id: Vec::new().into(),
            count,
            committed: StableHow::Unstable,
            verifier: run.server().write_verifier,
        },
        requirements: CopyRequirements { is_consecutive: true, is_synchronous: true },
    })
}

pub(crate) async fn clone(run: &mut Run<'_>, args: &CloneArgs) -> Result<(), NfsStatus> {
    let (from, to) = both(run, (args.source_state_id, args.destination_state_id)).await?;
    let files = run.server().files.clone();
    let size = files.attributes_unchecked(&from).or_status()?.size_bytes;
    let left = size.checked_sub(args.source_offset).ok_or(NfsStatus::INVAL)?;
    let count = if args.count == 0 { left } else { args.count };
    if count > left {
        return Err(NfsStatus::INVAL);
    }
    let (source_at, target_at) = (args.source_offset, args.destination_offset);
    files.clone_range(&from, source_at, &to, target_at, count).await.or_status()
}
