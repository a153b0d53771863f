//! Feature operations of the admin API.

use super::AdminState;
use super::answer::{AdminAnswer, Input, Refusal};
use crate::observe::features;

/// Lists all features.
pub fn list(state: &AdminState, _: &Input) -> Result<AdminAnswer, Refusal> {
    Ok(AdminAnswer::Json(state.features.list()))
}

/// Switches a feature on, for one share or for all.
pub fn register(state: &AdminState, input: &Input) -> Result<AdminAnswer, Refusal> {
    set(state, input, true)
}

/// Switches a feature off, for one share or for all.
pub fn unregister(state: &AdminState, input: &Input) -> Result<AdminAnswer, Refusal> {
    set(state, input, false)
}

fn set(state: &AdminState, input: &Input, on: bool) -> Result<AdminAnswer, Refusal> {
    let share = Some(input.part("share")).filter(|share| !share.is_empty());
    let set = state.features.set(input.part("feature"), share, on);
    set.map(AdminAnswer::Json).map_err(|refusal| match refusal {
        features::Refusal::NoFeature => Refusal::Missing("there is no such feature"),
        features::Refusal::Configured => Refusal::Conflict(
            "this feature is set in the configuration; change it there and reload".into(),
        ),
        features::Refusal::NoShare => {
            Refusal::Missing("there is no such share, or it cannot have the feature")
        }
    })
}
