//! IO_ADVISE. RFC 7862 15.5.

use super::paid_open::open_for;
use crate::request::run::CompoundRun;
use files::Access as Rights;
use limits::Cost;
use wire::nfs::ops::IoAdviseArgs;
use wire::nfs::{Bitmap4, NfsStatus};

pub(crate) async fn io_advise(
    run: &mut CompoundRun<'_>,
    args: &IoAdviseArgs,
) -> Result<Bitmap4, NfsStatus> {
    open_for(run, args.state_id, Rights::READ_ATTRIBUTES, Cost::metadata()).await?;
    // The kernel chooses its own readahead.
    Ok(Bitmap4::EMPTY)
}
