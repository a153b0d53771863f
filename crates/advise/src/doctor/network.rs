//! Rules about ports, queues, interfaces, firewalls and other servers.

use super::{
    DoctorFacts, DoctorFinding, FindingSeverity, Firewall, LogonWays, NfsShare, Port, PortState,
    RefusalLog, RefusedCalls, ServerVersion,
};
use crate::link_speed;

/// Backlog of the server's listening sockets.
const ACCEPT_QUEUE_WANTED: u64 = 4096;
/// Bytes in flight of a 10 Gbit/s connection with 3 ms round trip time, and the Linux default.
const BUFFER_WANTED: u64 = 4 << 20;

pub(super) fn queues(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let limits = &facts.limits;
    let mut found = Vec::new();
    if let Some(queue) = limits.accept_queue.filter(|queue| *queue < ACCEPT_QUEUE_WANTED) {
        let text = format!(
            "net.core.somaxconn = {queue}: when all clients reconnect at once, some have to retry"
        );
        let remedy = format!("sysctl -w net.core.somaxconn={ACCEPT_QUEUE_WANTED}");
        found.push(DoctorFinding::yellow("queues", text).remedy(remedy));
    }
    let buffers = [
        ("tcp_rmem", limits.receive_bytes, "4096 131072 33554432"),
        ("tcp_wmem", limits.send_bytes, "4096 65536 33554432"),
    ];
    for (name, bytes, better) in buffers {
        if let Some(bytes) = bytes.filter(|bytes| *bytes < BUFFER_WANTED) {
            let text = format!(
                "the maximum of net.ipv4.{name} is {bytes} bytes: a connection with a high \
                 round-trip time is slow"
            );
            let remedy = format!("sysctl -w net.ipv4.{name}='{better}'");
            found.push(DoctorFinding::yellow("queues", text).remedy(remedy));
        }
    }
    if found.is_empty() && limits.accept_queue.is_some() {
        found.push(DoctorFinding::green("queues", "network queues are long enough"));
    }
    found
}

pub(super) fn congestion(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let Some(kind) = &facts.congestion else { return Vec::new() };
    if kind.starts_with("bbr") {
        let text = format!(
            "{kind} paces its packets: this costs throughput over loopback and within a rack, \
             and helps over links that lose packets"
        );
        return vec![
            DoctorFinding::yellow("congestion", text)
                .remedy("sysctl -w net.ipv4.tcp_congestion_control=cubic   # if clients are near"),
        ];
    }
    vec![DoctorFinding::green("congestion", kind.clone())]
}

pub(super) fn interfaces(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let topic = "interfaces";
    if facts.interfaces.is_empty() {
        let text = "only loopback has an address: other machines cannot reach this one";
        return vec![
            DoctorFinding::yellow(topic, text).remedy("ip address   # then: ip link set IF up"),
        ];
    }
    let mut found = Vec::new();
    for interface in &facts.interfaces {
        let speed = link_speed(interface.bits_per_second);
        let (name, addresses) = (&interface.name, interface.addresses.join(" "));
        if facts.multichannel && !interface.rss_capable {
            let text = format!(
                "{name} ({speed}, {addresses}) has one queue: Windows opens one connection to it, not several"
            );
            let remedy = format!(
                "ethtool -L {name} combined {}   # or, in [multichannel]: rss = true",
                facts.cpus.clamp(2, 8)
            );
            found.push(DoctorFinding::yellow(topic, text).remedy(remedy));
        } else {
            found.push(DoctorFinding::green(topic, format!("{name} ({speed}, {addresses})")));
        }
    }
    found
}

pub(super) fn ports(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    facts.ports.iter().map(|port| judged(facts, port)).collect()
}

fn judged(facts: &DoctorFacts, port: &Port) -> DoctorFinding {
    let Port { what, address, number, state, .. } = port;
    let others = || facts.other_servers.iter().filter(|name| serves(name, what));
    match state {
        PortState::Free => DoctorFinding::green("port", format!("{address} for {what} is free")),
        PortState::Ours => {
            DoctorFinding::green("port", format!("{address} for {what} is in use by this server"))
        }
        PortState::Taken => {
            let holders: Vec<&str> = others().map(String::as_str).collect();
            let (who, remedy) = match holders.first() {
                Some(first) => (holders.join(", "), stop(first).to_owned()),
                None => (
                    "another program".to_owned(),
                    format!("ss -ltnp 'sport = :{number}'   # shows the process"),
                ),
            };
            DoctorFinding::red("port", format!("{address} for {what} is in use by {who}"))
                .remedy(remedy)
        }
        PortState::Refused => {
            let text = format!("{address} for {what} needs root or CAP_NET_BIND_SERVICE");
            let remedy =
                "systemctl start anabranch   # or run it as root, or choose a port from 1024 on";
            DoctorFinding::red("port", text).remedy(remedy)
        }
        PortState::Absent => {
            let text = format!("{address} for {what} is not an address of this machine");
            DoctorFinding::red("port", text).remedy("ip -brief address")
        }
    }
}

/// Whether a program of this name serves the protocol `what`.
fn serves(name: &str, what: &str) -> bool {
    match what {
        "SMB" => matches!(name, "smbd" | "samba" | "ksmbd"),
        "NFS" => matches!(name, "nfsd" | "ganesha.nfsd"),
        _ => false,
    }
}

fn stop(name: &str) -> &'static str {
    match name {
        "ganesha.nfsd" => "systemctl disable --now nfs-ganesha",
        "ksmbd" => "systemctl disable --now ksmbd && ksmbd.control --shutdown",
        "nfsd" => "systemctl disable --now nfs-server",
        "samba" => "systemctl disable --now samba-ad-dc",
        _ => "systemctl disable --now smbd nmbd",
    }
}

pub(super) fn firewall(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let topic = "firewall";
    let reached = || facts.ports.iter().filter(|port| !port.is_local && port.what != "admin");
    let mut numbers: Vec<u16> = reached().map(|port| port.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let (rules, open): (_, fn(u16) -> String) = match &facts.firewall {
        Firewall::Unknown => return Vec::new(),
        Firewall::None => return vec![DoctorFinding::green(topic, "no rules: all ports are open")],
        Firewall::Nft(rules) => {
            (rules, |port| format!("nft insert rule inet filter input tcp dport {port} accept"))
        }
        Firewall::Iptables(rules) => {
            (rules, |port| format!("iptables -I INPUT -p tcp --dport {port} -j ACCEPT"))
        }
    };
    if !closes(rules) {
        return vec![DoctorFinding::green(topic, "its rules permit all incoming connections")];
    }
    let closed: Vec<u16> = numbers.into_iter().filter(|port| !mentions(rules, *port)).collect();
    if closed.is_empty() {
        return vec![DoctorFinding::green(topic, "its rules accept the server's ports")];
    }
    let managed = |port: &u16| {
        if rules.contains("ufw-") {
            format!("ufw allow {port}/tcp")
        } else if rules.contains("firewalld") {
            format!("firewall-cmd --permanent --add-port={port}/tcp && firewall-cmd --reload")
        } else {
            open(*port)
        }
    };
    let names: Vec<String> = closed.iter().map(u16::to_string).collect();
    let lines: Vec<String> = closed.iter().map(managed).collect();
    let text =
        format!("its rules block ports, and none accepts {} explicitly", names.join(" and "));
    vec![DoctorFinding::yellow(topic, text).remedy(lines.join("\n"))]
}

/// Ports of multicast DNS, WS-Discovery and its metadata.
const DISCOVERY_PORTS: [(u16, &str); 3] = [(5353, "udp"), (3702, "udp"), (5357, "tcp")];

/// Whether clients find the server by themselves.
pub(super) fn announcements(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let topic = "discovery";
    let Some(lines) = &facts.announcements else { return Vec::new() };
    let rules = match &facts.firewall {
        Firewall::Nft(rules) | Firewall::Iptables(rules) if closes(rules) => rules,
        _ => "",
    };
    let is_closed = |(port, _): &(u16, &str)| !rules.is_empty() && !mentions(rules, *port);
    let closed = DISCOVERY_PORTS.into_iter().filter(is_closed);
    let closed: Vec<_> = closed.map(|(port, protocol)| format!("{port}/{protocol}")).collect();
    let found = lines.iter().map(|line| DoctorFinding::green(topic, line.as_str()));
    let problems = facts.announcement_problems.iter();
    let problems = problems.map(|text| DoctorFinding::yellow(topic, text.as_str()));
    let blocked = (!closed.is_empty() && !lines.is_empty()).then(|| {
        let text = format!("the firewall's rules accept {} nowhere", closed.join(", "));
        let remedy = "permit them for the local network, or set enabled = false in [discovery]";
        DoctorFinding::yellow(topic, text).remedy(remedy)
    });
    found.chain(problems).chain(blocked).collect()
}

/// Whether the rules may refuse incoming packets.
fn closes(rules: &str) -> bool {
    rules.lines().map(str::trim).any(|line| {
        (line.contains("hook input") && line.contains("policy drop"))
            || line.starts_with(":INPUT DROP")
            || line.starts_with("-A INPUT")
                && (line.contains("-j DROP") || line.contains("-j REJECT"))
            || !line.contains(' ') && matches!(line, "drop" | "reject")
            || line.starts_with("reject with")
            || line.starts_with("-A ufw-")
    })
}

/// Whether an accepting rule names the port, by number or service name, alone or in a list.
fn mentions(rules: &str, port: u16) -> bool {
    let service = match port {
        445 => "microsoft-ds",
        2049 => "nfs",
        _ => "",
    };
    let number = port.to_string();
    let accepts =
        |line: &&str| line.to_ascii_lowercase().contains("accept") || line.contains("ufw-");
    rules.lines().filter(accepts).any(|line| {
        let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        words.into_iter().any(|word| word == number || !service.is_empty() && word == service)
    })
}

/// Whether programs other than a client's kernel can assert its users: under AUTH_SYS a client only
/// names the user (RFC 5531 appendix A).
pub(super) fn reserved_ports(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let topic = "reserved ports";
    if facts.nfs_shares.is_empty() {
        return Vec::new();
    }
    let is_open = |share: &&NfsShare| !share.reserved_ports && !share.maps_all_users;
    let open: Vec<&str> =
        facts.nfs_shares.iter().filter(is_open).map(|share| share.share.as_str()).collect();
    if open.is_empty() {
        let text = "NFS clients must use a source port below 1024: only their kernels and root \
                    can assert user ids (AUTH_SYS)";
        return vec![DoctorFinding::green(topic, text)];
    }
    let text = format!(
        "any program on an NFS client can act as any user that nfs_squash does not map, in {}: \
         the client asserts the user id (AUTH_SYS), and source ports of 1024 and above are \
         accepted",
        open.join(", ")
    );
    let remedy = "reserved_ports = true in [server] or [[share]], then: systemctl reload anabranch\n\
                  clients: mount without noresvport, and run user-space NFS clients as root";
    vec![DoctorFinding::yellow(topic, text).remedy(remedy)]
}

/// Whether clients may use NTLM although they have tickets: NTLM can be relayed, and its responses
/// can be attacked offline.
pub(super) fn logon(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    match facts.logon {
        Some(LogonWays { kerberos: true, ntlm: true }) => {
            let text = "NTLM is offered beside Kerberos: an attacker can relay the logon of a \
                        client that falls back to NTLM, or guess its password from the messages";
            let remedy = "ntlm = \"off\" in [server] once all clients have tickets, then: \
                          systemctl reload anabranch";
            vec![DoctorFinding::yellow("logon", text).remedy(remedy)]
        }
        Some(LogonWays { kerberos: true, ntlm: false }) => {
            vec![DoctorFinding::green("logon", "by Kerberos only")]
        }
        Some(LogonWays { kerberos: false, .. }) | None => Vec::new(),
    }
}

/// Missing confinement layers of the running server.
fn confinement(missing: &[String]) -> DoctorFinding {
    if missing.is_empty() {
        let text =
            "the server has dropped the capabilities, system calls and ports it does not need";
        return DoctorFinding::green("confinement", text);
    }
    let text = format!("the server runs without {}", missing.join(", "));
    let is_of_kernel = missing.iter().all(|layer| layer.starts_with("landlock"));
    let remedy = if is_of_kernel {
        "use Linux 6.12 or later, started with landlock in lsm="
    } else {
        "confinement = \"on\" in [server], then: systemctl restart anabranch"
    };
    DoctorFinding::yellow("confinement", text).remedy(remedy)
}

/// System calls of the server that the kernel refused.
fn refused_calls(log: &RefusalLog) -> DoctorFinding {
    let topic = "refused calls";
    let look =
        "journalctl -k -g 'type=1326.*anabranch'   # with auditd: ausearch -m SECCOMP -x anabranch";
    let Some(calls) = log.calls.as_deref().filter(|calls| log.is_written || !calls.is_empty())
    else {
        return if log.is_written {
            DoctorFinding::green(topic, "the kernel logs them; only root can read them")
                .remedy(look)
        } else {
            let text = "the kernel does not log the system calls that confinement refuses";
            DoctorFinding::yellow(topic, text).remedy(
                "sysctl -w kernel.seccomp.actions_logged='kill_process kill_thread trap errno user_notif trace log'\n\
                 if it is set already: use a kernel with CONFIG_AUDIT",
            )
        };
    };
    if calls.is_empty() {
        let text = "none since the machine started";
        return DoctorFinding::green(topic, text);
    }
    let one = |call: &RefusedCalls| {
        let outcome = if call.was_fatal { "ended the server" } else { "failed" };
        format!("number {} {outcome} {}", call.number, times(call.count))
    };
    let all: Vec<_> = calls.iter().map(one).collect();
    let text = format!(
        "the server made system calls that it does not need, because of an attack or a defect: {}",
        all.join(", ")
    );
    DoctorFinding::yellow(topic, text).remedy(format!("{look}\nreport it with the records"))
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

pub(super) fn running(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let mut found: Vec<DoctorFinding> = Vec::new();
    match &facts.running {
        ServerVersion::No => {}
        ServerVersion::Version(version) if *version == facts.version => {
            found.push(DoctorFinding::green(
                "server",
                format!("version {version} is running, the same as this program"),
            ));
        }
        ServerVersion::Version(version) => {
            let text = format!("version {version} is running, this program is {}", facts.version);
            found.push(DoctorFinding::yellow("server", text).remedy("systemctl restart anabranch"));
        }
    }
    found.extend(facts.missing_layers.as_deref().map(confinement));
    found.extend(facts.refusals.as_ref().map(refused_calls));
    let taken = |name: &str| {
        facts.ports.iter().any(|port| port.state == PortState::Taken && serves(name, port.what))
    };
    for name in facts.other_servers.iter().filter(|name| !taken(name)) {
        let text = format!(
            "{name} is also running: two servers of one directory do not see each other's locks"
        );
        found.push(DoctorFinding::new("server", FindingSeverity::Yellow, text).remedy(stop(name)));
    }
    found
}
