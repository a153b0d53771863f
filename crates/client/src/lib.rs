//! Clients of SMB 2.1 to 3.1.1 and of NFSv4.1 and 4.2 with several connections per session.
//!
//! Two layers. The sans-I/O core takes and returns bytes: [`SetUp`] negotiates and logs on,
//! [`Conn`] numbers, signs and seals requests within its credits, and [`Opener`] opens and verifies
//! received frames. The shell runs on tokio: [`Client`] manages the channels of one session and
//! sends each request on the least busy one; [`Tree`] and [`File`] are the programs' interface.
//! [`nfs`] holds the NFS client. [`load`] generates load with both clients, and [`probe`] examines
//! a server below the session layer.
//!
//! Absent on purpose: server code; the wall clock and randomness (supplied by [`Host`]); and so far
//! leases and SMB 2.0.2.
#![forbid(unsafe_code)]

mod channel;
mod client;
mod conn;
mod error;
mod file;
mod inbound;
mod interfaces;
pub mod limits;
mod line;
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
pub use client::{Client, Counters, Host, Target, Tickets};
pub use conn::{Conn, ReceivedMessage};
pub use error::Error;
pub use file::{File, OpenHow, OpenedAttributes};
pub use interfaces::choose_paths;
pub use messages::basic_information;
pub use opener::{Message, Opener};
pub use options::{ChannelOpening, Options, SigningPolicy};
pub use outbox::Outbox;
pub use pool::{Data, Pool};
pub use request::{Body, Request};
pub use session::{NegotiatedParameters, Session};
pub use set_up::{EstablishedConnection, Logon, SetUp, Step};
pub use tree::{Entry, Tree};
pub use whole::{FileCompletion, Put};
