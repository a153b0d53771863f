//! The dashboard: a page without anything from outside, in the binary as it was written.

use super::State;
use super::request::{Answer, Input, Refusal};

/// What there is of it.
pub fn html(_: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Page("text/html; charset=utf-8", include_str!("page/index.html")))
}

/// How it looks.
pub fn css(_: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Page("text/css; charset=utf-8", include_str!("page/dashboard.css")))
}

/// What it does.
pub fn script(_: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Page("text/javascript; charset=utf-8", include_str!("page/dashboard.js")))
}

/// How it draws.
pub fn charts(_: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Page("text/javascript; charset=utf-8", include_str!("page/charts.js")))
}

/// What stands for it in a row of others.
pub fn icon(_: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Page("image/svg+xml", include_str!("page/icon.svg")))
}
