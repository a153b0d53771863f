//! The addresses that clients can reach this machine at.

use smb::InterfaceFact;
use std::net::{IpAddr, SocketAddr};

/// What a link is taken for that does not say how fast it is.
const SPEED_UNKNOWN: u64 = 10_000_000_000;

/// Addresses of this machine that `listening` covers; those of the loopback
/// interface only if there is no other.
pub fn reachable(listening: &[SocketAddr]) -> Vec<InterfaceFact> {
    let all = match if_addrs::get_if_addrs() {
        Ok(all) => all,
        Err(error) => {
            tracing::warn!(%error, "cannot list network interfaces");
            return Vec::new();
        }
    };
    let covered = |ip: IpAddr| {
        listening.iter().any(|l| l.ip() == ip || (l.ip().is_unspecified() && fits(l.ip(), ip)))
    };
    let fact = |i: &if_addrs::Interface, address| InterfaceFact {
        index: i.index.unwrap_or(1),
        rss: true,
        bits_per_second: speed_of(&i.name),
        address,
    };
    let own =
        all.iter().filter(|i| covered(i.ip()) && !is_link_local(i.ip())).map(|i| fact(i, i.ip()));
    // All of 127.0.0.0/8 belongs to the loopback interface, which lists one.
    let loopback = all.iter().find(|i| i.is_loopback());
    let unlisted = listening.iter().map(SocketAddr::ip).filter(|ip| ip.is_loopback());
    let unlisted = unlisted.filter(|ip| !all.iter().any(|i| i.ip() == *ip));
    let facts = own.chain(unlisted.filter_map(|ip| loopback.map(|i| fact(i, ip))));
    let (loopback, others): (Vec<_>, Vec<_>) = facts.partition(|f| f.address.is_loopback());
    if others.is_empty() { loopback } else { others }
}

fn fits(any: IpAddr, ip: IpAddr) -> bool {
    // [::] takes IPv4 connections too.
    any.is_ipv6() || ip.is_ipv4()
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn speed_of(name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).unwrap_or_default();
    // Megabits per second; -1 or an error where there is no link to ask.
    match text.trim().parse::<u64>() {
        Ok(megabits) if megabits > 0 => megabits * 1_000_000,
        _ => SPEED_UNKNOWN,
    }
}
