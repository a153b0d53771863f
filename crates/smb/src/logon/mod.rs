//! SESSION_SETUP: from a security token to a session or a channel. MS-SMB2 3.3.5.5.
//!
//! The connection serves it itself, in order. May import `conn` and the rooms below it.

pub mod bind;
pub mod logon_throttle;
pub mod setup;
pub mod ticket;
pub mod waiting_setups;
