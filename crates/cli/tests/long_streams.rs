//! Streams that are longer than an extended attribute, as a Mac writes resource forks.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

use std::path::Path;
use support::client::{
    ACCESS_DENIED, CLOSE, CREATE, Client, Create, FLUSH, FileId, OBJECT_NAME_NOT_FOUND,
    QUERY_DIRECTORY, QUERY_INFO, READ, SUCCESS, WRITE,
};
use support::{Setup, wait_for};

const OVERWRITE_IF: u32 = 5;
const OPEN: u32 = 1;
const OPEN_IF: u32 = 3;
const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
const DELETE: u32 = 0x1_0000;
const DIRECTORY_FILE: u32 = 0x1;
const DELETE_ON_CLOSE: u32 = 0x1000;
const STORE: &str = ".anabranch-streams";
/// Bytes of one WRITE.
const PIECE: usize = 60_000;
const NAMES: u8 = 12;

fn open(client: &mut Client, name: &str, disposition: u32, options: u32) -> Result<FileId, u32> {
    let access = if options & DELETE_ON_CLOSE != 0 { DELETE } else { MAXIMUM_ALLOWED };
    let wish = Create { name, access, share: 7, disposition, options, contexts: &[] };
    let reply = client.call(CREATE, &Client::create_with(&wish));
    if reply.status == SUCCESS { Ok(reply.file_id()) } else { Err(reply.status) }
}

fn close(client: &mut Client, file: FileId) {
    assert_eq!(client.call(CLOSE, &Client::close_body(file)).status, SUCCESS);
}

fn fork(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(7)).collect()
}

fn put(client: &mut Client, name: &str, data: &[u8]) {
    let file = open(client, name, OVERWRITE_IF, 0).unwrap();
    for (at, piece) in data.chunks(PIECE).enumerate() {
        let write = Client::write_body(file, (PIECE * at) as u64, piece);
        assert_eq!(client.call(WRITE, &write).status, SUCCESS, "{} bytes at {at}", data.len());
    }
    assert_eq!(client.call(FLUSH, &Client::flush_body(file)).status, SUCCESS);
    close(client, file);
}

fn get(client: &mut Client, name: &str, length: usize) -> Vec<u8> {
    let file = open(client, name, OPEN, 0).unwrap();
    let mut data = Vec::new();
    while data.len() < length {
        let wanted = u32::try_from(PIECE.min(length - data.len())).unwrap();
        let reply = client.call(READ, &Client::read_body(file, data.len() as u64, wanted));
        assert_eq!(reply.status, SUCCESS);
        data.extend_from_slice(reply.data());
    }
    close(client, file);
    data
}

/// How many long streams there are on the disk.
fn stored(data: &Path) -> usize {
    std::fs::read_dir(data.join(STORE)).map_or(0, Iterator::count)
}

#[test]
fn long_streams_are_kept_over_a_restart() {
    let mut server = Setup::new().start();
    let mut client = Client::ready(&server);
    put(&mut client, "font", b"data");
    for length in [1000, 5000, 60_000, 300_000] {
        put(&mut client, "font:AFP_Resource", &fork(length));
        assert_eq!(get(&mut client, "font:AFP_Resource", length), fork(length));
    }
    assert_eq!(stored(&server.data()), 1);
    let server = server.kill().start();
    let mut client = Client::ready(&server);
    assert_eq!(get(&mut client, "font:AFP_Resource", 300_000), fork(300_000));
    let file = open(&mut client, "font", OPEN, 0).unwrap();
    // FileStreamInformation: the length of the second entry. MS-FSCC 2.4.49.
    let listed = client.call(QUERY_INFO, &Client::query_info_body(file, 1, 22, 0));
    let entries = listed.output();
    let next = u32::from_le_bytes(entries[..4].try_into().unwrap()) as usize;
    let size = u64::from_le_bytes(entries[next + 8..next + 16].try_into().unwrap());
    assert_eq!(size, 300_000);
    close(&mut client, file);
    let last = open(&mut client, "font", OPEN, DELETE_ON_CLOSE).unwrap();
    close(&mut client, last);
    let data = server.data();
    wait_for("the removal of the long stream", || (stored(&data) == 0).then_some(()));
    assert!(!server.log().contains("WARN"), "{}", server.log());
}

#[test]
fn store_of_long_streams_is_not_there_for_clients() {
    let server = Setup::new().start();
    let mut client = Client::ready(&server);
    put(&mut client, "font:AFP_Resource", &fork(300_000));
    let root = open(&mut client, "", OPEN, DIRECTORY_FILE).unwrap();
    let listed = client.call(QUERY_DIRECTORY, &Client::query_directory_body(root, NAMES, 0, "*"));
    let units: Vec<u8> = STORE.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(!listed.output().windows(units.len()).any(|at| at == units));
    let inside = std::fs::read_dir(server.data().join(STORE)).unwrap().next().unwrap().unwrap();
    let inside = format!("{STORE}\\{}", inside.file_name().to_str().unwrap());
    for name in [STORE, &STORE.to_uppercase()] {
        assert_eq!(open(&mut client, name, OPEN, 0), Err(OBJECT_NAME_NOT_FOUND), "{name}");
        assert_eq!(open(&mut client, name, OPEN_IF, 0), Err(ACCESS_DENIED), "{name}");
    }
    assert!(open(&mut client, &inside, OPEN, 0).is_err());
}
