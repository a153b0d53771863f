//! Configuration: the shares, the terms of clients on them, and the pseudo file system above them.
//!
//! Imports `limits` and `status` alone. Every other room but `state` may import it.

pub mod config;
pub mod pseudo;
