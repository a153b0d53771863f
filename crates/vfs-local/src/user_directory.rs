//! A user's own directory, as the root of a tree: found, and created if that is configured.
//!
//! Part of the path depends on the user, and the user may own directories in it. So the server follows
//! symbolic links in the fixed part only, which is the administrator's. The opened directory itself
//! is served, whatever stands at its path later.

use crate::errors::refusal;
use crate::identity::as_server;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use vfs::{FileKey, FsError, ServerWork};

/// Attempts when a concurrent rename disturbs a look-up (EAGAIN of RESOLVE_BENEATH).
const TRIES_MAX: u32 = 16;
/// Permission bits of a new directory: its owner's only.
const NEW_MODE: Mode = Mode::RWXU;
/// Prefix of a new directory's temporary name.
const NEW_PREFIX: &str = ".anabranch-new-";
/// Permission bits for others to create and remove names.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Only an owner may remove or rename names.
const STICKY: u32 = 0o1000;

/// An open directory that is to be served.
#[derive(Debug)]
pub struct UserDirectory {
    fd: OwnedFd,
    key: FileKey,
    uid: u32,
}

/// The owner of a new directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOwner {
    /// The user.
    pub uid: u32,
    /// The user's primary group.
    pub gid: u32,
}

/// The reason for which a user's directory cannot be found or created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserDirectoryError {
    /// It exists already.
    Exists,
    /// A symbolic link, or something else than a directory, stands in the part of the path that
    /// depends on the user.
    Link,
    /// A directory of the path does not exist.
    Missing,
    /// A path's component is no directory.
    NotDirectory,
    /// Others than the server may change names in the parent directory of a new one.
    SharedParent,
    /// The file system refused.
    Refused(FsError),
}

impl UserDirectory {
    /// Opens the directory `below` a fixed directory `base`. Symbolic links are followed in `base`
    /// only. May block on a disk.
    ///
    /// # Errors
    /// [`UserDirectoryError`].
    pub fn find(base: &Path, below: &Path) -> Result<Self, UserDirectoryError> {
        as_user_directory(|| {
            let base = open_base(base)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let fd = open_below(&base, below, flags)?;
            let stat = rustix::fs::fstat(&fd)?;
            let key = FileKey { device: stat.st_dev, inode: stat.st_ino };
            Ok(Self { fd, key, uid: stat.st_uid })
        })
    }

    /// Creates the directory `below` a fixed directory `base`, for its owner only. Its parent must
    /// exist, and nobody but the server may change the parent's names: the new directory could
    /// otherwise be exchanged before its owner is set.
    ///
    /// # Errors
    /// [`UserDirectoryError`]; [`UserDirectoryError::Exists`] if the name exists.
    pub fn create(base: &Path, below: &Path, owner: NewOwner) -> Result<(), UserDirectoryError> {
        let name = below.file_name().ok_or(UserDirectoryError::Missing)?;
        let parent = as_user_directory(|| {
            let base = open_base(base)?;
            let above = below.parent().filter(|above| !above.as_os_str().is_empty());
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            open_below(&base, above.unwrap_or(Path::new(".")), flags)
        })?;
        let stat = rustix::fs::fstat(&parent).map_err(error_of)?;
        if !is_servers_own(&stat) {
            return Err(UserDirectoryError::SharedParent);
        }
        let name = name.as_encoded_bytes();
        as_user_directory(|| Ok(create_in(&parent, name, owner, rename_to_absent)))?
    }

    /// Identity of the directory, which no other one has while this is open.
    #[must_use]
    pub fn key(&self) -> FileKey {
        self.key
    }

    /// Its owner.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.uid
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

/// Makes the directory complete before it gets its name.
fn create_in(
    parent: &OwnedFd,
    name: &[u8],
    owner: NewOwner,
    rename: RenameToAbsent,
) -> Result<(), UserDirectoryError> {
    let new = make_temporary(parent)?;
    let prepared =
        prepare(parent, new.as_bytes(), owner).and_then(|()| rename(parent, new.as_bytes(), name));
    if prepared.is_err() {
        let _ = rustix::fs::unlinkat(parent, &new, AtFlags::REMOVEDIR);
    }
    match prepared {
        // NFS and some FUSE file systems cannot rename without replacing.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => make_named(parent, name, owner)?,
        other => other.map_err(error_of)?,
    }
    rustix::fs::fsync(parent).map_err(error_of)
}

/// Gives a new directory its mode and its owner.
fn prepare(parent: &OwnedFd, name: &[u8], owner: NewOwner) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let fd = open_below(parent, Path::new(OsStr::from_bytes(name)), flags)?;
    // A default access list of the parent may have changed the mode.
    rustix::fs::fchmod(&fd, NEW_MODE)?;
    let stat = rustix::fs::fstat(&fd)?;
    if (stat.st_uid, stat.st_gid) != (owner.uid, owner.gid) {
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        rustix::fs::fchown(&fd, Some(uid), Some(gid))?;
    }
    rustix::fs::fsync(&fd)
}

/// Renames a directory to a name that does not exist, or fails with EEXIST.
type RenameToAbsent = fn(&OwnedFd, &[u8], &[u8]) -> rustix::io::Result<()>;

fn rename_to_absent(parent: &OwnedFd, from: &[u8], to: &[u8]) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE)
}

/// Creates a directory with a name that no other user can expect. Names that exist are those of
/// other servers, and not the user's.
fn make_temporary(parent: &OwnedFd) -> Result<String, UserDirectoryError> {
    for _ in 0..TRIES_MAX {
        // The keys of the standard library's hashes are random.
        let random = || RandomState::new().build_hasher().finish();
        let new = format!("{NEW_PREFIX}{:016x}{:016x}", random(), random());
        match rustix::fs::mkdirat(parent, &new, NEW_MODE) {
            Ok(()) => return Ok(new),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(error_of(errno)),
        }
    }
    Err(error_of(Errno::BUSY))
}

/// Creates the directory with its name at once, where that cannot be given later. A crash before it
/// has its owner leaves an empty directory of the server's.
fn make_named(parent: &OwnedFd, name: &[u8], owner: NewOwner) -> Result<(), UserDirectoryError> {
    rustix::fs::mkdirat(parent, name, NEW_MODE).map_err(error_of)?;
    prepare(parent, name, owner).map_err(|errno| {
        let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        error_of(errno)
    })
}

/// Whether nobody but this process's user may exchange names of that user.
fn is_servers_own(stat: &Stat) -> bool {
    let is_sticky = stat.st_mode & STICKY != 0;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
    is_own && (is_sticky || stat.st_mode & WRITABLE_BY_OTHERS == 0)
}

fn open_base(base: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, base, flags, Mode::empty())
}

fn open_below(base: &OwnedFd, below: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        let flags = flags | OFlags::CLOEXEC;
        match rustix::fs::openat2(base.as_fd(), below, flags, Mode::empty(), resolve) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if tries < TRIES_MAX => tries += 1,
            result => return result,
        }
    }
}

/// Runs calls with the server's rights.
fn as_user_directory<T>(
    call: impl FnOnce() -> rustix::io::Result<T>,
) -> Result<T, UserDirectoryError> {
    let result = as_server(ServerWork::UserDirectory, || Ok(call()));
    result.map_err(UserDirectoryError::Refused)?.map_err(error_of)
}

fn error_of(errno: Errno) -> UserDirectoryError {
    match errno {
        Errno::EXIST => UserDirectoryError::Exists,
        Errno::LOOP | Errno::XDEV => UserDirectoryError::Link,
        Errno::NOENT => UserDirectoryError::Missing,
        Errno::NOTDIR => UserDirectoryError::NotDirectory,
        other => UserDirectoryError::Refused(refusal("open a user's directory", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn find(base: &Path, below: &str) -> Result<u64, UserDirectoryError> {
        UserDirectory::find(base, Path::new(below)).map(|found| found.key().inode)
    }

    fn own() -> NewOwner {
        NewOwner {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    #[test]
    fn links_are_followed_in_the_fixed_part_only() {
        let folder = tempfile::tempdir().unwrap();
        let homes = folder.path().join("homes");
        fs::create_dir_all(homes.join("alice/files")).unwrap();
        fs::create_dir_all(folder.path().join("secret")).unwrap();
        symlink(&homes, folder.path().join("link")).unwrap();
        symlink("../../secret", homes.join("alice/relative")).unwrap();
        symlink(folder.path().join("secret"), homes.join("alice/absolute")).unwrap();
        symlink("files", homes.join("alice/inside")).unwrap();
        symlink("alice", homes.join("bob")).unwrap();
        fs::write(homes.join("alice/file"), "").unwrap();
        let inode = homes.join("alice/files").metadata().unwrap().ino();
        for base in ["homes", "link"] {
            assert_eq!(find(&folder.path().join(base), "alice/files"), Ok(inode), "{base}");
        }
        for below in ["alice/relative", "alice/absolute", "alice/inside", "bob", "bob/files"] {
            let refused = find(&homes, below).unwrap_err();
            // With O_DIRECTORY the kernel reports a link at the end of the path either way.
            let is_link =
                matches!(refused, UserDirectoryError::Link | UserDirectoryError::NotDirectory);
            assert!(is_link, "{below}: {refused:?}");
        }
        assert_eq!(find(&homes, "alice/file"), Err(UserDirectoryError::NotDirectory));
        assert_eq!(find(&homes, "carol"), Err(UserDirectoryError::Missing));
        assert_eq!(find(&homes, "../secret"), Err(UserDirectoryError::Link));
    }

    #[test]
    fn opened_directory_is_served_whatever_replaces_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("alice");
        fs::create_dir(&home).unwrap();
        let first = UserDirectory::find(folder.path(), Path::new("alice")).unwrap();
        fs::rename(&home, folder.path().join("old")).unwrap();
        fs::create_dir(&home).unwrap();
        let second = UserDirectory::find(folder.path(), Path::new("alice")).unwrap();
        assert_ne!(first.key(), second.key());
        assert_eq!(first.key().inode, folder.path().join("old").metadata().unwrap().ino());
        assert_eq!(second.owner(), own().uid);
    }

    #[test]
    fn new_directory_is_private_and_needs_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let create = |below| UserDirectory::create(folder.path(), Path::new(below), own());
        assert_eq!(create("alice"), Ok(()));
        assert_eq!(folder.path().join("alice").metadata().unwrap().mode() & 0o7777, 0o700);
        assert_eq!(create("alice"), Err(UserDirectoryError::Exists));
        assert_eq!(create("none/alice"), Err(UserDirectoryError::Missing));
        symlink("elsewhere", folder.path().join("bob")).unwrap();
        assert_eq!(create("bob"), Err(UserDirectoryError::Exists));
        symlink("alice", folder.path().join("link")).unwrap();
        assert!(create("link/sub").is_err());
        assert!(!folder.path().join("alice/sub").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else remains");
    }

    #[test]
    fn new_directory_is_refused_where_others_may_exchange_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("open");
        fs::create_dir(&at).unwrap();
        let create = |mode| {
            fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
            let created = UserDirectory::create(folder.path(), Path::new("open/alice"), own());
            let _ = fs::remove_dir(at.join("alice"));
            created
        };
        assert_eq!(create(0o777), Err(UserDirectoryError::SharedParent));
        assert_eq!(create(0o775), Err(UserDirectoryError::SharedParent));
        assert_eq!(create(0o1777), Ok(()));
        assert_eq!(create(0o755), Ok(()));
    }

    #[test]
    fn new_directory_replaces_none_where_renames_would() {
        let folder = tempfile::tempdir().unwrap();
        let parent = open_below(&open_base(folder.path()).unwrap(), Path::new("."), OFlags::RDONLY);
        let parent = parent.unwrap();
        let create = |name: &str, rename| create_in(&parent, name.as_bytes(), own(), rename);
        let cannot: RenameToAbsent = |_, _, _| Err(Errno::INVAL);
        assert_eq!(create("alice", cannot), Ok(()));
        assert_eq!(folder.path().join("alice").metadata().unwrap().mode() & 0o7777, 0o700);
        fs::create_dir(folder.path().join("bob")).unwrap();
        fs::write(folder.path().join("bob/file"), "").unwrap();
        for name in ["alice", "bob"] {
            assert_eq!(create(name, cannot), Err(UserDirectoryError::Exists));
            assert_eq!(create(name, rename_to_absent), Err(UserDirectoryError::Exists));
        }
        assert!(folder.path().join("bob/file").exists());
        let full: RenameToAbsent = |_, _, _| Err(Errno::NOSPC);
        assert!(matches!(create("carol", full), Err(UserDirectoryError::Refused(_))));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary name remains");
    }

    #[test]
    fn temporary_names_are_never_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let parent = open_base(folder.path()).unwrap();
        let names: Vec<_> = (0..3).map(|_| make_temporary(&parent).unwrap()).collect();
        let is_long = |name: &String| name.len() == NEW_PREFIX.len() + 32;
        assert!(names[0] != names[1] && names[1] != names[2] && names.iter().all(is_long));
    }
}
