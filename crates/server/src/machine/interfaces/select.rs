//! Selects the interfaces for FSCTL_QUERY_NETWORK_INTERFACE_INFO: a pure decision. MS-SMB2
//! 3.3.5.15.11.

use crate::limits::ADVERTISED_MAX;
use discovery::{Subnet, is_link_local, is_private};
use smb::InterfaceFact;
use std::net::{IpAddr, SocketAddr};

/// Assumed speed of a link that reports none.
pub const SPEED_UNKNOWN: u64 = 10_000_000_000;
/// The port that clients use unless they are given another one.
const SMB_PORT: u16 = 445;
/// Interface index of an address on no local interface.
const INDEX_UNKNOWN: u32 = 1;
/// Layers of virtual interfaces, as a VLAN of a bridge of a bond.
const LAYERS_MAX: u32 = 4;

/// One interface, as the system reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemInterface {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// Administratively up, with a carrier.
    pub is_up: bool,
    /// Loopback interface.
    pub is_loopback: bool,
    /// Virtual interface, for example a bridge or tunnel.
    pub is_virtual: bool,
    /// Port of a bridge or bond, which receives in its place.
    pub is_port: bool,
    /// Index of the bridge, bond or VRF of which it is a port.
    pub master: Option<u32>,
    /// Index of the interface below it, as that of a VLAN.
    pub lower: Option<u32>,
    /// Number of receive queues.
    pub queues: u32,
    /// Speed, if reported.
    pub bits_per_second: Option<u64>,
}

/// One address, as the system reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Interface index.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Length of its network's prefix in bits.
    pub prefix_bits: u8,
    /// Usable for new connections.
    pub is_usable: bool,
}

/// The links and addresses of the system.
#[derive(Clone, Debug, Default)]
pub struct SystemInterfaces {
    /// Interfaces.
    pub links: Vec<SystemInterface>,
    /// Their addresses.
    pub addresses: Vec<InterfaceAddress>,
}

/// Configured policy for advertising interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Advertise exactly these, if there are any.
    pub advertised: Vec<AdvertisedAddress>,
    /// Advertise only interfaces that match one of these, if there are any.
    pub include: Vec<Pattern>,
    /// Advertise no interface that matches one of these.
    pub exclude: Vec<Pattern>,
    /// RSS capability of every interface, instead of the detected one.
    pub rss: Option<bool>,
}

/// A configured address to advertise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedAddress {
    /// The address.
    pub address: IpAddr,
    /// Speed, instead of the detected one.
    pub bits_per_second: Option<u64>,
    /// RSS capability, instead of the detected one.
    pub rss: Option<bool>,
    /// Interface index, instead of the detected one.
    pub index: Option<u32>,
}

/// Pattern for interfaces or addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Interface name; an asterisk matches any text.
    Name(String),
    /// Address prefix.
    Network(IpAddr, u8),
}

impl Pattern {
    /// Parses `eth*`, `192.0.2.7` or `192.0.2.0/24`.
    ///
    /// # Errors
    /// A sentence about the defect.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither an interface's name nor ADDRESS/BITS");
        let (start, bits) = text.split_once('/').map_or((text, None), |(s, b)| (s, Some(b)));
        let Ok(address) = start.parse::<IpAddr>() else {
            let good = bits.is_none() && !text.is_empty() && !text.contains(char::is_whitespace);
            return if good { Ok(Self::Name(text.to_owned())) } else { Err(wrong()) };
        };
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), |b| b.parse::<u8>().map_err(|_| wrong()))?;
        if bits > all { Err(wrong()) } else { Ok(Self::Network(address, bits)) }
    }

    fn fits(&self, link: &SystemInterface, address: IpAddr) -> bool {
        match (self, address) {
            (Self::Name(pattern), _) => name_fits(pattern, &link.name),
            (Self::Network(IpAddr::V4(of), bits), IpAddr::V4(ip)) => {
                first_bits(u32::from(*of).into(), 96 + bits)
                    == first_bits(u32::from(ip).into(), 96 + bits)
            }
            (Self::Network(IpAddr::V6(of), bits), IpAddr::V6(ip)) => {
                first_bits(u128::from(*of), *bits) == first_bits(u128::from(ip), *bits)
            }
            _ => false,
        }
    }
}

fn first_bits(value: u128, bits: u8) -> u128 {
    value.checked_shr(128 - u32::from(bits)).unwrap_or_default()
}

fn name_fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            (0..=name.len()).any(|at| name.is_char_boundary(at) && name_fits(rest, &name[at..]))
        }),
    }
}

/// Listening addresses, for one client's port.
#[derive(Clone, Copy, Debug)]
pub struct Listeners<'a> {
    /// All listening sockets.
    pub addresses: &'a [SocketAddr],
    /// The port that the client uses; it knows no other.
    pub port: u16,
}

impl Listeners<'_> {
    fn covers(&self, ip: IpAddr) -> bool {
        self.addresses.iter().filter(|l| l.port() == self.port).any(|l| {
            // A [::] socket accepts IPv4, too, or there is a separate IPv4 socket.
            l.ip() == ip || (l.ip().is_unspecified() && (l.is_ipv6() || ip.is_ipv4()))
        })
    }
}

/// The interfaces to advertise: usable addresses with a listening socket. Loopback addresses are
/// included only if there are no others.
pub fn select(
    seen: &SystemInterfaces,
    policy: &Policy,
    listening: Listeners<'_>,
) -> Vec<InterfaceFact> {
    let mut facts: Vec<InterfaceFact> = if policy.advertised.is_empty() {
        let found = found(seen, policy, listening);
        let (loopback, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|f| f.address.is_loopback());
        if others.is_empty() { loopback } else { others }
    } else {
        policy.advertised.iter().map(|a| configured_fact(seen, policy, a)).collect()
    };
    facts.truncate(ADVERTISED_MAX);
    facts
}

fn found(seen: &SystemInterfaces, policy: &Policy, listening: Listeners<'_>) -> Vec<InterfaceFact> {
    let mut facts = Vec::new();
    for link in seen.links.iter().filter(|link| link.is_up) {
        let own = seen.addresses.iter().filter(|a| a.index == link.index && a.is_usable);
        let mut own: Vec<IpAddr> =
            own.map(|a| a.address).filter(|ip| listening.covers(*ip)).collect();
        if link.is_loopback {
            // All of 127.0.0.0/8 belongs to the loopback interface, which lists one address.
            let bound = listening.addresses.iter().filter(|l| l.port() == listening.port);
            let bound = bound.map(SocketAddr::ip).filter(IpAddr::is_loopback);
            let unlisted: Vec<IpAddr> = bound.filter(|ip| !own.contains(ip)).collect();
            own.extend(unlisted);
        }
        own.retain(|ip| !is_link_local(*ip) && wanted(policy, link, *ip));
        facts.extend(own.into_iter().map(|ip| fact(link, policy, ip)));
    }
    facts
}

/// An interface on which clients of the link reach the server at private or link-local addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateLink {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// Private and link-local addresses of the interface with their networks.
    pub subnets: Vec<Subnet>,
    /// Those at which the server listens, with the port.
    pub listening: Vec<SocketAddr>,
}

/// The interfaces on which the server may announce itself: not loopback, no port of a bridge, with
/// a physical port, and with a private address at which it listens. `include` and `exclude` of the
/// policy apply; an interface without a physical port must match `include`.
pub fn private_links(
    seen: &SystemInterfaces,
    policy: &Policy,
    listening: &[SocketAddr],
) -> Vec<PrivateLink> {
    let is_usable = |link: &&SystemInterface| {
        let is_ip = link.is_up && !link.is_loopback && !link.is_port;
        is_ip && (!policy.include.is_empty() || has_physical_port(seen, link, LAYERS_MAX))
    };
    let links = seen.links.iter().filter(is_usable);
    links.filter_map(|link| private_link(seen, policy, listening, link)).collect()
}

fn private_link(
    seen: &SystemInterfaces,
    policy: &Policy,
    listening: &[SocketAddr],
    link: &SystemInterface,
) -> Option<PrivateLink> {
    let own = seen.addresses.iter().filter(|a| a.index == link.index && a.is_usable);
    let port = |ip: IpAddr| {
        let covers = |port: u16| Listeners { addresses: listening, port }.covers(ip);
        let ports = std::iter::once(SMB_PORT).chain(listening.iter().map(SocketAddr::port));
        ports.into_iter().find(|port| covers(*port))
    };
    let is_of_link = |ip: &IpAddr| is_private(*ip) || is_link_local(*ip);
    let addresses = own.clone().map(|a| a.address);
    let at = addresses.clone().filter(|ip| is_of_link(ip) && wanted(policy, link, *ip));
    let at: Vec<_> = at.filter_map(|ip| Some(SocketAddr::new(ip, port(ip)?))).collect();
    // Every interface with IPv6 has a link-local address, a rented server's public one, too.
    let has_private = at.iter().any(|at| is_private(at.ip()));
    let is_public = addresses.clone().any(|ip| !is_of_link(&ip)) && !has_private;
    if at.is_empty() || is_public {
        return None;
    }
    let subnets = own.filter(|a| is_of_link(&a.address));
    let subnets = subnets.map(|a| Subnet { address: a.address, prefix_bits: a.prefix_bits });
    let (index, name) = (link.index, link.name.clone());
    Some(PrivateLink { index, name, subnets: subnets.collect(), listening: at })
}

/// Whether frames of the interface leave the machine: it is hardware, or hardware is its port (a
/// bridge or bond) or below it (a VLAN).
fn has_physical_port(seen: &SystemInterfaces, link: &SystemInterface, layers: u32) -> bool {
    if !link.is_virtual {
        return true;
    }
    if layers == 0 {
        return false;
    }
    let is_below = |other: &&SystemInterface| {
        other.master == Some(link.index) || link.lower == Some(other.index)
    };
    let mut below =
        seen.links.iter().filter(|other| !other.is_loopback && other.index != link.index);
    below.any(|other| is_below(&other) && has_physical_port(seen, other, layers - 1))
}

fn wanted(policy: &Policy, link: &SystemInterface, address: IpAddr) -> bool {
    let any = |patterns: &[Pattern]| patterns.iter().any(|p| p.fits(link, address));
    (policy.include.is_empty() || any(&policy.include)) && !any(&policy.exclude)
}

fn fact(link: &SystemInterface, policy: &Policy, address: IpAddr) -> InterfaceFact {
    // A virtual link has no queues of its own, but its connections may still use several cores.
    // Without RSS, Linux clients open one connection for each address.
    let rss = link.is_loopback || link.is_virtual || link.queues > 1;
    InterfaceFact {
        index: link.index,
        rss: policy.rss.unwrap_or(rss),
        bits_per_second: link.bits_per_second.unwrap_or(SPEED_UNKNOWN),
        address,
    }
}

fn configured_fact(
    seen: &SystemInterfaces,
    policy: &Policy,
    advertised: &AdvertisedAddress,
) -> InterfaceFact {
    let known = fact_of(seen, policy, advertised.address).unwrap_or(InterfaceFact {
        index: INDEX_UNKNOWN,
        rss: policy.rss.unwrap_or(true),
        bits_per_second: SPEED_UNKNOWN,
        address: advertised.address,
    });
    InterfaceFact {
        index: advertised.index.unwrap_or(known.index),
        rss: advertised.rss.unwrap_or(known.rss),
        bits_per_second: advertised.bits_per_second.unwrap_or(known.bits_per_second),
        address: advertised.address,
    }
}

/// The facts of the interface with `address`.
pub fn fact_of(seen: &SystemInterfaces, policy: &Policy, address: IpAddr) -> Option<InterfaceFact> {
    let index = seen.addresses.iter().find(|a| a.address == address).map(|a| a.index);
    let fits = |link: &&SystemInterface| {
        index.map_or(address.is_loopback() && link.is_loopback, |index| link.index == index)
    };
    seen.links.iter().find(fits).map(|link| fact(link, policy, address))
}

#[cfg(test)]
mod tests;
