//! A client of NFSv4.1 and 4.2: one session over several connections, with one request in flight
//! per slot.
//!
//! [`NfsClient`] holds the session; [`NfsExport`] and [`NfsFile`] are the programs' interface. Not
//! implemented: reclaim after a server restart, and callbacks over a replaced connection.

mod callbacks;
mod client;
mod connection;
mod connections;
mod delegation;
mod export;
mod links;
mod lock;
mod null;
mod open_as;
mod slots;
mod whole;

pub use client::{CONNECTIONS_MAX, NfsClient, NfsOptions, NfsTarget, SLOTS_MAX, SequencedReply};
pub use delegation::{ClientDelegation, Recall};
pub use export::{Disposition, NfsDirectoryEntry, NfsExport, NfsFile};
pub use lock::{HeldRange, LockRange};
pub use null::null;
pub use open_as::NfsOpenParameters;
pub use whole::{NfsSetAttributes, OpenFor};

#[cfg(test)]
mod tests;
