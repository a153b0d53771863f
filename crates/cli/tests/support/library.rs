//! Host, target and connections for tests that use the client library.

use super::{PASSWORD, ServerProcess, user};
use client::nfs::Export;
use client::{Client, Host, Options, Target, Tree};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::fscc::FileTime;
use wire::ntlm::{NtHash, NtlmCredentials};

/// Random bytes and a fixed clock for the library.
#[derive(Debug)]
pub struct FixedHost;

impl Host for FixedHost {
    fn random(&self, out: &mut [u8]) {
        rustix::rand::getrandom(out, rustix::rand::GetRandomFlags::empty()).unwrap();
    }

    fn now(&self) -> FileTime {
        FileTime::from_unix_nanos(0)
    }
}

/// Server address and credentials of a logon.
pub fn target(address: SocketAddr, user: &str, password: &str) -> Target {
    let credentials = NtlmCredentials {
        user: user.into(),
        domain: String::new(),
        workstation: "HERE".into(),
        hash: NtHash::of_password(password),
    };
    Target { name: address.ip().to_string(), address, credentials, tickets: None }
}

/// Connects a new client with one channel to the share `data`.
pub async fn tree(server: &ServerProcess) -> Tree {
    share(server, "data").await
}

/// Connects a new client with one channel to the share `name`.
pub async fn share(server: &ServerProcess, name: &str) -> Tree {
    client(server).await.tree(name).await.unwrap()
}

/// A new client with one channel.
pub async fn client(server: &ServerProcess) -> Client {
    client_of(server, 1).await
}

/// As [`client`], with up to `channels` channels.
pub async fn client_of(server: &ServerProcess, channels: usize) -> Client {
    let mut client_guid = [0; 16];
    FixedHost.random(&mut client_guid);
    let options = Options { client_guid, channels, ..Options::default() };
    let target = target(server.smb, &user(), PASSWORD);
    Client::connect(target, options, Arc::new(FixedHost)).await.unwrap()
}

/// A share over NFS 4.2, as root of a client of its own has it.
pub async fn export(address: SocketAddr, share: &str) -> Export {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let instance = NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes();
    let target = client::nfs::Target { name: "server".into(), address, uid: 0, gid: 0, instance };
    let options = client::nfs::Options { minor_version: 2, ..Default::default() };
    Export::open(client::nfs::Client::connect(target, options).await.unwrap(), share).await.unwrap()
}
