//! Host, target and connections for tests that use the client library.

use super::{PASSWORD, ServerProcess, user};
use client::nfs::NfsExport;
use client::{ClientHost, SmbClient, SmbOptions, SmbTarget, SmbTree};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::fscc::FileTime;
use wire::ntlm::{NtHash, NtlmCredentials};

/// Random bytes and a fixed clock for the library.
#[derive(Debug)]
pub struct FixedHost;

impl ClientHost for FixedHost {
    fn random(&self, out: &mut [u8]) {
        rustix::rand::getrandom(out, rustix::rand::GetRandomFlags::empty()).unwrap();
    }

    fn now(&self) -> FileTime {
        FileTime::from_unix_nanos(0)
    }
}

/// Server address and credentials of a logon.
pub fn target(address: SocketAddr, user: &str, password: &str) -> SmbTarget {
    let credentials = NtlmCredentials {
        user: user.into(),
        domain: String::new(),
        workstation: "HERE".into(),
        hash: NtHash::of_password(password),
    };
    SmbTarget { name: address.ip().to_string(), address, credentials, tickets: None }
}

/// Connects a new client with one channel to the share `data`.
pub async fn tree(server: &ServerProcess) -> SmbTree {
    share(server, "data").await
}

/// Connects a new client with one channel to the share `name`.
pub async fn share(server: &ServerProcess, name: &str) -> SmbTree {
    client(server).await.tree(name).await.unwrap()
}

/// A new client with one channel.
pub async fn client(server: &ServerProcess) -> SmbClient {
    client_of(server, 1).await
}

/// As [`client`], with up to `channels` channels.
pub async fn client_of(server: &ServerProcess, channels: usize) -> SmbClient {
    let mut client_guid = [0; 16];
    FixedHost.random(&mut client_guid);
    let options = SmbOptions { client_guid, channels, ..SmbOptions::default() };
    let target = target(server.smb, &user(), PASSWORD);
    SmbClient::connect(target, options, Arc::new(FixedHost)).await.unwrap()
}

/// A share over NFSv4.2, as root of a client of its own.
pub async fn export(address: SocketAddr, share: &str) -> NfsExport {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let instance = NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes();
    let target =
        client::nfs::NfsTarget { name: "server".into(), address, uid: 0, gid: 0, instance };
    let options = client::nfs::NfsOptions { minor_version: 2, ..Default::default() };
    NfsExport::open(client::nfs::NfsClient::connect(target, options).await.unwrap(), share)
        .await
        .unwrap()
}
