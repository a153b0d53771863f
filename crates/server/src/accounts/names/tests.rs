//! Tests of rules against clients with simulated name services.

use super::*;
use std::collections::HashMap;
use std::sync::mpsc;

/// Simulated zones: reverse names, addresses and netgroups.
#[derive(Default)]
struct Zones {
    claims: HashMap<IpAddr, &'static str>,
    addresses: HashMap<&'static str, Vec<IpAddr>>,
    netgroups: Vec<(&'static str, &'static str)>,
    /// Netgroups whose look-up fails.
    failing: Vec<&'static str>,
    /// A look-up of this name or netgroup blocks until the test releases it.
    slow: Option<(&'static str, Mutex<mpsc::Receiver<()>>)>,
    /// A host whose addresses cannot be looked up.
    lost_host: Option<&'static str>,
}

impl NameService for Zones {
    fn name_of(&self, address: IpAddr) -> io::Result<Option<String>> {
        match self.claims.get(&address) {
            Some(&"fails") => Err(io::Error::other("no server answers")),
            claim => Ok(claim.map(|name| (*name).to_owned())),
        }
    }

    fn addresses_of(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if let Some((_, wait)) = self.slow.as_ref().filter(|(slow, _)| *slow == name) {
            let _ = wait.lock().recv();
        }
        if self.lost_host == Some(name) {
            return Err(io::Error::other("no server answers"));
        }
        Ok(self.addresses.get(name).cloned().unwrap_or_default())
    }

    fn is_in_netgroup(&self, netgroup: &str, host: &str) -> io::Result<bool> {
        if let Some((_, wait)) = self.slow.as_ref().filter(|(slow, _)| *slow == netgroup) {
            let _ = wait.lock().recv();
        }
        if self.failing.contains(&netgroup) {
            return Err(io::Error::other("no server answers"));
        }
        Ok(self.netgroups.iter().any(|(group, member)| (*group, *member) == (netgroup, host)))
    }
}

const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 1));

fn rule(text: &str) -> HostRule {
    HostRule::parse(text).unwrap()
}

/// Waits for the verdict of a rule.
fn verdict(names: &HostNames, text: &str, client: IpAddr) -> bool {
    for _ in 0..1000 {
        match names.is_for(&rule(text), client) {
            RuleVerdict::Match => return true,
            RuleVerdict::NoMatch => return false,
            RuleVerdict::Pending | RuleVerdict::Unanswered => {}
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{text} is never known for {client}")
}

fn of(zones: Zones, rules: &[&str]) -> HostNames {
    let names = HostNames::new(Arc::new(zones));
    let clients = rules.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
    let text = format!("[[share]]\nname = \"a\"\npath = \"/\"\nnfs_clients = [{clients}]\n");
    let (wanted, looks_up_clients) = WantedNames::of(&ServerConfig::parse(&text).unwrap());
    names.configure(&wanted, looks_up_clients).unwrap();
    names
}

#[test]
fn host_rule_of_each_kind_matches_its_clients() {
    let zones = Zones {
        claims: HashMap::from([(NEAR, "a.lab.example"), (FAR, "a.far.example")]),
        addresses: HashMap::from([
            ("a.lab.example", vec![NEAR]),
            ("a", vec![NEAR]),
            ("a.far.example", vec![FAR]),
            ("build", vec![FAR, NEAR]),
        ]),
        netgroups: vec![("full", "a.lab.example"), ("short", "a"), ("number", "192.0.2.1")],
        ..Zones::default()
    };
    let rules = ["build", "*.lab.example", "@full", "@short", "@number"];
    let names = of(zones, &rules);
    for (text, near, far) in [
        ("build", true, true),
        ("*.lab.example", true, false),
        ("@full", true, false),
        ("@short", true, false),
        ("@number", true, false),
        ("*", true, true),
        ("192.0.2.0/24", true, false),
    ] {
        assert_eq!(verdict(&names, text, NEAR), near, "{text}");
        assert_eq!(verdict(&names, text, FAR), far, "{text}");
    }
}

#[test]
fn reverse_name_that_does_not_resolve_back_is_ignored() {
    let zones = Zones {
        claims: HashMap::from([(FAR, "a.lab.example")]),
        addresses: HashMap::from([("a.lab.example", vec![NEAR]), ("a", vec![NEAR])]),
        netgroups: vec![("full", "a.lab.example"), ("short", "a")],
        ..Zones::default()
    };
    let names = of(zones, &["*.lab.example", "@full", "@short"]);
    for text in ["*.lab.example", "@full", "@short"] {
        assert!(!verdict(&names, text, FAR), "{text}");
    }
}

/// The owner of any domain can use the label `a`; it is not the `a` of this network.
#[test]
fn short_name_of_a_foreign_domain_is_in_no_netgroup() {
    let zones = Zones {
        claims: HashMap::from([(FAR, "a.evil.example")]),
        addresses: HashMap::from([("a.evil.example", vec![FAR]), ("a", vec![NEAR])]),
        netgroups: vec![("short", "a")],
        ..Zones::default()
    };
    let names = of(zones, &["@short"]);
    assert!(!verdict(&names, "@short", FAR));
}

/// Waits until a rule is found to have no answer.
fn assert_unanswered(names: &HostNames, text: &str, client: IpAddr) {
    for _ in 0..1000 {
        match names.is_for(&rule(text), client) {
            RuleVerdict::Pending => std::thread::sleep(Duration::from_millis(5)),
            verdict => return assert_eq!(verdict, RuleVerdict::Unanswered, "{text}"),
        }
    }
    panic!("{text} is never known for {client}")
}

#[test]
fn client_that_cannot_be_resolved_may_match_each_name() {
    let zones = Zones {
        claims: HashMap::from([(FAR, "fails")]),
        netgroups: vec![("number", "203.0.113.1")],
        ..Zones::default()
    };
    let names = Arc::new(of(zones, &["*.lab.example", "@full", "@number"]));
    assert_unanswered(&names, "*.lab.example", FAR);
    assert_unanswered(&names, "@full", FAR);
    assert!(verdict(&names, "@number", FAR), "an address needs no name");
    let hosts = names.of_rules(vec![rule("*.lab.example"), rule("@full")]);
    assert_eq!(hosts.has(FAR), Some(false), "SMB lets nobody in");
}

#[test]
fn host_that_cannot_be_looked_up_may_be_each_client() {
    let zones = Zones {
        claims: HashMap::from([(NEAR, "build.example")]),
        lost_host: Some("build.example"),
        ..Zones::default()
    };
    let names = of(zones, &["build.example", "*.example"]);
    assert_unanswered(&names, "build.example", NEAR);
    // The claim cannot be confirmed.
    assert_unanswered(&names, "*.example", NEAR);
}

#[test]
fn failed_netgroup_is_unknown_and_does_not_affect_another() {
    let zones = Zones {
        claims: HashMap::from([(NEAR, "a.lab.example")]),
        addresses: HashMap::from([("a.lab.example", vec![NEAR])]),
        netgroups: vec![("full", "a.lab.example")],
        failing: vec!["down"],
        ..Zones::default()
    };
    let names = Arc::new(of(zones, &["@down", "@full"]));
    assert!(verdict(&names, "@full", NEAR));
    let is_pending = || names.is_for(&rule("@down"), NEAR) == RuleVerdict::Pending;
    for _ in 0..1000 {
        if !is_pending() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(names.is_for(&rule("@down"), NEAR), RuleVerdict::Unanswered);
    assert_eq!(names.of_rules(vec![rule("@down")]).has(NEAR), Some(false), "SMB lets nobody in");
    assert_eq!(names.of_rules(vec![rule("@down"), rule("@full")]).has(NEAR), Some(true));
}

#[test]
fn slow_lookup_of_one_client_delays_no_other() {
    let (go_on, wait) = mpsc::channel();
    let zones = Zones {
        claims: HashMap::from([(NEAR, "slow.example"), (FAR, "a.lab.example")]),
        addresses: HashMap::from([("slow.example", vec![NEAR]), ("a.lab.example", vec![FAR])]),
        slow: Some(("slow.example", Mutex::new(wait))),
        ..Zones::default()
    };
    let names = of(zones, &["*.example"]);
    assert_eq!(names.is_for(&rule("*.example"), NEAR), RuleVerdict::Pending);
    assert!(verdict(&names, "*.example", FAR));
    assert_eq!(
        names.is_for(&rule("*.example"), NEAR),
        RuleVerdict::Pending,
        "unknown, and not refused"
    );
    go_on.send(()).unwrap();
    assert!(verdict(&names, "*.example", NEAR));
}

#[test]
fn slow_netgroup_delays_no_client_matched_by_name() {
    let (go_on, wait) = mpsc::channel();
    let zones = Zones {
        claims: HashMap::from([(NEAR, "a.lab.example"), (FAR, "b.lab.example")]),
        addresses: HashMap::from([("a.lab.example", vec![NEAR]), ("b.lab.example", vec![FAR])]),
        netgroups: vec![("slow", "a.lab.example")],
        slow: Some(("slow", Mutex::new(wait))),
        ..Zones::default()
    };
    let names = of(zones, &["*.lab.example", "@slow"]);
    assert!(verdict(&names, "*.lab.example", NEAR));
    assert_eq!(names.is_for(&rule("@slow"), NEAR), RuleVerdict::Pending);
    std::thread::sleep(Duration::from_millis(50));
    assert!(verdict(&names, "*.lab.example", FAR));
    assert_eq!(
        names.is_for(&rule("@slow"), NEAR),
        RuleVerdict::Pending,
        "unknown, and not refused"
    );
    go_on.send(()).unwrap();
    assert!(verdict(&names, "@slow", NEAR));
}

#[test]
fn smb_share_permits_any_of_its_hosts() {
    let zones = Zones {
        claims: HashMap::from([(NEAR, "a.lab.example")]),
        addresses: HashMap::from([("a.lab.example", vec![NEAR]), ("build", vec![FAR])]),
        ..Zones::default()
    };
    let names = Arc::new(of(zones, &["build", "*.lab.example"]));
    let hosts = names.of_rules(vec![rule("build"), rule("*.lab.example")]);
    for (client, is) in [(NEAR, true), (FAR, true), (IpAddr::from([198, 51, 100, 1]), false)] {
        assert_eq!(
            verdict(&names, "build", client) || verdict(&names, "*.lab.example", client),
            is
        );
        assert_eq!(hosts.has(client), Some(is), "{client}");
    }
}

#[test]
fn share_host_names_are_collected_once() {
    let text = "[[share]]\nname = \"a\"\npath = \"/\"\nnfs_clients = [\"build\", \"@x\", \"192.0.2.1\"]\n\
                hosts_allowed = [\"@x\", \"Build\", \"@y\"]\n";
    let (wanted, looks_up_clients) = WantedNames::of(&ServerConfig::parse(text).unwrap());
    assert_eq!(wanted.hosts.into_iter().collect::<Vec<_>>(), ["build"]);
    assert_eq!(wanted.netgroups, ["x", "y"]);
    assert!(looks_up_clients);
    let text =
        text.replace("\"@x\", \"192", "\"192").replace("\"@x\", \"Build\", \"@y\"", "\"build\"");
    assert!(
        !WantedNames::of(&ServerConfig::parse(&text).unwrap()).1,
        "hosts are looked up, not clients"
    );
}
