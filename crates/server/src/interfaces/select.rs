//! Which addresses clients are told: a pure decision. MS-SMB2 3.3.5.15.11.

use crate::limits::ADVERTISED_MAX;
use smb::InterfaceFact;
use std::net::{IpAddr, SocketAddr};

/// What a link is taken for that does not say how fast it is.
pub const SPEED_UNKNOWN: u64 = 10_000_000_000;
/// Index of an address that is on none of our interfaces.
const INDEX_UNKNOWN: u32 = 1;

/// One interface, as the system tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The system's number.
    pub index: u32,
    /// The system's name.
    pub name: String,
    /// Switched on, with something at the other end.
    pub is_up: bool,
    /// It leads to this machine itself.
    pub is_loopback: bool,
    /// Made of software, as bridges and tunnels.
    pub is_virtual: bool,
    /// Queues that it receives with.
    pub queues: u32,
    /// Speed, if it tells.
    pub bits_per_second: Option<u64>,
}

/// One address, as the system tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressed {
    /// Number of the interface.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// May be used for new connections.
    pub is_usable: bool,
}

/// What the system has.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Interfaces.
    pub links: Vec<Link>,
    /// Their addresses.
    pub addresses: Vec<Addressed>,
}

/// What an administrator wants clients to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Exactly these, if there are any.
    pub advertised: Vec<Advertised>,
    /// Only what one of these fits, if there are any.
    pub include: Vec<Pattern>,
    /// Not what one of these fits.
    pub exclude: Vec<Pattern>,
    /// Said of every interface instead of what is found out.
    pub rss: Option<bool>,
}

/// An address to tell, whatever the system says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The address.
    pub address: IpAddr,
    /// Speed instead of what is found out.
    pub bits_per_second: Option<u64>,
    /// Receive-side scaling instead of what is found out.
    pub rss: Option<bool>,
    /// Interface index instead of what is found out.
    pub index: Option<u32>,
}

/// Interfaces or addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// By the interface's name; an asterisk stands for any letters.
    Name(String),
    /// By the address's first bits.
    Network(IpAddr, u8),
}

impl Pattern {
    /// Understands `eth*`, `192.0.2.7` or `192.0.2.0/24`.
    ///
    /// # Errors
    /// What is wrong with it.
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

    fn fits(&self, link: &Link, address: IpAddr) -> bool {
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

/// Where connections are taken.
#[derive(Clone, Copy, Debug)]
pub struct Listening<'a> {
    /// All of our sockets.
    pub addresses: &'a [SocketAddr],
    /// The port that a client uses: it knows no other.
    pub port: u16,
}

impl Listening<'_> {
    fn covers(&self, ip: IpAddr) -> bool {
        self.addresses.iter().filter(|l| l.port() == self.port).any(|l| {
            // [::] takes IPv4 connections too, or there is a socket for them.
            l.ip() == ip || (l.ip().is_unspecified() && (l.is_ipv6() || ip.is_ipv4()))
        })
    }
}

/// What clients are told: addresses that can be used and that we listen on; the
/// loopback interface's only if there are no others.
pub fn select(seen: &Seen, policy: &Policy, listening: Listening<'_>) -> Vec<InterfaceFact> {
    let mut facts: Vec<InterfaceFact> = if policy.advertised.is_empty() {
        let found = found(seen, policy, listening);
        let (loopback, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|f| f.address.is_loopback());
        if others.is_empty() { loopback } else { others }
    } else {
        policy.advertised.iter().map(|a| told(seen, policy, a)).collect()
    };
    facts.truncate(ADVERTISED_MAX);
    facts
}

fn found(seen: &Seen, policy: &Policy, listening: Listening<'_>) -> Vec<InterfaceFact> {
    let mut facts = Vec::new();
    for link in seen.links.iter().filter(|link| link.is_up) {
        let own = seen.addresses.iter().filter(|a| a.index == link.index && a.is_usable);
        let mut own: Vec<IpAddr> =
            own.map(|a| a.address).filter(|ip| listening.covers(*ip)).collect();
        if link.is_loopback {
            // All of 127.0.0.0/8 is the loopback interface's, which lists one.
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

fn wanted(policy: &Policy, link: &Link, address: IpAddr) -> bool {
    let any = |patterns: &[Pattern]| patterns.iter().any(|p| p.fits(link, address));
    (policy.include.is_empty() || any(&policy.include)) && !any(&policy.exclude)
}

fn fact(link: &Link, policy: &Policy, address: IpAddr) -> InterfaceFact {
    // A link of software has no queues of its own, but each connection over it
    // may still have a core of its own; Linux opens one for each address without.
    let rss = link.is_loopback || link.is_virtual || link.queues > 1;
    InterfaceFact {
        index: link.index,
        rss: policy.rss.unwrap_or(rss),
        bits_per_second: link.bits_per_second.unwrap_or(SPEED_UNKNOWN),
        address,
    }
}

fn told(seen: &Seen, policy: &Policy, advertised: &Advertised) -> InterfaceFact {
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

/// What is known of the interface that has `address`.
pub fn fact_of(seen: &Seen, policy: &Policy, address: IpAddr) -> Option<InterfaceFact> {
    let index = seen.addresses.iter().find(|a| a.address == address).map(|a| a.index);
    let fits = |link: &&Link| {
        index.map_or(address.is_loopback() && link.is_loopback, |index| link.index == index)
    };
    seen.links.iter().find(fits).map(|link| fact(link, policy, address))
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
