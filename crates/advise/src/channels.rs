//! Verifies the channels of a session: facts under the names that Windows uses, and six steps of
//! verification.

use crate::{InterfaceFacts, link_speed};
use serde::Serialize;
use std::fmt::Write;

/// Largest acceptable ratio of the busiest connection to the mean.
const IMBALANCE_MAX: f64 = 1.5;
/// Fraction of the mean below which a connection is idle.
const IDLE: f64 = 0.05;
/// Number of connections beyond which more rarely help, and may cost.
const CHANNELS_GOOD: usize = 4;

/// One connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ConnectionFacts {
    /// The client's address and port.
    pub client_ip_address: String,
    /// See [`ConnectionFacts::client_ip_address`].
    pub client_port: u16,
    /// The server's address and port.
    pub server_ip_address: String,
    /// See [`ConnectionFacts::server_ip_address`].
    pub server_port: u16,
    /// Interface index of the client's address, if known.
    pub client_interface_index: Option<u32>,
    /// Interface index of the server's address, if advertised.
    pub server_interface_index: Option<u32>,
    /// See [`InterfaceFacts::rss_capable`].
    #[serde(rename = "ClientRSSCapable")]
    pub client_rss_capable: bool,
    /// See [`InterfaceFacts::rss_capable`].
    #[serde(rename = "ServerRSSCapable")]
    pub server_rss_capable: bool,
    /// See [`InterfaceFacts::rdma_capable`].
    #[serde(rename = "ServerRDMACapable")]
    pub server_rdma_capable: bool,
    /// Payload bytes of the load.
    pub bytes: u64,
    /// Available credits.
    pub credits: u32,
}

/// A session under load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LoadedSessionFacts {
    /// SMB or NFS.
    pub protocol: String,
    /// The server.
    pub server_name: String,
    /// Share or export.
    pub share: String,
    /// Dialect or version.
    pub dialect: String,
    /// Signing algorithm, or "off".
    pub signing_algorithm: String,
    /// Cipher, or "off".
    pub encryption_algorithm: String,
    /// Whether the client uses several connections.
    pub enable_multichannel: bool,
    /// Whether the server offers Multichannel.
    pub server_multichannel: bool,
    /// Requested connections.
    pub max_channels: usize,
    /// Established connections.
    pub current_channels: usize,
    /// Reason for which the server refused more connections.
    pub refusal: Option<String>,
    /// The connections.
    pub connections: Vec<ConnectionFacts>,
    /// Sockets of this process to the server, as the system counts them.
    pub sockets: Option<usize>,
    /// Interfaces of the client.
    pub client_interfaces: Vec<InterfaceFacts>,
    /// Interfaces that the server advertises.
    pub server_interfaces: Vec<InterfaceFacts>,
    /// Payload bytes per second of the load.
    pub bytes_per_second: f64,
    /// Traffic of the busiest connection as a multiple of the mean.
    pub imbalance: f64,
}

/// Imbalance of the load: maximum divided by mean; 0 without load.
#[must_use]
pub fn imbalance(bytes: &[u64]) -> f64 {
    let total: u64 = bytes.iter().sum();
    let most = bytes.iter().max().copied().unwrap_or_default();
    if total == 0 { 0.0 } else { most as f64 * bytes.len() as f64 / total as f64 }
}

/// One step of the Multichannel verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct VerificationStep {
    /// Number from 1.
    pub number: usize,
    /// The checked condition.
    pub what: &'static str,
    /// Whether the condition holds.
    pub passed: bool,
    /// The finding.
    pub result: String,
    /// The remedy, if the condition does not hold.
    pub remedy: Option<&'static str>,
}

/// The six steps: share, adapters, connection, load, connections, their number.
#[must_use]
pub fn steps(facts: &LoadedSessionFacts) -> Vec<VerificationStep> {
    let nfs = facts.protocol == "NFS";
    let step = |number, what, passed: bool, result: String, remedy| VerificationStep {
        number,
        what,
        passed,
        result,
        remedy: (!passed).then_some(remedy),
    };
    let carried: u64 = facts.connections.iter().map(|one| one.bytes).sum();
    let (rss, result) = adapters(facts);
    vec![
        step(
            1,
            "the server supports Multichannel",
            nfs || facts.server_multichannel,
            match facts.server_multichannel || nfs {
                true => format!("{} supports it", facts.server_name),
                false => format!("{} does not", facts.server_name),
            },
            "enable it on the server (Anabranch: enabled = true under [multichannel]; Samba: \
             server multi channel support = yes; some cloud shares need the premium tier), then \
             reconnect",
        ),
        step(
            2,
            "adapters support RSS",
            nfs || rss,
            result,
            "enable RSS on the adapter of that side (Windows: Enable-NetAdapterRss; a virtual \
             machine: accelerated networking), or override the detection on the server \
             (Anabranch: rss = true under [multichannel])",
        ),
        step(
            3,
            "the share is connected",
            !facts.connections.is_empty(),
            format!("{}, {} {}", facts.share, facts.protocol, facts.dialect),
            "run `anabranch probe` on the server",
        ),
        step(
            4,
            "load runs on the share",
            carried > 0,
            format!("{} at {}/s", crate::size(carried as f64), crate::size(facts.bytes_per_second)),
            "the load failed: check the permissions on the share's directory",
        ),
        step(
            5,
            "the system lists the connections",
            facts.sockets.is_none_or(|sockets| sockets == facts.connections.len()),
            match facts.sockets {
                Some(sockets) => format!("{sockets} sockets to the server are established"),
                None => "unknown".into(),
            },
            "a device on the path ends connections, or answers for the server: check proxies and \
             firewalls",
        ),
        step(
            6,
            "CurrentChannels reaches MaxChannels",
            facts.current_channels >= facts.max_channels && facts.max_channels > 1,
            format!("{} of {}{}", facts.current_channels, facts.max_channels, because(facts)),
            "check the steps above, the server's maximum number of channels, and that \
             Multichannel is enabled on the client (Windows: Set-SmbClientConfiguration \
             -EnableMultiChannel $true)",
        ),
    ]
}

fn because(facts: &LoadedSessionFacts) -> String {
    facts.refusal.as_ref().map(|refusal| format!(": {refusal}")).unwrap_or_default()
}

fn adapters(facts: &LoadedSessionFacts) -> (bool, String) {
    let count =
        |all: &[InterfaceFacts]| (all.iter().filter(|one| one.rss_capable).count(), all.len());
    let ((ours, of_ours), (theirs, of_theirs)) =
        (count(&facts.client_interfaces), count(&facts.server_interfaces));
    let result =
        format!("with RSS: {ours} of {of_ours} here, {theirs} of {of_theirs} at the server");
    // Several interfaces carry several connections even without RSS.
    (theirs > 0 || of_theirs > 1, result)
}

/// Further remarks on the connections.
#[must_use]
pub fn remarks(facts: &LoadedSessionFacts) -> Vec<String> {
    let mut out = Vec::new();
    let bytes: Vec<u64> = facts.connections.iter().map(|one| one.bytes).collect();
    let mean = bytes.iter().sum::<u64>() as f64 / bytes.len().max(1) as f64;
    let idle = bytes.iter().filter(|one| (**one as f64) < mean * IDLE).count();
    if idle > 0 && mean > 0.0 {
        out.push(format!("MV-06: {idle} of {} connections are nearly idle", bytes.len()));
    }
    if facts.imbalance > IMBALANCE_MAX {
        out.push(format!(
            "MV-06: the busiest connection carries {:.1} times the mean: more requests in flight \
             spread better",
            facts.imbalance
        ));
    }
    if facts.current_channels > CHANNELS_GOOD {
        out.push(
            "MC-10: more than 4 connections rarely increase throughput, and may reduce it".into(),
        );
    }
    let usable = |all: &[InterfaceFacts]| {
        let real = |ip: &String| !ip.starts_with("127.") && ip != "::1" && !ip.starts_with("fe80");
        all.iter().filter(|one| one.ip_addresses.iter().any(real)).count()
    };
    if facts.protocol == "SMB"
        && facts.server_interfaces.len() == 1
        && usable(&facts.client_interfaces) > 1
    {
        out.push(
            "MC-24: the server advertises one address, so this machine uses one adapter; more \
             adapters do not help this share"
                .into(),
        );
    }
    out
}

fn yes(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// The connections in the form of `Get-SmbMultichannelConnection | fl`: one paragraph for each pair
/// of interfaces.
#[must_use]
pub fn connection_list(facts: &LoadedSessionFacts) -> String {
    let mut out = String::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for one in &facts.connections {
        let pair = (one.client_ip_address.as_str(), one.server_ip_address.as_str());
        if seen.contains(&pair) {
            continue;
        }
        seen.push(pair);
        let alike = facts.connections.iter().filter(|other| {
            (other.client_ip_address.as_str(), other.server_ip_address.as_str()) == pair
        });
        let number = |index: Option<u32>| index.map_or("-".into(), |index| index.to_string());
        let max = if one.server_rss_capable { facts.max_channels } else { alike.clone().count() };
        for (name, value) in [
            ("ServerName", facts.server_name.clone()),
            ("Selected", yes(true).into()),
            ("ClientInterfaceIndex", number(one.client_interface_index)),
            ("ClientIpAddress", one.client_ip_address.clone()),
            ("ClientRSSCapable", yes(one.client_rss_capable).into()),
            ("ServerInterfaceIndex", number(one.server_interface_index)),
            ("ServerIpAddress", one.server_ip_address.clone()),
            ("ServerRSSCapable", yes(one.server_rss_capable).into()),
            ("ServerRDMACapable", yes(one.server_rdma_capable).into()),
            ("MaxChannels", max.to_string()),
            ("CurrentChannels", alike.count().to_string()),
        ] {
            let _ = writeln!(out, "{name:<21}: {value}");
        }
        out.push('\n');
    }
    out
}

/// Interfaces in the form of `Get-SmbClientNetworkInterface`.
#[must_use]
pub fn interface_table(interfaces: &[InterfaceFacts]) -> String {
    let mut out = format!(
        "{:<16} {:<12} {:<12} {:<10} {:<16} IpAddresses\n",
        "Interface Index", "RSS Capable", "RDMA Capable", "Speed", "Friendly Name"
    );
    for one in interfaces {
        let _ = writeln!(
            out,
            "{:<16} {:<12} {:<12} {:<10} {:<16} {{{}}}",
            one.interface_index,
            yes(one.rss_capable),
            yes(one.rdma_capable),
            link_speed(one.link_speed),
            one.friendly_name,
            one.ip_addresses.join(", ")
        );
    }
    out
}

/// The complete report as text.
#[must_use]
pub fn shown(facts: &LoadedSessionFacts) -> String {
    let mut out = format!(
        "{}: {} {}, signing {}, encryption {}\n\nEnableMultichannel   : {}\n\n",
        facts.server_name,
        facts.protocol,
        facts.dialect,
        facts.signing_algorithm,
        facts.encryption_algorithm,
        yes(facts.enable_multichannel)
    );
    if facts.protocol == "SMB" {
        out += &connection_list(facts);
        out += "Interfaces of this machine\n";
        out += &interface_table(&facts.client_interfaces);
        out += "\nInterfaces that the server advertises\n";
        out += &interface_table(&facts.server_interfaces);
    } else {
        let _ = writeln!(out, "MaxChannels          : {}", facts.max_channels);
        let _ = writeln!(out, "CurrentChannels      : {}", facts.current_channels);
    }
    out += "\nBytes per connection\n";
    let total: u64 = facts.connections.iter().map(|one| one.bytes).sum();
    for one in &facts.connections {
        let part = one.bytes as f64 * 100.0 / total.max(1) as f64;
        let _ = writeln!(
            out,
            "  {}:{} -> {}:{}  {} ({part:.0} %)  credits {}",
            one.client_ip_address,
            one.client_port,
            one.server_ip_address,
            one.server_port,
            one.bytes,
            one.credits
        );
    }
    let _ = writeln!(out, "  imbalance {:.2} (1 is even)\n", facts.imbalance);
    for step in steps(facts) {
        let mark = if step.passed { "pass" } else { "FAIL" };
        let _ = writeln!(out, "{mark}  {}. {}: {}", step.number, step.what, step.result);
        if let Some(remedy) = step.remedy {
            let _ = writeln!(out, "         {remedy}");
        }
    }
    for remark in remarks(facts) {
        let _ = writeln!(out, "note  {remark}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, rss: bool, ip: &str) -> InterfaceFacts {
        InterfaceFacts {
            interface_index: index,
            rss_capable: rss,
            ip_addresses: vec![ip.into()],
            link_speed: 10_000_000_000,
            ..InterfaceFacts::default()
        }
    }

    fn facts(bytes: &[u64]) -> LoadedSessionFacts {
        let connection = |(at, bytes): (usize, &u64)| ConnectionFacts {
            client_ip_address: "10.0.0.1".into(),
            client_port: 1000 + at as u16,
            server_ip_address: "10.0.0.2".into(),
            server_port: 445,
            client_interface_index: Some(12),
            server_interface_index: Some(3),
            server_rss_capable: true,
            bytes: *bytes,
            ..ConnectionFacts::default()
        };
        LoadedSessionFacts {
            protocol: "SMB".into(),
            server_name: "files".into(),
            server_multichannel: true,
            max_channels: 4,
            current_channels: bytes.len(),
            sockets: Some(bytes.len()),
            connections: bytes.iter().enumerate().map(connection).collect(),
            client_interfaces: vec![interface(12, true, "10.0.0.1")],
            server_interfaces: vec![interface(3, true, "10.0.0.2")],
            imbalance: imbalance(bytes),
            ..LoadedSessionFacts::default()
        }
    }

    fn failed(facts: &LoadedSessionFacts) -> Vec<usize> {
        steps(facts).into_iter().filter(|step| !step.passed).map(|step| step.number).collect()
    }

    #[test]
    fn session_with_all_channels_passes_the_six_steps() {
        let good = facts(&[10, 11, 9, 10]);
        assert_eq!(failed(&good), [0; 0]);
        assert_eq!(steps(&good).len(), 6);
        assert_eq!(remarks(&good), [""; 0]);
    }

    #[test]
    fn failed_step_has_a_reason_and_a_remedy() {
        type Spoil = fn(&mut LoadedSessionFacts);
        let cases: [(usize, Spoil); 6] = [
            (1, |f| f.server_multichannel = false),
            (2, |f| f.server_interfaces[0].rss_capable = false),
            (3, |f| f.connections.clear()),
            (4, |f| f.connections.iter_mut().for_each(|one| one.bytes = 0)),
            (5, |f| f.sockets = Some(2)),
            (6, |f| f.current_channels = 3),
        ];
        for (number, spoil) in cases {
            let mut spoiled = facts(&[10, 11, 9, 10]);
            spoil(&mut spoiled);
            assert!(failed(&spoiled).contains(&number), "{number}");
            let step = &steps(&spoiled)[number - 1];
            assert!(step.remedy.is_some() && step.number == number);
        }
        let mut refused = facts(&[10]);
        refused.refusal = Some("INSUFFICIENT_RESOURCES".into());
        assert_eq!(steps(&refused)[5].result, "1 of 4: INSUFFICIENT_RESOURCES");
    }

    #[test]
    fn idle_overloaded_and_needless_connections_have_remarks() {
        let mut uneven = facts(&[100, 0, 10, 10]);
        assert!((uneven.imbalance - 100.0 * 4.0 / 120.0).abs() < 1e-9);
        uneven.client_interfaces.push(interface(15, true, "10.0.1.1"));
        let text = remarks(&uneven).join("\n");
        for part in ["1 of 4 connections are nearly idle", "3.3 times", "MC-24"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(imbalance(&[]), 0.0);
        assert!(remarks(&facts(&[1; 8])).join("").contains("MC-10"));
    }

    #[test]
    fn channel_lists_have_the_names_of_windows() {
        let shown = shown(&facts(&[10, 11, 9, 10]));
        for part in [
            "ClientInterfaceIndex : 12\n",
            "ServerIpAddress      : 10.0.0.2\n",
            "ServerRSSCapable     : True\n",
            "MaxChannels          : 4\nCurrentChannels      : 4\n",
            "Interface Index  RSS Capable  RDMA Capable Speed",
            "10 Gbps",
            "pass  6. CurrentChannels reaches MaxChannels: 4 of 4",
        ] {
            assert!(shown.contains(part), "{part} is not in\n{shown}");
        }
        let json = serde_json::to_value(facts(&[1])).expect("plain values");
        assert!(json["Connections"][0]["ServerRSSCapable"].is_boolean());
        assert_eq!(json["ClientInterfaces"][0]["RSSCapable"], true);
    }
}
