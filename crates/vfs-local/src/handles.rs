//! Persistent node handles, and the current paths of nodes.
//!
//! The kernel's own handles are used if this process may open them (CAP_DAC_READ_SEARCH) and the
//! node is on the root's mount. An opened node is verified to lie in the tree: its path as the
//! kernel reports it is walked from the root, and must lead to that very node. For a node other
//! than a directory the kernel may know no path, for example after a reboot. Then the result is
//! marked uncertain ([`LocatedNode::is_certain`]), unless the complete file system is served.
//!
//! Otherwise a bounded table holds the last known path of each node, which is walked and verified
//! in the same way. It follows renames by this process, and does not survive it.

use crate::errors::refusal;
use crate::handle_notes;
use crate::identity::{IdentityGuard, as_server};
use crate::local_node::LocalNode;
use crate::location::{kernel_path, known_path, path_below, path_of_link};
use crate::resolve::{Root, open_beneath};
use crate::stream_store::reserved;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use sync::{Mutex, MutexGuard};
use vfs::{
    Actor, AttributeRequest, Attributes, FileKey, FsError, LocatedNode, Name, Node, NodeHandle,
    OpenHow, OpenedNode, RelPath, Result, ServerWork, Timestamp, Wait,
};

/// Maximum number of nodes in the table of last known paths: some ten megabytes.
const PLACES_MAX: usize = 1 << 16;
/// Maximum total length of those paths.
const PLACES_BYTES_MAX: usize = 64 << 20;

/// Tag of a handle that holds the kernel's handle.
const KERNEL: u8 = 1;
/// Tag of a handle that holds the node's key and creation time.
const PLACE: u8 = 2;

/// Kinds of the kernel's handles: FILEID_INO32_GEN, and on XFS the same with XFS_FILEID_TYPE_64FLAG.
const INO32_GEN: i32 = 1;
const XFS_INO64_GEN: i32 = 0x81;

/// Retries of an open whose inode number is being reallocated. With the pause they take some
/// milliseconds, enough for a creator that waits for the CPU.
const NUMBER_TAKEN_TRIES: u32 = 40;
/// See [`NUMBER_TAKEN_TRIES`].
const NUMBER_TAKEN_PAUSE: Duration = Duration::from_micros(100);

/// Encodes and resolves the handles of one tree.
#[derive(Debug, Default)]
pub struct Handles {
    /// Mount id of the root; `None` if the kernel's handles cannot be opened.
    mount: OnceLock<Option<i32>>,
    /// True if the tree covers the root's complete file system.
    serves_all: OnceLock<bool>,
    places: Mutex<Places>,
}

/// Last known paths of nodes, in the order in which they were learned.
#[derive(Debug, Default)]
struct Places {
    paths: HashMap<FileKey, RelPath>,
    order: VecDeque<FileKey>,
    /// Total length of all paths.
    bytes: usize,
}

/// The kernel's handle of an open node: inode number and generation, and on btrfs the subvolume. It
/// contains no device number, and does not depend on mount options.
pub fn persistent_id(fd: BorrowedFd<'_>) -> Option<NodeHandle> {
    let (handle, _) = Kernel::of(fd, b"")?;
    handle.of_any_mount(fd).encode().ok()
}

/// The current form of a [`persistent_id`] of the file system of `fd`, which an earlier version of
/// the server may have recorded.
pub fn current_form(fd: BorrowedFd<'_>, id: Vec<u8>) -> Vec<u8> {
    let handle = id.strip_prefix(&[KERNEL]).and_then(Kernel::decode);
    let current = handle.and_then(|handle| handle.of_any_mount(fd).encode().ok());
    current.map_or(id, |id| id.as_bytes().to_vec())
}

/// Opens the node of a [`persistent_id`] with O_PATH, on the file system of `mount`.
///
/// # Errors
/// `STALE` if the node no longer exists; `PERM` if the process lacks the capability.
pub fn open_lasting(mount: BorrowedFd<'_>, id: &[u8]) -> rustix::io::Result<OwnedFd> {
    let handle = id.strip_prefix(&[KERNEL]).and_then(Kernel::decode).ok_or(Errno::INVAL)?;
    handle.open(mount)
}

/// A `file_handle` of the maximum size.
#[repr(C)]
#[derive(Clone, Copy)]
struct Kernel {
    length: u32,
    kind: i32,
    bytes: [u8; libc::MAX_HANDLE_SZ as usize],
}

impl Kernel {
    /// The handle and the mount id of a directory's child, or with an empty name of the open node.
    fn of(fd: BorrowedFd<'_>, name: &[u8]) -> Option<(Self, i32)> {
        let mut handle = Self {
            length: libc::MAX_HANDLE_SZ as u32,
            kind: 0,
            bytes: [0; libc::MAX_HANDLE_SZ as usize],
        };
        let mut mount = 0;
        let name = CString::new(name).ok()?;
        // SAFETY: `handle` has the layout of `file_handle` with as much room as it says; the name
        // ends with a NUL.
        let result = unsafe {
            libc::name_to_handle_at(
                fd.as_raw_fd(),
                name.as_ptr(),
                (&raw mut handle).cast(),
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        let fits = handle.length as usize <= handle.bytes.len();
        (result == 0 && fits).then_some((handle, mount))
    }

    fn encode(&self) -> Result<NodeHandle> {
        let mut bytes = Vec::with_capacity(5 + self.length as usize);
        bytes.push(KERNEL);
        bytes.extend_from_slice(&self.kind.to_le_bytes());
        bytes.extend_from_slice(&self.bytes[..self.length as usize]);
        NodeHandle::new(bytes).map_err(|_| FsError::NotSupported)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first_chunk()?;
        let mut handle = Self {
            length: u32::try_from(rest.len()).ok()?,
            kind: i32::from_le_bytes(*kind),
            bytes: [0; libc::MAX_HANDLE_SZ as usize],
        };
        handle.bytes.get_mut(..rest.len())?.copy_from_slice(rest);
        // The upper half holds kernel flags, which the server never creates.
        (0..=0xFFFF).contains(&handle.kind).then_some(handle)
    }

    /// The form that XFS gives the handle under inode64. Under inode32 its handles have a shorter
    /// form with the same inode number and generation; XFS opens both under either option.
    fn of_any_mount(self, fd: BorrowedFd<'_>) -> Self {
        let is_of_inode32 = self.kind == INO32_GEN && self.length == 8;
        let is_xfs =
            || rustix::fs::fstatfs(fd).is_ok_and(|found| found.f_type == libc::XFS_SUPER_MAGIC);
        if is_of_inode32 && is_xfs() { self.widened() } else { self }
    }

    /// 64 bits of the inode number instead of 32, then the generation.
    fn widened(mut self) -> Self {
        let [a, b, c, d, generation @ ..] = self.bytes;
        let inode = u64::from(u32::from_ne_bytes([a, b, c, d]));
        self.bytes[..8].copy_from_slice(&inode.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&generation[..4]);
        Self { length: 12, kind: XFS_INO64_GEN, ..self }
    }

    /// Opens the node of the handle with O_PATH, on the file system of `mount`.
    ///
    /// # Errors
    /// `STALE` if the node no longer exists. ext4 reports `NOMEM` while another process
    /// creates a file with the same inode number, so the call retries, and returns a persistent
    /// error only.
    fn open(self, mount: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
        for _ in 0..NUMBER_TAKEN_TRIES {
            match self.open_once(mount) {
                Err(Errno::NOMEM) => std::thread::sleep(NUMBER_TAKEN_PAUSE),
                other => return other,
            }
        }
        self.open_once(mount)
    }

    fn open_once(mut self, mount: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the structure has the layout of `file_handle`, with as many bytes as it says.
        let fd =
            unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut self).cast(), flags) };
        if fd < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
        // SAFETY: the call has just given it to us.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl Handles {
    /// The handle of an open node.
    pub fn of_node(&self, root: Root<'_>, who: Actor<'_>, node: &LocalNode) -> Result<NodeHandle> {
        if let Some(handle) = self.noted(root, node.key, node.born) {
            return Ok(handle);
        }
        if let Some(handle) = self.kernel(root, node.as_fd(), b"") {
            // No other file has its inode number while it is open.
            return handle.inspect(|handle| handle_notes::keep(node.key, node.born, handle));
        }
        let path = self.path_of(root, who, node)?;
        if path.is_nameless() {
            return Err(FsError::NotSupported);
        }
        self.place(node, path)
    }

    /// The handle of a child of an open directory.
    pub fn of_child(
        &self,
        root: Root<'_>,
        who: Actor<'_>,
        (directory, name): (&LocalNode, &Name),
        child: &Attributes,
    ) -> Result<NodeHandle> {
        if reserved::is_store_name(name.as_bytes()) {
            return Err(FsError::NotFound);
        }
        let _acting = IdentityGuard::begin(who)?;
        if let Some(handle) = self.noted(root, child.key, child.born) {
            return Ok(handle);
        }
        // The node is opened first, because the name may be given to another file meanwhile.
        if handle_notes::is_noted(child.born)
            && let Ok(held) = hold_child(directory, name)
            && held.key == child.key
        {
            return self.of_node(root, who, &held);
        }
        if let Some(handle) = self.kernel(root, directory.as_fd(), name.as_bytes()) {
            return handle;
        }
        let path = self.path_of(root, who, directory)?.join(name);
        let found = look(root, &path, AttributeRequest::default())?;
        if found.key != child.key {
            return Err(FsError::NotFound);
        }
        self.place(&found, path)
    }

    /// The cached kernel handle, if kernel handles can be opened here.
    fn noted(&self, root: Root<'_>, key: FileKey, born: Option<Timestamp>) -> Option<NodeHandle> {
        self.mount(root).and_then(|_| handle_notes::find(key, born))
    }

    fn kernel(
        &self,
        root: Root<'_>,
        fd: BorrowedFd<'_>,
        name: &[u8],
    ) -> Option<Result<NodeHandle>> {
        let own = self.mount(root)?;
        let (handle, mount) = Kernel::of(fd, name)?;
        (mount == own).then(|| handle.encode())
    }

    /// Mount id of the root; `None` if the root's own handle cannot be opened.
    fn mount(&self, root: Root<'_>) -> Option<i32> {
        *self.mount.get_or_init(|| {
            let (handle, mount) = Kernel::of(root.fd, b"")?;
            // A property of the tree, independent of the caller.
            let opened = as_server(ServerWork::LocateNode, || {
                handle.open(root.fd).map_err(|e| refusal("open handle", e))
            });
            opened.is_ok().then_some(mount)
        })
    }

    /// A handle that is resolved by the node's last known path.
    fn place(&self, node: &LocalNode, path: RelPath) -> Result<NodeHandle> {
        let born = node.attributes(AttributeRequest::default())?.born.unwrap_or_default();
        let mut bytes = vec![PLACE];
        bytes.extend_from_slice(&node.key.device.to_le_bytes());
        bytes.extend_from_slice(&node.key.inode.to_le_bytes());
        bytes.extend_from_slice(&(born.0 as u64).to_le_bytes());
        self.places().learn(node.key, path);
        NodeHandle::new(bytes)
    }

    /// Resolves a handle.
    pub fn find(
        &self,
        root: Root<'_>,
        who: Actor<'_>,
        handle: &NodeHandle,
        wanted: AttributeRequest,
    ) -> Result<LocatedNode> {
        match handle.as_bytes() {
            [KERNEL, bytes @ ..] => self.find_by_kernel(root, who, bytes, wanted),
            [PLACE, bytes @ ..] => self.find_by_place(root, who, bytes, wanted),
            _ => Err(FsError::InvalidParameter),
        }
    }

    fn find_by_kernel(
        &self,
        root: Root<'_>,
        who: Actor<'_>,
        bytes: &[u8],
        wanted: AttributeRequest,
    ) -> Result<LocatedNode> {
        let handle = Kernel::decode(bytes).ok_or(FsError::InvalidParameter)?;
        if self.mount(root).is_none() {
            return Err(FsError::Stale);
        }
        let _acting = IdentityGuard::begin(who)?;
        let opened = match handle.open(root.fd) {
            // A foreign handle refers to no node of this file system.
            Err(Errno::STALE | Errno::INVAL | Errno::NOENT) => return Err(FsError::Stale),
            other => other.map_err(|e| refusal("open handle", e))?,
        };
        let (mut node, attributes) = match LocalNode::new(opened, true, false, wanted) {
            Err(FsError::NotFound) => return Err(FsError::Stale),
            other => other?,
        };
        let is_directory = node.kind() == vfs::FileKind::Directory;
        let (path, is_certain) = match whereabouts(root, &node)? {
            Whereabouts::At(path) => (path, true),
            _ if is_directory => return Err(FsError::Stale),
            Whereabouts::Elsewhere if attributes.links > 0 && !self.serves_all(root) => {
                return Err(FsError::Stale);
            }
            Whereabouts::Elsewhere | Whereabouts::Unknown => {
                (RelPath::nameless(node.key), self.serves_all(root))
            }
        };
        node.is_unreported |= path.is_nameless();
        Ok(LocatedNode { node: Arc::new(node), attributes, path, is_certain })
    }

    fn find_by_place(
        &self,
        root: Root<'_>,
        who: Actor<'_>,
        bytes: &[u8],
        wanted: AttributeRequest,
    ) -> Result<LocatedNode> {
        let (device, rest) = bytes.split_first_chunk().ok_or(FsError::InvalidParameter)?;
        let (inode, born) = rest.split_first_chunk().ok_or(FsError::InvalidParameter)?;
        let born = u64::from_le_bytes(born.try_into().map_err(|_| FsError::InvalidParameter)?);
        let key =
            FileKey { device: u64::from_le_bytes(*device), inode: u64::from_le_bytes(*inode) };
        let path = self.places().paths.get(&key).cloned().ok_or(FsError::Stale)?;
        let _acting = IdentityGuard::begin(who)?;
        let node = match look(root, &path, wanted) {
            Err(FsError::NotFound | FsError::PathNotFound) => return Err(FsError::Stale),
            other => other?,
        };
        let attributes = node.attributes(wanted)?;
        if node.key != key || attributes.born.unwrap_or_default().0 as u64 != born {
            return Err(FsError::Stale);
        }
        Ok(LocatedNode { node: Arc::new(node), attributes, path, is_certain: true })
    }

    /// The current path of a node.
    pub fn path_of(&self, root: Root<'_>, who: Actor<'_>, node: &LocalNode) -> Result<RelPath> {
        if node.kind() == vfs::FileKind::Directory {
            // The node has one path, and the kernel knows it.
            return path_below(root.fd, node.as_fd(), node.opened_at()).ok_or(FsError::Stale);
        }
        if node.raw_stat()?.st_nlink == 0 {
            return Err(FsError::Stale);
        }
        let _acting = IdentityGuard::begin(who)?;
        match whereabouts(root, node)? {
            Whereabouts::At(path) => Ok(path),
            Whereabouts::Elsewhere | Whereabouts::Unknown => Ok(RelPath::nameless(node.key)),
        }
    }

    /// Updates the table after a rename by this process.
    pub fn renamed(&self, from: &RelPath, to: &RelPath) {
        let mut places = self.places();
        let mut bytes = 0;
        for path in places.paths.values_mut() {
            if let Some(moved) = path.moved(from, to) {
                *path = moved;
            }
            bytes += path.as_bytes().len();
        }
        places.bytes = bytes;
    }

    /// True if the root is the root of both its file system and its mount.
    fn serves_all(&self, root: Root<'_>) -> bool {
        *self.serves_all.get_or_init(|| {
            let mount = self.mount(root);
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            mounts.lines().any(|line| {
                let mut words = line.split(' ');
                let id = words.next().and_then(|id| id.parse().ok());
                let (inner, point) = (words.nth(2), words.next());
                id == mount && mount.is_some() && inner == Some("/") && is_at(root.fd, point)
            })
        })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock()
    }
}

impl Places {
    fn learn(&mut self, key: FileKey, path: RelPath) {
        self.bytes += path.as_bytes().len();
        match self.paths.insert(key, path) {
            Some(before) => self.bytes -= before.as_bytes().len(),
            None => self.order.push_back(key),
        }
        while self.order.len() > PLACES_MAX || self.bytes > PLACES_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.paths.remove(&oldest).map_or(0, |path| path.as_bytes().len());
        }
    }
}

/// True if `path` leads to the descriptor's node.
fn is_at(fd: BorrowedFd<'_>, path: Option<&str>) -> bool {
    let stat = path.and_then(|path| rustix::fs::stat(path).ok());
    let own = rustix::fs::fstat(fd).ok();
    own.zip(stat).is_some_and(|(a, b)| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}

enum Whereabouts {
    At(RelPath),
    Elsewhere,
    Unknown,
}

/// The path that the kernel reports for a node, if it lies in the tree. The path of a node on
/// another mount may look like one in the tree, so the caller walks it.
fn whereabouts(root: Root<'_>, node: &LocalNode) -> Result<Whereabouts> {
    let is_directory = node.kind() == vfs::FileKind::Directory;
    let link = match kernel_path(node.as_fd()) {
        Err(Errno::NAMETOOLONG) if !is_directory => {
            let path = known_path(root.fd, node.as_fd(), node.opened_at());
            return Ok(path.map_or(Whereabouts::Unknown, Whereabouts::At));
        }
        Err(Errno::NAMETOOLONG) => Vec::new(),
        link => link.map_err(|e| refusal("find the path", e))?,
    };
    // For a nameless node the kernel reports the root.
    if link == b"/" && !is_directory {
        return Ok(Whereabouts::Unknown);
    }
    let path = match link.as_slice() {
        // A deep directory: its names are collected upwards.
        [] => path_below(root.fd, node.as_fd(), node.opened_at()),
        // The kernel appends a suffix to the path of a deleted node. That path leads nowhere, or to
        // another node.
        link => path_of_link(root.fd, link),
    };
    let Some(path) = path else { return Ok(Whereabouts::Elsewhere) };
    match look(root, &path, AttributeRequest::default()) {
        Ok(found) if found.key == node.key => Ok(Whereabouts::At(path)),
        _ => Ok(Whereabouts::Elsewhere),
    }
}

/// Looks up a path without following a link.
fn look(root: Root<'_>, path: &RelPath, wanted: AttributeRequest) -> Result<LocalNode> {
    let direct = Root { stops_at_links: true, ..root };
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let fd = open_beneath(direct, path.as_bytes(), flags, Mode::empty(), Wait::Allowed)
        .map_err(|e| refusal("open", e))?;
    Ok(LocalNode::new(fd, true, false, wanted)?.0)
}

/// Opens a child with O_PATH, with the thread's current credentials.
fn hold_child(directory: &LocalNode, name: &Name) -> Result<LocalNode> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(directory.as_fd(), name.as_bytes(), flags, Mode::empty())
        .map_err(|e| refusal("open", e))?;
    Ok(LocalNode::new(fd, true, false, AttributeRequest::default())?.0)
}

/// Reopens a node with the thread's current credentials.
pub fn open_node(node: &LocalNode, how: &OpenHow) -> Result<OpenedNode> {
    let uses = how.read || how.write;
    let is_directory = node.kind() == vfs::FileKind::Directory;
    let open = |flags: OFlags| open_anew(node, is_directory, flags | OFlags::CLOEXEC);
    let access = if how.write && !is_directory { OFlags::RDWR } else { OFlags::RDONLY };
    let mut path_only = !uses;
    let result = match uses {
        false => open(OFlags::PATH),
        // An open of a pipe without a peer, or of a tape drive, must not block.
        true => match open(access | OFlags::NONBLOCK | OFlags::NOCTTY) {
            // Read access is an addition of the server's, so a refusal of it is no failure.
            Err(Errno::ACCESS) if access == OFlags::RDWR && !how.read => {
                open(OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
            }
            // A symbolic link or a socket.
            Err(Errno::LOOP | Errno::NXIO) => {
                path_only = true;
                open(OFlags::PATH)
            }
            other => other,
        },
    };
    let fd = result.map_err(|e| refusal("open", e))?;
    let (mut opened, attributes) = LocalNode::new(fd, path_only, uses, how.wanted)?;
    opened.is_unreported |= node.is_unreported;
    let path = RelPath::nameless(attributes.key);
    Ok(OpenedNode { node: Arc::new(opened), attributes, path })
}

/// Reopens a directory as `.` in itself, which costs a third of the reopen through `/proc`, but
/// requires search permission on the directory.
fn open_anew(node: &LocalNode, is_directory: bool, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let by_path = || rustix::fs::open(node.proc_path(), flags, Mode::empty());
    if !is_directory {
        return by_path();
    }
    match rustix::fs::openat(node.as_fd(), c".", flags, Mode::empty()) {
        Err(Errno::ACCESS) => by_path(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalVfs;
    use vfs::{Identity, PersistentHandles, Vfs};

    const LOCATE: Actor<'static> = Actor::server(ServerWork::LocateNode);

    fn path(text: &str) -> RelPath {
        text.split('/').map(|name| Name::new(name.as_bytes()).unwrap()).collect()
    }

    fn handle(vfs: &LocalVfs, at: &str) -> NodeHandle {
        vfs.handle(LOCATE, &*looked_at(vfs, at)).unwrap()
    }

    fn looked_at(vfs: &LocalVfs, at: &str) -> Arc<dyn Node> {
        let how = OpenHow::looking(Wait::Allowed);
        vfs.open(Actor::SUPERUSER, &path(at), how).unwrap().node
    }

    fn found(vfs: &LocalVfs, handle: &NodeHandle) -> Result<RelPath> {
        vfs.find(LOCATE, handle, AttributeRequest::default()).map(|found| {
            assert!(found.is_certain);
            found.path
        })
    }

    #[test]
    fn directory_without_search_permission_is_reopened() {
        use std::os::unix::fs::PermissionsExt;
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("d");
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("f"), "").unwrap();
        let vfs = LocalVfs::open(folder.path()).unwrap();
        let node = looked_at(&vfs, "d");
        let alice = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
        let how = OpenHow { read: true, ..OpenHow::looking(Wait::Allowed) };
        let listed = || {
            let mut names = Vec::new();
            let opened = vfs.open_node(alice.actor(), &*node, how)?;
            opened.node.readdir(0, &mut |entry| {
                names.push(entry.name.as_bytes().to_vec());
                true
            })?;
            names.retain(|name| !name.starts_with(b"."));
            Ok(names)
        };
        for (mode, expected) in [
            (0o704, Ok(vec![b"f".to_vec()])),
            (0o705, Ok(vec![b"f".to_vec()])),
            (0o701, Err(FsError::AccessDenied)),
            (0o700, Err(FsError::AccessDenied)),
        ] {
            let permissions = std::fs::Permissions::from_mode(mode);
            as_server(ServerWork::LocateNode, || {
                Ok(std::fs::set_permissions(&at, permissions).is_ok())
            })
            .unwrap();
            assert_eq!(listed(), expected, "{mode:o}");
        }
    }

    /// A directory with a share in it, and a sibling that must stay unreachable.
    fn house() -> (tempfile::TempDir, LocalVfs, LocalVfs) {
        let house = tempfile::tempdir().unwrap();
        let share = house.path().join("share");
        std::fs::create_dir_all(share.join("d")).unwrap();
        std::fs::create_dir(house.path().join("beside")).unwrap();
        std::fs::write(share.join("d/f"), b"x").unwrap();
        std::fs::write(house.path().join("beside/secret"), b"s").unwrap();
        let all = LocalVfs::open(house.path()).unwrap();
        let share = LocalVfs::open(&share).unwrap();
        (house, all, share)
    }

    #[test]
    fn handle_never_leads_out_of_the_share() {
        let (house, all, share) = house();
        if share.handles.mount(share.root()).is_none() {
            return; // No permission to open the kernel's handles.
        }
        for outside in ["beside", "beside/secret", "share"] {
            let handle = handle(&all, outside);
            let inside = if outside == "share" { Ok(RelPath::root()) } else { Err(FsError::Stale) };
            assert_eq!(found(&share, &handle), inside, "{outside}");
        }
        let moved = ["d", "d/f"].map(|at| handle(&share, at));
        std::fs::rename(house.path().join("share/d"), house.path().join("d")).unwrap();
        for handle in &moved {
            assert_eq!(found(&share, handle), Err(FsError::Stale), "it was moved out");
        }
        std::fs::rename(house.path().join("d"), house.path().join("share/e")).unwrap();
        assert_eq!(moved.each_ref().map(|h| found(&share, h)), [Ok(path("e")), Ok(path("e/f"))]);
    }

    #[test]
    fn reused_name_and_inode_number_give_a_new_handle() {
        let (house, _all, share) = house();
        if share.handles.mount(share.root()).is_none() {
            return; // No permission to open the kernel's handles.
        }
        std::thread::sleep(std::time::Duration::from_millis(150));
        let directory = looked_at(&share, "d");
        let listed = || {
            let name = Name::new(&b"f"[..]).unwrap();
            let who = Identity::root();
            let known = directory
                .child_attributes(who.actor(), &name, AttributeRequest::default())
                .unwrap();
            share.child_handle(Actor::SUPERUSER, &*directory, &name, &known).unwrap()
        };
        let before = listed();
        assert_eq!((listed(), handle(&share, "d/f")), (before.clone(), before.clone()));
        std::fs::remove_file(house.path().join("share/d/f")).unwrap();
        std::fs::write(house.path().join("share/d/f"), b"another").unwrap();
        let after = listed();
        assert_eq!(handle(&share, "d/f"), after);
        assert_ne!(after, before);
        assert_eq!(found(&share, &after), Ok(path("d/f")));
        assert_eq!(found(&share, &before), Err(FsError::Stale));
    }

    #[test]
    fn node_moved_out_of_the_share_has_no_path() {
        let (house, _all, share) = house();
        let (directory, file) = (looked_at(&share, "d"), looked_at(&share, "d/f"));
        std::fs::rename(house.path().join("share/d"), house.path().join("d")).unwrap();
        assert_eq!(share.path_of(LOCATE, &*directory), Err(FsError::Stale));
        assert!(share.path_of(LOCATE, &*file).unwrap().is_nameless());
        std::fs::remove_file(house.path().join("d/f")).unwrap();
        assert_eq!(share.path_of(LOCATE, &*file), Err(FsError::Stale));
    }

    #[test]
    fn handles_survive_a_server_restart() {
        let (house, _all, share) = house();
        if share.handles.mount(share.root()).is_none() {
            return;
        }
        let known = ["d", "d/f"].map(|at| handle(&share, at));
        drop(share);
        let again = LocalVfs::open(&house.path().join("share")).unwrap();
        assert_eq!(known.each_ref().map(|h| found(&again, h)), [Ok(path("d")), Ok(path("d/f"))]);
    }

    #[test]
    fn unprivileged_process_resolves_handles_by_last_path() {
        let (house, _all, share) = house();
        share.handles.mount.set(None).unwrap();
        let known = ["d", "d/f"].map(|at| handle(&share, at));
        assert_eq!(known.each_ref().map(|h| found(&share, h)), [Ok(path("d")), Ok(path("d/f"))]);
        let who = Identity::root();
        share.rename(who.actor(), &path("d"), &path("e"), vfs::Replace::Never).unwrap();
        assert_eq!(known.each_ref().map(|h| found(&share, h)), [Ok(path("e")), Ok(path("e/f"))]);
        std::fs::remove_file(house.path().join("share/e/f")).unwrap();
        assert_eq!(found(&share, &known[1]), Err(FsError::Stale));
        std::fs::write(house.path().join("share/e/f"), b"another").unwrap();
        assert_eq!(found(&share, &known[1]), Err(FsError::Stale), "another file is there now");
    }

    #[test]
    fn path_table_evicts_the_oldest_entry() {
        let mut places = Places::default();
        let key = |inode| FileKey { device: 1, inode };
        for inode in 0..PLACES_MAX as u64 + 2 {
            places.learn(key(inode), RelPath::root());
            places.learn(key(inode), RelPath::root());
        }
        assert_eq!((places.paths.len(), places.order.len()), (PLACES_MAX, PLACES_MAX));
        assert!(!places.paths.contains_key(&key(1)) && places.paths.contains_key(&key(2)));
    }
}
