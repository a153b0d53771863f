//! Owner, group and POSIX access lists of files on local file systems.

use crate::error::Error;
use rustix::fs::{XattrFlags, getxattr, lgetxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

/// Extended attributes that hold the lists. acl(5).
const ACCESS_LIST: &str = "system.posix_acl_access";
const DEFAULT_LIST: &str = "system.posix_acl_default";
/// Largest extended attribute of Linux.
const LIST_BYTES_MAX: usize = 64 * 1024;

/// Gives `to` the owner, group and lists of `from`, or, if the copy follows links, of what it leads
/// to: others may own the link. Only root gives files away: the files of other
/// users' copies belong to the user who runs them.
pub(crate) fn copy(from: &Path, to: &Path, follows: bool) -> Result<(), Error> {
    let source = if follows { from.metadata()? } else { from.symlink_metadata()? };
    let target = to.symlink_metadata()?;
    let is_same = (source.uid(), source.gid()) == (target.uid(), target.gid());
    if !is_same && rustix::process::geteuid().is_root() {
        lchown(to, Some(source.uid()), Some(source.gid()))?;
    }
    copy_list(from, to, ACCESS_LIST, follows)?;
    if source.is_dir() { copy_list(from, to, DEFAULT_LIST, follows) } else { Ok(()) }
}

fn copy_list(from: &Path, to: &Path, name: &str, follows: bool) -> Result<(), Error> {
    let refused = |errno: Errno| Error::from(std::io::Error::from(errno));
    let mut list = vec![0; LIST_BYTES_MAX];
    let read = match follows {
        true => getxattr(from, name, &mut list[..]),
        false => lgetxattr(from, name, &mut list[..]),
    };
    match read {
        Ok(length) => lsetxattr(to, name, &list[..length], XattrFlags::empty()).map_err(refused),
        // The file has inherited a list from its directory, which the source's does not have.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => match lremovexattr(to, name) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(refused(errno)),
        },
        Err(errno) => Err(refused(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 2, then tag, permissions and id: rwx for the owner, r for user 7, the group, the mask
    /// and nobody else. acl(5), linux/posix_acl_xattr.h.
    fn list() -> Vec<u8> {
        let entries = [
            (1_u16, 7_u16, u32::MAX),
            (2, 4, 7),
            (4, 4, u32::MAX),
            (16, 4, u32::MAX),
            (32, 0, u32::MAX),
        ];
        let entry = |(tag, bits, id): (u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        [&2_u32.to_le_bytes()[..], &entries.map(entry).concat()].concat()
    }

    fn list_of(path: &Path) -> Option<Vec<u8>> {
        let mut found = vec![0; 1000];
        let length = lgetxattr(path, ACCESS_LIST, &mut found[..]).ok()?;
        found.truncate(length);
        Some(found)
    }

    #[test]
    fn access_list_is_copied_and_an_inherited_one_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        for path in [&one, &two] {
            std::fs::write(path, "").unwrap();
        }
        if lsetxattr(&one, ACCESS_LIST, &list(), XattrFlags::empty()).is_err() {
            return; // The file system has no access lists.
        }
        copy(&one, &two, false).unwrap();
        assert_eq!(list_of(&two), Some(list()));
        lremovexattr(&one, ACCESS_LIST).unwrap();
        copy(&one, &two, false).unwrap();
        assert_eq!(list_of(&two), None);
    }

    #[test]
    fn followed_link_gives_the_owner_and_list_of_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two, link] = ["one", "two", "link"].map(|name| folder.path().join(name));
        for path in [&one, &two] {
            std::fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(&one, &link).unwrap();
        if rustix::process::geteuid().is_root() {
            lchown(&one, Some(4321), Some(4322)).unwrap();
            lchown(&link, Some(5321), Some(5322)).unwrap();
        }
        let has_lists = lsetxattr(&one, ACCESS_LIST, &list(), XattrFlags::empty()).is_ok();
        copy(&link, &two, true).unwrap();
        let (from, to) = (one.metadata().unwrap(), two.metadata().unwrap());
        assert_eq!((to.uid(), to.gid()), (from.uid(), from.gid()));
        assert_eq!(list_of(&two), has_lists.then(list));
    }
}
