//! Tests of the selection, case by case.

use super::*;

fn link(index: u32, name: &str) -> SystemInterface {
    SystemInterface {
        index,
        name: name.into(),
        is_up: true,
        is_loopback: name == "lo",
        is_virtual: false,
        is_port: false,
        master: None,
        lower: None,
        queues: 1,
        bits_per_second: None,
    }
}

fn at(index: u32, address: &str) -> InterfaceAddress {
    InterfaceAddress { index, address: address.parse().unwrap(), prefix_bits: 24, is_usable: true }
}

/// A machine with loopback, two network cards and a bridge.
fn machine() -> SystemInterfaces {
    let eth0 =
        SystemInterface { queues: 8, bits_per_second: Some(25_000_000_000), ..link(2, "eth0") };
    let bridge = SystemInterface { is_virtual: true, ..link(4, "br0") };
    SystemInterfaces {
        links: vec![link(1, "lo"), eth0, link(3, "eth1"), bridge],
        addresses: vec![
            at(1, "127.0.0.1"),
            at(1, "::1"),
            at(2, "192.0.2.1"),
            at(2, "2001:db8::1"),
            at(2, "fe80::1"),
            at(3, "198.51.100.1"),
            at(4, "203.0.113.1"),
        ],
    }
}

fn advertised_text(seen: &SystemInterfaces, policy: &Policy, listening: &[&str]) -> String {
    let addresses: Vec<SocketAddr> = listening.iter().map(|l| l.parse().unwrap()).collect();
    let facts = select(seen, policy, Listeners { addresses: &addresses, port: 445 });
    let shown = facts.iter().map(|f| {
        let rss = if f.rss { "+" } else { "-" };
        format!("{}{rss}{}@{}", f.index, f.address, f.bits_per_second / 1_000_000_000)
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|t| Pattern::parse(t).unwrap()).collect()
}

#[test]
fn exactly_the_listening_addresses_are_advertised() {
    for (listening, expected) in [
        (
            &["0.0.0.0:445", "[::]:445"][..],
            "2+192.0.2.1@25 2+2001:db8::1@25 3-198.51.100.1@10 4+203.0.113.1@10",
        ),
        (&["0.0.0.0:445"], "2+192.0.2.1@25 3-198.51.100.1@10 4+203.0.113.1@10"),
        (&["192.0.2.1:445", "127.0.0.1:445"], "2+192.0.2.1@25"),
        // Clients use one port for all addresses.
        (&["192.0.2.1:445", "198.51.100.1:4450"], "2+192.0.2.1@25"),
        (&["192.0.2.9:445"], ""),
        (&["127.0.0.1:445"], "1+127.0.0.1@10"),
        (&["127.0.7.1:445"], "1+127.0.7.1@10"),
        (&["[::1]:445"], "1+::1@10"),
        (&[], ""),
    ] {
        assert_eq!(
            advertised_text(&machine(), &Policy::default(), listening),
            expected,
            "{listening:?}"
        );
    }
}

#[test]
fn loopback_is_advertised_only_without_another_address() {
    let mut seen = machine();
    seen.links.iter_mut().filter(|l| !l.is_loopback).for_each(|l| l.is_up = false);
    assert_eq!(
        advertised_text(&seen, &Policy::default(), &["[::]:445"]),
        "1+127.0.0.1@10 1+::1@10"
    );
}

#[test]
fn unusable_address_is_not_advertised() {
    let mut seen = machine();
    seen.addresses[2].is_usable = false;
    assert_eq!(advertised_text(&seen, &Policy::default(), &["192.0.2.1:445"]), "");
}

#[test]
fn patterns_include_and_exclude_interfaces_and_networks() {
    let every = &["[::]:445"][..];
    for (include, exclude, expected) in [
        (&["eth*"][..], &[][..], "2+192.0.2.1@25 2+2001:db8::1@25 3-198.51.100.1@10"),
        (&[], &["eth*"], "4+203.0.113.1@10"),
        (&["eth*"], &["*1"], "2+192.0.2.1@25 2+2001:db8::1@25"),
        (&["192.0.2.0/24", "br0"], &[], "2+192.0.2.1@25 4+203.0.113.1@10"),
        (&["2001:db8::/32"], &[], "2+2001:db8::1@25"),
        (&["0.0.0.0/0"], &["198.51.100.1"], "2+192.0.2.1@25 4+203.0.113.1@10"),
        (&["lo"], &[], "1+127.0.0.1@10 1+::1@10"),
        (&["wlan0"], &[], ""),
    ] {
        let policy =
            Policy { include: patterns(include), exclude: patterns(exclude), ..Policy::default() };
        assert_eq!(
            advertised_text(&machine(), &policy, every),
            expected,
            "{include:?} {exclude:?}"
        );
    }
}

#[test]
fn configured_address_is_advertised_and_completed() {
    let advertised = |address: &str| AdvertisedAddress {
        address: address.parse().unwrap(),
        bits_per_second: None,
        rss: None,
        index: None,
    };
    let elsewhere = AdvertisedAddress {
        bits_per_second: Some(40_000_000_000),
        rss: Some(false),
        index: Some(9),
        ..advertised("10.0.2.2")
    };
    let policy = Policy {
        advertised: vec![advertised("192.0.2.1"), elsewhere, advertised("10.0.2.3")],
        exclude: patterns(&["*"]),
        ..Policy::default()
    };
    let expected = "2+192.0.2.1@25 9-10.0.2.2@40 1+10.0.2.3@10";
    assert_eq!(advertised_text(&machine(), &policy, &["127.0.0.1:445"]), expected);
}

#[test]
fn rss_is_advertised_where_detected_or_configured() {
    let listening = &["192.0.2.1:445", "198.51.100.1:445"][..];
    for (rss, expected) in [
        (None, "2+192.0.2.1@25 3-198.51.100.1@10"),
        (Some(true), "2+192.0.2.1@25 3+198.51.100.1@10"),
        (Some(false), "2-192.0.2.1@25 3-198.51.100.1@10"),
    ] {
        let policy = Policy { rss, ..Policy::default() };
        assert_eq!(advertised_text(&machine(), &policy, listening), expected);
    }
}

#[test]
fn advertised_list_is_bounded() {
    let mut seen = machine();
    let many = (0..1000u32).map(|n| at(2, &std::net::Ipv4Addr::from(0x0A00_0000 + n).to_string()));
    seen.addresses.extend(many);
    let addresses = ["0.0.0.0:445".parse().unwrap()];
    let listening = Listeners { addresses: &addresses, port: 445 };
    assert_eq!(select(&seen, &Policy::default(), listening).len(), ADVERTISED_MAX);
}

#[test]
fn invalid_pattern_is_refused() {
    for text in ["", "a b", "192.0.2.0/33", "192.0.2.0/x", "::/129", "eth0/24"] {
        assert!(Pattern::parse(text).is_err(), "{text}");
    }
}

fn links_text(seen: &SystemInterfaces, policy: &Policy, listening: &[&str]) -> String {
    let addresses: Vec<SocketAddr> = listening.iter().map(|l| l.parse().unwrap()).collect();
    let shown = private_links(seen, policy, &addresses).into_iter().map(|link| {
        let at: Vec<_> = link.listening.iter().map(ToString::to_string).collect();
        format!("{}={}/{}", link.name, at.join("+"), link.subnets.len())
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn private_listening_addresses_are_announced_by_interface() {
    let mut seen = machine();
    let port = SystemInterface { is_port: true, ..link(5, "veth5") };
    seen.links.push(port);
    seen.addresses.extend([
        at(5, "10.5.0.1"),
        at(2, "10.0.0.1"),
        at(3, "192.168.7.1"),
        at(3, "fd00::1"),
    ]);
    let exclude = |texts: &[&str]| Policy { exclude: patterns(texts), ..Policy::default() };
    for (listening, policy, expected) in [
        (
            &["0.0.0.0:445", "[::]:445"][..],
            Policy::default(),
            "eth0=[fe80::1]:445+10.0.0.1:445/2 eth1=192.168.7.1:445+[fd00::1]:445/2",
        ),
        (&["0.0.0.0:4450"], Policy::default(), "eth0=10.0.0.1:4450/2 eth1=192.168.7.1:4450/2"),
        (&["192.168.7.1:4450", "192.168.7.1:445"], Policy::default(), "eth1=192.168.7.1:445/2"),
        (&["0.0.0.0:445"], exclude(&["eth1"]), "eth0=10.0.0.1:445/2"),
        (&["[::]:445"], exclude(&["eth1", "10.0.0.0/8"]), ""),
        (&["127.0.0.1:445", "[::1]:445"], Policy::default(), ""),
        (&["192.0.2.1:445", "203.0.113.1:445"], Policy::default(), ""),
    ] {
        assert_eq!(links_text(&seen, &policy, listening), expected, "{listening:?}");
    }
}

#[test]
fn link_local_address_does_not_make_a_public_link_private() {
    let all = &["0.0.0.0:445", "[::]:445"][..];
    for (addresses, expected) in [
        (&["203.0.113.1", "2001:db8::1", "fe80::1"][..], ""),
        (&["203.0.113.1", "fe80::1"], ""),
        (&["2001:db8::1", "fe80::1"], ""),
        (&["203.0.113.1", "169.254.0.1", "fe80::1"], ""),
        (&["100.64.0.1", "fe80::1"], ""),
        (&["fe80::1"], "eth0=[fe80::1]:445/1"),
        (&["169.254.0.1", "fe80::1"], "eth0=169.254.0.1:445+[fe80::1]:445/2"),
        (&["10.0.0.1", "2001:db8::1", "fe80::1"], "eth0=10.0.0.1:445+[fe80::1]:445/2"),
    ] {
        let own = addresses.iter().map(|address| at(2, address)).collect();
        let seen = SystemInterfaces { links: vec![link(2, "eth0")], addresses: own };
        assert_eq!(links_text(&seen, &Policy::default(), all), expected, "{addresses:?}");
    }
}

#[test]
fn link_without_physical_port_must_be_included() {
    let link = |index, name, master, lower| {
        let is_virtual = name != "eth0";
        SystemInterface {
            is_virtual,
            is_port: master == Some(3),
            master,
            lower,
            ..link(index, name)
        }
    };
    let links = vec![
        link(2, "eth0", Some(3), None),
        link(3, "br0", None, None),
        link(4, "br0.7", None, Some(3)),
        link(5, "docker0", None, None),
        link(6, "veth6", Some(5), Some(7)),
        link(7, "veth7", None, Some(6)),
        link(8, "wg0", None, None),
    ];
    let addresses = (3..=8).map(|index| at(index, &format!("10.0.{index}.1"))).collect();
    let seen = SystemInterfaces { links, addresses };
    let text = |include: &[&str]| {
        let policy = Policy { include: patterns(include), ..Policy::default() };
        links_text(&seen, &policy, &["0.0.0.0:445"])
    };
    assert_eq!(text(&[]), "br0=10.0.3.1:445/1 br0.7=10.0.4.1:445/1");
    assert_eq!(text(&["wg0", "10.0.3.0/24"]), "br0=10.0.3.1:445/1 wg0=10.0.8.1:445/1");
}
