//! Clients of Apple: what they are told of the server, and of what is in a
//! directory. `wire::smb::AppleQuery`.

use crate::attributes::times;
use crate::tree::Tree;
use files::{Files, OpenFile};
use vfs::{Attributes, Case, FileKind, Name, StreamName};
use wire::smb::{
    AFP_INFO_BYTES, AppleAnswer, AppleDetails, AppleQuery, apple_capabilities, apple_volume,
};

/// Apple's name for a server in a rack: clients show its icon.
const MODEL: &str = "RackMac";
/// The stream with what Finder keeps of a file.
const INFO_STREAM: &[u8] = b"AFP_AfpInfo";
/// The stream that is the resource fork.
const FORK_STREAM: &[u8] = b"AFP_Resource";

/// Kinds of nodes in POSIX's `st_mode`.
const MODE_FILE: u32 = 0o100_000;
const MODE_DIRECTORY: u32 = 0o040_000;
const MODE_SYMLINK: u32 = 0o120_000;

/// Answers a client's question; from then on entries of directories have the
/// details that it can read.
pub fn answer(query: &AppleQuery, tree: &Tree) -> Vec<u8> {
    let volume = tree.share.volume.as_deref();
    let has_details = query.asks_for_server()
        && query.capabilities & apple_capabilities::DIRECTORY_DETAILS != 0
        && volume.is_some_and(|volume| volume.has_streams());
    let mut server = apple_capabilities::UNIX_BASED;
    if has_details {
        server |= apple_capabilities::DIRECTORY_DETAILS;
        tree.set_apple_details();
    }
    let mut capabilities = 0;
    if volume.is_some_and(|volume| volume.options.case == Case::Sensitive) {
        capabilities |= apple_volume::CASE_SENSITIVE;
    }
    // Every FLUSH reaches the disk; clients offer a backup only where that is said.
    if tree.share.time_machine {
        capabilities |= apple_volume::FULL_SYNC;
    }
    AppleAnswer { server, volume: capabilities, model: MODEL }.encode(query)
}

/// What is told of one entry of a directory. What cannot be seen is left out.
pub fn details(
    files: &Files,
    directory: &OpenFile,
    name: &Name,
    attributes: &Attributes,
) -> AppleDetails {
    let kind = match attributes.kind {
        FileKind::Directory => MODE_DIRECTORY,
        FileKind::Symlink => MODE_SYMLINK,
        _ => MODE_FILE,
    };
    let mode = (attributes.mode | kind) as u16;
    let mut details = AppleDetails { mode, ..AppleDetails::default() };
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
