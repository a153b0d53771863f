//! TCP round trip times of all clients, which the kernel reports once a second for all connections
//! of a port (sock_diag(7), INET_DIAG_INFO).

use crate::conn::connections::ConnectionTable;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Buffer for one datagram; the kernel sends at most this size.
const DATAGRAM_BYTES: usize = 32 * 1024;
/// Maximum number of datagrams that are read for one request.
const DATAGRAMS_MAX: usize = 4096;
/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// NLMSG_ERROR.
const ERROR: u16 = 2;
/// NLMSG_DONE.
const DONE: u16 = 3;
/// NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH.
const REQUEST_DUMP: u16 = 0x301;
/// INET_DIAG_INFO.
const INFO: u16 = 2;
const IPPROTO_TCP: u8 = 6;
/// 1 << TCP_ESTABLISHED.
const ESTABLISHED: u32 = 1 << 1;
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
/// inet_diag_msg, in front of attributes.
const SOCKET_BYTES: usize = 72;
/// tcpi_rtt in tcp_info.
const ROUND_TRIP_AT: usize = 68;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Stores the round trip time of every connection to one of `ports`.
///
/// # Errors
/// Any error of the socket; a kernel without sock_diag refuses.
pub fn refresh(connections: &ConnectionTable, ports: &[u16]) -> io::Result<()> {
    let links = connections.by_peer();
    if links.is_empty() {
        return Ok(());
    }
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    let protocol = Some(netlink::SOCK_DIAG);
    let socket = net::socket_with(AddressFamily::NETLINK, kind, flags, protocol)?;
    net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    let mut datagram = vec![0; DATAGRAM_BYTES];
    for (family, port) in
        [AF_INET, AF_INET6].into_iter().flat_map(|f| ports.iter().map(move |p| (f, *p)))
    {
        net::send(&socket, &request(family, port), SendFlags::empty())?;
        for _ in 0..DATAGRAMS_MAX {
            let (count, _) = net::recv(&socket, &mut datagram[..], RecvFlags::empty())?;
            let (found, is_last) = round_trips(&datagram[..count])?;
            for (peer, microseconds) in found {
                if let Some(link) = links.get(&peer) {
                    link.set_round_trip(microseconds);
                }
            }
            if is_last {
                break;
            }
        }
    }
    Ok(())
}

/// Builds a request for the connections of one port.
fn request(family: u8, port: u16) -> [u8; REQUEST_BYTES] {
    let mut out = [0; REQUEST_BYTES];
    out[..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    out[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    out[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    out[16] = family;
    out[17] = IPPROTO_TCP;
    out[18] = 1 << (INFO - 1);
    out[20..24].copy_from_slice(&ESTABLISHED.to_ne_bytes());
    out[24..26].copy_from_slice(&port.to_be_bytes());
    out
}

/// Peers and their round trip times in microseconds, and whether the list is complete.
type RoundTripList = (Vec<(SocketAddr, u32)>, bool);

/// Parses one datagram. It comes from the kernel; truncated messages are skipped nevertheless.
fn round_trips(mut datagram: &[u8]) -> io::Result<RoundTripList> {
    let mut found = Vec::new();
    while let Some(length) = u32_at(datagram, 0).map(|length| length as usize) {
        if length < HEADER_BYTES || length > datagram.len() {
            break;
        }
        let body = &datagram[HEADER_BYTES..length];
        match u16_at(datagram, 4) {
            Some(DONE) => return Ok((found, true)),
            Some(ERROR) => {
                let code = u32_at(body, 0).map_or(0, u32::cast_signed);
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            Some(BY_FAMILY) => found.extend(round_trip(body)),
            _ => {}
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok((found, false))
}

fn round_trip(message: &[u8]) -> Option<(SocketAddr, u32)> {
    let port = u16::from_be_bytes(*message.get(6..)?.first_chunk()?);
    let address = message.get(24..)?;
    let address = match message.first()? {
        &AF_INET => IpAddr::V4(Ipv4Addr::from(*address.first_chunk::<4>()?)),
        _ => IpAddr::V6(Ipv6Addr::from(*address.first_chunk::<16>()?)),
    };
    let mut attributes = message.get(SOCKET_BYTES..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let value = attributes.get(4..length)?;
        if kind == INFO {
            return Some((SocketAddr::new(address, port), u32_at(value, ROUND_TRIP_AT)?));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn local_connection_has_a_round_trip_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, peer) = listener.accept().unwrap();
        let connections = Arc::new(ConnectionTable::new(9));
        let place = connections.enter(peer.ip()).unwrap();
        place.link().set_peer(peer);
        assert_eq!(place.link().round_trip(), Duration::ZERO);
        let port = listener.local_addr().unwrap().port();
        if let Err(error) = refresh(&connections, &[port]) {
            println!("not tested, since the system refuses: {error}");
            return;
        }
        let round_trip = place.link().round_trip();
        assert!(
            round_trip > Duration::ZERO && round_trip < Duration::from_secs(1),
            "{round_trip:?}"
        );
        drop(client);
    }

    #[test]
    fn truncated_netlink_message_is_skipped() {
        let mut message = vec![0; HEADER_BYTES + SOCKET_BYTES + 4 + 72];
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        message[16] = AF_INET;
        message[22..24].copy_from_slice(&7_u16.to_be_bytes());
        message[40..44].copy_from_slice(&[127, 0, 0, 1]);
        let info = HEADER_BYTES + SOCKET_BYTES;
        message[info..info + 2].copy_from_slice(&76_u16.to_ne_bytes());
        message[info + 2..info + 4].copy_from_slice(&INFO.to_ne_bytes());
        message[info + 72..].copy_from_slice(&345_u32.to_ne_bytes());
        let peer = "127.0.0.1:7".parse().unwrap();
        assert_eq!(round_trips(&message).unwrap(), (vec![(peer, 345)], false));
        for cut in 0..message.len() {
            assert_eq!(round_trips(&message[..cut]).unwrap().0, [], "{cut}");
        }
        let mut done = [0; HEADER_BYTES];
        done[0] = HEADER_BYTES as u8;
        done[4] = DONE as u8;
        assert_eq!(
            round_trips(&[&message[..], &done].concat()).unwrap(),
            (vec![(peer, 345)], true)
        );
    }
}
