//! Sessions and their channels. MS-SMB2 3.3.1.8, 3.3.1.14.
//!
//! Owns a session's keys, user, tree connects and opens. May import `shares`, `opens` and
//! `outgoing`; of the server only `readmission` knows. The server, requests and connections import
//! it.

pub mod break_notices;
pub mod channel;
pub mod clients;
pub mod negotiation;
pub mod readmission;
pub mod state;
