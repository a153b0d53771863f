//! Extensions for Apple clients: server capabilities and directory entries.
//! `wire::smb::AppleQuery`.

use crate::conversion::attributes::times;
use crate::shares::tree::TreeConnect;
use files::{
    Access, Ace, AceKind, Descriptor, OpenAction, OpenFile, OpenResult, RequestFiles, Sid,
};
use std::ops::Range;
use vfs::{Attributes, Case, FileKind, Name, StreamName};
use wire::ntstatus::NtStatus;
use wire::smb::{
    AFP_INFO_BYTES, AppleAnswer, AppleDetails, AppleQuery, apple_capabilities, apple_volume,
};

/// The model name that Samba sends as well: clients do not know it, and show a generic server icon.
const MODEL: &str = "MacSamba";
/// The stream with Finder information.
const INFO_STREAM: &[u8] = b"AFP_AfpInfo";
/// The stream with the resource fork.
const FORK_STREAM: &[u8] = b"AFP_Resource";

/// Range of Finder's own bytes in AFP_AfpInfo.
const FINDER_INFO: Range<usize> = 16..48;

/// File types in POSIX `st_mode`.
const MODE_FILE: u32 = 0o100_000;
const MODE_DIRECTORY: u32 = 0o040_000;
const MODE_SYMLINK: u32 = 0o120_000;

/// Encodes the response to a client's query. Afterwards directory entries carry the Apple details
/// that the client supports.
pub fn answer(query: &AppleQuery, tree: &TreeConnect) -> Vec<u8> {
    let volume = tree.share.volume.as_deref();
    let has_details = query.requests_server_capabilities()
        && query.capabilities & apple_capabilities::DIRECTORY_DETAILS != 0
        && volume.is_some_and(|volume| volume.has_streams());
    let mut server = apple_capabilities::UNIX_BASED
        | apple_capabilities::COPY_FILE
        | apple_capabilities::NFS_ENTRIES;
    if query.requests_server_capabilities() {
        tree.set_apple();
    }
    if has_details {
        server |= apple_capabilities::DIRECTORY_DETAILS;
        tree.set_apple_details();
    }
    let mut capabilities = 0;
    if volume.is_some_and(|volume| volume.options.case == Case::Sensitive) {
        capabilities |= apple_volume::CASE_SENSITIVE;
    }
    // Every FLUSH reaches the disk. macOS offers Time Machine only on volumes with this bit.
    if tree.share.time_machine {
        capabilities |= apple_volume::FULL_SYNC;
    }
    AppleAnswer { server, volume: capabilities, model: MODEL }.encode(query)
}

/// Adds mode and owner ids to an ACL, as deny entries without access bits.
pub fn add_nfs_entries(descriptor: &mut Descriptor, attributes: &Attributes) {
    let Some(list) = &mut descriptor.dacl else { return };
    let mode = attributes.mode | kind_bits(attributes.kind);
    for (kind, value) in [(3, mode), (1, attributes.uid), (2, attributes.gid)] {
        let sid = Sid::nfs(kind, value);
        list.push(Ace { kind: AceKind::Deny, flags: 0, access: Access::NONE, sid });
    }
}

/// Removes those entries from an ACL that is to be set, and returns the permission bits among them.
pub fn take_nfs_entries(descriptor: &mut Descriptor) -> Option<u32> {
    const PERMISSIONS: u32 = 0o777;
    let list = descriptor.dacl.as_mut()?;
    let mode = list.iter().find_map(|entry| entry.sid.as_nfs_mode());
    list.retain(|entry| !entry.sid.is_nfs());
    mode.map(|mode| mode & PERMISSIONS)
}

/// The effect of a write to AFP_AfpInfo, which clients always write whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoWrite {
    /// Write these bytes at offset 0.
    Whole([u8; AFP_INFO_BYTES]),
    /// The Finder information is empty: remove the stream.
    Removed,
    /// Ignore the write.
    Ignored,
}

/// Decides a write to AFP_AfpInfo as macOS does.
///
/// # Errors
/// `INVALID_PARAMETER` for data that is not an AfpInfo.
pub fn decide_info_write(offset: u64, data: &[u8]) -> Result<InfoWrite, NtStatus> {
    if !data.starts_with(b"AFP") || (offset != 0 && data.len() < AFP_INFO_BYTES) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if data.len() <= FINDER_INFO.start {
        return Ok(InfoWrite::Ignored);
    }
    let mut whole = [0; AFP_INFO_BYTES];
    let length = data.len().min(AFP_INFO_BYTES);
    whole[..length].copy_from_slice(&data[..length]);
    let is_empty = whole[FINDER_INFO].iter().all(|byte| *byte == 0);
    Ok(if is_empty { InfoWrite::Removed } else { InfoWrite::Whole(whole) })
}

/// Content of AFP_AfpInfo before its first write: appends the requested part and returns its
/// length. macOS reads the whole stream and treats its absence as an error.
pub fn read_unwritten(offset: u64, length: usize, into: &mut Vec<u8>) -> usize {
    let mut info = [0; AFP_INFO_BYTES];
    info[..6].copy_from_slice(b"AFP\0\0\x01");
    // Backup time: never.
    info[12] = 0x80;
    let rest = usize::try_from(offset).ok().and_then(|offset| info.get(offset..));
    let rest = rest.unwrap_or_default();
    let rest = &rest[..rest.len().min(length)];
    into.extend_from_slice(rest);
    rest.len()
}

/// True for an open of AFP_AfpInfo.
pub fn is_info(file: &OpenFile) -> bool {
    file.stream().is_some_and(|name| name.as_bytes() == INFO_STREAM)
}

/// True if the open must fail for an Apple client: macOS treats an empty stream as absent, unless
/// it creates the stream.
pub fn is_hidden_empty_stream(tree: &TreeConnect, opened: &OpenResult) -> bool {
    tree.is_apple()
        && opened.action == OpenAction::Opened
        && opened.attributes.size_bytes == 0
        && opened.open.stream().is_some()
}

/// True for Apple's streams, which are absent when empty.
pub fn is_apple_stream(name: &StreamName) -> bool {
    [INFO_STREAM, FORK_STREAM].contains(&name.as_bytes())
}

fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Directory => MODE_DIRECTORY,
        FileKind::Symlink => MODE_SYMLINK,
        _ => MODE_FILE,
    }
}

/// The Apple details of a directory entry. Inaccessible details are omitted.
pub fn details(
    files: &RequestFiles,
    directory: &OpenFile,
    name: &Name,
    attributes: &Attributes,
) -> AppleDetails {
    let mode = (attributes.mode | kind_bits(attributes.kind)) as u16;
    let mut details = AppleDetails { mode, ..AppleDetails::default() };
    let access = files.access_by_attributes(directory, attributes);
    if let Some(access) = access.filter(|_| !attributes.stored.streams) {
        details.maximal_access = access.0;
        return details;
    }
    let Ok(child) = files.look_at_child(directory, name) else { return details };
    details.maximal_access = child.access().0;
    let stream = |name: &[u8]| StreamName::new(name).ok();
    if let Some(info) = stream(INFO_STREAM).and_then(|name| child.stream(&name, AFP_INFO_BYTES)) {
        let created = times(attributes)[0].to_unix_nanos();
        details.set_finder_info(&info, attributes.kind == FileKind::File, created);
    }
    details.fork_bytes = stream(FORK_STREAM).map_or(0, |name| child.stream_bytes(&name));
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn afp_info_is_written_whole_or_removed() {
        let mut info = b"AFP\0\0\0\x01\0".to_vec();
        info.resize(AFP_INFO_BYTES, 0);
        assert_eq!(decide_info_write(0, &info), Ok(InfoWrite::Removed));
        info[47] = 1;
        let whole: [u8; AFP_INFO_BYTES] = info.clone().try_into().unwrap();
        assert_eq!(decide_info_write(0, &info), Ok(InfoWrite::Whole(whole)));
        assert_eq!(
            decide_info_write(9, &[&info[..], b"more"].concat()),
            Ok(InfoWrite::Whole(whole))
        );
        assert_eq!(decide_info_write(0, &info[..16]), Ok(InfoWrite::Ignored));
        for bad in [&b"AF"[..], b"", b"XFP\0", &info[1..]] {
            assert_eq!(decide_info_write(0, bad), Err(NtStatus::INVALID_PARAMETER));
        }
        assert_eq!(decide_info_write(1, &info[..59]), Err(NtStatus::INVALID_PARAMETER));
    }

    #[test]
    fn afp_info_is_readable_before_its_first_write() {
        let mut read = vec![7];
        assert_eq!(read_unwritten(0, 100, &mut read), AFP_INFO_BYTES);
        assert_eq!(read[..14], *b"\x07AFP\0\0\x01\0\0\0\0\0\0\x80");
        assert!(read[14..].iter().all(|byte| *byte == 0));
        assert_eq!(read_unwritten(58, 100, &mut Vec::new()), 2);
        assert_eq!(read_unwritten(u64::MAX, 1, &mut Vec::new()), 0);
        // An unwritten AfpInfo, written back, is not stored.
        assert_eq!(decide_info_write(0, &read[1..]), Ok(InfoWrite::Removed));
    }

    #[test]
    fn nfs_entries_are_removed_from_a_list_to_set() {
        let entry = Ace::allow(Sid::everyone(), Access::FILE_READ);
        let mut descriptor = Descriptor { dacl: Some(vec![entry.clone()]), ..Default::default() };
        let mode = Ace::allow(Sid::nfs(3, 0o100_640), Access::NONE);
        descriptor.dacl.as_mut().unwrap().push(mode);
        descriptor.dacl.as_mut().unwrap().push(Ace::allow(Sid::nfs(1, 5), Access::NONE));
        assert_eq!(take_nfs_entries(&mut descriptor), Some(0o640));
        assert_eq!(descriptor.dacl, Some(vec![entry]));
        assert_eq!(take_nfs_entries(&mut descriptor), None);
    }
}
