//! Admission to a share: users, hosts and access, decided once at TREE_CONNECT. MS-SMB2 3.3.5.7.

use crate::host::Account;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Account names, and `@NAME` for the members of a system group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts(pub Vec<String>);

impl Accounts {
    /// True if the list contains `account`.
    #[must_use]
    pub fn has(&self, account: &Account) -> bool {
        self.0.iter().any(|entry| match entry.strip_prefix('@') {
            Some(group) => account.groups.iter().any(|g| g == group),
            None => entry.eq_ignore_ascii_case(&account.name),
        })
    }
}

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The first address.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub prefix_bits: u8,
}

impl Network {
    /// Parses `192.0.2.0/24`, `2001:db8::/32` or one address.
    ///
    /// # Errors
    /// An error text for the administrator.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not an address or a network, such as \"192.0.2.0/24\"");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = bits.unwrap_or(bits_max);
        if prefix_bits > bits_max {
            return Err(wrong());
        }
        Ok(Self { address, prefix_bits })
    }

    /// True if the network is a single address.
    #[must_use]
    pub fn is_one_address(&self) -> bool {
        self.prefix_bits == if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// True if the network contains `peer`. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn has(&self, peer: IpAddr) -> bool {
        match (self.address, peer.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(peer)) => {
                let same = (own.to_bits() ^ peer.to_bits()).leading_zeros();
                same >= u32::from(self.prefix_bits)
            }
            (IpAddr::V6(own), IpAddr::V6(peer)) => {
                let same = (own.to_bits() ^ peer.to_bits()).leading_zeros();
                same >= u32::from(self.prefix_bits)
            }
            _ => false,
        }
    }
}

/// The syntax of [`Network::parse`].
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_one_address() {
            true => write!(f, "{}", self.address),
            false => write!(f, "{}/{}", self.address, self.prefix_bits),
        }
    }
}

/// Client host names, resolved in the background.
pub trait NamedHosts: Send + Sync + fmt::Debug {
    /// True if an address belongs to one of the names; none while the look-up runs. Never waits.
    fn has(&self, peer: IpAddr) -> Option<bool>;
}

/// The admission rules of a share.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    /// Users that may connect; all accounts if none.
    pub users: Option<Accounts>,
    /// Users that may not connect, with precedence over all other rules.
    pub denied_users: Accounts,
    /// Users with read access only.
    pub read_users: Accounts,
    /// Users with write access, whatever the share's default is.
    pub write_users: Accounts,
    /// Networks that may connect; all if empty. This list has precedence over `hosts_denied`.
    pub hosts_allowed: Vec<Network>,
    /// Host names that may connect in addition, if any are configured.
    pub named_hosts_allowed: Option<Arc<dyn NamedHosts>>,
    /// Networks that may not connect.
    pub hosts_denied: Vec<Network>,
    /// Guest and anonymous sessions may connect.
    pub guests: bool,
}

impl Admission {
    /// True if `peer` may connect; none while the look-up of its name runs. With both lists given,
    /// a host on neither may connect.
    #[must_use]
    pub fn admits_host(&self, peer: IpAddr) -> Option<bool> {
        let is_in = |networks: &[Network]| networks.iter().any(|network| network.has(peer));
        if is_in(&self.hosts_allowed) {
            return Some(true);
        }
        let names = self.named_hosts_allowed.as_ref();
        let is_limited = !self.hosts_allowed.is_empty() || names.is_some();
        if !is_in(&self.hosts_denied) && (!is_limited || !self.hosts_denied.is_empty()) {
            return Some(true);
        }
        names.map_or(Some(false), |names| names.has(peer))
    }

    /// True if the user may connect; `is_proven` means that they proved a password or a ticket.
    #[must_use]
    pub fn admits(&self, account: &Account, is_proven: bool) -> bool {
        if !is_proven {
            return self.guests;
        }
        !self.denied_users.has(account)
            && self.users.as_ref().is_none_or(|users| users.has(account))
    }

    /// True if the user may write, given the share's default `others_may`.
    #[must_use]
    pub fn may_write(&self, account: &Account, others_may: bool) -> bool {
        self.write_users.has(account) || others_may && !self.read_users.has(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::Caller;
    use std::sync::Arc;
    use vfs::Identity;

    fn account(name: &str, groups: &[&str]) -> Account {
        Account {
            name: name.into(),
            nt_hash: wire::ntlm::NtHash([0; 16]),
            caller: Arc::new(Caller::of(Identity::root())),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            root_by_ticket: false,
        }
    }

    fn accounts(of: &[&str]) -> Accounts {
        Accounts(of.iter().map(|a| (*a).to_owned()).collect())
    }

    #[test]
    fn denied_users_take_precedence_over_admitted_users_and_groups() {
        let admission = Admission {
            users: Some(accounts(&["Alice", "@staff"])),
            denied_users: accounts(&["carol", "@guests"]),
            ..Admission::default()
        };
        let admits = |name, groups: &[&str]| admission.admits(&account(name, groups), true);
        assert!(admits("alice", &[]));
        assert!(admits("bob", &["users", "staff"]));
        assert!(!admits("bob", &["users"]));
        assert!(!admits("carol", &["staff"]));
        assert!(!admits("alice", &["guests"]));
        assert!(!admission.admits(&account("alice", &[]), false), "an anonymous user");
        assert!(Admission::default().admits(&account("anyone", &[]), true));
    }

    #[test]
    fn write_lists_take_precedence_over_the_share_default() {
        let admission = Admission {
            read_users: accounts(&["@readers"]),
            write_users: accounts(&["alice"]),
            ..Admission::default()
        };
        for (name, groups, others_may, may) in [
            ("alice", &["readers"][..], false, true),
            ("bob", &["readers"], true, false),
            ("bob", &[], true, true),
            ("bob", &[], false, false),
        ] {
            assert_eq!(admission.may_write(&account(name, groups), others_may), may, "{name}");
        }
    }

    #[test]
    fn network_contains_addresses_with_its_prefix() {
        let has =
            |network: &str, peer: &str| Network::parse(network).unwrap().has(peer.parse().unwrap());
        assert!(has("192.0.2.0/24", "192.0.2.200") && !has("192.0.2.0/24", "192.0.3.1"));
        assert!(has("192.0.2.7", "::ffff:192.0.2.7"), "IPv4 by an IPv6 socket");
        assert!(
            has("2001:db8::/33", "2001:db8:7fff::1") && !has("2001:db8::/33", "2001:db8:8000::")
        );
        assert!(has("0.0.0.0/0", "203.0.113.1") && !has("0.0.0.0/0", "2001:db8::1"));
        for bad in ["", "192.0.2", "192.0.2.0/33", "192.0.2.0/", "::/129", "host.example"] {
            assert!(Network::parse(bad).unwrap_err().contains("is not an address"), "{bad}");
        }
    }

    #[test]
    fn allowed_host_takes_precedence_over_a_denied_one() {
        let networks = |of: &[&str]| of.iter().map(|n| Network::parse(n).unwrap()).collect();
        let of = |allowed: &[&str], denied: &[&str]| Admission {
            hosts_allowed: networks(allowed),
            hosts_denied: networks(denied),
            ..Admission::default()
        };
        let (near, far): (IpAddr, IpAddr) =
            ("10.0.0.1".parse().unwrap(), "203.0.113.1".parse().unwrap());
        for (admission, near_may, far_may) in [
            (of(&[], &[]), true, true),
            (of(&["10.0.0.0/8"], &[]), true, false),
            (of(&[], &["10.0.0.0/8"]), false, true),
            (of(&["10.0.0.1"], &["0.0.0.0/0"]), true, false),
            (of(&["10.0.0.1"], &["10.0.0.0/8"]), true, true),
        ] {
            assert_eq!(admission.admits_host(near), Some(near_may), "{admission:?}");
            assert_eq!(admission.admits_host(far), Some(far_may), "{admission:?}");
        }
    }

    /// Host names with a fixed look-up result.
    #[derive(Debug)]
    struct FixedHosts(Option<bool>);

    impl NamedHosts for FixedHosts {
        fn has(&self, _: IpAddr) -> Option<bool> {
            self.0
        }
    }

    #[test]
    fn named_host_is_admitted_once_its_look_up_is_complete() {
        let near = "10.0.0.1".parse().unwrap();
        for (result, allowed, denied, expected) in [
            (Some(true), "", "", Some(true)),
            (Some(false), "", "", Some(false)),
            (None, "", "", None),
            (None, "10.0.0.0/8", "", Some(true)),
            (Some(false), "192.0.2.0/24", "", Some(false)),
            (Some(true), "", "10.0.0.0/8", Some(true)),
            (None, "", "10.0.0.0/8", None),
            (None, "", "192.0.2.0/24", Some(true)),
        ] {
            let networks = |text: &str| Network::parse(text).into_iter().collect();
            let admission = Admission {
                hosts_allowed: networks(allowed),
                hosts_denied: networks(denied),
                named_hosts_allowed: Some(Arc::new(FixedHosts(result))),
                ..Admission::default()
            };
            assert_eq!(admission.admits_host(near), expected, "{admission:?}");
        }
    }
}
