//! TEST_STATEID, FREE_STATEID. RFC 8881 18.38, 18.48.

use crate::request::run::CompoundRun;
use wire::nfs::NfsStatus;
use wire::nfs::ops::{FreeStateIdArgs, TestStateIdArgs, TestStateIdResult};

pub(crate) fn test(
    run: &CompoundRun<'_>,
    args: &TestStateIdArgs,
) -> Result<TestStateIdResult, NfsStatus> {
    let client = run.client()?;
    let states = client.states.lock();
    let statuses: Vec<NfsStatus> = args.state_ids.iter().map(|id| states.test(id)).collect();
    Ok(TestStateIdResult { statuses: statuses.into() })
}

pub(crate) fn free(run: &CompoundRun<'_>, args: &FreeStateIdArgs) -> Result<(), NfsStatus> {
    let id = run.resolve_id(args.state_id)?;
    run.client()?.with_states(|states| states.free(&id))
}
