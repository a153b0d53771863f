//! File server responses by MS-FSA: names, times, information classes and control codes.

use crate::harness::{ConnectedClient, Net};
use files::Caller;
use std::sync::Arc;
use std::time::Duration;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{Actor, AttributeChanges, AttributeRequest, Case, Identity, OpenHow, RelPath, Vfs, Wait};
use wire::codec::{Writer, put_utf16};
use wire::fscc;
use wire::ntstatus::NtStatus;
use wire::smb::{
    Command, CreateRequest, FileId, Header, InfoType, IoctlRequest, LockElement, LockRequest,
    QueryDirectoryRequest, QueryFlags, QueryInfoRequest, SetInfoRequest, WriteRequest, fsctl,
};

/// FILE_DIRECTORY_FILE, FILE_NON_DIRECTORY_FILE, FILE_NO_INTERMEDIATE_BUFFERING.
const DIRECTORY: u32 = 1;
const NON_DIRECTORY: u32 = 0x40;
const UNBUFFERED: u32 = 8;
/// 2009-04-01 08:00 UTC.
const LONG_AGO: u64 = 128_830_464_000_000_000;
const BASIC: u8 = 4;

struct CreateCase<'a> {
    name: &'a str,
    options: u32,
    disposition: u32,
    attributes: u32,
}

impl CreateCase<'_> {
    fn send(&self, client: &mut ConnectedClient) -> Result<FileId, NtStatus> {
        let mut units = Vec::new();
        put_utf16(&mut units, self.name);
        let request = CreateRequest {
            oplock: 0,
            impersonation: 2,
            desired_access: 0x1F_01FF,
            attributes: self.attributes,
            share_access: 7,
            disposition: self.disposition,
            options: self.options,
            name: &units,
            contexts: &[],
        };
        let reply = client.call(Command::CREATE, |w| request.encode(w));
        match reply.header.status {
            NtStatus::SUCCESS => Ok(reply.file()),
            status => Err(status),
        }
    }
}

/// Opens or creates a file or directory.
fn open(client: &mut ConnectedClient, name: &str, options: u32) -> Result<FileId, NtStatus> {
    let disposition = fscc::FILE_OPEN_IF;
    CreateCase { name, options, disposition, attributes: 0 }.send(client)
}

fn file(client: &mut ConnectedClient, name: &str) -> FileId {
    open(client, name, NON_DIRECTORY).unwrap()
}

fn directory(client: &mut ConnectedClient, name: &str) -> FileId {
    open(client, name, DIRECTORY).unwrap()
}

fn set(
    client: &mut ConnectedClient,
    kind: InfoType,
    class: u8,
    file_id: FileId,
    input: &[u8],
) -> NtStatus {
    let request = SetInfoRequest { kind, class, additional: 0, file_id, input };
    client.status(Command::SET_INFO, |w| request.encode(w))
}

fn set_file(client: &mut ConnectedClient, class: u8, file_id: FileId, input: &[u8]) -> NtStatus {
    set(client, InfoType::File, class, file_id, input)
}

fn query(
    client: &mut ConnectedClient,
    kind: InfoType,
    class: u8,
    file_id: FileId,
) -> Result<Vec<u8>, NtStatus> {
    let request = QueryInfoRequest {
        kind,
        class,
        output_bytes: 4096,
        additional: 0,
        flags: 0,
        file_id,
        input: &[],
    };
    let reply = client.call(Command::QUERY_INFO, |w| request.encode(w));
    match reply.header.status {
        NtStatus::SUCCESS => Ok(reply.bytes[Header::LENGTH + 8..].to_vec()),
        status => Err(status),
    }
}

fn write(client: &mut ConnectedClient, file_id: FileId, data: &[u8]) {
    let request = WriteRequest { offset_bytes: 0, file_id, flags: 0, data };
    let written = client.status(Command::WRITE, |w| request.encode(w));
    assert_eq!(written, NtStatus::SUCCESS);
}

fn control(client: &mut ConnectedClient, code: u32, file_id: FileId, input: &[u8]) -> NtStatus {
    let request = IoctlRequest {
        code,
        file_id,
        input,
        input_bytes_max: 0,
        output_bytes_max: 4096,
        is_fsctl: true,
    };
    client.status(Command::IOCTL, |w| request.encode(w))
}

/// Creation, last access, last write, change.
fn times(client: &mut ConnectedClient, file: FileId) -> [u64; 4] {
    let bytes = query(client, InfoType::File, BASIC, file).unwrap();
    [0, 8, 16, 24].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()))
}

/// FileBasicInformation with one time.
fn with_time(at: usize, time: i64) -> Vec<u8> {
    let mut input = vec![0; 40];
    input[at * 8..at * 8 + 8].copy_from_slice(&time.to_le_bytes());
    input
}

/// FileRenameInformation, which FileLinkInformation is, too.
fn renamed(name: &str) -> Vec<u8> {
    let mut input = vec![0; 16];
    let mut units = Vec::new();
    put_utf16(&mut units, name);
    input.extend((units.len() as u32).to_le_bytes());
    input.extend(units);
    input
}

#[test]
fn each_timestamp_is_set_frozen_and_thawed_alone() {
    let clock = Arc::new(StillClock::default());
    let vfs = MemoryVfs::new(MemoryOptions::default(), clock.clone());
    let net = Net::over(Arc::new(vfs)).0;
    let mut client = net.ready();
    for opened in [file(&mut client, "file"), directory(&mut client, "directory")] {
        for at in 0..4 {
            let before = times(&mut client, opened);
            let long_ago = with_time(at, LONG_AGO as i64);
            assert_eq!(set_file(&mut client, BASIC, opened, &long_ago), NtStatus::SUCCESS);
            let now = times(&mut client, opened);
            assert_eq!(now[at], LONG_AGO, "{at}");
            // Setting another time than ChangeTime also moves ChangeTime.
            let others = (0..3).filter(|other| *other != at);
            others.for_each(|other| assert_eq!(now[other], before[other], "{at} {other}"));
            let too_small = set_file(&mut client, BASIC, opened, &with_time(at, -3));
            assert_eq!(too_small, NtStatus::INVALID_PARAMETER);
        }
    }
    let opened = file(&mut client, "another");
    for (at, moves) in [(2, true), (3, true)] {
        let before = times(&mut client, opened)[at];
        assert_eq!(set_file(&mut client, BASIC, opened, &with_time(at, -1)), NtStatus::SUCCESS);
        clock.advance(Duration::from_secs(2).as_nanos() as u64);
        write(&mut client, opened, b"1");
        assert_eq!(times(&mut client, opened)[at], before, "{at} is stopped");
        assert_eq!(set_file(&mut client, BASIC, opened, &with_time(at, -2)), NtStatus::SUCCESS);
        write(&mut client, opened, b"2");
        assert_eq!(times(&mut client, opened)[at] != before, moves, "{at} is resumed");
    }
}

#[test]
fn frozen_change_time_survives_rename_link_and_attributes() {
    let clock = Arc::new(StillClock::default());
    let vfs = MemoryVfs::new(MemoryOptions::default(), clock.clone());
    let net = Net::over(Arc::new(vfs)).0;
    let mut client = net.ready();
    let opened = file(&mut client, "file");
    let long_ago = with_time(3, LONG_AGO as i64);
    assert_eq!(set_file(&mut client, BASIC, opened, &long_ago), NtStatus::SUCCESS);
    let mut hidden = vec![0; 40];
    hidden[32] = 2;
    // FileLinkInformation, FileRenameInformation, FileBasicInformation.
    for (class, input) in [(11, renamed("link")), (10, renamed("other")), (BASIC, hidden)] {
        clock.advance(1_000_000_000);
        assert_eq!(set_file(&mut client, class, opened, &input), NtStatus::SUCCESS);
        assert_eq!(times(&mut client, opened)[3], LONG_AGO, "{class}");
    }
}

/// MS-FSA 2.1.4.17: an open stops only its own changes. The rename waits for a client that caches.
#[test]
fn rename_with_stopped_times_leaves_writes_during_its_wait() {
    let clock = Arc::new(StillClock::default());
    let vfs = MemoryVfs::new(MemoryOptions::default(), clock.clone());
    let net = Net::over(Arc::new(vfs)).0;
    let (mut holder, mut client) = (net.ready(), net.ready());
    let opened = file(&mut client, "file");
    let long_ago = with_time(2, LONG_AGO as i64);
    assert_eq!(set_file(&mut client, BASIC, opened, &long_ago), NtStatus::SUCCESS);
    // Read and handle caching.
    holder.lease("file", 3);
    let writer = file(&mut holder, "file");
    let input = renamed("new");
    let request = SetInfoRequest {
        kind: InfoType::File,
        class: 10,
        additional: 0,
        file_id: opened,
        input: &input,
    };
    let rename = client.send(Command::SET_INFO, |w| request.encode(w));
    assert!(client.reply_to(rename).is_none(), "it waits");
    assert!(holder.notice().is_some());
    clock.advance(1_000_000_000);
    write(&mut holder, writer, b"flushed");
    let written = times(&mut holder, writer)[2];
    assert_ne!(written, LONG_AGO);
    clock.advance(1_000_000_000);
    assert_eq!(holder.acknowledge_lease(1), NtStatus::SUCCESS);
    assert_eq!(client.reply_to(rename).unwrap().header.status, NtStatus::SUCCESS);
    assert_eq!(times(&mut client, opened)[2], written);
}

#[test]
fn trailing_separator_requires_a_directory() {
    let net = Net::new();
    let mut client = net.ready();
    file(&mut client, "file");
    directory(&mut client, "directory");
    let invalid = Err(NtStatus::OBJECT_NAME_INVALID);
    for disposition in [fscc::FILE_OPEN, fscc::FILE_CREATE, fscc::FILE_OPEN_IF] {
        let mut send = |name, options| {
            let create = CreateCase { name, options, disposition, attributes: 0 };
            create.send(&mut client).map(|_| ())
        };
        for name in ["file\\", "new\\", "directory\\"] {
            assert_eq!(send(name, NON_DIRECTORY), invalid, "{name} {disposition}");
        }
        if disposition != fscc::FILE_CREATE {
            assert_eq!(send("file\\", 0), invalid);
            assert_eq!(send("directory\\", 0), Ok(()));
            assert_eq!(send("directory\\", DIRECTORY), Ok(()));
        }
        let missing = match disposition {
            fscc::FILE_OPEN => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
            _ => invalid,
        };
        assert_eq!(send("new\\", 0), missing, "{disposition}");
        assert_eq!(send("missing\\\\new", NON_DIRECTORY), Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    }
    let create = |name| CreateCase {
        name,
        options: DIRECTORY,
        disposition: fscc::FILE_CREATE,
        attributes: 0,
    };
    assert!(create("made\\").send(&mut client).is_ok());
    assert!(
        file(&mut client, "directory\\\\inside") != FileId::RELATED,
        "a doubled one counts as one"
    );
}

#[test]
fn rename_and_link_refuse_empty_and_directory_names() {
    let net = Net::new();
    let mut client = net.ready();
    let opened = file(&mut client, "file");
    for class in [10, 11] {
        for (name, expected) in [
            ("", NtStatus::INVALID_PARAMETER),
            ("\\", NtStatus::OBJECT_NAME_INVALID),
            ("new\\", NtStatus::OBJECT_NAME_INVALID),
        ] {
            let status = set_file(&mut client, class, opened, &renamed(name));
            assert_eq!(status, expected, "{class} {name:?}");
        }
    }
    let directory = directory(&mut client, "directory");
    assert_eq!(set_file(&mut client, 10, directory, &renamed("moved\\")), NtStatus::SUCCESS);
}

/// The names that match a pattern, as shown.
fn listed(client: &mut ConnectedClient, directory: FileId, pattern: &str) -> Vec<String> {
    let mut units = Vec::new();
    put_utf16(&mut units, pattern);
    let request = QueryDirectoryRequest {
        // FileNamesInformation.
        class: 12,
        flags: QueryFlags(QueryFlags::RESTART),
        index: 0,
        file_id: directory,
        pattern: &units,
        output_bytes: 4096,
    };
    let reply = client.call(Command::QUERY_DIRECTORY, |w| request.encode(w));
    let mut names = Vec::new();
    if reply.header.status != NtStatus::SUCCESS {
        return names;
    }
    let mut rest = &reply.bytes[Header::LENGTH + 8..];
    loop {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let units = rest[12..12 + number(8)].chunks_exact(2);
        let units: Vec<u16> = units.map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
        names.push(String::from_utf16(&units).unwrap());
        match number(0) {
            0 => return names,
            next => rest = &rest[next..],
        }
    }
}

#[test]
fn patterns_match_names_by_their_unmapped_last_character() {
    let net = Net::new();
    let mut client = net.ready();
    let root = directory(&mut client, "");
    for name in ["name1.", "name2.", "name3 ", "name4", "name.5.txt"] {
        file(&mut client, name);
    }
    let (dot, space) = ('\u{F029}', '\u{F028}');
    let with_dots = [format!("name1{dot}"), format!("name2{dot}")];
    for pattern in ["name?.", "name?\"*", &format!("name?{dot}")] {
        assert_eq!(listed(&mut client, root, pattern)[..2], with_dots, "{pattern}");
    }
    let found = listed(&mut client, root, "name?\"");
    assert_eq!(found, [&with_dots[..], &["name4".to_owned()]].concat());
    assert_eq!(listed(&mut client, root, "name? "), [format!("name3{space}")]);
    assert_eq!(listed(&mut client, root, "name<.txt"), ["name.5.txt"]);
    assert_eq!(listed(&mut client, root, "name>"), ["name4", &format!("name3{space}")][..1]);
}

#[test]
fn checksum_attributes_are_accepted_and_not_stored() {
    let net = Net::new();
    let mut client = net.ready();
    // FILE_ATTRIBUTE_INTEGRITY_STREAM and FILE_ATTRIBUTE_NO_SCRUB_DATA.
    for (at, bits) in [0x8000_u32, 0x2_0000, 0x2_8000].into_iter().enumerate() {
        for options in [NON_DIRECTORY, DIRECTORY] {
            let name = &format!("{at} {options}");
            let create =
                CreateCase { name, options, disposition: fscc::FILE_CREATE, attributes: bits };
            let opened = create.send(&mut client).unwrap();
            let basic = query(&mut client, InfoType::File, BASIC, opened).unwrap();
            assert_eq!(u32::from_le_bytes(basic[32..36].try_into().unwrap()) & bits, 0);
            let integrity = control(&mut client, fsctl::GET_INTEGRITY_INFORMATION, opened, &[]);
            assert_eq!(integrity, NtStatus::INVALID_DEVICE_REQUEST);
        }
    }
}

#[test]
fn valid_data_length_needs_root_and_equals_the_size() {
    let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
    let how = OpenHow {
        read: false,
        write: false,
        case: Case::Sensitive,
        wanted: AttributeRequest::default(),
        no_follow: false,
        wait: Wait::Allowed,
    };
    let root = vfs.open(Actor::SUPERUSER, &RelPath::root(), how).unwrap().node;
    let open_to_all = AttributeChanges { mode: Some(0o777), ..AttributeChanges::default() };
    root.set_attributes(Actor::SUPERUSER, &open_to_all).unwrap();
    let net = Net::over(Arc::new(vfs)).0;
    let valid = 39;
    let mut client = net.ready();
    let opened = file(&mut client, "file");
    write(&mut client, opened, &[1; 10]);
    for (length, expected) in [
        (10_u64, NtStatus::SUCCESS),
        (9, NtStatus::INVALID_PARAMETER),
        (11, NtStatus::INVALID_PARAMETER),
    ] {
        let status = set_file(&mut client, valid, opened, &length.to_le_bytes());
        assert_eq!(status, expected, "{length}");
    }
    assert_eq!(control(&mut client, fsctl::SET_SPARSE, opened, &[1]), NtStatus::SUCCESS);
    let sparse = set_file(&mut client, valid, opened, &10_u64.to_le_bytes());
    assert_eq!(sparse, NtStatus::INVALID_PARAMETER);
    let folder = directory(&mut client, "directory");
    let status = set_file(&mut client, valid, folder, &0_u64.to_le_bytes());
    assert_eq!(status, NtStatus::INVALID_PARAMETER);
    net.reload(|_, share| {
        let identity = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
        share.forced_user = Some(Arc::new(Caller::of(identity)));
    });
    let mut client = net.ready();
    let opened = file(&mut client, "theirs");
    let status = set_file(&mut client, valid, opened, &0_u64.to_le_bytes());
    assert_eq!(status, NtStatus::PRIVILEGE_NOT_HELD);
}

#[test]
fn mode_change_cannot_change_the_synchrony_of_an_open() {
    let net = Net::new();
    let mut client = net.ready();
    let mode = 16;
    let asynchronous = file(&mut client, "file");
    let synchronous = open(&mut client, "file", NON_DIRECTORY | 0x20).unwrap();
    for (opened, wanted, expected) in [
        (asynchronous, 0x4_u32, NtStatus::SUCCESS),
        (asynchronous, 0x8, NtStatus::INVALID_PARAMETER),
        (asynchronous, 0x10, NtStatus::INVALID_PARAMETER),
        (synchronous, 0x30, NtStatus::INVALID_PARAMETER),
        (synchronous, 0x2, NtStatus::INVALID_PARAMETER),
        (synchronous, 0x12, NtStatus::SUCCESS),
    ] {
        let status = set_file(&mut client, mode, opened, &wanted.to_le_bytes());
        assert_eq!(status, expected, "{wanted:#x}");
        if expected == NtStatus::SUCCESS {
            let now = query(&mut client, InfoType::File, mode, opened).unwrap();
            assert_eq!(now, wanted.to_le_bytes());
        }
    }
}

#[test]
fn file_system_classes_are_refused_by_their_use() {
    let net = Net::new();
    let mut client = net.ready();
    for opened in [file(&mut client, "file"), directory(&mut client, "directory")] {
        for (class, expected) in [
            (11, NtStatus::INVALID_INFO_CLASS),
            (5, NtStatus::INVALID_INFO_CLASS),
            (2, NtStatus::NOT_SUPPORTED),
            (8, NtStatus::INVALID_PARAMETER),
        ] {
            let status = set(&mut client, InfoType::FileSystem, class, opened, &[0; 64]);
            assert_eq!(status, expected, "{class}");
        }
        let label = query(&mut client, InfoType::FileSystem, 2, opened);
        assert_eq!(label, Err(NtStatus::NOT_SUPPORTED));
        let attributes = query(&mut client, InfoType::FileSystem, 5, opened).unwrap();
        let bits = u32::from_le_bytes(attributes[..4].try_into().unwrap());
        // Reparse points, hard links and extended attributes; no object ids, not read-only, no
        // encryption, no opens by id.
        assert_eq!(bits & 0x01CB_0080, 0x00C0_0080, "{bits:#x}");
    }
}

#[test]
fn directory_refuses_locks_and_range_controls() {
    let net = Net::new();
    let mut client = net.ready();
    let opened = directory(&mut client, "directory");
    let element = LockElement { offset_bytes: 0, length_bytes: 1, flags: 0x12 };
    let lock = LockRequest { sequence: 0, file_id: opened, elements: vec![element] };
    let locked = client.status(Command::LOCK, |w| lock.encode(w));
    assert_eq!(locked, NtStatus::INVALID_PARAMETER);
    let ranges = control(&mut client, fsctl::QUERY_ALLOCATED_RANGES, opened, &[0; 16]);
    assert_eq!(ranges, NtStatus::INVALID_PARAMETER);
}

#[test]
fn missing_volume_features_are_reported() {
    let net = Net::new();
    let mut client = net.ready();
    for opened in [file(&mut client, "file"), directory(&mut client, "directory")] {
        // FileShortNameInformation, with a name of 8 characters.
        let input = [&16_u32.to_le_bytes()[..], &[b'A', 0].repeat(8)].concat();
        let named = set_file(&mut client, 40, opened, &input);
        assert_eq!(named, NtStatus::SHORT_NAMES_NOT_ENABLED_ON_VOLUME);
        for code in [fsctl::OFFLOAD_READ, fsctl::OFFLOAD_WRITE] {
            let offloaded = control(&mut client, code, opened, &[0; 544]);
            assert_eq!(offloaded, NtStatus::NOT_SUPPORTED);
        }
        // FSCTL_READ_FILE_USN_DATA, FSCTL_WRITE_USN_CLOSE_RECORD, FSCTL_QUERY_USN_JOURNAL.
        for code in [0x0009_00EB, 0x0009_00EF, 0x0009_00F4] {
            let journal = control(&mut client, code, opened, &[0; 8]);
            assert_eq!(journal, NtStatus::INVALID_DEVICE_REQUEST);
        }
        // MS-SMB2 3.3.5.15: a control that the server allows on none of its file systems.
        let snapshot =
            control(&mut client, fsctl::REFS_STREAM_SNAPSHOT_MANAGEMENT, opened, &[0; 32]);
        assert_eq!(snapshot, NtStatus::NOT_SUPPORTED);
    }
}

/// MS-FSA 2.1.5.10.1, 2.1.5.10.13, 2.1.5.13.8. The backend in memory has no id that lasts.
#[test]
fn object_ids_are_refused_without_a_lasting_id() {
    const OBJECT_ID: u8 = 8;
    const ATTRIBUTE: u8 = 5;
    let net = Net::new();
    let mut client = net.ready();
    let opened = file(&mut client, "file");
    for code in [fsctl::CREATE_OR_GET_OBJECT_ID, fsctl::GET_OBJECT_ID] {
        let status = control(&mut client, code, opened, &[]);
        assert_eq!(status, NtStatus::VOLUME_NOT_UPGRADED);
    }
    let volume = query(&mut client, InfoType::FileSystem, OBJECT_ID, opened);
    assert_eq!(volume, Err(NtStatus::VOLUME_NOT_UPGRADED));
    let attributes = query(&mut client, InfoType::FileSystem, ATTRIBUTE, opened).unwrap();
    assert_eq!(u32::from_le_bytes(attributes[..4].try_into().unwrap()) & 0x1_0000, 0);
}

#[test]
fn trim_with_lock_key_is_invalid() {
    let net = Net::new();
    let mut client = net.ready();
    let opened = file(&mut client, "file");
    let trim = |key: u32| {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.u32(key);
        w.u32(1);
        w.u64(0);
        w.u64(4096);
        bytes
    };
    // MS-SMB2 3.3.5.15.14. The file is empty, so that a valid request finds nothing to release.
    for (key, expected) in [(0, NtStatus::NO_RANGES_PROCESSED), (1, NtStatus::INVALID_PARAMETER)] {
        assert_eq!(control(&mut client, fsctl::FILE_LEVEL_TRIM, opened, &trim(key)), expected);
    }
}

#[test]
fn mark_handle_refuses_to_choose_a_copy() {
    let net = Net::new();
    let mut client = net.ready();
    let cached = file(&mut client, "file");
    let unbuffered = open(&mut client, "file", NON_DIRECTORY | UNBUFFERED).unwrap();
    let folder = directory(&mut client, "directory");
    let info = |copy: u32, flags: u32| {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.u32(copy);
        w.zeros(4 + 8);
        w.u32(flags);
        w.u32(0);
        bytes
    };
    let (read, not_read) = (0x80, 0x100);
    for (opened, input, expected) in [
        (folder, info(0, not_read), NtStatus::DIRECTORY_NOT_SUPPORTED),
        (cached, info(0, not_read), NtStatus::INVALID_PARAMETER),
        (unbuffered, info(0, read | not_read), NtStatus::INVALID_PARAMETER),
        (unbuffered, info(1, read), NtStatus::INVALID_PARAMETER),
        (unbuffered, info(0, read), NtStatus::NOT_REDUNDANT_STORAGE),
        (unbuffered, info(0, not_read), NtStatus::SUCCESS),
        (unbuffered, vec![0; 23], NtStatus::BUFFER_TOO_SMALL),
    ] {
        assert_eq!(control(&mut client, fsctl::MARK_HANDLE, opened, &input), expected, "{input:?}");
    }
}
