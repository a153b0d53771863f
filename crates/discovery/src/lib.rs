//! Responders that announce the server to clients on the link: multicast DNS for macOS and Linux
//! (RFC 6762, RFC 6763), WS-Discovery for Windows (WS-Discovery of April 2005, SOAP over UDP,
//! MS-PBSD).
//!
//! Datagrams and the time come in, datagrams and a deadline come out. Absent on purpose: sockets, a
//! runtime, a clock, randomness beyond the caller's seed, and any query of the server's own. Nothing
//! that a sender says is stored, except bounded hashes of recent messages.
//!
//! Each responder belongs to one interface. [`SenderGate`] stands before the responders: it drops
//! datagrams from other networks and of senders that exceed their rate.
#![forbid(unsafe_code)]

mod gate;
mod jitter;
pub mod limits;
pub mod mdns;
mod subnet;
pub mod wsd;

pub use gate::{SenderGate, SenderRefusal};
pub use jitter::{Jitter, Uuid};
pub use subnet::{Subnet, is_link_local, is_private};

use std::net::SocketAddr;

/// The destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The protocol's multicast group, of every IP family of the interface.
    Group,
    /// One client.
    Client(SocketAddr),
}

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The destination.
    pub to: Recipient,
    /// The bytes.
    pub payload: Vec<u8>,
}

/// Outcome of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramOutcome {
    /// A query that the responder answers.
    Answered,
    /// Nothing in it concerns this server, or the answer was sent moments ago.
    Ignored,
    /// It is not well-formed, or exceeds a limit.
    Malformed,
    /// A message with the same id was handled before.
    Duplicate,
    /// Another machine uses the name: the responder probes again or takes another name.
    Conflict,
}
