//! Identities: the user file, the machine's users, Kerberos tickets, names of hosts and netgroups.
//!
//! Takes no access decision; the protocol crates ask through `host`.

pub mod kerberos;
pub mod names;
pub mod site_queue;
pub mod system_users;
pub mod users;
