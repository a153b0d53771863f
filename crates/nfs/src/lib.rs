//! NFSv4.1 and 4.2 without sockets: records in, records out. RFC 8881, 7862, 8276.
//!
//! Absent on purpose: sockets, the runtime, clocks, backends. Operations act on files through
//! `files`, as SMB does.
#![forbid(unsafe_code)]

mod access_list;
mod attributes;
mod audit;
mod backchannel;
mod callback_slots;
mod callbacks;
mod calls;
mod client;
mod client_record;
mod clients;
mod compound;
mod config;
mod conn;
mod copies;
mod create_session;
mod credentials;
mod delegations;
mod dispatch;
mod grace;
mod held_state;
mod holdings;
mod host;
mod keyed_mutex;
pub mod limits;
mod lock_waiters;
mod metering;
mod operations;
mod ops;
mod place;
mod pseudo;
mod recall;
mod server;
mod session;
mod slot;
pub mod snapshot;
mod stateids;
mod status;
mod throttle;

pub use client::{Client, ClientFacts};
pub use config::{ClientTerms, Config, Export, ExportTerms, HostFilter, HostVerdict, Squash};
pub use conn::{Close, Conn, ConnFacts, ConnShared, Job, JobResult, Transmit, write_data_at};
pub use holdings::Holdings;
pub use host::{Host, TimeReading};
pub use pseudo::PseudoTree;
pub use server::{Server, Stats};
pub use session::Session;
