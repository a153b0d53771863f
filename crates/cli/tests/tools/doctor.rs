//! `anabranch doctor` on the machine that the tests run on.

use crate::support::{Setup, run, text};
use serde_json::Value;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

/// A private user file, and a configuration that refers to it.
fn configured(smb: &str) -> (Setup, String) {
    let setup = Setup::new();
    let users = setup.folder.path().join("users.toml");
    let config = setup.folder.path().join("config.toml");
    let text = setup.config().replace("smb = [\"127.0.0.1:0\"]", &format!("smb = [\"{smb}\"]"));
    std::fs::write(&config, text.replace("admin = \"127.0.0.1:0\"\n", "guest = \"nobody\"\n"))
        .unwrap();
    std::fs::write(&users, "").unwrap();
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).unwrap();
    (setup, config.display().to_string())
}

fn looked(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// State, text and remedy of the findings about `topic`.
fn of<'a>(all: &'a Value, topic: &str) -> Vec<(&'a str, &'a str, &'a str)> {
    let word = |one: &'a Value, key: &str| one[key].as_str().unwrap_or_default();
    let findings = all["findings"].as_array().unwrap().iter();
    let topic = findings.filter(|one| one["topic"] == topic);
    topic.map(|one| (word(one, "state"), word(one, "text"), word(one, "remedy"))).collect()
}

#[test]
fn doctor_reports_good_share_green_and_exits_by_worst_state() {
    let (setup, config) = configured("127.0.0.1:0");
    let output = run(&["doctor", "--config", &config, "--json"]);
    let all = looked(&output);
    let share = of(&all, "share");
    assert_eq!(share.len(), 1, "{share:?}");
    assert!(!share[0].1.is_empty() && share[0].0 != "red", "{share:?}");
    assert_eq!(of(&all, "configuration")[0].0, "green", "{all:#}");
    assert!(of(&all, "permissions").iter().all(|one| one.0 == "green"), "{all:#}");
    assert!(of(&all, "kernel").iter().all(|one| one.0 != "red"), "{all:#}");
    let code = match all["state"].as_str().unwrap() {
        "green" => 0,
        "yellow" => 1,
        _ => 2,
    };
    assert_eq!(output.status.code(), Some(code));
    let data = setup.folder.path().join("data");
    assert_eq!(std::fs::read_dir(data).unwrap().count(), 0, "it leaves nothing behind");
    // The same in words.
    let shown = text(&run(&["doctor", "--config", &config]).stdout);
    assert!(shown.contains(share[0].1), "{shown}");
}

#[test]
fn doctor_reports_blockers_red_with_their_remedy() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let (setup, config) = configured(&address);
    let users = setup.folder.path().join("users.toml");
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::remove_dir(setup.folder.path().join("data")).unwrap();
    let output = run(&["doctor", "--config", &config, "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let all = looked(&output);
    let (state, said, remedy) = of(&all, "port")[0];
    assert_eq!(state, "red");
    assert!(said.starts_with(&format!("{address} for SMB is in use by ")), "{said}");
    assert!(!remedy.is_empty());
    let red = |topic| of(&all, topic).into_iter().find(|one| one.0 == "red").expect("one is red");
    let (_, said, remedy) = red("permissions");
    assert!(said.contains("(users) has mode 0644"), "{said}");
    assert_eq!(remedy, format!("chmod 0600 {}", users.display()));
    assert!(red("configuration").1.contains("mkdir -p"), "{all:#}");
}

#[test]
fn running_server_is_recognised_by_version_and_ports() {
    let running = Setup::new().start();
    let config = running.path("looked.toml");
    let text = running
        .config()
        .replace("smb = [\"127.0.0.1:0\"]", &format!("smb = [\"{}\"]", running.smb));
    let text = text.replace("admin = \"127.0.0.1:0\"", &format!("admin = \"{}\"", running.admin));
    std::fs::write(&config, text).unwrap();
    let all = looked(&run(&["doctor", "--config", &config.display().to_string(), "--json"]));
    assert!(
        of(&all, "port").iter().all(|one| one.1.ends_with("is in use by this server")),
        "{all:#}"
    );
    let wanted =
        format!("version {} is running, the same as this program", env!("CARGO_PKG_VERSION"));
    assert!(of(&all, "server").iter().any(|one| one.1 == wanted), "{all:#}");
}
