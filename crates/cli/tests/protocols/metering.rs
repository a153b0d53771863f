//! The server's metrics match its clients' requests exactly: by operation, by status, and to the
//! byte.

use crate::support::client::{
    ACCESS_DENIED, BAD_NETWORK_NAME, CREATE, CreateRequestParts, LOCK, LOGON_FAILURE,
    OBJECT_NAME_NOT_FOUND, PENDING, READ, RawSmbClient, SUCCESS, WRITE,
};
use crate::support::library::FixedHost;
use crate::support::{PASSWORD, ServerProcess, Setup, user, wait_for};
use bytes::Bytes;
use client::nfs::{Disposition, NfsClient, NfsExport, NfsOptions, NfsTarget};
use client::{ClientHost, SmbOpenHow};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes between clients and a server.
struct Scales {
    address: SocketAddr,
    up: Arc<AtomicU64>,
    down: Arc<AtomicU64>,
}

impl Scales {
    fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (up, down) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let counters = (up.clone(), down.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let upstream = TcpStream::connect(server).unwrap();
                let (from, to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
                let (up, down) = (counters.0.clone(), counters.1.clone());
                std::thread::spawn(move || pass(from, to, &up));
                std::thread::spawn(move || pass(upstream, client, &down));
            }
        });
        Self { address, up, down }
    }

    fn seen(&self) -> (u64, u64) {
        (self.up.load(Ordering::SeqCst), self.down.load(Ordering::SeqCst))
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, counter: &AtomicU64) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        counter.fetch_add(count as u64, Ordering::SeqCst);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Metrics by name and labels.
struct Metrics(Vec<(String, BTreeMap<String, String>, f64)>);

impl Metrics {
    fn of(server: &ServerProcess) -> Self {
        let page = server.page("/metrics");
        let values = page.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (what, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = what.split_once('{').unwrap_or((what, ""));
            let labels = labels.trim_end_matches('}').split("\",").filter(|l| !l.is_empty());
            let labels = labels.map(|label| {
                let (label, value) = label.split_once("=\"").unwrap();
                (label.to_owned(), value.trim_end_matches('"').to_owned())
            });
            (name.to_owned(), labels.collect(), value.parse().unwrap())
        });
        Self(values.collect())
    }

    /// Sum of a metric's series with these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let has = |of: &BTreeMap<String, String>| {
            labels.iter().all(|(label, value)| of.get(*label).is_some_and(|v| v == value))
        };
        let values = self.0.iter().filter(|(of, labels, _)| of == name && has(labels));
        values.map(|(_, _, value)| *value).sum::<f64>() as u64
    }

    /// Transactions of a protocol by share, operation and outcome.
    fn transactions(&self, protocol: &str) -> Vec<(String, u64)> {
        let mut all = BTreeMap::new();
        for (name, labels, count) in &self.0 {
            if name == "anabranch_transactions_total" && labels["protocol"] == protocol {
                let words = ["share", "api", "response_type"].map(|label| labels[label].as_str());
                *all.entry(words.join(" ").trim().to_owned()).or_default() += *count as u64;
            }
        }
        all.into_iter().collect()
    }

    fn bytes(&self, protocol: &str) -> (u64, u64) {
        let sum = |name| self.sum(name, &[("protocol", protocol)]);
        (sum("anabranch_ingress_bytes_total"), sum("anabranch_egress_bytes_total"))
    }
}

fn log_on(address: SocketAddr, password: &str) -> (RawSmbClient, u32) {
    let mut client = RawSmbClient::connect(address);
    client.negotiate();
    let status = client.log_on(&user(), password);
    (client, status)
}

/// The server has a share that admits no user.
fn start_with_closed_share() -> ServerProcess {
    let mut setup = Setup::new();
    let closed = setup.folder.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    setup.shares += &format!(
        "[[share]]\nname = \"closed\"\npath = \"{}\"\ndenied_users = [\"{}\"]\n",
        closed.display(),
        user()
    );
    setup.start()
}

/// Opens a file that does not exist.
const OPEN_MISSING: CreateRequestParts<'_> = CreateRequestParts {
    name: "missing",
    access: 0x12_0089,
    share: 7,
    disposition: 1,
    options: 0,
    contexts: &[],
};

#[test]
fn scripted_smb_load_is_metered_to_the_request_and_byte() {
    let server = start_with_closed_share();
    let scales = Scales::before(server.smb);
    let (mut client, status) = log_on(scales.address, PASSWORD);
    assert_eq!(status, SUCCESS);
    assert_eq!(client.connect_tree("closed"), ACCESS_DENIED);
    assert_eq!(client.connect_tree("no such share"), BAD_NETWORK_NAME);
    assert_eq!(client.connect_tree("data"), SUCCESS);
    let file = client.create("file");
    for at in 0..3 {
        let write = RawSmbClient::write_body(file, at * 1000, &[7; 1000]);
        assert_eq!(client.call(WRITE, &write).status, SUCCESS);
    }
    assert_eq!(client.call(READ, &RawSmbClient::read_body(file, 0, 3000)).data().len(), 3000);
    assert_ne!(client.call(READ, &RawSmbClient::read_body(file, 9000, 1)).status, SUCCESS);
    let missing = client.call(CREATE, &RawSmbClient::create_with(&OPEN_MISSING));
    assert_eq!(missing.status, OBJECT_NAME_NOT_FOUND);
    assert_eq!(client.call(LOCK, &RawSmbClient::lock_body(file, false)).status, SUCCESS);
    assert_eq!(client.echo(), SUCCESS);
    assert_eq!(log_on(scales.address, "a wrong password").1, LOGON_FAILURE);
    // A request whose connection ends while it waits.
    let (mut waiter, _) = log_on(scales.address, PASSWORD);
    assert_eq!(waiter.connect_tree("data"), SUCCESS);
    let same = waiter.create("file");
    assert_eq!(waiter.call(LOCK, &RawSmbClient::lock_body(same, true)).status, PENDING);
    drop(waiter);
    let lost = [("api", "Lock"), ("response_type", "NetworkError")];
    wait_for("the lost request", || {
        (Metrics::of(&server).sum("anabranch_transactions_total", &lost) == 1).then_some(())
    });
    let metrics = Metrics::of(&server);
    let expected = [
        ("Echo Success", 1),
        ("Negotiate Success", 3),
        ("SessionSetup AuthenticationError", 1),
        ("SessionSetup Success", 5),
        ("TreeConnect ClientOtherError", 1),
        ("closed TreeConnect AuthorizationError", 1),
        ("data Create ClientOtherError", 1),
        ("data Create Success", 2),
        ("data Lock NetworkError", 1),
        ("data Lock Success", 1),
        ("data Read ClientOtherError", 1),
        ("data Read Success", 1),
        ("data TreeConnect Success", 2),
        ("data Write Success", 3),
    ];
    let expected: Vec<(String, u64)> = expected.map(|(what, n)| (what.to_owned(), n)).into();
    assert_eq!(metrics.transactions("SMB"), expected);
    assert_eq!(metrics.bytes("SMB"), scales.seen());
    let written = metrics.sum("anabranch_ingress_bytes_total", &[("api", "Write")]);
    assert_eq!(written, 3 * (4 + 64 + 48 + 1000), "prefix, header, body, data");
    let of_reads = [("share", "data"), ("api", "Read")];
    let latencies = "anabranch_success_server_latency_seconds_count";
    assert_eq!(metrics.sum(latencies, &of_reads), 1, "of successes");
    assert_eq!(metrics.sum("anabranch_success_e2e_latency_seconds_count", &of_reads), 1);
    let all: u64 = expected.iter().map(|(_, count)| count).sum();
    let applicable = metrics.sum("anabranch_requests_applicable_total", &[("protocol", "SMB")]);
    assert_eq!(applicable, all - 3, "without those that had no right, and the lost one");
    assert_eq!(metrics.sum("anabranch_requests_unexpected_errors_total", &[]), 0);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(crate::support::PATIENCE, future).await.expect("it takes too long")
    })
}

#[test]
fn sealed_and_signed_requests_are_metered_to_the_byte() {
    let server = Setup::new().server("encryption = \"required\"").start();
    let scales = Scales::before(server.smb);
    block_on(async {
        let mut client_guid = [0; 16];
        FixedHost.random(&mut client_guid);
        let options =
            client::SmbOptions { client_guid, channels: 1, ..client::SmbOptions::default() };
        let target = crate::support::library::target(scales.address, &user(), PASSWORD);
        let client =
            client::SmbClient::connect(target, options, Arc::new(FixedHost)).await.unwrap();
        let tree = client.tree("data").await.unwrap();
        let file = tree.open("file", &SmbOpenHow::read_write()).await.unwrap();
        for at in 0..20 {
            file.write(at << 16, &Bytes::from(vec![at as u8; 1 << 16])).await.unwrap();
        }
        for at in 0..20 {
            assert_eq!(file.read(at << 16, 1 << 16).await.unwrap().len(), 1 << 16);
        }
        file.close().await.unwrap();
    });
    // A client that disconnects without LOGOFF is removed a moment later.
    wait_for("the end", || (server.metric("anabranch_connections") == 0).then_some(()));
    let metrics = Metrics::of(&server);
    assert_eq!(metrics.bytes("SMB"), scales.seen());
    let of = |api| metrics.sum("anabranch_transactions_total", &[("share", "data"), ("api", api)]);
    assert_eq!((of("Write"), of("Read"), of("Create"), of("Close")), (20, 20, 1, 1));
    let (received, sent) = (
        server.metric("anabranch_received_bytes_total"),
        server.metric("anabranch_sent_bytes_total"),
    );
    assert_eq!((received, sent), scales.seen());
}

#[test]
fn scripted_nfs_load_is_metered_to_the_operation_and_byte() {
    let mut setup = Setup::new();
    setup.shares += "nfs_squash = \"none\"\n";
    let nfs = setup.serve_nfs(121, 24460);
    let server = setup.start();
    let scales = Scales::before(nfs);
    block_on(async {
        let mut instance = [0; 8];
        FixedHost.random(&mut instance);
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let target = NfsTarget { name: "nfs".into(), address: scales.address, uid, gid, instance };
        let client = NfsClient::connect(target, NfsOptions::default()).await.unwrap();
        let export = NfsExport::open(client, "data").await.unwrap();
        export.make_directory("dir").await.unwrap();
        let file = export.open_file("dir/file", Disposition::Create).await.unwrap();
        for at in 0..5 {
            export.write(&file, at << 16, &[at as u8; 1 << 16]).await.unwrap();
        }
        for at in 0..5 {
            assert_eq!(export.read(&file, at << 16, 1 << 16).await.unwrap().len(), 1 << 16);
        }
        export.close(file).await.unwrap();
        export.stat("dir/missing").await.unwrap_err();
        export.remove("dir/file").await.unwrap();
    });
    let metrics = Metrics::of(&server);
    let of = |api, response| {
        let labels = [("share", "data"), ("api", api), ("response_type", response)];
        metrics.sum("anabranch_transactions_total", &labels)
    };
    for (api, count) in
        [("Create", 1), ("Open", 1), ("Write", 5), ("Read", 5), ("Close", 1), ("Remove", 1)]
    {
        assert_eq!(of(api, "Success"), count, "{api}: {:?}", metrics.transactions("NFS"));
    }
    assert_eq!(of("Lookup", "ClientOtherError"), 1);
    assert_eq!(
        of("Sequence", "Success") + of("PutFh", "Success"),
        0,
        "they say only what others are about"
    );
    let by = [("share", "data"), ("authentication", "AuthSys")];
    let all = metrics.sum("anabranch_transactions_total", &[("share", "data")]);
    assert_eq!(metrics.sum("anabranch_transactions_total", &by), all);
    assert_eq!(metrics.bytes("NFS"), scales.seen());
    let reads = metrics.sum("anabranch_egress_bytes_total", &[("api", "Read")]);
    assert!(reads > 5 << 16 && reads < (5 << 16) + 5 * 300, "{reads}");
}
