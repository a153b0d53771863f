//! How a client determines whether a small test server is on this machine.

use super::*;
use crate::set_up::tests::{FaultyServer, server};
use std::sync::atomic::AtomicU32;
use tokio::net::TcpListener;
use wire::codec::Writer;
use wire::frame::{PREFIX_BYTES, payload_length, prefix};
use wire::ntlm::NtHash;
use wire::smb::{EmptyBody, ErrorResponse};

#[derive(Debug)]
struct UnreachableHost;

impl ClientHost for UnreachableHost {
    fn random(&self, out: &mut [u8]) {
        out.fill(7);
    }

    fn now(&self) -> FileTime {
        FileTime(1)
    }
}

/// How the test server answers ECHO.
#[derive(Clone, Copy, Debug)]
enum Echo {
    After(Duration),
    Never,
}

/// Serves one connection; returns its address and a counter of ECHOs.
async fn serve(echo: Echo) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
    let counter = asked.clone();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut server = server(Dialect::Smb311);
        let mut start = [0; PREFIX_BYTES];
        while stream.read_exact(&mut start).await.is_ok() {
            let mut frame = start.to_vec();
            frame.resize(PREFIX_BYTES + payload_length(start).unwrap(), 0);
            stream.read_exact(&mut frame[PREFIX_BYTES..]).await.unwrap();
            let Some(answer) = answer(&mut server, &frame, echo, &counter).await else { return };
            stream.write_all(&prefix(answer.len()).unwrap()).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        }
    });
    (address, asked)
}

async fn answer(
    server: &mut FaultyServer,
    frame: &[u8],
    echo: Echo,
    asked: &AtomicU32,
) -> Option<Vec<u8>> {
    let header = Header::decode(&mut Reader::new(&frame[PREFIX_BYTES..])).unwrap();
    let (mut out, status) = (Vec::new(), NtStatus::ACCESS_DENIED);
    match header.command {
        Command::NEGOTIATE | Command::SESSION_SETUP => return Some(server.handle(frame)),
        Command::ECHO => {
            asked.fetch_add(1, Ordering::Relaxed);
            let Echo::After(pause) = echo else { return None };
            tokio::time::sleep(pause).await;
            let mut w = Writer::new(&mut out);
            header.reply(NtStatus::SUCCESS, 1).encode(&mut w);
            EmptyBody.encode(&mut w);
        }
        _ => {
            let mut w = Writer::new(&mut out);
            header.reply(status, 1).encode(&mut w);
            ErrorResponse::EMPTY.encode(&mut w);
        }
    }
    Some(out)
}

async fn connected(echo: Echo) -> (SmbClient, Arc<AtomicU32>) {
    let (address, asked) = serve(echo).await;
    let credentials = NtlmCredentials {
        user: "alice".into(),
        domain: String::new(),
        workstation: "HERE".into(),
        hash: NtHash::of_password("secret"),
    };
    let target = SmbTarget { name: "SRV".into(), address, credentials, tickets: None };
    let options = SmbOptions { channels: 1, ..SmbOptions::default() };
    (SmbClient::connect(target, options, Arc::new(UnreachableHost)).await.unwrap(), asked)
}

#[tokio::test]
async fn fast_local_server_is_probed_once() {
    let (client, asked) = connected(Echo::After(Duration::ZERO)).await;
    assert!(client.answers_within(Duration::from_secs(60)).await);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// For instance a forwarded port.
#[tokio::test]
async fn slow_server_at_a_local_address_is_not_near() {
    let (client, asked) = connected(Echo::After(NEAR_WITHIN * 3)).await;
    assert!(!client.is_near().await);
    assert_eq!(asked.load(Ordering::Relaxed), NEAR_TRIES, "one slow answer says nothing");
}

#[tokio::test]
async fn lost_server_is_not_near() {
    let (client, asked) = connected(Echo::Never).await;
    assert!(!client.is_near().await);
    assert!(asked.load(Ordering::Relaxed) > 0 && !client.is_alive());
}

#[test]
fn loopback_and_own_addresses_are_local() {
    let here = |local: &str, remote: &str| is_here(local.parse().unwrap(), remote.parse().unwrap());
    assert!(here("127.0.0.1", "127.0.0.1") && here("127.0.0.1", "127.0.0.9"));
    assert!(here("::1", "::1") && here("10.0.0.1", "10.0.0.1"), "to ourselves, by any address");
    assert!(!here("10.0.0.1", "10.0.0.2") && !here("::1", "fe80::1"));
}
