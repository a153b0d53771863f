//! Conflicts with files that a disconnected client has open: MS-SMB2 3.3.4.6, 3.3.4.7, 3.3.5.9
//! (FILE_NOT_AVAILABLE).

use crate::harness::{ALICE, BOB, ConnectedClient};
use crate::persistent::{net, open_by, ready};
use wire::ntstatus::NtStatus;
use wire::smb::{Command, FileId, fsctl};

const GUID: [u8; 16] = *b"a create's guid.";
const BATCH: u8 = 9;

/// Requests resiliency with this timeout. MS-SMB2 2.2.31.3.
fn make_resilient(client: &mut ConnectedClient, file: FileId, timeout_ms: u32) {
    let status = client.status(Command::IOCTL, |w| {
        w.u16(57);
        w.u16(0);
        w.u32(fsctl::LMR_REQUEST_RESILIENCY);
        file.encode(w);
        // The offset after the header and the fixed part of the body.
        w.u32(64 + 56);
        w.u32(8);
        w.zeros(4 + 4 + 4 + 4);
        w.u32(1);
        w.zeros(4);
        w.u32(timeout_ms);
        w.zeros(4);
    });
    assert_eq!(status, NtStatus::SUCCESS);
}

fn status_of_open(client: &mut ConnectedClient, name: &str) -> Option<NtStatus> {
    let id = client.send_create(name, 0);
    client.reply_to(id).map(|reply| reply.header.status)
}

#[test]
fn persistent_open_breaks_once_its_client_reconnects() {
    for also_resilient in [false, true] {
        let net = net();
        let (mut alice, mut bob) = (ready(&net, ALICE), ready(&net, BOB));
        let file = open_by(&mut alice, "f", GUID, BATCH).unwrap();
        if also_resilient {
            make_resilient(&mut alice, file, 10_000);
        }
        alice.cut();
        let id = bob.send_create("f", 0);
        assert!(bob.reply_to(id).is_none(), "it waits");
        net.tick(300);
        let status = bob.reply_to(id).map(|reply| reply.header.status);
        assert_eq!(status, Some(NtStatus::SUCCESS), "its time is over");
    }
}

#[test]
fn detached_persistent_open_makes_its_file_unavailable() {
    let net = net();
    let (mut alice, mut bob) = (ready(&net, ALICE), ready(&net, BOB));
    open_by(&mut alice, "f", GUID, 0).unwrap();
    assert_eq!(status_of_open(&mut bob, "f"), Some(NtStatus::SUCCESS));
    alice.cut();
    assert_eq!(status_of_open(&mut bob, "f"), Some(NtStatus::FILE_NOT_AVAILABLE));
    net.tick(300);
    assert_eq!(status_of_open(&mut bob, "f"), Some(NtStatus::SUCCESS));
}

#[test]
fn waiting_open_succeeds_when_a_resilient_client_disconnects() {
    let net = net();
    let (mut alice, mut bob) = (ready(&net, ALICE), ready(&net, BOB));
    let file = alice.create_new_leased("f", GUID);
    make_resilient(&mut alice, file, 10_000);
    let id = bob.send_create("f", 0);
    assert!(bob.reply_to(id).is_none(), "alice must acknowledge a break");
    alice.cut();
    let status = bob.reply_to(id).map(|reply| reply.header.status);
    assert_eq!(status, Some(NtStatus::SUCCESS));
}

#[test]
fn detached_resilient_open_yields_and_is_reconnected() {
    let net = net();
    let (mut alice, mut bob) = (ready(&net, ALICE), ready(&net, BOB));
    let file = alice.create_new_leased("f", GUID);
    make_resilient(&mut alice, file, 10_000);
    alice.cut();
    assert_eq!(status_of_open(&mut bob, "f"), Some(NtStatus::SUCCESS));
    let mut alice = ready(&net, ALICE);
    let id = alice.send_leased_return(file, GUID, "f");
    let reply = alice.reply_to(id).expect("a reply");
    assert_eq!((reply.header.status, reply.file()), (NtStatus::SUCCESS, file));
    assert_eq!(alice.close(file), NtStatus::SUCCESS);
}

#[test]
fn resilient_timeout_has_a_minimum() {
    let net = net();
    let mut alice = ready(&net, ALICE);
    let file = alice.create_new_leased("f", GUID);
    make_resilient(&mut alice, file, 1);
    alice.cut();
    let mut alice = ready(&net, ALICE);
    net.set_clock(0);
    let id = alice.send_leased_return(file, GUID, "f");
    let reply = alice.reply_to(id).expect("a reply");
    assert_eq!(reply.header.status, NtStatus::SUCCESS);
}
