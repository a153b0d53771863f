//! NFS under TLS (RFC 9289) by our own client, through a relay that adds TLS.

use crate::support::{ServerProcess, Setup, run, text, wait_for};
use client::nfs::{Disposition, NfsClient, NfsExport, NfsOptions, NfsTarget};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// NULL with credentials of AUTH_TLS, as one record.
const PROBE: [u8; 44] = probe();
/// The reply after its record mark: xid, REPLY, MSG_ACCEPTED, AUTH_NONE, eight bytes, SUCCESS.
const STARTS: &[u8; 32] = b"\0\0\0\x07\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x08STARTTLS\0\0\0\0";

const fn probe() -> [u8; 44] {
    let mut record = [0; 44];
    record[0] = 0x80;
    record[3] = 40;
    record[7] = 7;
    record[15] = 2;
    [record[17], record[18], record[19]] = [0x01, 0x86, 0xA3];
    record[23] = 4;
    record[31] = 7;
    record
}

fn address(host: u8) -> SocketAddr {
    let net = std::env::var("ANABRANCH_TEST_NET").unwrap_or_else(|_| "0".into());
    format!("127.0.{net}.{host}:24457").parse().unwrap()
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

fn with_tls(address: SocketAddr, more: &str) -> Setup {
    let (certificate, key) = (file("server.pem"), file("server.key"));
    let mut setup = Setup::new()
        .server(&format!("nfs = [\"{address}\"]"))
        .server(&format!("nfs_tls_certificate = {certificate:?}\nnfs_tls_key = {key:?}"))
        .server(more);
    setup.let_unreserved_ports();
    setup.shares += "nfs_squash = \"none\"\nnfs_tls = \"required\"\n";
    setup
}

/// TLS configuration of a client; with a certificate of its own if `is_known`.
fn sealing(is_known: bool) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = if is_known {
        let chain = vec![CertificateDer::from_pem_file(file("client.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(file("client.key")).unwrap();
        builder.with_client_auth_cert(chain, key).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    config.alpn_protocols = vec![b"sunrpc".to_vec()];
    Arc::new(config)
}

/// A connection on which the server has accepted STARTTLS.
fn started(server: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    stream.write_all(&PROBE).unwrap();
    let mut answer = [0; 36];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[4..], STARTS);
    stream
}

/// Performs the handshake, and returns the client's side.
fn shaken(
    config: &Arc<ClientConfig>,
    stream: &mut TcpStream,
) -> Result<ClientConnection, std::io::Error> {
    let name = ServerName::try_from("server.test").unwrap();
    let mut session = ClientConnection::new(config.clone(), name).unwrap();
    while session.is_handshaking() {
        session.complete_io(stream)?;
    }
    let agreed = config.alpn_protocols.first().map(Vec::as_slice);
    assert_eq!(session.alpn_protocol(), agreed);
    Ok(session)
}

/// Address at which a client without TLS reaches the server.
fn relay(config: Arc<ClientConfig>, server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((plain, _)) = listener.accept() {
            let mut sealed = started(server);
            let session = Arc::new(Mutex::new(shaken(&config, &mut sealed).unwrap()));
            sealed.set_read_timeout(None).unwrap();
            let (from, to, with) =
                (plain.try_clone().unwrap(), sealed.try_clone().unwrap(), session.clone());
            std::thread::spawn(move || seal(from, to, &with));
            std::thread::spawn(move || unseal(sealed, plain, &session));
        }
    });
    address
}

fn seal(mut from: TcpStream, mut to: TcpStream, session: &Mutex<ClientConnection>) {
    let mut buffer = vec![0; 100_000];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let mut sealed = Vec::new();
            let mut session = session.lock().unwrap();
            let taken = session.writer().write(rest).unwrap();
            rest = &rest[taken..];
            while session.wants_write() {
                session.write_tls(&mut sealed).unwrap();
            }
            drop(session);
            if to.write_all(&sealed).is_err() {
                return;
            }
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn unseal(mut from: TcpStream, mut to: TcpStream, session: &Mutex<ClientConnection>) {
    let mut buffer = vec![0; 100_000];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut sealed = &buffer[..count];
        while !sealed.is_empty() {
            let mut data = vec![0; 100_000];
            let mut session = session.lock().unwrap();
            session.read_tls(&mut sealed).unwrap();
            session.process_new_packets().unwrap();
            let count = session.reader().read(&mut data).unwrap_or(0);
            drop(session);
            if to.write_all(&data[..count]).is_err() {
                return;
            }
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

async fn connect(address: SocketAddr, connections: usize) -> NfsClient {
    let target = NfsTarget {
        name: "server".into(),
        address,
        uid: 0,
        gid: 0,
        instance: [connections as u8; 8],
    };
    NfsClient::connect(target, NfsOptions { connections, ..NfsOptions::default() }).await.unwrap()
}

/// Transfers TLS records of every size over several connections in both directions.
async fn write_and_read(client: NfsClient) {
    let length = 1_000_003_usize;
    let whole: Vec<u8> = (0..length as u32).map(|at| (at ^ (at >> 8)) as u8).collect();
    let export = NfsExport::open(client, "data").await.unwrap();
    let file = export.open_file("file", Disposition::Create).await.unwrap();
    for at in (0..length).step_by(300_001) {
        let end = length.min(at + 300_001);
        export.write(&file, at as u64, &whole[at..end]).await.unwrap();
    }
    let kib = 1024;
    for count in [1, 4096, 16 * kib - 1, 16 * kib + 2, 256 * kib, 1000 * kib] {
        for at in [0, 1, 700_000, length - 1, length] {
            let read = export.read(&file, at as u64, count as u32).await.unwrap();
            let end = length.min(at + count);
            assert!(read[..] == whole[at.min(end)..end], "{count} bytes at {at}");
        }
    }
    export.close(file).await.unwrap();
}

fn channels(server: &ServerProcess) -> String {
    text(&run(&["channels", "--admin", &server.admin.to_string()]).stdout)
}

#[test]
fn tls_share_is_reached_under_tls_only() {
    let address = address(90);
    let server = with_tls(address, "").start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // A certificate that cannot be used changes nothing.
    let other = server.config().replace("server.key", "client.key");
    server.write_config(&other);
    server.signal("HUP");
    server.logged("do not match");
    let sealed = relay(sealing(false), address);
    runtime.block_on(async {
        let client = connect(sealed, 3).await;
        write_and_read(client.clone()).await;
        let shown = channels(&server);
        assert_eq!(shown.matches("  TLS\n").count(), 3, "{shown}");
        let status = text(&run(&["status", "--admin", &server.admin.to_string()]).stdout);
        assert!(status.contains("connections 3, 3 under TLS"), "{status}");
        drop(client);

        let plain = connect(address, 1).await;
        let Err(refused) = NfsExport::open(plain, "data").await else {
            panic!("it is not refused")
        };
        let refused = refused.to_string();
        assert!(refused.contains("10016") || refused.contains("WRONGSEC"), "{refused}");
        let line = server.logged("nfs_tls is required");
        assert!(line.contains("mount with xprtsec=tls") && line.contains("data"), "{line}");
    });
}

#[test]
fn nfs_client_without_required_certificate_is_refused() {
    let address = address(91);
    let ca = file("ca.pem");
    let server = with_tls(address, &format!("nfs_tls_client_ca = {ca:?}")).start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sealed = relay(sealing(true), address);
    runtime.block_on(async { write_and_read(connect(sealed, 1).await).await });

    // The server's refusal follows the client's last handshake message.
    let mut stream = started(address);
    if let Ok(mut session) = shaken(&sealing(false), &mut stream) {
        session.complete_io(&mut stream).expect_err("it is refused");
    }
    server.logged("the client presented no certificate, and nfs_tls_client_ca requires one");
}

#[test]
fn nfs_tls_client_without_alpn_is_accepted() {
    let address = address(93);
    let _server = with_tls(address, "").start();
    let mut config = ClientConfig::clone(&sealing(false));
    config.alpn_protocols.clear();
    let session = shaken(&Arc::new(config), &mut started(address)).unwrap();
    assert_eq!(session.alpn_protocol(), None);
}

#[test]
fn invalid_tls_handshake_ends_the_connection() {
    let address = address(92);
    let server = with_tls(address, "logon_seconds = 2").start();
    // A plain call after STARTTLS.
    let mut stream = started(address);
    stream.write_all(&PROBE).unwrap();
    // The alert may arrive first.
    let _ = stream.read_to_end(&mut Vec::new());
    server.logged("TLS protocol error");
    // A call that was sent together with the probe could come from an attacker.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[PROBE, PROBE].concat()).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    server.logged("data arrived before the TLS handshake");
    // Another ALPN protocol.
    let mut other = ClientConfig::clone(&sealing(false));
    other.alpn_protocols = vec![b"h2".to_vec()];
    assert!(shaken(&Arc::new(other), &mut started(address)).is_err());
    server.logged("the client's ALPN protocol is not sunrpc");
    // A client that sends nothing after STARTTLS.
    let mut silent = started(address);
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0, "it is not waited for");
    server.logged("no client is established");
    wait_for("the end of all", || (server.metric("anabranch_connections") == 0).then_some(()));
}

#[test]
fn check_names_what_is_wrong_with_certificates_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    let said = |certificate: &Path, key: &Path, more: &str| {
        let server = format!(
            "[server]\nsigning = \"offered\"\nguest = \"nobody\"\nnfs_tls_certificate = {certificate:?}\nnfs_tls_key = {key:?}\n{more}"
        );
        let share = format!("[[share]]\nname = \"data\"\npath = {:?}\n", folder.path());
        std::fs::write(&config, format!("{server}{share}")).unwrap();
        let output = run(&["check", &config.display().to_string()]);
        text(&output.stderr)
    };
    let (certificate, key) = (file("server.pem"), file("server.key"));
    assert_eq!(said(&certificate, &key, ""), "");
    let absent = folder.path().join("absent.pem");
    let refusal = said(&absent, &key, "");
    assert!(
        refusal.contains("config.toml:4: nfs_tls_certificate = ") && refusal.contains("absent.pem")
    );
    assert!(refusal.contains("make it a PEM file of certificates that this server may read"));
    let refusal = said(&certificate, &certificate, "");
    assert!(
        refusal.contains("nfs_tls_key = ") && refusal.contains("as PEM without a password"),
        "{refusal}"
    );
    let refusal = said(&certificate, &file("client.key"), "");
    assert!(
        refusal.contains("do not match") && refusal.contains("the key must belong"),
        "{refusal}"
    );
    let refusal = said(&certificate, &key, &format!("nfs_tls_client_ca = {key:?}\n"));
    assert!(
        refusal.contains("nfs_tls_client_ca = ") && refusal.contains("it contains no certificate")
    );
}
