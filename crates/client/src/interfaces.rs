//! Selection of server addresses for channels. MS-SMB2 3.2.4.20.10.

use std::net::IpAddr;
use wire::smb::NetworkInterface;

/// Chooses the addresses of `count` connections, of which the first one leads to `present`. Only
/// interfaces equal to the best are used: RSS-capable ones first, then the fastest. An interface
/// without RSS gets one connection, unless `assume_rss`. Of an interface's addresses, those of the
/// family that is known to work come first.
#[must_use]
pub fn choose_paths(
    interfaces: &[NetworkInterface],
    present: IpAddr,
    count: usize,
    assume_rss: bool,
) -> Vec<IpAddr> {
    let usable = |one: &&NetworkInterface| {
        let elsewhere = one.address.is_loopback() != present.is_loopback();
        let link_local = matches!(one.address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        !one.address.is_unspecified() && !elsewhere && !link_local
    };
    let rss = |one: &NetworkInterface| one.capability & NetworkInterface::RSS != 0;
    let rank = |one: &NetworkInterface| (rss(one), one.bits_per_second);
    let best = interfaces.iter().filter(usable).map(rank).max();
    let mut nics: Vec<NetworkInterface> = Vec::new();
    for one in interfaces.iter().filter(usable).filter(|one| Some(rank(one)) == best) {
        match nics.iter_mut().find(|nic| nic.index == one.index) {
            None => nics.push(*one),
            Some(nic) => {
                let better = |a: &NetworkInterface| {
                    (a.address == present, a.address.is_ipv4() == present.is_ipv4())
                };
                if better(one) > better(nic) {
                    *nic = *one;
                }
            }
        }
    }
    // The existing connection counts for its interface.
    nics.sort_by_key(|nic| nic.address != present);
    let spreads = assume_rss || best.is_some_and(|(rss, _)| rss);
    let count = if spreads { count } else { count.min(nics.len().max(1)) };
    if nics.is_empty() {
        return vec![present; if assume_rss { count } else { 1 }];
    }
    let mut paths: Vec<IpAddr> = (0..count).map(|at| nics[at % nics.len()].address).collect();
    if let Some(first) = paths.first_mut() {
        *first = present;
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(index: u32, rss: bool, gigabits: u64, address: &str) -> NetworkInterface {
        NetworkInterface {
            index,
            capability: u32::from(rss),
            bits_per_second: gigabits * 1_000_000_000,
            address: address.parse().unwrap(),
        }
    }

    fn paths(interfaces: &[NetworkInterface], count: usize) -> Vec<String> {
        let present = "10.0.0.1".parse().unwrap();
        choose_paths(interfaces, present, count, false).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn single_rss_interface_gets_all_connections() {
        let list = [nic(1, true, 10, "fd00::1"), nic(1, true, 10, "10.0.0.1")];
        assert_eq!(paths(&list, 4), ["10.0.0.1"; 4], "the family that works is kept");
    }

    #[test]
    fn equal_interfaces_share_and_a_slower_one_is_unused() {
        let list = [
            nic(3, true, 1, "10.0.0.3"),
            nic(2, true, 10, "10.0.0.2"),
            nic(1, true, 10, "10.0.0.1"),
            nic(4, false, 100, "10.0.0.4"),
        ];
        assert_eq!(paths(&list, 4), ["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2"]);
    }

    #[test]
    fn interfaces_without_rss_get_one_connection_each() {
        let list = [nic(1, false, 10, "10.0.0.1"), nic(2, false, 10, "10.0.0.2")];
        assert_eq!(paths(&list, 4), ["10.0.0.1", "10.0.0.2"]);
        let present = "10.0.0.1".parse().unwrap();
        assert_eq!(choose_paths(&list[..1], present, 3, true).len(), 3);
        assert_eq!(paths(&[], 4), ["10.0.0.1"]);
    }

    #[test]
    fn addresses_of_the_client_itself_are_skipped() {
        let list = [nic(1, true, 10, "127.0.0.1"), nic(2, true, 10, "fe80::2")];
        assert_eq!(paths(&list, 2), ["10.0.0.1"]);
    }
}
