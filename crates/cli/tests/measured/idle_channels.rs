//! Many sessions with several channels each that do nothing.

use crate::support::library::{FixedHost, target};
use crate::support::{MeasuringTurn, PASSWORD, Setup, user};
use client::{SmbClient, SmbOpenHow, SmbOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use std::time::Duration;

const SESSIONS: usize = 1000;
const CHANNELS: usize = 4;
/// Memory that the whole server may take.
const BYTES_MAX: usize = 512 * 1024 * 1024;

#[test]
fn thousand_four_channel_sessions_stay_within_memory_bound() {
    let _turn = MeasuringTurn::wait();
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    if limit.maximum.is_some_and(|max| max < (SESSIONS * CHANNELS) as u64 + 100) {
        eprintln!("skipped: the hard limit of open files is too low; raise it with ulimit -Hn");
        return;
    }
    let server = Setup::new().start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held = runtime.block_on(async {
        let mut held = Vec::new();
        for number in 0..SESSIONS {
            let target = target(server.smb, &user(), PASSWORD);
            let mut client_guid = [7; 16];
            client_guid[..8].copy_from_slice(&(number as u64).to_le_bytes());
            let options = SmbOptions { client_guid, channels: CHANNELS, ..SmbOptions::default() };
            let client = SmbClient::connect(target, options, Arc::new(FixedHost)).await.unwrap();
            let tree = client.tree("data").await.unwrap();
            let file =
                tree.open(&format!("file{number}"), &SmbOpenHow::read_write()).await.unwrap();
            file.write(0, &vec![1; 60_000].into()).await.unwrap();
            held.push((client, file));
        }
        // The server releases its buffers after two seconds.
        tokio::time::sleep(Duration::from_secs(5)).await;
        held
    });
    let channels: usize = held.iter().map(|(client, _)| client.channels().len()).sum();
    assert_eq!(channels, SESSIONS * CHANNELS);
    assert_eq!(server.metric("anabranch_connections"), channels as u64);
    let bytes = server.memory_bytes();
    println!("{bytes} bytes of the server's memory, {} a channel", bytes / channels);
    assert!(bytes <= BYTES_MAX, "{bytes}");
}
