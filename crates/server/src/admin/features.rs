//! Feature operations of the admin API.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};
use crate::observe::features;

/// Lists all features.
pub fn list(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    Ok(AdminAnswer::Json(state.features.list()))
}

/// Switches a feature on, for one share or for all.
pub fn register(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    set(state, input, true)
}

/// Switches a feature off, for one share or for all.
pub fn unregister(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    set(state, input, false)
}

fn set(state: &AdminState, input: &OperationInput, on: bool) -> Result<AdminAnswer, AdminRefusal> {
    let share = Some(input.part("share")).filter(|share| !share.is_empty());
    let set = state.features.set(input.part("feature"), share, on);
    set.map(AdminAnswer::Json).map_err(|refusal| match refusal {
        features::FeatureRefusal::NoFeature => AdminRefusal::Missing("there is no such feature"),
        features::FeatureRefusal::Configured => AdminRefusal::Conflict(
            "this feature is set in the configuration; change it there and reload".into(),
        ),
        features::FeatureRefusal::NoShare => {
            AdminRefusal::Missing("there is no such share, or it cannot have the feature")
        }
    })
}
