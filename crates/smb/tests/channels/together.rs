//! Requests that arrive together have their signatures looked at together.

use crate::harness::Net;
use wire::ntstatus::NtStatus;
use wire::smb::Command;

#[test]
fn of_requests_that_arrive_together_only_those_with_a_wrong_signature_are_refused() {
    let net = Net::new();
    let mut client = net.ready();
    let good = [true, false, true, true, false, true, true, true, true, true];
    let statuses = client.burst(&good.map(|is_good| (Command::ECHO, is_good)));
    let expected =
        good.map(|is_good| if is_good { NtStatus::SUCCESS } else { NtStatus::ACCESS_DENIED });
    assert_eq!(statuses, expected);
}

#[test]
fn what_was_found_of_a_signature_does_not_outlive_the_session() {
    let net = Net::new();
    let mut client = net.ready();
    let statuses = client.burst(&[(Command::LOGOFF, true), (Command::ECHO, true)]);
    assert_eq!(statuses, [NtStatus::SUCCESS, NtStatus::USER_SESSION_DELETED]);
}
