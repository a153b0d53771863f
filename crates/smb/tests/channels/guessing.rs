//! Delayed verification of wrong passwords, and its limits for correct ones.

use crate::harness::{ALICE, BOB, ConnectedClient, Net, PASSWORD};
use smb::limits::{LOGON_WAIT_MAX, WAITING_LOGONS_PER_CONNECTION, WAITING_LOGONS_PER_PAIR};
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::ntstatus::NtStatus;
use wire::smb::{Command, MessageId, SessionId};

/// The responses that have arrived.
fn answers(client: &mut ConnectedClient, ids: &[MessageId]) -> Vec<NtStatus> {
    ids.iter().filter_map(|id| client.status_of_setup(*id)).collect()
}

#[test]
fn right_guess_behind_wrong_ones_is_delayed() {
    let net = Net::new();
    let mut client = net.connect();
    let wrong: Vec<_> = (0..20).map(|_| client.send_guess(ALICE, "wrong")).collect();
    let right = client.send_guess(ALICE, PASSWORD);
    let answers = answers(&mut client, &wrong);
    let count = |status| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!(count(NtStatus::LOGON_FAILURE), 3, "{answers:?}");
    assert_eq!(answers.len(), wrong.len() - WAITING_LOGONS_PER_CONNECTION);
    assert_eq!(count(NtStatus::REQUEST_NOT_ACCEPTED), answers.len() - 3);
    assert_eq!(client.status_of_setup(right), Some(NtStatus::REQUEST_NOT_ACCEPTED));
    let stats = &net.server.stats;
    assert_eq!(stats.logons_delayed.load(Ordering::Relaxed), WAITING_LOGONS_PER_CONNECTION as u64);
    assert_eq!(stats.logons_refused_unchecked.load(Ordering::Relaxed), answers.len() as u64 - 2);
}

#[test]
fn guesses_on_one_connection_are_limited_to_tens_a_minute() {
    let net = Net::new();
    let mut client = net.connect();
    let (mut ids, mut time) = (Vec::new(), Duration::ZERO);
    // As many names as one address may have waiting, each repeatedly.
    for round in 0..2000 {
        ids.push(client.send_guess(&format!("user{}", round % 500), "wrong"));
        if let Some(look) = client.next_look()
            && round % 8 == 7
        {
            time = time.max(look);
            client.pass(time);
        }
        if time > Duration::from_mins(1) {
            break;
        }
    }
    assert!(time > Duration::from_mins(1));
    let answers = answers(&mut client, &ids);
    let judged = answers.iter().filter(|answer| **answer == NtStatus::LOGON_FAILURE).count();
    assert!((20..=60).contains(&judged), "{judged}");
}

#[test]
fn waiting_attempt_is_verified_when_due() {
    let net = Net::new();
    let mut client = net.connect();
    let _wrong: Vec<_> = (0..3).map(|_| client.send_guess(ALICE, "wrong")).collect();
    let right = client.send_guess(ALICE, PASSWORD);
    assert_eq!(client.status_of_setup(right), None);
    let look = client.next_look().unwrap();
    client.pass(look);
    assert_eq!(client.status_of_setup(right), Some(NtStatus::SUCCESS));
    assert_eq!(client.next_look(), None);
    // Its failures are cleared, so the next attempt is verified at once.
    let wrong = client.send_guess(ALICE, "wrong");
    assert_eq!(client.status_of_setup(wrong), Some(NtStatus::LOGON_FAILURE));
}

#[test]
fn attempt_that_waits_too_long_is_refused_unverified() {
    let net = Net::new();
    let mut client = net.connect();
    let mut time = Duration::ZERO;
    // Each is verified just before the next one.
    for _ in 0..20 {
        client.send_guess(ALICE, "wrong");
        time = client.next_look().unwrap_or(time).max(time);
        client.pass(time);
    }
    let ids: Vec<_> =
        (0..WAITING_LOGONS_PER_CONNECTION).map(|_| client.send_guess(ALICE, "wrong")).collect();
    let mut answered = Vec::new();
    while let Some(look) = client.next_look() {
        client.pass(look);
        answered = answers(&mut client, &ids).into_iter().chain(answered).collect();
        assert!(look <= time + 2 * LOGON_WAIT_MAX, "it ends");
    }
    assert_eq!(answered.len(), ids.len());
    assert!(answered.contains(&NtStatus::REQUEST_NOT_ACCEPTED), "{answered:?}");
}

#[test]
fn right_passwords_on_many_connections_are_not_delayed() {
    let net = Net::new();
    let first = net.ready();
    let mut clients: Vec<_> = (0..50).map(|_| net.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.log_on(ALICE), NtStatus::SUCCESS);
    }
    let mut channel = net.bound(&first);
    assert_eq!(channel.plain(Command::ECHO), NtStatus::SUCCESS);
    assert_eq!(net.server.stats.logons_delayed.load(Ordering::Relaxed), 0);
}

#[test]
fn success_keeps_failures_at_another_account() {
    let net = Net::new();
    let mut client = net.connect();
    for _ in 0..3 {
        let wrong = client.send_guess(ALICE, "wrong");
        assert_eq!(client.status_of_setup(wrong), Some(NtStatus::LOGON_FAILURE));
        let own = client.send_guess(BOB, PASSWORD);
        assert_eq!(client.status_of_setup(own), Some(NtStatus::SUCCESS));
    }
    let next = client.send_guess(ALICE, "wrong");
    assert_eq!(client.status_of_setup(next), None, "it waits");
}

#[test]
fn unverified_reauthentication_leaves_the_session() {
    let net = Net::new();
    let mut client = net.ready();
    // Three attempts are verified; the others fill the queue, one on each connection.
    let mut guessers: Vec<_> = (0..3 + WAITING_LOGONS_PER_PAIR).map(|_| net.connect()).collect();
    for guesser in &mut guessers {
        guesser.send_guess(ALICE, "wrong");
    }
    assert_eq!(client.renew(ALICE, PASSWORD), NtStatus::REQUEST_NOT_ACCEPTED);
    assert_eq!(client.plain(Command::ECHO), NtStatus::SUCCESS);
}

#[test]
fn setup_behind_a_delayed_one_keeps_its_order() {
    let net = Net::new();
    let mut client = net.connect();
    let _wrong: Vec<_> = (0..3).map(|_| client.send_guess(ALICE, "wrong")).collect();
    let wrong = client.send_guess(ALICE, "wrong");
    let behind = client.send_first();
    assert_eq!(client.status_of_setup(behind), None);
    client.pass(client.next_look().unwrap());
    assert_eq!(client.status_of_setup(wrong), Some(NtStatus::LOGON_FAILURE));
    client.pass(client.next_look().unwrap());
    // Its exchange has ended, so the session does not exist.
    assert_eq!(client.status_of_setup(behind), Some(NtStatus::USER_SESSION_DELETED));
    client.session = SessionId(0);
    assert_eq!(client.next_look(), None);
}
