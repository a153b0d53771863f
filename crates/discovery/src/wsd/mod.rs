//! WS-Discovery (April 2005) and the device metadata that Windows' Explorer reads: SOAP over UDP,
//! Devices Profile for Web Services (February 2006), MS-PBSD.
//!
//! [`WsdResponder`] announces the computer and answers Probe and Resolve; [`WsdComputer::describe`]
//! answers the Get that follows over HTTP.

mod envelope;
mod message;
mod responder;

pub use envelope::{DiscoveryAction, Envelope, MalformedEnvelope};
pub use message::WsdComputer;
pub use responder::WsdResponder;

use std::net::{Ipv4Addr, Ipv6Addr};

/// The UDP port of discovery.
pub const PORT: u16 = 3702;
/// The TCP port of metadata.
pub const METADATA_PORT: u16 = 5357;
/// The IPv4 group.
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(239, 255, 255, 250);
/// The IPv6 group.
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 0xC);

/// XML namespaces.
pub(crate) mod namespace {
    pub(crate) const SOAP: &str = "http://www.w3.org/2003/05/soap-envelope";
    pub(crate) const ADDRESSING: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing";
    pub(crate) const DISCOVERY: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery";
    pub(crate) const DEVICE: &str = "http://schemas.xmlsoap.org/ws/2006/02/devprof";
    pub(crate) const TRANSFER: &str = "http://schemas.xmlsoap.org/ws/2004/09/transfer";
    pub(crate) const EXCHANGE: &str = "http://schemas.xmlsoap.org/ws/2004/09/mex";
    pub(crate) const PUBLICATION: &str = "http://schemas.microsoft.com/windows/pub/2005/07";
    pub(crate) const PLUG_AND_PLAY: &str = "http://schemas.microsoft.com/windows/pnpx/2005/10";
}
