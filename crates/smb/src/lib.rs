//! The SMB2 and SMB3 server without its sockets. MS-SMB2 3.3.
//!
//! Owns the protocol state: connections, sessions, tree connects and opens. The crate `files` owns
//! the files and decides access. Absent on purpose: sockets, the runtime, clocks, randomness and
//! the backends.
#![forbid(unsafe_code)]

mod commands;
pub mod config;
mod conn;
mod conversion;
mod extensions;
mod host;
pub mod limits;
mod logon;
mod observe;
mod opens;
mod outgoing;
pub mod persistent;
mod request;
mod server;
mod session;
mod shares;
mod signal;

pub use config::{EncryptionPolicy, MultichannelPolicy, ShareVisibility, SmbConfig, SmbShare};
pub use conn::chain::{FrameJob, JobOutput};
pub use conn::close::SmbCloseReason;
pub use conn::connection::SmbConn;
pub use conn::signatures::SignatureCheck;
pub use conversion::{extended_attributes, names, reparse};
pub use extensions::{posix, previous_versions};
pub use host::{Account, HostTime, InterfaceFact, RequestFailure, RequestFailureKind, SmbHost};
pub use logon::logon_throttle::UsualNetwork;
pub use observe::snapshot;
pub use observe::stats::SmbStats;
pub use outgoing::conn_handle::{ConnHandle, SmbConnFacts};
pub use outgoing::notices::Notices;
pub use outgoing::transmit::FrameTransmit;
pub use server::SmbServer;
pub use shares::admission::{self, Accounts, Admission, NamedHosts, Network};
pub use shares::holdings;
pub use wire::smb::Dialect;
