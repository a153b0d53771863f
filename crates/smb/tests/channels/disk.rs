//! A disk that loses written data: the response reports it, and a continuously available share
//! stops.

use crate::harness::{ConnectedClient, Net};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::memory::{CallOutcome, MemoryCall, MemoryOptions, MemoryVfs, StillClock, Surroundings};
use vfs::{FsError, Timestamp};
use wire::codec::put_utf16;
use wire::ntstatus::NtStatus;
use wire::smb::{
    Command, CreateRequest, FileId, FlushRequest, InfoType, SetInfoRequest, WriteRequest,
};

/// A disk that fails on demand.
struct SyncFailureDisk {
    clock: StillClock,
    error: FsError,
    fails: AtomicBool,
}

impl Surroundings for SyncFailureDisk {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn before(&self, call: MemoryCall) -> CallOutcome {
        let fails = call == MemoryCall::Sync && self.fails.load(Ordering::Relaxed);
        if fails { CallOutcome::Fails(self.error) } else { CallOutcome::Runs }
    }
}

fn net(error: FsError, continuously_available: bool) -> (Net, Arc<SyncFailureDisk>) {
    let fails = AtomicBool::new(false);
    let disk = Arc::new(SyncFailureDisk { clock: StillClock::default(), error, fails });
    let vfs = MemoryVfs::new(MemoryOptions::default(), disk.clone());
    let net = Net::over(Arc::new(vfs)).0;
    net.reload(|_, share| share.continuously_available = continuously_available);
    (net, disk)
}

fn flush(client: &mut ConnectedClient, file_id: FileId) -> NtStatus {
    client.status(Command::FLUSH, |w| FlushRequest { file_id }.encode(w))
}

/// Opens an existing file with FILE_DELETE_ON_CLOSE.
fn open_to_delete(client: &mut ConnectedClient, name: &str) -> FileId {
    let mut units = Vec::new();
    put_utf16(&mut units, name);
    let request = CreateRequest {
        oplock: 0,
        impersonation: 2,
        desired_access: 0x1_0000,
        attributes: 0,
        share_access: 7,
        disposition: wire::fscc::FILE_OPEN,
        options: 0x1040,
        name: &units,
        contexts: &[],
    };
    let reply = client.call(Command::CREATE, |w| request.encode(w));
    assert_eq!(reply.header.status, NtStatus::SUCCESS);
    reply.file()
}

fn set_info(client: &mut ConnectedClient, file_id: FileId, class: u8, input: &[u8]) -> NtStatus {
    let kind = InfoType::File;
    let request = SetInfoRequest { kind, class, additional: 0, file_id, input };
    client.status(Command::SET_INFO, |w| request.encode(w))
}

fn write(client: &mut ConnectedClient, file_id: FileId) -> NtStatus {
    let request = WriteRequest { offset_bytes: 0, file_id, flags: 0, data: b"x" };
    client.status(Command::WRITE, |w| request.encode(w))
}

fn create(client: &mut ConnectedClient, name: &str) -> NtStatus {
    let id = client.send_create(name, 0);
    client.reply_to(id).expect("a reply").header.status
}

#[test]
fn available_share_stops_when_its_disk_has_lost_data() {
    let (net, disk) = net(FsError::Io, true);
    let (mut client, mut other) = (net.ready(), net.ready());
    let file = client.create("f", 0);
    disk.fails.store(true, Ordering::Relaxed);
    assert_eq!(flush(&mut client, file), NtStatus::UNEXPECTED_IO_ERROR);
    disk.fails.store(false, Ordering::Relaxed);
    assert_eq!(flush(&mut client, file), NtStatus::UNEXPECTED_IO_ERROR, "the data is lost");
    assert_eq!(create(&mut other, "g"), NtStatus::UNEXPECTED_IO_ERROR);
    assert_eq!(other.connect_tree("data"), NtStatus::UNEXPECTED_IO_ERROR);
    assert_eq!(client.close(file), NtStatus::SUCCESS, "what it had can be given back");
}

#[test]
fn ordinary_share_continues_after_a_disk_failure() {
    let (net, disk) = net(FsError::Io, false);
    let mut client = net.ready();
    let file = client.create("f", 0);
    disk.fails.store(true, Ordering::Relaxed);
    assert_eq!(flush(&mut client, file), NtStatus::UNEXPECTED_IO_ERROR);
    disk.fails.store(false, Ordering::Relaxed);
    assert_eq!(flush(&mut client, file), NtStatus::SUCCESS);
    assert_eq!(create(&mut client, "g"), NtStatus::SUCCESS);
}

#[test]
fn full_disk_stops_no_share() {
    let (net, disk) = net(FsError::NoSpace, true);
    let mut client = net.ready();
    let file = client.create("f", 0);
    disk.fails.store(true, Ordering::Relaxed);
    assert_eq!(flush(&mut client, file), NtStatus::DISK_FULL);
    disk.fails.store(false, Ordering::Relaxed);
    assert_eq!(flush(&mut client, file), NtStatus::SUCCESS);
}

#[test]
fn removal_by_a_delete_on_close_open_is_stable_or_refused() {
    let (net, disk) = net(FsError::Io, true);
    let mut client = net.ready();
    for name in ["kept", "lost"] {
        let file = client.create(name, 0);
        assert_eq!(client.close(file), NtStatus::SUCCESS);
    }
    let file = open_to_delete(&mut client, "kept");
    assert_eq!(client.close(file), NtStatus::SUCCESS);
    let file = open_to_delete(&mut client, "lost");
    disk.fails.store(true, Ordering::Relaxed);
    assert_eq!(client.close(file), NtStatus::UNEXPECTED_IO_ERROR);
}

#[test]
fn refusal_without_disk_failure_stops_no_share() {
    for error in [FsError::TooMany, FsError::OverQuota] {
        let (net, disk) = net(error, true);
        let mut client = net.ready();
        let file = client.create("f", 0);
        disk.fails.store(true, Ordering::Relaxed);
        assert!(flush(&mut client, file).is_error());
        disk.fails.store(false, Ordering::Relaxed);
        assert_eq!(flush(&mut client, file), NtStatus::SUCCESS, "{error:?}");
    }
}

#[test]
fn removal_by_a_tree_or_session_end_is_stable_or_refused() {
    for command in [Command::TREE_DISCONNECT, Command::LOGOFF] {
        let (net, disk) = net(FsError::Io, true);
        let mut client = net.ready();
        let file = client.create("f", 0);
        assert_eq!(client.close(file), NtStatus::SUCCESS);
        open_to_delete(&mut client, "f");
        disk.fails.store(true, Ordering::Relaxed);
        assert_eq!(client.plain(command), NtStatus::UNEXPECTED_IO_ERROR, "{command:?}");
    }
}

/// FileModeInformation, FileEndOfFileInformation. MS-FSCC 2.4.
const MODE: u8 = 16;
const END_OF_FILE: u8 = 20;

#[test]
fn open_set_to_write_through_by_mode_is_stable_or_refused() {
    let (net, disk) = net(FsError::NoSpace, false);
    let mut client = net.ready();
    let file = client.create("f", 0);
    let change = |client: &mut ConnectedClient, class| match class {
        None => write(client, file),
        Some(class) => set_info(client, file, class, &8u64.to_le_bytes()),
    };
    disk.fails.store(true, Ordering::Relaxed);
    for class in [None, Some(END_OF_FILE)] {
        // With FILE_WRITE_THROUGH, and without it.
        assert_eq!(set_info(&mut client, file, MODE, &2u32.to_le_bytes()), NtStatus::SUCCESS);
        assert_eq!(change(&mut client, class), NtStatus::DISK_FULL, "{class:?}");
        assert_eq!(set_info(&mut client, file, MODE, &0u32.to_le_bytes()), NtStatus::SUCCESS);
        assert_eq!(change(&mut client, class), NtStatus::SUCCESS, "{class:?}");
    }
}

#[test]
fn mode_does_not_weaken_a_stable_share() {
    let (net, disk) = net(FsError::NoSpace, true);
    let mut client = net.ready();
    let file = client.create("f", 0);
    assert_eq!(set_info(&mut client, file, MODE, &0u32.to_le_bytes()), NtStatus::SUCCESS);
    disk.fails.store(true, Ordering::Relaxed);
    assert_eq!(write(&mut client, file), NtStatus::DISK_FULL);
}
