//! Tests of the plan of an interface.

use super::*;
use ::discovery::Uuid;
use smb::Network;
use std::sync::Arc;

fn computer() -> WsdComputer {
    let (name, workgroup) = ("NAS".to_owned(), "WORKGROUP".to_owned());
    WsdComputer { endpoint: Uuid::of([1; 16], 8), instance_id: 1, name, workgroup }
}

fn link(listening: &[&str]) -> PrivateLink {
    let subnet = Subnet { address: IpAddr::from([10, 0, 0, 1]), prefix_bits: 24 };
    let listening = listening.iter().map(|text| text.parse().unwrap()).collect();
    PrivateLink { index: 2, name: "eth0".into(), subnets: vec![subnet], listening }
}

fn share(name: &str, change: impl FnOnce(&mut SmbShare)) -> Arc<SmbShare> {
    let mut share = SmbShare { name: name.into(), time_machine: true, ..SmbShare::ipc() };
    share.listed = ShareVisibility::Everyone;
    change(&mut share);
    Arc::new(share)
}

fn config(shares: Vec<Arc<SmbShare>>) -> SmbConfig {
    SmbConfig {
        server_guid: [0; 16],
        name: "NAS".into(),
        domain: "WORKGROUP".into(),
        signing_required: true,
        ntlm: true,
        encryption: smb::EncryptionPolicy::Offered,
        dialect_min: smb::Dialect::Smb202,
        dialect_max: smb::Dialect::Smb311,
        io_bytes_max: smb::limits::IO_BYTES_MAX,
        multichannel: smb::MultichannelPolicy {
            enabled: true,
            channels_max: 4,
            dialect_min: smb::Dialect::Smb300,
        },
        shares,
    }
}

fn plan_of(link: &PrivateLink, settings: &DiscoverySettings) -> Option<LinkPlan> {
    of_link(link, &config(vec![share("Backups", |_| {})]), settings, &computer())
}

#[test]
fn link_at_port_445_is_announced_by_both_protocols() {
    let all = ["[fd00::1]:445", "10.0.0.1:445", "10.0.0.2:445", "[fe80::1]:445", "10.0.0.1:4450"];
    let plan = plan_of(&link(&all), &DiscoverySettings::default()).unwrap();
    let mdns = plan.mdns.unwrap();
    assert_eq!((mdns.name.as_str(), mdns.smb_port, mdns.addresses.len()), ("NAS", 445, 4));
    assert_eq!((mdns.backup_shares, mdns.model.as_str()), (vec!["Backups".to_owned()], MODEL));
    let (_, addresses) = plan.wsd.unwrap();
    let shown: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["10.0.0.1", "fe80::1"]);
    assert_eq!(plan.no_wsd, None);
}

#[test]
fn link_at_another_port_is_announced_by_mdns_alone() {
    let plan = plan_of(&link(&["10.0.0.1:4450"]), &DiscoverySettings::default()).unwrap();
    assert_eq!(plan.mdns.unwrap().smb_port, 4450);
    assert_eq!(plan.wsd, None);
    assert!(plan.no_wsd.is_some_and(|why| why.contains("445")));
}

#[test]
fn switched_off_protocols_are_not_announced() {
    let link = link(&["10.0.0.1:445"]);
    let settings = |mdns, wsd| DiscoverySettings { mdns, wsd, ..DiscoverySettings::default() };
    assert_eq!(plan_of(&link, &settings(false, false)), None);
    let mdns = plan_of(&link, &settings(true, false)).unwrap();
    assert!(mdns.mdns.is_some() && mdns.wsd.is_none() && mdns.no_wsd.is_none());
    let wsd = plan_of(&link, &settings(false, true)).unwrap();
    assert!(wsd.mdns.is_none() && wsd.wsd.is_some());
    assert!(reason_for_none(&settings(false, false), true).unwrap().contains("[discovery]"));
    assert!(reason_for_none(&settings(true, false), true).is_some());
    assert_eq!(reason_for_none(&settings(true, false), false), None);
}

#[test]
fn backup_share_is_announced_where_everyone_may_know_it() {
    let network = |text| vec![Network::parse(text).unwrap()];
    let shares = vec![
        share("all", |_| {}),
        share("no backups", |share| share.time_machine = false),
        share("hidden", |share| share.listed = ShareVisibility::Users),
        share("here", |share| share.admission.hosts_allowed = network("10.0.0.0/8")),
        share("elsewhere", |share| share.admission.hosts_allowed = network("192.168.0.0/16")),
        share("denied", |share| share.admission.hosts_denied = network("10.0.0.0/24")),
    ];
    let config = config(shares);
    let link = link(&["10.0.0.1:445"]);
    let plan = of_link(&link, &config, &DiscoverySettings::default(), &computer()).unwrap();
    assert_eq!(plan.mdns.unwrap().backup_shares, ["all", "here"]);
}
