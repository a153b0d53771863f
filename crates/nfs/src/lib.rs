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

pub use clients::client::{ClientFacts, ClientIncarnation};
pub use clients::connection::ConnShared;
pub use clients::link::{ConnLink, NfsConnFacts};
pub use clients::session::NfsSession;
pub use conn::{CallJob, NfsCloseReason, NfsConn, write_data_at};
pub use exports::config::NfsConfig;
pub use exports::export::{
    ClientTerms, Export, ExportTerms, ExportedVolume, HostFilter, HostVerdict, NoHandles, Squash,
};
pub use exports::pseudo::PseudoTree;
pub use host::{NfsHost, TimeReading};
pub use observe::snapshot;
pub use request::reply::{JobResult, RecordTransmit};
pub use server::{NfsServer, NfsStats};
pub use state::holdings::NfsHoldings;
