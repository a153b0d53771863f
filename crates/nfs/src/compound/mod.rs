//! COMPOUND: executes operations in order until one fails. RFC 8881 2.10.6, 16.2.
//!
//! Imports `ops`, `request` and rooms below them. Only the connection imports it.

pub mod dispatch;
pub mod execute;
