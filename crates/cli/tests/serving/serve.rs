//! The life of a server: first start, reload, status, stop.

use crate::support::channel::USER_SESSION_DELETED;
use crate::support::client::{
    BAD_NETWORK_NAME, LOCK, LOGON_FAILURE, PENDING, RawSmbClient, SUCCESS, WRITE,
};
use crate::support::{PASSWORD, ServerProcess, Setup, anabranch, run, text, user, wait_for};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn first_start_creates_user_with_printed_password() {
    let mut setup = Setup::new();
    setup.arguments.clear();
    let config = setup.config();
    let server = setup.start();
    let word = |key: &str| {
        let line = server.printed.lines().find_map(|l| l.trim().strip_prefix(key));
        line.expect("it is printed").trim().to_owned()
    };
    let (name, password) = (word("user "), word("password "));
    assert_eq!((name.as_str(), password.len()), (user().as_str(), 20));
    let mut client = RawSmbClient::connect(server.smb);
    client.negotiate();
    assert_eq!(client.log_on(&name, &password), SUCCESS);
    let port = server.smb.port();
    for part in [
        format!("net use Z: \\\\127.0.0.1\\data /user:{name} /TCPPORT:{port}"),
        format!(
            "sudo mount -t cifs //127.0.0.1/data /mnt -o username={name},uid=$(id -u),gid=$(id -g),\
             hard,port={port},vers=3.1.1"
        ),
        format!("open 'smb://{name}@127.0.0.1:{port}/data'"),
    ] {
        assert!(server.printed.contains(&part), "{part} is not in\n{}", server.printed);
    }
    // The second start finds the user.
    let mut again = Setup::new();
    again.arguments.clear();
    std::fs::copy(server.path("users.toml"), again.folder.path().join("users.toml")).unwrap();
    assert_ne!(config, again.config());
    let again = again.start();
    assert!(!again.printed.contains("password"), "{}", again.printed);
}

#[test]
fn directory_argument_is_served_under_its_own_name() {
    let setup = Setup::new();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("my files");
    std::fs::create_dir(&dir).unwrap();
    let server = setup.argument(&dir.display().to_string()).start();
    let mut client = RawSmbClient::ready(&server);
    assert_eq!(client.connect_tree("MY FILES"), SUCCESS);
    client.create("hello.txt");
    assert!(dir.join("hello.txt").exists());
}

fn reload(server: &ServerProcess, config: &str, logged: &str) {
    server.write_config(config);
    server.signal("HUP");
    server.logged(logged);
}

/// Adds the user "somebody" for the same system user, with the password "her password".
fn add_somebody(server: &ServerProcess) {
    let users = server.path("users.toml").display().to_string();
    let args = [
        "user",
        "add",
        "somebody",
        "--password-stdin",
        "--system-user",
        &user(),
        "--users",
        &users,
    ];
    let mut child = anabranch().args(args).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"her password\n").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn reload_without_a_user_ends_the_users_session() {
    let setup = Setup::new();
    let config = setup.config();
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    add_somebody(&server);
    server.signal("HUP");
    server.logged("configuration reloaded");
    let mut other = RawSmbClient::connect(server.smb);
    other.negotiate();
    assert_eq!(other.log_on("somebody", "her password"), SUCCESS);
    let users = server.path("users.toml").display().to_string();
    let removed = run(&["user", "remove", "somebody", "--users", &users]);
    assert!(removed.status.success(), "{removed:?}");
    reload(&server, &config, "the account no longer exists");
    assert_eq!(other.echo(), USER_SESSION_DELETED);
    assert_eq!(client.echo(), SUCCESS, "users of the command line stay");
}

#[test]
fn reload_that_requires_encryption_cuts_plain_sessions() {
    let setup = Setup::new();
    let config = setup.config();
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    let sealed = config.replace("[server]\n", "[server]\nencryption = \"required\"\n");
    reload(&server, &sealed, "configuration reloaded");
    assert!(client.receive().is_err(), "the connection is cut");
    assert_eq!(server.status()["sessions_total"], 0);
    server.logged("reason=\"encryption is required\"");
}

#[test]
fn reload_adds_shares_and_users_and_keeps_sessions() {
    let setup = Setup::new();
    let config = setup.config();
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    let file = client.create("kept");
    assert_eq!(client.connect_tree("more"), BAD_NETWORK_NAME);

    // A second account of the same system user.
    add_somebody(&server);
    let log_on = |name: &str, password: &str| {
        let mut other = RawSmbClient::connect(server.smb);
        other.negotiate();
        other.log_on(name, password)
    };
    assert_eq!(log_on("somebody", "her password"), LOGON_FAILURE, "before the reload");

    std::fs::create_dir(server.path("more")).unwrap();
    let more = format!(
        "{config}[[share]]\nname = \"more\"\npath = \"{}\"\n",
        server.path("more").display()
    );
    reload(&server, &more, "configuration reloaded");
    assert_eq!(log_on("somebody", "her password"), SUCCESS);
    assert_eq!(log_on(&user(), PASSWORD), SUCCESS, "users of the command line stay");
    let data = client.tree;
    assert_eq!(
        client.connect_tree("more"),
        SUCCESS,
        "the session that was there sees the new share"
    );
    client.tree = data;
    let write = RawSmbClient::write_body(file, 0, b"still open");
    assert_eq!(client.call(WRITE, &write).status, SUCCESS);
    assert_eq!(std::fs::read(server.data().join("kept")).unwrap(), b"still open");
}

#[test]
fn reload_of_invalid_file_changes_nothing_and_reports_line() {
    let setup = Setup::new();
    let config = setup.config();
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    let line = config.lines().count() + 1;
    reload(
        &server,
        &format!("{config}pth = \"/x\"\n"),
        "reload failed, the old configuration stays in effect",
    );
    let said = server.logged("reload failed");
    assert!(
        said.contains(&format!("config.toml:{line}: unknown key `pth`; did you mean `path`?")),
        "{said}"
    );
    assert_eq!((client.echo(), client.connect_tree("data")), (SUCCESS, SUCCESS));
    // A configuration with an unusable share is refused as a whole, too.
    let gone = format!("{config}[[share]]\nname = \"gone\"\npath = \"/nonexistent/dir\"\n");
    reload(&server, &gone, "share gone: ");
    assert_eq!(client.connect_tree("data"), SUCCESS);
}

#[test]
fn stop_with_idle_connections_and_waiting_locks_is_prompt() {
    let mut server = Setup::new().start();
    let (mut holder, mut waiter) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    let _silent = RawSmbClient::connect(server.smb);
    let file = holder.create("locked");
    assert_eq!(holder.call(LOCK, &RawSmbClient::lock_body(file, false)).status, SUCCESS);
    let file = waiter.create("locked");
    assert_eq!(waiter.call(LOCK, &RawSmbClient::lock_body(file, true)).status, PENDING);
    let start = Instant::now();
    server.signal("TERM");
    assert!(server.ended().success());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(holder.is_closed(Duration::from_secs(1)) && waiter.is_closed(Duration::from_secs(1)));
    server.logged("stopped");
}

/// A client writes without pause; the file must hold every write that was acknowledged before the
/// stop, and the server must not fail.
#[test]
fn stop_under_load_loses_no_acknowledged_write() {
    let mut server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let file = client.create("log");
    let writer = std::thread::spawn(move || {
        let mut acknowledged = 0u64;
        loop {
            let data = acknowledged.to_le_bytes();
            let message =
                client.message(WRITE, &RawSmbClient::write_body(file, acknowledged * 8, &data));
            let sent = client.stream.write_all(&crate::support::client::frame(&message));
            match sent.and_then(|()| client.receive()) {
                Ok(reply) if reply.status == SUCCESS => acknowledged += 1,
                _ => return acknowledged,
            }
        }
    });
    let log = server.data().join("log");
    wait_for("some writes", || std::fs::metadata(&log).ok().filter(|m| m.len() > 800));
    server.signal("TERM");
    assert!(server.ended().success());
    let acknowledged = writer.join().unwrap();
    let content = std::fs::read(&log).unwrap();
    assert!(content.len() as u64 >= acknowledged * 8);
    for (index, record) in content.chunks_exact(8).enumerate() {
        assert_eq!(record, (index as u64).to_le_bytes());
    }
}

#[test]
fn interrupt_signal_stops_the_server() {
    let mut server = Setup::new().start();
    server.signal("INT");
    assert!(server.ended().success());
}

#[test]
fn status_shows_sessions_and_open_files() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    client.create("some file");
    let admin = server.admin.to_string();
    let shown = text(&run(&["status", "--admin", &admin]).stdout);
    let peer = client.stream.local_addr().unwrap();
    for part in [
        "1 connection, 1 session".to_owned(),
        format!("user {}", user()),
        "SMB 2.1".into(),
        format!("{peer} -> {}", server.smb),
        "data:/some file".into(),
    ] {
        assert!(shown.contains(&part), "{part} is not in\n{shown}");
    }
    let json = text(&run(&["status", "--admin", &admin, "--json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sessions"][0]["opens"][0]["path"], "some file");
    assert_eq!(json["sessions"][0]["user"], user());
    drop(client);
    wait_for("the session's end", || {
        server.status()["sessions"].as_array()?.is_empty().then_some(())
    });
    assert_eq!(server.status()["connections_ended"]["closed"], 1);
}

#[test]
fn metrics_count_connections_requests_and_bytes() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let file = client.create("f");
    assert_eq!(
        client.call(WRITE, &RawSmbClient::write_body(file, 0, &[7; 50_000])).status,
        SUCCESS
    );
    assert_eq!(server.metric("anabranch_smb_logons_total"), 1);
    assert_eq!(server.metric("anabranch_connections"), 1);
    assert_eq!(server.metric("anabranch_sessions{protocol=\"SMB\"}"), 1);
    assert_eq!(server.metric("anabranch_open_files"), 1);
    assert!(server.metric("anabranch_received_bytes_total") > 50_000);
    assert!(server.metric("anabranch_smb_requests_total") >= 3);
    assert_eq!(server.page("/health"), "ok\n");
}

/// Requests of a foreign web page in a local browser have a name in the Host header.
#[test]
fn admin_api_refuses_foreign_host_headers() {
    let server = Setup::new().start();
    for host in ["Host: evil.example.org\r\n", ""] {
        let answer = server.request(&format!("GET /v1/status HTTP/1.0\r\n{host}\r\n"));
        assert!(answer.starts_with("HTTP/1.0 421"), "{answer}");
    }
}
