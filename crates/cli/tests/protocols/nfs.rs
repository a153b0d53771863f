//! Our server over NFS, by our own client.

use crate::support::Setup;
use crate::support::relay::Relay;
use client::nfs::{Disposition, NfsClient, NfsExport, NfsOptions, NfsTarget};
use std::net::SocketAddr;

async fn connect(address: SocketAddr, connections: usize) -> NfsClient {
    let target = NfsTarget {
        name: "server".into(),
        address,
        uid: 0,
        gid: 0,
        instance: [host_of(address); 8],
    };
    NfsClient::connect(target, NfsOptions { connections, ..NfsOptions::default() }).await.unwrap()
}

fn host_of(address: SocketAddr) -> u8 {
    match address.ip() {
        std::net::IpAddr::V4(ip) => ip.octets()[3],
        std::net::IpAddr::V6(_) => 0,
    }
}

/// The server sends large reads by `sendfile`, small and odd ones from a buffer; both must give the
/// same data.
#[test]
fn reads_of_every_length_give_what_was_written() {
    let mut setup = Setup::new();
    let (address, _) = setup.export(95, 24457);
    let _server = setup.start();
    let length = 1_000_003_usize;
    let whole: Vec<u8> = (0..length as u32).map(|at| (at ^ (at >> 8)) as u8).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = connect(address, 3).await;
        let export = NfsExport::open(client, "exported").await.unwrap();
        let file = export.open_file("file", Disposition::Create).await.unwrap();
        for at in (0..length).step_by(300_001) {
            let end = length.min(at + 300_001);
            export.write(&file, at as u64, &whole[at..end]).await.unwrap();
        }
        let kib = 1024;
        let lengths = [1, 4095, 4096, 16 * kib - 1, 16 * kib, 16 * kib + 2, 256 * kib, 1000 * kib];
        for count in lengths {
            for at in [0, 1, 4096, 700_000, length - count.min(length), length - 1, length] {
                let read = export.read(&file, at as u64, count as u32).await.unwrap();
                let end = length.min(at + count);
                assert!(read[..] == whole[at.min(end)..end], "{count} bytes at {at}");
            }
        }
        export.close(file).await.unwrap();
    });
}

/// A client of root uses a reserved port, so the test connects through a relay.
#[test]
fn unreserved_port_is_refused_unless_the_share_says_otherwise() {
    let mut setup = Setup::new();
    let (address, folder) = setup.export(93, 24461);
    // The default configuration.
    setup.server = setup.server.replace("reserved_ports = false\n", "");
    let open = format!("open={},nfs_squash=none,reserved_ports=no", folder.display());
    setup.arguments.extend(["--share".into(), open]);
    let server = setup.start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let relay = Relay::new(address).await;
        let client = connect(relay.address, 1).await;
        let error = NfsExport::open(client.clone(), "exported").await.unwrap_err().to_string();
        assert!(error.contains("PERM"), "{error}");
        assert!(error.contains("reserved_ports = false"), "{error}");
        NfsExport::open(client, "open").await.unwrap();
    });
    let line = server.logged("unreserved source port");
    assert!(line.contains("reserved_ports = false"), "{line}");
}
