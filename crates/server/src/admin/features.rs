//! Feature operations of the admin API.

use super::State;
use super::answer::{Answer, Input, Refusal};
use crate::observe::features;

/// Lists all features.
pub fn list(state: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Json(state.features.list()))
}

/// Switches a feature on, for one share or for all.
pub fn register(state: &State, input: &Input) -> Result<Answer, Refusal> {
    set(state, input, true)
}

/// Switches a feature off, for one share or for all.
pub fn unregister(state: &State, input: &Input) -> Result<Answer, Refusal> {
    set(state, input, false)
}

fn set(state: &State, input: &Input, on: bool) -> Result<Answer, Refusal> {
    let share = Some(input.part("share")).filter(|share| !share.is_empty());
    let set = state.features.set(input.part("feature"), share, on);
    set.map(Answer::Json).map_err(|refusal| match refusal {
        features::Refusal::NoFeature => Refusal::Missing("there is no such feature"),
        features::Refusal::Configured => Refusal::Conflict(
            "this feature is set in the configuration; change it there and reload".into(),
        ),
        features::Refusal::NoShare => {
            Refusal::Missing("there is no such share, or it cannot have the feature")
        }
    })
}
