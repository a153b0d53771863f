//! Calls to a client: CB_COMPOUND, recalls of delegations, CB_NOTIFY_LOCK, CB_OFFLOAD. RFC 8881 20.
//!
//! Imports the server and the rooms below it. Only `ops` imports it.

pub mod call;
pub mod notify_lock;
pub mod offload;
pub mod recall;
