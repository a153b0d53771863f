//! One directory over both protocols at once, by the clients of this repository.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

use bytes::Bytes;
use client::nfs::{Client as NfsClient, Export, Options as NfsOptions, Target as NfsTarget};
use client::{Error, Host, OpenHow};
use std::net::SocketAddr;
use std::time::Duration;
use support::library::{self, World};
use support::{Running, Setup};
use wire::nfs::{NfsStatus, OperationNumber};
use wire::ntstatus::NtStatus;

/// Seconds after which a client of NFS that says nothing is away: the least.
const LEASE_SECONDS: u64 = 5;

/// A server of both.
fn start(host: u8) -> (Running, SocketAddr) {
    let mut setup = Setup::new().server(&format!("nfs_lease_seconds = {LEASE_SECONDS}"));
    setup.shares += "nfs_squash = \"none\"\n";
    let nfs = setup.serve_nfs(host, 24459);
    (setup.start(), nfs)
}

async fn over_nfs(address: SocketAddr) -> Export {
    let mut instance = [0; 8];
    World.random(&mut instance);
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let target = NfsTarget { name: "nfs".into(), address, uid, gid, instance };
    let client = NfsClient::connect(target, NfsOptions::default()).await.unwrap();
    Export::open(client, "data").await.unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(support::PATIENCE, future).await.expect("it takes too long")
    })
}

#[test]
fn what_one_protocol_writes_renames_and_removes_the_other_sees() {
    let (server, nfs) = start(97);
    block_on(async {
        let (smb, nfs) = (library::tree(&server).await, over_nfs(nfs).await);
        nfs.make_directory("dir").await.unwrap();
        let ours = smb.open("dir/file", &OpenHow::read_write()).await.unwrap();
        ours.write(0, &Bytes::from_static(b"by SMB")).await.unwrap();
        let theirs = nfs.open_file("dir/file", false).await.unwrap();
        assert_eq!(nfs.read(&theirs, 0, 100).await.unwrap()[..], *b"by SMB");
        nfs.write(&theirs, 3, b"NFS, too").await.unwrap();
        assert_eq!(ours.read(0, 100).await.unwrap()[..], *b"by NFS, too");
        nfs.set_size(&theirs, 2).await.unwrap();
        assert_eq!(ours.size().await.unwrap(), 2);
        ours.close().await.unwrap();
        smb.rename("dir/file", "dir/new name", false).await.unwrap();
        assert_eq!(nfs.read(&theirs, 0, 100).await.unwrap()[..], *b"by", "by its handle");
        nfs.close(theirs).await.unwrap();
        let names: Vec<String> =
            nfs.list("dir").await.unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["new name"]);
        let found = nfs.stat("dir/new name").await.unwrap();
        assert_eq!(found.size_bytes, smb.stat("dir/new name").await.unwrap().size_bytes);
        nfs.remove("dir/new name").await.unwrap();
        let gone = smb.stat("dir/new name").await.unwrap_err();
        assert_eq!(gone.status(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
    });
}

#[test]
fn an_open_of_one_protocol_keeps_away_what_it_denies_over_the_other() {
    let (server, nfs) = start(98);
    block_on(async {
        let (smb, nfs) = (library::tree(&server).await, over_nfs(nfs).await);
        let alone = OpenHow { share: 0, ..OpenHow::read_write() };
        let ours = smb.open("file", &alone).await.unwrap();
        let denied = nfs.open_file("file", false).await.unwrap_err();
        let expected = Error::RefusedOperation(OperationNumber::OPEN, NfsStatus::SHARE_DENIED);
        assert_eq!(denied, expected);
        ours.close().await.unwrap();
        let theirs = nfs.open_file("file", false).await.unwrap();
        let denied = smb.open("file", &alone).await.unwrap_err();
        assert_eq!(denied.status(), Some(NtStatus::SHARING_VIOLATION));
        let beside = smb.open("file", &OpenHow::read_write()).await.unwrap();
        beside.close().await.unwrap();
        nfs.close(theirs).await.unwrap();
        smb.open("file", &alone).await.unwrap().close().await.unwrap();
    });
}

#[test]
fn what_a_client_of_nfs_left_open_goes_once_it_is_away_and_smb_needs_it() {
    let (server, nfs) = start(99);
    block_on(async {
        let (smb, nfs) = (library::tree(&server).await, over_nfs(nfs).await);
        let left = nfs.open_file("file", true).await.unwrap();
        // Without a word: its connections are gone, its opens are not.
        drop((left, nfs));
        let alone = OpenHow { share: 0, ..OpenHow::read_write() };
        let denied = smb.open("file", &alone).await.unwrap_err();
        assert_eq!(denied.status(), Some(NtStatus::SHARING_VIOLATION), "it may come back");
        tokio::time::sleep(Duration::from_secs(LEASE_SECONDS + 1)).await;
        smb.open("file", &alone).await.unwrap().close().await.unwrap();
    });
}
