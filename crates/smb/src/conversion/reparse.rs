//! Reparse points, converted between the file layer and MS-FSCC 2.1.2.
//!
//! A symbolic link on disk is IO_REPARSE_TAG_SYMLINK. Pipes, sockets and devices are
//! IO_REPARSE_TAG_NFS. Reparse points that clients stored are returned unchanged.

use crate::conversion::names::{name_from_units, push_units};
use files::{LinkOnPath, Reparse};
use vfs::{Attributes, Device, FileKind, SpecialKind};
use wire::codec::DecodeError;
use wire::fscc::{REPARSE_TAG_NFS, REPARSE_TAG_SYMLINK, ReparseBuffer, SpecialFile, Symlink};

const SEPARATOR: u16 = b'\\' as u16;
const SLASH: u16 = b'/' as u16;

/// The reparse tag.
#[must_use]
pub fn tag_of(reparse: &Reparse) -> u32 {
    match reparse {
        Reparse::Symlink(_) => REPARSE_TAG_SYMLINK,
        Reparse::Special(_) => REPARSE_TAG_NFS,
        Reparse::Stored(data) => data.first_chunk().copied().map_or(0, u32::from_le_bytes),
    }
}

/// The reparse tag by attributes alone; none if the stored data decide.
#[must_use]
pub fn tag_by_kind(attributes: &Attributes) -> Option<u32> {
    match attributes.kind {
        FileKind::Symlink => Some(REPARSE_TAG_SYMLINK),
        FileKind::Device | FileKind::Fifo | FileKind::Socket => Some(REPARSE_TAG_NFS),
        FileKind::File if attributes.dos.bits.unwrap_or(0) & files::dos::REPARSE_POINT != 0 => None,
        FileKind::Directory | FileKind::File => Some(0),
    }
}

/// The reparse data buffer; none if it cannot be represented.
#[must_use]
pub fn buffer_of(reparse: Reparse) -> Option<Vec<u8>> {
    match reparse {
        Reparse::Symlink(target) => symlink(&target).encode(),
        Reparse::Special(attributes) => special(&attributes).map(|special| special.encode()),
        Reparse::Stored(data) => Some(data),
    }
}

fn special(attributes: &Attributes) -> Option<SpecialFile> {
    Some(match (attributes.kind, attributes.device) {
        (FileKind::Fifo, _) => SpecialFile::Fifo,
        (FileKind::Socket, _) => SpecialFile::Socket,
        (FileKind::Device, Some(device)) => {
            let (major, minor) = (device.major, device.minor);
            match device.is_block {
                true => SpecialFile::Block { major, minor },
                false => SpecialFile::Character { major, minor },
            }
        }
        _ => return None,
    })
}

/// The special file that a client's reparse buffer describes: a pipe, a socket or a device.
///
/// # Errors
/// [`DecodeError`] for data of an unknown kind.
pub fn special_of(buffer: &ReparseBuffer<'_>) -> Result<Option<SpecialKind>, DecodeError> {
    let device = |is_block, major, minor| SpecialKind::Device(Device { is_block, major, minor });
    Ok(SpecialFile::decode(buffer)?.map(|special| match special {
        SpecialFile::Character { major, minor } => device(false, major, minor),
        SpecialFile::Block { major, minor } => device(true, major, minor),
        SpecialFile::Fifo => SpecialKind::Fifo,
        SpecialFile::Socket => SpecialKind::Socket,
    }))
}

/// A link target in the form that clients follow.
fn symlink(target: &[u8]) -> Symlink {
    let mut units = Vec::with_capacity(target.len());
    for (at, part) in target.split(|&b| b == b'/').enumerate() {
        if at > 0 {
            units.push(SEPARATOR);
        }
        match part {
            // Dot components are not names, whose final dot would be mapped.
            b"." | b".." => units.extend(part.iter().copied().map(u16::from)),
            name => push_units(&mut units, name),
        }
    }
    Symlink { target: units, is_relative: !target.starts_with(b"/") }
}

/// The target to store for a link that a client created; none for targets that exist only on
/// Windows, such as `\??\C:\`.
#[must_use]
pub fn posix_target(link: &Symlink) -> Option<Vec<u8>> {
    let is_rooted = link.target.first().is_some_and(|&u| u == SEPARATOR || u == SLASH);
    if link.is_relative == is_rooted {
        return None;
    }
    let mut text = Vec::with_capacity(link.target.len());
    for (at, part) in link.target.split(|&u| u == SEPARATOR || u == SLASH).enumerate() {
        if at > 0 {
            text.push(b'/');
        }
        match String::from_utf16_lossy(part).as_str() {
            "" => {}
            dots @ ("." | "..") => text.extend_from_slice(dots.as_bytes()),
            // A component that is no valid name, such as `??`, leads nowhere on disk.
            _ => text.extend_from_slice(name_from_units(part).ok()?.as_bytes()),
        }
    }
    (!text.is_empty()).then_some(text)
}

/// The target of a client's link with `/` separators, valid on disk or not. It serves the check
/// whether the link leads out of the share.
#[must_use]
pub fn link_text(link: &Symlink) -> Vec<u8> {
    let root = if link.is_relative { "" } else { "/" };
    let target = String::from_utf16_lossy(&link.target).replace('\\', "/");
    format!("{root}{target}").into_bytes()
}

/// The target to store for an NFS symbolic link: the text that the user typed.
#[must_use]
pub fn nfs_target(target: &[u16]) -> Option<Vec<u8>> {
    let text = String::from_utf16(target).ok()?.into_bytes();
    (!text.is_empty() && !text.contains(&0)).then_some(text)
}

/// Error data for a path that crosses a link; none if it cannot be represented.
#[must_use]
pub fn symlink_error_data(link: &LinkOnPath) -> Option<Vec<u8>> {
    let mut rest = Vec::new();
    for component in link.rest.components() {
        rest.push(SEPARATOR);
        push_units(&mut rest, component);
    }
    symlink(&link.target).error_data(u16::try_from(rest.len() * 2).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::RelPath;

    fn link(target: &str, is_relative: bool) -> Symlink {
        Symlink { target: target.encode_utf16().collect(), is_relative }
    }

    #[test]
    fn link_target_round_trips_through_a_client() {
        for text in ["a", "../a/./b", "/etc/fstab", "x/..", "a:b", "tail.", "..a"] {
            let shown = symlink(text.as_bytes());
            assert_eq!(posix_target(&shown), Some(text.as_bytes().to_vec()), "{text}");
        }
        assert_eq!(symlink(b"../a b/c"), link(r"..\a b\c", true));
        assert_eq!(symlink(b"/a"), link(r"\a", false));
    }

    #[test]
    fn windows_only_target_is_not_a_disk_link() {
        for (target, is_relative) in
            [(r"\??\C:\dir", false), (r"C:\dir", false), (r"\dir", true), ("", true), ("a*", true)]
        {
            assert_eq!(posix_target(&link(target, is_relative)), None, "{target}");
        }
    }

    #[test]
    fn windows_only_target_is_absolute_text() {
        for (target, is_relative, text) in [
            (r"\??\C:\dir", false, "//??/C:/dir"),
            (r"\dir", true, "/dir"),
            (r"..\a*", true, "../a*"),
            ("C:", false, "/C:"),
        ] {
            assert_eq!(link_text(&link(target, is_relative)), text.as_bytes());
        }
    }

    #[test]
    fn stopped_on_symlink_reports_the_unparsed_length() {
        let name = |text: &str| vfs::Name::new(text.as_bytes()).unwrap();
        let rest: RelPath = [name("b"), name("cd")].into_iter().collect();
        let data = symlink_error_data(&LinkOnPath { target: b"t".to_vec(), rest }).unwrap();
        assert_eq!(data[14..16], [10, 0], r"\b\cd");
    }
}
