//! Clients that send garbage, too much, too slowly, or take nothing: each is
//! bounded in time and memory, and no other client notices.

use crate::support::client::{
    ECHO, INSUFFICIENT_RESOURCES, LOCK, LOGON_FAILURE, NEGOTIATE, PENDING, READ, RawSmbClient,
    SESSION_SETUP, SET_INFO, SUCCESS, WRITE, connect_from, frame,
};
use crate::support::{PASSWORD, Setup, user, wait_for};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

const MIB: usize = 1024 * 1024;
/// Time limit of immediate reactions, on a loaded machine.
const SOON: Duration = Duration::from_secs(10);

/// Instruction of a packet filter: keep `k` bytes of the packet.
const RETURN_CONSTANT: u16 = 0x06;

/// Invalid byte sequences, one kind a line.
fn garbage() -> Vec<Vec<u8>> {
    let mut valid = RawSmbClient::over(dummy());
    let echo = valid.message(ECHO, &[4, 0, 0, 0]);
    vec![
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0xFF; 4096],
        frame(b""),
        frame(b"\xFESMB"),
        frame(&[0; 200]),
        frame(&[b"\xFDSMB", &[1; 200][..]].concat()),
        frame(&[b"\xFFSMB\x72", &[9; 100][..]].concat()),
        frame(&[b"\xFCSMB", &[9; 100][..]].concat()),
        frame(&echo),
        [0, 2, 0, 1].to_vec(),
        [0, 255, 255, 255].to_vec(),
    ]
}

fn dummy() -> TcpStream {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    TcpStream::connect(listener.local_addr().unwrap()).unwrap()
}

#[test]
fn garbage_ends_and_counts_only_its_own_connection() {
    let mut server = Setup::new().start();
    let mut good = RawSmbClient::ready(&server);
    let kinds = garbage();
    for bytes in &kinds {
        let mut bad = RawSmbClient::connect(server.smb);
        let _ = bad.stream.write_all(bytes);
        assert!(bad.is_closed(SOON), "{:?}", &bytes[..bytes.len().min(80)]);
        assert_eq!(good.echo(), SUCCESS);
    }
    let counted = || {
        server.metric("anabranch_connections_ended_total{reason=\"protocol_violation\"}")
            + server.metric("anabranch_connections_ended_total{reason=\"security_violation\"}")
    };
    wait_for("the counts", || (counted() == kinds.len() as u64).then_some(()));
    assert_eq!(server.metric("anabranch_connections_ended_total{reason=\"defect\"}"), 0);
    assert!(server.is_running());
}

/// Invalid bytes within a session end only its connection.
#[test]
fn garbage_after_the_logon_ends_only_that_connection() {
    let server = Setup::new().start();
    let mut good = RawSmbClient::ready(&server);
    for bytes in garbage() {
        let mut bad = RawSmbClient::ready(&server);
        let _ = bad.stream.write_all(&bytes);
        // The server waits for the rest of a frame whose length is allowed after the logon.
        if bytes != [0, 2, 0, 1] && bytes != garbage()[8] {
            assert!(bad.is_closed(SOON), "{:?}", &bytes[..bytes.len().min(80)]);
        }
        assert_eq!(good.echo(), SUCCESS);
    }
    assert_eq!(server.metric("anabranch_connections_ended_total{reason=\"defect\"}"), 0);
}

#[test]
fn logon_with_any_flipped_byte_is_survived() {
    let mut server = Setup::new().start();
    let mut valid = RawSmbClient::over(dummy());
    let negotiate = valid.message(NEGOTIATE, &RawSmbClient::negotiate_body());
    for position in 0..negotiate.len() {
        let mut bytes = negotiate.clone();
        bytes[position] ^= 0xFF;
        let mut bad = RawSmbClient::connect(server.smb);
        bad.stream.write_all(&frame(&bytes)).unwrap();
        bad.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(bad.is_closed(SOON), "byte {position}");
    }
    assert!(server.is_running());
    assert_eq!(server.metric("anabranch_connections_ended_total{reason=\"defect\"}"), 0);
}

#[test]
fn client_without_logon_in_time_is_disconnected() {
    let server = Setup::new().server("logon_seconds = 1").start();
    let start = Instant::now();
    let mut silent = RawSmbClient::connect(server.smb);
    let mut negotiated = RawSmbClient::connect(server.smb);
    negotiated.negotiate();
    let mut dripping = RawSmbClient::connect(server.smb);
    let drip = std::thread::spawn(move || {
        // One byte of a long frame at a time.
        let bytes = [&[0, 0, 255, 255][..], b"\xFESMB", &[0; 200]].concat();
        for byte in bytes {
            if dripping.stream.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(dripping.is_closed(Duration::from_millis(1)));
    });
    assert!(silent.is_closed(SOON) && negotiated.is_closed(SOON));
    assert!(start.elapsed() >= Duration::from_millis(900));
    drip.join().unwrap();
    wait_for("the count", || {
        (server.metric("anabranch_connections_ended_total{reason=\"timeout\"}") == 3).then_some(())
    });
    let mut known = RawSmbClient::ready(&server);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(known.echo(), SUCCESS, "who has logged on may be idle");
}

#[test]
fn incomplete_frame_times_out_after_logon() {
    let server = Setup::new().server("stall_seconds = 2").start();
    let (mut slow, mut good) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    let start = Instant::now();
    slow.stream.write_all(&[0, 0, 1, 0, 0xFE]).unwrap();
    assert!(!slow.is_closed(Duration::from_secs(1)), "a slow network is no crime");
    // A byte now and then does not extend the timeout.
    slow.stream.write_all(b"S").unwrap();
    assert!(slow.is_closed(SOON));
    assert!(start.elapsed() >= Duration::from_secs(2));
    server.logged("timeout peer=");
    assert_eq!(good.echo(), SUCCESS, "an idle client is not a slow one");
}

/// The client's machine has lost power: it acknowledges nothing.
#[test]
fn unreachable_client_is_detected_and_its_locks_freed() {
    let server = Setup::new().server("stall_seconds = 2").start();
    let (mut good, mut gone) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    let file = gone.create("held");
    assert_eq!(gone.call(LOCK, &RawSmbClient::lock_body(file, false)).status, SUCCESS);
    let drop_all = [socket2::SockFilter::new(RETURN_CONSTANT, 0, 0, 0)];
    socket2::SockRef::from(&gone.stream).attach_filter(&drop_all).unwrap();
    let file = good.create("held");
    assert_eq!(good.call(LOCK, &RawSmbClient::lock_body(file, true)).status, PENDING);
    let start = Instant::now();
    assert_eq!(good.receive().unwrap().status, SUCCESS, "its lock is free again");
    assert!(start.elapsed() < SOON);
    wait_for("the count", || {
        (server.metric("anabranch_connections_ended_total{reason=\"unreachable\"}") == 1)
            .then_some(())
    });
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(good.echo(), SUCCESS, "an idle client confirms probes");
}

#[test]
fn client_that_reads_no_replies_is_disconnected() {
    let server = Setup::new().server("stall_seconds = 2").start();
    let (mut greedy, mut good) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    let file = greedy.create("data");
    let content = vec![7; 60_000];
    assert_eq!(greedy.call(WRITE, &RawSmbClient::write_body(file, 0, &content)).status, SUCCESS);
    // More bytes than the kernel's socket buffers hold.
    for n in 0..500 {
        greedy.send(READ, &RawSmbClient::read_body(file, n, 50_000));
    }
    wait_for("its end", || {
        (server.metric("anabranch_connections_ended_total{reason=\"timeout\"}") == 1).then_some(())
    });
    assert_eq!(good.echo(), SUCCESS);
}

#[test]
fn connection_flood_of_one_address_leaves_others_served() {
    const ATTEMPTS: usize = 3000;
    const HELD_MAX: u64 = 1024;
    let server = Setup::new().in_small_pages().server("logon_seconds = 5").start();
    let mut good = RawSmbClient::ready(&server);
    let before = server.memory_bytes();
    let flood: Vec<TcpStream> = (0..ATTEMPTS)
        .filter_map(|_| connect_from(Ipv4Addr::new(127, 0, 0, 2), server.smb))
        .collect();
    wait_for("the refusals", || {
        let refused = server.metric("anabranch_connections_refused_total");
        (refused + HELD_MAX == flood.len() as u64).then_some(())
    });
    assert_eq!(server.metric("anabranch_connections_unauthenticated"), HELD_MAX);
    assert_eq!((good.echo(), RawSmbClient::ready(&server).echo()), (SUCCESS, SUCCESS));
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 8 * MIB, "{} KiB", grown / 1024);
    let said = server.log().lines().filter(|l| l.contains("connection refused")).count();
    assert!((1..=server::log::LINES_OF_PEER_MAX as usize).contains(&said), "{said} lines");
    wait_for("the end of those that said nothing", || {
        (server.metric("anabranch_connections_unauthenticated") == 0).then_some(())
    });
    assert_eq!(good.echo(), SUCCESS);
}

#[test]
fn announced_lengths_alone_take_no_memory() {
    let server = Setup::new().in_small_pages().start();
    let before = server.memory_bytes();
    // Announces the maximum of 8 MiB each, and sends nothing of it.
    let clients: Vec<RawSmbClient> = (0..100)
        .map(|_| {
            let mut client = RawSmbClient::ready(&server);
            client.stream.write_all(&[0, 0x80, 0, 0]).unwrap();
            client
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 16 * MIB, "{} KiB", grown / 1024);
    assert_eq!(server.metric("anabranch_connections"), clients.len() as u64);
}

#[test]
fn client_that_reads_no_replies_holds_bounded_memory() {
    const READS: u64 = 4000;
    const LENGTH: u32 = 15 * 1024; // below what is sent from the page cache
    let server = Setup::new().in_small_pages().start();
    let (mut greedy, mut good) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    let file = greedy.create("data");
    let content: Vec<u8> = (0..60_000u32).map(|n| (n % 251) as u8).collect();
    assert_eq!(greedy.call(WRITE, &RawSmbClient::write_body(file, 0, &content)).status, SUCCESS);
    // Obtains the credits for all of them first.
    let mut credits = 0u64;
    while credits < READS {
        greedy.send(ECHO, &[4, 0, 0, 0]);
        credits = credits.saturating_sub(1) + u64::from(greedy.receive().unwrap().credits);
    }
    let before = server.memory_bytes();
    let first = greedy.next_id;
    let mut stream = greedy.stream.try_clone().unwrap();
    let requests: Vec<u8> = (0..READS)
        .flat_map(|n| {
            frame(&greedy.message(READ, &RawSmbClient::read_body(file, n % 1000, LENGTH)))
        })
        .collect();
    let sender = std::thread::spawn(move || stream.write_all(&requests).unwrap());
    std::thread::sleep(Duration::from_secs(1));
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(
        grown < 24 * MIB,
        "{} KiB for {} KiB of answers",
        grown / 1024,
        READS * u64::from(LENGTH) / 1024
    );
    assert_eq!(good.echo(), SUCCESS);
    // Nothing was lost meanwhile.
    for _ in 0..READS {
        let reply = greedy.receive().unwrap();
        let offset = ((reply.message_id - first) % 1000) as usize;
        assert_eq!(reply.status, SUCCESS);
        assert!(
            reply.bytes[80..] == content[offset..offset + LENGTH as usize],
            "read {}",
            reply.message_id
        );
    }
    sender.join().unwrap();
}

#[test]
fn abandoned_session_setups_take_little_memory() {
    let server = Setup::new().in_small_pages().start();
    let mut good = RawSmbClient::ready(&server);
    let before = server.memory_bytes();
    let long = [&b"NTLMSSP\0\x01\0\0\0"[..], &[0; 60_000]].concat();
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = RawSmbClient::connect(server.smb);
        client.negotiate();
        for length in (0..64).map(|n| if n % 2 == 0 { 40 } else { long.len() }) {
            client.send(SESSION_SETUP, &RawSmbClient::set_up_body(&long[..length]));
        }
        clients.push(client);
    }
    let taken = || server.metric("anabranch_received_bytes_total") >= 20 * 32 * 60_000;
    wait_for("the requests", || taken().then_some(()));
    let grown = || server.memory_bytes().saturating_sub(before);
    wait_for("most of it to be let go", || (grown() < 4 * MIB).then_some(()));
    assert_eq!(good.echo(), SUCCESS);
}

/// The maximum number of maximum reads in one frame: their replies would fill many frames.
#[test]
fn answers_to_one_frame_are_bounded_together() {
    const READS: usize = 16;
    const LENGTH: u32 = 8 * MIB as u32;
    const END_OF_FILE: u8 = 20;
    let server = Setup::new().in_small_pages().start();
    let (mut greedy, mut good) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    let file = greedy.create("sparse");
    let size = RawSmbClient::set_info_body(file, END_OF_FILE, &(16 * MIB as u64).to_le_bytes());
    assert_eq!(greedy.call(SET_INFO, &size).status, SUCCESS);
    let credits = LENGTH as usize / 65_536;
    let mut held = 0usize;
    for _ in 0..READS * credits {
        greedy.send(ECHO, &[4, 0, 0, 0]);
        held = held.saturating_sub(1) + usize::from(greedy.receive().unwrap().credits);
        if held >= READS * credits {
            break;
        }
    }
    let before = server.memory_bytes();
    let mut requests = Vec::new();
    for at in 0..READS {
        let mut request = greedy.message(READ, &RawSmbClient::read_body(file, 0, LENGTH));
        greedy.next_id += credits as u64 - 1;
        request[6..8].copy_from_slice(&(credits as u16).to_le_bytes());
        request.resize(request.len().next_multiple_of(8), 0);
        let next = if at + 1 < READS { request.len() as u32 } else { 0 };
        request[20..24].copy_from_slice(&next.to_le_bytes());
        requests.extend_from_slice(&request);
    }
    greedy.stream.write_all(&frame(&requests)).unwrap();
    let reply = greedy.receive().unwrap();
    assert_eq!(reply.status, SUCCESS);
    assert!(reply.bytes.len() < 9 * MIB, "{}", reply.bytes.len());
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 24 * MIB, "{} KiB", grown / 1024);
    let mut statuses = Vec::new();
    let mut at = 0;
    loop {
        let field = |from: usize| {
            u32::from_le_bytes(reply.bytes[at + from..at + from + 4].try_into().unwrap())
        };
        statuses.push(field(8));
        match field(20) {
            0 => break,
            next => at += next as usize,
        }
    }
    assert_eq!(statuses.len(), READS, "each has its answer");
    assert!(statuses[1..].iter().all(|status| *status == INSUFFICIENT_RESOURCES));
    assert_eq!(good.echo(), SUCCESS);
}

/// A client may send its last requests and shut down its side of the connection.
#[test]
fn requests_before_a_half_close_are_answered() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    for _ in 0..3 {
        client.send(ECHO, &[4, 0, 0, 0]);
    }
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    for _ in 0..3 {
        assert_eq!(client.receive().unwrap().status, SUCCESS);
    }
    assert!(client.is_closed(SOON));
}

#[test]
fn wrong_passwords_are_logged_once_each_and_judged_ever_later() {
    let server = Setup::new().start();
    let attempt = |password: &str| {
        let mut client = RawSmbClient::connect(server.smb);
        client.negotiate();
        let start = Instant::now();
        let status = client.log_on(&user(), password);
        (status, start.elapsed(), client.stream.local_addr().unwrap())
    };
    let mut times = Vec::new();
    for _ in 0..8 {
        let (status, time, peer) = attempt("wrong");
        assert_eq!(status, LOGON_FAILURE);
        times.push(time);
        let by_peer = format!("peer={peer}");
        server.logged(&by_peer);
        let lines = server
            .log()
            .lines()
            .filter(|l| l.contains("logon refused") && l.contains(&by_peer))
            .count();
        assert_eq!(lines, 1, "{}", server.log());
    }
    assert!(times[0] < Duration::from_millis(500), "{times:?}");
    assert!(times[7] >= Duration::from_millis(500), "{times:?}");
    assert_eq!(server.metric("anabranch_smb_logons_failed_total"), 8);
    assert!(server.metric("anabranch_smb_logons_throttled_total{outcome=\"delayed\"}") >= 4);
    assert_eq!(attempt(PASSWORD).0, SUCCESS, "who knows the password is not locked out");
    let (_, time, _) = attempt("wrong");
    assert!(time < Duration::from_millis(500), "a success clears the account's failures: {time:?}");
    // The reply to an unknown name is the same.
    let mut client = RawSmbClient::connect(server.smb);
    client.negotiate();
    assert_eq!(client.log_on("nobody-has-this-name", "wrong"), LOGON_FAILURE);
}

#[test]
fn connections_beyond_the_limit_are_refused_and_logged() {
    let server = Setup::new().server("connections_max = 2").start();
    let (mut first, second) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    let mut third = RawSmbClient::connect(server.smb);
    assert!(third.is_closed(SOON));
    server.logged("connections_max is reached; raise it");
    assert_eq!(first.echo(), SUCCESS);
    assert_eq!(server.metric("anabranch_connections_refused_total"), 1);
    drop(second);
    wait_for("the place", || (server.metric("anabranch_connections") == 1).then_some(()));
    assert_eq!(RawSmbClient::ready(&server).echo(), SUCCESS);
}
