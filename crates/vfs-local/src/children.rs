//! Operations on names in open directories. No path is resolved here, and no link followed.
//!
//! Linux removes and replaces by name, not by node. Another user may give the name to another node
//! of the same directory between the check of the name and the operation. A free name is taken
//! atomically.
//!
//! A caller that may remove any child of the directory (by POSIX or by DELETE_CHILD) gains nothing
//! from this race, because it may remove the other node, too. A caller with DELETE on the expected
//! node alone needs another user to win the race within microseconds. The other node then loses its
//! name, but the caller gets no right to it, and nothing outside the directory is affected.

use crate::errors::{refusal, refusal_of_name};
use crate::identity::as_server;
use crate::local_node::LocalNode;
use crate::resolve::{Root, open_beneath};
use crate::stream_store::{LosingHost, reserved};
use crate::umask::create_with;
use crate::unreported_change::UnreportedChange;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags, Stat};
use rustix::io::Errno;
use std::sync::Arc;
use vfs::{
    AttributeRequest, Attributes, ChildName, ChildRename, CreationMode, ExpectedChild, FileKey,
    FsError, Name, NewChild, OpenedNode, RelPath, Replace, Result, ServerWork, SpecialKind, Wait,
};

/// Buffer for some entries of a directory that is expected to be empty.
const LIST_BYTES: usize = 1024;

/// A name and its directory.
type ParentAndName<'a> = (BorrowedFd<'a>, &'a Name);

/// Returns the descriptor of the directory, and the name.
///
/// # Errors
/// [`FsError::AccessDenied`] for the name of a stream store, which clients neither create
/// nor remove.
pub fn of(child: ChildName<'_>) -> Result<(BorrowedFd<'_>, Name)> {
    let directory = LocalNode::of(child.directory).ok_or(FsError::NotSupported)?;
    let name = child.name()?;
    check_name(&name)?;
    Ok((directory.as_fd(), name))
}

/// See [`of`].
pub fn check_name(name: &Name) -> Result<()> {
    match reserved::is_store_name(name.as_bytes()) {
        true => Err(FsError::AccessDenied),
        false => Ok(()),
    }
}

fn look((parent, name): ParentAndName<'_>) -> rustix::io::Result<Stat> {
    rustix::fs::statat(parent, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)
}

fn key_of(stat: &Stat) -> FileKey {
    FileKey { device: stat.st_dev, inode: stat.st_ino }
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Removes a name if it refers to `expected`.
pub fn unlink(parent: BorrowedFd<'_>, name: &Name, expected: ExpectedChild) -> Result<()> {
    let mut flags = AtFlags::empty();
    if !expected.is_file_as_seen {
        let stat = look((parent, name)).map_err(|e| refusal("remove", e))?;
        if key_of(&stat) != expected.key {
            return Err(FsError::NotFound);
        }
        flags.set(AtFlags::REMOVEDIR, is_directory(&stat));
    }
    let host = LosingHost::at(parent, name, Some(expected.key));
    rustix::fs::unlinkat(parent, name.as_bytes(), flags).map_err(|e| refusal("remove", e))?;
    host.into_iter().for_each(LosingHost::has_lost);
    Ok(())
}

/// Adds a hard link to a node.
pub fn link(node: &LocalNode, (parent, name): ParentAndName<'_>) -> rustix::io::Result<()> {
    // The kernel notifies the new name's directory only, not those of the other names.
    let _change = UnreportedChange::begin();
    let (from, follow) = (node.proc_path(), AtFlags::SYMLINK_FOLLOW);
    rustix::fs::linkat(rustix::fs::CWD, from, parent, name.as_bytes(), follow)
}

/// Renames; `is_same` is true if both names are equal except for case.
pub fn rename(
    from: ParentAndName<'_>,
    to: ParentAndName<'_>,
    replace: Replace,
    is_same: bool,
) -> Result<()> {
    let flags =
        if replace == Replace::Never { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
    // POSIX lets a directory replace an empty one.
    if replace == Replace::File && !is_same && look(to).is_ok_and(|stat| is_directory(&stat)) {
        return Err(FsError::IsDirectory);
    }
    rename_at(from, to, flags, replace)
}

/// Renames the expected node, and replaces the expected target only.
pub fn rename_expected(change: &ChildRename<'_>) -> Result<()> {
    let (from_parent, from_name) = of(change.from)?;
    let (to_parent, to_name) = of(change.to)?;
    let (from, to) = ((from_parent, &from_name), (to_parent, &to_name));
    if key_of(&look(from).map_err(|e| refusal("rename", e))?) != change.moved {
        return Err(FsError::NotFound);
    }
    if change.replace == Replace::Never {
        // RENAME_NOREPLACE refuses an existing name.
        return rename_at(from, to, RenameFlags::NOREPLACE, Replace::Never);
    }
    match look(to) {
        // The name appeared meanwhile, so it is not replaced.
        Err(Errno::NOENT) => rename_at(from, to, RenameFlags::NOREPLACE, Replace::Never),
        Err(errno) => Err(refusal("rename", errno)),
        Ok(stat) if change.replaced != Some(key_of(&stat)) => Err(FsError::AlreadyExists),
        Ok(stat) => {
            let is_same = key_of(&stat) == change.moved;
            if change.replace == Replace::File && is_directory(&stat) && !is_same {
                return Err(FsError::IsDirectory);
            }
            rename_at(from, to, RenameFlags::empty(), change.replace)
        }
    }
}

fn rename_at(
    from: ParentAndName<'_>,
    to: ParentAndName<'_>,
    flags: RenameFlags,
    replace: Replace,
) -> Result<()> {
    let may_replace = replace != Replace::Never;
    let replaced = may_replace.then(|| LosingHost::at(to.0, to.1, None)).flatten();
    rustix::fs::renameat_with(from.0, from.1.as_bytes(), to.0, to.1.as_bytes(), flags).map_err(
        |e| match e {
            Errno::NOTDIR if replace == Replace::Any => FsError::NotDirectory,
            Errno::NOTEMPTY if replace == Replace::Any => FsError::NotEmpty,
            // A move into itself, or over a node that it cannot replace.
            Errno::INVAL | Errno::NOTDIR | Errno::NOTEMPTY => FsError::AccessDenied,
            other => refusal_of_name("rename", other),
        },
    )?;
    replaced.into_iter().for_each(LosingHost::has_lost);
    Ok(())
}

/// Creates a directory and opens it. If its mode keeps its creator from reading it, the descriptor
/// is O_PATH.
pub fn make_directory(
    parent: BorrowedFd<'_>,
    name: &Name,
    mode: CreationMode,
) -> Result<(OwnedFd, bool)> {
    create_with(mode, |mode| rustix::fs::mkdirat(parent, name.as_bytes(), mode))
        .map_err(|e| refusal("mkdir", e))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let beneath = Root { fd: parent, stops_at_links: true };
    let open = |flags| open_beneath(beneath, name.as_bytes(), flags, Mode::empty(), Wait::Allowed);
    match open(flags) {
        Err(Errno::ACCESS) => open(flags | OFlags::PATH).map(|fd| (fd, true)),
        other => other.map(|fd| (fd, false)),
    }
    .map_err(|e| refusal("open new directory", e))
}

/// Refuses a directory other than the one just created. Linux creates and opens it in two calls,
/// and another user may replace it in between. The caller would receive an open handle to that
/// directory, and the server would store the caller's ACL on it.
///
/// A rename moves the change time, but not the creation time. Initialisation such as an inherited
/// ACL may move the change time, too. In that case an empty directory is accepted: a user who could
/// put an empty directory there could also remove this one and create another.
///
/// # Errors
/// [`FsError::NotFound`].
pub fn check_new(directory: BorrowedFd<'_>, attributes: &Attributes) -> Result<()> {
    if attributes.born == Some(attributes.changed) {
        return Ok(());
    }
    match as_server(ServerWork::Metadata, || is_empty(directory))? {
        true => Ok(()),
        false => Err(FsError::NotFound),
    }
}

fn is_empty(directory: BorrowedFd<'_>) -> Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let list = rustix::fs::openat(directory, c".", flags, Mode::empty())
        .map_err(|e| refusal("open new directory", e))?;
    let mut buffer = [std::mem::MaybeUninit::uninit(); LIST_BYTES];
    let mut entries = RawDir::new(list, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(|e| refusal("list new directory", e))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates a symbolic link, pipe, socket or device at this path, and opens it with O_PATH.
pub fn make_other(
    parent: BorrowedFd<'_>,
    (path, name): (&RelPath, &Name),
    new: NewChild<'_>,
    may_make_devices: bool,
) -> Result<OpenedNode> {
    match new {
        NewChild::Symlink(target) => rustix::fs::symlinkat(target, parent, name.as_bytes())
            .map_err(|e| refusal("symlink", e))?,
        // The kernel requires CAP_MKNOD, which no elevated call has. An unprivileged process may
        // have been given it for all of its users.
        NewChild::Special { kind: SpecialKind::Device(_), .. } if !may_make_devices => {
            return Err(FsError::AccessDenied);
        }
        NewChild::Special { kind, mode } => {
            let (kind, device) = match kind {
                SpecialKind::Fifo => (FileType::Fifo, 0),
                SpecialKind::Socket => (FileType::Socket, 0),
                SpecialKind::Device(device) => {
                    let of = if device.is_block {
                        FileType::BlockDevice
                    } else {
                        FileType::CharacterDevice
                    };
                    (of, rustix::fs::makedev(device.major, device.minor))
                }
            };
            let make = |mode| rustix::fs::mknodat(parent, name.as_bytes(), kind, mode, device);
            create_with(mode, make).map_err(|e| refusal("mknod", e))?;
        }
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(parent, name.as_bytes(), flags, Mode::empty())
        .map_err(|e| refusal("open what was made", e))?;
    let (node, attributes) = LocalNode::new(fd, true, false, AttributeRequest::default())?;
    Ok(OpenedNode { node: Arc::new(node.opened_by(path)), attributes, path: path.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use vfs::Timestamp;

    #[test]
    fn directory_swapped_for_the_new_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let parent = std::fs::File::open(folder.path()).unwrap();
        let name = Name::new(&b"d"[..]).unwrap();
        let mode = CreationMode::exactly(0o700);
        let (made, path_only) = make_directory(parent.as_fd(), &name, mode).unwrap();
        let (node, new) =
            LocalNode::new(made, path_only, true, AttributeRequest::default()).unwrap();
        assert_eq!(check_new(node.as_fd(), &new), Ok(()));
        let renamed = Attributes { born: Some(Timestamp(new.changed.0 - 1)), ..new };
        assert_eq!(check_new(node.as_fd(), &renamed), Ok(()), "it might as well be a new one");
        std::fs::write(folder.path().join("d/entry"), "").unwrap();
        assert_eq!(check_new(node.as_fd(), &renamed), Err(FsError::NotFound));
        let without_birth = Attributes { born: None, ..new };
        assert_eq!(check_new(node.as_fd(), &without_birth), Err(FsError::NotFound));
    }
}
