//! Operations on the last hour and the last refused logons.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};

/// The last hour.
pub fn all(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    Ok(AdminAnswer::Json(state.observer.history.shown(0)))
}

/// The intervals that end after the time in the path, in milliseconds since 1970.
pub fn since(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let since = input.part("since").parse();
    let since_ms =
        since.map_err(|_| AdminRefusal::Bad("since is no number of milliseconds".into()))?;
    Ok(AdminAnswer::Json(state.observer.history.shown(since_ms)))
}

/// The last refused logons.
pub fn refused_logons(
    state: &AdminState,
    input: &OperationInput,
) -> Result<AdminAnswer, AdminRefusal> {
    let refused = state.observer.refused_logons.shown();
    Ok(AdminAnswer::Json(input.page(&refused, Clone::clone)))
}
