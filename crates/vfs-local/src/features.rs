//! Features of the served file systems: of the root's, and of those that are mounted below it.
//!
//! A nameless file shows reflinks, compression, hole punching and hard links. Where none can be
//! created, as on a read-only mount, the kind of the file system decides, and reflinks count as
//! absent. Symbolic links and the case of names always go by the kind, since their probes would
//! leave a visible name.

use crate::compression::{compresses, set_compressed};
use crate::handles::persistent_id;
use crate::identity::as_server;
use crate::inotify::changes_without_events;
use crate::local_node::LocalNode;
use crate::location::kernel_path;
use crate::streams::STREAM_BYTES_MAX;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, IFlags, Mode, OFlags, StatVfsMountFlags, StatxFlags,
};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use sync::Mutex;
use vfs::{FileKind, FileSystemId, FsError, ServerWork, TreeFeatures};

/// Magic numbers of statfs(2).
const EXT: i64 = 0xEF53;
const XFS: i64 = 0x5846_5342;
const BTRFS: i64 = 0x9123_683E;
const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58F6;
const FAT: i64 = 0x4D44;
const EXFAT: i64 = 0x2011_BAB0;
const HFS: i64 = 0x4244;
const HFS_PLUS: i64 = 0x482B;
const BFS: i64 = 0x1BAD_FACE;
const HPFS: i64 = 0xF995_E849;
const OMFS: i64 = 0xC299_3D87;
const ORANGEFS: i64 = 0x2003_0528;
const VBOXSF: i64 = 0x786F_4256;

/// File systems that allocate what a file is extended by, or free nothing that is zeroed.
const WITHOUT_HOLES: [i64; 5] = [FAT, EXFAT, HFS, HFS_PLUS, RAMFS];
/// File systems without symbolic links, and without hard links.
const WITHOUT_SYMLINKS: [i64; 5] = [FAT, EXFAT, HFS, OMFS, BFS];
const WITHOUT_HARD_LINKS: [i64; 7] = [FAT, EXFAT, HFS, OMFS, HPFS, ORANGEFS, VBOXSF];
/// File systems that find a name in any case.
const CASE_INSENSITIVE: [i64; 5] = [FAT, EXFAT, HFS, HFS_PLUS, HPFS];

/// A name of this directory is refused as a link's before it is created.
const LINK_PROBE: &str = ".anabranch-probe";
/// Bytes of the hole that is punched into an empty file.
const HOLE_PROBE_BYTES: u64 = 4096;

/// Maximum number of mounts below the root whose features are cached.
const MOUNTS_MAX: usize = 64;
/// Maximum number of steps from a directory up to the top of its mount: a path has no more names.
const STEPS_MAX: usize = 2048;

/// XFS_IOC_FSGEOMETRY_V1, whose structure holds the UUID at [`XFS_UUID_AT`].
const XFS_GEOMETRY: u64 = 0x8070_5864;
const XFS_GEOMETRY_BYTES: usize = 112;
const XFS_UUID_AT: usize = 64;
/// STATX_MNT_ID_UNIQUE: the id of a mount that no later mount gets, since Linux 6.8. Older kernels
/// leave the bit unset in the reply.
const MOUNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Features of the tree below the directory `root`, which is open for reading.
pub fn of_root(root: BorrowedFd<'_>) -> rustix::io::Result<TreeFeatures> {
    let tree = TreeFeatures {
        follows_links: true,
        misses_remote_changes: changes_without_events(root)?,
        serial: rustix::fs::fstat(root)?.st_dev,
        ..TreeFeatures::default()
    };
    of_file_system(tree, root)
}

/// Whether the mount of a node refuses changes.
pub fn is_read_only(node: BorrowedFd<'_>) -> bool {
    let facts = rustix::fs::fstatvfs(node);
    facts.is_ok_and(|facts| facts.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// `tree` with the features of the file system of `directory`, which is open for reading.
fn of_file_system(
    tree: TreeFeatures,
    directory: BorrowedFd<'_>,
) -> rustix::io::Result<TreeFeatures> {
    Ok(by_nameless_file(by_node(tree, directory)?, directory))
}

/// `tree` with the features that a file or directory shows, which is open for reading.
fn by_node(tree: TreeFeatures, node: BorrowedFd<'_>) -> rustix::io::Result<TreeFeatures> {
    let by_kind = by_kind(tree, node)?;
    let mut value = [0u8; 1];
    let probed = rustix::fs::fgetxattr(node, "user.anabranch.probe", &mut value);
    let xattrs = probed != Err(Errno::OPNOTSUPP);
    Ok(TreeFeatures {
        xattrs,
        stream_bytes_max: if xattrs { STREAM_BYTES_MAX } else { 0 },
        file_system: file_system_id(node),
        ..by_kind
    })
}

/// `tree` with the features that the kind of a node's file system shows.
fn by_kind(tree: TreeFeatures, node: BorrowedFd<'_>) -> rustix::io::Result<TreeFeatures> {
    let kind = rustix::fs::fstatfs(node)?.f_type;
    Ok(TreeFeatures {
        sparse: !WITHOUT_HOLES.contains(&kind),
        reflink: false,
        compression: compresses(node),
        hard_links: !WITHOUT_HARD_LINKS.contains(&kind),
        symlinks: !WITHOUT_SYMLINKS.contains(&kind),
        case_sensitive: !CASE_INSENSITIVE.contains(&kind),
        ..tree
    })
}

/// `by_kind`, corrected by probes with nameless files in the directory.
fn by_nameless_file(by_kind: TreeFeatures, directory: BorrowedFd<'_>) -> TreeFeatures {
    let unnamed = || {
        // With O_EXCL no call can give the file a name.
        let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::openat(directory, ".", flags, Mode::RUSR | Mode::WUSR)
    };
    let (Ok(one), Ok(other)) = (unnamed(), unnamed()) else { return by_kind };
    let reflink = rustix::fs::ioctl_ficlone(&one, &other).is_ok();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let punches = rustix::fs::fallocate(&one, punch, 0, HOLE_PROBE_BYTES).is_ok();
    // btrfs without copy on write and f2fs without its feature refuse the flag; others ignore it.
    let compression = set_compressed(one.as_fd(), true).is_ok()
        && rustix::fs::ioctl_getflags(&one).is_ok_and(|flags| flags.contains(IFlags::COMPRESSED));
    TreeFeatures {
        reflink,
        compression,
        sparse: by_kind.sparse && punches,
        hard_links: links(directory, one.as_fd()).unwrap_or(by_kind.hard_links),
        ..by_kind
    }
}

/// Whether the file system has hard links; `None` if the attempt does not show it. The kernel looks
/// for the operation first (EPERM), and then finds that the file must get no name (ENOENT).
fn links(directory: BorrowedFd<'_>, nameless: BorrowedFd<'_>) -> Option<bool> {
    let file = format!("/proc/self/fd/{}", nameless.as_raw_fd());
    match rustix::fs::linkat(CWD, file, directory, LINK_PROBE, AtFlags::SYMLINK_FOLLOW) {
        Err(Errno::NOENT) => Some(true),
        // The kernel takes the file for one with a name: a FUSE server reported a link of it.
        Ok(()) => {
            let _ = rustix::fs::unlinkat(directory, LINK_PROBE, AtFlags::empty());
            Some(true)
        }
        Err(Errno::PERM) => Some(false),
        _ => None,
    }
}

/// See [`FileSystemId`]. ext2 to ext4, btrfs and tmpfs make the id that statfs(2) shows from their
/// UUID; XFS makes it from the device number, and shows its UUID to an ioctl. Their persistent ids
/// contain a generation; those of others may not, or change: FAT chooses one whenever it reads an
/// inode.
fn file_system_id(node: BorrowedFd<'_>) -> Option<FileSystemId> {
    persistent_id(node)?;
    let found = match rustix::fs::fstatfs(node).ok()?.f_type {
        EXT | BTRFS | TMPFS => {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&statfs_id(node)?);
            id
        }
        XFS => xfs_uuid(node)?,
        _ => return None,
    };
    // Linux before 5.13 has none for tmpfs.
    (found != [0; 16]).then_some(FileSystemId(found))
}

fn statfs_id(node: BorrowedFd<'_>) -> Option<[u8; 8]> {
    // SAFETY: all zeros is a value of this structure of integers.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and `facts` is ours to be filled.
    let result = unsafe { libc::fstatfs(node.as_raw_fd(), &raw mut facts) };
    // SAFETY: an `fsid_t` is two 32-bit integers without padding.
    let id = unsafe { std::mem::transmute::<libc::fsid_t, [u8; 8]>(facts.f_fsid) };
    (result == 0).then_some(id)
}

fn xfs_uuid(node: BorrowedFd<'_>) -> Option<[u8; 16]> {
    let mut geometry = [0u64; XFS_GEOMETRY_BYTES / 8];
    // SAFETY: the descriptor is open; the buffer is aligned and has the size that the number of the
    // ioctl states.
    let result = unsafe { libc::ioctl(node.as_raw_fd(), XFS_GEOMETRY as _, geometry.as_mut_ptr()) };
    let [low, high] = [geometry[XFS_UUID_AT / 8], geometry[XFS_UUID_AT / 8 + 1]];
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&low.to_ne_bytes());
    uuid[8..].copy_from_slice(&high.to_ne_bytes());
    (result == 0).then_some(uuid)
}

/// Distinguishes mounts, and on btrfs subvolumes. The device number is no part of it: on overlayfs
/// the files of each layer may have another than the directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MountKey {
    /// Id of the mount; before Linux 5.8, which does not report it, the device number.
    mount: u64,
    kind: i64,
    id: [u8; 8],
}

impl MountKey {
    fn of(node: BorrowedFd<'_>) -> Option<Self> {
        let stat = statx(node)?;
        let has_mount = stat.stx_mask & MOUNT_ID_UNIQUE.union(StatxFlags::MNT_ID).bits() != 0;
        let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        Some(Self {
            mount: if has_mount { stat.stx_mnt_id } else { device },
            kind: rustix::fs::fstatfs(node).ok()?.f_type,
            id: statfs_id(node)?,
        })
    }
}

fn statx(node: BorrowedFd<'_>) -> Option<rustix::fs::Statx> {
    let of = |what| rustix::fs::statx(node, c"", AtFlags::EMPTY_PATH, what).ok();
    let is_unique = |stat: &rustix::fs::Statx| stat.stx_mask & MOUNT_ID_UNIQUE.bits() != 0;
    of(MOUNT_ID_UNIQUE).filter(is_unique).or_else(|| of(StatxFlags::MNT_ID))
}

/// Cached features of the mounts below the root, the oldest first.
#[derive(Debug, Default)]
pub struct FeaturesBelow(Mutex<VecDeque<(MountKey, TreeFeatures)>>);

impl FeaturesBelow {
    /// `tree`, the features of the root, with those of the file system of `node`.
    pub fn of_node(&self, tree: TreeFeatures, node: &LocalNode) -> TreeFeatures {
        // Another mount of the root's file system has the same features.
        if node.key.device == tree.serial {
            return tree;
        }
        let Some(key) = MountKey::of(node.as_fd()) else { return tree };
        if let Some((_, found)) = self.0.lock().iter().find(|(known, _)| *known == key) {
            return *found;
        }
        let found = as_server(ServerWork::ShareRoot, || {
            probe_below(tree, node, key).map_err(|_| FsError::Io)
        });
        let Ok(found) = found else { return tree };
        if let ProbeResult::Mount(features) = found {
            let mut cached = self.0.lock();
            if cached.len() >= MOUNTS_MAX {
                cached.pop_front();
            }
            cached.push_back((key, features));
        }
        found.features()
    }
}

/// Features of a node, and whether they are those of its complete mount.
#[derive(Clone, Copy)]
enum ProbeResult {
    Mount(TreeFeatures),
    Node(TreeFeatures),
}

impl ProbeResult {
    fn features(self) -> TreeFeatures {
        let (Self::Mount(features) | Self::Node(features)) = self;
        features
    }
}

/// Probes the file system of a node at the top of its mount, where no subdirectory's attributes are
/// inherited. The mount of a single file has no directory, and that of a file may be removed: then
/// the file itself is probed.
fn probe_below(
    tree: TreeFeatures,
    node: &LocalNode,
    key: MountKey,
) -> rustix::io::Result<ProbeResult> {
    let without = TreeFeatures { xattrs: false, stream_bytes_max: 0, file_system: None, ..tree };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    if let Some(directory) = directory_of(node, key) {
        let top = top_of_mount(directory, key);
        let top = rustix::fs::openat(&top, ".", flags | OFlags::DIRECTORY, Mode::empty());
        if let Ok(top) = top {
            return of_file_system(without, top.as_fd()).map(ProbeResult::Mount);
        }
    }
    if !node.path_only {
        return by_node(without, node.as_fd()).map(ProbeResult::Node);
    }
    if node.kind == FileKind::File {
        // The lease of a local program must not delay the open.
        let flags = flags | OFlags::NONBLOCK;
        if let Ok(file) = rustix::fs::open(node.proc_path(), flags, Mode::empty()) {
            return by_node(without, file.as_fd()).map(ProbeResult::Node);
        }
    }
    by_kind(without, node.as_fd()).map(ProbeResult::Node)
}

const LOOK: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The node itself or its directory, if that lies on the same mount.
fn directory_of(node: &LocalNode, key: MountKey) -> Option<OwnedFd> {
    if node.kind == FileKind::Directory {
        return rustix::fs::openat(node.as_fd(), ".", LOOK, Mode::empty()).ok();
    }
    let path = kernel_path(node.as_fd()).ok()?;
    let parent = Path::new(std::ffi::OsStr::from_bytes(&path)).parent()?;
    let opened = rustix::fs::open(parent, LOOK, Mode::empty()).ok()?;
    (MountKey::of(opened.as_fd()) == Some(key)).then_some(opened)
}

/// The uppermost directory of the mount above `directory`, as far as it can be reached.
fn top_of_mount(mut directory: OwnedFd, key: MountKey) -> OwnedFd {
    let node_of = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| stat.st_ino);
    for _ in 0..STEPS_MAX {
        let Ok(parent) = rustix::fs::openat(&directory, "..", LOOK, Mode::empty()) else { break };
        // The process's root is its own parent.
        let is_top = MountKey::of(parent.as_fd()) != Some(key)
            || node_of(parent.as_fd()) == node_of(directory.as_fd());
        if is_top {
            break;
        }
        directory = parent;
    }
    directory
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As on a FUSE server that reports one link of a nameless file.
    #[test]
    fn created_link_of_the_probe_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(folder.path()).unwrap();
        let file = std::fs::File::create(folder.path().join("f")).unwrap();
        assert_eq!(links(directory.as_fd(), file.as_fd()), Some(true));
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
}
