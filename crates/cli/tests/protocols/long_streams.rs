//! Streams that are longer than an extended attribute, as a Mac writes resource forks.

use crate::support::client::{
    ACCESS_DENIED, CLOSE, CREATE, CreateRequestParts, FLUSH, IOCTL, LOCK, LOCK_NOT_GRANTED,
    OBJECT_NAME_NOT_FOUND, QUERY_DIRECTORY, QUERY_INFO, READ, RawFileId, RawReply, RawSmbClient,
    SET_INFO, SUCCESS, WRITE,
};
use crate::support::{Setup, library, wait_for};
use std::collections::BTreeMap;
use std::path::Path;

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
/// Classes of information. MS-FSCC 2.4.
const STANDARD: u8 = 5;
const RENAME: u8 = 10;
const END_OF_FILE: u8 = 20;
const STREAMS: u8 = 22;
/// MS-FSCC 2.3, MS-SMB2 2.2.31.
const REQUEST_RESUME_KEY: u32 = 0x0014_0078;
const COPYCHUNK: u32 = 0x0014_40F2;
const FILE_LOCK_CONFLICT: u32 = 0xC000_0054;
const LONG: usize = 300_000;

fn open(
    client: &mut RawSmbClient,
    name: &str,
    disposition: u32,
    options: u32,
) -> Result<RawFileId, u32> {
    let access = if options & DELETE_ON_CLOSE != 0 { DELETE } else { MAXIMUM_ALLOWED };
    let wish = CreateRequestParts { name, access, share: 7, disposition, options, contexts: &[] };
    let reply = client.call(CREATE, &RawSmbClient::create_with(&wish));
    if reply.status == SUCCESS { Ok(reply.file_id()) } else { Err(reply.status) }
}

fn close(client: &mut RawSmbClient, file: RawFileId) {
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(file)).status, SUCCESS);
}

fn fork(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(7)).collect()
}

fn put(client: &mut RawSmbClient, name: &str, data: &[u8]) {
    let file = open(client, name, OVERWRITE_IF, 0).unwrap();
    for (at, piece) in data.chunks(PIECE).enumerate() {
        let write = RawSmbClient::write_body(file, (PIECE * at) as u64, piece);
        assert_eq!(client.call(WRITE, &write).status, SUCCESS, "{} bytes at {at}", data.len());
    }
    assert_eq!(client.call(FLUSH, &RawSmbClient::flush_body(file)).status, SUCCESS);
    close(client, file);
}

fn get(client: &mut RawSmbClient, name: &str, length: usize) -> Vec<u8> {
    let file = open(client, name, OPEN, 0).unwrap();
    let mut data = Vec::new();
    while data.len() < length {
        let wanted = u32::try_from(PIECE.min(length - data.len())).unwrap();
        let reply = client.call(READ, &RawSmbClient::read_body(file, data.len() as u64, wanted));
        assert_eq!(reply.status, SUCCESS);
        data.extend_from_slice(reply.data());
    }
    close(client, file);
    data
}

fn set_info(client: &mut RawSmbClient, file: RawFileId, class: u8, data: &[u8]) {
    let reply = client.call(SET_INFO, &RawSmbClient::set_info_body(file, class, data));
    assert_eq!(reply.status, SUCCESS, "class {class}");
}

fn set_size(client: &mut RawSmbClient, file: RawFileId, size: u64) {
    set_info(client, file, END_OF_FILE, &size.to_le_bytes());
}

/// FileRenameInformation. MS-FSCC 2.4.42.2.
fn rename(client: &mut RawSmbClient, file: RawFileId, to: &str) {
    let name: Vec<u8> = to.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let length = u32::try_from(name.len()).unwrap().to_le_bytes();
    set_info(client, file, RENAME, &[&[0; 16][..], &length, &name].concat());
}

/// FileStreamInformation of a file or directory: sizes and allocated bytes. MS-FSCC 2.4.49.
fn streams(client: &mut RawSmbClient, name: &str) -> BTreeMap<String, (u64, u64)> {
    let file = open(client, name, OPEN, 0).unwrap();
    let listed = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 1, STREAMS, 0));
    close(client, file);
    let (entries, mut found, mut at) = (listed.output(), BTreeMap::new(), 0);
    while at < entries.len() {
        let number = |from: usize| u32::from_le_bytes(entries[from..from + 4].try_into().unwrap());
        let long = |from: usize| u64::from_le_bytes(entries[from..from + 8].try_into().unwrap());
        let name = &entries[at + 24..at + 24 + number(at + 4) as usize];
        let units: Vec<u16> =
            name.chunks(2).map(|unit| u16::from_le_bytes(unit.try_into().unwrap())).collect();
        found.insert(String::from_utf16(&units).unwrap(), (long(at + 8), long(at + 16)));
        match number(at) {
            0 => break,
            next => at += next as usize,
        }
    }
    found
}

/// Allocated bytes and end of an open. MS-FSCC 2.4.47.
fn sizes(client: &mut RawSmbClient, file: RawFileId) -> (u64, u64) {
    let reply = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 1, STANDARD, 0));
    let long = |at: usize| u64::from_le_bytes(reply.output()[at..at + 8].try_into().unwrap());
    (long(0), long(8))
}

fn control(client: &mut RawSmbClient, file: RawFileId, code: u32, input: &[u8]) -> RawReply {
    let mut body = vec![57, 0, 0, 0];
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&file);
    body.extend_from_slice(&120u32.to_le_bytes());
    body.extend_from_slice(&u32::try_from(input.len()).unwrap().to_le_bytes());
    body.extend_from_slice(&[0; 12]);
    body.extend_from_slice(&32u32.to_le_bytes());
    body.extend_from_slice(&1u32.to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(input);
    client.call(IOCTL, &body)
}

/// Copies a whole stream to another one by the server. MS-SMB2 2.2.31.1.
fn copy(client: &mut RawSmbClient, from: &str, to: &str, length: usize) {
    let source = open(client, from, OPEN, 0).unwrap();
    let target = open(client, to, OPEN_IF, 0).unwrap();
    let key = control(client, source, REQUEST_RESUME_KEY, &[]);
    assert_eq!(key.status, SUCCESS);
    let length = u32::try_from(length).unwrap().to_le_bytes();
    let one = 1u32.to_le_bytes();
    // The output follows the header and the fields of the reply. MS-SMB2 2.2.32.
    let source_key = &key.bytes[64 + 48..][..24];
    let chunk = [source_key, &one, &[0; 4], &[0; 16], &length, &[0; 4]].concat();
    assert_eq!(control(client, target, COPYCHUNK, &chunk).status, SUCCESS);
    close(client, source);
    close(client, target);
}

fn lock_byte(client: &mut RawSmbClient, file: RawFileId, at: u64, unlocks: bool) -> u32 {
    client.call(LOCK, &RawSmbClient::lock_byte_body(file, at, unlocks)).status
}

/// Number of long streams on the disk.
fn stored(data: &Path) -> usize {
    std::fs::read_dir(data.join(STORE)).map_or(0, Iterator::count)
}

#[test]
fn long_streams_are_kept_over_a_restart() {
    let mut server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    put(&mut client, "font", b"data");
    for length in [1000, 5000, 60_000, 300_000] {
        put(&mut client, "font:AFP_Resource", &fork(length));
        assert_eq!(get(&mut client, "font:AFP_Resource", length), fork(length));
    }
    assert_eq!(stored(&server.data()), 1);
    let server = server.kill().start();
    let mut client = RawSmbClient::ready(&server);
    assert_eq!(get(&mut client, "font:AFP_Resource", 300_000), fork(300_000));
    let file = open(&mut client, "font", OPEN, 0).unwrap();
    // FileStreamInformation: the length of the second entry. MS-FSCC 2.4.49.
    let listed = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 1, 22, 0));
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
    let mut client = RawSmbClient::ready(&server);
    put(&mut client, "font:AFP_Resource", &fork(300_000));
    let root = open(&mut client, "", OPEN, DIRECTORY_FILE).unwrap();
    let listed =
        client.call(QUERY_DIRECTORY, &RawSmbClient::query_directory_body(root, NAMES, 0, "*"));
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

/// The operations of Microsoft's suite of MS-FSA on named streams, with longer ones than an attribute.
#[test]
fn long_streams_of_files_and_directories_do_what_files_do() {
    let server = Setup::new().start();
    let (mut client, mut other) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    let data = server.data();
    for (round, options) in [0, DIRECTORY_FILE].into_iter().enumerate() {
        let host = format!("host{round}");
        let made = open(&mut client, &host, OPEN_IF, options).unwrap();
        close(&mut client, made);
        let (first, second) = (format!("{host}:first"), format!("{host}:second"));
        let file = open(&mut client, &first, OPEN_IF, 0).unwrap();
        set_size(&mut client, file, LONG as u64);
        assert_eq!(stored(&data), 1, "it is long before anything is written");
        assert_eq!(get(&mut other, &first, LONG), vec![0; LONG]);
        assert_eq!(sizes(&mut client, file).1, LONG as u64);
        let at = LONG as u64 - 10;
        assert_eq!(lock_byte(&mut client, file, at, false), SUCCESS);
        let theirs = open(&mut other, &first, OPEN, 0).unwrap();
        assert_eq!(lock_byte(&mut other, theirs, at, false), LOCK_NOT_GRANTED);
        let write = |file, at, byte| RawSmbClient::write_body(file, at, &[byte]);
        assert_eq!(other.call(WRITE, &write(theirs, at, 1)).status, FILE_LOCK_CONFLICT);
        assert_eq!(other.call(WRITE, &write(theirs, 0, 7)).status, SUCCESS);
        assert_eq!(lock_byte(&mut client, file, at, true), SUCCESS);
        assert_eq!(other.call(WRITE, &write(theirs, at, 9)).status, SUCCESS);
        rename(&mut client, file, ":second");
        // An open by the former name still refers to the stream.
        assert_eq!(other.call(READ, &RawSmbClient::read_body(theirs, at, 1)).data(), [9]);
        close(&mut other, theirs);
        close(&mut client, file);
        assert_eq!(open(&mut client, &first, OPEN, 0), Err(OBJECT_NAME_NOT_FOUND));
        let listed = streams(&mut client, &host);
        let (size, allocated) = listed[":second:$DATA"];
        assert_eq!((size, listed.contains_key(":first:$DATA")), (LONG as u64, false));
        assert!(allocated >= size, "{allocated}");
        put(&mut client, &second, &fork(LONG));
        copy(&mut client, &second, &format!("{host}:copy"), LONG);
        assert_eq!(get(&mut client, &format!("{host}:copy"), LONG), fork(LONG));
        assert_eq!(stored(&data), 2);
        let moved = format!("moved{round}");
        let file = open(&mut client, &host, OPEN, options).unwrap();
        rename(&mut client, file, &moved);
        close(&mut client, file);
        assert_eq!(get(&mut client, &format!("{moved}:second"), LONG), fork(LONG));
        let last = open(&mut client, &format!("{moved}:copy"), OPEN, DELETE_ON_CLOSE).unwrap();
        close(&mut client, last);
        assert_eq!((stored(&data), streams(&mut client, &moved).len()), (1, 2 - round));
        let last = open(&mut client, &moved, OPEN, DELETE_ON_CLOSE | options).unwrap();
        close(&mut client, last);
        wait_for("the removal of the long stream", || (stored(&data) == 0).then_some(()));
    }
}

#[test]
fn long_stream_follows_its_file_over_nfs() {
    let mut setup = Setup::new();
    setup.shares += "nfs_squash = \"none\"\n";
    let nfs = setup.serve_nfs(61, 24461);
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    put(&mut client, "f", b"data");
    put(&mut client, "f:s", &fork(LONG));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let export = runtime.block_on(library::export(nfs, "data"));
    let names = |path: &str| -> Vec<String> {
        let listed = runtime.block_on(export.list(path)).unwrap();
        listed.iter().map(client::nfs::NfsDirectoryEntry::name_text).collect()
    };
    assert_eq!(names(""), ["f"], "the directory of long streams is not listed");
    assert!(runtime.block_on(export.stat(STORE)).is_err());
    runtime.block_on(export.make_directory("d")).unwrap();
    runtime.block_on(export.rename("f", "d/g")).unwrap();
    assert_eq!(get(&mut client, "d\\g:s", LONG), fork(LONG));
    runtime.block_on(export.remove("d/g")).unwrap();
    let data = server.data();
    wait_for("the removal of the long stream", || (stored(&data) == 0).then_some(()));
}
