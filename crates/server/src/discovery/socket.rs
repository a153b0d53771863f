//! A UDP socket of one interface and one multicast group.
//!
//! SO_BINDTODEVICE keeps each interface apart: datagrams of other interfaces are not received, and
//! answers leave by this one. Linux permits it without privileges since 5.7. SO_REUSEADDR lets other
//! responders of this machine, as avahi-daemon, use the same port. Each socket is bound to its group,
//! so it receives no unicast datagrams: the kernel would prefer it, as it is bound to the interface,
//! to the sockets of those responders, which would miss the unicast answers to their queries
//! (RFC 6762 5.4).

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use tokio::net::UdpSocket;

/// Receive buffer in bytes: a burst of queries of a large link.
const RECEIVE_BUFFER_BYTES: usize = 128 * 1024;

/// The socket of one group.
#[derive(Debug)]
pub(super) struct GroupSocket {
    /// The socket.
    pub(super) socket: UdpSocket,
    /// The group.
    pub(super) group: SocketAddr,
}

/// An interface by name and index.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoundInterface<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its index.
    pub(super) index: u32,
}

impl GroupSocket {
    /// Joins `group` on `interface`. Sent datagrams have `hops` as their TTL or hop limit.
    ///
    /// # Errors
    /// Any error of the system.
    pub(super) fn join(
        interface: BoundInterface<'_>,
        group: IpAddr,
        port: u16,
        hops: u32,
    ) -> io::Result<Self> {
        let domain = if group.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.bind_device(Some(interface.name.as_bytes()))?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        let index = interface.index;
        let group = match group {
            IpAddr::V4(group) => {
                socket.bind(&SocketAddr::from((group, port)).into())?;
                let by_index = socket2::InterfaceIndexOrAddress::Index(index);
                socket.join_multicast_v4_n(&group, &by_index)?;
                socket.set_multicast_ttl_v4(hops)?;
                socket.set_ttl_v4(hops)?;
                SocketAddr::from((group, port))
            }
            IpAddr::V6(group) => {
                socket.set_only_v6(true)?;
                let at = SocketAddrV6::new(group, port, 0, index);
                socket.bind(&SocketAddr::V6(at).into())?;
                socket.join_multicast_v6(&group, index)?;
                socket.set_multicast_if_v6(index)?;
                socket.set_multicast_hops_v6(hops)?;
                socket.set_unicast_hops_v6(hops)?;
                SocketAddr::V6(at)
            }
        };
        Ok(Self { socket: UdpSocket::from_std(socket.into())?, group })
    }

    /// Receives a waiting datagram; `None` if there is none.
    ///
    /// # Errors
    /// Any error of the system.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
        match self.socket.try_recv_from(buffer) {
            Ok(received) => Ok(Some(received)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a datagram, or drops it: the protocols repeat what matters.
    pub(super) fn send(&self, payload: &[u8], to: SocketAddr) {
        if let Err(error) = self.socket.try_send_to(payload, to) {
            tracing::debug!(%to, %error, "a discovery message was not sent");
        }
    }
}
