//! What every user of the client library needs.

use super::{PASSWORD, Running, user};
use client::{Client, Host, Options, Target, Tree};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::fscc::FileTime;
use wire::ntlm::{Credentials, NtHash};

/// What the library asks of its surroundings.
#[derive(Debug)]
pub struct World;

impl Host for World {
    fn random(&self, out: &mut [u8]) {
        rustix::rand::getrandom(out, rustix::rand::GetRandomFlags::empty()).unwrap();
    }

    fn now(&self) -> FileTime {
        FileTime::from_unix_nanos(0)
    }
}

/// Whom to log on as, and where.
pub fn target(address: SocketAddr, user: &str, password: &str) -> Target {
    let credentials = Credentials {
        user: user.into(),
        domain: String::new(),
        workstation: "HERE".into(),
        hash: NtHash::of_password(password),
    };
    Target { name: address.ip().to_string(), address, credentials, tickets: None }
}

/// The share `data` of a server, as a new client with one channel has it.
pub async fn tree(server: &Running) -> Tree {
    share(server, "data").await
}

/// Any share of a server, in the same way.
pub async fn share(server: &Running, name: &str) -> Tree {
    let mut client_guid = [0; 16];
    World.random(&mut client_guid);
    let options = Options { client_guid, channels: 1, ..Options::default() };
    let target = target(server.smb, &user(), PASSWORD);
    let client = Client::connect(target, options, Arc::new(World)).await.unwrap();
    client.tree(name).await.unwrap()
}
