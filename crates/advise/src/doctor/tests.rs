//! Tests of each rule: when it reports and when it is silent.

use super::*;

/// A machine without problems.
fn fit() -> DoctorFacts {
    DoctorFacts {
        kernel: (6, 1),
        is_root: true,
        cpu_flags: ["aes", "vaes", "vpclmulqdq"].map(str::to_owned).to_vec(),
        cpus: 8,
        limits: SystemLimits {
            descriptors: Some(1 << 20),
            watches: Some(1 << 20),
            watch_instances: Some(1024),
            queued_events: Some(65_536),
            accept_queue: Some(4096),
            receive_bytes: Some(32 << 20),
            send_bytes: Some(32 << 20),
        },
        clock: ClockFacts { synchronized: Some(true), error_microseconds: Some(500), zone: None },
        memory_bytes: Some(16 << 30),
        memory_available_bytes: Some(8 << 30),
        cache_bytes: 128 << 20,
        congestion: Some("cubic".to_owned()),
        interfaces: vec![NetworkInterfaceFacts {
            name: "eth0".to_owned(),
            bits_per_second: 25_000_000_000,
            rss_capable: true,
            addresses: vec!["192.0.2.1".to_owned()],
        }],
        multichannel: true,
        ports: vec![port("SMB", 445, PortState::Free), port("NFS", 2049, PortState::Ours)],
        firewall: Firewall::None,
        config_path: Some("/etc/anabranch/anabranch.toml".to_owned()),
        folders: vec![folder(Some(0o600))],
        file_systems: vec![ext4()],
        running: ServerVersion::Version("1.0.0".to_owned()),
        version: "1.0.0".to_owned(),
        ..DoctorFacts::default()
    }
}

fn port(what: &'static str, number: u16, state: PortState) -> Port {
    Port { what, address: format!("0.0.0.0:{number}"), number, is_local: false, state }
}

fn folder(mode: Option<u32>) -> FolderFacts {
    FolderFacts {
        what: "users",
        path: "/var/lib/anabranch/users.toml".to_owned(),
        mode,
        forbidden_mode: 0o077,
        is_writable: true,
        must_be_writable: true,
    }
}

fn ext4() -> ShareFileSystem {
    ShareFileSystem {
        share: "data".to_owned(),
        path: "/srv/data".to_owned(),
        kind: "ext4".to_owned(),
        mounted_at: "/srv".to_owned(),
        options: ["rw", "relatime"].map(str::to_owned).to_vec(),
        writable: Some(true),
        user_xattrs: Some(true),
        acls: Some(true),
        reflinks: Some(false),
        case_insensitive: Some(false),
        long_streams: None,
        bytes: Some((1000 << 30, 500 << 30)),
        inodes: Some((1_000_000, 900_000)),
    }
}

/// The only finding that is not green after `change`: state, text, remedy.
fn found(change: impl FnOnce(&mut DoctorFacts)) -> (FindingSeverity, String, String) {
    let mut facts = fit();
    change(&mut facts);
    let mut bad: Vec<DoctorFinding> =
        findings(&facts).into_iter().filter(|one| one.state != FindingSeverity::Green).collect();
    assert_eq!(bad.len(), 1, "{bad:#?}");
    let one = bad.remove(0);
    (one.state, one.text, one.remedy.expect("what is not green has a remedy"))
}

#[test]
fn healthy_machine_is_green_and_unknown_facts_are_no_fault() {
    let found = findings(&fit());
    assert_eq!(worst(&found), FindingSeverity::Green, "{found:#?}");
    let unknown = DoctorFacts { kernel: (6, 1), is_root: true, ..DoctorFacts::default() };
    let found = findings(&DoctorFacts { interfaces: fit().interfaces, ..unknown });
    assert_eq!(worst(&found), FindingSeverity::Green, "{found:#?}");
    assert!(shown(&found).ends_with(" 0 yellow, 0 red\n"), "{}", shown(&found));
}

#[test]
fn machine_deficiency_is_reported_with_its_remedy() {
    use FindingSeverity::{Red, Yellow};
    type Case = (fn(&mut DoctorFacts), FindingSeverity, &'static str, &'static str);
    let cases: [Case; 16] = [
        (|f| f.kernel = (5, 4), Red, "older than 5.6", "linux-image"),
        (|f| f.kernel = (5, 7), Yellow, "local changes carry no names; that needs 5.9", "reboot"),
        (|f| f.kernel = (5, 10), Yellow, "quotas", "reboot"),
        (
            |f| f.missing_calls = vec![("openat2".into(), "ENOSYS".into())],
            Red,
            "openat2 does not work (ENOSYS)",
            "seccomp",
        ),
        (|f| f.is_root = false, Yellow, "accesses all files as this user", "sudo anabranch doctor"),
        (|f| f.cpu_flags = vec!["sse2".into()], Yellow, "without AES", "-cpu host"),
        (
            |f| f.memory_available_bytes = Some(300 << 20),
            Yellow,
            "300 MiB of 16 GiB are free",
            "metadata_cache",
        ),
        (|f| f.clock.synchronized = Some(false), Yellow, "not synchronized", "set-ntp true"),
        (
            |f| f.clock.error_microseconds = Some(2_000_000),
            Yellow,
            "wrong by 2000 ms",
            "timesync-status",
        ),
        (|f| f.limits.descriptors = Some(1024), Yellow, "1024 for a process", "ulimit -n 1048576"),
        (
            |f| f.limits.watches = Some(8192),
            Yellow,
            "max_user_watches = 8192",
            "sysctl -w fs.inotify.max_user_watches=65536",
        ),
        (
            |f| f.limits.queued_events = Some(64),
            Yellow,
            "max_queued_events = 64",
            "sysctl -w fs.inotify.max_queued_events=16384",
        ),
        (|f| f.limits.accept_queue = Some(128), Yellow, "somaxconn = 128", "somaxconn=4096"),
        (|f| f.limits.send_bytes = Some(2 << 20), Yellow, "tcp_wmem is 2097152", "tcp_wmem='"),
        (|f| f.congestion = Some("bbr".into()), Yellow, "bbr paces", "cubic"),
        (
            |f| f.interfaces[0].rss_capable = false,
            Yellow,
            "eth0 (25 Gbps, 192.0.2.1) has one queue",
            "ethtool -L eth0 combined 8",
        ),
    ];
    for (change, state, text, remedy) in cases {
        let (is, said, helps) = found(change);
        assert_eq!(is, state, "{said}");
        assert!(said.contains(text), "{text} is not in: {said}");
        assert!(helps.contains(remedy), "{remedy} is not in: {helps}");
    }
}

#[test]
fn occupied_port_is_red_with_the_service_to_stop() {
    let set = |state, others: &[&str]| {
        let others: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
        found(|f| {
            f.ports[0].state = state;
            f.other_servers = others;
        })
    };
    let (state, text, remedy) = set(PortState::Taken, &["smbd"]);
    assert_eq!(
        (state, text.as_str()),
        (FindingSeverity::Red, "0.0.0.0:445 for SMB is in use by smbd")
    );
    assert_eq!(remedy, "systemctl disable --now smbd nmbd");
    let (_, text, remedy) = set(PortState::Taken, &[]);
    assert!(text.ends_with("in use by another program"), "{text}");
    assert!(remedy.starts_with("ss -ltnp 'sport = :445'"), "{remedy}");
    assert_eq!(set(PortState::Refused, &[]).0, FindingSeverity::Red);
    assert_eq!(set(PortState::Absent, &[]).0, FindingSeverity::Red);
    // Another server on other ports is no obstacle, but does not know our locks.
    let (state, text, remedy) = set(PortState::Free, &["nfsd"]);
    assert_eq!(state, FindingSeverity::Yellow);
    assert!(text.starts_with("nfsd is also running"), "{text}");
    assert_eq!(remedy, "systemctl disable --now nfs-server");
}

#[test]
fn unreserved_ports_are_yellow_unless_all_users_are_squashed() {
    let share = |name: &str, reserved_ports, maps_all_users| NfsShare {
        share: name.to_owned(),
        reserved_ports,
        maps_all_users,
    };
    let (state, text, remedy) = found(|f| {
        let safe = [share("kernel", true, false), share("public", false, true)];
        f.nfs_shares = [share("home", false, false)].into_iter().chain(safe).collect();
    });
    assert_eq!(state, FindingSeverity::Yellow);
    assert!(text.contains(" in home: ") && text.contains("AUTH_SYS"), "{text}");
    assert!(remedy.contains("reserved_ports = true"), "{remedy}");
    let safe = DoctorFacts { nfs_shares: vec![share("kernel", true, false)], ..fit() };
    let of_safe: Vec<_> = findings(&safe);
    let one = of_safe.iter().find(|one| one.topic == "reserved ports").unwrap();
    assert_eq!(one.state, FindingSeverity::Green);
    assert!(!findings(&fit()).iter().any(|one| one.topic == "reserved ports"), "without NFS");
}

#[test]
fn announcement_is_yellow_if_a_part_fails_or_is_blocked() {
    let mut facts = fit();
    assert!(findings(&facts).iter().all(|one| one.topic != "discovery"));
    facts.announcements = Some(vec!["announced as NAS on eth0: smb; Explorer: yes".to_owned()]);
    let found = |facts: &DoctorFacts| {
        let all = findings(facts).into_iter().filter(|one| one.topic == "discovery");
        all.map(|one| (one.state, one.text)).collect::<Vec<_>>()
    };
    assert_eq!(found(&facts)[0].0, FindingSeverity::Green);
    facts.announcement_problems = vec!["tcp 5357 is in use".to_owned()];
    assert_eq!(found(&facts)[1].0, FindingSeverity::Yellow);
    let rules = "chain input {\ntype filter hook input priority 0; policy drop;\n\
                 udp dport 5353 accept\n}";
    facts.firewall = Firewall::Nft(rules.to_owned());
    let text = "the firewall's rules accept 3702/udp, 5357/tcp nowhere";
    assert_eq!(found(&facts)[2], (FindingSeverity::Yellow, text.to_owned()));
}

#[test]
fn firewall_is_yellow_only_if_it_blocks_served_ports() {
    let nft = |rules: &str| {
        Firewall::Nft(format!("table inet filter {{\n\tchain input {{\n{rules}\n\t}}\n}}\n"))
    };
    let closed = "\t\ttype filter hook input priority filter; policy drop;";
    let (state, text, remedy) = found(|f| f.firewall = nft(closed));
    assert_eq!(state, FindingSeverity::Yellow);
    assert!(text.ends_with("none accepts 445 and 2049 explicitly"), "{text}");
    assert!(
        remedy.contains("nft insert rule inet filter input tcp dport 445 accept\n"),
        "{remedy}"
    );
    let some = format!("{closed}\n\t\ttcp dport {{ 22, 2049 }} accept");
    assert!(found(|f| f.firewall = nft(&some)).1.ends_with("none accepts 445 explicitly"));
    let green = [
        nft(&format!("{closed}\n\t\ttcp dport {{ 22, 445, 2049 }} accept")),
        nft("\t\ttype filter hook input priority filter; policy accept;"),
        nft(&format!("{closed}\n\t\ttcp dport {{ microsoft-ds, nfs }} accept")),
        Firewall::Iptables("*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n".to_owned()),
        Firewall::Unknown,
    ];
    for firewall in green {
        let found = findings(&DoctorFacts { firewall, ..fit() });
        assert_eq!(worst(&found), FindingSeverity::Green, "{found:#?}");
    }
    let tables = ":INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --dport 2049 -j ACCEPT\n";
    let (_, text, remedy) = found(|f| f.firewall = Firewall::Iptables(tables.to_owned()));
    assert!(text.ends_with("none accepts 445 explicitly"), "{text}");
    assert_eq!(remedy, "iptables -I INPUT -p tcp --dport 445 -j ACCEPT");
    let ufw = ":INPUT DROP [0:0]\n-A INPUT -j ufw-before-input\n";
    let (_, _, remedy) = found(|f| f.firewall = Firewall::Iptables(ufw.to_owned()));
    assert_eq!(remedy, "ufw allow 445/tcp\nufw allow 2049/tcp");
    // Local ports pass every firewall.
    let mut local = fit();
    local.ports.iter_mut().for_each(|port| port.is_local = true);
    local.firewall = nft(closed);
    assert_eq!(worst(&findings(&local)), FindingSeverity::Green);
}

#[test]
fn wrong_permissions_are_reported_with_the_right_mode() {
    let (state, text, remedy) = found(|f| f.folders = vec![folder(Some(0o644))]);
    assert_eq!(state, FindingSeverity::Red);
    assert!(text.contains("mode 0644"), "{text}");
    assert_eq!(remedy, "chmod 0600 /var/lib/anabranch/users.toml");
    let locked = FolderFacts { is_writable: false, path: "/a b".to_owned(), ..folder(Some(0o600)) };
    let (state, _, remedy) = found(|f| f.folders = vec![locked]);
    assert_eq!(
        (state, remedy.as_str()),
        (FindingSeverity::Red, "ls -ld '/a b'; findmnt -T '/a b'")
    );
    assert_eq!(
        worst(&findings(&DoctorFacts { folders: vec![folder(None)], ..fit() })),
        FindingSeverity::Green
    );
}

#[test]
fn share_findings_follow_its_file_system() {
    use FindingSeverity::{Red, Yellow};
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let read_only = words(&["ro", "relatime"]);
    let cases = [
        (
            ShareFileSystem { writable: Some(false), options: read_only, ..ext4() },
            Red,
            "mounted read-only",
            "remount,rw /srv",
        ),
        (
            ShareFileSystem { writable: Some(false), ..ext4() },
            Red,
            "is not writable",
            "ls -ld /srv/data",
        ),
        (
            ShareFileSystem { user_xattrs: Some(false), ..ext4() },
            Yellow,
            "no extended attributes",
            "remount,user_xattr /srv",
        ),
        (
            ShareFileSystem { acls: Some(false), kind: "zfs".into(), ..ext4() },
            Yellow,
            "has no ACLs",
            "zfs set acltype=posix /srv",
        ),
        (
            ShareFileSystem { kind: "nfs4".into(), ..ext4() },
            Yellow,
            "does not report changes made by other machines",
            "findmnt",
        ),
        (
            ShareFileSystem { kind: "fuse.sshfs".into(), ..ext4() },
            Yellow,
            "does not report changes made by other machines",
            "findmnt",
        ),
        (
            ShareFileSystem { bytes: Some((100 << 30, 1 << 30)), ..ext4() },
            Yellow,
            "1 GiB of 100 GiB are free",
            "du -xh",
        ),
        (
            ShareFileSystem { inodes: Some((1000, 3)), ..ext4() },
            Yellow,
            "3 of 1000 inodes",
            "df -i",
        ),
        (
            ShareFileSystem { options: words(&["rw"]), ..ext4() },
            Yellow,
            "each read writes",
            "remount,relatime",
        ),
    ];
    for (place, state, text, remedy) in cases {
        let (is, said, helps) = found(|f| f.file_systems = vec![place]);
        assert_eq!(is, state, "{said}");
        assert!(said.contains(text), "{text} is not in: {said}");
        assert!(helps.contains(remedy), "{remedy} is not in: {helps}");
    }
}

#[test]
fn file_system_that_counts_no_inodes_is_green() {
    // btrfs allocates inodes dynamically.
    let btrfs = ShareFileSystem { inodes: Some((0, 0)), kind: "btrfs".into(), ..ext4() };
    let facts = DoctorFacts { file_systems: vec![btrfs], ..fit() };
    assert_eq!(worst(&findings(&facts)), FindingSeverity::Green);
}

#[test]
fn different_running_version_is_reported() {
    let (state, text, remedy) = found(|f| f.version = "1.1.0".to_owned());
    assert_eq!(state, FindingSeverity::Yellow);
    assert_eq!(text, "version 1.0.0 is running, this program is 1.1.0");
    assert_eq!(remedy, "systemctl restart anabranch");
}

#[test]
fn configuration_error_is_red_and_warning_yellow() {
    let (state, text, remedy) = found(|f| f.config_problems = vec!["x:1: no".to_owned()]);
    assert_eq!((state, text.as_str()), (FindingSeverity::Red, "x:1: no"));
    assert_eq!(remedy, "anabranch check /etc/anabranch/anabranch.toml");
    assert_eq!(found(|f| f.config_warnings = vec!["many".to_owned()]).0, FindingSeverity::Yellow);
}

#[test]
fn ntlm_beside_kerberos_is_yellow_and_names_the_remedy() {
    let of = |kerberos, ntlm| {
        let logon = Some(LogonWays { kerberos, ntlm });
        let all = findings(&DoctorFacts { logon, ..DoctorFacts::default() });
        all.into_iter().find(|one| one.topic == "logon")
    };
    let found = of(true, true).unwrap();
    assert_eq!(found.state, FindingSeverity::Yellow);
    assert!(found.remedy.unwrap().contains("ntlm = \"off\""));
    assert_eq!(of(true, false).unwrap().state, FindingSeverity::Green);
    assert_eq!(of(false, true), None, "there is no other way");
}

#[test]
fn missing_layers_of_a_running_server_are_yellow() {
    let of = |missing: Option<&[&str]>| {
        let missing_layers =
            missing.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let all = findings(&DoctorFacts { missing_layers, ..DoctorFacts::default() });
        all.into_iter().find(|one| one.topic == "confinement")
    };
    assert_eq!(of(None), None);
    assert_eq!(of(Some(&[])).unwrap().state, FindingSeverity::Green);
    let found = of(Some(&["seccomp"])).unwrap();
    assert_eq!(found.state, FindingSeverity::Yellow);
    assert!(found.text.contains("seccomp") && found.remedy.is_some(), "{found:?}");
    let old_kernel = of(Some(&["landlock_scopes"])).unwrap();
    assert!(old_kernel.remedy.unwrap().contains("Linux 6.12"));
}

#[test]
fn refused_calls_are_yellow_and_named_with_the_log() {
    let of = |is_written, calls: Option<&[RefusedCalls]>| {
        let calls = calls.map(<[_]>::to_vec);
        let refusals = Some(RefusalLog { is_written, calls });
        let all = findings(&DoctorFacts { refusals, ..DoctorFacts::default() });
        let found = all.into_iter().find(|one| one.topic == "refused calls").unwrap();
        (found.state, found.text, found.remedy.unwrap_or_default())
    };
    assert_eq!(of(true, Some(&[])).0, FindingSeverity::Green);
    let (state, _, remedy) = of(true, None);
    assert_eq!(state, FindingSeverity::Green);
    assert!(remedy.contains("journalctl -k"), "{remedy}");
    let (state, _, remedy) = of(false, Some(&[]));
    assert_eq!(state, FindingSeverity::Yellow);
    assert!(remedy.contains("actions_logged"), "{remedy}");
    let calls = [
        RefusedCalls { number: 41, was_fatal: false, count: 2 },
        RefusedCalls { number: 59, was_fatal: true, count: 1 },
    ];
    let (state, text, remedy) = of(false, Some(&calls));
    assert_eq!(state, FindingSeverity::Yellow);
    assert!(text.ends_with("number 41 failed 2 times, number 59 ended the server once"), "{text}");
    assert!(remedy.contains("ausearch -m SECCOMP"), "{remedy}");
    assert!(findings(&DoctorFacts::default()).iter().all(|one| one.topic != "refused calls"));
}

#[test]
fn orphaned_long_streams_are_reported_with_a_remedy() {
    let of = |streams| found(|facts| facts.file_systems[0].long_streams = Some(streams));
    let plain = LongStreams { files: 9, bytes: 9 << 20, ..LongStreams::default() };
    let (state, text, remedy) = of(LongStreams { orphans: 2, orphan_bytes: 1 << 20, ..plain });
    assert_eq!(state, FindingSeverity::Yellow);
    assert!(text.contains("2 long named streams (1"), "{text}");
    assert!(remedy.contains("wait"), "{remedy}");
    let (state, _, remedy) = of(LongStreams { unclaimed: 1, ..plain });
    assert_eq!(state, FindingSeverity::Yellow);
    assert!(remedy.starts_with("ls -l /srv/data/.anabranch-streams"), "{remedy}");
    assert!(!remedy.contains("delete"), "they may be all that is left: {remedy}");
    let (state, _, remedy) = of(LongStreams { is_open_to_others: true, ..plain });
    assert_eq!(state, FindingSeverity::Red);
    assert!(remedy.starts_with("chmod 1700 /srv/data/.anabranch-streams"), "{remedy}");
    let mut facts = fit();
    facts.file_systems[0].long_streams = Some(plain);
    assert_eq!(worst(&findings(&facts)), FindingSeverity::Green);
}
