//! Multicast DNS with DNS-based service discovery: RFC 6762, RFC 6763.
//!
//! [`MdnsResponder`] probes for its names, announces its records and answers queries. It asks
//! nothing else and caches nothing.

mod message;
mod name;
mod records;
mod responder;

pub use message::{DnsMessage, MessageWriter};
pub use records::Announcement;
pub use responder::MdnsResponder;

use std::net::{Ipv4Addr, Ipv6Addr};

/// The port.
pub const PORT: u16 = 5353;
/// The IPv4 group.
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);
/// The IPv6 group.
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 0xFB);
