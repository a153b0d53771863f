//! READ, WRITE, COMMIT. RFC 8881 18.3, 18.22, 18.32.

use crate::client::lock;
use crate::compound::{Answer, Run};
use crate::limits::{IO_BYTES_MAX, SENDFILE_BYTES_MIN};
use crate::place::Place;
use crate::status::OrStatus;
use crate::throttle::UnpaidOpen;
use files::{Access as Rights, Caller, Object, ObjectOpen, OpenAt, OpenFile, OpenPlan, Share};
use limits::Cost;
use std::sync::Arc;
use vfs::{FileKind, FsError};
use wire::nfs::ops::{CommitArgs, ReadArgs, ReadWriter, WriteArgs, WriteResult};
use wire::nfs::xdr::padding;
use wire::nfs::{NfsStatus, StableHow, StateId, Verifier};

/// Bytes of a READ's answer beside its data: flag, length, padding.
const READ_OVERHEAD_BYTES: usize = 12;

/// The open to read or write by: the one of the state id, or for who has none one for
/// this time, which must fit those of others.
pub(crate) async fn open_for(
    run: &mut Run<'_>,
    id: StateId,
    rights: Rights,
) -> Result<UnpaidOpen, NfsStatus> {
    if matches!(run.place()?, Place::Root) {
        return Err(NfsStatus::ISDIR);
    }
    let id = run.resolve_id(id)?;
    if !id.is_special() {
        return Ok(UnpaidOpen::new(run.open_by(&id, rights)?.open));
    }
    // Whoever takes something back may keep it from others. RFC 8881 8.4.2.1.
    run.server().check_no_grace()?;
    let (object, caller) = run.object().await?;
    let open = Box::pin(anonymous_open(run, object, caller, rights)).await?;
    Ok(UnpaidOpen::new(open))
}

/// An open for one operation, of who has none.
pub(crate) async fn anonymous_open(
    run: &mut Run<'_>,
    object: Object,
    caller: Arc<Caller>,
    rights: Rights,
) -> Result<Arc<OpenFile>, NfsStatus> {
    match object.kind() {
        FileKind::File => {}
        FileKind::Directory => return Err(NfsStatus::ISDIR),
        FileKind::Symlink => return Err(NfsStatus::SYMLINK),
        _ => return Err(NfsStatus::WRONG_TYPE),
    }
    let plan = OpenPlan::posix(rights, Share::ALL);
    let at = OpenAt::Object(object);
    let files = run.files();
    match files.open_object(&caller, &at, plan, ObjectOpen::default()).await {
        Ok(opened) => Ok(opened.open),
        // Share reservations and locks of others are one to who has no open. RFC 8881 18.22.3.
        Err(FsError::ShareViolation) => Err(NfsStatus::LOCKED),
        Err(error) => Err(run.open_refused(error)),
    }
}

pub(crate) async fn read(
    run: &mut Run<'_>,
    args: &ReadArgs,
    answer: &mut Answer,
) -> Result<(), NfsStatus> {
    let open = open_for(run, args.state_id, Rights::READ_DATA).await?;
    let room = answer.room().saturating_sub(READ_OVERHEAD_BYTES);
    let length = (args.count.min(IO_BYTES_MAX) as usize).min(room);
    let cost = Cost::read(length as u64);
    let open = run.admit_data(open, cost).await;
    let read = read_open(run, (&open, args.offset, length), answer).await;
    run.give_back(&open, cost, *read.as_ref().unwrap_or(&0));
    read.map(|_| ())
}

/// How many bytes were read.
async fn read_open(
    run: &Run<'_>,
    (open, offset, length): (&Arc<OpenFile>, u64, usize),
    answer: &mut Answer,
) -> Result<usize, NfsStatus> {
    let files = run.files();
    if length >= SENDFILE_BYTES_MIN
        && answer.may_leave_data()
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
    let open = open_for(run, args.state_id, Rights::WRITE_DATA).await?;
    let files = run.files().clone();
    let data = &args.data[..args.data.len().min(IO_BYTES_MAX as usize)];
    let end = args.offset.checked_add(data.len() as u64);
    if end.is_none_or(|end| end > i64::MAX as u64) {
        return Err(NfsStatus::FBIG);
    }
    let open = run.admit_data(open, Cost::write(data.len() as u64)).await;
    let verifier = run.server().write_verifier(open.key());
    if !data.is_empty() {
        files.write(&open, args.offset, data).or_status()?;
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
    if matches!(run.place()?, Place::Root) {
        return Err(NfsStatus::ISDIR);
    }
    let files = run.files().clone();
    let open = match own_open(run)? {
        Some(open) => open,
        None => {
            let (object, caller) = run.object().await?;
            anonymous_open(run, object, caller, Rights::WRITE_DATA).await?
        }
    };
    files.flush(&open).await.or_status()?;
    Ok(run.server().write_verifier(open.key()))
}

/// Some open that the client has of the file: any will do to have it written back.
fn own_open(run: &mut Run<'_>) -> Result<Option<Arc<OpenFile>>, NfsStatus> {
    let files = run.files().clone();
    let handle = run.place()?.handle(&files)?;
    let client = run.client()?;
    let states = lock(&client.states);
    let held = states.opens().find(|open| open.holds.handle == handle);
    Ok(held.map(|open| open.holds.open.clone()))
}
