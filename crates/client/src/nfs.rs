//! A client of NFSv4.1 and 4.2: one session over several connections, with one request in flight
//! per slot.
//!
//! [`Client`] holds the session; [`Export`] and [`File`] are the programs' interface. Not
//! implemented: reclaim after a server restart, and callbacks over a replaced connection.

mod callbacks;
mod client;
mod connection;
mod connections;
mod delegation;
mod export;
mod lock;
mod null;
mod open_as;
mod slots;
mod whole;

pub use client::{Answer, CONNECTIONS_MAX, Client, Options, SLOTS_MAX, Target};
pub use delegation::{Delegation, Recall};
pub use export::{Disposition, Entry, Export, File};
pub use lock::{HeldRange, Range};
pub use null::null;
pub use open_as::OpenWish;
pub use whole::{Facts, OpenFor};

#[cfg(test)]
mod tests;
