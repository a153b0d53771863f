//! Calls to a client: the backchannel's requests, and recalls of delegations. RFC 8881 20.
//!
//! Imports the server and the rooms below it. `ops` may import it.

pub mod call;
pub mod recall;
