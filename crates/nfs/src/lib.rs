//! NFSv4.1 and 4.2 without sockets: records in, records out. RFC 8881, 7862, 8276.
//!
//! Absent on purpose: sockets, the runtime, clocks, backends. Operations act on files through
//! `files`, as SMB does.
#![forbid(unsafe_code)]

mod callback;
mod clients;
mod compound;
mod conn;
mod encoding;
mod exports;
mod host;
pub mod limits;
mod observe;
mod ops;
mod request;
mod server;
mod state;
mod status;

pub use clients::client::{Client, ClientFacts};
pub use clients::connection::ConnShared;
pub use clients::link::{ConnFacts, ConnLink};
pub use clients::session::Session;
pub use conn::{Close, Conn, Job, write_data_at};
pub use exports::config::Config;
pub use exports::export::{
    ClientTerms, Export, ExportTerms, ExportedVolume, HostFilter, HostVerdict, NoHandles, Squash,
};
pub use exports::pseudo::PseudoTree;
pub use host::{Host, TimeReading};
pub use observe::snapshot;
pub use request::reply::{JobResult, Transmit};
pub use server::{Server, Stats};
pub use state::holdings::Holdings;
