//! Context of a COMPOUND that its operations share: file handles, opens, caller, limits, the reply.
//!
//! Imports the server, the rooms below it, and the audit and metering of `observe`. Only `ops`,
//! `compound` and the connection import it.

pub mod operations;
pub mod place;
pub mod reply;
pub mod run;
pub mod throttle;
