//! A thousand clients cache one file when another client opens it exclusively.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use sim::crowd::{Crowd, CrowdOpen};
use std::time::{Duration, Instant};
use wire::ntstatus::NtStatus;

const HOLDERS: usize = 1000;
/// Only a hang takes this long; the test prints the actual time.
const HANG: Duration = Duration::from_secs(60);
const READ_AND_HANDLE: u8 = 3;

/// All clients hold leases, another client opens the file exclusively, and each lease is broken.
/// Returns the status of the open, and its duration.
fn storm(closes: bool) -> (NtStatus, Duration) {
    let mut crowd = Crowd::new(HOLDERS + 1).unwrap();
    crowd.make_files(1).unwrap();
    let mut files = Vec::new();
    for client in 0..HOLDERS {
        let lease = Some(READ_AND_HANDLE);
        crowd.ask_open(client, CrowdOpen { file: 0, key: client as u64, lease, share: 7 });
        let (status, file) = crowd.serve(client).unwrap().replies[0];
        assert_eq!(status, NtStatus::SUCCESS);
        files.push(file.unwrap());
    }
    let start = Instant::now();
    crowd.ask_open(HOLDERS, CrowdOpen { file: 0, key: 0, lease: None, share: 0 });
    assert!(crowd.serve(HOLDERS).unwrap().replies.is_empty(), "it waits");
    crowd.pass();
    for (client, file) in files.into_iter().enumerate() {
        assert_eq!(crowd.serve(client).unwrap().notices, 1, "{client} is notified once");
        if closes {
            crowd.ask_close(client, file);
        } else {
            crowd.acknowledge(client, client as u64, 1);
        }
        assert!(crowd.serve(HOLDERS).unwrap().replies.is_empty(), "{client} has not answered");
        assert_eq!(crowd.serve(client).unwrap().replies[0].0, NtStatus::SUCCESS);
    }
    let replies = crowd.serve(HOLDERS).unwrap().replies;
    assert_eq!(replies.len(), 1);
    (replies[0].0, start.elapsed())
}

#[test]
fn exclusive_open_breaks_a_thousand_leases() {
    for (closes, status) in [(true, NtStatus::SUCCESS), (false, NtStatus::SHARING_VIOLATION)] {
        let (ended, took) = storm(closes);
        assert_eq!(ended, status);
        println!("{HOLDERS} holders, closing {closes}: {took:?}");
        assert!(took < HANG, "{took:?}");
    }
}
