//! Many connections that do nothing.

use crate::support::client::{READ, RawSmbClient, SUCCESS, WRITE, connect_from};
use crate::support::{MeasuringTurn, ServerProcess, Setup, wait_for};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::Ipv4Addr;
use std::time::Duration;

const CONNECTIONS: usize = 10_000;
/// Memory that one idle connection may take.
const IDLE_BYTES_MAX: usize = 64 * 1024;

#[test]
fn ten_thousand_idle_connections_are_held_in_little_memory() {
    let _turn = MeasuringTurn::wait();
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    if limit.maximum.is_some_and(|max| max < CONNECTIONS as u64 + 100) {
        eprintln!(
            "skipped: the hard limit of open files is below {CONNECTIONS}; raise it with ulimit -Hn"
        );
        return;
    }
    let server = Setup::new().server("logon_seconds = 600").start();
    let mut active = RawSmbClient::ready(&server);
    let before = server.memory_bytes();
    let clients: Vec<RawSmbClient> = (0..CONNECTIONS)
        .map(|n| {
            let from = Ipv4Addr::new(127, 0, 1, 1 + (n / 900) as u8);
            let stream = connect_from(from, server.smb).expect("it listens");
            let mut client = RawSmbClient::over(stream);
            client.negotiate();
            client
        })
        .collect();
    assert_eq!(server.metric("anabranch_connections"), clients.len() as u64 + 1);
    let each = settled(&server, before, CONNECTIONS);
    println!("{each} bytes for each idle connection");
    assert!(each <= IDLE_BYTES_MAX, "{each}");
    assert_eq!(active.echo(), SUCCESS);
}

/// Growth since `before` in bytes for each of `count`, after the server has released its buffers,
/// which takes two seconds or more on a busy machine.
fn settled(server: &ServerProcess, before: usize, count: usize) -> usize {
    let each = || server.memory_bytes().saturating_sub(before) / count;
    for _ in 0..15 {
        std::thread::sleep(Duration::from_secs(1));
        if each() <= IDLE_BYTES_MAX {
            break;
        }
    }
    each()
}

/// Writes and reads a small file; the session stays.
fn used(server: &ServerProcess, name: &str) -> RawSmbClient {
    let mut client = RawSmbClient::ready(server);
    let file = client.create(name);
    assert_eq!(
        client.call(WRITE, &RawSmbClient::write_body(file, 0, &[1; 60_000])).status,
        SUCCESS
    );
    // Replies in flight, each in its own buffer.
    (0..8).for_each(|_| client.send(READ, &RawSmbClient::read_body(file, 0, 15_000)));
    (0..8).for_each(|_| assert_eq!(client.receive().unwrap().status, SUCCESS));
    client
}

#[test]
fn idle_session_with_open_file_frees_its_buffers() {
    let _turn = MeasuringTurn::wait();
    const SESSIONS: usize = 400;
    let server = Setup::new().start();
    // The first sessions warm the allocator up; its growth is not counted as the sessions' memory.
    drop((0..50).map(|n| used(&server, &format!("first{n}"))).collect::<Vec<RawSmbClient>>());
    wait_for("their end", || (server.metric("anabranch_connections") == 0).then_some(()));
    let before = server.memory_bytes();
    let clients: Vec<RawSmbClient> =
        (0..SESSIONS).map(|n| used(&server, &format!("file{n}"))).collect();
    let each = settled(&server, before, SESSIONS);
    println!("{each} bytes for each idle session with an open file");
    assert!(each <= IDLE_BYTES_MAX, "{each}");
    drop(clients);
}
