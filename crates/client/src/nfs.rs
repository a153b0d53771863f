//! A client of NFSv4.1 and 4.2: one session over several connections, as many
//! requests under way as it has slots.
//!
//! [`Client`] keeps the session; [`Export`] and [`File`] are what programs use.
//! Absent so far: reclaiming after a server's restart, callbacks over a connection that took a lost one's place.

mod callbacks;
mod client;
mod connection;
mod connections;
mod delegation;
mod export;
mod lock;
mod null;
mod slots;
mod whole;

pub use client::{Answer, CONNECTIONS_MAX, Client, Options, SLOTS_MAX, Target};
pub use delegation::{Delegation, OpenWish, Recall};
pub use export::{Disposition, Entry, Export, File};
pub use lock::{Locked, Range};
pub use null::null;
pub use whole::{Facts, OpenFor};

#[cfg(test)]
mod tests;
