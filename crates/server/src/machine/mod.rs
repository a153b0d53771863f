//! The machine: file descriptors, network interfaces, CPU time, round trip times.
//!
//! May import `limits` only. Every room may import it.

pub mod descriptors;
pub mod interfaces;
pub mod processor;
pub mod round_trips;
