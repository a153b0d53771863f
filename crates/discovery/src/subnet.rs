//! Addresses of the link: which are private, and which senders are on it.

use std::net::IpAddr;

/// An own address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The own address.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub prefix_bits: u8,
}

impl Subnet {
    /// Whether `other` is in the network of the address. An IPv4 address may be mapped to IPv6. A
    /// prefix of no bits names no network: it would contain every sender.
    #[must_use]
    pub fn contains(&self, other: IpAddr) -> bool {
        if self.prefix_bits == 0 {
            return false;
        }
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                self.prefix_bits <= 32 && differing.leading_zeros() >= u32::from(self.prefix_bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                self.prefix_bits <= 128 && differing.leading_zeros() >= u32::from(self.prefix_bits)
            }
            _ => false,
        }
    }
}

/// Whether the address is private: RFC 1918, fc00::/7 (RFC 4193).
#[must_use]
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

/// Whether the address is link-local: 169.254.0.0/16 (RFC 3927), fe80::/10.
#[must_use]
pub fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn subnet_contains_addresses_of_its_prefix_only() {
        let subnet = |address, prefix_bits| Subnet { address: ip(address), prefix_bits };
        for (net, other, is_inside) in [
            (subnet("192.168.1.7", 24), "192.168.1.200", true),
            (subnet("192.168.1.7", 24), "::ffff:192.168.1.200", true),
            (subnet("192.168.1.7", 24), "192.168.2.1", false),
            (subnet("192.168.1.7", 32), "192.168.1.7", true),
            (subnet("192.168.1.7", 32), "192.168.1.6", false),
            (subnet("192.168.1.7", 0), "8.8.8.8", false),
            (subnet("192.168.1.7", 33), "192.168.1.7", false),
            (subnet("fe80::1", 64), "fe80::2", true),
            (subnet("fd00::1", 64), "fd00:0:0:1::2", false),
            (subnet("fd00::1", 128), "fd00::1", true),
            (subnet("fd00::1", 64), "192.168.1.7", false),
        ] {
            assert_eq!(net.contains(ip(other)), is_inside, "{net:?} {other}");
        }
    }

    #[test]
    fn private_addresses_are_those_of_the_named_networks() {
        let private = ["10.0.0.1", "172.31.255.1", "192.168.0.1", "fd12::1"];
        let local = ["169.254.3.4", "fe80::1"];
        let public = ["172.32.0.1", "100.64.0.1", "8.8.8.8", "127.0.0.1", "::1", "2001:db8::1"];
        let kind = |text: &str| (is_private(ip(text)), is_link_local(ip(text)));
        assert_eq!(private.map(kind), [(true, false); 4]);
        assert_eq!(local.map(kind), [(false, true); 2]);
        assert_eq!(public.map(kind), [(false, false); 6]);
    }
}
