//! ALLOCATE, DEALLOCATE. RFC 7862 15.1, 15.4.

use super::paid_open::{PaidOpen, open_for};
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use files::Access as Rights;
use limits::Cost;
use wire::nfs::NfsStatus;
use wire::nfs::ops::{AllocateArgs, DeallocateArgs};

/// RFC 7862 15.1.3: FBIG for a range too far, INVAL for an empty one.
fn check_range(offset: u64, length: u64) -> Result<(), NfsStatus> {
    match offset.checked_add(length) {
        Some(end) if length > 0 && end <= i64::MAX as u64 => Ok(()),
        Some(_) if length > 0 => Err(NfsStatus::FBIG),
        _ => Err(NfsStatus::INVAL),
    }
}

pub(crate) async fn allocate(
    run: &mut CompoundRun<'_>,
    args: &AllocateArgs,
) -> Result<(), NfsStatus> {
    check_range(args.offset, args.length)?;
    let PaidOpen { open, caller } =
        open_for(run, args.state_id, Rights::WRITE_DATA, Cost::metadata()).await?;
    run.files().allocate_range(&caller, &open, args.offset, args.length).await.or_status()?;
    run.note_changed_by(&open);
    Ok(())
}

pub(crate) async fn deallocate(
    run: &mut CompoundRun<'_>,
    args: &DeallocateArgs,
) -> Result<(), NfsStatus> {
    check_range(args.offset, args.length)?;
    let PaidOpen { open, caller } =
        open_for(run, args.state_id, Rights::WRITE_DATA, Cost::metadata()).await?;
    run.files().zero_range(&caller, &open, args.offset, args.length).await.or_status()?;
    run.note_changed_by(&open);
    Ok(())
}
