//! Charges for the records of persistent opens.

use crate::harness::{ALICE, BOB, ConnectedClient, Net};
use limits::LedgerHolder;
use smb::limits::PERSISTENT_BYTES_MAX;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wire::codec::{Writer, put_utf16};
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::capabilities;
use wire::smb::{
    Command, CreateRequest, DurableRequestV2, FileId, InfoType, SetInfoRequest, put_context,
};

/// Journal of persistent opens, which only counts their records.
#[derive(Default)]
pub struct CountingJournal {
    writes: AtomicU64,
    fails: AtomicBool,
}

impl CountingJournal {
    /// Writes one record, and returns whether it succeeded.
    pub fn write(&self) -> bool {
        self.writes.fetch_add(1, Ordering::Relaxed);
        !self.fails.load(Ordering::Relaxed)
    }

    /// Number of records written, or tried to.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Lets all later writes fail.
    pub fn fail(&self) {
        self.fails.store(true, Ordering::Relaxed);
    }
}

/// A network with a share for persistent opens.
pub fn net() -> Net {
    let net = Net::new();
    net.reload(|_, share| share.continuously_available = true);
    net
}

/// A user's client that may have persistent opens.
pub fn ready(net: &Net, user: &str) -> ConnectedClient {
    let mut client = net.connect_with(capabilities::PERSISTENT_HANDLES);
    assert_eq!(client.log_on(user), NtStatus::SUCCESS);
    assert_eq!(client.connect_tree("data"), NtStatus::SUCCESS);
    client
}

/// Opens a file persistently.
fn open(client: &mut ConnectedClient, name: &str) -> Result<FileId, NtStatus> {
    // A CreateGuid for each name.
    open_by(client, name, [name.len() as u8; 16], 0)
}

/// Like [`open`], with this CreateGuid and oplock level.
pub fn open_by(
    client: &mut ConnectedClient,
    name: &str,
    create_guid: [u8; 16],
    oplock: u8,
) -> Result<FileId, NtStatus> {
    let (mut units, mut contexts, mut data) = (Vec::new(), Vec::new(), Vec::new());
    put_utf16(&mut units, name);
    let durable = DurableRequestV2 { timeout_ms: 0, persistent: true, create_guid };
    durable.encode(&mut Writer::new(&mut data));
    put_context(&mut contexts, b"DH2Q", &data);
    let request = CreateRequest {
        oplock,
        impersonation: 2,
        desired_access: 0x12_019F,
        attributes: 0,
        share_access: 7,
        disposition: wire::fscc::FILE_OPEN_IF,
        options: 0x40,
        name: &units,
        contexts: &contexts,
    };
    let reply = client.call(Command::CREATE, |w| request.encode(w));
    match reply.header.status {
        NtStatus::SUCCESS => Ok(reply.file()),
        refused => Err(refused),
    }
}

/// As smb2.persistent-open.replay-multi demands.
#[test]
fn replayed_persistent_create_without_an_open_is_refused() {
    let net = net();
    let mut client = ready(&net, ALICE);
    let mut data = Vec::new();
    let durable = DurableRequestV2 { timeout_ms: 0, persistent: true, create_guid: [5; 16] };
    durable.encode(&mut Writer::new(&mut data));
    let mut contexts = Vec::new();
    put_context(&mut contexts, b"DH2Q", &data);
    for (name, options) in [("d", wire::fscc::FILE_DIRECTORY_FILE), ("f", 0x40)] {
        let reply = client.replay_by(name, &contexts, |request| request.options = options);
        assert_eq!(reply.header.status, NtStatus::FILE_NOT_AVAILABLE, "{name}");
    }
}

#[test]
fn directory_of_an_available_share_is_opened_persistently() {
    let net = net();
    let mut client = ready(&net, ALICE);
    let (mut contexts, mut data) = (Vec::new(), Vec::new());
    let durable = DurableRequestV2 { timeout_ms: 0, persistent: true, create_guid: [5; 16] };
    durable.encode(&mut Writer::new(&mut data));
    put_context(&mut contexts, b"DH2Q", &data);
    let reply = client.create_by("d", &contexts, |request| {
        request.options = wire::fscc::FILE_DIRECTORY_FILE;
    });
    assert_eq!(reply.header.status, NtStatus::SUCCESS);
    assert!(reply.bytes.windows(4).any(|part| part == b"DH2Q"), "not granted");
}

#[test]
fn persistent_record_is_charged_until_the_close() {
    let net = net();
    let ledger = &net.server.holdings.persistent_bytes;
    let mut alice = ready(&net, ALICE);
    let file = open(&mut alice, "file").unwrap();
    let one = ledger.usage().used;
    assert!(one > 0);
    let other = open(&mut alice, "a file of a longer name").unwrap();
    assert!(ledger.usage().used > 2 * one, "the name is written down");
    assert_eq!(alice.close(other), NtStatus::SUCCESS);
    assert_eq!(ledger.usage().used, one);
    assert_eq!(alice.close(file), NtStatus::SUCCESS);
    assert_eq!(ledger.usage().used, 0);
}

#[test]
fn persistent_record_contains_stopped_times() {
    let net = net();
    let ledger = &net.server.holdings.persistent_bytes;
    let mut alice = ready(&net, ALICE);
    let file_id = open(&mut alice, "file").unwrap();
    let before = ledger.usage().used;
    for (time, more) in [(-1i64, 1), (0, 1), (-2, 0)] {
        assert_eq!(set_write_time(&mut alice, file_id, time), NtStatus::SUCCESS);
        assert_eq!(ledger.usage().used, before + more, "{time}");
    }
}

/// Sets the last write time by `file_id`, or stops (-1) or resumes (-2) it.
fn set_write_time(client: &mut ConnectedClient, file_id: FileId, time: i64) -> NtStatus {
    let mut input = vec![0; 40];
    input[16..24].copy_from_slice(&time.to_le_bytes());
    let (kind, class, additional, input) = (InfoType::File, 4, 0, &*input);
    let request = SetInfoRequest { kind, class, additional, file_id, input };
    client.status(Command::SET_INFO, |w| request.encode(w))
}

#[test]
fn user_at_the_persistent_record_limit_still_stops_times() {
    let net = net();
    let ledger = &net.server.holdings.persistent_bytes;
    let mut alice = ready(&net, ALICE);
    let file = open(&mut alice, "file").unwrap();
    let _hoard = ledger.account(&LedgerHolder::User(ALICE.into())).force(PERSISTENT_BYTES_MAX);
    let before = ledger.usage().used;
    assert_eq!(set_write_time(&mut alice, file, -1), NtStatus::SUCCESS);
    assert_eq!(ledger.usage().used, before + 1, "the record contains it");
}

#[test]
fn stopped_times_are_recorded_without_a_wait_for_the_journal() {
    let net = net();
    let mut alice = ready(&net, ALICE);
    let file = open(&mut alice, "file").unwrap();
    let written = net.journal.writes();
    net.journal.fail();
    assert_eq!(set_write_time(&mut alice, file, -1), NtStatus::SUCCESS);
    assert_eq!(net.journal.writes(), written + 1);
    assert_eq!(set_write_time(&mut alice, file, -1), NtStatus::SUCCESS);
    assert_eq!(net.journal.writes(), written + 1, "the record contains it already");
    assert_eq!(set_write_time(&mut alice, file, -2), NtStatus::SUCCESS);
    assert_eq!(net.journal.writes(), written + 2);
}

#[test]
fn user_at_the_persistent_record_limit_gets_no_more() {
    let net = net();
    let ledger = &net.server.holdings.persistent_bytes;
    let (mut alice, mut bob) = (ready(&net, ALICE), ready(&net, BOB));
    let file = open(&mut alice, "before").unwrap();
    let hoard = ledger.account(&LedgerHolder::User(ALICE.into())).force(PERSISTENT_BYTES_MAX / 2);
    assert_eq!(open(&mut alice, "more"), Err(NtStatus::INSUFFICIENT_RESOURCES));
    assert_eq!(ledger.usage().refused, 1);
    let of_bob = open(&mut bob, "of another user").unwrap();
    drop(hoard);
    let more = open(&mut alice, "more").unwrap();
    assert_eq!(bob.close(of_bob), NtStatus::SUCCESS);
    assert_eq!([file, more].map(|file| alice.close(file)), [NtStatus::SUCCESS; 2]);
    assert_eq!(ledger.usage().used, 0);
}
