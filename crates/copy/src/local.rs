//! A local directory as a side. Calls that may block on a disk run on threads of the blocking pool.

use crate::error::Error;
use crate::gather::BlockingCalls;
use crate::handle::{CopyHandle, Whole};
use crate::item::{CopyItem, ItemFacts, ItemKind, LinkTarget};
use crate::limits::{BLOCK_BYTES, RANGES_MAX};
use crate::local_acl;
use crate::names::split;
use crate::ranges::Ranges;
use crate::smb_names::{bytes_of, text_of};
use bytes::Bytes;
use client::{BufferPool, PooledBytes};
use rustix::fs::{CWD, OFlags, RenameFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io::IoSliceMut;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const NANOS: i128 = 1_000_000_000;

/// File size from which on holes are searched for.
const SPARSE_BYTES_MIN: u64 = 64 * 1024;

/// A directory.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    root: PathBuf,
    /// Whether files are opened through symbolic links.
    follows: bool,
    /// Whether files and directories are created for their owner alone, until they get their mode.
    is_private: bool,
    /// Reused block buffers: a new buffer costs fresh pages that the kernel has to clear.
    pool: Arc<BufferPool>,
    /// Runs calls that are short enough to share a thread.
    short: BlockingCalls,
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(Error::Refused("a thread of the copy ended".into())))
}

/// Duplicates the file's descriptor for a thread that may outlive the caller.
fn duplicate(file: &CopyHandle) -> Result<File, Error> {
    Ok(file.local()?.try_clone()?)
}

impl Local {
    pub(crate) fn new(root: PathBuf) -> Self {
        let (pool, short) = (Arc::default(), BlockingCalls::default());
        Self { root, follows: false, is_private: false, pool, short }
    }

    fn path(&self, path: &str) -> PathBuf {
        match path {
            "" => self.root.clone(),
            path => self.root.join(OsStr::from_bytes(&bytes_of(path))),
        }
    }

    /// The same directory, whose files are opened through symbolic links.
    pub(crate) fn following_links(self) -> Self {
        Self { follows: true, ..self }
    }

    /// The same directory, in which files and directories belong to their owner alone until they get
    /// their mode: before that others could read what the source keeps from them.
    pub(crate) fn creating_private(self) -> Self {
        Self { is_private: true, ..self }
    }

    /// Whether the directory's file system ignores case.
    pub(crate) async fn folds(&self, path: &str) -> bool {
        let path = self.path(path);
        let found = self.short.run(move || Ok(ignores_case(&File::open(path)?))).await;
        found.unwrap_or(false)
    }

    #[allow(clippy::unused_self, reason = "the other sides have some")]
    pub(crate) fn connections(&self) -> usize {
        0
    }

    #[allow(clippy::unused_self, reason = "the other sides ask a server")]
    pub(crate) fn io_bytes_max(&self) -> u32 {
        BLOCK_BYTES
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<CopyItem, Error> {
        let (name, path, follows) = (split(path).1.to_owned(), self.path(path), self.follows);
        let work = move || {
            let metadata =
                if follows { std::fs::metadata(path) } else { std::fs::symlink_metadata(path) };
            Ok(item_of(name, &metadata?))
        };
        self.short.run(work).await
    }

    /// The path without links, to compare directories. It need not exist yet.
    pub(crate) async fn real_path(&self, path: &str) -> Result<String, Error> {
        let path = self.path(path);
        blocking(move || {
            Ok(text_of(real_path(&std::path::absolute(path)?)?.as_os_str().as_bytes()))
        })
        .await
    }

    pub(crate) async fn read_link(&self, path: &str) -> Result<LinkTarget, Error> {
        let path = self.path(path);
        blocking(move || {
            let text = text_of(std::fs::read_link(&path)?.as_os_str().as_bytes());
            Ok(LinkTarget { text, is_directory: path.is_dir() })
        })
        .await
    }

    /// Gives the target's file owner, group and access lists of the source's.
    pub(crate) async fn copy_acl(&self, from: &str, target: &Self, to: &str) -> Result<(), Error> {
        let (from, to, follows) = (self.path(from), target.path(to), self.follows);
        blocking(move || local_acl::copy(&from, &to, follows)).await
    }

    /// Creates a link, whose name must be free.
    pub(crate) async fn make_link(&self, path: &str, to: &LinkTarget) -> Result<(), Error> {
        let (path, text) = (self.path(path), bytes_of(&to.text));
        blocking(move || Ok(std::os::unix::fs::symlink(OsStr::from_bytes(&text), path)?)).await
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<CopyItem>, Error> {
        let path = self.path(path);
        blocking(move || {
            let mut items = Vec::new();
            for entry in std::fs::read_dir(path)? {
                let entry = entry?;
                let name = text_of(entry.file_name().as_bytes());
                match entry.metadata() {
                    Ok(metadata) => items.push(item_of(name, &metadata)),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(items)
        })
        .await
    }

    pub(crate) async fn get(&self, path: &str, length: u32) -> Result<(Bytes, CopyItem), Error> {
        let (name, path, follows) = (split(path).1.to_owned(), self.path(path), self.follows);
        self.short
            .run(move || {
                let file = open_source(&path, follows)?;
                let mut data = vec![0; length as usize];
                let filled = read_full(&file, 0, &mut data)?;
                data.truncate(filled);
                Ok((data.into(), item_of(name, &file.metadata()?)))
            })
            .await
    }

    pub(crate) async fn put(&self, whole: &Whole<'_>) -> Result<(), Error> {
        let (temporary, path) = (self.path(whole.temporary), self.path(whole.path));
        let (data, facts, replaces) = (whole.data.clone(), *whole.facts, whole.replaces);
        let is_private = self.is_private;
        self.short
            .run(move || {
                let file = create(&temporary, is_private)?;
                let filled = file
                    .write_all_at(&data, 0)
                    .map_err(Error::from)
                    .and_then(|()| set_facts(&file, &facts))
                    .and_then(|()| rename(&temporary, &path, replaces));
                if filled.is_err() {
                    let _ = std::fs::remove_file(&temporary);
                }
                filled
            })
            .await
    }

    pub(crate) async fn open_source(&self, path: &str) -> Result<CopyHandle, Error> {
        let (path, follows) = (self.path(path), self.follows);
        blocking(move || Ok(CopyHandle::Local(open_source(&path, follows)?))).await
    }

    pub(crate) async fn open_target(
        &self,
        path: &str,
        is_fresh: bool,
    ) -> Result<CopyHandle, Error> {
        let (path, is_private) = (self.path(path), self.is_private);
        blocking(move || {
            let file = if is_fresh {
                create(&path, is_private)?
            } else {
                open(&path, OpenOptions::new().read(true).write(true))?
            };
            Ok(CopyHandle::Local(file))
        })
        .await
    }

    pub(crate) async fn read(
        &self,
        file: &CopyHandle,
        at: u64,
        length: u32,
    ) -> Result<Bytes, Error> {
        let (pool, length) = (self.pool.clone(), length as usize);
        let mut buffer = pool.take(length);
        // Data in the page cache is read on this thread: the next step finds it in the CPU's cache.
        let ready = read_ready(file.local()?, at, &mut buffer[..length]);
        if ready == length {
            return Ok(Bytes::from_owner(PooledBytes::new(buffer, 0..length, pool)));
        }
        let file = duplicate(file)?;
        blocking(move || {
            let rest = read_full(&file, at + ready as u64, &mut buffer[ready..length])?;
            Ok(Bytes::from_owner(PooledBytes::new(buffer, 0..ready + rest, pool)))
        })
        .await
    }

    pub(crate) async fn write(
        &self,
        file: &CopyHandle,
        at: u64,
        data: &Bytes,
    ) -> Result<(), Error> {
        let (file, data) = (duplicate(file)?, data.clone());
        blocking(move || Ok(file.write_all_at(&data, at)?)).await
    }

    pub(crate) async fn set_size(
        &self,
        file: &CopyHandle,
        size: u64,
        _: bool,
    ) -> Result<(), Error> {
        let file = duplicate(file)?;
        blocking(move || Ok(file.set_len(size)?)).await
    }

    pub(crate) async fn data_ranges(&self, file: &CopyHandle, size: u64) -> Option<Ranges> {
        let file = duplicate(file).ok()?;
        blocking(move || Ok(seek_ranges(&file, size))).await.ok().flatten()
    }

    pub(crate) async fn flush(&self, file: &CopyHandle) -> Result<(), Error> {
        let file = duplicate(file)?;
        blocking(move || Ok(file.sync_all()?)).await
    }

    /// Syncs the parent directory, so that the name `path` survives a power loss.
    pub(crate) async fn sync_directory_of(&self, path: &str) -> Result<(), Error> {
        let directory = self.path(split(path).0);
        blocking(move || Ok(File::open(directory)?.sync_all()?)).await
    }

    /// Syncs the whole file system that `path` is on.
    pub(crate) async fn sync_all(&self, path: &str) -> Result<(), Error> {
        let path = self.path(path);
        blocking(move || {
            rustix::fs::syncfs(File::open(path)?)
                .map_err(|errno| Error::from(std::io::Error::from(errno)))
        })
        .await
    }

    pub(crate) async fn set_facts(
        &self,
        file: &CopyHandle,
        facts: &ItemFacts,
    ) -> Result<(), Error> {
        let (file, facts) = (duplicate(file)?, *facts);
        blocking(move || set_facts(&file, &facts)).await
    }

    #[allow(clippy::unused_async, reason = "the other sides wait")]
    pub(crate) async fn close(&self, file: CopyHandle) -> Result<(), Error> {
        drop(file);
        Ok(())
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from, to) = (self.path(from), self.path(to));
        blocking(move || rename(&from, &to, true)).await
    }

    /// Renames a file to a name that must be free.
    pub(crate) async fn rename_new(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from, to) = (self.path(from), self.path(to));
        blocking(move || rename(&from, &to, false)).await
    }

    pub(crate) async fn remove(&self, path: &str, kind: ItemKind) -> Result<(), Error> {
        let path = self.path(path);
        blocking(move || match kind {
            ItemKind::Directory => Ok(std::fs::remove_dir(path)?),
            _ => Ok(std::fs::remove_file(path)?),
        })
        .await
    }

    pub(crate) async fn make_directory(&self, path: &str) -> Result<(), Error> {
        let (path, mode) = (self.path(path), if self.is_private { 0o700 } else { 0o777 });
        blocking(move || match DirBuilder::new().mode(mode).create(&path) {
            // A link to a directory is none: what goes into it would be stored elsewhere.
            Err(error)
                if error.kind() == std::io::ErrorKind::AlreadyExists
                    && path.symlink_metadata().is_ok_and(|found| found.is_dir()) =>
            {
                Ok(())
            }
            created => Ok(created?),
        })
        .await
    }

    pub(crate) async fn set_directory_facts(
        &self,
        path: &str,
        facts: &ItemFacts,
    ) -> Result<(), Error> {
        let (path, facts) = (self.path(path), *facts);
        blocking(move || set_facts(&File::open(path)?, &facts)).await
    }
}

/// The path without links; of what is missing, the names below the real path of what exists.
fn real_path(path: &Path) -> std::io::Result<PathBuf> {
    let (mut found, mut missing) = (path.canonicalize(), Vec::new());
    for parent in path.ancestors() {
        let is_missing =
            found.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        let (true, Some(name), Some(above)) = (is_missing, parent.file_name(), parent.parent())
        else {
            break;
        };
        missing.push(name);
        found = above.canonicalize();
    }
    found.map(|found| missing.iter().rev().fold(found, |path, name| path.join(name)))
}

/// Opens a file of the source.
fn open_source(path: &Path, follows: bool) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true);
    if !follows {
        return open(path, &mut options);
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(options.custom_flags(flags.bits() as i32).open(path)?)
}

/// Opens a file without following a link: the name may have become one since the listing.
fn open(path: &Path, options: &mut OpenOptions) -> Result<File, Error> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(options.custom_flags(flags.bits() as i32).open(path)?)
}

/// Renames a file. Without `replaces` the name must be free: it may be that of a file that the
/// listing did not have, or be taken for another name by a file system that ignores case.
fn rename(from: &Path, to: &Path, replaces: bool) -> Result<(), Error> {
    if replaces {
        return Ok(std::fs::rename(from, to)?);
    }
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(Error::Refused("the target has a file of that name".into())),
        // The file system does not support the flag.
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => {
            Ok(std::fs::rename(from, to)?)
        }
        Err(errno) => Err(std::io::Error::from(errno).into()),
    }
}

/// Whether a directory's file system takes names that differ only in case for one.
fn ignores_case(directory: &File) -> bool {
    /// FS_CASEFOLD_FL of linux/fs.h.
    const CASEFOLD: u32 = 0x4000_0000;
    /// Magic numbers of statfs: vfat, exfat, ntfs3, cifs, smb3, hfs+.
    const IGNORE_CASE: [i64; 6] =
        [0x4D44, 0x2011_BAB0, 0x7366_746E, 0xFF53_4D42, 0xFE53_4D42, 0x482B];
    let has_flag =
        rustix::fs::ioctl_getflags(directory).is_ok_and(|flags| flags.bits() & CASEFOLD != 0);
    let is_of = |found: rustix::fs::StatFs| IGNORE_CASE.contains(&found.f_type);
    has_flag || rustix::fs::fstatfs(directory).is_ok_and(is_of)
}

/// Creates a file, or empties that of an interrupted run. A private one is always new: whoever has
/// opened the other could read on.
fn create(path: &Path, is_private: bool) -> Result<File, Error> {
    if !is_private {
        return create_truncated(path);
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    open(path, OpenOptions::new().read(true).write(true).create_new(true).mode(0o600))
}

fn create_truncated(path: &Path) -> Result<File, Error> {
    open(path, OpenOptions::new().read(true).write(true).create(true).truncate(true))
}

/// Fills `out` as far as possible without waiting for a disk; returns the number of bytes.
fn read_ready(file: &File, at: u64, out: &mut [u8]) -> usize {
    let mut filled = 0;
    while filled < out.len() {
        let rest = &mut [IoSliceMut::new(&mut out[filled..])];
        match rustix::io::preadv2(file, rest, at + filled as u64, ReadWriteFlags::NOWAIT) {
            Ok(count @ 1..) => filled += count,
            // The file system does not support RWF_NOWAIT, but never blocks on a disk.
            Err(Errno::OPNOTSUPP) if is_in_memory(file) => {
                return read_full(file, at, out).unwrap_or(0);
            }
            // End of file, a read that would block, or an error: the blocking read finds out.
            Ok(0) | Err(_) => break,
        }
    }
    filled
}

/// Whether the file is on a tmpfs.
fn is_in_memory(file: &File) -> bool {
    /// TMPFS_MAGIC of linux/magic.h.
    const TMPFS: i64 = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == TMPFS)
}

/// Fills `out` up to the end of the file; returns the number of bytes.
fn read_full(file: &File, at: u64, out: &mut [u8]) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < out.len() {
        match file.read_at(&mut out[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

fn seek_ranges(file: &File, size: u64) -> Option<Ranges> {
    let (mut at, mut found) = (0, Vec::new());
    while at < size && found.len() < RANGES_MAX {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => return Some(Ranges::of(found)),
            Err(_) => return None,
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).ok()?.min(size);
        if end <= start {
            return None;
        }
        found.push(start..end);
        at = end;
    }
    (at >= size).then(|| Ranges::of(found))
}

fn set_facts(file: &File, facts: &ItemFacts) -> Result<(), Error> {
    if let Some(mode) = facts.mode {
        file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
    }
    let mut times = FileTimes::new();
    if let Some(accessed) = facts.accessed {
        times = times.set_accessed(system_time(accessed));
    }
    if let Some(written) = facts.written {
        times = times.set_modified(system_time(written));
    }
    if facts.accessed.is_some() || facts.written.is_some() {
        file.set_times(times)?;
    }
    Ok(())
}

fn system_time(nanos: i128) -> SystemTime {
    let seconds = u64::try_from(nanos.unsigned_abs() / NANOS as u128).unwrap_or(0);
    let away = Duration::new(seconds, (nanos.unsigned_abs() % NANOS as u128) as u32);
    let time = if nanos < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(away)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(away)
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

fn item_of(name: String, metadata: &Metadata) -> CopyItem {
    let kind = if metadata.is_dir() {
        ItemKind::Directory
    } else if metadata.is_file() {
        ItemKind::File
    } else if metadata.is_symlink() {
        ItemKind::Link
    } else {
        ItemKind::Other
    };
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * NANOS + i128::from(nanos);
    let size_bytes = metadata.len();
    CopyItem {
        name,
        kind,
        size_bytes,
        is_sparse: size_bytes >= SPARSE_BYTES_MIN && metadata.blocks() * 512 < size_bytes,
        change: nanos(metadata.ctime(), metadata.ctime_nsec()) as u64,
        facts: ItemFacts {
            created: None,
            accessed: Some(nanos(metadata.atime(), metadata.atime_nsec())),
            written: Some(nanos(metadata.mtime(), metadata.mtime_nsec())),
            dos: None,
            mode: Some(metadata.mode() & 0o7777),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_survive_a_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let file = create_truncated(&folder.path().join("a")).unwrap();
        for nanos in [0, 1, -1, 1_600_000_000_123_456_789, -86_400_000_000_001] {
            let facts = ItemFacts { written: Some(nanos), ..ItemFacts::default() };
            set_facts(&file, &facts).unwrap();
            assert_eq!(
                item_of(String::new(), &file.metadata().unwrap()).facts.written,
                Some(nanos)
            );
        }
    }

    #[tokio::test]
    async fn reads_return_the_file_s_bytes_up_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let whole: Vec<u8> = (0..300_000_u32).map(|at| (at * 7 >> 3) as u8).collect();
        std::fs::write(folder.path().join("a"), &whole).unwrap();
        let local = Local::new(folder.path().to_owned());
        let file = local.open_source("a").await.unwrap();
        // Longer reads before shorter ones, so that reused buffers hold more than is requested.
        for (at, length) in [(0, 200_000), (100_000, 50_000), (250_000, 100_000), (300_000, 10)] {
            let data = local.read(&file, at as u64, length).await.unwrap();
            let end = (at + length as usize).min(whole.len());
            assert_eq!(data[..], whole[at..end], "{at}");
        }
    }

    #[test]
    fn symlink_at_the_target_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, link) = (folder.path().join("kept"), folder.path().join("link"));
        std::fs::write(&kept, "kept").unwrap();
        std::os::unix::fs::symlink(&kept, &link).unwrap();
        assert!(create_truncated(&link).is_err());
        assert_eq!(std::fs::read(&kept).unwrap(), b"kept");
    }

    #[tokio::test]
    async fn new_entry_is_private_until_it_gets_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let local = Local::new(folder.path().to_owned()).creating_private();
        std::fs::write(path("file"), "of an interrupted run").unwrap();
        std::fs::set_permissions(path("file"), Permissions::from_mode(0o644)).unwrap();
        local.open_target("file", true).await.unwrap();
        local.make_directory("directory").await.unwrap();
        let data = Bytes::from_static(b"a");
        let facts = ItemFacts { mode: Some(0o604), ..ItemFacts::default() };
        let kept = [("whole", ItemFacts::default()), ("given", facts)];
        for (name, facts) in &kept {
            let (path, data) = (*name, &data);
            let whole = Whole { temporary: "temporary", path, replaces: false, data, facts };
            local.put(&whole).await.unwrap();
        }
        let modes = [("file", 0o600), ("directory", 0o700), ("whole", 0o600), ("given", 0o604)];
        for (name, mode) in modes {
            assert_eq!(path(name).metadata().unwrap().mode() & 0o777, mode, "{name}");
        }
        assert_eq!(path("file").metadata().unwrap().len(), 0);
    }

    #[test]
    fn sparse_file_reports_its_data_ranges() {
        let folder = tempfile::tempdir().unwrap();
        let file = create_truncated(&folder.path().join("a")).unwrap();
        file.set_len(10 << 20).unwrap();
        file.write_all_at(&[1; 4096], 5 << 20).unwrap();
        let found = seek_ranges(&file, 10 << 20).unwrap();
        assert!(found.bytes() <= 1 << 20 && found.parts()[0].contains(&(5 << 20)), "{found:?}");
        assert!(item_of("a".into(), &file.metadata().unwrap()).is_sparse);
    }
}
