//! Nodes by handles that outlive what is open, and where nodes are now.
//!
//! The kernel's own handles are used where this process may open them
//! (CAP_DAC_READ_SEARCH) and the node is on the root's own mount. Whatever one leads
//! to is checked to lie in the tree: the path that the kernel knows of it is walked
//! from the root, and must lead to that very node. Of what is no directory it may know
//! none, as after a restart of the machine: then the caller is told that it is not certain
//! ([`Located::is_certain`]), unless all of the file system is served.
//!
//! Everywhere else a bounded table has where nodes were last, which is walked and checked in
//! the same way. It follows renames by this process, and does not outlive it.

use crate::errors::refusal;
use crate::handle_notes;
use crate::identity::{Acting, as_server};
use crate::location::{kernel_path, known_path, path_below, path_of_link};
use crate::node::LocalNode;
use crate::resolve::{Root, open_beneath};
use crate::stream_store;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use vfs::{
    Actor, Attributes, FileKey, FsError, Located, Name, Node, NodeHandle, OpenHow, Opened, RelPath,
    Result, ServerWork, Timestamp, Wait, Wanted,
};

/// Nodes of which it is known by a table only where they are: some ten megabytes.
const PLACES_MAX: usize = 1 << 16;
/// Bytes of the paths in that table.
const PLACES_BYTES_MAX: usize = 64 << 20;

/// The kernel's own handle follows.
const KERNEL: u8 = 1;
/// The node's key and the time of its making follow.
const PLACE: u8 = 2;

/// How often, and how long, the number of a file that is gone is waited for while it is given away: some
/// milliseconds together, for a maker that waits for the processor.
const NUMBER_TAKEN_TRIES: u32 = 40;
/// See [`NUMBER_TAKEN_TRIES`].
const NUMBER_TAKEN_PAUSE: Duration = Duration::from_micros(100);

/// How handles of a tree are made and found.
#[derive(Debug, Default)]
pub struct Handles {
    /// Which mount the root is on, if the kernel's handles can be used.
    mount: OnceLock<Option<i32>>,
    /// Everything on the root's file system is in the tree.
    serves_all: OnceLock<bool>,
    places: Mutex<Places>,
}

/// Where nodes were last, and in which order they became known.
#[derive(Debug, Default)]
struct Places {
    paths: HashMap<FileKey, RelPath>,
    order: VecDeque<FileKey>,
    /// Of all paths.
    bytes: usize,
}

/// The kernel's handle of what is open: it has the number of the inode and its generation, and
/// where several trees share a device (btrfs), which of them. It has no device number.
pub fn lasting_id(fd: BorrowedFd<'_>) -> Option<NodeHandle> {
    let (handle, _) = Kernel::of(fd, b"")?;
    handle.encode().ok()
}

/// Opens what [`lasting_id`] was of, for looking, on the file system that `mount` is of.
///
/// # Errors
/// `STALE` if it is gone; `PERM` if the process may not.
pub fn open_lasting(mount: BorrowedFd<'_>, id: &[u8]) -> rustix::io::Result<OwnedFd> {
    let handle = id.strip_prefix(&[KERNEL]).and_then(Kernel::decode).ok_or(Errno::INVAL)?;
    handle.open(mount)
}

/// A `file_handle` with as much room as there can be.
#[repr(C)]
#[derive(Clone, Copy)]
struct Kernel {
    length: u32,
    kind: i32,
    bytes: [u8; libc::MAX_HANDLE_SZ as usize],
}

impl Kernel {
    /// Of the child of a directory, or with an empty name of what is open; and which
    /// mount it is on.
    fn of(fd: BorrowedFd<'_>, name: &[u8]) -> Option<(Self, i32)> {
        let mut handle = Self {
            length: libc::MAX_HANDLE_SZ as u32,
            kind: 0,
            bytes: [0; libc::MAX_HANDLE_SZ as usize],
        };
        let mut mount = 0;
        let name = CString::new(name).ok()?;
        // SAFETY: `handle` has the layout of `file_handle` with as much room as it
        // says; the name ends with a NUL.
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
        // The upper half holds flags of the kernel's, none of which is made here.
        (0..=0xFFFF).contains(&handle.kind).then_some(handle)
    }

    /// Opens what it leads to on the file system of `mount`, for looking at it.
    ///
    /// # Errors
    /// `STALE` if it leads to nothing. ext4 says `NOMEM` while somebody makes a file with the number of
    /// the one that is gone, which is soon over: only what remains is told.
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
    /// What names an open node.
    pub fn of_node(&self, root: Root<'_>, who: Actor<'_>, node: &LocalNode) -> Result<NodeHandle> {
        if let Some(handle) = self.noted(root, node.key, node.born) {
            return Ok(handle);
        }
        if let Some(handle) = self.kernel(root, node.as_fd(), b"") {
            // While it is open nothing else has its number.
            return handle.inspect(|handle| handle_notes::keep(node.key, node.born, handle));
        }
        let path = self.path_of(root, who, node)?;
        if path.is_nameless() {
            return Err(FsError::NotSupported);
        }
        self.place(node, path)
    }

    /// What names a child of an open directory.
    pub fn of_child(
        &self,
        root: Root<'_>,
        who: Actor<'_>,
        (directory, name): (&LocalNode, &Name),
        child: &Attributes,
    ) -> Result<NodeHandle> {
        if stream_store::is_store_name(name.as_bytes()) {
            return Err(FsError::NotFound);
        }
        let _acting = Acting::begin(who)?;
        if let Some(handle) = self.noted(root, child.key, child.born) {
            return Ok(handle);
        }
        // What is to be noted is held meanwhile: the name may be given to another file.
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
        let found = look(root, &path, Wanted::default())?;
        if found.key != child.key {
            return Err(FsError::NotFound);
        }
        self.place(&found, path)
    }

    /// The kernel's handle, if it was noted and can be opened here.
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

    /// Which mount the root is on, if its own handle can be opened.
    fn mount(&self, root: Root<'_>) -> Option<i32> {
        *self.mount.get_or_init(|| {
            let (handle, mount) = Kernel::of(root.fd, b"")?;
            // A fact of the tree, whoever asks first.
            let opened = as_server(ServerWork::LocateNode, || {
                handle.open(root.fd).map_err(|e| refusal("open handle", e))
            });
            opened.is_ok().then_some(mount)
        })
    }

    /// The handle of a node that is found by where it was last.
    fn place(&self, node: &LocalNode, path: RelPath) -> Result<NodeHandle> {
        let born = node.attributes(Wanted::default())?.born.unwrap_or_default();
        let mut bytes = vec![PLACE];
        bytes.extend_from_slice(&node.key.device.to_le_bytes());
        bytes.extend_from_slice(&node.key.inode.to_le_bytes());
        bytes.extend_from_slice(&(born.0 as u64).to_le_bytes());
        self.places().learn(node.key, path);
        NodeHandle::new(bytes)
    }

    /// Finds the node of a handle.
    pub fn find(
        &self,
        root: Root<'_>,
        who: Actor<'_>,
        handle: &NodeHandle,
        wanted: Wanted,
    ) -> Result<Located> {
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
        wanted: Wanted,
    ) -> Result<Located> {
        let handle = Kernel::decode(bytes).ok_or(FsError::InvalidParameter)?;
        if self.mount(root).is_none() {
            return Err(FsError::Stale);
        }
        let _acting = Acting::begin(who)?;
        let opened = match handle.open(root.fd) {
            // What is no handle to this file system is one of nothing.
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
        node.is_unheard |= path.is_nameless();
        Ok(Located { node: Arc::new(node), attributes, path, is_certain })
    }

    fn find_by_place(
        &self,
        root: Root<'_>,
        who: Actor<'_>,
        bytes: &[u8],
        wanted: Wanted,
    ) -> Result<Located> {
        let (device, rest) = bytes.split_first_chunk().ok_or(FsError::InvalidParameter)?;
        let (inode, born) = rest.split_first_chunk().ok_or(FsError::InvalidParameter)?;
        let born = u64::from_le_bytes(born.try_into().map_err(|_| FsError::InvalidParameter)?);
        let key =
            FileKey { device: u64::from_le_bytes(*device), inode: u64::from_le_bytes(*inode) };
        let path = self.places().paths.get(&key).cloned().ok_or(FsError::Stale)?;
        let _acting = Acting::begin(who)?;
        let node = match look(root, &path, wanted) {
            Err(FsError::NotFound | FsError::PathNotFound) => return Err(FsError::Stale),
            other => other?,
        };
        let attributes = node.attributes(wanted)?;
        if node.key != key || attributes.born.unwrap_or_default().0 as u64 != born {
            return Err(FsError::Stale);
        }
        Ok(Located { node: Arc::new(node), attributes, path, is_certain: true })
    }

    /// Where a node is now.
    pub fn path_of(&self, root: Root<'_>, who: Actor<'_>, node: &LocalNode) -> Result<RelPath> {
        if node.kind() == vfs::FileKind::Directory {
            // It has one path, and the kernel knows it.
            return path_below(root.fd, node.as_fd(), node.opened_at()).ok_or(FsError::Stale);
        }
        if node.raw_stat()?.st_nlink == 0 {
            return Err(FsError::Stale);
        }
        let _acting = Acting::begin(who)?;
        match whereabouts(root, node)? {
            Whereabouts::At(path) => Ok(path),
            Whereabouts::Elsewhere | Whereabouts::Unknown => Ok(RelPath::nameless(node.key)),
        }
    }

    /// A name was changed by this process.
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

    /// Whether the root is that of a whole file system, and of its mount.
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
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Whether a descriptor is of what is at this path.
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

/// Where the kernel says that a node is, if that is in the tree: what it says of a node
/// beyond a mount may look like another path, so it is walked.
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
    // Of what no name is known it says only that it is somewhere.
    if link == b"/" && !is_directory {
        return Ok(Whereabouts::Unknown);
    }
    let path = match link.as_slice() {
        // Of a deep directory, whose names are gathered.
        [] => path_below(root.fd, node.as_fd(), node.opened_at()),
        // What is gone has words behind its path, where nothing is or another node.
        link => path_of_link(root.fd, link),
    };
    let Some(path) = path else { return Ok(Whereabouts::Elsewhere) };
    match look(root, &path, Wanted::default()) {
        Ok(found) if found.key == node.key => Ok(Whereabouts::At(path)),
        _ => Ok(Whereabouts::Elsewhere),
    }
}

/// What is at a path, by way of no link.
fn look(root: Root<'_>, path: &RelPath, wanted: Wanted) -> Result<LocalNode> {
    let direct = Root { stops_at_links: true, ..root };
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let fd = open_beneath(direct, path.as_bytes(), flags, Mode::empty(), Wait::Allowed)
        .map_err(|e| refusal("open", e))?;
    Ok(LocalNode::new(fd, true, false, wanted)?.0)
}

/// Opens a child for looking, by the right of whom the thread acts as.
fn hold_child(directory: &LocalNode, name: &Name) -> Result<LocalNode> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(directory.as_fd(), name.as_bytes(), flags, Mode::empty())
        .map_err(|e| refusal("open", e))?;
    Ok(LocalNode::new(fd, true, false, Wanted::default())?.0)
}

/// Opens a node anew. The caller acts as who asks.
pub fn open_node(node: &LocalNode, how: &OpenHow) -> Result<Opened> {
    let uses = how.read || how.write;
    let is_directory = node.kind() == vfs::FileKind::Directory;
    let open = |flags: OFlags| open_anew(node, is_directory, flags | OFlags::CLOEXEC);
    let access = if how.write && !is_directory { OFlags::RDWR } else { OFlags::RDONLY };
    let mut path_only = !uses;
    let result = match uses {
        false => open(OFlags::PATH),
        // A pipe without another end, or a tape drive, must not hold us up.
        true => match open(access | OFlags::NONBLOCK | OFlags::NOCTTY) {
            // Reading beside is of use, and was not asked for.
            Err(Errno::ACCESS) if access == OFlags::RDWR && !how.read => {
                open(OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
            }
            // A link, or a socket.
            Err(Errno::LOOP | Errno::NXIO) => {
                path_only = true;
                open(OFlags::PATH)
            }
            other => other,
        },
    };
    let fd = result.map_err(|e| refusal("open", e))?;
    let (mut opened, attributes) = LocalNode::new(fd, path_only, uses, how.wanted)?;
    opened.is_unheard |= node.is_unheard;
    let path = RelPath::nameless(attributes.key);
    Ok(Opened { node: Arc::new(opened), attributes, path })
}

/// A directory by its own name in itself, which is a third of the work of going by its
/// descriptor's; but that takes leave to look names up in it.
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
    use vfs::{Identity, Vfs};

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
        vfs.find(LOCATE, handle, Wanted::default()).map(|found| {
            assert!(found.is_certain);
            found.path
        })
    }

    #[test]
    fn who_may_list_a_directory_and_look_up_nothing_in_it_opens_it_anew() {
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
            opened.node.list(0, &mut |entry| {
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

    /// A directory with a share in it, and beside it what nobody is to reach.
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
    fn no_handle_leads_out_of_the_share() {
        let (house, all, share) = house();
        if share.handles.mount(share.root()).is_none() {
            return; // No right to open the kernel's handles.
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
    fn a_file_that_takes_the_name_and_number_of_another_has_a_handle_of_its_own() {
        let (house, _all, share) = house();
        if share.handles.mount(share.root()).is_none() {
            return; // No right to open the kernel's handles.
        }
        std::thread::sleep(std::time::Duration::from_millis(150));
        let directory = looked_at(&share, "d");
        let listed = || {
            let name = Name::new(&b"f"[..]).unwrap();
            let who = Identity::root();
            let known = directory.child_attributes(who.actor(), &name, Wanted::default()).unwrap();
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
    fn a_node_that_was_moved_out_has_no_path() {
        let (house, _all, share) = house();
        let (directory, file) = (looked_at(&share, "d"), looked_at(&share, "d/f"));
        std::fs::rename(house.path().join("share/d"), house.path().join("d")).unwrap();
        assert_eq!(share.path_of(LOCATE, &*directory), Err(FsError::Stale));
        assert!(share.path_of(LOCATE, &*file).unwrap().is_nameless());
        std::fs::remove_file(house.path().join("d/f")).unwrap();
        assert_eq!(share.path_of(LOCATE, &*file), Err(FsError::Stale));
    }

    #[test]
    fn handles_outlive_the_server() {
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
    fn without_the_power_to_open_handles_nodes_are_found_by_where_they_were() {
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
    fn the_table_of_places_forgets_the_oldest() {
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
