//! Everything around the protocol layers that touches the outside world:
//! sockets, tasks, timers, workers, configuration, users, the admin API.
//!
//! Contains no protocol decisions. The runtime, the clock and randomness are
//! read here and handed down.
#![forbid(unsafe_code)]

mod admin;
mod alarm;
pub mod config;
mod connections;
mod features;
mod host;
pub mod import;
mod input;
mod interfaces;
mod journal;
pub mod limits;
mod listener;
mod metadata_cache;
mod metrics;
mod nfs_identity;
mod nfs_protocol;
mod nfs_service;
mod output;
mod protocol;
mod quiet;
mod service;
mod smb_protocol;
mod spare;
pub mod system_users;
mod task;
mod throttle;
mod tls;
pub mod users;
mod workers;

pub use interfaces::{Link, machine_interfaces};
pub use service::{Service, StartError};
pub use vfs_local::heed_limits;
