//! Logons by Kerberos tickets: their users, expiry, and delayed verdicts.

use crate::harness::{ALICE, BOB, ConnectedClient, Net};
use std::sync::atomic::Ordering;
use wire::ntstatus::NtStatus;
use wire::smb::Command;

/// Ticket lifetime from the start, in seconds.
const TICKET_SECONDS: u64 = 100;

fn log_on(client: &mut ConnectedClient, user: &str) -> NtStatus {
    let id = client.send_ticket(user);
    client.status_of_ticket(id).expect("a verdict")
}

#[test]
fn ticket_grants_root_only_if_the_account_allows_it() {
    let net = Net::new();
    // Both accounts are root; only the second permits ticket logons.
    assert_eq!(log_on(&mut net.connect(), ALICE), NtStatus::LOGON_FAILURE);
    assert_eq!(net.server.stats.logons_failed.load(Ordering::Relaxed), 1);
    assert_eq!(log_on(&mut net.connect(), BOB), NtStatus::SUCCESS);
}

#[test]
fn valid_ticket_of_an_unknown_user_is_refused_and_counted() {
    let net = Net::new();
    let mut client = net.connect();
    assert_eq!(log_on(&mut client, "mallory"), NtStatus::LOGON_FAILURE);
    assert_eq!(net.server.stats.logons_failed.load(Ordering::Relaxed), 1);
    assert_eq!(log_on(&mut client, BOB), NtStatus::SUCCESS);
}

#[test]
fn ticket_of_another_sid_is_refused() {
    let net = Net::new();
    net.tickets.refuses_sids.store(true, Ordering::Relaxed);
    assert_eq!(log_on(&mut net.connect(), BOB), NtStatus::LOGON_FAILURE);
}

#[test]
fn ticket_without_a_pac_names_its_account_exactly() {
    let net = Net::new();
    for other in ["BOB", "Bob", " bob", "bob "] {
        assert_eq!(log_on(&mut net.connect(), other), NtStatus::LOGON_FAILURE, "{other:?}");
    }
    assert_eq!(log_on(&mut net.connect(), BOB), NtStatus::SUCCESS);
    // A Windows domain ignores case.
    net.tickets.has_pac.store(true, Ordering::Relaxed);
    for other in ["BOB", "Bob", BOB] {
        assert_eq!(log_on(&mut net.connect(), other), NtStatus::SUCCESS, "{other:?}");
    }
    assert_eq!(log_on(&mut net.connect(), "bob "), NtStatus::LOGON_FAILURE);
}

#[test]
fn slow_ticket_delays_no_other_session_of_its_connection() {
    let net = Net::new();
    let mut client = net.connect();
    net.tickets.holds.store(true, Ordering::Relaxed);
    let slow = client.send_ticket(BOB);
    assert_eq!(client.status_of_ticket(slow), None);
    assert_eq!(client.log_on(ALICE), NtStatus::SUCCESS);
    assert_eq!(client.plain(Command::ECHO), NtStatus::SUCCESS);
    assert_eq!(client.status_of_ticket(slow), None);
    net.tickets.holds.store(false, Ordering::Relaxed);
    assert_eq!(client.status_of_ticket(slow), Some(NtStatus::SUCCESS));
    assert_eq!(client.plain(Command::ECHO), NtStatus::SUCCESS);
}

#[test]
fn reauthentication_behind_a_slow_one_keeps_its_order() {
    let net = Net::new();
    let mut client = net.connect();
    assert_eq!(log_on(&mut client, BOB), NtStatus::SUCCESS);
    net.tickets.holds.store(true, Ordering::Relaxed);
    let first = client.send_ticket(BOB);
    let second = client.send_ticket(BOB);
    assert_eq!(client.status_of_ticket(first), None);
    net.tickets.holds.store(false, Ordering::Relaxed);
    assert_eq!(client.status_of_ticket(first), Some(NtStatus::SUCCESS));
    assert_eq!(client.status_of_ticket(second), None, "its turn has come, and it is not over");
    client.pass(client.next_look().expect("its turn"));
    assert_eq!(client.status_of_ticket(second), Some(NtStatus::SUCCESS));
}

#[test]
fn session_with_an_expired_ticket_waits_for_reauthentication() {
    let net = Net::new();
    let mut client = net.connect();
    assert_eq!(log_on(&mut client, BOB), NtStatus::SUCCESS);
    assert_eq!(client.connect_tree("data"), NtStatus::SUCCESS);
    net.tick(TICKET_SECONDS - 1);
    assert_eq!(client.connect_tree("data"), NtStatus::SUCCESS);
    net.tick(TICKET_SECONDS);
    assert_eq!(client.connect_tree("data"), NtStatus::NETWORK_SESSION_EXPIRED);
    assert_eq!(client.plain(Command::TREE_DISCONNECT), NtStatus::NETWORK_SESSION_EXPIRED);
    assert_eq!(client.plain(Command::ECHO), NtStatus::SUCCESS);
    net.tickets.end_time.fetch_add(TICKET_SECONDS, Ordering::Relaxed);
    // The session keeps its keys. MS-SMB2 3.3.5.5.2.
    let id = client.send_ticket(BOB);
    assert_eq!(client.status_of_setup(id), Some(NtStatus::SUCCESS));
    assert_eq!(client.connect_tree("data"), NtStatus::SUCCESS);
    net.tick(2 * TICKET_SECONDS);
    assert_eq!(client.connect_tree("data"), NtStatus::NETWORK_SESSION_EXPIRED);
    assert_eq!(client.plain(Command::LOGOFF), NtStatus::SUCCESS);
}

#[test]
fn password_session_does_not_expire() {
    let net = Net::new();
    let mut client = net.ready();
    net.tick(1000 * TICKET_SECONDS);
    assert_eq!(client.connect_tree("data"), NtStatus::SUCCESS);
}
