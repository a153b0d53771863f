//! Encrypted shares: an eavesdropper's view of the traffic, and refusal of plain clients.

use crate::support::client::{NEGOTIATE, RawSmbClient, SUCCESS};
use crate::support::library::{FixedHost, target};
use crate::support::relay::Relay;
use crate::support::{PASSWORD, ServerProcess, Setup, user};
use bytes::Bytes;
use client::{ClientHost, SmbClient, SmbOpenHow, SmbOptions};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::ntstatus::NtStatus;
use wire::smb::Dialect;

const NAME: &str = "a name that nobody may read";
const PAYLOAD: &[u8] = b"contents that nobody may read";

/// A server with the share `data`, and `sealed`, which requires encryption.
fn serve() -> ServerProcess {
    let mut setup = Setup::new();
    let folder = setup.folder.path().join("sealed");
    std::fs::create_dir(&folder).unwrap();
    let share = format!("sealed={},encryption_required=yes", folder.display());
    setup.arguments.extend(["--share".into(), share]);
    setup.start()
}

fn options(dialect: Dialect) -> SmbOptions {
    let mut client_guid = [0; 16];
    FixedHost.random(&mut client_guid);
    SmbOptions { client_guid, channels: 1, dialect_max: dialect, ..SmbOptions::default() }
}

async fn connect(address: SocketAddr, dialect: Dialect) -> SmbClient {
    let target = target(address, &user(), PASSWORD);
    SmbClient::connect(target, options(dialect), Arc::new(FixedHost)).await.unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(crate::support::PATIENCE, future).await.expect("it takes too long")
    })
}

/// The secrets that an eavesdropper finds while a file is written, read and listed.
async fn overheard(server: SocketAddr, dialect: Dialect, share: &str) -> [bool; 3] {
    let relay = Relay::new(server).await;
    let client = connect(relay.address, dialect).await;
    let tree = client.tree(share).await.unwrap();
    let contents = Bytes::from(PAYLOAD.repeat(3000));
    let file = tree.open(NAME, &SmbOpenHow::read_write()).await.unwrap();
    file.write(0, &contents).await.unwrap();
    assert_eq!(file.read(0, contents.len() as u32).await.unwrap()[..], contents[..]);
    file.close().await.unwrap();
    assert!(tree.list("").await.unwrap().iter().any(|entry| entry.name == NAME));
    client.close().await;
    let [up, down] = relay.heard();
    let name: Vec<u8> = NAME.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let contains = |stream: &[u8], what: &[u8]| stream.windows(what.len()).any(|w| w == what);
    assert!(up.len().min(down.len()) > contents.len(), "all of it went this way");
    [
        contains(&up, PAYLOAD),
        contains(&down, PAYLOAD),
        contains(&up, &name) || contains(&down, &name),
    ]
}

#[test]
fn eavesdropper_sees_no_data_or_names_of_encrypted_share() {
    let server = serve();
    block_on(async {
        for dialect in [Dialect::Smb300, Dialect::Smb311] {
            assert_eq!(overheard(server.smb, dialect, "data").await, [true; 3], "{dialect:?}");
            assert_eq!(overheard(server.smb, dialect, "sealed").await, [false; 3], "{dialect:?}");
        }
    });
}

#[test]
fn unencrypted_client_is_refused_by_encrypted_share_only() {
    let server = serve();
    block_on(async {
        let client = connect(server.smb, Dialect::Smb210).await;
        let refused = client.tree("sealed").await.unwrap_err();
        assert_eq!(refused.status(), Some(NtStatus::ACCESS_DENIED), "{refused}");
        client.tree("data").await.unwrap().make_directory("dir").await.unwrap();
        client.close().await;
        let client = connect(server.smb, Dialect::Smb300).await;
        client.tree("sealed").await.unwrap().make_directory("dir").await.unwrap();
        client.close().await;
    });
}

/// MS-SMB2 3.3.5.7: on 3.1.1 a TREE_CONNECT is signed or encrypted.
#[test]
fn encrypted_tree_connect_needs_no_signature() {
    let server = serve();
    let mut client = RawSmbClient::connect(server.smb);
    // SMB2_ENCRYPTION_CAPABILITIES: AES-128-GCM.
    let body = RawSmbClient::negotiate_311_body(&[(2, &[1, 0, 2, 0])]);
    assert_eq!(client.call(NEGOTIATE, &body).status, SUCCESS);
    assert_eq!(client.log_on(&user(), PASSWORD), SUCCESS);
    for share in ["data", "sealed"] {
        assert_eq!(client.connect_tree_sealed(share), SUCCESS, "{share}");
    }
    assert_eq!(client.connect_tree("data"), SUCCESS, "signed, on the same connection");
}
