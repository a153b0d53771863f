//! Context of a COMPOUND that its operations share: file handles, opens, caller, limits, the reply.
//!
//! Imports the server and the rooms below it. `ops` and `compound` may import it.

pub mod operations;
pub mod place;
pub mod run;
pub mod throttle;
