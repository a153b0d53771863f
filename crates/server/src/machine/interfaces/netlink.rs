//! The rtnetlink socket: dumps of links and addresses, and change notifications.

use super::message::{GET_ADDRESS, GET_LINK, NetlinkMessage, messages, request};
use super::select::{InterfaceAddress, SystemInterface};
use crate::limits::{ADDRESSES_MAX, INTERFACES_MAX};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use tokio::net::UnixDatagram;

/// Buffer for one datagram; the kernel sends at most this size.
const DATAGRAM_BYTES: usize = 32 * 1024;
/// Maximum number of messages that are read for one change.
const BURST_MAX: usize = 1024;
/// RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

fn socket(groups: u32, flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    // NETLINK_ROUTE is protocol 0.
    let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Dumps all links and addresses. The kernel answers at once.
///
/// # Errors
/// Any error of the socket.
pub fn dump() -> io::Result<(Vec<SystemInterface>, Vec<InterfaceAddress>)> {
    let socket = socket(0, SocketFlags::empty())?;
    let (mut links, mut addresses) = (Vec::new(), Vec::new());
    for kind in [GET_LINK, GET_ADDRESS] {
        net::send(&socket, &request(kind), SendFlags::empty())?;
        receive_all(&socket, |message| match message {
            NetlinkMessage::SystemInterface(link) if links.len() < INTERFACES_MAX => {
                links.push(link)
            }
            NetlinkMessage::Address(address) if addresses.len() < ADDRESSES_MAX => {
                addresses.push(address)
            }
            _ => {}
        })?;
    }
    Ok((links, addresses))
}

fn receive_all(socket: &OwnedFd, mut take: impl FnMut(NetlinkMessage)) -> io::Result<()> {
    let mut datagram = vec![0; DATAGRAM_BYTES];
    loop {
        let (count, _) = net::recv(socket, &mut datagram[..], RecvFlags::empty())?;
        for message in messages(&datagram[..count]) {
            match message {
                NetlinkMessage::Done => return Ok(()),
                NetlinkMessage::Refused(error) => return Err(io::Error::from_raw_os_error(-error)),
                other => take(other),
            }
        }
    }
}

/// Change notifications without their contents.
///
/// The runtime has no netlink sockets; it treats this one as a datagram socket, which it is.
pub struct Changes(UnixDatagram);

impl Changes {
    /// Subscribes to future changes.
    ///
    /// # Errors
    /// Any error of the socket.
    pub fn subscribe() -> io::Result<Self> {
        let socket = socket(GROUPS, SocketFlags::NONBLOCK)?;
        Ok(Self(UnixDatagram::from_std(socket.into())?))
    }

    /// Returns when something has changed since the last call. Cancel safe.
    ///
    /// # Errors
    /// Any error of the socket.
    pub async fn next(&mut self) -> io::Result<()> {
        let mut datagram = [0; 4096];
        match self.0.recv(&mut datagram).await {
            // After an overflow (ENOBUFS) only the fact of a change matters.
            Err(error) if error.raw_os_error() != Some(Errno::NOBUFS.raw_os_error()) => Err(error),
            _ => {
                // Further queued messages belong to the same burst.
                let more = (0..BURST_MAX).take_while(|_| self.0.try_recv(&mut datagram).is_ok());
                tracing::trace!(count = more.count(), "network interfaces change");
                Ok(())
            }
        }
    }
}
