//! Connections of either protocol: listeners, their threads, one task a connection, its buffers and
//! their memory.
//!
//! Knows bytes and frames, and no configuration beyond limits and TLS. `service` starts it; `admin`
//! and `observe` read its counters.

pub mod alarm;
pub mod connections;
pub mod drain;
pub mod in_flight;
pub mod input;
pub mod listener;
pub mod memory;
pub mod network;
pub mod nfs_protocol;
pub mod output;
pub mod protocol;
pub mod smb_protocol;
pub mod spare;
pub mod task;
pub mod threads;
pub mod tls;
