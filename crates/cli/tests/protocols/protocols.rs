//! One directory over both protocols at once, by the clients of this repository.

use crate::support::client::{
    CHANGE_NOTIFY, CLOSE, CREATE, CreateRequestParts, LOCK, LOCK_NOT_GRANTED, OPLOCK_BREAK,
    PENDING, QUERY_INFO, READ, RawFileId, RawSmbClient, SUCCESS, WRITE,
};
use crate::support::library::{self, FixedHost};
use crate::support::relay::Relay;
use crate::support::{ServerProcess, Setup};
use bytes::Bytes;
use client::nfs::{
    Disposition, LockRange, NfsClient, NfsExport, NfsOpenParameters, NfsOptions, NfsTarget,
};
use client::{ClientHost, Error, SmbOpenHow};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use wire::nfs::ops::{ShareAccess, ShareDeny};
use wire::nfs::{NfsStatus, OperationNumber};
use wire::ntstatus::NtStatus;

/// Minimum NFS lease time in seconds.
const LEASE_SECONDS: u64 = 5;

/// A server of both protocols.
fn start(host: u8) -> (ServerProcess, SocketAddr) {
    let mut setup = Setup::new().server(&format!("nfs_lease_seconds = {LEASE_SECONDS}"));
    setup.shares += "nfs_squash = \"none\"\n";
    let nfs = setup.serve_nfs(host, 24459);
    (setup.start(), nfs)
}

async fn over_nfs(address: SocketAddr) -> NfsExport {
    over_nfs_with(address, NfsOptions::default()).await
}

async fn over_nfs_with(address: SocketAddr, options: NfsOptions) -> NfsExport {
    let mut instance = [0; 8];
    FixedHost.random(&mut instance);
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let target = NfsTarget { name: "nfs".into(), address, uid, gid, instance };
    let client = NfsClient::connect(target, options).await.unwrap();
    NfsExport::open(client, "data").await.unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(crate::support::PATIENCE, future).await.expect("it takes too long")
    })
}

#[test]
fn changes_of_one_protocol_are_visible_to_the_other() {
    let (server, nfs) = start(97);
    block_on(async {
        let (smb, nfs) = (library::tree(&server).await, over_nfs(nfs).await);
        nfs.make_directory("dir").await.unwrap();
        let ours = smb.open("dir/file", &SmbOpenHow::read_write()).await.unwrap();
        ours.write(0, &Bytes::from_static(b"by SMB")).await.unwrap();
        let theirs = nfs.open_file("dir/file", Disposition::Open).await.unwrap();
        assert_eq!(nfs.read(&theirs, 0, 100).await.unwrap()[..], *b"by SMB");
        nfs.write(&theirs, 3, b"NFS, too").await.unwrap();
        assert_eq!(ours.read(0, 100).await.unwrap()[..], *b"by NFS, too");
        nfs.set_size(&theirs, 2).await.unwrap();
        assert_eq!(ours.size().await.unwrap(), 2);
        ours.close().await.unwrap();
        smb.rename("dir/file", "dir/new name", false).await.unwrap();
        assert_eq!(nfs.read(&theirs, 0, 100).await.unwrap()[..], *b"by", "by its handle");
        nfs.close(theirs).await.unwrap();
        let names: Vec<String> = nfs
            .list("dir")
            .await
            .unwrap()
            .iter()
            .map(client::nfs::NfsDirectoryEntry::name_text)
            .collect();
        assert_eq!(names, ["new name"]);
        let found = nfs.stat("dir/new name").await.unwrap();
        assert_eq!(found.size_bytes, smb.stat("dir/new name").await.unwrap().size_bytes);
        nfs.remove("dir/new name").await.unwrap();
        let gone = smb.stat("dir/new name").await.unwrap_err();
        assert_eq!(gone.status(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
    });
}

#[test]
fn share_modes_deny_conflicting_opens_across_protocols() {
    let (server, nfs) = start(98);
    block_on(async {
        let (smb, nfs) = (library::tree(&server).await, over_nfs(nfs).await);
        let alone = SmbOpenHow { share: 0, ..SmbOpenHow::read_write() };
        let ours = smb.open("file", &alone).await.unwrap();
        let denied = nfs.open_file("file", Disposition::Open).await.unwrap_err();
        let expected = Error::RefusedOperation(OperationNumber::OPEN, NfsStatus::SHARE_DENIED);
        assert_eq!(denied, expected);
        ours.close().await.unwrap();
        let theirs = nfs.open_file("file", Disposition::Open).await.unwrap();
        let denied = smb.open("file", &alone).await.unwrap_err();
        assert_eq!(denied.status(), Some(NtStatus::SHARING_VIOLATION));
        let beside = smb.open("file", &SmbOpenHow::read_write()).await.unwrap();
        beside.close().await.unwrap();
        nfs.close(theirs).await.unwrap();
        smb.open("file", &alone).await.unwrap().close().await.unwrap();
    });
}

#[test]
fn courtesy_nfs_client_opens_yield_to_smb() {
    let (server, nfs) = start(99);
    block_on(async {
        let (smb, nfs) = (library::tree(&server).await, over_nfs(nfs).await);
        let left = nfs.open_file("file", Disposition::Create).await.unwrap();
        // The client vanishes: its connections end, its opens remain.
        drop((left, nfs));
        let alone = SmbOpenHow { share: 0, ..SmbOpenHow::read_write() };
        let denied = smb.open("file", &alone).await.unwrap_err();
        assert_eq!(denied.status(), Some(NtStatus::SHARING_VIOLATION), "it may come back");
        tokio::time::sleep(Duration::from_secs(LEASE_SECONDS + 1)).await;
        smb.open("file", &alone).await.unwrap().close().await.unwrap();
    });
}

/// A dead connection reports no error; the session continues on another.
#[test]
fn silent_nfs_connection_is_dropped_and_requests_move() {
    let (server, nfs) = start(117);
    block_on(async {
        let relay = Relay::new(nfs).await;
        let patience = Duration::from_secs(1);
        let options = NfsOptions { patience, ..NfsOptions::default() };
        let nfs = over_nfs_with(relay.address, options).await;
        let file = nfs.open_file("silent", Disposition::Create).await.unwrap();
        // A client without requests in flight keeps its connection.
        tokio::time::sleep(3 * patience).await;
        let connections = || relay.connections.load(Ordering::Relaxed);
        assert_eq!(connections(), 1);
        relay.fall_silent();
        let begun = Instant::now();
        let work = async {
            nfs.make_directory("once").await.unwrap();
            nfs.write(&file, 0, b"content").await.unwrap();
        };
        let ((), ()) = tokio::join!(work, async {
            tokio::time::sleep(patience / 2).await;
            relay.speak_again();
        });
        assert!(begun.elapsed() >= patience / 2, "it was given time");
        assert_eq!(connections(), 2);
        nfs.close(file).await.unwrap();
    });
    assert_eq!(std::fs::read(server.data().join("silent")).unwrap(), b"content");
}

/// A runtime that runs while the other client waits.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// An NFS client with a backchannel.
async fn called_back(address: SocketAddr) -> NfsExport {
    let options = NfsOptions { callbacks: true, ..NfsOptions::default() };
    over_nfs_with(address, options).await
}

const SHARING_VIOLATION: u32 = 0xC000_0043;
const FILE_LOCK_CONFLICT: u32 = 0xC000_0054;

fn open_both(deny: ShareDeny) -> NfsOpenParameters {
    let access = ShareAccess::BOTH | ShareAccess::WANT_NO_DELEG;
    NfsOpenParameters { access, deny, creates: true }
}

#[test]
fn ranges_that_one_protocol_has_locked_are_locked_for_the_other() {
    let (server, nfs) = start(110);
    let (runtime, mut smb) = (runtime(), RawSmbClient::ready(&server));
    let nfs = runtime.block_on(over_nfs(nfs));
    let (theirs, _) = runtime.block_on(nfs.open_as("file", open_both(ShareDeny(0)))).unwrap();
    let ours = smb.create("file");
    let mut lock = |at, unlocks| smb.call(LOCK, &RawSmbClient::lock_byte_body(ours, at, unlocks));
    let range = |offset| LockRange { offset, length: 10 };
    let locked = runtime.block_on(nfs.lock(&theirs, "program", range(0), true)).unwrap();
    assert_eq!(lock(9, false).status, LOCK_NOT_GRANTED);
    assert_eq!(lock(10, false).status, SUCCESS, "behind it");
    let denied = runtime.block_on(nfs.lock(&theirs, "program", range(10), false)).unwrap_err();
    let expected = Error::RefusedOperation(OperationNumber::LOCK, NfsStatus::DENIED);
    assert_eq!(denied, expected);
    runtime.block_on(nfs.unlock(&theirs, locked)).unwrap();
    assert_eq!(lock(9, false).status, SUCCESS);
    assert_eq!(lock(10, true).status, SUCCESS);
    let locked = runtime.block_on(nfs.lock(&theirs, "program", range(10), true)).unwrap();
    let written = smb.call(WRITE, &RawSmbClient::write_body(ours, 12, b"x")).status;
    assert_eq!(written, FILE_LOCK_CONFLICT, "to SMB locks are mandatory");
    runtime.block_on(nfs.unlock(&theirs, locked)).unwrap();
    assert_eq!(smb.call(WRITE, &RawSmbClient::write_body(ours, 12, b"x")).status, SUCCESS);
}

#[test]
fn nfs_share_deny_applies_to_smb_opens() {
    let (server, nfs) = start(111);
    let (runtime, mut smb) = (runtime(), RawSmbClient::ready(&server));
    let nfs = runtime.block_on(over_nfs(nfs));
    let deny = open_both(ShareDeny::WRITE);
    let (theirs, _) = runtime.block_on(nfs.open_as("file", deny)).unwrap();
    assert_eq!(smb.try_create("file"), Err(SHARING_VIOLATION));
    runtime.block_on(nfs.close(theirs)).unwrap();
    let ours = smb.create("file");
    let denied = runtime.block_on(nfs.open_as("file", deny)).unwrap_err();
    let expected = Error::RefusedOperation(OperationNumber::OPEN, NfsStatus::SHARE_DENIED);
    assert_eq!(denied, expected);
    assert_eq!(smb.call(CLOSE, &RawSmbClient::close_body(ours)).status, SUCCESS);
    runtime.block_on(nfs.open_as("file", deny)).unwrap();
}

/// Number, last write and change of an open file, as SMB shows them.
fn shown(smb: &mut RawSmbClient, file: RawFileId) -> (u64, u64, u64) {
    let mut ask = |class| smb.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 1, class, 0));
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let basic = ask(4).output().to_vec();
    (number(ask(6).output()), number(&basic[16..]), number(&basic[24..]))
}

#[test]
fn file_id_and_times_match_across_protocols() {
    let (server, nfs) = start(112);
    let (runtime, mut smb) = (runtime(), RawSmbClient::ready(&server));
    let nfs = runtime.block_on(over_nfs(nfs));
    let ours = smb.create("file");
    let stat = || runtime.block_on(nfs.stat("file")).unwrap();
    let (before, (number, written, changed)) = (stat(), shown(&mut smb, ours));
    assert_eq!(before.id, number);
    let modified = before.times[1];
    // FILETIME: steps of 100 ns since 1601.
    let since_1601 = (modified.seconds + 11_644_473_600) as u64 * 10_000_000;
    assert_eq!(since_1601 + u64::from(modified.nanoseconds) / 100, written);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(smb.call(WRITE, &RawSmbClient::write_body(ours, 0, b"SMB")).status, SUCCESS);
    let by_smb = stat();
    assert_ne!(by_smb.change, before.change, "another change attribute after a write by SMB");
    std::thread::sleep(Duration::from_millis(20));
    let theirs = runtime.block_on(nfs.open_file("file", Disposition::Open)).unwrap();
    runtime.block_on(nfs.write(&theirs, 0, b"NFS")).unwrap();
    let (same, _, by_nfs) = shown(&mut smb, ours);
    assert!(same == number && by_nfs > changed, "another change time after one by NFS");
    assert_ne!(stat().change, by_smb.change);
}

/// Actions and names in a CHANGE_NOTIFY reply. MS-FSCC 2.7.1.
fn changes_in(mut rest: &[u8]) -> Vec<(u32, String)> {
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
fn nfs_changes_are_notified_to_smb_watchers() {
    let (server, nfs) = start(113);
    let (runtime, mut smb) = (runtime(), RawSmbClient::ready(&server));
    let nfs = runtime.block_on(over_nfs(nfs));
    runtime.block_on(nfs.make_directory("dir")).unwrap();
    let wish = CreateRequestParts {
        name: "dir",
        access: 0x0012_0089,
        share: 7,
        disposition: 1,
        options: 1,
        contexts: &[],
    };
    let directory = smb.call(CREATE, &RawSmbClient::create_with(&wish)).file_id();
    let watch = RawSmbClient::change_notify_body(directory, 0x17F);
    smb.send(CHANGE_NOTIFY, &watch);
    assert_eq!(smb.receive().unwrap().status, PENDING);
    let file = runtime.block_on(nfs.open_file("dir/one", Disposition::Create)).unwrap();
    runtime.block_on(nfs.close(file)).unwrap();
    runtime.block_on(nfs.rename("dir/one", "dir/two")).unwrap();
    runtime.block_on(nfs.remove("dir/two")).unwrap();
    let is_of_name = |(action, _): &(u32, String)| *action != 3;
    let mut changes = Vec::new();
    for _ in 0..8 {
        let reply = smb.receive().unwrap();
        if reply.status == PENDING {
            continue;
        }
        assert_eq!(reply.status, SUCCESS);
        changes.extend(changes_in(reply.output()).into_iter().filter(is_of_name));
        if changes.len() >= 4 {
            break;
        }
        smb.send(CHANGE_NOTIFY, &watch);
    }
    let expected = [(1, "one"), (4, "one"), (5, "two"), (2, "two")];
    assert_eq!(changes, expected.map(|(action, name)| (action, name.to_owned())));
}

#[test]
fn smb_open_waits_until_nfs_delegation_is_returned() {
    let (server, nfs) = start(114);
    let (runtime, mut smb) = (runtime(), RawSmbClient::ready(&server));
    let nfs = runtime.block_on(called_back(nfs));
    let access = ShareAccess::BOTH | ShareAccess::WANT_WRITE_DELEG;
    let wish = NfsOpenParameters { access, deny: ShareDeny(0), creates: true };
    let (theirs, delegation) = runtime.block_on(nfs.open_as("file", wish)).unwrap();
    let delegation = delegation.expect("nobody else has it");
    assert!(delegation.is_write);
    smb.send(CREATE, &RawSmbClient::create_body("file"));
    assert_eq!(smb.receive().unwrap().status, PENDING);
    let recall = runtime.block_on(nfs.client().recalled());
    assert!(recall.is_of(&delegation));
    runtime.block_on(nfs.write(&theirs, 0, b"kept back")).unwrap();
    runtime.block_on(nfs.return_delegation(delegation)).unwrap();
    let reply = smb.receive().unwrap();
    assert_eq!(reply.status, SUCCESS);
    let read = smb.call(READ, &RawSmbClient::read_body(reply.file_id(), 0, 100));
    assert_eq!(read.data(), b"kept back");
}

/// A lease key, and the bits of a lease state: read, handle and write caching.
const KEY: [u8; 16] = *b"a lease's key...";
const READS: u32 = 1;
const HANDLES: u32 = 2;
const WRITES: u32 = 4;

/// Opens `name` with a request for a full lease. Returns the granted lease state.
fn open_leased(smb: &mut RawSmbClient, name: &str) -> (RawFileId, u32) {
    let all = READS | HANDLES | WRITES;
    let data = [&KEY[..], &all.to_le_bytes(), &[0; 4 + 8 + 16 + 4]].concat();
    let mut body = RawSmbClient::create_body_with(name, &[(b"RqLs", data)]);
    body[3] = 0xFF;
    let reply = smb.call(CREATE, &body);
    assert_eq!(reply.status, SUCCESS);
    let state = reply.context(b"RqLs").expect("it is under a lease")[16..20].try_into().unwrap();
    (reply.file_id(), u32::from_le_bytes(state))
}

/// Receives the next lease break: states before and after, and whether it needs an acknowledgment.
fn hear_break(smb: &mut RawSmbClient) -> (u32, u32, bool) {
    let notice = smb.receive().unwrap().bytes;
    assert_eq!(&notice[72..88], KEY, "a break of the lease");
    let number = |at: usize| u32::from_le_bytes(notice[at..at + 4].try_into().unwrap());
    (number(88), number(92), number(68) & 1 != 0)
}

fn acknowledge(smb: &mut RawSmbClient, left: u32) {
    let answer = [&[36, 0, 0, 0, 0, 0, 0, 0], &KEY[..], &left.to_le_bytes(), &[0; 8]].concat();
    assert_eq!(smb.call(OPLOCK_BREAK, &answer).status, SUCCESS);
}

/// Receives the next lease break: states before and after. Acknowledges it if needed.
fn next_break(smb: &mut RawSmbClient) -> (u32, u32) {
    let (had, left, is_asked) = hear_break(smb);
    if is_asked {
        acknowledge(smb, left);
    }
    (had, left)
}

#[test]
fn draining_recalls_cached_state_of_open_clients() {
    let (server, nfs) = start(125);
    let (runtime, mut smb) = (runtime(), RawSmbClient::ready_3(&server, [7; 16]));
    let nfs = runtime.block_on(called_back(nfs));
    let (ours, granted) = open_leased(&mut smb, "ours");
    let access = ShareAccess::BOTH | ShareAccess::WANT_WRITE_DELEG;
    let wish = NfsOpenParameters { access, deny: ShareDeny(0), creates: true };
    let (theirs, delegation) = runtime.block_on(nfs.open_as("theirs", wish)).unwrap();
    let delegation = delegation.expect("nobody else has it");
    assert!(server.ask("POST", "/v1/drain", "{\"within_seconds\": 600}").contains(" 200 "));
    let (had, left, is_asked) = hear_break(&mut smb);
    assert_eq!((had, left, is_asked), (granted, READS, true), "what others read may be kept");
    assert_eq!(smb.call(WRITE, &RawSmbClient::write_body(ours, 0, b"kept back")).status, SUCCESS);
    acknowledge(&mut smb, left);
    assert!(runtime.block_on(nfs.client().recalled()).is_of(&delegation));
    runtime.block_on(nfs.write(&theirs, 0, b"kept back, too")).unwrap();
    runtime.block_on(nfs.return_delegation(delegation)).unwrap();
    let read = |name: &str| std::fs::read(server.data().join(name)).unwrap();
    assert_eq!(
        (&read("ours")[..], &read("theirs")[..]),
        (&b"kept back"[..], &b"kept back, too"[..])
    );
}

#[test]
fn stopping_server_recalls_cached_writes_within_time_limit() {
    for answers in [true, false] {
        let (mut server, _) = start(126);
        let mut smb = RawSmbClient::ready_3(&server, [7; 16]);
        let (ours, _) = open_leased(&mut smb, "ours");
        let start = Instant::now();
        server.signal("TERM");
        let (_, left, _) = hear_break(&mut smb);
        if answers {
            // The notification may arrive a moment later.
            std::thread::sleep(Duration::from_millis(500));
            let written = smb.call(WRITE, &RawSmbClient::write_body(ours, 0, b"kept back"));
            assert_eq!(written.status, SUCCESS);
            acknowledge(&mut smb, left);
        }
        assert!(server.ended().success());
        assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
        let wanted: &[u8] = if answers { b"kept back" } else { b"" };
        assert_eq!(std::fs::read(server.data().join("ours")).unwrap(), wanted);
    }
}

/// Acknowledges breaks of the lease until it has no handle caching.
fn lose_handles(smb: &mut RawSmbClient) {
    let lost = (0..3).any(|_| next_break(smb).1 & HANDLES == 0);
    assert!(lost, "handles are still kept");
}

#[test]
fn nfs_open_and_write_break_smb_leases() {
    let (server, nfs) = start(115);
    let (runtime, mut smb) = (runtime(), RawSmbClient::ready_3(&server, [7; 16]));
    let nfs = Arc::new(runtime.block_on(over_nfs(nfs)));
    let (ours, granted) = open_leased(&mut smb, "file");
    assert_eq!(granted, READS | HANDLES | WRITES);
    let opening = runtime.spawn({
        let nfs = nfs.clone();
        async move { nfs.open_as("file", open_both(ShareDeny(0))).await.unwrap().0 }
    });
    let (had, left) = next_break(&mut smb);
    assert_eq!((had, left & WRITES), (granted, 0), "writes are not kept back any more");
    assert_ne!(left & READS, 0, "an open alone changes nothing");
    let theirs = runtime.block_on(opening).unwrap();
    let writing = runtime.spawn({
        let nfs = nfs.clone();
        async move { nfs.write(&theirs, 0, b"by NFS").await.unwrap() }
    });
    assert_eq!(next_break(&mut smb).1 & READS, 0, "what was read is not so any more");
    runtime.block_on(writing).unwrap();
    assert_eq!(smb.call(READ, &RawSmbClient::read_body(ours, 0, 100)).data(), b"by NFS");
}

#[test]
fn nfs_name_and_attribute_changes_break_smb_leases() {
    let (server, nfs) = start(116);
    let (runtime, mut smb) = (runtime(), RawSmbClient::ready_3(&server, [7; 16]));
    let nfs = Arc::new(runtime.block_on(over_nfs(nfs)));
    let (theirs, _) = runtime.block_on(nfs.open_as("file", open_both(ShareDeny(0)))).unwrap();
    let (ours, granted) = open_leased(&mut smb, "file");
    assert_ne!(granted & READS, 0);
    let changing = runtime.spawn({
        let nfs = nfs.clone();
        async move { nfs.set_size(&theirs, 3).await.map(|()| theirs).unwrap() }
    });
    assert_eq!(next_break(&mut smb).1 & READS, 0, "its length");
    let theirs = runtime.block_on(changing).unwrap();
    runtime.block_on(nfs.close(theirs)).unwrap();
    assert_eq!(smb.call(CLOSE, &RawSmbClient::close_body(ours)).status, SUCCESS);

    let (ours, granted) = open_leased(&mut smb, "file");
    assert_ne!(granted & HANDLES, 0);
    let renaming = runtime.spawn({
        let nfs = nfs.clone();
        async move { nfs.rename("file", "other").await }
    });
    lose_handles(&mut smb);
    runtime.block_on(renaming).unwrap().unwrap();
    assert_eq!(smb.call(CLOSE, &RawSmbClient::close_body(ours)).status, SUCCESS);

    let (ours, granted) = open_leased(&mut smb, "other");
    assert_ne!(granted & HANDLES, 0);
    let removing = runtime.spawn({
        let nfs = nfs.clone();
        async move { nfs.remove("other").await }
    });
    lose_handles(&mut smb);
    assert_eq!(smb.call(CLOSE, &RawSmbClient::close_body(ours)).status, SUCCESS);
    runtime.block_on(removing).unwrap().unwrap();
    assert!(runtime.block_on(nfs.list("")).unwrap().is_empty());
}
