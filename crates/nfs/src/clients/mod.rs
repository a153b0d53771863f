//! Clients, their sessions, and the connections that are bound to these. RFC 8881 2.4, 2.10.
//!
//! A client knows its sessions, a session its client and connections, a connection its sessions: the
//! three files import each other. Imports `state`, `exports` and `host`. The server and every room
//! above it may import it.

pub mod backchannel;
pub mod callback_slots;
pub mod calls;
pub mod client;
pub mod create_session;
pub mod credentials;
pub mod session;
pub mod slot;
pub mod table;
