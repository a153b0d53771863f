//! Decides what is announced on an interface: a pure function of the configuration and the
//! interface.

use crate::machine::interfaces::PrivateLink;
use ::discovery::Subnet;
use ::discovery::mdns::Announcement;
use ::discovery::wsd::{METADATA_PORT, WsdComputer};
use serde::Serialize;
use smb::{ShareVisibility, SmbConfig, SmbShare};
use std::net::{IpAddr, SocketAddr};

/// The model that Samba announces, too: clients do not know it, and show a generic server.
pub const MODEL: &str = "MacSamba";
/// The port that Explorer uses; it knows no other.
const EXPLORER_PORT: u16 = 445;
/// Ports of discovery for firewalls, with their protocol.
pub const DISCOVERY_PORTS: [(&str, u16); 3] =
    [("udp", ::discovery::mdns::PORT), ("udp", ::discovery::wsd::PORT), ("tcp", METADATA_PORT)];

/// The table `[discovery]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// Announce by multicast DNS.
    pub mdns: bool,
    /// Announce by WS-Discovery.
    pub wsd: bool,
    /// Model in the announcement for macOS; empty for none.
    pub model: String,
}

impl Default for DiscoverySettings {
    fn default() -> Self {
        Self { mdns: true, wsd: true, model: MODEL.into() }
    }
}

/// The content of the announcement on one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkPlan {
    /// Interface index.
    pub(super) index: u32,
    /// Interface name.
    pub(super) name: String,
    /// Private and link-local networks of the interface: only their senders are answered.
    pub(super) subnets: Vec<Subnet>,
    /// The announcement by multicast DNS.
    pub(super) mdns: Option<Announcement>,
    /// The announcement by WS-Discovery, at one address of each family.
    pub(super) wsd: Option<(WsdComputer, Vec<IpAddr>)>,
    /// Why there is none by WS-Discovery.
    pub(super) no_wsd: Option<&'static str>,
}

/// State of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkStatus {
    /// Interface name.
    pub interface: String,
    /// Announced name, once other machines had the time to object.
    pub name: Option<String>,
    /// Announced services.
    pub services: Vec<String>,
    /// Whether Windows' Explorer shows the computer.
    pub explorer: bool,
    /// Failed parts of the announcement, with the remedy.
    pub problems: Vec<String>,
}

impl LinkStatus {
    /// Whether any client finds the server here.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        self.name.is_some() || self.explorer
    }
}

/// The plan for an interface; `None` if discovery is off.
pub(super) fn of_link(
    link: &PrivateLink,
    config: &SmbConfig,
    settings: &DiscoverySettings,
    computer: &WsdComputer,
) -> Option<LinkPlan> {
    let at = |port| {
        let of_port = link.listening.iter().filter(move |address| address.port() == port);
        of_port.map(SocketAddr::ip).collect::<Vec<IpAddr>>()
    };
    let port = link.listening.iter().map(SocketAddr::port);
    let port = port.min_by_key(|port| (*port != EXPLORER_PORT, *port))?;
    let mdns = settings.mdns.then(|| Announcement {
        name: config.name.clone(),
        addresses: at(port),
        smb_port: port,
        model: settings.model.clone(),
        backup_shares: backup_shares(config, &at(port)),
    });
    let explorer = at(EXPLORER_PORT);
    let wsd = (settings.wsd && !explorer.is_empty())
        .then(|| (computer.clone(), one_of_each_family(&explorer)));
    let is_off = mdns.is_none() && !settings.wsd;
    (!is_off).then(|| LinkPlan {
        index: link.index,
        name: link.name.clone(),
        subnets: link.subnets.clone(),
        no_wsd: match (&wsd, settings.wsd) {
            (None, true) => Some("Explorer connects to port 445 only; listen there"),
            _ => None,
        },
        mdns,
        wsd,
    })
}

/// Time Machine shares that everyone may see, and whose host rules admit the link.
fn backup_shares(config: &SmbConfig, own: &[IpAddr]) -> Vec<String> {
    let is_offered = |share: &&std::sync::Arc<SmbShare>| {
        let admits = |ip: &IpAddr| share.admission.admits_host(*ip) == Some(true);
        share.time_machine && share.listed == ShareVisibility::Everyone && own.iter().any(admits)
    };
    config.shares.iter().filter(is_offered).map(|share| share.name.clone()).collect()
}

/// The first IPv4 address, and an IPv6 address, which is link-local if there is one.
fn one_of_each_family(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let v4 = addresses.iter().find(|ip| ip.is_ipv4());
    let is_local = |ip: &&IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let v6 = addresses.iter().find(is_local).or_else(|| addresses.iter().find(|ip| ip.is_ipv6()));
    v4.into_iter().chain(v6).copied().collect()
}

/// Why nothing is announced.
pub(super) fn reason_for_none(
    settings: &DiscoverySettings,
    has_no_link: bool,
) -> Option<&'static str> {
    match (settings.mdns || settings.wsd, has_no_link) {
        (false, _) => Some("it is off in [discovery]"),
        (true, true) => Some(
            "SMB listens at no private address of a physical network interface; a virtual one must match include in [multichannel]",
        ),
        (true, false) => None,
    }
}

#[cfg(test)]
mod tests;
