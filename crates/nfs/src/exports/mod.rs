//! Configuration: the shares, the terms of clients on them, and the pseudo file system above them.
//!
//! Imports no other room. Every room but `state` and `encoding` may import it.

pub mod config;
pub mod export;
pub mod pseudo;
