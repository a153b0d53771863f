//! Requests of clients in the field: cases from public reports, message by message.

use crate::support::client::{
    ACCESS_DENIED, CLOSE, CREATE, CreateRequestParts, INVALID_PARAMETER, IOCTL, NEGOTIATE,
    OBJECT_NAME_NOT_FOUND, QUERY_DIRECTORY, QUERY_INFO, RawFileId, RawReply, RawSmbClient,
    SET_INFO, SUCCESS, WRITE,
};
use crate::support::{PASSWORD, ServerProcess, Setup, user};
use std::os::unix::fs::symlink;
use std::process::Command;

const BUFFER_TOO_SMALL: u32 = 0xC000_0023;
const DIRECTORY_NOT_EMPTY: u32 = 0xC000_0101;
const NOT_A_DIRECTORY: u32 = 0xC000_0103;
const NO_SUCH_FILE: u32 = 0xC000_000F;

const OPEN: u32 = 1;
const CREATE_NEW: u32 = 2;
const OPEN_IF: u32 = 3;
const OVERWRITE_IF: u32 = 5;
const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
const READ_DATA: u32 = 0x1;
const READ_ATTRIBUTES: u32 = 0x80;
const DELETE: u32 = 0x1_0000;
const DIRECTORY_FILE: u32 = 0x1;
const DELETE_ON_CLOSE: u32 = 0x1000;
const OPEN_REPARSE_POINT: u32 = 0x20_0000;

const RENAME: u8 = 10;
const DISPOSITION: u8 = 13;
const FULL_EA: u8 = 15;
const NAMES: u8 = 12;

fn open(
    client: &mut RawSmbClient,
    name: &str,
    access: u32,
    disposition: u32,
    options: u32,
) -> RawReply {
    let wish = CreateRequestParts { name, access, share: 7, disposition, options, contexts: &[] };
    client.call(CREATE, &RawSmbClient::create_with(&wish))
}

fn opened(client: &mut RawSmbClient, name: &str, access: u32, options: u32) -> RawFileId {
    let reply = open(client, name, access, OPEN, options);
    assert_eq!(reply.status, SUCCESS, "{name:?}");
    reply.file_id()
}

fn close(client: &mut RawSmbClient, file: RawFileId) {
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(file)).status, SUCCESS);
}

/// The names that a pattern matches in a directory, or the status.
fn list(client: &mut RawSmbClient, directory: &str, pattern: &str) -> Result<Vec<String>, u32> {
    let file = opened(client, directory, READ_DATA, DIRECTORY_FILE);
    let reply =
        client.call(QUERY_DIRECTORY, &RawSmbClient::query_directory_body(file, NAMES, 0, pattern));
    close(client, file);
    if reply.status != SUCCESS {
        return Err(reply.status);
    }
    let (mut rest, mut names) = (reply.output(), Vec::new());
    loop {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let units = rest[12..12 + number(8)].chunks(2).map(|u| u16::from_le_bytes([u[0], u[1]]));
        names.push(String::from_utf16(&units.collect::<Vec<_>>()).unwrap());
        if number(0) == 0 {
            names.sort();
            return Ok(names);
        }
        rest = &rest[number(0)..];
    }
}

fn rename(client: &mut RawSmbClient, file: RawFileId, to: &str) -> u32 {
    let name: Vec<u8> = to.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let length = u32::try_from(name.len()).unwrap();
    let info = [&[0; 16][..], &length.to_le_bytes(), &name].concat();
    client.call(SET_INFO, &RawSmbClient::set_info_body(file, RENAME, &info)).status
}

fn dispose(client: &mut RawSmbClient, file: RawFileId) -> u32 {
    client.call(SET_INFO, &RawSmbClient::set_info_body(file, DISPOSITION, &[1])).status
}

#[test]
fn dos_star_lists_names_without_an_extension() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    for name in ["noext", "a.txt", "a1", "a1.b", "two.dots.txt"] {
        std::fs::write(server.data().join(name), "").unwrap();
    }
    let mut names = |pattern: &str| list(&mut client, "", pattern);
    let of = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(names("<"), of(&[".", "..", "a1", "noext"]), "del *.");
    assert_eq!(names("a<"), of(&["a1"]));
    assert_eq!(names("<.txt"), of(&["a.txt", "two.dots.txt"]));
    let all = of(&[".", "..", "a.txt", "a1", "a1.b", "noext", "two.dots.txt"]);
    for pattern in ["*", "*.*", "<\"*", ""] {
        assert_eq!(names(pattern), all, "{pattern:?}");
    }
    assert_eq!(names(".."), of(&[".."]));
    assert_eq!(names("."), of(&["."]));
    assert_eq!(names("x<"), Err(NO_SUCH_FILE));
}

/// Samba's stored form of the name `Report: Q1.txt` of a Mac or Linux client.
const STORED: [&str; 7] = [
    "Report\u{F022} Q1.txt",
    "what\u{F025}.txt",
    "ends\u{F029}",
    "space\u{F028}",
    "control\u{F001}x",
    "raw\u{F1E9}",
    "mixed:\u{F022}",
];

#[test]
fn stored_private_characters_are_opened_renamed_and_deleted() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let folder = server.data().join("folder\u{F022}");
    std::fs::create_dir(&folder).unwrap();
    for name in STORED {
        std::fs::write(folder.join(name), name).unwrap();
    }
    let listed = list(&mut client, "folder\u{F022}", "*").unwrap();
    assert_eq!(listed.len(), STORED.len() + 2);
    for name in listed.iter().filter(|name| !name.starts_with('.')) {
        let path = format!("folder\u{F022}\\{name}");
        let again = list(&mut client, "folder\u{F022}", name);
        assert_eq!(again.as_deref(), Ok(&[name.clone()][..]), "found alone");
        let file = opened(&mut client, &path, DELETE | READ_ATTRIBUTES, 0);
        let renamed = format!("FOLDER\u{F022}\\{name}.new");
        assert_eq!(rename(&mut client, file, &renamed), SUCCESS, "{name:?}");
        close(&mut client, file);
        let new = open(&mut client, &renamed, DELETE | READ_ATTRIBUTES, OPEN, DELETE_ON_CLOSE);
        assert_eq!(new.status, SUCCESS, "{name:?}");
        close(&mut client, new.file_id());
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    let options = DIRECTORY_FILE | DELETE_ON_CLOSE;
    let file = opened(&mut client, "folder\u{F022}", DELETE, options);
    close(&mut client, file);
    assert!(!folder.exists());
}

#[test]
fn names_with_equal_display_form_open_their_own_files() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let stored = ["Two:one", "two\u{F022}one", "end.", "end\u{F029}"];
    for name in stored {
        std::fs::write(server.data().join(name), vec![b'x'; name.len()]).unwrap();
    }
    let listed = list(&mut client, "", "*").unwrap();
    let mut lengths = Vec::new();
    for name in listed.iter().filter(|name| name.len() > 2) {
        let reply = open(&mut client, name, READ_ATTRIBUTES, OPEN, 0);
        assert_eq!(reply.status, SUCCESS, "{name:?}");
        // EndofFile. MS-SMB2 2.2.14.
        lengths.push(u64::from_le_bytes(reply.bytes[112..120].try_into().unwrap()) as usize);
    }
    lengths.sort_unstable();
    let mut expected = stored.map(str::len);
    expected.sort_unstable();
    assert_eq!(lengths, expected, "{listed:?}");
}

#[test]
fn new_name_with_private_characters_is_stored_mapped() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    for _ in 0..2 {
        let reply = open(&mut client, "new\u{F022}file", MAXIMUM_ALLOWED, OPEN_IF, 0);
        assert_eq!(reply.status, SUCCESS);
    }
    assert!(server.data().join("new:file").exists());
    assert_eq!(std::fs::read_dir(server.data()).unwrap().count(), 1);
    // A name that is cached as missing exists as soon as it is created.
    assert_eq!(open(&mut client, "late\u{F025}", READ_DATA, OPEN, 0).status, OBJECT_NAME_NOT_FOUND);
    std::fs::write(server.data().join("late\u{F025}"), "literal").unwrap();
    assert_eq!(open(&mut client, "late\u{F025}", READ_DATA, OPEN, 0).status, SUCCESS);
}

#[test]
fn private_characters_do_not_bypass_veto_names() {
    let mut setup = Setup::new();
    setup.shares += "veto_names = [\"secret:plan\", \"*.key\"]\n";
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    for name in ["secret\u{F022}plan", "a.key\u{F029}", "b\u{F029}key"] {
        std::fs::write(server.data().join(name), "").unwrap();
        let reply = open(&mut client, name, READ_DATA, OPEN, 0);
        assert_eq!(reply.status, OBJECT_NAME_NOT_FOUND, "{name:?}");
    }
    assert_eq!(list(&mut client, "", "*").unwrap(), [".", ".."]);
}

/// A client of 3.1.1 whose session is not signed.
fn ready_311(server: &ServerProcess) -> RawSmbClient {
    let mut client = RawSmbClient::connect(server.smb);
    let reply = client.call(NEGOTIATE, &RawSmbClient::negotiate_311_body(&[]));
    assert_eq!(reply.status, SUCCESS);
    assert_eq!(client.log_on(&user(), PASSWORD), SUCCESS);
    assert_eq!(client.connect_tree("data"), SUCCESS);
    client
}

/// The required size in an error response. MS-SMB2 2.2.2, 2.2.2.1.
fn needed(reply: &RawReply, in_context: bool) -> usize {
    assert_eq!(reply.status, BUFFER_TOO_SMALL);
    let number = |at: usize| u32::from_le_bytes(reply.bytes[at..at + 4].try_into().unwrap());
    let data = if in_context {
        assert_eq!((reply.bytes[66], number(68), number(72), number(76)), (1, 12, 4, 0));
        80
    } else {
        assert_eq!((reply.bytes[66], number(68)), (0, 4));
        72
    };
    assert_eq!(reply.bytes.len(), data + 4);
    number(data) as usize
}

#[test]
fn query_info_with_small_buffer_reports_the_required_size() {
    let server = Setup::new().start();
    for in_context in [false, true] {
        let mut client = if in_context { ready_311(&server) } else { RawSmbClient::ready(&server) };
        let file = client.create("file");
        let ea = [&[0, 0, 0, 0, 0, 3, 4, 0][..], b"ONE\0", b"data"].concat();
        let set = client.call(SET_INFO, &RawSmbClient::set_info_body(file, FULL_EA, &ea));
        assert_eq!(set.status, SUCCESS, "extended attributes take a file system with them");
        for (kind, class, additional) in [(3, 0, 7), (1, FULL_EA, 0)] {
            let body = RawSmbClient::query_info_body(file, kind, class, additional);
            let length = client.call(QUERY_INFO, &body).output().len();
            for room in [0, 1, length - 1] {
                let mut body = body.clone();
                body[4..8].copy_from_slice(&u32::try_from(room).unwrap().to_le_bytes());
                let reply = client.call(QUERY_INFO, &body);
                assert_eq!(needed(&reply, in_context), length, "kind {kind}, room {room}");
            }
        }
    }
}

#[test]
fn fsctl_with_small_buffer_reports_the_required_size() {
    const QUERY_ALLOCATED_RANGES: u32 = 0x0009_40CF;
    const QUERY_FILE_REGIONS: u32 = 0x0009_0284;
    let server = Setup::new().start();
    for in_context in [false, true] {
        let mut client = if in_context { ready_311(&server) } else { RawSmbClient::ready(&server) };
        let file = client.create("file");
        assert_eq!(client.call(WRITE, &RawSmbClient::write_body(file, 0, b"data")).status, SUCCESS);
        let range = [0u64.to_le_bytes(), 4u64.to_le_bytes()].concat();
        for (code, input, room, expected) in [
            (QUERY_ALLOCATED_RANGES, &range[..], 0, 16),
            (QUERY_ALLOCATED_RANGES, &range[..], 15, 16),
            (QUERY_FILE_REGIONS, &[][..], 0, 40),
            (QUERY_FILE_REGIONS, &[][..], 39, 40),
        ] {
            let reply = client.call(IOCTL, &RawSmbClient::control_body(file, code, input, room));
            assert_eq!(needed(&reply, in_context), expected, "{code:#x}, room {room}");
            let body = RawSmbClient::control_body(file, code, input, expected as u32);
            assert_eq!(client.call(IOCTL, &body).status, SUCCESS, "{code:#x}");
        }
    }
}

/// A class of fixed size fails without the required size, and without an empty error context.
/// MS-SMB2 2.2.2, 3.3.5.20.1.
#[test]
fn length_mismatch_comes_without_error_data() {
    const INFO_LENGTH_MISMATCH: u32 = 0xC000_0004;
    let server = Setup::new().start();
    for in_context in [false, true] {
        let mut client = if in_context { ready_311(&server) } else { RawSmbClient::ready(&server) };
        let file = client.create("file");
        for (kind, class) in [(1, 4), (1, 5), (1, 18), (2, 3), (2, 7)] {
            let mut body = RawSmbClient::query_info_body(file, kind, class, 0);
            body[4..8].copy_from_slice(&1u32.to_le_bytes());
            let reply = client.call(QUERY_INFO, &body);
            assert_eq!(reply.status, INFO_LENGTH_MISMATCH, "kind {kind}, class {class}");
            assert_eq!(
                reply.bytes[64..],
                [9, 0, 0, 0, 0, 0, 0, 0, 0],
                "kind {kind}, class {class}"
            );
        }
    }
}

#[test]
fn create_takes_every_attribute_that_files_have_elsewhere() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let create = |client: &mut RawSmbClient, attributes: u32| {
        let (access, disposition, options) = (MAXIMUM_ALLOWED, OVERWRITE_IF, 0);
        let wish = CreateRequestParts {
            name: "file",
            access,
            share: 7,
            disposition,
            options,
            contexts: &[],
        };
        let mut body = RawSmbClient::create_with(&wish);
        body[28..32].copy_from_slice(&attributes.to_le_bytes());
        client.call(CREATE, &body).status
    };
    // INTEGRITY_STREAM, NO_SCRUB_DATA, RECALL_ON_OPEN, PINNED, UNPINNED, RECALL_ON_DATA_ACCESS
    for attributes in [0x8000, 0x2_0000, 0x4_0000, 0x8_0000, 0x8_0020, 0x10_0000, 0x40_0000] {
        assert_eq!(create(&mut client, attributes), SUCCESS, "{attributes:#x}");
    }
    for reserved in [0x8, 0x40, 0x1_0000, 0x20_0000, 0x80_0000, 0x8000_0000] {
        assert_eq!(create(&mut client, reserved), INVALID_PARAMETER, "{reserved:#x}");
    }
}

#[test]
fn create_over_dangling_link_is_not_found() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    symlink("nowhere", server.data().join("dangling")).unwrap();
    for disposition in [OPEN_IF, OVERWRITE_IF] {
        for name in ["dangling", "DANGLING", "dangling:stream"] {
            let reply = open(&mut client, name, MAXIMUM_ALLOWED, disposition, 0);
            assert_eq!(reply.status, OBJECT_NAME_NOT_FOUND, "{name}");
        }
    }
    assert!(!server.data().join("nowhere").exists());
}

#[test]
fn read_only_share_denies_every_change() {
    let mut setup = Setup::new();
    setup.shares += "read_only = true\n";
    let data = setup.folder.path().join("data");
    std::fs::write(data.join("file"), "data").unwrap();
    std::fs::create_dir(data.join("folder")).unwrap();
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    for (what, name, access, disposition, options) in [
        ("create", "new", MAXIMUM_ALLOWED, CREATE_NEW, 0),
        ("create or open", "new", READ_DATA, OPEN_IF, 0),
        ("create a directory", "new", MAXIMUM_ALLOWED, CREATE_NEW, DIRECTORY_FILE),
        ("write", "file", 0x2, OPEN, 0),
        ("overwrite", "file", READ_DATA, OVERWRITE_IF, 0),
        ("add a stream", "file:stream", 0x2, CREATE_NEW, 0),
        ("delete", "file", DELETE, OPEN, 0),
        ("delete on close", "file", DELETE, OPEN, DELETE_ON_CLOSE),
        ("remove a directory", "folder", DELETE, OPEN, DIRECTORY_FILE),
        ("change attributes", "file", 0x100, OPEN, 0),
        ("change permissions", "file", 0x4_0000, OPEN, 0),
    ] {
        let reply = open(&mut client, name, access, disposition, options);
        assert_eq!(reply.status, ACCESS_DENIED, "{what}");
    }
    let file = opened(&mut client, "file", MAXIMUM_ALLOWED, 0);
    assert_eq!(rename(&mut client, file, "other"), ACCESS_DENIED);
    assert_eq!(dispose(&mut client, file), ACCESS_DENIED);
    let write = RawSmbClient::write_body(file, 0, b"changed");
    assert_eq!(client.call(WRITE, &write).status, ACCESS_DENIED);
    assert_eq!(std::fs::read(server.data().join("file")).unwrap(), b"data");
}

/// The requests by which Windows 11 removes a directory.
const REMOVAL: u32 = OPEN_REPARSE_POINT | 0x20 | DIRECTORY_FILE;

#[test]
fn directory_link_is_removed_as_directory() {
    for shows_links in [false, true] {
        let mut setup = Setup::new();
        setup.shares += &format!("show_symlinks = {shows_links}\n");
        let server = setup.start();
        let mut client = RawSmbClient::ready(&server);
        let at = |name: &str| server.data().join(name);
        std::fs::create_dir_all(at("parent")).unwrap();
        std::fs::create_dir(at("target")).unwrap();
        std::fs::write(at("target/kept"), "data").unwrap();
        symlink("../target", at("parent/link")).unwrap();
        let removed = |client: &mut RawSmbClient, name: &str| {
            let reply = open(client, name, DELETE | READ_ATTRIBUTES, OPEN, REMOVAL);
            if reply.status != SUCCESS {
                return reply.status;
            }
            let status = dispose(client, reply.file_id());
            close(client, reply.file_id());
            status
        };
        assert_eq!(removed(&mut client, "parent"), DIRECTORY_NOT_EMPTY);
        assert_eq!(removed(&mut client, "parent\\link"), SUCCESS);
        assert!(std::fs::symlink_metadata(at("parent/link")).is_err());
        assert_eq!(removed(&mut client, "parent"), SUCCESS);
        assert_eq!(std::fs::read(at("target/kept")).unwrap(), b"data");
        // A link to a file and a dangling link are not removed as directories.
        symlink("target/kept", at("to-file")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        for name in ["to-file", "dangling"] {
            assert_eq!(removed(&mut client, name), NOT_A_DIRECTORY, "{name}");
        }
    }
}

#[test]
fn deletion_over_a_followed_link_removes_the_link() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let at = |name: &str| server.data().join(name);
    std::fs::create_dir(at("target")).unwrap();
    std::fs::write(at("target/kept"), "data").unwrap();
    for (name, to) in [("to-directory", "target"), ("to-file", "target/kept")] {
        for by_option in [false, true] {
            symlink(to, at(name)).unwrap();
            let options = if by_option { DELETE_ON_CLOSE } else { 0 };
            let file = opened(&mut client, name, DELETE | READ_ATTRIBUTES, options);
            if !by_option {
                assert_eq!(dispose(&mut client, file), SUCCESS, "{name}");
            }
            close(&mut client, file);
            assert!(std::fs::symlink_metadata(at(name)).is_err(), "{name}, {by_option}");
            assert_eq!(std::fs::read(at("target/kept")).unwrap(), b"data");
        }
    }
}

#[test]
fn free_space_is_that_of_the_file_system_of_the_open() {
    let allowed = Command::new("unshare").args(["-m", "true"]).status();
    if !rustix::process::geteuid().is_root() || !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a file system of 8 MiB is mounted for it, which takes root");
        return;
    }
    let mut setup = Setup::new();
    let data = setup.folder.path().join("data");
    std::fs::create_dir(data.join("mounted")).unwrap();
    let mounted = data.join("mounted").display().to_string();
    // The mount is in the server's namespace and ends with it.
    let mount = "mount -t tmpfs -o size=8m tmpfs \"$0\" && touch \"$0/file\" && exec \"$@\"";
    setup.launcher = ["unshare", "-m", "sh", "-c", mount, &mounted].map(str::to_owned).to_vec();
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    let mut total = |name: &str, class: u8| {
        let file = opened(&mut client, name, READ_ATTRIBUTES, 0);
        let reply = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 2, class, 0));
        assert_eq!(reply.status, SUCCESS);
        let at = reply.output();
        // FileFsSizeInformation ends with both numbers, and FileFsFullSizeInformation.
        let number = |from: usize| u32::from_le_bytes(at[from..from + 4].try_into().unwrap());
        let unit = u64::from(number(at.len() - 8)) * u64::from(number(at.len() - 4));
        u64::from_le_bytes(at[..8].try_into().unwrap()) * unit
    };
    for class in [3, 7] {
        for name in ["mounted", "mounted\\file"] {
            assert_eq!(total(name, class), 8 << 20, "{name}");
        }
        assert!(total("", class) > 8 << 20);
    }
}
