//! CLOSE. RFC 8881 18.2.

use crate::request::run::CompoundRun;
use files::Access as Rights;
use wire::nfs::ops::CloseArgs;
use wire::nfs::{NfsStatus, StateId};

pub(crate) async fn close(
    run: &mut CompoundRun<'_>,
    args: &CloseArgs,
) -> Result<StateId, NfsStatus> {
    let id = run.resolve_id(args.state_id)?;
    let held = run.open_by(&id, Rights::READ_ATTRIBUTES)?;
    let client = run.client()?;
    let ended = client.with_states(|states| {
        let (number, _) = states.find_open(&id)?;
        Ok::<_, NfsStatus>(states.remove(number))
    })?;
    drop(ended);
    held.close(run.files()).await;
    run.current_id = Some(StateId::INVALID);
    Ok(StateId::INVALID)
}
