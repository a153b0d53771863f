//! Clients of SMB 2.1 to 3.1.1 and of NFSv4.1 and 4.2 with several connections per session.
//!
//! Two layers. The sans-I/O core takes and returns bytes: [`SetUp`] negotiates and logs on,
//! [`ClientConn`] numbers, signs and seals requests within its credits, and [`Opener`] opens and
//! verifies received frames. The shell runs on tokio: [`SmbClient`] manages the channels of one
//! session and sends each request on the least busy one; [`SmbTree`] and [`SmbFile`] are the
//! programs' interface. [`nfs`] holds the NFS client. [`load`] generates load with both clients,
//! and [`probe`] examines a server below the session layer.
//!
//! Absent on purpose: server code; the wall clock and randomness (supplied by [`ClientHost`]); and
//! so far leases and SMB 2.0.2.
#![forbid(unsafe_code)]

mod channel;
mod client;
mod conn;
mod error;
mod file;
mod inbound;
mod interfaces;
pub mod limits;
mod link;
pub mod load;
mod low_water;
mod messages;
pub mod nfs;
mod opener;
mod options;
mod outbox;
mod pool;
pub mod probe;
mod request;
mod session;
mod set_up;
mod slots;
mod tree;
mod whole;

pub use channel::ChannelFacts;
pub use client::{ChannelCounters, ClientHost, SmbClient, SmbTarget, Tickets};
pub use conn::{ClientConn, ReceivedMessage};
pub use error::Error;
pub use file::{OpenedAttributes, SmbFile, SmbOpenHow};
pub use interfaces::choose_paths;
pub use messages::basic_information;
pub use opener::{FrameMessage, Opener};
pub use options::{ChannelOpening, SigningPolicy, SmbOptions};
pub use outbox::RequestOutbox;
pub use pool::{BufferPool, PooledBytes};
pub use request::{RequestBody, SmbRequest};
pub use session::{ClientSession, NegotiatedParameters};
pub use set_up::{EstablishedConnection, Logon, SetUp, SetUpStep};
pub use tree::{SmbDirectoryEntry, SmbTree};
pub use whole::{FileCompletion, Put};
