//! The process around the protocol layers: sockets, connection tasks, timers, worker threads,
//! configuration, users, metrics and the admin API.
//!
//! This crate takes no protocol decisions. It alone reads the runtime, the clock and random
//! numbers, and passes their values down.
#![forbid(unsafe_code)]

mod accounts;
mod admin;
pub mod backend;
pub mod config;
pub mod confinement;
mod conn;
mod discovery;
mod host;
pub mod import;
pub mod limits;
pub mod log;
mod machine;
mod metadata_cache;
mod nfs_service;
mod observe;
mod service;
mod shares;
mod start_error;
mod state;
pub mod supervisor;
mod workers;

pub use accounts::{system_users, users};
pub use admin::{ADMIN_TOKEN_FILE, ReloadWish, pointed_token};
pub use discovery::{DISCOVERY_PORTS, DiscoverySettings};
pub use machine::interfaces::{SystemInterface, machine_interfaces};
pub use machine::vdso::look_up as look_up_vdso;
pub use service::Service;
pub use shares::limits::{ChangeRefusal, LimitsBook};
pub use start_error::StartError;
pub use state::archive::{StateContents, StatePlace};
pub use state::format::{STATE_FORMAT, StateFormat, occupy as occupy_state};
