//! The client library against servers: ours, and foreign ones, so that no
//! mistake is made on both sides and agrees with itself.
//!
//! Those with Samba are ignored unless asked for: `make servers`.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

use bytes::Bytes;
use client::{Client, Host, OpenHow, Options, Signing, Target, Tree};
use std::net::SocketAddr;
use std::sync::Arc;
use support::samba::{Samba, USER, Which};
use support::{PASSWORD, Setup, user};
use wire::crypto::{Cipher, SigningAlgorithm};
use wire::fscc::FileTime;
use wire::ntlm::{Credentials, NtHash};
use wire::ntstatus::NtStatus;
use wire::smb::Dialect;

#[derive(Debug)]
struct World;

impl Host for World {
    fn random(&self, out: &mut [u8]) {
        rustix::rand::getrandom(out, rustix::rand::GetRandomFlags::empty()).unwrap();
    }

    fn now(&self) -> FileTime {
        FileTime::from_unix_nanos(0)
    }
}

fn options() -> Options {
    let mut client_guid = [0; 16];
    World.random(&mut client_guid);
    Options { client_guid, channels: 1, ..Options::default() }
}

fn target(address: SocketAddr, user: &str, password: &str) -> Target {
    let credentials = Credentials {
        user: user.into(),
        domain: String::new(),
        workstation: "HERE".into(),
        hash: NtHash::of_password(password),
    };
    Target { name: address.ip().to_string(), address, credentials }
}

async fn connect(address: SocketAddr, user: &str, options: Options) -> Client {
    Client::connect(target(address, user, PASSWORD), options, Arc::new(World)).await.unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(support::PATIENCE, future).await.expect("it takes too long")
    })
}

fn pattern(length: usize, salt: u8) -> Bytes {
    (0..length).map(|at| (at / 7) as u8 ^ (at >> 11) as u8 ^ salt).collect::<Vec<u8>>().into()
}

/// Every operation once, with data that spans several credits.
async fn use_all(tree: &Tree) {
    tree.make_directory("dir").await.unwrap();
    let file = tree.open("dir/a file", &OpenHow::read_write()).await.unwrap();
    let most = tree.client().negotiated().write_bytes_max.min(1 << 20) as usize;
    let data = pattern(most, 1);
    file.write(0, &data).await.unwrap();
    file.write(most as u64, &pattern(1000, 2)).await.unwrap();
    file.flush().await.unwrap();
    assert_eq!(file.size().await.unwrap(), most as u64 + 1000);
    assert_eq!(file.read(0, most as u32).await.unwrap()[..], data[..]);
    let mut tail = [0; 4096];
    assert_eq!(file.read_into(most as u64, &mut tail).await.unwrap(), 1000, "it is the end");
    assert_eq!(tail[..1000], pattern(1000, 2)[..]);
    assert!(file.read(1 << 30, 10).await.unwrap().is_empty(), "there is nothing behind the end");
    file.set_size(10).await.unwrap();
    assert_eq!(file.size().await.unwrap(), 10);
    file.close().await.unwrap();
    assert_eq!(tree.stat("dir/a file").await.unwrap().size_bytes, 10);
    for number in 0..30 {
        let how = OpenHow::read_write();
        tree.touch(&format!("dir/file with a long name {number:03}"), &how).await.unwrap();
    }
    tree.rename("dir/a file", "dir/another", false).await.unwrap();
    let mut names: Vec<String> =
        tree.list("dir").await.unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    assert_eq!((names.len(), names[0].as_str()), (31, "another"));
    let missing = tree.stat("dir/a file").await.unwrap_err();
    assert_eq!(missing.status(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
    for name in names {
        tree.remove(&format!("dir/{name}")).await.unwrap();
    }
    tree.remove("dir").await.unwrap();
    assert!(tree.stat("dir").await.is_err());
}

/// Every dialect, with each way to sign and each cipher that it has.
fn matrix() -> Vec<(String, Options)> {
    let mut all = Vec::new();
    for dialect in [Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
        let one = Options { dialect_min: dialect, dialect_max: dialect, ..options() };
        all.push((format!("{dialect} plain"), one.clone()));
        let algorithms = match dialect {
            Dialect::Smb311 => &[
                SigningAlgorithm::HmacSha256,
                SigningAlgorithm::AesCmac,
                SigningAlgorithm::AesGmac,
            ][..],
            Dialect::Smb210 => &[SigningAlgorithm::HmacSha256],
            _ => &[SigningAlgorithm::AesCmac],
        };
        for algorithm in algorithms {
            let signing_algorithms = vec![*algorithm];
            let one = Options { signing: Signing::Required, signing_algorithms, ..one.clone() };
            all.push((format!("{dialect} {}", algorithm.name()), one));
        }
        let ciphers = match dialect {
            Dialect::Smb311 => {
                &[Cipher::Aes128Gcm, Cipher::Aes128Ccm, Cipher::Aes256Gcm, Cipher::Aes256Ccm][..]
            }
            Dialect::Smb210 => &[],
            _ => &[Cipher::Aes128Ccm],
        };
        for cipher in ciphers {
            let one = Options { sealed: true, ciphers: vec![*cipher], ..one.clone() };
            all.push((format!("{dialect} {}", cipher.name()), one));
        }
    }
    all
}

fn every_cell(address: SocketAddr, user: &str, channels: usize) {
    for (name, options) in matrix() {
        println!("{name}");
        let expected = options.clone();
        let options = Options { channels, ..options };
        block_on(async {
            let client = connect(address, user, options).await;
            let negotiated = *client.negotiated();
            assert_eq!(negotiated.dialect, expected.dialect_max, "{name}");
            if expected.signing == Signing::Required {
                assert!(client.session().signs, "{name}");
                assert_eq!(negotiated.signing, expected.signing_algorithms[0], "{name}");
            }
            if expected.sealed {
                assert_eq!(negotiated.cipher, expected.ciphers.first().copied(), "{name}");
            }
            let opened = client.channels().len();
            let able = expected.dialect_max >= Dialect::Smb300;
            assert_eq!(opened, if able { channels } else { 1 }, "{name}");
            use_all(&client.tree("data").await.unwrap()).await;
            client.close().await;
        });
    }
}

#[test]
fn every_dialect_signature_and_cipher_works_with_our_server() {
    let server = Setup::new().start();
    every_cell(server.smb, &user(), 1);
}

#[test]
fn several_channels_work_with_our_server_in_every_dialect_that_has_them() {
    let server = Setup::new().start();
    every_cell(server.smb, &user(), 4);
}

#[test]
#[ignore = "needs Samba: make servers"]
fn every_dialect_signature_and_cipher_works_with_the_installed_samba() {
    let server = Samba::start(Which::Installed, 81, "");
    every_cell(server.smb, USER, 1);
}

#[test]
#[ignore = "needs Samba: make servers"]
fn several_channels_work_with_the_installed_samba() {
    let server = Samba::start(Which::Installed, 82, "");
    every_cell(server.smb, USER, 4);
}

#[test]
#[ignore = "needs Samba: make servers"]
fn every_dialect_signature_and_cipher_works_with_the_newest_samba() {
    let server = Samba::start(Which::Newest, 83, "");
    every_cell(server.smb, USER, 1);
}

#[test]
#[ignore = "needs Samba: make servers"]
fn several_channels_work_with_the_newest_samba() {
    let server = Samba::start(Which::Newest, 84, "");
    every_cell(server.smb, USER, 4);
}
