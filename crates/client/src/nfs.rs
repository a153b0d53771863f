//! A client of NFSv4.1 and 4.2: one session over several connections, as many
//! requests under way as it has slots.
//!
//! [`Client`] keeps the session; [`Export`] and [`File`] are what programs use.
//! Absent so far: callbacks and delegations, a new connection in place of a lost
//! one, locks.

mod client;
mod connection;
mod export;
mod null;
mod slots;
mod whole;

pub use client::{Answer, CONNECTIONS_MAX, Client, Options, SLOTS_MAX, Target};
pub use export::{Entry, Export, File};
pub use null::null;
pub use whole::{Facts, OpenFor};

#[cfg(test)]
mod tests;
