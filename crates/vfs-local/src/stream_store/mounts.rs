//! Mount points by mountinfo. proc(5).

use std::io;
use std::path::PathBuf;

/// Maximum length of mountinfo: some hundred thousand mounts.
const MOUNTINFO_BYTES_MAX: usize = 64 << 20;

/// Types of local file systems that can have stores. Others may block, such as network and
/// user-space file systems, or are automounted on access.
const LOCAL: [&[u8]; 10] = [
    b"ext2",
    b"ext3",
    b"ext4",
    b"xfs",
    b"btrfs",
    b"tmpfs",
    b"zfs",
    b"f2fs",
    b"bcachefs",
    b"overlay",
];

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Device of the file system; files of btrfs report another one.
    pub device: u64,
    /// The mounted directory or file of the file system.
    pub root: Vec<u8>,
    pub at: Vec<u8>,
    /// Type of the file system, as in `mount -t`.
    pub kind: Vec<u8>,
}

impl Mount {
    /// Parses a line of mountinfo.
    fn of_line(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let device = std::str::from_utf8(words.nth(2)?).ok()?;
        let (major, minor) = device.split_once(':')?;
        let device = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        let (root, at) = (unescaped(words.next()?), unescaped(words.next()?));
        let kind = words.skip_while(|word| *word != b"-").nth(1)?.to_vec();
        Some(Self { device, root, at, kind })
    }

    /// True if the file system may have a store and is local.
    pub(super) fn is_local(&self) -> bool {
        LOCAL.contains(&&*self.kind)
    }

    /// True if files report a device other than mountinfo's.
    pub(super) fn has_subvolumes(&self) -> bool {
        self.kind == b"btrfs"
    }

    /// True if it may be the file system of files with this device.
    fn may_have(&self, device: u64) -> bool {
        self.device == device || self.has_subvolumes()
    }

    /// True if another mount of the same file system covers this one.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let root = other.root.strip_suffix(b"/").unwrap_or(&other.root);
        let rest = self.root.strip_prefix(root);
        other.device == self.device && rest.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    }
}

/// Decodes the octal escapes of a mountinfo field.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let (mut text, mut rest) = (Vec::with_capacity(word.len()), word);
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..3).filter(|_| *first == b'\\');
        let octal = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                text.push(byte);
                rest = &others[3..];
            }
            None => {
                text.push(*first);
                rest = others;
            }
        }
    }
    text
}

/// Range of a search for references.
#[derive(Clone, Debug)]
pub(super) enum Extent {
    /// The complete file system, by the mounts in this file.
    Mounts(PathBuf),
    /// The served trees only: the temporary directories of tests.
    #[cfg(test)]
    Served,
}

impl Extent {
    /// The range of the daily scan.
    #[cfg(not(test))]
    pub(super) fn of_look() -> Self {
        Self::Mounts("/proc/self/mountinfo".into())
    }

    #[cfg(test)]
    pub(super) fn of_look() -> Self {
        Self::Served
    }

    /// The mounts that may belong to a file system.
    ///
    /// # Errors
    /// The list cannot be read, so mounts may be missing.
    pub(super) fn mounts(&self, device: u64) -> io::Result<Vec<Mount>> {
        match self {
            Self::Mounts(list) => {
                let text = std::fs::read(list)?;
                if text.len() > MOUNTINFO_BYTES_MAX {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                Ok(mounts_in(&text).filter(|mount| mount.may_have(device)).collect())
            }
            #[cfg(test)]
            Self::Served => Ok(Vec::new()),
        }
    }

    /// True if a directory that cannot be opened may contain references.
    pub(super) fn is_strict(&self) -> bool {
        matches!(self, Self::Mounts(_))
    }
}

/// Parses mountinfo.
pub(crate) fn mounts_in(text: &[u8]) -> impl Iterator<Item = Mount> {
    text.split(|byte| *byte == b'\n').filter_map(Mount::of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"3 1 8:3 / /srv/a\\040b\\134 ro - xfs /dev/sdc ro\n\
        4 1 8:3 /data /srv/bound rw shared:1 master:2 - xfs /dev/sdc rw\n\
        nonsense\n\
        5 1 0:55 / /srv/far rw - nfs4 host:/ rw\n\
        6 1 0:56 / /srv/auto rw - autofs systemd-1 rw\n\
        7 1 0:57 /@ /srv/sub rw - btrfs /dev/sdd rw\n";

    #[test]
    fn mountinfo_lines_are_parsed() {
        let all: Vec<_> = mounts_in(TEXT).collect();
        assert_eq!(all.len(), 5);
        assert_eq!((&*all[0].at, &*all[0].root), (&b"/srv/a b\\"[..], &b"/"[..]));
        assert_eq!(all[1].device, rustix::fs::makedev(8, 3));
        assert!(all[1].is_within(&all[0]) && !all[0].is_within(&all[1]));
        assert!(!all[4].is_within(&all[0]), "of another file system");
        let of = |device| all.iter().filter(|mount| mount.may_have(device)).count();
        assert_eq!(of(rustix::fs::makedev(8, 3)), 3, "btrfs has devices that nothing lists");
    }

    #[test]
    fn mounts_that_may_block_are_skipped() {
        let local: Vec<_> = mounts_in(TEXT).map(|mount| mount.is_local()).collect();
        assert_eq!(local, [true, true, false, false, true]);
    }
}
