//! The dashboard: static files in the binary that load nothing from elsewhere.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};

/// The HTML page.
pub fn html(_: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    Ok(AdminAnswer::Page("text/html; charset=utf-8", include_str!("page/index.html")))
}

/// The style sheet.
pub fn css(_: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    Ok(AdminAnswer::Page("text/css; charset=utf-8", include_str!("page/dashboard.css")))
}

/// The script.
pub fn script(_: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    Ok(AdminAnswer::Page("text/javascript; charset=utf-8", include_str!("page/dashboard.js")))
}

/// The script that draws charts.
pub fn charts(_: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    Ok(AdminAnswer::Page("text/javascript; charset=utf-8", include_str!("page/charts.js")))
}

/// The icon.
pub fn icon(_: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    Ok(AdminAnswer::Page("image/svg+xml", include_str!("page/icon.svg")))
}
