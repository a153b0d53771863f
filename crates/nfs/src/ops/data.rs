//! READ, WRITE, COMMIT. RFC 8881 18.3, 18.22, 18.32.

use super::paid_open::{PaidOpen, any_open, open_for};
use crate::limits::{IO_BYTES_MAX, SENDFILE_BYTES_MIN};
use crate::request::place::Place;
use crate::request::reply::ReplyBuffer;
use crate::request::run::Run;
use crate::status::OrStatus;
use files::{Access as Rights, OpenFile};
use limits::Cost;
use std::sync::Arc;
use wire::nfs::ops::{CommitArgs, ReadArgs, ReadWriter, WriteArgs, WriteResult};
use wire::nfs::xdr::padding;
use wire::nfs::{NfsStatus, StableHow, Verifier};

/// Bytes of a READ result beside its data: flag, length, padding.
const READ_OVERHEAD_BYTES: usize = 12;

pub(crate) async fn read(
    run: &mut Run<'_>,
    args: &ReadArgs,
    answer: &mut ReplyBuffer,
) -> Result<(), NfsStatus> {
    let room = answer.room().saturating_sub(READ_OVERHEAD_BYTES);
    let length = (args.count.min(IO_BYTES_MAX) as usize).min(room);
    let cost = Cost::read(length as u64);
    let PaidOpen { open, .. } = open_for(run, args.state_id, Rights::READ_DATA, cost).await?;
    let read = read_open(run, (&open, args.offset, length), answer).await;
    run.refund(&open, cost, *read.as_ref().unwrap_or(&0));
    read.map(|_| ())
}

/// Reads, and returns the count of bytes.
async fn read_open(
    run: &Run<'_>,
    (open, offset, length): (&Arc<OpenFile>, u64, usize),
    answer: &mut ReplyBuffer,
) -> Result<usize, NfsStatus> {
    let files = run.files();
    if length >= SENDFILE_BYTES_MIN
        && answer.may_send_from_file()
        && let Some(range) = files.read_resident(open, offset, length).or_status()?
        && padding(range.length_bytes) == 0
    {
        let writer = ReadWriter::begin(&mut answer.writer());
        writer.finish_elsewhere(&mut answer.writer(), range.is_end, range.length_bytes);
        let count = range.length_bytes;
        answer.file = Some(range);
        return Ok(count);
    }
    let writer = ReadWriter::begin(&mut answer.writer());
    let count = files.read(open, offset, length, &mut answer.out).await.or_status()?;
    let is_end = count < length || {
        let size = files.size_bytes(open).or_status()?;
        offset.saturating_add(count as u64) >= size
    };
    writer.finish(&mut answer.writer(), is_end);
    Ok(count)
}

pub(crate) async fn write(
    run: &mut Run<'_>,
    args: &WriteArgs<'_>,
) -> Result<WriteResult, NfsStatus> {
    let data = &args.data[..args.data.len().min(IO_BYTES_MAX as usize)];
    let end = args.offset.checked_add(data.len() as u64);
    if end.is_none_or(|end| end > i64::MAX as u64) {
        return Err(NfsStatus::FBIG);
    }
    let cost = Cost::write(data.len() as u64);
    let PaidOpen { open, caller } = open_for(run, args.state_id, Rights::WRITE_DATA, cost).await?;
    let files = run.files().clone();
    let verifier = run.server().write_verifier(open.key());
    if !data.is_empty() {
        files.write(&caller, &open, args.offset, data).or_status()?;
    }
    let committed = match args.stable {
        StableHow::Unstable => StableHow::Unstable,
        StableHow::DataSync | StableHow::FileSync => {
            files.flush(&open).await.or_status()?;
            StableHow::FileSync
        }
    };
    Ok(WriteResult { count: data.len() as u32, committed, verifier })
}

pub(crate) async fn commit(run: &mut Run<'_>, args: &CommitArgs) -> Result<Verifier, NfsStatus> {
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(NfsStatus::INVAL);
    }
    if matches!(run.place()?, Place::Pseudo(_)) {
        return Err(NfsStatus::ISDIR);
    }
    let PaidOpen { open, .. } = any_open(run, Cost::metadata()).await?;
    let files = run.files().clone();
    files.flush(&open).await.or_status()?;
    Ok(run.server().write_verifier(open.key()))
}
