//! READ_PLUS: data as it is read, holes as ranges. RFC 7862 15.10.

use super::paid_open::{PaidOpen, open_for};
use super::seek::seek_data;
use crate::limits::{IO_BYTES_MAX, READ_PLUS_SEGMENTS_MAX};
use crate::request::reply::ReplyBuffer;
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use files::Access as Rights;
use limits::Cost;
use wire::nfs::NfsStatus;
use wire::nfs::ops::{ReadPlusArgs, ReadPlusWriter};

/// Bytes of a segment beside its data, padding included.
const SEGMENT_BYTES: usize = 24;

pub(crate) async fn read_plus(
    run: &mut CompoundRun<'_>,
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
        let (start, stop) = seek_data(run, &open, at).await?.unwrap_or((end, end));
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
