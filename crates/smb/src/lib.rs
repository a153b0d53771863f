//! The SMB2 and SMB3 server without its sockets. MS-SMB2 3.3.
//!
//! Owns the protocol state: connections, sessions, tree connects and opens. The crate `files` owns
//! the files and decides access. Absent on purpose: sockets, the runtime, clocks, randomness and
//! the backends.
#![forbid(unsafe_code)]

pub mod admission;
mod app_instances;
mod apple;
mod attributes;
mod audit;
mod bind;
mod chain;
mod channel;
mod channel_sequence;
mod clients;
mod commands;
pub mod config;
mod conn;
mod create_guids;
mod credits;
mod disconnect;
mod dispatch;
mod dot_names;
mod durable;
pub mod extended_attributes;
mod failure_report;
pub mod holdings;
mod host;
mod lease;
pub mod limits;
mod lock_sequence;
mod logon_throttle;
mod metering;
pub mod names;
mod negotiate;
mod notices;
mod open;
mod oplock;
mod pending;
pub mod persistent;
mod pipe;
pub mod posix;
pub mod previous_versions;
mod quota;
mod readmission;
pub mod reparse;
mod response_size;
mod server;
mod session;
mod session_wait;
mod setup;
mod signal;
mod signatures;
pub mod snapshot;
mod stable;
mod status;
mod throttle;
mod ticket;
mod timed_table;
mod transmit;
mod tree;
mod waiting_setups;

pub use admission::{Accounts, Admission, NamedHosts, Network};
pub use chain::{Job, JobOutput};
pub use config::{Config, Encryption, Multichannel, Share, ShareVisibility};
pub use conn::{Close, Conn, ConnFacts, ConnHandle};
pub use host::{Account, Host, HostTime, InterfaceFact, RequestFailure, RequestFailureKind};
pub use logon_throttle::UsualNetwork;
pub use notices::Notices;
pub use server::{Server, Stats};
pub use signatures::SignatureCheck;
pub use transmit::Transmit;
pub use wire::smb::Dialect;
