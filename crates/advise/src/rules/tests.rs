//! Tests that every recommendation has a rule, and that every rule reports exactly when it should.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use super::*;
use crate::limit::{Limit, bindings};
use crate::report;
use crate::table::{Colour, rows};
use crate::{
    ClientMachineFacts, InterfaceFacts, MeasuredLoad, MountFacts, ServerProduct, WorkloadClass,
};

/// Requirements that recommend something, or are a setting of these groups.
const ASKED: [&str; 24] = [
    "G-01", "G-02", "G-03", "G-10", "G-11", "MC-11", "MC-12", "MC-13", "MC-20", "MC-24", "CC-01",
    "MP-12", "SG-04", "EN-03", "EN-07", "EN-08", "AN-05", "AN-06", "PE-05", "NC-03", "NC-08",
    "NC-12", "NC-13", "RA-03",
];

fn interface(index: u32, ip: &str) -> InterfaceFacts {
    InterfaceFacts {
        interface_index: index,
        ip_addresses: vec![ip.into()],
        link_speed: 100_000_000_000,
        rss_capable: true,
        ..InterfaceFacts::default()
    }
}

/// A matrix whose cells follow `per_second`.
fn facts(per_second: impl Fn(WorkloadClass, usize, u32, bool) -> f64) -> MeasurementFacts {
    let mut cells = Vec::new();
    for class in WorkloadClass::ALL {
        for connections in [1, 4] {
            for block_bytes in [4096, 65_536, 1 << 20] {
                for is_read in [true, false] {
                    let per_second = per_second(class, connections, block_bytes, is_read);
                    cells.push(MeasuredLoad {
                        class,
                        connections,
                        depth: if class.is_single() { 1 } else { 32 },
                        block_bytes,
                        is_read,
                        per_second,
                        rounds: vec![per_second * 0.99, per_second * 1.01],
                        bytes_per_second: per_second * f64::from(block_bytes),
                        p50_us: 400.0,
                        p99_us: 900.0,
                        client_cpus: 0.5,
                        server_cpus: None,
                    });
                }
            }
        }
    }
    let depths = [(16, 900.0), (64, 1000.0), (128, 1010.0)].map(|(depth, per_second)| {
        MeasuredLoad { depth, per_second, p50_us: 5000.0, ..MeasuredLoad::default() }
    });
    MeasurementFacts {
        server: "files".into(),
        share: "data".into(),
        addresses: vec!["10.0.0.2".into()],
        round_trip_ms: 0.2,
        dialect: "3.1.1".into(),
        signing: "off".into(),
        cipher: "off".into(),
        offers_channels: true,
        channels_requested: 4,
        channels_established: 4,
        server_interfaces: vec![interface(2, "10.0.0.2")],
        client: ClientMachineFacts {
            cpus: 8,
            kernel: (6, 12),
            interfaces: vec![interface(1, "10.0.0.1")],
            ..ClientMachineFacts::default()
        },
        cells,
        depths: depths.to_vec(),
        warm_up_seconds: 0.1,
        ..MeasurementFacts::default()
    }
}

/// The documented behaviour: the gain from several connections for many requests.
fn as_documented(class: WorkloadClass, connections: usize, block: u32, _: bool) -> f64 {
    let base = if class.is_single() { 20.0 } else { 200.0 } * 4096.0 / f64::from(block).sqrt();
    let gain = match (class, connections) {
        (_, 1) => 1.0,
        (WorkloadClass::ManyManyFiles, _) => 3.0,
        (WorkloadClass::ManyOneFile, _) if block > 16_384 => 2.0,
        (WorkloadClass::SingleManyFiles, _) if block > 16_384 => 1.05,
        _ => 0.6,
    };
    base * gain
}

fn nfs(facts: MeasurementFacts) -> MeasurementFacts {
    MeasurementFacts { is_nfs: true, dialect: "4.1".into(), share: "export/data".into(), ..facts }
}

fn found(facts: &MeasurementFacts, id: &str) -> Option<RuleFinding> {
    findings(facts).into_iter().find(|one| one.id == id)
}

fn settings(facts: &MeasurementFacts, id: &str) -> String {
    let finding = found(facts, id).unwrap_or_else(|| panic!("{id} finds nothing"));
    finding.settings.iter().map(|one| one.text.clone() + "\n").collect()
}

#[test]
fn rules_cover_every_recommendation_of_the_requirements() {
    for id in ASKED {
        assert!(RULES.iter().any(|(rule, _)| *rule == id), "{id} has no rule");
    }
    let mut ids: Vec<&str> = RULES.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), RULES.len(), "no id twice");
}

#[test]
fn rule_applies_exactly_under_its_condition() {
    type Change = fn(&mut MeasurementFacts);
    let nothing: Change = |_| {};
    // Each rule, a change that triggers it, and one that silences it; first for SMB, then for NFS.
    let of_smb: [(&str, Change, Option<Change>); 20] = [
        ("G-01", nothing, Some(|f| f.cells.clear())),
        ("G-02", nothing, Some(|f| f.cells.retain(|c| c.class.is_single()))),
        ("G-03", nothing, Some(|f| f.cells.retain(|c| c.class.is_single()))),
        ("G-10", nothing, None),
        ("G-11", |f| f.cells[0].client_cpus = 7.5, Some(nothing)),
        ("MC-11", |f| f.offers_channels = false, Some(nothing)),
        ("MC-12", |f| f.channels_established = 1, Some(nothing)),
        ("MC-13", nothing, Some(|f| f.is_nfs = true)),
        ("MC-20", |f| f.offers_channels = false, Some(nothing)),
        ("MC-21", |f| f.addresses = vec!["192.0.2.9".into()], Some(nothing)),
        ("MC-24", |f| f.client.interfaces.push(interface(15, "10.0.1.1")), Some(nothing)),
        ("CC-01", nothing, Some(|f| f.cells.retain(|c| c.connections == 1))),
        ("MP-05", nothing, Some(|f| f.cells.retain(|c| c.block_bytes > 4096))),
        ("MP-12", nothing, Some(|f| f.cells.retain(|c| c.class.has_many_files()))),
        ("SG-04", nothing, Some(|f| f.is_nfs = true)),
        ("EN-03", |f| f.cipher = "AES-128-GCM".into(), Some(nothing)),
        ("EN-07", nothing, Some(|f| f.cipher = "AES-128-GCM".into())),
        ("EN-08", |f| f.is_public = true, Some(nothing)),
        ("AN-06", |f| f.client.slow_adapters = vec!["eth0".into()], Some(nothing)),
        ("PE-05", nothing, Some(|f| f.cells.clear())),
    ];
    for (id, speaks, silent) in of_smb {
        judge(id, speaks, silent, facts(as_documented));
    }
    let of_nfs: [(&str, Change, Option<Change>); 9] = [
        ("AN-05", nothing, None),
        ("NC-03", nothing, Some(|f| f.cells.retain(|c| c.connections == 4))),
        ("NC-04", |f| f.client.kernel = (5, 2), Some(nothing)),
        ("NC-08", |f| f.client.mounts = vec![mounted("files:/other", 128)], Some(nothing)),
        ("NC-10", |f| f.addresses.push("10.0.0.3".into()), Some(nothing)),
        ("NC-12", |f| f.client.interfaces[0].link_speed = 1_000_000, Some(nothing)),
        ("NC-13", nothing, Some(|f| f.depths.clear())),
        ("NC-14", nothing, Some(|f| f.is_nfs = false)),
        (
            "RA-03",
            |f| f.client.mounts = vec![mounted("other:/x", 128)],
            Some(|f| f.client.mounts = vec![mounted("other:/x", 15_360)]),
        ),
    ];
    assert_eq!(of_smb.len() + of_nfs.len(), RULES.len(), "each rule is looked at");
    for (id, speaks, silent) in of_nfs {
        judge(id, speaks, silent, nfs(facts(as_documented)));
    }
}

fn judge(
    id: &str,
    speaks: fn(&mut MeasurementFacts),
    silent: Option<fn(&mut MeasurementFacts)>,
    base: MeasurementFacts,
) {
    let mut changed = base.clone();
    speaks(&mut changed);
    assert!(found(&changed, id).is_some(), "{id} is silent");
    if let Some(silent) = silent {
        let mut changed = base;
        silent(&mut changed);
        assert!(found(&changed, id).is_none(), "{id} speaks");
    }
}

fn mounted(source: &str, read_ahead_kib: u32) -> MountFacts {
    MountFacts {
        kind: "nfs4".into(),
        source: source.into(),
        place: "/mnt/x".into(),
        connections: Some(4),
        read_bytes: Some(1 << 20),
        read_ahead_kib: Some(read_ahead_kib),
    }
}

#[test]
fn rule_settings_are_exact_commands() {
    let of_smb = facts(as_documented);
    let text = settings(&of_smb, "CC-01");
    assert!(
        text.contains("Set-SmbClientConfiguration -ConnectionCountPerRSSNetworkInterface 4\n"),
        "{text}"
    );
    assert!(text.contains("vers=3.1.1,username=USER,multichannel,max_channels=4"), "{text}");
    assert!(text.contains("[multichannel]\nchannels_max = 4"), "{text}");
    let look = "Get-SmbClientConfiguration | Select-Object -Property EnableMultichannel\n";
    assert_eq!(settings(&of_smb, "MC-13"), look);
    let of_nfs = nfs(facts(as_documented));
    let text = settings(&of_nfs, "NC-03");
    assert!(text.contains("mount -t nfs files:/export/data /mnt/data -o vers=4,"), "{text}");
    assert!(text.contains("nconnect=4,"), "{text}");
}

#[test]
fn udev_rule_has_the_tokens_of_kernel_and_udev() {
    let text = settings(&nfs(facts(as_documented)), "RA-03");
    for token in [
        "/etc/udev/rules.d/99-nfs.rules",
        "SUBSYSTEM==\"bdi\"",
        ", ACTION==\"add\"",
        "/usr/bin/awk -v bdi=$kernel 'BEGIN{ret=1} {if ($4 == bdi) {ret=0}} END{exit ret}' \
         /proc/fs/nfsfs/volumes",
        ", ATTR{read_ahead_kb}=\"15360\"",
        "sudo udevadm control --reload",
    ] {
        assert!(text.contains(token), "{token} is not in\n{text}");
    }
    // The package contains the same rule.
    let rule = text.split_once("99-nfs.rules\n").expect("a file").1;
    let rule: Vec<&str> =
        rule.lines().map_while(|line| line.starts_with(['S', ',']).then_some(line)).collect();
    let packaged = include_str!("../../../../packaging/60-anabranch-nfs.rules");
    assert!(packaged.ends_with(&(rule.join("\n") + "\n")), "{rule:#?}\n{packaged}");
    assert_eq!(nfs::default_read_ahead_kib((5, 3), 1 << 20), 15_360);
    assert_eq!(nfs::default_read_ahead_kib((5, 4), 1 << 20), 128);
}

#[test]
fn comparison_table_is_colored_by_measurement() {
    let rows = rows(&facts(as_documented));
    assert_eq!(rows.len(), 24);
    let colour = |class, block| {
        let row = rows.iter().find(|r| (r.class, r.block_bytes) == (class, block)).unwrap();
        row.colour
    };
    assert_eq!(colour(WorkloadClass::ManyManyFiles, 4096), Colour::Green);
    assert_eq!(colour(WorkloadClass::ManyOneFile, 1 << 20), Colour::Green);
    assert_eq!(colour(WorkloadClass::ManyOneFile, 4096), Colour::Red);
    assert_eq!(colour(WorkloadClass::SingleOneFile, 4096), Colour::Red);
    assert_eq!(colour(WorkloadClass::SingleManyFiles, 1 << 20), Colour::Yellow);
}

#[test]
fn insignificant_difference_is_yellow_without_advice() {
    let mut noisy = facts(as_documented);
    for cell in &mut noisy.cells {
        cell.rounds = vec![cell.per_second * 0.4, cell.per_second * 1.6];
    }
    assert!(rows(&noisy).iter().all(|row| row.colour == Colour::Yellow));
    assert_eq!(found(&noisy, "MP-05"), None);
    assert_eq!(found(&noisy, "MP-12"), None);
}

fn binds(facts: &MeasurementFacts) -> Limit {
    bindings(facts)[0].limit
}

#[test]
fn limiting_factor_is_identified() {
    // Larger requests have lower rates; nothing else stands out.
    let even = |_: WorkloadClass, _: usize, block: u32, _: bool| 4e9 / f64::from(block).powf(1.1);
    let none = facts(even);
    assert_eq!(binds(&none), Limit::Server, "{:?}", bindings(&none));
    let mut full = facts(even);
    full.client.interfaces[0].link_speed = 1_000_000_000;
    assert_eq!(binds(&full), Limit::ClientNetwork);
    let mut busy = facts(even);
    busy.cells[3].client_cpus = 7.9;
    assert_eq!(binds(&busy), Limit::ClientCpu);
    let mut loaded = facts(even);
    loaded.cells[3].server_cpus = Some(7.9);
    assert_eq!(binds(&loaded), Limit::Server);
    let share = facts(|_, _, block, _| 3e8 / f64::from(block));
    assert_eq!(binds(&share), Limit::Share);
    let mut far = facts(even);
    far.round_trip_ms = 23.0;
    far.cells.iter_mut().for_each(|cell| cell.p50_us = 24_000.0);
    assert_eq!(binds(&far), Limit::Latency);
    let mut shallow = facts(even);
    shallow.depths[2].per_second = 1900.0;
    assert_eq!(binds(&shallow), Limit::QueueDepth);
    let file = facts(|class, _, block, _| {
        let files = if class.has_many_files() { 2.0 } else { 1.0 };
        files * 4e9 / f64::from(block).powf(1.1)
    });
    assert_eq!(binds(&file), Limit::File);
    let requests = facts(|_, _, block, _| if block > 65_536 { 300.0 } else { 1000.0 });
    assert_eq!(binds(&requests), Limit::RequestSize);
    let disk = facts(|_, _, block, is_read| {
        (if is_read { 4.0 } else { 1.0 }) * 1e9 / f64::from(block).powf(1.1)
    });
    assert_eq!(binds(&disk), Limit::Disk);
}

#[test]
fn client_count_is_given_with_and_without_multichannel() {
    let gib = f64::from(1 << 30);
    assert_eq!(clients_needed(10.0 * gib, 0.5 * gib), 20);
    assert_eq!(clients_needed(10.0 * gib, 12.5e9 / 8.0), 7);
    assert_eq!(clients_needed(1.0, 0.0), 0);
    let mut aimed = facts(as_documented);
    aimed.target_bytes_per_second = Some(10.0 * gib);
    let text = found(&aimed, "G-11").unwrap().text;
    assert!(text.contains("10 GiB/s needs "), "{text}");
}

#[test]
fn local_disk_limit_is_not_attributed_to_a_share() {
    let empty = MeasurementFacts::default();
    assert!(bindings(&empty).is_empty());
    assert!(rows(&empty).is_empty());
    assert!(
        findings(&empty).iter().all(|one| one.weight != Weight::Recommended || one.id == "MC-11")
    );
    let all = findings(&facts(as_documented));
    let text = shown(&all, true);
    assert!(text.contains("CC-01") && text.contains("PowerShell"), "{text}");
    let plain = shown(&all, false);
    for (id, _) in RULES {
        assert!(!plain.contains(id), "{id} in\n{plain}");
    }
}

fn product(product: ServerProduct) -> MeasurementFacts {
    MeasurementFacts {
        server_product: product,
        offers_channels: false,
        cipher: "AES-128-GCM".into(),
        ..facts(as_documented)
    }
}

#[test]
fn options_are_those_of_the_server_that_is_there() {
    let all = |facts: &MeasurementFacts| shown(&findings(facts), false);
    let options = [
        (ServerProduct::Anabranch, ["[multichannel]", "encryption_required = true"]),
        (ServerProduct::Samba, ["server multi channel support = yes", "server smb encrypt"]),
        (
            ServerProduct::Windows,
            ["Set-SmbServerConfiguration -EnableMultiChannel", "Set-SmbShare"],
        ),
    ];
    for (of, _) in options {
        let text = all(&product(of));
        for (other, words) in options {
            let has = words.map(|word| text.contains(word));
            assert_eq!(has, [other == of; 2], "{words:?} for {of:?} in\n{text}");
        }
    }
    // The reader knows the product.
    let text = all(&product(ServerProduct::Unknown));
    for (_, words) in options {
        assert!(words.iter().all(|word| text.contains(word)), "{words:?}\n{text}");
    }
}

#[test]
fn every_printed_command_keeps_port_and_user() {
    let changed = |is_nfs: bool| {
        let mut changed = facts(as_documented);
        changed.addresses = vec!["192.0.2.9".into()];
        (changed.port, changed.user, changed.is_nfs) = (4450, "alice".into(), is_nfs);
        changed
    };
    for facts in [changed(false), changed(true)] {
        let all = findings(&facts);
        let settings = all.iter().flat_map(|one| &one.settings);
        let with_server: Vec<_> = settings.filter(|one| one.text.contains("files")).collect();
        assert!(with_server.len() > 2, "{all:?}");
        for one in with_server.iter().filter(|one| !one.text.starts_with("umount")) {
            assert!(one.text.contains("4450"), "{}", one.text);
            assert!(!one.text.contains("USER"), "{}", one.text);
        }
        assert!(report::shown(&facts, false).starts_with("files:4450/data: "));
    }
    // Usual ports are in no line.
    let usual = MeasurementFacts { port: 445, ..facts(as_documented) };
    assert!(!report::shown(&usual, true).contains("445"));
    let v6 = MeasurementFacts { server: "2001:db8::1".into(), port: 4450, ..usual };
    assert_eq!(v6.url(), "smb://USER@[2001:db8::1]:4450/data");
    let spaced = MeasurementFacts { share: "my share".into(), ..v6 };
    assert_eq!(spaced.url(), "'smb://USER@[2001:db8::1]:4450/my share'");
}

#[test]
fn only_channel_is_said_first_and_nothing_is_compared() {
    let mut alone = facts(as_documented);
    alone.cells.retain(|cell| cell.connections == 1);
    alone.only_channel = Some("the server does not offer Multichannel".into());
    let text = report::shown(&alone, false);
    let first = text.lines().next().unwrap();
    let said = "One connection is all there is: the server does not offer Multichannel.";
    assert!(first.starts_with(said), "{text}");
    for absent in ["compared with", "no difference\n", "several channels", "max_channels"] {
        assert!(!text.contains(absent), "{absent} in\n{text}");
    }
    assert!(text.contains("\nRates\n"), "{text}");
    let both = report::shown(&facts(as_documented), false);
    assert!(both.contains("Several connections compared with 1\n"), "{both}");
    assert!(!both.contains("all there is"), "{both}");
}
