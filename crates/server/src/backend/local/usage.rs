//! The used size of a directory tree.

use crate::backend::SpaceMeter;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Hard-linked files that are recognised; further ones count once per name.
const LINKED_MAX: usize = 1 << 20;

/// Measures a directory by scanning it.
#[derive(Debug)]
pub(super) struct DirectoryUsage {
    path: PathBuf,
}

impl DirectoryUsage {
    /// Measures the directory that stands at `path` when it is asked.
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }
}

impl SpaceMeter for DirectoryUsage {
    fn used_bytes(&self) -> io::Result<u64> {
        used_bytes(&self.path)
    }
}

/// A directory that is still to be scanned: an open base and a relative path of at most PATH_MAX.
#[derive(Debug)]
struct UnscannedFolder {
    base: Arc<OwnedFd>,
    path: Vec<u8>,
}

impl UnscannedFolder {
    /// Maximum path length of a system call: PATH_MAX without its NUL. path_resolution(7).
    const PATH_BYTES_MAX: usize = 4095;

    fn open(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        rustix::fs::openat2(&*self.base, self.path.as_slice(), flags, Mode::empty(), resolve)
    }

    /// The child directory `name` of this directory, which is open as `opened`.
    fn child(&self, opened: &Arc<OwnedFd>, name: &[u8]) -> Self {
        match self.path.len() + 1 + name.len() > Self::PATH_BYTES_MAX {
            true => Self { base: opened.clone(), path: name.to_vec() },
            false => Self { base: self.base.clone(), path: [&self.path, &b"/"[..], name].concat() },
        }
    }
}

/// Allocated bytes of a directory tree on its file system, at any depth. Files that disappear
/// during the scan are skipped.
fn used_bytes(root: &Path) -> io::Result<u64> {
    let base: Arc<OwnedFd> = Arc::new(fs::File::open(root)?.into());
    let top = rustix::fs::fstat(&*base)?;
    let (mut bytes, mut linked) = (allocated_bytes(&top), HashSet::new());
    let mut folders = vec![UnscannedFolder { base, path: b".".to_vec() }];
    while let Some(folder) = folders.pop() {
        let Ok(opened) = folder.open().map(Arc::new) else { continue };
        let Ok(entries) = Dir::read_from(&*opened) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Ok(stat) = rustix::fs::statat(&*opened, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if stat.st_dev != top.st_dev || matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let has_others = !is_directory && stat.st_nlink > 1;
            if has_others && linked.len() < LINKED_MAX && !linked.insert(stat.st_ino) {
                continue;
            }
            bytes += allocated_bytes(&stat);
            if is_directory {
                folders.push(folder.child(&opened, name.to_bytes()));
            }
        }
    }
    Ok(bytes)
}

fn allocated_bytes(stat: &rustix::fs::Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0) * 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_includes_files_deeper_than_path_max() {
        let folder = tempfile::tempdir().unwrap();
        let empty = used_bytes(folder.path()).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut at: OwnedFd = fs::File::open(folder.path()).unwrap().into();
        let name = "n".repeat(200);
        for _ in 0..50 {
            rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, &name, flags, Mode::empty()).unwrap();
        }
        let create = OFlags::CREATE | OFlags::WRONLY;
        let file = rustix::fs::openat(&at, "file", create, Mode::RUSR).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 20).unwrap();
        let used = used_bytes(folder.path()).unwrap() - empty;
        assert!(used >= 1 << 20, "{used}");
    }

    #[test]
    fn usage_counts_hard_links_once() {
        let folder = tempfile::tempdir().unwrap();
        let empty = used_bytes(folder.path()).unwrap();
        let below = folder.path().join("below");
        fs::create_dir(&below).unwrap();
        let file = below.join("file");
        fs::write(&file, vec![1; 1 << 20]).unwrap();
        fs::File::open(&file).unwrap().sync_all().unwrap();
        fs::hard_link(&file, folder.path().join("again")).unwrap();
        let sparse = fs::File::create(folder.path().join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        let used = used_bytes(folder.path()).unwrap() - empty;
        assert!((1 << 20..(1 << 20) + 65_536).contains(&used), "{used}");
        assert!(used_bytes(&folder.path().join("none")).is_err());
    }
}
