//! WRITE. RFC 8881 18.32.

use super::paid_open::{PaidOpen, open_for};
use crate::limits::IO_BYTES_MAX;
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use files::Access as Rights;
use limits::Cost;
use wire::nfs::ops::{WriteArgs, WriteResult};
use wire::nfs::{NfsStatus, StableHow};

pub(crate) async fn write(
    run: &mut CompoundRun<'_>,
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
