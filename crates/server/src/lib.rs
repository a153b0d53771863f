//! The process around the protocol layers: sockets, connection tasks, timers, worker threads,
//! configuration, users, metrics and the admin API.
//!
//! This crate takes no protocol decisions. It alone reads the runtime, the clock and random
//! numbers, and passes their values down.
#![forbid(unsafe_code)]

mod admin;
mod alarm;
mod audit;
pub mod config;
pub mod confinement;
mod connections;
mod descriptors;
mod drain;
mod feature_facts;
mod features;
mod host;
pub mod import;
mod in_flight;
mod input;
mod interfaces;
mod journal;
mod kerberos;
pub mod limits;
mod listener;
pub mod log;
mod memory;
mod metadata_cache;
mod metrics;
mod names;
mod network;
mod nfs_identity;
mod nfs_protocol;
mod nfs_records;
mod nfs_service;
mod observer;
mod output;
mod processor;
mod protocol;
mod round_trips;
mod seats;
mod service;
mod share_credits;
mod share_disks;
mod share_facts;
mod share_limits;
mod sid_pins;
mod site_queue;
mod smb_protocol;
mod spare;
mod state;
pub mod supervisor;
pub mod system_users;
mod task;
mod tls;
mod traces;
mod usage;
pub mod users;
mod usual_networks;
mod workers;

pub use admin::{ADMIN_TOKEN_FILE, ReloadWish, pointed_token};
pub use interfaces::{Link, machine_interfaces};
pub use service::{Service, StartError};
pub use share_limits::{ChangeRefusal, LimitsBook};
pub use vfs_local::{ClockState, StreamInventory, clock_state, heed_limits};
