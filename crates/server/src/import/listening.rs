//! Samba's `interfaces`: the addresses to listen on.
//!
//! An import never listens on more addresses than `interfaces` refers to, whether or not they could
//! all be resolved: the machine may be a router.

use super::host_lists::AddressBlock;
use std::net::IpAddr;

/// The addresses of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedInterface {
    /// Addresses of this machine, or an address that is not.
    pub addresses: Vec<IpAddr>,
    /// The address is on no interface of this machine.
    pub is_elsewhere: bool,
}

/// Resolves an entry: an interface's name or pattern, an address, or a network, each as with Samba:
/// a network stands for the addresses of this machine in it. Parameters after a semicolon are
/// ignored. `None` if this machine has no such interface.
pub fn resolve(entry: &str, interfaces: &[(String, Vec<IpAddr>)]) -> Option<ResolvedInterface> {
    let entry = entry.split(';').next().unwrap_or_default().trim();
    let own = || interfaces.iter().flat_map(|(_, addresses)| addresses.iter().copied());
    let is_bindable = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        // A link-local address needs a zone.
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    let address = entry.split_once('/').map_or(entry, |(address, _)| address);
    let Ok(address) = address.parse::<IpAddr>() else {
        let of = interfaces.iter().filter(|(name, _)| matches_pattern(entry, name));
        let addresses: Vec<_> =
            of.flat_map(|(_, addresses)| addresses).copied().filter(is_bindable).collect();
        return (!addresses.is_empty())
            .then_some(ResolvedInterface { addresses, is_elsewhere: false });
    };
    if address.is_unspecified() || own().any(|one| one == address) {
        let is_elsewhere = address.is_unspecified();
        let addresses = if is_elsewhere { Vec::new() } else { vec![address] };
        return Some(ResolvedInterface { addresses, is_elsewhere });
    }
    let network = entry.contains('/').then(|| AddressBlock::parse(entry)).flatten();
    let network = network.filter(|network| network.is_bounded_by(address));
    let addresses: Vec<_> = network.map_or_else(Vec::new, |network| {
        own().filter(|one| network.has_address(*one)).filter(is_bindable).collect()
    });
    match addresses.is_empty() {
        true => Some(ResolvedInterface { addresses: vec![address], is_elsewhere: true }),
        false => Some(ResolvedInterface { addresses, is_elsewhere: false }),
    }
}

/// Whether `name` matches a pattern with `*` and `?`.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.chars().next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = pattern.trim_start_matches('*');
            name.char_indices().any(|(at, _)| matches_pattern(rest, &name[at..]))
                || matches_pattern(rest, "")
        }
        Some(letter) => {
            let mut letters = name.chars();
            let is_same = letters.next().is_some_and(|own| letter == '?' || own == letter);
            is_same && matches_pattern(&pattern[letter.len_utf8()..], letters.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As smbd 4.17 binds its sockets in a network namespace with these interfaces.
    #[test]
    fn entry_resolves_to_the_addresses_that_smbd_binds() {
        let at = |text: &str| -> IpAddr { text.parse().unwrap() };
        let interfaces = [
            ("lo".to_owned(), vec![at("127.0.0.1"), at("::1")]),
            ("d0".to_owned(), vec![at("192.0.2.7"), at("fd00:1::7"), at("fe80::1")]),
            ("d1".to_owned(), vec![at("198.51.100.1")]),
        ];
        for (entry, expected) in [
            ("d0", "192.0.2.7 fd00:1::7"),
            ("d*", "192.0.2.7 fd00:1::7 198.51.100.1"),
            ("d?", "192.0.2.7 fd00:1::7 198.51.100.1"),
            ("d1;speed=1000,capability=RSS", "198.51.100.1"),
            ("192.0.2.0/24", "192.0.2.7"),
            ("192.0.2.7/24", "192.0.2.7"),
            ("192.0.2.255/24", "192.0.2.7"),
            ("127.0.0.0/8", "127.0.0.1"),
            ("lo", "127.0.0.1 ::1"),
        ] {
            let found = resolve(entry, &interfaces).unwrap();
            let texts: Vec<String> = found.addresses.iter().map(ToString::to_string).collect();
            assert_eq!(
                (texts.join(" ").as_str(), found.is_elsewhere),
                (expected, false),
                "{entry}"
            );
        }
        assert_eq!(resolve("nosuch0", &interfaces), None);
        assert_eq!(resolve("d", &interfaces), None);
        for entry in ["203.0.113.5/24", "192.0.2.9/24"] {
            assert!(resolve(entry, &interfaces).unwrap().is_elsewhere, "{entry}");
        }
        assert_eq!(resolve("0.0.0.0/0", &interfaces).unwrap().addresses, [] as [IpAddr; 0]);
    }
}
