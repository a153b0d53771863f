//! SESSION_SETUP: from a security token to a session or a channel. MS-SMB2 3.3.5.5.
//!
//! The connection serves it itself, in order. May import every room. `conn` holds `setup_state`; the
//! server imports `logon_throttle`, which knows no connection.

pub mod bind;
pub mod logon_throttle;
pub mod setup;
pub mod setup_state;
pub mod ticket;
pub mod waiting_setups;
