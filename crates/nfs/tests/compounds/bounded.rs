//! Clients that acquire state and never return: their remains are bounded.

use crate::harness::*;
use nfs::limits::{COURTESY, STATES_MAX, UNCONFIRMED_CLIENTS_MAX};
use std::time::Duration;
use wire::nfs::NfsStatus;
use wire::nfs::ops::Operation;

#[test]
fn exchange_ids_without_session_are_bounded() {
    let bench = ServerUnderTest::new();
    let mut conn = bench.conn();
    for number in 0..100_000_u32 {
        // Each client has its own owner string.
        let answered = answer(&mut conn, introduction(&format!("client {number}"), 1));
        assert_eq!(status_of(&answered), NfsStatus::OK);
    }
    let clients = bench.server.snapshot().clients;
    assert_eq!(clients.len(), UNCONFIRMED_CLIENTS_MAX);
    let mut after = bench.client("who means it");
    assert_eq!(after.status(&[]), NfsStatus::OK, "and keep nobody out");
}

#[test]
fn abandoned_opens_end_with_the_courtesy_period() {
    let bench = ServerUnderTest::new();
    let mut keeper = bench.client("keeper");
    for number in 0..200_u32 {
        let mut client = bench.client(&format!("client {number}"));
        let mut all = client.walk(&[b"share"]);
        let name = format!("file {number}");
        all.push(Operation::Open(open_args(name.as_bytes(), READ_WRITE, 0, true)));
        assert_eq!(client.status(&all), NfsStatus::OK);
    }
    let states = || bench.server.snapshot().clients.iter().map(|c| c.states).sum::<usize>();
    assert_eq!(states(), 200);
    bench.pass(COURTESY + Duration::from_secs(60));
    assert_eq!((states(), bench.server.snapshot().clients.len()), (0, 0));
    assert_eq!(keeper.status(&[]), NfsStatus::BADSESSION);
}

#[test]
fn repeated_incarnations_leave_one_client() {
    let bench = ServerUnderTest::new();
    for life in 0..=255_u8 {
        let mut client = bench.life("the same", life);
        let mut all = client.walk(&[b"share"]);
        all.push(Operation::Open(open_args(b"f", READ_WRITE, ALL, true)));
        // The earlier incarnation denied all access, and is over.
        assert_eq!(client.status(&all), NfsStatus::OK, "life {life}");
    }
    let clients = bench.server.snapshot().clients;
    assert_eq!(clients.len(), 1);
    assert_eq!((clients[0].states, clients[0].sessions.len()), (1, 1));
}

fn open_of(name: &str) -> Operation<'static> {
    let name: &'static str = String::leak(name.to_owned());
    Operation::Open(open_args(name.as_bytes(), READ_WRITE, 0, true))
}

#[test]
fn vanishing_clients_stay_within_the_limits() {
    const MOST: usize = 50;
    let bench = ServerUnderTest::new();
    const { assert!(STATES_MAX > MOST) };
    bench.configure(|config| config.states_max = MOST);
    let states = || bench.server.snapshot().clients.iter().map(|c| c.states).sum::<usize>();
    for number in 0..200_u32 {
        let mut client = bench.client(&format!("client {number}"));
        for file in 0..3 {
            let mut all = client.walk(&[b"share"]);
            all.push(open_of(&format!("file {number} {file}")));
            assert_eq!(client.status(&all), NfsStatus::OK, "who is away makes room");
        }
        assert!(states() <= MOST, "{}", states());
        bench.pass(bench.lease + Duration::from_millis(1));
    }
    assert!(states() > MOST - 10, "out of courtesy they keep what nobody needs");
    // Live clients retain their state.
    let mut here = bench.client("here");
    let mut opened = 0;
    let refusal = loop {
        let mut all = here.walk(&[b"share"]);
        all.push(open_of(&format!("own {opened}")));
        match here.status(&all) {
            NfsStatus::OK => opened += 1,
            other => break other,
        }
    };
    assert_eq!((opened, refusal, states()), (MOST, NfsStatus::DELAY, MOST));
}

#[test]
fn request_future_is_small() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("client");
    let job = client.begin(&[Operation::PutRootFh]);
    // A future is moved once when it starts: large ones cost more than their work.
    let bytes = size_of_val(&*job);
    assert!(bytes <= 8 * 1024, "{bytes} bytes");
}

#[test]
fn opens_of_one_host_leave_room_for_another() {
    const MOST: usize = 1000;
    let bench = ServerUnderTest::new();
    bench.configure(|config| config.states_max = MOST);
    let mut hog = bench.client_from("hog", 1);
    let mut opened = 0;
    let refusal = loop {
        let mut all = hog.walk(&[b"share"]);
        all.push(open_of(&format!("own {opened}")));
        match hog.status(&all) {
            NfsStatus::OK => opened += 1,
            other => break other,
        }
    };
    assert_eq!((opened, refusal), (MOST / 2, NfsStatus::DELAY));
    let mut again = bench.client_from("hog by another name", 1);
    let mut all = again.walk(&[b"share"]);
    all.push(open_of("more"));
    assert_eq!(again.status(&all), NfsStatus::DELAY, "clients of a host are charged together");
    let mut other = bench.client_from("other", 2);
    for number in 0..200 {
        let mut all = other.walk(&[b"share"]);
        all.push(open_of(&format!("other {number}")));
        assert_eq!(other.status(&all), NfsStatus::OK);
    }
}
