//! Clients, their sessions, and the connections that are bound to these. RFC 8881 2.4, 2.10.
//!
//! Imports `state`, `exports`, `host` and `limits`. The server and every room above it may import it.
//! A client knows its sessions and delegations, and both know their client: these files import each
//! other.

pub mod backchannel;
pub mod callback_slots;
pub mod calls;
pub mod client;
pub mod connection;
pub mod create_session;
pub mod credentials;
pub mod delegations;
pub mod held_state;
pub mod link;
pub mod session;
pub mod slot;
pub mod table;
