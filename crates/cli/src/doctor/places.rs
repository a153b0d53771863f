//! Directories: their permissions, and the features of their file systems.

use advise::doctor::{FileSystem, Folder, LongStreams};
use rustix::fs::{
    Access, CWD, IFlags, Mode, OFlags, XattrFlags, access, fgetxattr, fsetxattr, ioctl_ficlone,
    ioctl_getflags, openat, statvfs,
};
use rustix::io::Errno;
use server::StreamInventory;
use server::config::{Config, ShareConfig};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Lower-case and upper-case names are one in such a directory (FS_CASEFOLD_FL).
const CASE_FOLDED: u32 = 0x4000_0000;

/// The configuration, the users' file with its hashes, and the state folder.
pub fn folders(config_path: Option<&Path>, config: &Config) -> Vec<Folder> {
    let of = |what, path: &Path, mode_not, must_be_writable| Folder {
        what,
        path: path.display().to_string(),
        mode: std::fs::metadata(path).ok().map(|found| found.permissions().mode() & 0o7777),
        mode_not,
        is_writable: access(path, Access::WRITE_OK).is_ok(),
        must_be_writable,
    };
    let mut folders: Vec<Folder> =
        config_path.map(|path| of("configuration", path, 0o022, false)).into_iter().collect();
    folders.push(of("users", &config.users, 0o077, false));
    // A user with write access could plant state that the server trusts.
    folders.push(of("state", config.state_folder(), 0o022, true));
    folders
}

/// The file system of a share; none if its directory is missing, which `check` reports.
pub fn file_system(share: &ShareConfig) -> Option<FileSystem> {
    let path = share.path.canonicalize().ok().filter(|path| path.is_dir())?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let (mounted_at, kind, options) = mount_of(&mounts, &path.to_string_lossy())?;
    let numbers = statvfs(&path).ok();
    let writable = (!share.read_only).then(|| access(&path, Access::WRITE_OK).is_ok());
    let file = unnamed(&path);
    let xattrs = file.as_ref().map(takes_user_xattrs);
    let directory = openat(CWD, &path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok();
    Some(FileSystem {
        share: share.name.clone(),
        path: path.display().to_string(),
        kind,
        mounted_at,
        options,
        writable,
        user_xattrs: xattrs,
        acls: directory.as_ref().map(takes_access_lists),
        reflinks: file.as_ref().and_then(|file| Some(shares_blocks(file, &unnamed(&path)?))),
        folds_case: directory.as_ref().and_then(folds_case),
        long_streams: StreamInventory::of(&path).map(long_streams),
        bytes: numbers.as_ref().map(|of| {
            (of.f_blocks.saturating_mul(of.f_frsize), of.f_bavail.saturating_mul(of.f_frsize))
        }),
        inodes: numbers.as_ref().map(|of| (of.f_files, of.f_favail)),
    })
}

fn long_streams(found: StreamInventory) -> LongStreams {
    let StreamInventory { files, bytes, orphans, orphan_bytes, unclaimed, is_open_to_others } =
        found;
    LongStreams { files, bytes, orphans, orphan_bytes, unclaimed, is_open_to_others }
}

/// A file without a name: nobody sees it, and it is gone when it is closed.
fn unnamed(folder: &Path) -> Option<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR).ok()
}

fn takes_user_xattrs(file: &OwnedFd) -> bool {
    fsetxattr(file, "user.anabranch.doctor", b"1", XattrFlags::empty()).is_ok()
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
    fn a_path_is_on_the_longest_mount_above_it() {
        let mounts = "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
                      2 1 8:2 / /srv rw,noatime shared:1 - xfs /dev/sdb rw,usrquota\n\
                      3 1 8:3 / /srv/a\\040b ro - btrfs /dev/sdc ro\nnonsense\n";
        let of = |path| mount_of(mounts, path).map(|(place, kind, _)| (place, kind));
        let pair = |place: &str, kind: &str| Some((place.to_owned(), kind.to_owned()));
        assert_eq!(of("/srv/data"), pair("/srv", "xfs"));
        assert_eq!(of("/srv"), pair("/srv", "xfs"));
        assert_eq!(of("/srvother"), pair("/", "ext4"));
        assert_eq!(of("/srv/a b/c"), pair("/srv/a b", "btrfs"));
        let (_, _, options) = mount_of(mounts, "/srv").expect("one");
        assert_eq!(options, ["rw", "noatime", "rw", "usrquota"]);
    }

    #[test]
    fn trying_a_directory_leaves_nothing_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::empty();
        let share = config.add_share("a", folder.path()).expect("a share");
        let found = file_system(share).expect("it is somewhere");
        assert_eq!(found.writable, Some(true));
        assert!(found.bytes.is_some_and(|(all, free)| all >= free), "{found:?}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }
}
