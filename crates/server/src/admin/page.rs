//! The dashboard: static files in the binary that load nothing from elsewhere.

use super::State;
use super::answer::{Answer, Input, Refusal};

/// The HTML page.
pub fn html(_: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Page("text/html; charset=utf-8", include_str!("page/index.html")))
}

/// The style sheet.
pub fn css(_: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Page("text/css; charset=utf-8", include_str!("page/dashboard.css")))
}

/// The script.
pub fn script(_: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Page("text/javascript; charset=utf-8", include_str!("page/dashboard.js")))
}

/// The script that draws charts.
pub fn charts(_: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Page("text/javascript; charset=utf-8", include_str!("page/charts.js")))
}

/// The icon.
pub fn icon(_: &State, _: &Input) -> Result<Answer, Refusal> {
    Ok(Answer::Page("image/svg+xml", include_str!("page/icon.svg")))
}
