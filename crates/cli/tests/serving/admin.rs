//! The admin API and the commands that use it, against the real binary.

use crate::support::client::*;
use crate::support::{ServerProcess, Setup, anabranch, run, text, wait_for};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

/// Every operation of the API's own document, as method and a path that could be.
fn operations(server: &ServerProcess) -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(&server.page("/v1/openapi.json")).unwrap();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let mut path = path.clone();
            for (part, value) in [
                ("{session}", "0000000000000001"),
                ("{client}", "0000000000000001"),
                ("{connection}", "999999"),
                ("{feature}", "metadata-cache"),
                ("{share}", "data"),
                ("{since}", "0"),
            ] {
                path = path.replace(part, value);
            }
            assert!(!path.contains('{'), "{path}");
            operations.push((method.to_uppercase(), path));
        }
    }
    operations
}

fn with(server: &ServerProcess, method: &str, path: &str, header: &str) -> String {
    let host = server.admin;
    server.request(&format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n{header}\r\n"))
}

#[test]
fn admin_api_without_token_answers_only_liveness() {
    let server = Setup::new().start();
    let operations = operations(&server);
    assert!(operations.len() > 20, "{operations:?}");
    let (metrics, wrong) = (server.token("metrics-token"), "0".repeat(64));
    for (method, path) in &operations {
        for header in [
            String::new(),
            format!("Authorization: Bearer {wrong}\r\n"),
            "Authorization: Bearer \r\n".into(),
            "Authorization: Basic cm9vdDo=\r\n".into(),
            format!("Cookie: token={}\r\n", server.token("admin-token")),
        ] {
            let answer = with(&server, method, path, &header);
            if path == "/health" {
                assert!(answer.contains(" 200 OK") && answer.ends_with("ok\n"), "{answer}");
                continue;
            }
            assert!(answer.starts_with("HTTP/1.0 401"), "{method} {path} {header}: {answer}");
            assert!(answer.contains("admin-token"), "no remedy: {answer}");
        }
        let answer = with(&server, method, path, &format!("Authorization: Bearer {metrics}\r\n"));
        let wanted = if ["/metrics", "/health"].contains(&path.as_str()) { "200" } else { "403" };
        assert!(answer.starts_with(&format!("HTTP/1.0 {wanted}")), "{method} {path}: {answer}");
    }
    for path in ["/v1/none", "/status", "/v1/sessions/x/y"] {
        assert!(with(&server, "GET", path, "").starts_with("HTTP/1.0 401"), "{path}");
        assert!(server.ask("GET", path, "").starts_with("HTTP/1.0 404"), "{path}");
    }
    assert!(with(&server, "PUT", "/v1/status", "").starts_with("HTTP/1.0 401"));
    assert!(server.ask("PUT", "/v1/status", "").starts_with("HTTP/1.0 405"));
    assert_eq!(server.status()["drain"], "serving", "nothing was done");
}

#[test]
fn admin_api_needs_token_and_refuses_foreign_origins() {
    let server = Setup::new().start();
    for (method, path) in operations(&server) {
        if method == "GET" && !path.contains("0000000000000001") {
            server.page(&path);
        }
    }
    let token = format!("Authorization: Bearer {}\r\n", server.token("admin-token"));
    for origin in ["http://evil.example.org", "null", "http://127.0.0.1:1"] {
        let header = format!("{token}Origin: {origin}\r\n");
        let answer = with(&server, "GET", "/v1/status", &header);
        assert!(answer.starts_with("HTTP/1.0 403"), "{origin}: {answer}");
    }
    let own = format!("{token}Origin: http://{}\r\n", server.admin);
    assert!(with(&server, "GET", "/v1/status", &own).starts_with("HTTP/1.0 200"));
    let page = with(&server, "GET", "/", "");
    assert!(
        page.contains("content-security-policy: default-src 'none'; script-src 'self'"),
        "{page}"
    );
    assert!(page.to_lowercase().contains("<!doctype html>"), "{page}");
}

#[test]
fn admin_api_refuses_invalid_bodies_and_queries() {
    let server = Setup::new().start();
    for (body, wanted) in [
        (String::new(), "400"),
        ("{".into(), "400"),
        ("[]".into(), "400"),
        ("{\"within_seconds\":-1}".into(), "400"),
        ("{\"within_seconds\":1e9}".into(), "400"),
        ("{\"other\":1}".into(), "400"),
        (" ".repeat(20_000), "413"),
    ] {
        let answer = server.ask("POST", "/v1/drain", &body);
        assert!(answer.starts_with(&format!("HTTP/1.0 {wanted}")), "{body:.40}: {answer}");
    }
    for query in ["?limit=0", "?limit=1001", "?limit=x", "?other=1"] {
        let answer = server.ask("GET", &format!("/v1/sessions{query}"), "");
        assert!(answer.starts_with("HTTP/1.0 400"), "{query}: {answer}");
    }
    assert_eq!(server.status()["drain"], "serving");
}

#[test]
fn sessions_close_command_ends_only_that_session() {
    let server = Setup::new().start();
    let (mut first, mut second) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    first.create("one");
    let admin = server.admin.to_string();
    let listed = text(&run(&["sessions", "--admin", &admin]).stdout);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let id =
        listed.lines().find(|line| line.contains("open 1")).unwrap().split(' ').next().unwrap();
    let closed = run(&["sessions", "close", id, "--admin", &admin]);
    assert!(closed.status.success(), "{}", text(&closed.stderr));
    assert_eq!(server.status()["sessions_total"], 1);
    assert_eq!(server.metric("anabranch_open_files"), 0, "what it had open is closed");
    second.create("two");
    let again = run(&["sessions", "close", id, "--admin", &admin]);
    assert!(text(&again.stderr).contains("there is no such session"), "{}", text(&again.stderr));
    server.logged("session closed by an administrator");
}

#[test]
fn draining_server_refuses_new_clients_until_files_are_closed() {
    let server = Setup::new().start();
    let (_idle, mut busy) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    let file = busy.create("busy");
    let admin = server.admin.to_string();
    let begun = run(&["drain", "--within", "600", "--no-wait", "--admin", &admin]);
    assert!(begun.status.success(), "{}", text(&begun.stderr));
    wait_for("the idle one's end", || (server.status()["connections"] == 1).then_some(()));
    assert_eq!(busy.call(WRITE, &RawSmbClient::write_body(file, 0, &[7; 50])).status, SUCCESS);
    let mut refused = std::net::TcpStream::connect(server.smb).unwrap();
    assert_eq!(refused.read(&mut [0]).unwrap_or_default(), 0, "nobody is taken");
    let state: Value = serde_json::from_str(&server.page("/v1/drain")).unwrap();
    assert_eq!((&state["state"], &state["opens"]), (&json!("draining"), &json!(1)));
    let done = run(&["drain", "--within", "1", "--admin", &admin]);
    assert!(
        text(&done.stdout)
            .ends_with("drained: 0 connections, 0 sessions, 0 open files, 0 NFS clients\n"),
        "{}",
        text(&done.stdout)
    );
    assert!(done.status.success());
    let health: Value = serde_json::from_str(&server.page("/v1/health")).unwrap();
    assert_eq!(health["state"], "warning");
    assert!(run(&["drain", "--cancel", "--admin", &admin]).status.success());
    RawSmbClient::ready(&server).create("again");
}

#[test]
fn admin_unix_socket_serves_its_owner_without_token() {
    let mut setup = Setup::new();
    let path = setup.folder.path().join("run").join("admin.sock");
    let admin = format!("unix:{}", path.display());
    setup.arguments.extend(["--admin".into(), admin.clone()]);
    let mut server = setup.start();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let status = run(&["status", "--admin", &admin]);
    assert!(text(&status.stdout).starts_with("0 connections"), "{}", text(&status.stderr));
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /v1/status HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    let refused = run(&["dashboard", "--admin", &admin]);
    assert!(text(&refused.stderr).contains("set the admin API's address"));
    server.signal("TERM");
    assert!(server.ended().success());
    assert!(!path.exists(), "its name went with it");
}

#[test]
fn admin_commands_find_the_token_or_name_a_remedy() {
    let server = Setup::new().start();
    let admin = server.admin.to_string();
    let url = text(&run(&["dashboard", "--admin", &admin]).stdout);
    assert_eq!(url, format!("http://{admin}/#token={}\n", server.token("admin-token")));
    let elsewhere = server.path("nothing");
    let mut command = anabranch();
    command.env("RUNTIME_DIRECTORY", &elsewhere).env("XDG_RUNTIME_DIR", &elsewhere);
    command.env("HOME", &elsewhere).env_remove("XDG_STATE_HOME");
    let file = server.path("admin-token");
    let file = file.to_str().unwrap();
    let named = command.args(["status", "--admin", &admin, "--admin-token-file", file]).output();
    assert!(named.unwrap().status.success());
    std::fs::write(server.path("other"), "0".repeat(64)).unwrap();
    let other = server.path("other");
    let refused =
        run(&["status", "--admin", &admin, "--admin-token-file", other.to_str().unwrap()]);
    assert!(text(&refused.stderr).contains("refused the token"), "{}", text(&refused.stderr));
}

#[test]
fn admin_reload_applies_configuration_or_reports_errors() {
    let server = Setup::new().start();
    let config = server.config();
    let more = format!("{config}comment = \"reloaded\"\n");
    server.write_config(&more);
    assert!(server.ask("POST", "/v1/reload", "").starts_with("HTTP/1.0 200"));
    let shares: Value = serde_json::from_str(&server.page("/v1/shares")).unwrap();
    assert_eq!(shares["items"][0]["comment"], "reloaded");
    server.write_config(&format!("{config}nonsense = 1\n"));
    let answer = server.ask("POST", "/v1/reload", "");
    assert!(answer.starts_with("HTTP/1.0 409") && answer.contains("nonsense"), "{answer}");
}

#[test]
fn share_limits_change_live_and_refuse_invalid_values() {
    let server = Setup::new().start();
    let admin = server.admin.to_string();
    let limits =
        |arguments: &[&str]| run(&[&["share", "limits"], arguments, &["--admin", &admin]].concat());
    let none = text(&limits(&["data"]).stdout);
    assert!(none.starts_with("data  class custom\n"), "{none}");
    let changed = limits(&["data", "limits.iops=500", "limits.egress=100 MiB"]);
    assert!(text(&changed.stdout).contains("iops 500"), "{}", text(&changed.stderr));
    let shares: Value = serde_json::from_str(&server.page("/v1/shares")).unwrap();
    let shown = &shares["items"][0]["limits"];
    assert_eq!((&shown["limited"], &shown["share"]["iops"]), (&json!(true), &json!(500)));
    assert_eq!(shown["share"]["egress"], 100 << 20);
    for (arguments, wanted) in [
        (["data", "limits.iops=fast"], "fast"),
        (["data", "nonsense=1"], "nonsense"),
        (["none", "limits.iops=500"], "there is no such share"),
    ] {
        let refused = text(&limits(&arguments).stderr);
        assert!(refused.contains(wanted), "{refused}");
    }
    let back = text(&limits(&["data", "limits.iops=default", "limits.egress=default"]).stdout);
    assert!(!back.contains("iops 500"), "{back}");
}
