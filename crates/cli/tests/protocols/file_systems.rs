//! Features of the served file systems: FileFsAttributeInformation as a whole, and compression.
//! MS-FSCC 2.5.1.

use crate::support::client::{
    CLOSE, CREATE, CreateRequestParts, IOCTL, QUERY_INFO, RawFileId, RawSmbClient, SET_INFO,
    SUCCESS,
};
use crate::support::{ServerProcess, Setup};
use std::process::Command;

const NOT_SUPPORTED: u32 = 0xC000_00BB;
const VOLUME_NOT_UPGRADED: u32 = 0xC000_029C;
const SET_COMPRESSION: u32 = 0x0009_C040;
const GET_COMPRESSION: u32 = 0x0009_003C;
const CREATE_OR_GET_OBJECT_ID: u32 = 0x0009_00C0;
const COMPRESSED: u32 = 0x800;
const SET_SPARSE: u32 = 0x0009_00C4;
const INVALID_DEVICE_REQUEST: u32 = 0xC000_0010;
/// FILE_SUPPORTS_SPARSE_FILES.
const SPARSE_FILES: u32 = 0x40;

/// Case-sensitive search, case-preserved names, Unicode, persistent ACLs, sparse files, reparse
/// points, named streams, object ids, hard links, extended attributes.
const ALL_HAVE: u32 = 0x1 | 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x4_0000 | 0x1_0000 | 0xC0_0000;
/// Case-sensitive search, case-preserved names, Unicode, reparse points (symbolic links), hard links.
const RAMFS_HAS: u32 = 0x1 | 0x2 | 0x4 | 0x80 | 0x40_0000;
const COMPRESSION: u32 = 0x10;
const READ_ONLY: u32 = 0x8_0000;
const REFCOUNTING: u32 = 0x0800_0000;

/// Mounts an image with each file system in `$FILE_SYSTEMS`, a tmpfs, a ramfs, and the tmpfs and
/// btrfs read-only. Below the tmpfs are a ramfs, btrfs, and a part of the tmpfs read-only.
/// The mounts are the server's own and end with it.
const MOUNTS: &str = r#"
set -e
for kind in $FILE_SYSTEMS; do
    truncate -s 320M "$0/../$kind"
    "mkfs.$kind" -q "$0/../$kind" > /dev/null
    mount -o loop "$0/../$kind" "$0/$kind"
done
mount -t tmpfs tmpfs "$0/tmpfs"
mount --bind "$0/tmpfs" "$0/readonly"
mount -o remount,bind,ro "$0/readonly"
mount -t ramfs ramfs "$0/ramfs"
mkdir "$0/tmpfs/ram" "$0/tmpfs/btrfs" "$0/tmpfs/part" "$0/tmpfs/bound"
mount -t ramfs ramfs "$0/tmpfs/ram"
touch "$0/tmpfs/part/file" "$0/tmpfs/ram/file"
mount --bind "$0/tmpfs/part" "$0/tmpfs/bound"
mount -o remount,bind,ro "$0/tmpfs/bound"
[ ! -d "$0/btrfs" ] || {
    touch "$0/btrfs/packed" && chattr +c "$0/btrfs/packed"
    mount --bind "$0/btrfs" "$0/tmpfs/btrfs"
    mount --bind "$0/btrfs" "$0/btrfs-readonly"
    mount -o remount,bind,ro "$0/btrfs-readonly"
}
[ ! -d "$0/ext4" ] || { touch "$0/ext4/flagged" && chattr +c "$0/ext4/flagged"; }
exec "$@"
"#;

/// The file systems that this machine can create and mount.
fn available() -> Vec<&'static str> {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has = |kind: &str| {
        let tool = Command::new(format!("mkfs.{kind}")).arg("-V").output();
        let known = known.lines().any(|line| line.trim() == kind);
        let is_available = known && tool.is_ok();
        if !is_available {
            eprintln!("skipped: {kind} cannot be mounted here");
        }
        is_available
    };
    ["ext4", "xfs", "btrfs"].into_iter().filter(|kind| has(kind)).collect()
}

/// A server with one share for each file system; none if mounts are not allowed here.
fn serve() -> Option<(ServerProcess, Vec<&'static str>)> {
    let allowed = Command::new("unshare").args(["-m", "true"]).status();
    if !rustix::process::geteuid().is_root() || !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: file systems are mounted for it, which takes root");
        return None;
    }
    let kinds = available();
    let mut setup = Setup::new();
    let data = setup.folder.path().join("data");
    for name in kinds.iter().chain(&["tmpfs", "ramfs", "readonly", "btrfs-readonly"]) {
        let path = data.join(name);
        std::fs::create_dir(&path).unwrap();
        setup.shares += &format!("[[share]]\nname = \"{name}\"\npath = \"{}\"\n", path.display());
    }
    let data = data.display().to_string();
    let chosen = format!("FILE_SYSTEMS={}", kinds.join(" "));
    let launcher = ["env", &chosen, "unshare", "-m", "sh", "-c", MOUNTS, &data];
    setup.launcher = launcher.map(str::to_owned).to_vec();
    Some((setup.start(), kinds))
}

fn open(client: &mut RawSmbClient, name: &str, access: u32, disposition: u32) -> RawFileId {
    let wish =
        CreateRequestParts { name, access, share: 7, disposition, options: 0, contexts: &[] };
    let reply = client.call(CREATE, &RawSmbClient::create_with(&wish));
    assert_eq!(reply.status, SUCCESS, "{name}");
    reply.file_id()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn file_system_attributes(client: &mut RawSmbClient, share: &str) -> u32 {
    assert_eq!(client.connect_tree(share), SUCCESS, "{share}");
    attributes_at(client, "")
}

fn attributes_at(client: &mut RawSmbClient, path: &str) -> u32 {
    let opened = open(client, path, 0x80, 1);
    let reply = client.call(QUERY_INFO, &RawSmbClient::query_info_body(opened, 2, 5, 0));
    assert_eq!(reply.status, SUCCESS, "{path}");
    word(reply.output(), 0)
}

fn object_id(client: &mut RawSmbClient, file: RawFileId) -> Result<Vec<u8>, u32> {
    let body = RawSmbClient::control_body(file, CREATE_OR_GET_OBJECT_ID, &[], 64);
    let reply = client.call(IOCTL, &body);
    if reply.status != SUCCESS {
        return Err(reply.status);
    }
    Ok(reply.bytes[112..128].to_vec())
}

/// FileInternalInformation: the inode number.
fn inode(client: &mut RawSmbClient, file: RawFileId) -> Vec<u8> {
    let reply = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 1, 6, 0));
    reply.output()[..8].to_vec()
}

fn file_attributes(client: &mut RawSmbClient, file: RawFileId) -> u32 {
    let reply = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 1, 4, 0));
    word(reply.output(), 32)
}

#[test]
fn file_system_attributes_are_what_each_file_system_has() {
    let Some((server, kinds)) = serve() else { return };
    let mut client = RawSmbClient::ready(&server);
    for (kind, expected) in [
        ("ext4", ALL_HAVE),
        ("xfs", ALL_HAVE | REFCOUNTING),
        ("btrfs", ALL_HAVE | REFCOUNTING | COMPRESSION),
    ] {
        if kinds.contains(&kind) {
            let found = file_system_attributes(&mut client, kind);
            assert_eq!(found, expected, "{kind}: {found:#x} is not {expected:#x}");
        }
    }
    assert_eq!(file_system_attributes(&mut client, "tmpfs"), ALL_HAVE);
    assert_eq!(file_system_attributes(&mut client, "readonly"), ALL_HAVE | READ_ONLY);
    let found = file_system_attributes(&mut client, "ramfs");
    assert_eq!(found, RAMFS_HAS, "{found:#x}");
    if kinds.contains(&"btrfs") {
        // The server detects block sharing at the first write.
        let found = file_system_attributes(&mut client, "btrfs-readonly");
        assert_eq!(found, ALL_HAVE | READ_ONLY | COMPRESSION, "{found:#x}");
        let packed = open(&mut client, "packed", 0x80, 1);
        assert_ne!(file_attributes(&mut client, packed) & COMPRESSED, 0);
    }
}

#[test]
fn file_system_attributes_below_a_mount_point_are_its_own() {
    let Some((server, kinds)) = serve() else { return };
    let mut client = RawSmbClient::ready(&server);
    assert_eq!(client.connect_tree("tmpfs"), SUCCESS);
    let mut expected = vec![
        ("ram", RAMFS_HAS),
        ("ram\\file", RAMFS_HAS),
        ("part", ALL_HAVE),
        ("bound", ALL_HAVE | READ_ONLY),
        ("bound\\file", ALL_HAVE | READ_ONLY),
    ];
    if kinds.contains(&"btrfs") {
        expected.push(("btrfs", ALL_HAVE | REFCOUNTING | COMPRESSION));
        expected.push(("btrfs\\packed", ALL_HAVE | REFCOUNTING | COMPRESSION));
    }
    for (path, expected) in expected {
        let found = attributes_at(&mut client, path);
        assert_eq!(found, expected, "{path}: {found:#x} is not {expected:#x}");
    }
}

/// MS-FSA 2.1.5.10.38: the request and FileFsAttributeInformation agree.
#[test]
fn file_system_without_holes_refuses_and_hides_sparse_files() {
    let Some((server, kinds)) = serve() else { return };
    let mut client = RawSmbClient::ready(&server);
    for kind in kinds.into_iter().chain(["tmpfs", "ramfs"]) {
        let shown = file_system_attributes(&mut client, kind) & SPARSE_FILES != 0;
        assert_eq!(shown, kind != "ramfs");
        let file = open(&mut client, "file", 0x12_019F, 3);
        for input in [&[][..], &[1], &[0]] {
            let body = RawSmbClient::control_body(file, SET_SPARSE, input, 0);
            let status = client.call(IOCTL, &body).status;
            let expected = if shown { SUCCESS } else { INVALID_DEVICE_REQUEST };
            assert_eq!(status, expected, "{kind}, {input:?}");
        }
    }
}

/// MS-FSA 2.1.5.10.1, 2.1.5.13.8. The kernel has no file handles of ramfs.
#[test]
fn file_system_without_generations_has_no_object_ids() {
    let Some((server, _)) = serve() else { return };
    let mut client = RawSmbClient::ready(&server);
    assert_eq!(client.connect_tree("ramfs"), SUCCESS);
    let file = open(&mut client, "file", 0x12_019F, 3);
    assert_eq!(object_id(&mut client, file), Err(VOLUME_NOT_UPGRADED));
    let volume = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 2, 8, 0));
    assert_eq!(volume.status, VOLUME_NOT_UPGRADED);
}

#[test]
fn object_id_is_not_given_to_the_next_file_with_the_inode() {
    /// Attempts to get an inode number again.
    const TRIES_MAX: u32 = 200;
    let Some((server, kinds)) = serve() else { return };
    let mut client = RawSmbClient::ready(&server);
    for &kind in kinds.iter().filter(|kind| **kind != "btrfs") {
        assert_eq!(client.connect_tree(kind), SUCCESS);
        // DELETE beside reading and writing.
        let first = open(&mut client, "first", 0x13_019F, 3);
        let (number, id) = (inode(&mut client, first), object_id(&mut client, first).unwrap());
        assert_eq!(object_id(&mut client, first).as_ref(), Ok(&id), "{kind}");
        let delete = RawSmbClient::set_info_body(first, 13, &[1]);
        assert_eq!(client.call(SET_INFO, &delete).status, SUCCESS);
        assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(first)).status, SUCCESS);
        let again = (0..TRIES_MAX).find_map(|attempt| {
            // XFS frees inodes in the background.
            std::thread::sleep(std::time::Duration::from_millis(5));
            let next = open(&mut client, &format!("next{attempt}"), 0x12_019F, 2);
            (inode(&mut client, next) == number).then_some(next)
        });
        let Some(again) = again else { panic!("{kind}: the inode was not used again") };
        assert_ne!(object_id(&mut client, again), Ok(id), "{kind}");
    }
}

/// The times of an open that set them stay. MS-FSA 2.1.4.17.
fn compression_leaves_stopped_times(client: &mut RawSmbClient) {
    assert_eq!(client.connect_tree("btrfs"), SUCCESS);
    let file = open(client, "times", 0x12_019F, 3);
    let times = [126_439_000_000_000_000_i64; 4];
    let mut basic: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
    basic.extend_from_slice(&[0; 8]);
    assert_eq!(
        client.call(SET_INFO, &RawSmbClient::set_info_body(file, 4, &basic)).status,
        SUCCESS
    );
    for format in [2_u16, 0] {
        std::thread::sleep(std::time::Duration::from_millis(25));
        let body = RawSmbClient::control_body(file, SET_COMPRESSION, &format.to_le_bytes(), 0);
        assert_eq!(client.call(IOCTL, &body).status, SUCCESS);
        let found = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 1, 4, 0));
        assert_eq!(found.output()[..32], basic[..32], "{format}");
    }
}

#[test]
fn only_a_file_system_that_compresses_takes_and_shows_it() {
    let Some((server, kinds)) = serve() else { return };
    let mut client = RawSmbClient::ready(&server);
    for &kind in &kinds {
        let (compresses, expected) =
            if kind == "btrfs" { (true, SUCCESS) } else { (false, NOT_SUPPORTED) };
        assert_eq!(client.connect_tree(kind), SUCCESS);
        let file = open(&mut client, "file", 0x12_019F, 3);
        let mut set = |format: u16| {
            let body = RawSmbClient::control_body(file, SET_COMPRESSION, &format.to_le_bytes(), 0);
            client.call(IOCTL, &body).status
        };
        // MS-FSA 2.1.5.10.30: as ReFS, which only takes COMPRESSION_FORMAT_NONE.
        assert_eq!([set(1), set(2)], [expected; 2], "{kind}");
        let shown = file_attributes(&mut client, file) & COMPRESSED != 0;
        assert_eq!(shown, compresses, "{kind}");
        let body = RawSmbClient::control_body(file, GET_COMPRESSION, &[], 2);
        let format = client.call(IOCTL, &body).bytes[112..].to_vec();
        assert_eq!(format, if compresses { [2, 0] } else { [0, 0] }, "{kind}");
        let body = RawSmbClient::control_body(file, SET_COMPRESSION, &[0, 0], 0);
        assert_eq!(client.call(IOCTL, &body).status, SUCCESS, "{kind}");
        assert_eq!(file_attributes(&mut client, file) & COMPRESSED, 0, "{kind}");
    }
    if kinds.contains(&"btrfs") {
        compression_leaves_stopped_times(&mut client);
    }
    if kinds.contains(&"ext4") {
        assert_eq!(client.connect_tree("ext4"), SUCCESS);
        let flagged = open(&mut client, "flagged", 0x80, 1);
        assert_eq!(file_attributes(&mut client, flagged) & COMPRESSED, 0, "stored, not done");
    }
}
