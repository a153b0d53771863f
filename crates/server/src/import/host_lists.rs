//! Samba's `hosts allow` and `hosts deny`, as sets of addresses. hosts_access(5).
//!
//! The lists of `[global]` hold in addition to those of a share, and `EXCEPT` subtracts. Both are
//! computed exactly where addresses and networks are given. An entry that cannot be carried over
//! makes the result narrower, never wider.

use super::text::squeezed;
use super::width::check_wildcard;
use crate::config::HostRule;
use smb::Network;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks of one list after a subtraction or an intersection.
const NETWORKS_MAX: usize = 1024;

/// A set of addresses of one family that have a prefix in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressBlock {
    is_v6: bool,
    /// The prefix, left-aligned; all other bits are zero.
    bits: u128,
    length: u8,
}

impl AddressBlock {
    const EVERY_V4: Self = Self { is_v6: false, bits: 0, length: 0 };
    const EVERY_V6: Self = Self { is_v6: true, bits: 0, length: 0 };

    fn new(address: IpAddr, length: u8) -> Self {
        let (is_v6, bits) = match address {
            IpAddr::V4(address) => (false, u128::from(address.to_bits()) << 96),
            IpAddr::V6(address) => (true, address.to_bits()),
        };
        Self { is_v6, bits: bits & Self::mask(length), length }
    }

    const fn mask(length: u8) -> u128 {
        if length == 0 { 0 } else { u128::MAX << (128 - length as u32) }
    }

    fn has(self, other: Self) -> bool {
        self.is_v6 == other.is_v6
            && self.length <= other.length
            && other.bits & Self::mask(self.length) == self.bits
    }

    /// Whether the block has `address`.
    pub fn has_address(self, address: IpAddr) -> bool {
        self.has(Self::new(address, if address.is_ipv4() { 32 } else { 128 }))
    }

    /// Whether `address` is the first or the last one of the block: that of the network, or of
    /// broadcasts.
    pub fn is_bounded_by(self, address: IpAddr) -> bool {
        let length_max = if self.is_v6 { 128 } else { 32 };
        let one = Self::new(address, length_max);
        let last = self.bits | (Self::mask(length_max) & !Self::mask(self.length));
        self.has(one) && (one.bits == self.bits || one.bits == last)
    }

    /// The parts of this block that are not in `cut`: at most one for each bit of the address.
    fn without(self, cut: Self) -> Vec<Self> {
        if cut.has(self) {
            return Vec::new();
        }
        if !self.has(cut) {
            return vec![self];
        }
        // `cut` is a part of this block, so each longer prefix of it has a sibling outside of it.
        let sibling = |length: u8| Self {
            bits: (cut.bits ^ (1 << (128 - u32::from(length)))) & Self::mask(length),
            length,
            ..cut
        };
        (self.length + 1..=cut.length).map(sibling).collect()
    }

    /// The network, of which a netmask or a number of bits is given.
    pub fn parse(text: &str) -> Option<Self> {
        let text = match text.split_once('/') {
            Some((address, mask)) if mask.contains('.') => {
                let mask: Ipv4Addr = mask.parse().ok()?;
                let ones = mask.to_bits().leading_ones();
                (mask.to_bits().count_ones() == ones).then_some(())?;
                format!("{address}/{ones}")
            }
            _ => text.trim_matches(['[', ']']).to_owned(),
        };
        let Network { address, prefix_bits } = Network::parse(&text).ok()?;
        Some(Self::new(address, prefix_bits))
    }
}

impl std::fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (address, length_max) = if self.is_v6 {
            (IpAddr::V6(Ipv6Addr::from_bits(self.bits)), 128)
        } else {
            let bits = u32::try_from(self.bits >> 96).unwrap_or_default();
            (IpAddr::V4(Ipv4Addr::from_bits(bits)), 32)
        };
        match self.length == length_max {
            true => write!(f, "{address}"),
            false => write!(f, "{address}/{}", self.length),
        }
    }
}

fn subtract(from: &[AddressBlock], cuts: &[AddressBlock]) -> Option<Vec<AddressBlock>> {
    let mut rest = from.to_vec();
    for cut in cuts {
        rest = rest.into_iter().flat_map(|block| block.without(*cut)).collect();
        if rest.len() > NETWORKS_MAX {
            return None;
        }
    }
    Some(rest)
}

fn intersect(one: &[AddressBlock], other: &[AddressBlock]) -> Option<Vec<AddressBlock>> {
    let mut common = Vec::new();
    for a in one {
        // Blocks nest or are disjoint.
        let narrower = |b: &&AddressBlock| b.has(*a) || a.has(**b);
        common.extend(other.iter().filter(narrower).map(|b| if b.has(*a) { *a } else { *b }));
    }
    common.sort_unstable();
    common.dedup();
    (common.len() <= NETWORKS_MAX).then_some(common)
}

/// A list of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostList {
    /// The parameter is set, even if no entry could be carried over.
    pub is_set: bool,
    /// Addresses and networks.
    blocks: Vec<AddressBlock>,
    /// Host names, patterns of names and netgroups, in our form.
    names: Vec<String>,
}

/// An entry of a list in Samba's form.
enum HostEntry {
    Blocks(Vec<AddressBlock>),
    Name(String),
}

/// The result of parsing a list.
pub struct ParsedHosts {
    /// The list, which holds no more clients than the source.
    pub list: HostList,
    /// Entries that are not in the list.
    pub dropped: Vec<String>,
}

impl HostList {
    /// Parses the items of `hosts allow`: what cannot be carried over is dropped.
    pub fn parse(items: &[String]) -> ParsedHosts {
        let is_except = |item: &String| squeezed(item) == "except";
        let (items, except) = match items.iter().position(is_except) {
            Some(at) => (&items[..at], &items[at + 1..]),
            None => (items, &items[..0]),
        };
        let mut parsed = ParsedHosts {
            list: Self { is_set: !items.is_empty(), ..Self::default() },
            dropped: Vec::new(),
        };
        for item in items {
            match entry(item) {
                Some(HostEntry::Blocks(blocks)) => parsed.list.blocks.extend(blocks),
                Some(HostEntry::Name(name)) => parsed.list.names.push(name),
                None => parsed.dropped.push(item.clone()),
            }
        }
        if except.is_empty() {
            return parsed;
        }
        // Names cannot be subtracted from, and a name cannot be subtracted.
        let cuts = Self::parse(except);
        let is_exact =
            cuts.dropped.is_empty() && cuts.list.names.is_empty() && parsed.list.names.is_empty();
        let rest = subtract(&parsed.list.blocks, &cuts.list.blocks).filter(|_| is_exact);
        if rest.is_none() {
            parsed.dropped = items.iter().chain(except).cloned().collect();
            parsed.list.names.clear();
        }
        parsed.list.blocks = rest.unwrap_or_default();
        parsed
    }

    fn texts(&self) -> Vec<String> {
        let blocks = self.blocks.iter().map(ToString::to_string);
        blocks.chain(self.names.iter().cloned()).collect()
    }
}

/// The networks of an entry, or its name in our form; `None` if it cannot be carried over.
fn entry(item: &str) -> Option<HostEntry> {
    let blocks = |blocks| Some(HostEntry::Blocks(blocks));
    match squeezed(item).as_str() {
        "all" | "*" => return blocks(vec![AddressBlock::EVERY_V4, AddressBlock::EVERY_V6]),
        "localhost" => {
            let v4 = AddressBlock::new(Ipv4Addr::LOCALHOST.into(), 8);
            return blocks(vec![v4, AddressBlock::new(Ipv6Addr::LOCALHOST.into(), 128)]);
        }
        "local" | "fail" => return None,
        _ => {}
    }
    // "192.0.2." and "192.0.*" are prefixes of an address as a text.
    let start = item.trim_end_matches(".*");
    let start = if start.len() < item.len() { Some(start) } else { item.strip_suffix('.') };
    if let Some(start) = start {
        let mut octets = [0; 4];
        let count = start.split('.').count();
        for (octet, text) in octets.iter_mut().zip(start.split('.')) {
            *octet = text.parse().ok()?;
        }
        (count < 4).then_some(())?;
        let length = u8::try_from(8 * count).ok()?;
        return blocks(vec![AddressBlock::new(Ipv4Addr::from(octets).into(), length)]);
    }
    if let Some(block) = AddressBlock::parse(item) {
        return blocks(vec![block]);
    }
    let text = if item.starts_with('.') { format!("*{item}") } else { item.to_owned() };
    let rule = HostRule::parse(&text).and_then(check_wildcard).ok()?;
    Some(HostEntry::Name(rule.to_string()))
}

/// The two lists of a share or of `[global]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLists {
    /// `hosts allow`.
    pub allowed: HostList,
    /// `hosts deny`.
    pub denied: HostList,
}

impl HostLists {
    /// All clients that the lists admit; `None` if names are among them.
    fn admitted(&self) -> Option<Vec<AddressBlock>> {
        let every = [AddressBlock::EVERY_V4, AddressBlock::EVERY_V6];
        if !self.allowed.names.is_empty() {
            return None;
        }
        let not_denied = || subtract(&every, &self.denied.blocks);
        match (self.allowed.is_set, self.denied.is_set) {
            (false, false) => Some(every.to_vec()),
            (true, false) => Some(self.allowed.blocks.clone()),
            (false, true) => not_denied(),
            (true, true) => {
                let mut both = self.allowed.blocks.clone();
                both.extend(not_denied()?);
                Some(both)
            }
        }
    }

    /// Whether the denied list has names, which `hosts_denied` cannot have.
    pub fn denies_names(&self) -> bool {
        !self.denied.names.is_empty()
    }

    /// The lists in our form, `hosts_allowed` and `hosts_denied`, which admit only clients that
    /// `global` admits, too. `None` if that cannot be computed.
    pub fn within(&self, global: &Self) -> Option<(Vec<String>, Vec<String>)> {
        let has_own = self != global && *global != Self::default();
        if !has_own {
            let (allowed, mut denied) = (self.allowed.texts(), self.denied.texts());
            if self.allowed.is_set && allowed.is_empty() && !self.denied.is_set {
                denied = vec!["0.0.0.0/0".into(), "::/0".into()];
            }
            return Some((allowed, denied));
        }
        let common = intersect(&self.admitted()?, &global.admitted()?)?;
        let texts: Vec<String> = common.iter().map(ToString::to_string).collect();
        match texts.is_empty() {
            true => Some((texts, vec!["0.0.0.0/0".into(), "::/0".into()])),
            false => Some((texts, Vec::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::items;
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> HostList {
        HostList::parse(&items(text)).list
    }

    fn lists(allowed: &str, denied: &str) -> HostLists {
        HostLists { allowed: list(allowed), denied: list(denied) }
    }

    #[test]
    fn entry_is_parsed_in_each_of_its_forms() {
        for (text, expected) in [
            ("192.0.2.", "192.0.2.0/24"),
            ("192.0.*", "192.0.0.0/16"),
            ("10.*.*", "10.0.0.0/8"),
            ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("ALL", "0.0.0.0/0 ::/0"),
            ("localhost", "127.0.0.0/8 ::1"),
            ("lapland", "lapland"),
            (".example.org", "*.example.org"),
            ("@builders", "@builders"),
        ] {
            assert_eq!(list(text).texts().join(" "), expected, "{text}");
        }
        for text in ["LOCAL", "fd*", "10.0.0.0/255.0.255.0", "1.2.3.4."] {
            let parsed = HostList::parse(&items(text));
            assert_eq!((parsed.list.texts().len(), parsed.dropped.len()), (0, 1), "{text}");
            assert!(parsed.list.is_set, "{text}: an empty list is not a list for all");
        }
    }

    #[test]
    fn except_subtracts_and_never_widens() {
        assert_eq!(list("192.0.2.0/30 EXCEPT 192.0.2.2").texts(), ["192.0.2.0/31", "192.0.2.3"]);
        assert_eq!(list("192.0.2.7 EXCEPT 192.0.2.").texts(), [""; 0]);
        assert_eq!(
            list("192.0.2.0/31 EXCEPT 192.0.2.0/31 EXCEPT 192.0.2.1").texts(),
            ["192.0.2.1"]
        );
        assert_eq!(list("192.0.2. EXCEPT pirate").texts(), [""; 0]);
    }

    #[test]
    fn share_admits_only_what_global_admits() {
        let global = lists("192.0.2. 10.", "ALL");
        let of = |share: HostLists| share.within(&global).unwrap();
        let ten = vec!["10.0.0.0/8".to_owned()];
        assert_eq!(of(global.clone()).0, ["192.0.2.0/24", "10.0.0.0/8"]);
        assert_eq!(of(lists("ALL", "")).0, ["10.0.0.0/8", "192.0.2.0/24"]);
        assert_eq!(of(lists("10.", "")), (ten, vec![]));
        assert_eq!(of(lists("203.0.113.9", "")).1, ["0.0.0.0/0", "::/0"], "nobody");
        assert_eq!(lists("lapland", "").within(&global), None);
        let only_named = lists("LOCAL", "");
        assert_eq!(only_named.within(&HostLists::default()).unwrap().1, ["0.0.0.0/0", "::/0"]);
    }

    proptest! {
        #[test]
        fn subtraction_and_intersection_agree_with_membership(
            (a, b, c) in (any::<u8>(), any::<u8>(), any::<u8>()),
            (la, lb) in (24u8..=32, 24u8..=32),
        ) {
            let block = |last: u8, length| AddressBlock::new([192, 0, 2, last].into(), length);
            let at = IpAddr::from([192, 0, 2, c]);
            let (one, other) = (block(a, la), block(b, lb));
            let is_in = |all: &[AddressBlock]| all.iter().any(|block| block.has_address(at));
            let cut = subtract(&[one], &[other]).unwrap();
            prop_assert_eq!(is_in(&cut), one.has_address(at) && !other.has_address(at));
            let both = intersect(&[one], &[other]).unwrap();
            prop_assert_eq!(is_in(&both), one.has_address(at) && other.has_address(at));
        }
    }
}
