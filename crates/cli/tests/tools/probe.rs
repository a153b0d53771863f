//! `anabranch probe` against our server, foreign ones, and listeners that are not servers.

use crate::support::ganesha::Ganesha;
use crate::support::samba::{SambaRelease, SambaServer, USER};
use crate::support::{PASSWORD, Setup, anabranch, text, user};
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::process::Output;
use std::time::{Duration, Instant};

fn probe(arguments: &[&str]) -> Output {
    anabranch()
        .arg("probe")
        .args(arguments)
        .args(["--count", "5", "--interval", "1"])
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .unwrap()
}

fn found(arguments: &[&str]) -> Value {
    let output = probe(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)))
}

/// The state of each layer by its name.
fn state<'a>(host: &'a Value, layer: &str) -> &'a str {
    let layers = host["layers"].as_array().unwrap();
    layers.iter().find(|one| one["layer"] == layer).unwrap()["state"].as_str().unwrap()
}

fn is_all_found(found: &Value) -> &Value {
    let host = &found["hosts"][0];
    for layer in ["name", "negotiation", "session", "share", "channels", "small_reads"] {
        assert_ne!(state(host, layer), "broken", "{layer}: {found:#}");
        assert_ne!(state(host, layer), "not_tested", "{layer}: {found:#}");
    }
    let connects = &host["facts"]["connects"];
    assert_eq!((&connects["count"], &connects["lost"]), (&5.into(), &0.into()));
    assert!(connects["min_ms"].as_f64() <= connects["p99_ms"].as_f64());
    for reads in ["small_reads", "large_reads"] {
        let reads = &host["facts"][reads]["done"];
        assert!(reads["bytes_per_second"].as_f64() > Some(0.0), "{found:#}");
    }
    host
}

fn smb(address: SocketAddr, user: &str) -> String {
    format!("smb://{user}@{address}/data")
}

#[test]
fn probe_finds_every_layer_good_and_leaves_no_file() {
    let server = Setup::new().start();
    let found = found(&[&smb(server.smb, &user())]);
    let host = is_all_found(&found);
    let negotiation = &host["facts"]["negotiation"]["done"];
    assert_eq!(negotiation["dialect"], "3.1.1");
    let dialects = ["2.1", "3.0", "3.0.2", "3.1.1"].map(Value::from);
    assert_eq!(negotiation["dialects"].as_array().unwrap()[..], dialects);
    assert_eq!(negotiation["ciphers"].as_array().unwrap().len(), 4, "{negotiation}");
    assert_eq!(negotiation["signing_algorithms"].as_array().unwrap().len(), 3, "{negotiation}");
    let session = &host["facts"]["session"]["done"];
    assert_eq!(session["channels"], 4, "{session}");
    assert!(session["interfaces"]["done"][0]["RSSCapable"].as_bool().unwrap());
    assert_eq!(std::fs::read_dir(server.data()).unwrap().count(), 0);
}

#[test]
fn probe_finds_every_nfs_layer_good() {
    let mut setup = Setup::new();
    let (address, folder) = setup.export(97, 24457);
    let _server = setup.start();
    let found = found(&[&format!("nfs://{address}/exported")]);
    let host = is_all_found(&found);
    let versions = &host["facts"]["negotiation"]["done"]["dialects"];
    assert_eq!(versions.as_array().unwrap()[..], ["4.1", "4.2"].map(Value::from));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
}

#[test]
fn probe_names_the_broken_layer_and_a_remedy() {
    // Nothing listens on the port any more.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = probe(&[&closed.to_string()]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.contains("verdict: network (TCP): the host refuses the port"), "{shown}");
    let server = Setup::new().start();
    let wrong = anabranch()
        .args(["probe", &smb(server.smb, &user()), "--count", "2", "--json"])
        .env("ANABRANCH_PASSWORD", "a wrong password")
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&wrong.stdout).unwrap();
    let verdict = &found["hosts"][0]["verdict"];
    assert_eq!((&verdict["layer"], &verdict["state"]), (&"session".into(), &"broken".into()));
    assert!(verdict["result"].as_str().unwrap().contains("LOGON_FAILURE"), "{verdict}");
    let missing = format!("smb://{}@{}/missing", user(), server.smb);
    let output = probe(&[&missing]);
    assert!(text(&output.stdout).contains("verdict: share: "), "{}", text(&output.stdout));
}

#[test]
fn silent_server_fails_the_probe_within_its_timeout() {
    // The listener accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let begun = Instant::now();
    let output = probe(&[&address, "--within", "1"]);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(text(&output.stdout).contains("verdict: negotiation: "), "{}", text(&output.stdout));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn probe_report_compares_hosts_side_by_side() {
    let server = Setup::new().start();
    let file = server.path("story.md");
    let one = server.smb.to_string();
    let output = probe(&[&smb(server.smb, &user()), &one, "--report", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let story = std::fs::read_to_string(file).unwrap();
    for part in ["## Scenario", "## Network layer", "## Application layer", "## Outcome"] {
        assert!(story.contains(part), "{part} is not in\n{story}");
    }
    assert!(story.contains("round trips of"), "two hosts stand side by side:\n{story}");
}

#[test]
#[ignore = "needs Samba: make servers"]
fn installed_samba_is_found_in_every_layer() {
    let server = SambaServer::start(SambaRelease::Installed, 98, "");
    let found = found(&[&smb(server.smb, USER)]);
    let host = is_all_found(&found);
    assert_eq!(host["facts"]["session"]["done"]["channels"], 4, "{found:#}");
}

#[test]
#[ignore = "needs NFS-Ganesha: make servers"]
fn ganesha_is_found_in_every_layer() {
    let server = Ganesha::start(99);
    let found = found(&[&format!("nfs://{}/export", server.nfs)]);
    is_all_found(&found);
}

/// Runs `anabranch channels URL`: all steps pass, and each connection carries its part.
fn channels_of(url: &str, count: usize) -> Value {
    let count_text = count.to_string();
    let output = anabranch()
        .args(["channels", url, "--channels", &count_text, "--seconds", "1", "--json"])
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .unwrap();
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{shown}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let session = &found["Session"];
    assert_eq!(session["CurrentChannels"], count, "{shown}");
    assert_eq!(session["MaxChannels"], count, "{shown}");
    assert_eq!(session["Sockets"], count, "the system counts as many: {shown}");
    let connections = session["Connections"].as_array().unwrap();
    assert_eq!(connections.len(), count);
    assert!(connections.iter().all(|one| one["Bytes"].as_u64() > Some(0)), "{shown}");
    assert!(session["Imbalance"].as_f64().unwrap() >= 1.0, "{shown}");
    assert_eq!(found["Steps"].as_array().unwrap().len(), 6);
    found
}

#[test]
fn share_channels_are_shown_and_verified_in_six_steps() {
    let server = Setup::new().start();
    let found = channels_of(&smb(server.smb, &user()), 4);
    let one = &found["Session"]["Connections"][0];
    assert!(one["ServerInterfaceIndex"].is_number() && one["ServerRSSCapable"] == true, "{one}");
    assert_eq!(std::fs::read_dir(server.data()).unwrap().count(), 0);
}

#[test]
fn server_without_multichannel_fails_its_channel_steps() {
    let mut setup = Setup::new();
    setup.shares += "[multichannel]\nenabled = false\n";
    let server = setup.start();
    let output = anabranch()
        .args(["channels", &smb(server.smb, &user()), "--seconds", "1"])
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    for part in ["FAIL  1. ", "FAIL  6. ", "enabled = true under [multichannel]", "1 of 4"] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
}

#[test]
fn export_connections_are_shown_with_their_spread() {
    let mut setup = Setup::new();
    let (address, _) = setup.export(96, 24458);
    let _server = setup.start();
    channels_of(&format!("nfs://{address}/exported"), 8);
}

#[test]
#[ignore = "needs Samba: make servers"]
fn installed_samba_channels_are_verified() {
    let server = SambaServer::start(SambaRelease::Installed, 95, "");
    channels_of(&smb(server.smb, USER), 4);
}

#[test]
#[ignore = "needs NFS-Ganesha: make servers"]
fn ganesha_connections_are_verified() {
    let server = Ganesha::start(94);
    channels_of(&format!("nfs://{}/export", server.nfs), 4);
}

/// `anabranch advise URL`: measures all loads, names a bottleneck, and recommends settings.
fn advice(url: &str, connections: &str) -> Value {
    let output = anabranch()
        .args(["advise", url, "--seconds", "6", "--connections", connections, "--json"])
        .args(["--quiet", "--target", "10G"])
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let arms = connections.split(',').count();
    let cells = found["facts"]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 24 * arms, "every load over each number of connections");
    assert_eq!(found["table"].as_array().unwrap().len(), 24 * (arms - 1));
    assert!(found["limits"][0]["evidence"].is_string(), "{found:#}");
    for cell in cells {
        let product = cell["per_second"].as_f64().unwrap() * cell["block_bytes"].as_f64().unwrap();
        let rate = cell["bytes_per_second"].as_f64().unwrap();
        assert!((rate / product - 1.0).abs() < 0.01, "rate times size is throughput: {cell}");
    }
    found
}

fn ids(found: &Value) -> Vec<&str> {
    found["findings"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[test]
fn advice_for_a_share_rests_on_a_matrix_of_loads() {
    let server = Setup::new().start();
    let found = advice(&smb(server.smb, &user()), "1,4");
    let ids = ids(&found);
    for id in ["G-01", "G-10", "G-11", "CC-01", "MC-13", "SG-04", "EN-07"] {
        assert!(ids.contains(&id), "{id} is not in {ids:?}");
    }
    assert!(!ids.contains(&"NC-03") && !ids.contains(&"MC-11"), "{ids:?}");
    assert_eq!(std::fs::read_dir(server.data()).unwrap().count(), 0);
}

#[test]
fn advice_for_an_export_names_nconnect_and_reading_ahead() {
    let mut setup = Setup::new();
    let (address, folder) = setup.export(93, 24459);
    let _server = setup.start();
    let found = advice(&format!("nfs://{address}/exported"), "1,4");
    let ids = ids(&found);
    for id in ["NC-03", "NC-14", "RA-03", "AN-05"] {
        assert!(ids.contains(&id), "{id} is not in {ids:?}");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
}

/// `anabranch advise URL` as text.
fn advice_text(url: &str, options: &[&str]) -> String {
    let output = anabranch()
        .args(["advise", url, "--seconds", "5", "--quiet"])
        .args(options)
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn advice_without_multichannel_says_so_first() {
    let mut setup = Setup::new();
    setup.shares += "[multichannel]\nenabled = false\n";
    let server = setup.start();
    let url = smb(server.smb, &user());
    let shown = advice_text(&url, &[]);
    let said = "One connection is all there is: the server does not offer Multichannel.";
    assert!(shown.starts_with(said), "{shown}");
    for absent in ["compared with", "server multi channel", "Set-SmbServerConf", "MC-11", "USER"] {
        assert!(!shown.contains(absent), "{absent} is in\n{shown}");
    }
    for part in [": Anabranch, SMB 3.1.1", "[multichannel]", "enabled = true", "Spread of 3 rounds"]
    {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    let port = server.smb.port().to_string();
    // A UNC path has no port: the line above it maps the share.
    let with_server = shown.lines().filter(|line| line.contains("127.0.0.1"));
    for line in with_server.filter(|line| !line.contains("robocopy")) {
        assert!(line.contains(&port), "{line} in\n{shown}");
    }
    assert!(advice_text(&url, &["--verbose"]).contains("MC-11"));
}

#[test]
#[ignore = "needs Samba: make servers"]
fn advice_for_the_installed_samba_rests_on_a_matrix_of_loads() {
    let server = SambaServer::start(SambaRelease::Installed, 92, "");
    let found = advice(&smb(server.smb, USER), "1,4");
    assert!(ids(&found).contains(&"CC-01"));
    assert_eq!(found["facts"]["server_product"], "samba");
}

#[test]
#[ignore = "needs Samba: make servers"]
fn advice_for_samba_names_its_options_only() {
    let server =
        SambaServer::start(SambaRelease::Installed, 88, "server multi channel support = no");
    let shown = advice_text(&smb(server.smb, USER), &[]);
    assert!(shown.starts_with("One connection is all there is: "), "{shown}");
    for part in [": Samba, SMB 3.1.1", "server multi channel support = yes"] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    for absent in ["[multichannel]", "Set-SmbServerConfiguration", "channels_max"] {
        assert!(!shown.contains(absent), "{absent} is in\n{shown}");
    }
}

#[test]
#[ignore = "needs NFS-Ganesha: make servers"]
fn advice_for_ganesha_rests_on_a_matrix_of_loads() {
    let server = Ganesha::start(91);
    assert!(ids(&advice(&format!("nfs://{}/export", server.nfs), "1,4")).contains(&"NC-03"));
}
