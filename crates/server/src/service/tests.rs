//! Tests of the whole service over loopback sockets.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

/// An RPC record with a call of NFSv4 procedure 0 (NULL). RFC 5531 9 and 11.
fn null_call(xid: u32) -> Vec<u8> {
    let words = [0x8000_0028, xid, 0, 2, 100_003, 4, 0, 0, 0, 0, 0];
    words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

/// Reads one reply and returns its xid.
fn answered(stream: &mut TcpStream) -> u32 {
    let mut reply = [0; 28];
    stream.read_exact(&mut reply).unwrap();
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

fn tasks_of(assignments: &ThreadAssignments) -> Vec<usize> {
    assignments.threads().iter().map(|thread| thread.metrics().num_alive_tasks()).collect()
}

/// A connection that moves to another thread keeps its partial request and its later ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_moved_to_another_thread_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = ServerConfig::empty();
    config.add_share("data", folder.path()).unwrap();
    config.users = folder.path().join("users.toml");
    config.smb = vec!["127.0.0.1:0".parse().unwrap()];
    config.nfs = config.smb.clone();
    config.admin = None;
    let service =
        Service::start(&config, &Users::default(), PassedSockets::default()).await.unwrap();
    let (assignments, address) = (service.threads.assignments().clone(), service.nfs.listening[0]);

    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut used = std::collections::BTreeSet::new();
        for xid in 0..40 {
            let call = null_call(xid);
            // The connection checks its assigned thread after each receive.
            stream.write_all(&call[..7]).unwrap();
            assignments.move_all();
            std::thread::sleep(Duration::from_millis(2));
            stream.write_all(&call[7..]).unwrap();
            assert_eq!(answered(&mut stream), xid);
            used.extend(tasks_of(&assignments).iter().position(|tasks| *tasks > 0));
        }
        assert!(used.len() > 1, "it was on {used:?} only");
    })
    .await
    .unwrap();
}
