//! The audit log, the JSON log, and the export of slow requests.

use crate::support::client::{ACCESS_DENIED, LOGON_FAILURE, RawSmbClient, SUCCESS};
use crate::support::{Setup, user, wait_for};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

#[test]
fn audit_log_names_user_address_and_denials() {
    let mut setup = Setup::new();
    let (closed, audit) =
        (setup.folder.path().join("closed"), setup.folder.path().join("audit.jsonl"));
    std::fs::create_dir(&closed).unwrap();
    setup.shares += &format!(
        "[[share]]\nname = \"closed\"\npath = \"{}\"\ndenied_users = [\"{}\"]\n\
         [log]\nformat = \"json\"\naudit = \"{}\"\n",
        closed.display(),
        user(),
        audit.display()
    );
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    assert_eq!(client.connect_tree("closed"), ACCESS_DENIED);
    let from = client.stream.local_addr().unwrap().to_string();
    drop(client);
    let mut other = RawSmbClient::connect(server.smb);
    other.negotiate();
    assert_eq!(other.log_on(&user(), "a wrong password"), LOGON_FAILURE);
    let lines = wait_for("the audit log", || {
        let text = std::fs::read_to_string(&audit).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (lines.len() >= 5).then_some(lines)
    });
    let find = |operation: &str, code: u64| {
        let is = |line: &&Value| line["operationName"] == operation && line["statusCode"] == code;
        lines.iter().find(is).unwrap_or_else(|| panic!("{operation} {code}: {lines:#?}"))
    };
    let setup = find("SessionSetup", 0);
    assert_eq!(
        (&setup["identity"]["requester"], &setup["identity"]["type"]),
        (&user().into(), &"NTLMv2".into())
    );
    assert_eq!((&setup["callerIpAddress"], &setup["protocol"]), (&from.into(), &"SMB".into()));
    assert_eq!((&setup["operationVersion"], &setup["encrypted"]), (&"2.1".into(), &false.into()));
    assert_eq!(find("TreeConnect", 0)["uri"], "/data");
    let refused = find("TreeConnect", 1);
    assert_eq!(
        (&refused["uri"], &refused["statusText"]),
        (&"/closed".into(), &"ACCESS_DENIED".into())
    );
    assert_eq!(refused["sessionId"], setup["sessionId"]);
    assert_eq!(find("SessionSetup", 1)["statusText"], "LOGON_FAILURE");
    assert_eq!(find("SessionEnd", 0)["sessionId"], setup["sessionId"]);
    // The log itself: one object a line.
    let line = server.logged("logon refused");
    let line: Value =
        serde_json::from_str(line.lines().find(|l| l.contains("logon refused")).unwrap()).unwrap();
    assert_eq!((&line["level"], &line["reason"]), (&"WARN".into(), &"wrong password".into()));
}

#[test]
fn piped_log_has_no_colours_and_json_log_only_objects() {
    for format in ["text", "json"] {
        let mut setup = Setup::new();
        setup.shares +=
            &format!("[multichannel]\nchannels_max = 32\n[log]\nformat = \"{format}\"\n");
        let server = setup.start();
        let mut client = RawSmbClient::connect(server.smb);
        client.negotiate();
        assert_eq!(client.log_on(&user(), "a wrong password"), LOGON_FAILURE);
        server.logged("logon refused");
        server.signal("HUP");
        server.logged("configuration reloaded");
        let log = server.log();
        assert!(!log.contains('\u{1b}'), "{log}");
        for line in log.lines().filter(|_| format == "json") {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
            assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
        }
    }
}

#[test]
fn slow_requests_are_exported_to_a_collector() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut setup = Setup::new();
    setup.shares += &format!(
        "[log]\nslow_request_ms = 1\ntraces = \"http://{}/v1/traces\"\n",
        collector.local_addr().unwrap()
    );
    let server = setup.start();
    let mut holder = RawSmbClient::ready(&server);
    let file = holder.create("locked");
    let lock = |client: &mut RawSmbClient, file, waits| {
        client.send(crate::support::client::LOCK, &RawSmbClient::lock_body(file, waits));
    };
    lock(&mut holder, file, false);
    assert_eq!(holder.receive().unwrap().status, SUCCESS);
    let mut waiter = RawSmbClient::ready(&server);
    let same = waiter.create("locked");
    lock(&mut waiter, same, true);
    assert_eq!(waiter.receive().unwrap().status, crate::support::client::PENDING);
    std::thread::sleep(Duration::from_millis(50));
    drop(holder);
    assert_eq!(waiter.receive().unwrap().status, SUCCESS);
    let (mut stream, _) = collector.accept().unwrap();
    stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let mut asked = Vec::new();
    while !asked.ends_with(b"]}]}]}") {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&asked));
        asked.extend_from_slice(&some[..count]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    let text = String::from_utf8(asked).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let lock = spans.iter().find(|span| span["name"] == "SMB Lock").unwrap();
    let nanoseconds = |key: &str| lock[key].as_str().unwrap().parse::<u64>().unwrap();
    let took = nanoseconds("endTimeUnixNano") - nanoseconds("startTimeUnixNano");
    assert!(took >= 50_000_000, "{took}");
    assert_eq!(lock["attributes"][0]["value"]["stringValue"], "data");
    wait_for("the count", || (server.metric("anabranch_traces_sent_total") > 0).then_some(()));
}

/// A name with characters that end a line, clear the screen, or reverse the direction of text.
const HOSTILE: &str = "x\n2026-01-01T00:00:00Z  INFO forged\r\u{1b}[2J\u{9b}31m\u{202e}\u{2028}";

/// Tries to log on under a hostile name.
fn log_on_as_hostile(server: &crate::support::ServerProcess) {
    let mut client = RawSmbClient::connect(server.smb);
    client.negotiate();
    assert_eq!(client.log_on(HOSTILE, "a wrong password"), LOGON_FAILURE);
}

#[test]
fn hostile_user_name_stays_on_one_line_of_log_and_audit() {
    for format in ["text", "json"] {
        let mut setup = Setup::new();
        let (log, audit) = (setup.folder.path().join("log"), setup.folder.path().join("audit"));
        let lines = format!("[log]\nformat = \"{format}\"\naudit = \"{}\"\n", audit.display());
        setup.shares += &lines;
        setup.log_to = Some(log.clone());
        let server = setup.start();
        log_on_as_hostile(&server);
        for path in [&log, &audit] {
            let written = wait_for("the name", || {
                let text = std::fs::read_to_string(path).ok()?;
                text.contains("forged").then_some(text)
            });
            assert_eq!(written.lines().filter(|line| line.contains("forged")).count(), 1);
            let unsafe_letters = |text: &str| text.chars().any(server::log::is_unsafe);
            assert!(!written.lines().any(unsafe_letters), "{format}: {written:?}");
        }
    }
}

#[test]
fn log_that_cannot_be_written_harms_no_client_and_is_counted() {
    let mut setup = Setup::new();
    setup.log_to = Some("/dev/full".into());
    let mut server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    let file = client.create("mine");
    for _ in 0..3 {
        log_on_as_hostile(&server);
    }
    let wait = || (server.metric("anabranch_log_lines_dropped_total") >= 3).then_some(());
    wait_for("the count", wait);
    // The former connection and a new one still work.
    client.send(crate::support::client::LOCK, &RawSmbClient::lock_body(file, false));
    assert_eq!(client.receive().unwrap().status, SUCCESS);
    RawSmbClient::ready(&server).create("another");
    assert!(server.is_running());
}

#[test]
fn one_client_writes_a_bounded_number_of_lines_to_the_log() {
    let server = Setup::new().start();
    for _ in 0..40 {
        let mut stream = std::net::TcpStream::connect(server.smb).unwrap();
        stream.write_all(b"\0\0\0\x04none").unwrap();
        // The server ends the connection.
        let _ = stream.read(&mut [0]);
    }
    let wait = || (server.metric("anabranch_log_lines_suppressed_total") >= 20).then_some(());
    wait_for("the count", wait);
    let lines = server.log().lines().filter(|l| l.contains("connection closed")).count();
    assert!((1..=20).contains(&lines), "{lines}");
}
