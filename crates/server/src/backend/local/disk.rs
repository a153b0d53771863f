//! Facts about the file system below a directory.

use crate::backend::{DiskFacts, StreamInventory};
use rustix::fs::{
    Access, CWD, IFlags, Mode, OFlags, XattrFlags, access, fgetxattr, fsetxattr, ioctl_ficlone,
    ioctl_getflags, openat, statvfs,
};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Lower-case and upper-case names are one in such a directory (FS_CASEFOLD_FL).
const CASE_FOLDED: u32 = 0x4000_0000;

/// The facts; none if the directory is missing, which `check` reports. Test files have no name.
pub(super) fn facts(path: &Path) -> Option<DiskFacts> {
    let path = path.canonicalize().ok().filter(|path| path.is_dir())?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let (mounted_at, kind, options) = mount_of(&mounts, &path.to_string_lossy())?;
    let numbers = statvfs(&path).ok();
    let file = unnamed(&path);
    let directory = openat(CWD, &path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok();
    Some(DiskFacts {
        kind,
        mounted_at,
        options,
        is_writable: access(&path, Access::WRITE_OK).is_ok(),
        user_xattrs: file.as_ref().map(takes_user_xattrs),
        acls: directory.as_ref().map(takes_access_lists),
        reflinks: file.as_ref().and_then(|file| Some(shares_blocks(file, &unnamed(&path)?))),
        folds_case: directory.as_ref().and_then(folds_case),
        long_streams: StreamInventory::of(&path),
        bytes: numbers.as_ref().map(|of| {
            (of.f_blocks.saturating_mul(of.f_frsize), of.f_bavail.saturating_mul(of.f_frsize))
        }),
        inodes: numbers.as_ref().map(|of| (of.f_files, of.f_favail)),
        path,
    })
}

/// A file without a name: nobody sees it, and it is gone when it is closed.
fn unnamed(folder: &Path) -> Option<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR).ok()
}

fn takes_user_xattrs(file: &OwnedFd) -> bool {
    fsetxattr(file, "user.anabranch.doctor", b"1", XattrFlags::empty()).is_ok()
}

/// The type of the file system of `path`, if it has no user attributes at all. Changes nothing, so
/// that it serves for read-only shares and at each start.
pub(super) fn lacks_attributes(path: &Path) -> Option<String> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, path, flags, Mode::empty()).ok()?;
    let mut nothing = [0u8; 0];
    let found = fgetxattr(&directory, "user.anabranch.doctor", &mut nothing);
    if found != Err(Errno::OPNOTSUPP) {
        return None;
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let path = path.canonicalize().ok()?;
    mount_of(&mounts, &path.to_string_lossy()).map(|(_, kind, _)| kind)
}

/// A directory without a list says so where it could have one.
fn takes_access_lists(folder: &OwnedFd) -> bool {
    let mut list = [0u8; 0];
    let found = fgetxattr(folder, "system.posix_acl_access", &mut list);
    !matches!(found, Err(Errno::OPNOTSUPP))
}

fn shares_blocks(from: &OwnedFd, to: &OwnedFd) -> bool {
    // An empty file shares nothing, and some file systems are content with that.
    rustix::io::write(from, &[1; 4096]).is_ok() && ioctl_ficlone(to, from).is_ok()
}

fn folds_case(folder: &OwnedFd) -> Option<bool> {
    let flags = ioctl_getflags(folder).ok()?;
    Some(flags.contains(IFlags::from_bits_retain(CASE_FOLDED)))
}

/// Place, kind and options of the mount that `path` is on: the longest, and of these the last,
/// which lies over the others. proc(5).
fn mount_of(mounts: &str, path: &str) -> Option<(String, String, Vec<String>)> {
    let mut best: Option<(String, String, Vec<String>)> = None;
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let before: Vec<&str> = before.split(' ').collect();
        let after: Vec<&str> = after.split(' ').collect();
        let (Some(place), Some(own)) = (before.get(4), before.get(5)) else { continue };
        let place = unescaped(place);
        let [kind, _, common, ..] = after[..] else { continue };
        let below = path.strip_prefix(place.trim_end_matches('/'));
        if !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            continue;
        }
        if best.as_ref().is_none_or(|best| best.0.len() <= place.len()) {
            let options = own.split(',').chain(common.split(',')).map(str::to_owned).collect();
            best = Some((place, kind.to_owned(), options));
        }
    }
    best
}

/// Spaces and the like are written in octal there.
fn unescaped(text: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_on_its_longest_mount_prefix() {
        let mounts = "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
                      2 1 8:2 / /srv rw,noatime shared:1 - xfs /dev/sdb rw,usrquota\n\
                      3 1 8:3 / /srv/a\\040b ro - btrfs /dev/sdc ro\nnonsense\n";
        let of = |path| mount_of(mounts, path).map(|(place, kind, _)| (place, kind));
        let pair = |place: &str, kind: &str| Some((place.to_owned(), kind.to_owned()));
        assert_eq!(of("/srv/data"), pair("/srv", "xfs"));
        assert_eq!(of("/srv"), pair("/srv", "xfs"));
        assert_eq!(of("/srvother"), pair("/", "ext4"));
        assert_eq!(of("/srv/a b/c"), pair("/srv/a b", "btrfs"));
        let (_, _, options) = mount_of(mounts, "/srv").unwrap();
        assert_eq!(options, ["rw", "noatime", "rw", "usrquota"]);
    }

    #[test]
    fn file_system_without_attributes_is_named() {
        assert_eq!(lacks_attributes(Path::new("/proc/sys")), Some("proc".into()));
        assert_eq!(lacks_attributes(Path::new("/nonexistent")), None);
    }

    #[test]
    fn trying_a_directory_leaves_nothing_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let found = facts(folder.path()).unwrap();
        assert!(found.is_writable);
        assert!(found.bytes.is_some_and(|(all, free)| all >= free), "{found:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
