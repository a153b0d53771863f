//! Parser for rtnetlink messages about links and addresses. RFC 3549.
//!
//! The kernel sends them in the machine's byte order; truncated messages are skipped nevertheless.

use super::select::{InterfaceAddress, SystemInterface};
use std::net::IpAddr;

/// NLMSG_ERROR.
const ERROR: u16 = 2;
/// NLMSG_DONE.
const DONE: u16 = 3;
/// RTM_NEWLINK.
const NEW_LINK: u16 = 16;
/// RTM_GETLINK.
pub const GET_LINK: u16 = 18;
/// RTM_NEWADDR.
const NEW_ADDRESS: u16 = 20;
/// RTM_GETADDR.
pub const GET_ADDRESS: u16 = 22;
/// NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH.
const REQUEST_DUMP: u16 = 0x301;
/// IFF_UP | IFF_RUNNING: administratively up, with a carrier.
const UP: u32 = 0x41;
/// IFF_LOOPBACK.
const LOOPBACK: u32 = 8;
/// IFA_F_DADFAILED | IFA_F_DEPRECATED | IFA_F_TENTATIVE: a duplicate, not for new connections, or
/// not yet usable.
const UNUSABLE: u32 = 0x68;
/// IFA_F_TEMPORARY of an IPv6 address: a privacy address, which expires.
const TEMPORARY: u32 = 1;

// Attributes of a link (IFLA) and of its IFLA_LINKINFO.
const IF_NAME: u16 = 3;
const LOWER_LINK: u16 = 5;
const MASTER: u16 = 10;
const LINK_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const INFO_SLAVE_KIND: u16 = 4;
const RX_QUEUES: u16 = 32;
const LOWER_NAMESPACE: u16 = 37;
// Attributes of an address (IFA).
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const ADDRESS_FLAGS: u16 = 8;

const HEADER_BYTES: usize = 16;

/// One relevant message.
#[derive(Debug, PartialEq, Eq)]
pub enum NetlinkMessage {
    /// An interface.
    SystemInterface(SystemInterface),
    /// An address of an interface.
    Address(InterfaceAddress),
    /// The dump is complete.
    Done,
    /// The kernel refused the request; its error number.
    Refused(i32),
}

/// Builds a dump request.
pub fn request(kind: u16) -> [u8; 32] {
    let mut out = [0; 32];
    out[..4].copy_from_slice(&32u32.to_ne_bytes());
    out[4..6].copy_from_slice(&kind.to_ne_bytes());
    out[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    // The other fields are zero: all families, all interfaces.
    out
}

/// The relevant messages of one datagram.
pub fn messages(mut datagram: &[u8]) -> Vec<NetlinkMessage> {
    let mut found = Vec::new();
    while let Some(length) = u32_at(datagram, 0).map(|l| l as usize) {
        if length < HEADER_BYTES || length > datagram.len() {
            break;
        }
        let body = &datagram[HEADER_BYTES..length];
        let message = match u16_at(datagram, 4) {
            Some(NEW_LINK) => link(body).map(NetlinkMessage::SystemInterface),
            Some(NEW_ADDRESS) => address(body).map(NetlinkMessage::Address),
            Some(DONE) => Some(NetlinkMessage::Done),
            Some(ERROR) => u32_at(body, 0).map(|e| NetlinkMessage::Refused(e.cast_signed())),
            _ => None,
        };
        found.extend(message);
        datagram = datagram.get(aligned(length)..).unwrap_or_default();
    }
    found
}

/// An `ifinfomsg` and its attributes.
fn link(body: &[u8]) -> Option<SystemInterface> {
    let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
    let mut link = SystemInterface {
        index,
        name: String::new(),
        is_up: flags & UP == UP,
        is_loopback: flags & LOOPBACK != 0,
        is_virtual: false,
        is_port: false,
        master: None,
        lower: None,
        queues: 1,
        bits_per_second: None,
    };
    let mut is_lower_elsewhere = false;
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            IF_NAME => link.name = text(value),
            LOWER_LINK => link.lower = u32_at(value, 0),
            LOWER_NAMESPACE => is_lower_elsewhere = true,
            MASTER => link.master = u32_at(value, 0),
            RX_QUEUES => link.queues = u32_at(value, 0).unwrap_or(1),
            // Only virtual links have a kind.
            LINK_INFO => {
                link.is_virtual = attributes(value).any(|(kind, _)| kind == INFO_KIND);
                // Unlike the ports of bridges and bonds, those of a VRF have IP of their own.
                let is_master = |(kind, name)| kind == INFO_SLAVE_KIND && text(name) != "vrf";
                link.is_port = attributes(value).any(is_master);
            }
            _ => {}
        }
    }
    // An index of another network namespace refers to no interface of this one.
    link.lower = link.lower.filter(|_| !is_lower_elsewhere);
    Some(link)
}

/// An `ifaddrmsg` and its attributes.
fn address(body: &[u8]) -> Option<InterfaceAddress> {
    let prefix_bits = *body.get(1)?;
    let mut flags = u32::from(*body.get(2)?);
    let index = u32_at(body, 4)?;
    let (mut address, mut local) = (None, None);
    for (kind, value) in attributes(body.get(8..)?) {
        match kind {
            ADDRESS => address = ip(value),
            LOCAL => local = ip(value),
            ADDRESS_FLAGS => flags = u32_at(value, 0).unwrap_or(flags),
            _ => {}
        }
    }
    // If both attributes are present, IFA_ADDRESS is the peer's address.
    let address = local.or(address)?;
    let temporary = address.is_ipv6() && flags & TEMPORARY != 0;
    let is_usable = flags & UNUSABLE == 0 && !temporary;
    Some(InterfaceAddress { index, address, prefix_bits, is_usable })
}

/// Iterates over attributes as kind and value.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        // The two upper bits are flags of the encoding.
        let kind = u16_at(rest, 2)? & 0x3FFF;
        let value = rest.get(4..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(value).map(IpAddr::from).ok();
    v4().or_else(|| <[u8; 16]>::try_from(value).map(IpAddr::from).ok())
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_ne_bytes(*b))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(value);
        out.resize(aligned(out.len()), 0);
        out
    }

    fn message(kind: u16, body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let mut out = ((body.len() + HEADER_BYTES) as u32).to_ne_bytes().to_vec();
        out.extend_from_slice(&kind.to_ne_bytes());
        out.resize(HEADER_BYTES, 0);
        out.extend_from_slice(&body);
        out
    }

    fn a_link(flags: u32, attributes: &[u8]) -> Vec<u8> {
        let (index, flags) = (7u32.to_ne_bytes(), flags.to_ne_bytes());
        message(NEW_LINK, &[&[0; 4], &index, &flags, &[0; 4], attributes])
    }

    #[test]
    fn netlink_link_has_name_queues_and_kind() {
        let kinds = [attribute(1, b"veth\0"), attribute(4, b"bridge\0")].concat();
        let kind = attribute(18, &kinds);
        let (name, queues) = (attribute(3, b"v0\0"), attribute(32, &4u32.to_ne_bytes()));
        let master = attribute(10, &9u32.to_ne_bytes());
        let (lower, elsewhere) = (attribute(5, &3u32.to_ne_bytes()), attribute(37, &[0; 4]));
        let all = [name, queues, master, lower, kind].concat();
        let seen = messages(&[a_link(0x1043, &all), message(DONE, &[])].concat());
        let link = SystemInterface {
            index: 7,
            name: "v0".into(),
            is_up: true,
            is_loopback: false,
            is_virtual: true,
            is_port: true,
            master: Some(9),
            lower: Some(3),
            queues: 4,
            bits_per_second: None,
        };
        assert_eq!(seen, [NetlinkMessage::SystemInterface(link.clone()), NetlinkMessage::Done]);
        let seen = messages(&a_link(0x1043, &[all, elsewhere].concat()));
        let link = SystemInterface { lower: None, ..link };
        assert_eq!(seen, [NetlinkMessage::SystemInterface(link)], "of another namespace");
    }

    #[test]
    fn link_without_carrier_is_down() {
        let seen = messages(&a_link(0x1003, &attribute(3, b"eth0\0")));
        assert!(
            matches!(&seen[..], [NetlinkMessage::SystemInterface(l)] if !l.is_up && !l.is_virtual)
        );
    }

    #[test]
    fn local_address_is_used_and_temporary_or_tentative_are_not() {
        let (far, near) = (attribute(1, &[192, 0, 2, 2]), attribute(2, &[192, 0, 2, 1]));
        let seen = |flags: u8, attributes: &[u8]| {
            let head = [0, 24, flags, 0, 3, 0, 0, 0];
            let mut found = messages(&message(NEW_ADDRESS, &[&head, attributes]));
            let Some(NetlinkMessage::Address(address)) = found.pop() else { panic!("no address") };
            assert_eq!(address.prefix_bits, 24);
            (address.address.to_string(), address.is_usable)
        };
        assert_eq!(seen(0, &[far.clone(), near].concat()), ("192.0.2.1".into(), true));
        assert_eq!(seen(1, &far), ("192.0.2.2".into(), true), "a second one of IPv4");
        let v6 = attribute(1, &[0xFD; 16]);
        assert!(seen(0, &v6).1);
        assert!(!seen(1, &v6).1, "temporary");
        let wide = attribute(8, &0x40u32.to_ne_bytes());
        assert!(!seen(0, &[v6, wide].concat()).1, "tentative");
    }

    #[test]
    fn truncated_address_message_is_skipped() {
        let all = [attribute(3, b"v0\0"), attribute(18, &attribute(1, b"veth\0"))].concat();
        let whole = a_link(0x43, &all);
        for length in 0..whole.len() {
            assert_eq!(messages(&whole[..length]), [], "{length}");
        }
        // Attributes with wrong lengths.
        for at in (HEADER_BYTES + 16..whole.len()).step_by(4) {
            let mut bytes = whole.clone();
            bytes[at..at + 2].copy_from_slice(&u16::MAX.to_ne_bytes());
            assert!(messages(&bytes).len() <= 1);
        }
    }
}
