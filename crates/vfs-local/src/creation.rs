//! Creation of files and directories with their complete initial attributes.
//!
//! A file with more than a name and a mode is created without a name (`O_TMPFILE`), initialised,
//! and then linked. After a power failure, and for other users, it is complete or absent. open(2).
//!
//! Directories, and files on some file systems, cannot be created without a name. If a security
//! descriptor replaces the mode, the node is accessible to its creator only until the descriptor is
//! stored.

use crate::attribute_calls;
use crate::children;
use crate::errors::{refusal, refusal_of_name};
use crate::identity::as_server;
use crate::local_node::LocalNode;
use crate::umask::create_with;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::sync::Arc;
use vfs::{
    AttributeRequest, Attributes, CreateHow, CreationMode, ExpectedChild, FileKind, FsError,
    Initialisation, OpenedNode, RelPath, Result, ServerWork,
};

/// Mode bits of the owner.
const OWNER_BITS: u32 = 0o700;

/// A name to create.
#[derive(Clone, Copy, Debug)]
pub struct NewName<'a> {
    /// The parent directory.
    pub parent: BorrowedFd<'a>,
    /// The name in it.
    pub name: &'a vfs::Name,
    /// The path that ends in this name.
    pub path: &'a RelPath,
}

/// Creates a file or directory exclusively, with the thread's current credentials.
///
/// # Errors
/// As [`vfs::Vfs::create`].
pub fn create(at: &NewName<'_>, how: &CreateHow<'_>) -> Result<OpenedNode> {
    let has_more = how.initialiser.is_some() || how.dos.is_some();
    if how.kind == FileKind::File
        && has_more
        && let Some(opened) = create_nameless(at, how)?
    {
        return Ok(opened);
    }
    let replaces_mode = how.initialiser.is_some_and(|one| one.replaces_mode());
    let restricted = if replaces_mode { how.mode.limited_to(OWNER_BITS) } else { how.mode };
    match create_named(at, how, restricted)? {
        (_, Initialisation::WithoutDescriptor) if restricted != how.mode => {
            // The mode is complete, except for the directory's default ACL, which only a creation
            // applies.
            Ok(create_named(at, how, how.mode)?.0)
        }
        (opened, _) => Ok(opened),
    }
}

/// Creates a complete file and links it. `None` if the file system does not support that, or cannot
/// store a descriptor.
fn create_nameless(at: &NewName<'_>, how: &CreateHow<'_>) -> Result<Option<OpenedNode>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let open = |mode| rustix::fs::openat(at.parent, c".", flags, mode);
    let fd = match create_with(how.mode, open) {
        // Kernels and file systems without O_TMPFILE treat the call as an open of a directory, or
        // reject the flag.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::ISDIR | Errno::INVAL) => return Ok(None),
        other => other.map_err(|e| refusal("create", e))?,
    };
    if let Some(dos) = how.dos {
        attribute_calls::store_new_dos(fd.as_fd(), false, &dos)?;
    }
    let (node, attributes) = LocalNode::new(fd, false, true, AttributeRequest::default())?;
    let nameless = OpenedNode { node: Arc::new(node), attributes, path: at.path.clone() };
    if let Some(initialiser) = how.initialiser
        && initialiser.initialise(&nameless)? == Initialisation::WithoutDescriptor
        && initialiser.replaces_mode()
    {
        return Ok(None);
    }
    let linked = LocalNode::of(&*nameless.node).map(LocalNode::proc_path).unwrap_or_default();
    match rustix::fs::linkat(CWD, linked, at.parent, at.name.as_bytes(), AtFlags::SYMLINK_FOLLOW) {
        Ok(()) => open_linked(at, how, nameless).map(Some),
        // The file system has no hard links, has foreign owners, or /proc is not mounted.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::XDEV | Errno::NOENT) => Ok(None),
        Err(errno) => Err(refusal_of_name("create", errno)),
    }
}

/// Opens a linked file by its name. The kernel associates no name with the O_TMPFILE descriptor: it
/// would report changes without a directory, and could not tell the path.
fn open_linked(at: &NewName<'_>, how: &CreateHow<'_>, nameless: OpenedNode) -> Result<OpenedNode> {
    let flags =
        OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(at.parent, at.name.as_bytes(), flags, Mode::empty());
    let opened = match open() {
        // The creator's open succeeds regardless of the file's permissions.
        Err(Errno::ACCESS) => {
            as_server(ServerWork::OpenChecked, || open().map_err(|e| refusal("create", e)))
        }
        other => other.map_err(|e| refusal("create", e)),
    };
    if let Ok(fd) = opened
        && let Ok((node, attributes)) = LocalNode::new(fd, false, true, how.wanted)
        && attributes.key == nameless.attributes.key
    {
        let node = Arc::new(node.opened_by(at.path));
        return Ok(OpenedNode { node, attributes, path: nameless.path });
    }
    // The name was removed meanwhile.
    let attributes = nameless.node.attributes(how.wanted)?;
    Ok(OpenedNode { attributes, ..nameless })
}

/// Creates a file or directory that is visible before it is complete, possibly with a narrower mode
/// than requested. It is removed again if its initialisation fails.
fn create_named(
    at: &NewName<'_>,
    how: &CreateHow<'_>,
    mode: CreationMode,
) -> Result<(OpenedNode, Initialisation)> {
    let (fd, path_only) = open_new(at, how.kind, mode)?;
    let is_initialised = how.initialiser.is_some();
    let is_looked_at = how.kind == FileKind::Directory && (how.dos.is_some() || is_initialised);
    if is_looked_at {
        let wanted = AttributeRequest::default();
        let found = attribute_calls::stat(fd.as_fd(), c"", wanted, path_only)?;
        children::check_new(fd.as_fd(), &found)?;
    }
    if let Some(dos) = how.dos {
        attribute_calls::store_new_dos(fd.as_fd(), path_only, &dos)?;
    }
    let (node, attributes) = LocalNode::new(fd, path_only, true, how.wanted)?;
    if how.kind == FileKind::Directory && !is_looked_at {
        children::check_new(node.as_fd(), &attributes)?;
    }
    let node = node.opened_by(at.path);
    let opened = OpenedNode { node: Arc::new(node), attributes, path: at.path.clone() };
    let Some(initialiser) = how.initialiser else { return Ok((opened, Initialisation::Complete)) };
    // The stored descriptor follows from the requested mode.
    let mode_bits = opened.attributes.mode | how.mode.without_list() & 0o777;
    let shown = Attributes { mode: mode_bits, ..opened.attributes };
    let initialised = initialiser.initialise(&OpenedNode { attributes: shown, ..opened.clone() });
    let stays = match initialised {
        Ok(Initialisation::WithoutDescriptor) => mode == how.mode,
        Ok(Initialisation::Complete) => true,
        Err(_) => false,
    };
    if !stays {
        let expected = ExpectedChild { key: opened.attributes.key, is_file_as_seen: false };
        let removed = children::unlink(at.parent, at.name, expected);
        return initialised.and_then(|outcome| removed.map(|()| (opened, outcome)));
    }
    let attributes = opened.node.attributes(how.wanted)?;
    Ok((OpenedNode { attributes, ..opened }, initialised?))
}

/// Creates the name. The flag is true if the descriptor is O_PATH.
fn open_new(at: &NewName<'_>, kind: FileKind, mode: CreationMode) -> Result<(OwnedFd, bool)> {
    match kind {
        FileKind::File => {
            let flags =
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = |mode| rustix::fs::openat(at.parent, at.name.as_bytes(), flags, mode);
            Ok((create_with(mode, open).map_err(|e| refusal("create", e))?, false))
        }
        FileKind::Directory => children::make_directory(at.parent, at.name, mode),
        _ => Err(FsError::NotSupported),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use sync::Mutex;
    use vfs::{Actor, OwnerChange, PosixAcl};
    use vfs::{DosInfo, Name, NodeInitialiser, SecurityChange};

    const DESCRIPTOR: [u8; 20] = [1, 0, 4, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const PERMISSIONS: PosixAcl =
        PosixAcl { owner: 6, group: 6, others: 4, mask: None, named: Vec::new() };

    /// Stores a descriptor, and records the visible state of the node meanwhile.
    #[derive(Debug)]
    struct RecordingInitialiser<'a> {
        folder: &'a Path,
        outcome: Result<Initialisation>,
        /// Number of names in the folder, and the mode of the node.
        found: Mutex<Vec<(usize, u32)>>,
    }

    impl NodeInitialiser for RecordingInitialiser<'_> {
        fn replaces_mode(&self) -> bool {
            true
        }

        fn initialise(&self, new: &OpenedNode) -> Result<Initialisation> {
            let names = std::fs::read_dir(self.folder).unwrap().count();
            let mode = new.node.attributes(AttributeRequest::default())?.mode;
            assert_eq!(new.attributes.mode, 0o664, "what is stored follows from it");
            self.found.lock().push((names, mode));
            if self.outcome != Ok(Initialisation::Complete) {
                return self.outcome;
            }
            let change = SecurityChange {
                descriptor: Some(&DESCRIPTOR),
                owner: OwnerChange::default(),
                permissions: Some(&PERMISSIONS),
            };
            match new.node.set_security(Actor::SUPERUSER, &change) {
                Err(FsError::NotSupported) => Ok(Initialisation::WithoutDescriptor),
                other => other.map(|()| Initialisation::Complete),
            }
        }
    }

    struct Fixture {
        folder: tempfile::TempDir,
        parent: std::fs::File,
        name: Name,
        path: RelPath,
    }

    impl Fixture {
        fn new() -> Self {
            rustix::process::umask(Mode::empty());
            let folder = tempfile::tempdir().unwrap();
            let parent = std::fs::File::open(folder.path()).unwrap();
            let name = Name::new(*b"new").unwrap();
            Self { folder, parent, path: RelPath::root().join(&name), name }
        }

        fn at(&self) -> NewName<'_> {
            NewName { parent: self.parent.as_fd(), name: &self.name, path: &self.path }
        }

        fn watching(&self, outcome: Result<Initialisation>) -> RecordingInitialiser<'_> {
            RecordingInitialiser { folder: self.folder.path(), outcome, found: Mutex::default() }
        }

        fn names(&self) -> usize {
            std::fs::read_dir(self.folder.path()).unwrap().count()
        }
    }

    fn how<'a>(kind: FileKind, initialiser: &'a RecordingInitialiser<'_>) -> CreateHow<'a> {
        let dos = Some(DosInfo { bits: Some(2), created: None });
        let wanted = AttributeRequest { dos: Some(vfs::ServerWork::Metadata) };
        CreateHow {
            kind,
            mode: CreationMode::exactly(0o664),
            dos,
            wanted,
            initialiser: Some(initialiser),
        }
    }

    #[test]
    fn file_with_descriptor_is_nameless_until_complete() {
        let fixture = Fixture::new();
        let watching = fixture.watching(Ok(Initialisation::Complete));
        let how = how(FileKind::File, &watching);
        let Some(opened) = create_nameless(&fixture.at(), &how).unwrap() else {
            eprintln!("skipped: no files without a name, or no descriptors here");
            return;
        };
        assert_eq!(*watching.found.lock(), [(0, 0o664)]);
        assert_eq!(opened.attributes.links, 1);
        assert!(opened.attributes.stored.descriptor);
        assert_eq!(opened.attributes.dos.bits, Some(2));
        assert_eq!(opened.node.security_descriptor().unwrap().as_deref(), Some(&DESCRIPTOR[..]));
        let node = LocalNode::of(&*opened.node).unwrap();
        let path = std::fs::read_link(node.proc_path()).unwrap();
        assert_eq!(path, fixture.folder.path().join("new"), "the kernel knows its name");
        opened.node.write(Actor::SUPERUSER, 0, b"data").unwrap();
        let again = create_nameless(&fixture.at(), &how).map(|_| ());
        assert_eq!(again, Err(FsError::AlreadyExists));
        assert_eq!(std::fs::read(fixture.folder.path().join("new")).unwrap(), b"data");
    }

    #[test]
    fn file_whose_initialisation_fails_is_not_created() {
        let fixture = Fixture::new();
        for kind in [FileKind::File, FileKind::Directory] {
            let watching = fixture.watching(Err(FsError::NoSpace));
            let created = create(&fixture.at(), &how(kind, &watching)).map(|_| ());
            assert_eq!(created, Err(FsError::NoSpace));
            assert_eq!(fixture.names(), 0);
            let named =
                create_named(&fixture.at(), &how(kind, &watching), CreationMode::exactly(0o600))
                    .map(|_| ());
            assert_eq!(named, Err(FsError::NoSpace));
            assert_eq!(fixture.names(), 0);
        }
    }

    #[test]
    fn named_node_is_private_until_complete() {
        for kind in [FileKind::File, FileKind::Directory] {
            let fixture = Fixture::new();
            let watching = fixture.watching(Ok(Initialisation::Complete));
            let (opened, initialised) =
                create_named(&fixture.at(), &how(kind, &watching), CreationMode::exactly(0o600))
                    .unwrap();
            assert_eq!(*watching.found.lock(), [(1, 0o600)]);
            if initialised == Initialisation::Complete {
                assert_eq!(opened.attributes.mode, 0o664);
                assert!(opened.attributes.stored.descriptor);
            }
        }
    }

    #[test]
    fn node_without_descriptor_has_the_requested_mode() {
        for kind in [FileKind::File, FileKind::Directory] {
            let fixture = Fixture::new();
            let watching = fixture.watching(Ok(Initialisation::WithoutDescriptor));
            let opened = create(&fixture.at(), &how(kind, &watching)).unwrap();
            assert_eq!(opened.attributes.mode, 0o664);
            // btrfs counts a directory's link once.
            assert!((1..=2).contains(&opened.attributes.links));
            assert_eq!(fixture.names(), 1);
        }
    }
}
