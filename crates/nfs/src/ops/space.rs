//! ALLOCATE, DEALLOCATE, SEEK, IO_ADVISE, READ_PLUS. RFC 7862 15.1, 15.4, 15.5, 15.10,
//! 15.11.

use super::paid_open::{PaidOpen, open_for};
use crate::limits::{IO_BYTES_MAX, READ_PLUS_SEGMENTS_MAX};
use crate::request::reply::ReplyBuffer;
use crate::request::run::Run;
use crate::status::OrStatus;
use files::{Access as Rights, OpenFile};
use limits::Cost;
use std::sync::Arc;
use wire::nfs::ops::{
    AllocateArgs, DataContent, DeallocateArgs, IoAdviseArgs, ReadPlusArgs, ReadPlusWriter,
    SeekArgs, SeekResult,
};
use wire::nfs::{Bitmap4, NfsStatus};

/// RFC 7862 15.1.3: FBIG for a range too far, INVAL for an empty one.
fn check_range(offset: u64, length: u64) -> Result<(), NfsStatus> {
    match offset.checked_add(length) {
        Some(end) if length > 0 && end <= i64::MAX as u64 => Ok(()),
        Some(_) if length > 0 => Err(NfsStatus::FBIG),
        _ => Err(NfsStatus::INVAL),
    }
}

pub(crate) async fn allocate(run: &mut Run<'_>, args: &AllocateArgs) -> Result<(), NfsStatus> {
    check_range(args.offset, args.length)?;
    let PaidOpen { open, caller } =
        open_for(run, args.state_id, Rights::WRITE_DATA, Cost::metadata()).await?;
    run.files().reserve_range(&caller, &open, args.offset, args.length).await.or_status()?;
    run.note_changed_by(&open);
    Ok(())
}

pub(crate) async fn deallocate(run: &mut Run<'_>, args: &DeallocateArgs) -> Result<(), NfsStatus> {
    check_range(args.offset, args.length)?;
    let PaidOpen { open, caller } =
        open_for(run, args.state_id, Rights::WRITE_DATA, Cost::metadata()).await?;
    run.files().zero_range(&caller, &open, args.offset, args.length).await.or_status()?;
    run.note_changed_by(&open);
    Ok(())
}

pub(crate) async fn seek(run: &mut Run<'_>, args: &SeekArgs) -> Result<SeekResult, NfsStatus> {
    let PaidOpen { open, .. } =
        open_for(run, args.state_id, Rights::READ_DATA, Cost::metadata()).await?;
    let files = run.files().clone();
    let size = files.attributes_unchecked(&open).or_status()?.size_bytes;
    if args.offset >= size {
        return Err(NfsStatus::NXIO);
    }
    let found = match args.what {
        DataContent::Data => next_data(run, &open, args.offset).await?.map(|(start, _)| start),
        DataContent::Hole => Some(next_hole(run, &open, args.offset).await?),
    };
    // Without further data the reply is the end of the file.
    let is_end = found.is_none_or(|found| found >= size);
    Ok(SeekResult { is_end, offset: found.unwrap_or(size).min(size) })
}

async fn next_data(
    run: &Run<'_>,
    open: &Arc<OpenFile>,
    offset: u64,
) -> Result<Option<(u64, u64)>, NfsStatus> {
    run.files().next_data(open, offset).await.or_status()
}

async fn next_hole(run: &Run<'_>, open: &Arc<OpenFile>, offset: u64) -> Result<u64, NfsStatus> {
    Ok(match next_data(run, open, offset).await? {
        Some((start, end)) if start <= offset => end,
        _ => offset,
    })
}

pub(crate) async fn advise(run: &mut Run<'_>, args: &IoAdviseArgs) -> Result<Bitmap4, NfsStatus> {
    open_for(run, args.state_id, Rights::READ_ATTRIBUTES, Cost::metadata()).await?;
    // The kernel chooses its own readahead.
    Ok(Bitmap4::EMPTY)
}

/// READ_PLUS: data as it is read, holes as ranges.
pub(crate) async fn read_plus(
    run: &mut Run<'_>,
    args: &ReadPlusArgs,
    answer: &mut ReplyBuffer,
) -> Result<(), NfsStatus> {
    let wanted = u64::from(args.count.min(IO_BYTES_MAX));
    let cost = Cost::read(wanted.min(answer.room() as u64));
    let PaidOpen { open, .. } = open_for(run, args.state_id, Rights::READ_DATA, cost).await?;
    let files = run.files().clone();
    let size = files.attributes_unchecked(&open).or_status()?.size_bytes;
    let end = args.offset.saturating_add(wanted).min(size);
    let before = answer.out.len();
    let mut writer = ReadPlusWriter::begin(&mut answer.writer());
    let (mut at, mut segments) = (args.offset, 0);
    while at < end && segments < READ_PLUS_SEGMENTS_MAX && answer.room() > SEGMENT_BYTES {
        let (start, stop) = next_data(run, &open, at).await?.unwrap_or((end, end));
        segments += 1;
        if start > at {
            let hole = start.min(end) - at;
            writer.hole(&mut answer.writer(), at, hole);
            at += hole;
            continue;
        }
        let wanted = (stop.min(end) - at).min((answer.room() - SEGMENT_BYTES) as u64) as usize;
        let length = writer.begin_data(&mut answer.writer(), at);
        let count = files.read(&open, at, wanted, &mut answer.out).await.or_status()?;
        answer.writer().finish_opaque(length);
        at += count as u64;
        if count < wanted {
            // The file was truncated meanwhile.
            break;
        }
    }
    writer.finish(&mut answer.writer(), at >= size);
    // The charge for holes, and for data beyond the file, is refunded.
    run.refund(&open, cost, answer.out.len() - before);
    Ok(())
}

/// Bytes of a segment beside its data, padding included.
const SEGMENT_BYTES: usize = 24;
