//! Times that an open set or stopped (FileBasicInformation, MS-FSCC 2.4.7): no operation by the same
//! open moves them, until it lets them move again. MS-FSA 2.1.4.17, 2.1.4.19.

use crate::support::client::{
    CLOSE, CREATE, CreateRequestParts, FLUSH, IOCTL, QUERY_DIRECTORY, QUERY_INFO, READ, RawFileId,
    RawSmbClient, SET_INFO, SUCCESS, WRITE,
};
use crate::support::{ServerProcess, Setup};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const BASIC: u8 = 4;
const ALL_ACCESS: u32 = 0x001F_01FF;
/// 2 September 2001, in FILETIME.
const LONG_AGO: i64 = 126_439_000_000_000_000;
const FREEZE: i64 = -1;
const THAW: i64 = -2;
/// The times of FileBasicInformation, in order.
const ACCESSED: usize = 1;
const MODIFIED: usize = 2;
const CHANGED: usize = 3;

fn open(client: &mut RawSmbClient, name: &str, options: u32) -> RawFileId {
    let wish = CreateRequestParts {
        name,
        access: ALL_ACCESS,
        share: 7,
        disposition: 3,
        options,
        contexts: &[],
    };
    let reply = client.call(CREATE, &RawSmbClient::create_with(&wish));
    assert_eq!(reply.status, SUCCESS, "{name}");
    reply.file_id()
}

fn times(client: &mut RawSmbClient, file: RawFileId) -> [i64; 4] {
    let reply = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 1, BASIC, 0));
    assert_eq!(reply.status, SUCCESS);
    let mut parts = reply.output()[..32].chunks_exact(8);
    std::array::from_fn(|_| i64::from_le_bytes(parts.next().unwrap().try_into().unwrap()))
}

fn set_times(client: &mut RawSmbClient, file: RawFileId, times: [i64; 4]) {
    let mut data: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
    data.extend_from_slice(&[0; 8]);
    set(client, file, BASIC, &data);
}

fn set(client: &mut RawSmbClient, file: RawFileId, class: u8, data: &[u8]) {
    let reply = client.call(SET_INFO, &RawSmbClient::set_info_body(file, class, data));
    assert_eq!(reply.status, SUCCESS, "class {class}");
}

fn control(
    client: &mut RawSmbClient,
    file: RawFileId,
    code: u32,
    input: &[u8],
    room: u32,
) -> Vec<u8> {
    let reply = client.call(IOCTL, &RawSmbClient::control_body(file, code, input, room));
    assert_eq!(reply.status, SUCCESS, "{code:#x}");
    reply.bytes[112.min(reply.bytes.len())..].to_vec()
}

/// FileRenameInformation and FileLinkInformation.
fn name_info(name: &str) -> Vec<u8> {
    let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let length = u32::try_from(name.len()).unwrap().to_le_bytes();
    [&[1, 0, 0, 0, 0, 0, 0, 0], &[0; 8][..], &length, &name].concat()
}

fn copy_chunk(client: &mut RawSmbClient, from: RawFileId, to: RawFileId) {
    let mut input = control(client, from, 0x0014_0078, &[], 32)[..24].to_vec();
    input.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
    input.extend_from_slice(&[0; 16]);
    input.extend_from_slice(&[0, 16, 0, 0, 0, 0, 0, 0]);
    control(client, to, 0x0014_80F2, &input, 12);
}

fn read(client: &mut RawSmbClient, file: RawFileId, length: u32) {
    assert_eq!(client.call(READ, &RawSmbClient::read_body(file, 0, length)).status, SUCCESS);
}

fn write(client: &mut RawSmbClient, file: RawFileId) {
    assert_eq!(client.call(WRITE, &RawSmbClient::write_body(file, 0, b"new")).status, SUCCESS);
}

/// Sets one of two access lists in turn: all rights for everybody, and once more for those who are
/// authenticated. MS-DTYP 2.4.
fn set_security(client: &mut RawSmbClient, file: RawFileId) {
    let ace = |identifier_authority: u8, sub_authority: u32| {
        let head = [&[0, 0, 20, 0][..], &ALL_ACCESS.to_le_bytes(), &[1, 1, 0, 0, 0, 0, 0]].concat();
        [&head[..], &[identifier_authority], &sub_authority.to_le_bytes()].concat()
    };
    let mut aces = vec![ace(1, 0)];
    if unique() % 2 == 1 {
        aces.push(ace(5, 11));
    }
    let length = u16::try_from(8 + aces.len() * 20).unwrap().to_le_bytes();
    let count = u16::try_from(aces.len()).unwrap().to_le_bytes();
    let mut descriptor = vec![1, 0, 4, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0];
    descriptor.extend([&[2, 0][..], &length, &count, &[0, 0], &aces.concat()].concat());
    let mut body = RawSmbClient::set_info_body(file, 0, &descriptor);
    body[2] = 3;
    body[12] = 4;
    assert_eq!(client.call(SET_INFO, &body).status, SUCCESS);
}

/// A distinct number, so that the operation changes something each time.
fn unique() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// An operation by an open of a file, and the times that it moves.
struct OperationCase {
    name: &'static str,
    run: fn(&mut RawSmbClient, RawFileId),
    moves: &'static [usize],
}

const READS: &[usize] = &[ACCESSED];
const WRITES: &[usize] = &[ACCESSED, MODIFIED, CHANGED];
const CHANGES: &[usize] = &[CHANGED];

const OPERATIONS: [OperationCase; 17] = [
    OperationCase { name: "read", run: |client, file| read(client, file, 100), moves: READS },
    OperationCase {
        name: "long read",
        run: |client, file| read(client, file, 65_536),
        moves: READS,
    },
    OperationCase {
        name: "copy from",
        run: |client, file| {
            let to = open(client, "copy", 0);
            copy_chunk(client, file, to);
        },
        moves: READS,
    },
    OperationCase {
        name: "copy to",
        run: |client, file| {
            let from = open(client, "source", 0);
            copy_chunk(client, from, file);
        },
        moves: WRITES,
    },
    OperationCase { name: "write", run: write, moves: WRITES },
    OperationCase {
        name: "set size",
        run: |client, file| set(client, file, 20, &9_000u64.to_le_bytes()),
        moves: WRITES,
    },
    OperationCase {
        name: "allocate",
        run: |client, file| set(client, file, 19, &(1u64 << 20).to_le_bytes()),
        moves: CHANGES,
    },
    OperationCase {
        name: "zero data",
        run: |client, file| {
            let range = [0u64.to_le_bytes(), 100u64.to_le_bytes()].concat();
            control(client, file, 0x0009_80C8, &range, 0);
        },
        moves: WRITES,
    },
    OperationCase {
        name: "set sparse",
        run: |client, file| drop(control(client, file, 0x0009_00C4, &[1], 0)),
        moves: CHANGES,
    },
    OperationCase {
        name: "set attribute",
        run: |client, file| {
            let entry = [&b"\0\0\0\0\0\x01\x04\0A\0"[..], &unique().to_le_bytes()].concat();
            set(client, file, 15, &entry);
        },
        moves: CHANGES,
    },
    OperationCase {
        name: "write past the end",
        run: |client, file| {
            let body = RawSmbClient::write_body(file, 200_000, b"more");
            assert_eq!(client.call(WRITE, &body).status, SUCCESS);
        },
        moves: WRITES,
    },
    OperationCase {
        name: "trim",
        run: |client, file| {
            // One range, without a key.
            let range = [1u64 << 32, 4096, 8192];
            let input: Vec<u8> = range.iter().flat_map(|word| word.to_le_bytes()).collect();
            control(client, file, 0x0009_8208, &input, 4);
        },
        moves: WRITES,
    },
    OperationCase {
        name: "write and flush",
        run: |client, file| {
            write(client, file);
            assert_eq!(client.call(FLUSH, &RawSmbClient::flush_body(file)).status, SUCCESS);
        },
        moves: WRITES,
    },
    OperationCase { name: "set security", run: set_security, moves: CHANGES },
    OperationCase {
        name: "rename",
        run: |client, file| set(client, file, 10, &name_info(&format!("renamed{}", unique()))),
        moves: CHANGES,
    },
    OperationCase {
        name: "link",
        run: |client, file| set(client, file, 11, &name_info(&format!("linked{}", unique()))),
        moves: CHANGES,
    },
    OperationCase {
        name: "set reparse point",
        run: |client, file| {
            let (head, number) = ([0x34, 0x12, 0, 0, 4, 0, 0, 0], unique().to_le_bytes());
            let data = [&head[..], &[7; 16], &number].concat();
            drop(control(client, file, 0x0009_00A4, &data, 0));
        },
        moves: CHANGES,
    },
];

/// Waits longer than a tick of the file system's clock.
fn pass_a_tick() {
    std::thread::sleep(Duration::from_millis(25));
}

/// A file of 64 KiB and more, with all of its times long ago; its open has set none.
fn old_file(client: &mut RawSmbClient, server: &ServerProcess, name: &str) -> RawFileId {
    std::fs::write(server.data().join(name), vec![7; 100_000]).unwrap();
    let (file, other) = (open(client, name, 0), open(client, name, 0));
    set_times(client, other, [LONG_AGO; 4]);
    file
}

/// Runs the operation by an open with frozen times, then by the same one with times that move.
fn check(client: &mut RawSmbClient, operation: &OperationCase, file: RawFileId, frozen: [i64; 4]) {
    let name = operation.name;
    set_times(client, file, frozen);
    assert_eq!(times(client, file), [LONG_AGO; 4], "{name}");
    pass_a_tick();
    (operation.run)(client, file);
    assert_eq!(times(client, file), [LONG_AGO; 4], "{name}: moves a time that was {frozen:?}");
    set_times(client, file, [THAW; 4]);
    assert_eq!(times(client, file), [LONG_AGO; 4], "{name}");
    pass_a_tick();
    (operation.run)(client, file);
    let after = times(client, file);
    for &time in operation.moves {
        assert_ne!(after[time], LONG_AGO, "{name}: time {time} does not move again");
    }
}

#[test]
fn operations_leave_times_that_their_open_set_or_froze() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    std::fs::write(server.data().join("source"), vec![8; 100_000]).unwrap();
    for operation in &OPERATIONS {
        for (number, frozen) in [[LONG_AGO; 4], [FREEZE; 4]].into_iter().enumerate() {
            let name = format!("{}{number}", operation.name);
            let file = old_file(&mut client, &server, &name);
            check(&mut client, operation, file, frozen);
        }
    }
}

#[test]
fn listing_leaves_an_access_time_that_its_open_froze() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let list = OperationCase {
        name: "list",
        run: |client, directory| {
            // SMB2_RESTART_SCANS: a new scan each time.
            let body = RawSmbClient::query_directory_body(directory, 1, 1, "*");
            assert_eq!(client.call(QUERY_DIRECTORY, &body).status, SUCCESS);
        },
        moves: READS,
    };
    for (number, frozen) in [[LONG_AGO; 4], [FREEZE; 4]].into_iter().enumerate() {
        let name = format!("directory{number}");
        std::fs::create_dir(server.data().join(&name)).unwrap();
        std::fs::write(server.data().join(&name).join("file"), b"").unwrap();
        let (directory, other) = (open(&mut client, &name, 1), open(&mut client, &name, 1));
        set_times(&mut client, other, [LONG_AGO; 4]);
        check(&mut client, &list, directory, frozen);
    }
}

#[test]
fn stream_write_leaves_times_that_its_open_stopped() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let operation = OperationCase { name: "stream write", run: write, moves: &[MODIFIED, CHANGED] };
    for (number, frozen) in [[LONG_AGO; 4], [FREEZE; 4]].into_iter().enumerate() {
        let name = format!("file{number}");
        let stream = open(&mut client, &format!("{name}:s"), 0);
        let other = open(&mut client, &name, 0);
        set_times(&mut client, other, [LONG_AGO; 4]);
        check(&mut client, &operation, stream, frozen);
    }
}

/// One time is frozen, the others move.
#[test]
fn frozen_time_stops_while_others_move() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    for stopped in [ACCESSED, MODIFIED, CHANGED] {
        let file = old_file(&mut client, &server, &format!("file{stopped}"));
        let setting = std::array::from_fn(|time| if time == stopped { FREEZE } else { 0 });
        set_times(&mut client, file, setting);
        pass_a_tick();
        read(&mut client, file, 100);
        let accessed = times(&mut client, file)[ACCESSED];
        assert_eq!(accessed == LONG_AGO, stopped == ACCESSED, "read, {stopped} is stopped");
        write(&mut client, file);
        let after = times(&mut client, file);
        for time in [ACCESSED, MODIFIED, CHANGED] {
            assert_eq!(after[time] == LONG_AGO, time == stopped, "{time}, {stopped} is stopped");
        }
    }
}

fn close(client: &mut RawSmbClient, file: RawFileId) {
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(file)).status, SUCCESS);
}

/// -1 leaves what the client saw after a write, -2 moves nothing, and neither does the close.
#[test]
fn stopping_and_resuming_move_no_time_by_themselves() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let writer = old_file(&mut client, &server, "file");
    pass_a_tick();
    write(&mut client, writer);
    let seen = times(&mut client, writer);
    pass_a_tick();
    for setting in [FREEZE, THAW] {
        set_times(&mut client, writer, [setting; 4]);
        assert_eq!(times(&mut client, writer), seen, "{setting}");
    }
    set_times(&mut client, writer, [LONG_AGO; 4]);
    write(&mut client, writer);
    set_times(&mut client, writer, [THAW; 4]);
    close(&mut client, writer);
    let file = open(&mut client, "file", 0);
    assert_eq!(times(&mut client, file), [LONG_AGO; 4]);
}

#[test]
fn access_time_set_after_a_write_survives_the_close() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let writer = old_file(&mut client, &server, "file");
    let other = open(&mut client, "file", 0);
    write(&mut client, writer);
    pass_a_tick();
    set_times(&mut client, other, [0, LONG_AGO, 0, 0]);
    close(&mut client, writer);
    assert_eq!(times(&mut client, other)[ACCESSED], LONG_AGO);
}

/// The first times of a reply to CLOSE or CREATE: creation, last access, last write, change.
fn times_at(bytes: &[u8], at: usize) -> [i64; 4] {
    let mut parts = bytes[at..at + 32].chunks_exact(8);
    std::array::from_fn(|_| i64::from_le_bytes(parts.next().unwrap().try_into().unwrap()))
}

/// MS-SMB2 2.2.16.
#[test]
fn close_reply_shows_the_times_that_the_close_leaves() {
    use std::os::unix::fs::PermissionsExt;
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    for (name, mode, stops) in
        [("plain", 0o644, false), ("closed", 0o200, true), ("c", 0o200, false)]
    {
        let writer = old_file(&mut client, &server, name);
        let other = open(&mut client, name, 0);
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(server.data().join(name), mode).unwrap();
        pass_a_tick();
        write(&mut client, writer);
        if stops {
            set_times(&mut client, writer, [0, 0, 0, FREEZE]);
        }
        let written = times(&mut client, other);
        pass_a_tick();
        let mut body = RawSmbClient::close_body(writer);
        // SMB2_CLOSE_FLAG_POSTQUERY_ATTRIB.
        body[2] = 1;
        let reply = client.call(CLOSE, &body);
        assert_eq!(reply.status, SUCCESS);
        let replied = times_at(&reply.bytes, 64 + 8);
        assert_eq!(replied[MODIFIED..], written[MODIFIED..], "{name}");
        pass_a_tick();
        assert_eq!(times(&mut client, other), replied, "{name}");
    }
}

/// FileDispositionInformation, and FileDispositionInformationEx with FILE_DISPOSITION_DELETE and
/// FILE_DISPOSITION_POSIX_SEMANTICS.
#[test]
fn removal_at_close_leaves_a_stopped_change_time() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    for (number, (class, flags)) in [(13, &[1][..]), (64, &[3, 0, 0, 0])].into_iter().enumerate() {
        let (name, linked) = (format!("file{number}"), format!("linked{number}"));
        std::fs::write(server.data().join(&name), b"data").unwrap();
        let file = open(&mut client, &name, 0);
        std::fs::hard_link(server.data().join(&name), server.data().join(&linked)).unwrap();
        let other = open(&mut client, &linked, 0);
        for (removed, stop) in [
            (open(&mut client, &format!("{name}:s"), 0), LONG_AGO),
            (open(&mut client, &format!("{name}:t"), 0), FREEZE),
            (file, FREEZE),
        ] {
            set_times(&mut client, removed, [0, 0, 0, stop]);
            let stopped = times(&mut client, other);
            pass_a_tick();
            set(&mut client, removed, class, flags);
            close(&mut client, removed);
            assert_eq!(times(&mut client, other), stopped, "class {class}");
        }
        assert!(!server.data().join(&name).exists());
    }
}

#[test]
fn reading_a_link_leaves_a_stopped_access_time() {
    use std::os::unix::fs::MetadataExt;
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let at = server.data().join("link");
    std::os::unix::fs::symlink("target", &at).unwrap();
    // FILE_OPEN_REPARSE_POINT.
    let link = open(&mut client, "link", 0x0020_0000);
    set_times(&mut client, link, [0, LONG_AGO, 0, 0]);
    let accessed = || at.symlink_metadata().unwrap().atime();
    let before = accessed();
    pass_a_tick();
    control(&mut client, link, 0x0009_00A8, &[], 4096);
    assert_eq!(times(&mut client, link)[ACCESSED], LONG_AGO);
    assert_eq!(accessed(), before);
}
