//! What every user of the client library needs.

use client::{Host, Target};
use std::net::SocketAddr;
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
    Target { name: address.ip().to_string(), address, credentials }
}
