//! COMMIT. RFC 8881 18.3.

use super::paid_open::{PaidOpen, any_open};
use crate::request::place::HandleTarget;
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use limits::Cost;
use wire::nfs::ops::CommitArgs;
use wire::nfs::{NfsStatus, Verifier};

pub(crate) async fn commit(
    run: &mut CompoundRun<'_>,
    args: &CommitArgs,
) -> Result<Verifier, NfsStatus> {
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(NfsStatus::INVAL);
    }
    if matches!(run.place()?, HandleTarget::Pseudo(_)) {
        return Err(NfsStatus::ISDIR);
    }
    let PaidOpen { open, .. } = any_open(run, Cost::metadata()).await?;
    let files = run.files().clone();
    files.flush(&open).await.or_status()?;
    Ok(run.server().write_verifier(open.key()))
}
