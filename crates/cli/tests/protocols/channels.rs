//! Several connections of one session to the built server: their reports, the events that
//! close them, and the limits of hostile ones.

use crate::support::channel::{
    ACCESS_DENIED, ECHO, INSUFFICIENT_RESOURCES, LOGOFF, REQUEST_NOT_ACCEPTED, SUCCESS,
    SigningChannel, USER_SESSION_DELETED, status_of,
};
use crate::support::{ServerProcess, Setup, anabranch_by, run, text, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

fn channels(server: &ServerProcess) -> Value {
    serde_json::from_str(&server.page("/v1/channels")).unwrap()
}

fn connections(server: &ServerProcess) -> Vec<u64> {
    let page = channels(server);
    let list = page["Sessions"][0]["Channels"].as_array().cloned().unwrap_or_default();
    list.iter().map(|c| c["ConnectionId"].as_u64().unwrap()).collect()
}

#[test]
fn channels_command_shows_addresses_algorithms_and_traffic() {
    let server = Setup::new().start();
    let mut first = SigningChannel::ready(server.smb);
    let mut second = first.bound(server.smb);
    for _ in 0..20 {
        assert_eq!(second.plain(ECHO).unwrap(), SUCCESS);
    }
    assert_eq!(first.plain(ECHO).unwrap(), SUCCESS);
    let page = channels(&server);
    let session = &page["Sessions"][0];
    assert_eq!((&session["MaxChannels"], &session["CurrentChannels"]), (&4.into(), &2.into()));
    assert_eq!(session["NeedsReconnect"], false);
    for (at, channel) in [&first, &second].into_iter().enumerate() {
        let shown = &session["Channels"][at];
        let port = channel.stream.local_addr().unwrap().port();
        assert_eq!(
            (&shown["ClientPort"], &shown["ServerPort"]),
            (&port.into(), &server.smb.port().into())
        );
        assert_eq!(
            (&shown["ClientIpAddress"], &shown["ServerIpAddress"]),
            (&"127.0.0.1".into(), &"127.0.0.1".into())
        );
        assert_eq!(
            (&shown["ServerInterfaceIndex"], &shown["ServerRSSCapable"]),
            (&1.into(), &true.into())
        );
        assert_eq!(
            (&shown["Dialect"], &shown["SigningAlgorithm"]),
            (&"3.0.2".into(), &"AES-128-CMAC".into())
        );
        assert!(shown["Credits"].as_u64().unwrap() > 0 && shown["Core"].is_u64(), "{shown}");
    }
    let traffic = |at: usize| session["Channels"][at]["BytesReceived"].as_u64().unwrap();
    assert!(traffic(1) > traffic(0) + 15 * 68, "{page}");
    let output = run(&["channels", "--admin", &server.admin.to_string()]);
    let shown = text(&output.stdout);
    assert!(shown.contains("channels 2 of 4\n"), "{shown}");
    assert_eq!(shown.lines().filter(|l| l.contains("AES-128-CMAC")).count(), 2, "{shown}");
}

#[test]
fn cut_command_resets_channel_and_session_goes_on() {
    let server = Setup::new().start();
    let mut first = SigningChannel::ready(server.smb);
    let mut second = first.bound(server.smb);
    let [old, other] = connections(&server)[..] else { panic!("two channels") };
    let cut = |id: u64| {
        run(&["channels", "--admin", &server.admin.to_string(), "--cut", &id.to_string()])
    };
    let output = cut(old);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // The connection is reset, not closed.
    let heard = first.stream.read(&mut [0; 16]).map_err(|e| e.kind());
    assert_eq!(heard, Err(std::io::ErrorKind::ConnectionReset));
    wait_for("the channel's end", || (connections(&server) == [other]).then_some(()));
    assert_eq!(second.plain(ECHO).unwrap(), SUCCESS);
    let third = first.bound(server.smb);
    assert_eq!(connections(&server).len(), 2);
    let output = cut(old);
    assert_eq!(output.status.code(), Some(1));
    let refused = format!("connection {old} was not cut: there is no such connection");
    assert!(text(&output.stderr).contains(&refused), "{output:?}");
    assert_eq!(server.metric("anabranch_connections_ended_total{reason=\"cut\"}"), 1);
    drop(third);
}

#[test]
fn channel_beyond_channels_max_is_refused_until_raised() {
    let server = Setup::new().start();
    let first = SigningChannel::ready(server.smb);
    let mut more: Vec<SigningChannel> = (1..4).map(|_| first.bound(server.smb)).collect();
    let mut fifth = SigningChannel::connect(server.smb);
    assert_eq!(fifth.bind(&first), INSUFFICIENT_RESOURCES);
    let config = server.config();
    server.write_config(&format!("{config}[multichannel]\nchannels_max = 5\n"));
    server.signal("HUP");
    server.logged("channels_max = 5: more than 4 connections");
    more.push(first.bound(server.smb));
    assert_eq!(connections(&server).len(), 5);
}

#[test]
fn multichannel_enabled_by_reload_needs_reconnect() {
    let server = Setup::new().start();
    let config = server.config();
    let switch = |on: bool| {
        let lines = server.log().matches("configuration reloaded").count();
        server.write_config(&format!("{config}[multichannel]\nenabled = {on}\n"));
        server.signal("HUP");
        let reloaded = || server.log().matches("configuration reloaded").count() > lines;
        wait_for("a reload", || reloaded().then_some(()));
    };
    switch(false);
    let mut first = SigningChannel::ready(server.smb);
    assert_eq!(SigningChannel::connect(server.smb).bind(&first), REQUEST_NOT_ACCEPTED);
    assert_eq!(channels(&server)["EnableMultichannel"], false);
    switch(true);
    assert_eq!(first.plain(ECHO).unwrap(), SUCCESS, "nobody is disconnected");
    assert_eq!(channels(&server)["Sessions"][0]["NeedsReconnect"], true);
    let output = run(&["status", "--admin", &server.admin.to_string()]);
    assert!(text(&output.stdout).contains("needs reconnect"), "{}", text(&output.stdout));
    drop(first);
    wait_for("the session's end", || {
        (server.status()["sessions"] == serde_json::json!([])).then_some(())
    });
    let first = SigningChannel::ready(server.smb);
    let _second = first.bound(server.smb);
    assert_eq!(channels(&server)["Sessions"][0]["NeedsReconnect"], false);
}

#[test]
fn bind_without_session_key_is_always_refused() {
    let server = Setup::new().start();
    let mut first = SigningChannel::ready(server.smb);
    let key = SigningChannel::forged_key();
    for guess in 0..200u64 {
        let mut stranger = SigningChannel::connect(server.smb);
        stranger.session = if guess % 2 == 0 { first.session } else { guess };
        let reply = stranger.set_up(1, Some(&key), b"NTLMSSP\0\x01\0\0\0").unwrap();
        let wanted = if guess % 2 == 0 { ACCESS_DENIED } else { USER_SESSION_DELETED };
        assert_eq!(status_of(&reply), wanted);
        // A connection cannot use the session without binding.
        assert_eq!(stranger.plain(LOGOFF).unwrap(), USER_SESSION_DELETED);
    }
    assert_eq!(first.plain(ECHO).unwrap(), SUCCESS);
    assert_eq!(connections(&server).len(), 1);
}

#[test]
fn garbage_on_one_channel_ends_that_one_only() {
    let server = Setup::new().start();
    let mut first = SigningChannel::ready(server.smb);
    for garbage in [&b"\0\0\0\x08garbage!"[..], b"\x7Fnot a frame", b"\0\0\0\x04\xFDSMB"] {
        let mut second = first.bound(server.smb);
        second.stream.write_all(garbage).unwrap();
        assert!(matches!(second.stream.read(&mut [0; 16]), Ok(0) | Err(_)));
        wait_for("the channel's end", || (connections(&server).len() == 1).then_some(()));
        assert_eq!(first.plain(ECHO).unwrap(), SUCCESS);
    }
}

#[test]
fn concurrent_channel_bind_logoff_and_loss_leaves_nothing() {
    const ROUNDS: u64 = 12;
    let server = Setup::new().start();
    for round in 0..ROUNDS {
        let first = SigningChannel::ready(server.smb);
        let mut workers: Vec<SigningChannel> = (0..2).map(|_| first.bound(server.smb)).collect();
        let mut ender = workers.pop().unwrap();
        let logs_off = round % 3 > 0;
        let works = |mut channel: SigningChannel| loop {
            match channel.plain(ECHO) {
                Ok(SUCCESS) => {}
                ended => return ended.ok(),
            }
        };
        let binds = || loop {
            let mut next = SigningChannel::connect(server.smb);
            match next.bind(&first) {
                SUCCESS => {
                    assert!([SUCCESS, USER_SESSION_DELETED].contains(&next.plain(ECHO).unwrap()))
                }
                INSUFFICIENT_RESOURCES => {}
                ended => return ended,
            }
        };
        std::thread::scope(|scope| {
            let worker = workers.pop().unwrap();
            let other = worker.stream.try_clone().unwrap();
            let working = scope.spawn(move || works(worker));
            let binding: Vec<_> = (0..3).map(|_| scope.spawn(binds)).collect();
            std::thread::sleep(Duration::from_millis(10 + 7 * round));
            if !logs_off {
                other.shutdown(std::net::Shutdown::Both).unwrap();
            }
            assert_eq!(ender.plain(LOGOFF).unwrap(), SUCCESS);
            let ended = working.join().unwrap();
            assert_eq!(ended, logs_off.then_some(USER_SESSION_DELETED), "round {round}");
            for binder in binding {
                assert_eq!(binder.join().unwrap(), USER_SESSION_DELETED);
            }
        });
        assert_eq!(channels(&server)["Sessions"].as_array().map(Vec::len), Some(0));
    }
    assert_eq!(SigningChannel::ready(server.smb).plain(ECHO).unwrap(), SUCCESS);
}

#[test]
fn repeated_channel_bind_and_loss_leaks_no_memory() {
    let server = Setup::new().in_small_pages().start();
    let mut first = SigningChannel::ready(server.smb);
    let round = |first: &SigningChannel| drop(first.bound(server.smb));
    (0..50).for_each(|_| round(&first));
    let settled = || (connections(&server).len() == 1).then_some(());
    wait_for("the channels' ends", settled);
    let before = server.memory_bytes();
    (0..500).for_each(|_| {
        round(&first);
        wait_for("the channel's end", settled);
    });
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 1 << 20, "{grown} bytes more");
    assert_eq!(first.plain(LOGOFF).unwrap(), SUCCESS);
}

/// A network namespace that ends with the test.
struct Namespace(String);

impl Namespace {
    /// Prints a line and returns none if namespaces are not permitted.
    fn new(name: &str) -> Option<Self> {
        let name = format!("anabranch-{name}-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).stderr(Stdio::null()).status();
        if !made.is_ok_and(|status| status.success()) {
            eprintln!("skipped: network namespaces need root and iproute2");
            return None;
        }
        Some(Self(name))
    }

    fn ip(&self, arguments: &str) {
        let status =
            Command::new("ip").args(["-n", &self.0]).args(arguments.split(' ')).status().unwrap();
        assert!(status.success(), "ip {arguments}");
    }

    /// The addresses that clients receive, with their properties.
    fn advertised(&self, server: &ServerProcess) -> BTreeSet<String> {
        let mut command = anabranch_by("ip", &["netns", "exec", &self.0]);
        let admin = server.admin.to_string();
        let output = command.args(["channels", "--json", "--admin", &admin]).output().unwrap();
        let page: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        let shown = |i: &Value| format!("{} {}", i["IpAddress"].as_str().unwrap(), i["RSSCapable"]);
        page["Interfaces"].as_array().unwrap().iter().map(shown).collect()
    }

    fn wait_for(&self, server: &ServerProcess, addresses: &[&str]) {
        let wanted: BTreeSet<String> = addresses.iter().map(|a| format!("{a} true")).collect();
        wait_for(&format!("{addresses:?}"), || (self.advertised(server) == wanted).then_some(()));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[test]
fn interface_address_changes_are_reported() {
    let Some(namespace) = Namespace::new("addresses") else { return };
    namespace.ip("link set lo up");
    let mut setup = Setup::new().argument("--smb").argument("[::]:0");
    setup.launcher = ["ip", "netns", "exec", &namespace.0].map(str::to_owned).to_vec();
    setup.shares += "[multichannel]\nexclude = [\"hidden*\", \"203.0.113.0/24\"]\n";
    let server = setup.start();
    // Only loopback is available.
    namespace.wait_for(&server, &["127.0.0.1", "::1"]);
    namespace.ip("link add name seen type veth peer name hidden0");
    namespace.ip("address add 192.0.2.1/24 dev seen");
    namespace.ip("address add 198.51.100.1/24 dev hidden0");
    namespace.ip("link set hidden0 up");
    // Waits until both ends are up.
    namespace.wait_for(&server, &["127.0.0.1", "::1"]);
    namespace.ip("link set seen up");
    namespace.wait_for(&server, &["192.0.2.1"]);
    namespace.ip("address add 192.0.2.2/24 dev seen");
    namespace.ip("address add 203.0.113.1/24 dev seen");
    namespace.ip("address add 2001:db8::1/64 dev seen nodad");
    namespace.wait_for(&server, &["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
    // Removing an address removes the second one of its network.
    namespace.ip("address del 192.0.2.1/24 dev seen");
    namespace.ip("address add 192.0.2.9/24 dev seen");
    namespace.ip("address del 2001:db8::1/64 dev seen");
    namespace.wait_for(&server, &["192.0.2.9"]);
    namespace.ip("link del seen");
    namespace.wait_for(&server, &["127.0.0.1", "::1"]);
}
