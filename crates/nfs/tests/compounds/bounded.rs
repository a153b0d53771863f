//! Clients that come, take something, and never come back: what they leave is bounded.

use crate::harness::*;
use nfs::limits::{COURTESY, UNCONFIRMED_CLIENTS_MAX};
use std::time::Duration;
use wire::nfs::NfsStatus;
use wire::nfs::ops::Operation;

#[test]
fn introductions_that_lead_to_nothing_are_bounded() {
    let bench = Bench::new();
    let mut conn = bench.conn();
    for number in 0..100_000_u32 {
        // Each under a name of its own.
        let answered = answer(&mut conn, introduction(&format!("client {number}"), 1));
        assert_eq!(status_of(&answered), NfsStatus::OK);
    }
    let clients = bench.server.snapshot().clients;
    assert_eq!(clients.len(), UNCONFIRMED_CLIENTS_MAX);
    let mut after = bench.client("who means it");
    assert_eq!(after.status(&[]), NfsStatus::OK, "and keep nobody out");
}

#[test]
fn what_a_client_opens_and_leaves_goes_when_its_time_is_over() {
    let bench = Bench::new();
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
fn one_connection_that_begins_a_new_life_each_time_leaves_one_client() {
    let bench = Bench::new();
    for life in 0..=255_u8 {
        let mut client = bench.life("the same", life);
        let mut all = client.walk(&[b"share"]);
        all.push(Operation::Open(open_args(b"f", READ_WRITE, ALL, true)));
        // The life before denied everything to everybody, and is over.
        assert_eq!(client.status(&all), NfsStatus::OK, "life {life}");
    }
    let clients = bench.server.snapshot().clients;
    assert_eq!(clients.len(), 1);
    assert_eq!((clients[0].states, clients[0].sessions.len()), (1, 1));
}
