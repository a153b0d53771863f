//! The POSIX extensions of SMB 3.1.1: lossless names, and POSIX metadata of files. POSIX-SMB2 2.1,
//! 3.1; POSIX-FSCC 2.
//!
//! A create context marks a CREATE as POSIX. Its effects on the open are decided in `files`
//! (`Semantics::Posix`). `/` separates names, and every other character is part of a name. The
//! private-use substitutes for characters that Windows forbids are decoded here, too, because Linux
//! sends them unless it mounts with `nomapposix`.

use crate::conversion::attributes::{attribute_bits, times};
use crate::conversion::names::{PathBuilder, PrivateUse, SmbPath, push_invalid, push_surrogate};
use files::private_use::mapped_byte;
use files::{Ace, AceKind, Descriptor, Semantics, Sid};
use vfs::{Attributes, FileKind, FsError};
use wire::fscc::{PosixFileFields, PosixInfo, PosixKind, REPARSE_TAG_SYMLINK};

/// Longest target of a symbolic link in UTF-16 units: Linux's PATH_MAX.
const TARGET_UNITS_MAX: usize = 4096;

/// Parses a path of a POSIX client; an empty path is the share's root.
///
/// # Errors
/// [`FsError::InvalidName`] for a NUL or for `..` beyond the root;
/// [`FsError::NameTooLong`].
pub fn parse_posix_path(units: &[u16]) -> Result<SmbPath, FsError> {
    let mut path = PathBuilder::new(units);
    for part in units.split(|&u| u == u16::from(b'/')) {
        match part {
            [] | [DOT] => {}
            [DOT, DOT] => path.pop().then_some(()).ok_or(FsError::InvalidName)?,
            name => path.push(name, push_posix_name)?,
        }
    }
    Ok(path.built())
}

const DOT: u16 = b'.' as u16;

fn push_posix_name(bytes: &mut Vec<u8>, units: &[u16], private: PrivateUse) -> Result<(), FsError> {
    for decoded in char::decode_utf16(units.iter().copied()) {
        match decoded {
            Ok('\0') => return Err(FsError::InvalidName),
            Ok(c) => match mapped_byte(c).filter(|_| private == PrivateUse::Mapped) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            },
            Err(lone) => push_surrogate(bytes, lone.unpaired_surrogate()),
        }
    }
    Ok(())
}

/// Appends a name or a link target for POSIX clients: only bytes that are not UTF-8 are mapped.
pub fn push_posix_units(out: &mut Vec<u16>, name: &[u8]) {
    let mut rest = name;
    while !rest.is_empty() {
        let valid = std::str::from_utf8(rest).map_or_else(|e| e.valid_up_to(), str::len);
        let (text, after) = rest.split_at(valid);
        out.extend(String::from_utf8_lossy(text).encode_utf16());
        rest = push_invalid(out, after);
    }
}

/// Target of a symbolic link, and whether it is relative.
///
/// # Errors
/// [`FsError::NameTooLong`] for a target that no client could follow.
pub fn link_target(text: &[u8]) -> Result<(Vec<u16>, bool), FsError> {
    let mut units = Vec::new();
    push_posix_units(&mut units, text);
    if units.len() > TARGET_UNITS_MAX {
        return Err(FsError::NameTooLong);
    }
    Ok((units, text.first() != Some(&b'/')))
}

/// Link count, mode and owners of a node.
#[must_use]
pub fn posix_facts(attributes: &Attributes) -> PosixFileFields {
    let encoded = |sid: Sid| {
        let mut bytes = Vec::with_capacity(sid.length_bytes());
        sid.encode(&mut bytes);
        bytes
    };
    let (kind, reparse_tag) = match attributes.kind {
        FileKind::File => (PosixKind::File, 0),
        FileKind::Directory => (PosixKind::Directory, 0),
        FileKind::Symlink => (PosixKind::Symlink, REPARSE_TAG_SYMLINK),
        FileKind::Device if attributes.device.is_some_and(|device| device.is_block) => {
            (PosixKind::BlockDevice, 0)
        }
        FileKind::Device => (PosixKind::CharacterDevice, 0),
        FileKind::Fifo => (PosixKind::Fifo, 0),
        FileKind::Socket => (PosixKind::Socket, 0),
    };
    PosixFileFields {
        links: attributes.links,
        reparse_tag,
        permissions: attributes.mode,
        kind,
        owners: [encoded(Sid::unix_user(attributes.uid)), encoded(Sid::unix_group(attributes.gid))],
    }
}

/// POSIX metadata of a node, with the file system's own sizes, also of directories.
#[must_use]
pub fn posix_info(attributes: &Attributes) -> PosixInfo {
    // Special files are reported by their POSIX kind, not as reparse points.
    let kind = match attributes.kind {
        FileKind::Device | FileKind::Fifo | FileKind::Socket => FileKind::File,
        other => other,
    };
    PosixInfo {
        times: times(attributes),
        size_bytes: attributes.size_bytes,
        allocation_bytes: attributes.allocated_bytes,
        attributes: attribute_bits(&Attributes { kind, ..*attributes }),
        inode: attributes.key.inode,
        device: attributes.key.device as u32,
        facts: posix_facts(attributes),
    }
}

/// The permission bits of a descriptor whose ACL represents a mode: it has an entry with the
/// trustee `S-1-5-88-3-mode`. POSIX-SMB2 3.1.5.4.
///
/// The Linux client adds an entry for authenticated users, for servers without mode support, and
/// entries of the ACL that it read. None for an ACL with any other entry, which is a real ACL.
#[must_use]
pub fn mode_of(descriptor: &Descriptor, shown: &[Ace]) -> Option<u32> {
    let list = descriptor.dacl.as_deref()?;
    let is_linuxs = |entry: &Ace| {
        let is_for_all = entry.kind == AceKind::Allow && entry.sid == Sid::authenticated_users();
        entry.sid.is_nfs() || is_for_all || shown.contains(entry)
    };
    let mode = list.iter().find_map(|entry| entry.sid.as_nfs_mode());
    mode.filter(|_| list.iter().all(is_linuxs))
}

/// True if a client that changes the owner returns the ACL that it read, with owner and group
/// replaced.
#[must_use]
pub fn is_unchanged_list(sent: &Descriptor, shown: &Descriptor) -> bool {
    let names = [(&shown.owner, &sent.owner), (&shown.group, &sent.group)];
    let is_replaced = |old: &Sid, new: &Sid| {
        names.iter().any(|(shown, sent)| {
            let sent = (*sent).clone().map(Sid::from_nfs);
            shown.as_ref() == Some(old) && sent.as_ref() == Some(new)
        })
    };
    let is_same = |sent: &Ace, shown: &Ace| {
        let sid = sent.sid.clone().from_nfs();
        (sid == shown.sid || is_replaced(&shown.sid, &sid))
            && (&sent.kind, sent.flags, sent.access) == (&shown.kind, shown.flags, shown.access)
    };
    match (&sent.dacl, &shown.dacl) {
        (Some(sent), Some(shown)) => {
            sent.len() == shown.len()
                && sent.iter().zip(shown).all(|(sent, shown)| is_same(sent, shown))
        }
        (sent, shown) => sent == shown,
    }
}

/// True for an open of a POSIX client.
#[must_use]
pub fn is_posix(file: &files::OpenFile) -> bool {
    file.semantics() == Semantics::Posix
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vfs::Name;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn path_of(text: &str) -> Result<Vec<u8>, FsError> {
        parse_posix_path(&units(text)).map(|p| p.path.as_bytes().to_vec())
    }

    #[test]
    fn posix_names_allow_every_character_but_the_slash() {
        for name in ["a:b", "what?", "*", "a\\b", "end.", "end ", "<\"|>", "tab\there", "\u{1}"] {
            assert_eq!(path_of(name).unwrap(), name.as_bytes(), "{name:?}");
            let mut shown = Vec::new();
            push_posix_units(&mut shown, name.as_bytes());
            assert_eq!(shown, units(name));
        }
        assert_eq!(path_of("d/:/*").unwrap(), b"d/:/*");
        assert_eq!(path_of("").unwrap(), b"");
        assert_eq!(path_of("\u{F022}\u{F1FF}").unwrap(), b":\xFF", "as Linux sends them");
    }

    #[test]
    fn posix_dots_are_resolved_within_the_share() {
        assert_eq!(path_of("/a//./b/../c/").unwrap(), b"a/c");
        assert_eq!(path_of("a/..").unwrap(), b"");
        for bad in ["..", "a/../..", "a\0b"] {
            assert_eq!(path_of(bad), Err(FsError::InvalidName), "{bad:?}");
        }
        let private = "\u{F029}\u{F029}/a";
        assert_eq!(path_of(private).unwrap(), private.as_bytes(), "a name, and no mapped dots");
        assert_eq!(path_of(&"n".repeat(256)), Err(FsError::NameTooLong));
    }

    #[test]
    fn link_is_relative_unless_it_begins_with_a_slash() {
        assert_eq!(link_target(b"../a"), Ok((units("../a"), true)));
        assert_eq!(link_target(b"/a"), Ok((units("/a"), false)));
        assert_eq!(link_target(&[b'a'; 4097]), Err(FsError::NameTooLong));
    }

    fn entry(kind: AceKind, sid: Sid) -> Ace {
        Ace { kind, flags: 0, access: files::Access(0x1F_01FF), sid }
    }

    #[test]
    fn list_with_a_mode_entry_is_a_mode_unless_others_follow() {
        let of = |list: &[Ace]| Descriptor { dacl: Some(list.to_vec()), ..Descriptor::default() };
        let allow = |sid| entry(AceKind::Allow, sid);
        let (mode, all) = (allow(Sid::nfs(3, 0o751)), allow(Sid::authenticated_users()));
        let user = allow(Sid::unix_user(4007));
        let audit = entry(AceKind::Other(2, vec![0; 4]), Sid::everyone());
        let deny = entry(AceKind::Deny, Sid::authenticated_users());
        assert_eq!(mode_of(&of(&[mode.clone(), all.clone()]), &[]), Some(0o751));
        assert_eq!(mode_of(&of(std::slice::from_ref(&mode)), &[]), Some(0o751));
        assert_eq!(mode_of(&of(&[all.clone(), user.clone()]), &[]), None);
        for more in [user, audit, deny] {
            let list = of(&[mode.clone(), all.clone(), more.clone()]);
            assert_eq!(mode_of(&list, &[]), None, "{more:?}");
            assert_eq!(mode_of(&list, &[more]), Some(0o751), "as it was shown");
        }
    }

    proptest! {
        #[test]
        fn every_backend_name_round_trips_for_posix_clients(raw in prop::collection::vec(1u8..=255, 1..40)) {
            let Ok(name) = Name::new(raw.clone()) else { return Ok(()) };
            let mut shown = Vec::new();
            push_posix_units(&mut shown, name.as_bytes());
            let private = String::from_utf8_lossy(&raw).chars().any(|c| ('\u{F000}'..='\u{F1FF}').contains(&c));
            let path = parse_posix_path(&shown);
            prop_assert!(private || path.map(|p| p.path.as_bytes().to_vec()) == Ok(raw));
        }

        #[test]
        fn posix_path_is_refused_or_stays_in_the_share(text in prop::collection::vec(any::<u16>(), 0..20)) {
            if let Ok(path) = parse_posix_path(&text) {
                prop_assert!(path.path.components().all(|c| c != b"." && c != b".."));
            }
        }
    }
}
