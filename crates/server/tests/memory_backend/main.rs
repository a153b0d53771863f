//! The server over a backend without a local directory: a tree in memory, reached by real SMB and
//! NFS connections. Each capability that a backend lacks has the fallback of `docs/dev/adding.md`.
#![allow(clippy::unwrap_used, reason = "a test fails that way")]

mod support;

use bytes::Bytes;
use client::nfs::{Disposition, LockRange, NfsDirectoryEntry, NfsExport};
use client::{Error, SmbOpenHow};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use support::client::{
    CHANGE_NOTIFY, CLOSE, CREATE, CreateRequestParts, IOCTL, LOCK, LOCK_NOT_GRANTED, PENDING, READ,
    RawSmbClient as RawClient, SUCCESS, WRITE,
};
use support::{MemoryServer, PATIENCE, library};
use vfs::memory::MemoryOptions;
use wire::nfs::NfsStatus;

/// FSCTL_SRV_ENUMERATE_SNAPSHOTS. MS-SMB2 2.2.31.
const ENUMERATE_SNAPSHOTS: u32 = 0x0014_4064;
/// STATUS_EAS_NOT_SUPPORTED. MS-ERREF 2.3.1.
const EAS_NOT_SUPPORTED: u32 = 0xC000_004F;
/// FileFullEaInformation. MS-FSCC 2.4.16.
const FULL_EA: u8 = 15;

fn start() -> MemoryServer {
    MemoryServer::start(MemoryOptions::default())
}

#[test]
fn memory_share_is_read_and_written_by_both_protocols() {
    let server = start();
    let shown = || BTreeSet::from(["dir", "three"].map(str::to_owned));
    server.block_on(async {
        assert!(server.service.is_exported("data"));
        let (smb, nfs) = (library::tree(&server).await, library::export(server.nfs, "data").await);
        smb.make_directory("dir").await.unwrap();
        let file = smb.open("dir\\one", &SmbOpenHow::read_write()).await.unwrap();
        file.write(0, &Bytes::from_static(b"by SMB")).await.unwrap();
        file.close().await.unwrap();
        let theirs = nfs.open_file("dir/one", Disposition::Open).await.unwrap();
        assert_eq!(&nfs.read(&theirs, 0, 100).await.unwrap()[..], b"by SMB");
        nfs.write(&theirs, 3, b"NFS").await.unwrap();
        nfs.commit(&theirs).await.unwrap();
        nfs.close(theirs).await.unwrap();
        let file = smb.open("DIR\\ONE", &SmbOpenHow::read()).await.unwrap();
        assert_eq!(&file.read(0, 100).await.unwrap()[..], b"by NFS");
        file.close().await.unwrap();
        smb.rename("dir\\one", "dir\\two", false).await.unwrap();
        nfs.rename("dir/two", "three").await.unwrap();
        let by_smb = smb.list("").await.unwrap().into_iter().map(|entry| entry.name);
        assert_eq!(by_smb.collect::<BTreeSet<_>>(), shown());
        let listed = nfs.list("").await.unwrap();
        let by_nfs = listed.iter().map(NfsDirectoryEntry::name_text);
        assert_eq!(by_nfs.collect::<BTreeSet<_>>(), shown());
        assert_eq!(server.tree.files(), [("three".to_owned(), b"by NFS".to_vec())]);
        nfs.remove("three").await.unwrap();
        smb.remove("dir").await.unwrap();
        assert!(smb.list("").await.unwrap().is_empty());
    });
}

#[test]
fn memory_share_lock_by_one_protocol_binds_the_other() {
    let server = start();
    let mut smb = RawClient::ready(&server);
    let file = smb.create("file");
    let nfs = server.block_on(library::export(server.nfs, "data"));
    let theirs = server.block_on(nfs.open_file("file", Disposition::Open)).unwrap();
    let range = LockRange { offset: 0, length: 1 };
    assert_eq!(smb.call(LOCK, &RawClient::lock_byte_body(file, 0, false)).status, SUCCESS);
    let refused = server.block_on(nfs.lock(&theirs, "owner", range, true)).unwrap_err();
    assert!(is_refusal(&refused, NfsStatus::DENIED), "{refused:?}");
    assert_eq!(smb.call(LOCK, &RawClient::lock_byte_body(file, 0, true)).status, SUCCESS);
    let held = server.block_on(nfs.lock(&theirs, "owner", range, true)).unwrap();
    let status = smb.call(LOCK, &RawClient::lock_byte_body(file, 0, false)).status;
    assert_eq!(status, LOCK_NOT_GRANTED);
    server.block_on(nfs.unlock(&theirs, held)).unwrap();
}

fn is_refusal(error: &Error, expected: NfsStatus) -> bool {
    matches!(error, Error::RefusedOperation(_, status) if *status == expected)
}

/// Opens the directory `dir` of the share for a watch.
fn open_directory(smb: &mut RawClient) -> support::client::RawFileId {
    let (access, share, disposition, options, contexts) = (0x0012_0089, 7, 1, 1, &[][..]);
    let wish = CreateRequestParts { name: "dir", access, share, disposition, options, contexts };
    smb.call(CREATE, &RawClient::create_with(&wish)).file_id()
}

/// Names in a CHANGE_NOTIFY reply. MS-FSCC 2.7.1.
fn changed_names(mut rest: &[u8]) -> Vec<(u32, String)> {
    let mut changes = Vec::new();
    loop {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let (next, action, length) = (number(0) as usize, number(4), number(8) as usize);
        let units = rest[12..12 + length].chunks_exact(2);
        let name: Vec<u16> = units.map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
        changes.push((action, String::from_utf16(&name).unwrap()));
        if next == 0 {
            return changes;
        }
        rest = &rest[next..];
    }
}

#[test]
fn memory_share_changes_of_both_protocols_are_notified() {
    let server = start();
    let (mut watcher, mut smb) = (RawClient::ready(&server), RawClient::ready(&server));
    let nfs = server.block_on(library::export(server.nfs, "data"));
    server.block_on(nfs.make_directory("dir")).unwrap();
    let directory = open_directory(&mut watcher);
    // FILE_NOTIFY_CHANGE_FILE_NAME. MS-SMB2 2.2.35.
    let watch = RawClient::change_notify_body(directory, 1);
    let mut changes = Vec::new();
    for by_nfs in [false, true] {
        watcher.send(CHANGE_NOTIFY, &watch);
        assert_eq!(watcher.receive().unwrap().status, PENDING);
        if by_nfs {
            let file = server.block_on(nfs.open_file("dir/nfs", Disposition::Create)).unwrap();
            server.block_on(nfs.close(file)).unwrap();
        } else {
            smb.create("dir\\smb");
        }
        let reply = watcher.receive().unwrap();
        assert_eq!(reply.status, SUCCESS);
        changes.extend(changed_names(reply.output()));
    }
    assert_eq!(changes, [(1, "smb".to_owned()), (1, "nfs".to_owned())]);
}

#[test]
fn memory_share_reports_no_snapshots_and_its_usage() {
    let server = start();
    let mut smb = RawClient::ready(&server);
    let file = smb.create("file");
    let body = RawClient::control_body(file, ENUMERATE_SNAPSHOTS, &[], 4096);
    let reply = smb.call(IOCTL, &body);
    assert_eq!(reply.status, SUCCESS);
    // NumberOfSnapShots and NumberOfSnapShotsReturned. MS-SMB2 2.2.32.2.
    let output = u32::from_le_bytes(reply.bytes[96..100].try_into().unwrap()) as usize;
    assert_eq!(reply.bytes[output..output + 8], [0; 8]);
    let data = vec![1; 60_000];
    assert_eq!(smb.call(WRITE, &RawClient::write_body(file, 0, &data)).status, SUCCESS);
    wait_for_usage(&server, |bytes| bytes >= 60_000);
    // Shrinkage shows only when the tree is measured again.
    server.block_on(async { library::tree(&server).await.remove("file").await }).unwrap();
    smb.call(CLOSE, &RawClient::close_body(file));
    wait_for_usage(&server, |bytes| bytes < 60_000);
}

/// Waits until the measured size of the share is as `expected` says.
fn wait_for_usage(server: &MemoryServer, expected: fn(u64) -> bool) {
    let begun = Instant::now();
    loop {
        let used = server.service.limits().snapshots(Instant::now())[0].1.used_bytes;
        if used.is_some_and(expected) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "used: {used:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn memory_share_keeps_its_opens_over_a_reload() {
    let server = start();
    let mut smb = RawClient::ready(&server);
    let file = smb.create("file");
    assert_eq!(smb.call(WRITE, &RawClient::write_body(file, 0, b"before")).status, SUCCESS);
    server.reload();
    let read = smb.call(READ, &RawClient::read_body(file, 0, 100));
    assert_eq!((read.status, read.data()), (SUCCESS, &b"before"[..]));
    assert_eq!(smb.call(LOCK, &RawClient::lock_byte_body(file, 0, false)).status, SUCCESS);
    let (again, mut other) = (RawClient::lock_byte_body, RawClient::ready(&server));
    let theirs = other.create("file");
    assert_eq!(other.call(LOCK, &again(theirs, 0, false)).status, LOCK_NOT_GRANTED);
}

/// Without handles a file cannot be named to an NFS client: the share is not exported.
#[test]
fn backend_without_handles_is_served_over_smb_alone() {
    let server =
        MemoryServer::start(MemoryOptions { has_handles: false, ..MemoryOptions::default() });
    let mut smb = RawClient::ready(&server);
    let file = smb.create("file");
    assert_eq!(smb.call(WRITE, &RawClient::write_body(file, 0, b"by SMB")).status, SUCCESS);
    assert!(!server.service.is_exported("data"), "it is not announced to NFS clients");
    let target = client::nfs::NfsTarget {
        name: "server".into(),
        address: server.nfs,
        uid: 0,
        gid: 0,
        instance: [9; 8],
    };
    let refused = server.block_on(async {
        let client = client::nfs::NfsClient::connect(target, Default::default()).await.unwrap();
        NfsExport::open(client, "data").await.unwrap_err()
    });
    assert!(is_refusal(&refused, NfsStatus::NOENT), "{refused:?}");
}

/// FILE_FULL_EA_INFORMATION with one attribute. MS-FSCC 2.4.16.
fn extended_attribute() -> Vec<u8> {
    [&[0, 0, 0, 0, 0, 1, 1, 0][..], b"a\0v"].concat()
}

#[test]
fn backend_without_xattrs_refuses_them_and_serves_the_rest() {
    for (has_xattrs, expected) in [(true, SUCCESS), (false, EAS_NOT_SUPPORTED)] {
        let options = MemoryOptions { has_xattrs, ..MemoryOptions::default() };
        let server = MemoryServer::start(options);
        let mut smb = RawClient::ready(&server);
        let file = smb.create("file");
        assert_eq!(smb.call(WRITE, &RawClient::write_body(file, 0, b"data")).status, SUCCESS);
        let body = RawClient::set_info_body(file, FULL_EA, &extended_attribute());
        let status = smb.call(support::client::SET_INFO, &body).status;
        assert_eq!(status, expected, "{status:#x}");
        let nfs = server.block_on(library::export(server.nfs, "data"));
        let theirs = server.block_on(nfs.open_file("file", Disposition::Open)).unwrap();
        assert_eq!(&server.block_on(nfs.read(&theirs, 0, 100)).unwrap()[..], b"data");
    }
}
