//! CLONE: the target shares the blocks of the source. RFC 7862 15.13.

use super::paid_open::{PaidOpen, copy_opens};
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use wire::nfs::NfsStatus;
use wire::nfs::ops::CloneArgs;

pub(crate) async fn clone(run: &mut CompoundRun<'_>, args: &CloneArgs) -> Result<(), NfsStatus> {
    let ids = (args.source_state_id, args.destination_state_id);
    let (from, PaidOpen { open: to, caller }) = copy_opens(run, ids).await?;
    let files = run.files().clone();
    let size = files.attributes_unchecked(&from).or_status()?.size_bytes;
    let left = size.checked_sub(args.source_offset).ok_or(NfsStatus::INVAL)?;
    let count = if args.count == 0 { left } else { args.count };
    if count > left {
        return Err(NfsStatus::INVAL);
    }
    let (source_at, target_at) = (args.source_offset, args.destination_offset);
    files.clone_range(&caller, (&from, source_at), (&to, target_at), count).await.or_status()?;
    run.note_changed_by(&to);
    Ok(())
}
