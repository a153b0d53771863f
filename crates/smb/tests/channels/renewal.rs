//! A session is renewed by the account that made its keys, and by nobody who would gain by it.

use crate::harness::{ALICE, BOB, Net, PASSWORD};
use wire::ntstatus::NtStatus;
use wire::smb::Command;

/// A man who relays BOB's logon would act as BOB under keys that he has himself.
#[test]
fn renewal_by_another_account_ends_the_session() {
    let net = Net::new();
    let mut client = net.ready_as(ALICE);
    assert_eq!(client.renew(BOB, PASSWORD), NtStatus::ACCESS_DENIED);
    assert_eq!(client.plain(Command::ECHO), NtStatus::USER_SESSION_DELETED);
    assert_eq!(client.connect_tree("data"), NtStatus::USER_SESSION_DELETED);
}

#[test]
fn renewal_by_the_same_account_goes_on() {
    let net = Net::new();
    let mut client = net.ready_as(ALICE);
    assert_eq!(client.renew(ALICE, PASSWORD), NtStatus::SUCCESS);
    assert_eq!(client.connect_tree("data"), NtStatus::SUCCESS);
}
