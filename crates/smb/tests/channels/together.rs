//! Batch verification of requests that arrive together.

use crate::harness::Net;
use wire::ntstatus::NtStatus;
use wire::smb::Command;

#[test]
fn batch_refuses_only_the_wrongly_signed_requests() {
    let net = Net::new();
    let mut client = net.ready();
    let good = [true, false, true, true, false, true, true, true, true, true];
    let statuses = client.burst(&good.map(|is_good| (Command::ECHO, is_good)));
    let expected =
        good.map(|is_good| if is_good { NtStatus::SUCCESS } else { NtStatus::ACCESS_DENIED });
    assert_eq!(statuses, expected);
}

#[test]
fn batch_verdict_does_not_outlive_the_session() {
    let net = Net::new();
    let mut client = net.ready();
    let statuses = client.burst(&[(Command::LOGOFF, true), (Command::ECHO, true)]);
    assert_eq!(statuses, [NtStatus::SUCCESS, NtStatus::USER_SESSION_DELETED]);
}
