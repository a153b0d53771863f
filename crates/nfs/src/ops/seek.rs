//! SEEK: the next data or hole of a file. RFC 7862 15.11.

use super::paid_open::{PaidOpen, open_for};
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use files::{Access as Rights, OpenFile};
use limits::Cost;
use std::sync::Arc;
use wire::nfs::NfsStatus;
use wire::nfs::ops::{DataContent, SeekArgs, SeekResult};

pub(crate) async fn seek(
    run: &mut CompoundRun<'_>,
    args: &SeekArgs,
) -> Result<SeekResult, NfsStatus> {
    let PaidOpen { open, .. } =
        open_for(run, args.state_id, Rights::READ_DATA, Cost::metadata()).await?;
    let files = run.files().clone();
    let size = files.attributes_unchecked(&open).or_status()?.size_bytes;
    if args.offset >= size {
        return Err(NfsStatus::NXIO);
    }
    let found = match args.what {
        DataContent::Data => seek_data(run, &open, args.offset).await?.map(|(start, _)| start),
        DataContent::Hole => Some(next_hole(run, &open, args.offset).await?),
    };
    // Without further data the reply is the end of the file.
    let is_end = found.is_none_or(|found| found >= size);
    Ok(SeekResult { is_end, offset: found.unwrap_or(size).min(size) })
}

pub(crate) async fn seek_data(
    run: &CompoundRun<'_>,
    open: &Arc<OpenFile>,
    offset: u64,
) -> Result<Option<(u64, u64)>, NfsStatus> {
    run.files().seek_data(open, offset).await.or_status()
}

async fn next_hole(
    run: &CompoundRun<'_>,
    open: &Arc<OpenFile>,
    offset: u64,
) -> Result<u64, NfsStatus> {
    Ok(match seek_data(run, open, offset).await? {
        Some((start, end)) if start <= offset => end,
        _ => offset,
    })
}
