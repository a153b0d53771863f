//! READ. RFC 8881 18.22.

use super::paid_open::{PaidOpen, open_for};
use crate::limits::{IO_BYTES_MAX, SENDFILE_BYTES_MIN};
use crate::request::reply::ReplyBuffer;
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use files::{Access as Rights, OpenFile};
use limits::Cost;
use std::sync::Arc;
use wire::nfs::NfsStatus;
use wire::nfs::ops::{ReadArgs, ReadWriter};
use wire::nfs::xdr::padding;

/// Bytes of a READ result beside its data: flag, length, padding.
const READ_OVERHEAD_BYTES: usize = 12;

pub(crate) async fn read(
    run: &mut CompoundRun<'_>,
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
    run: &CompoundRun<'_>,
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
