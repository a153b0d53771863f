//! Reads by `preadv2`, and whether a read would block on the disk.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;

/// True if the file system is in memory only.
pub fn is_of_memory(fd: &OwnedFd) -> bool {
    /// TMPFS_MAGIC of linux/magic.h.
    const TMPFS: i64 = 0x0102_1994;
    rustix::fs::fstatfs(fd).is_ok_and(|found| found.f_type == TMPFS)
}

/// True if the file system is in memory, and the complete range is resident: neither swapped out
/// nor a hole.
pub fn is_all_in_memory(fd: &OwnedFd, offset: u64, length: usize) -> bool {
    if !is_of_memory(fd) {
        return false;
    }
    let Ok(found) = rustix::fs::fstat(fd) else { return false };
    let left = u64::try_from(found.st_size).unwrap_or(0).saturating_sub(offset);
    let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
    length == 0 || is_cached(fd, offset, length)
}

/// True if all pages of the range are in the page cache: by `cachestat` if the kernel has it, else
/// by a non-blocking read of the last byte.
pub fn is_cached(fd: &OwnedFd, offset: u64, length: usize) -> bool {
    #[repr(C)]
    #[derive(Default)]
    struct CacheStat {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    const SYS_CACHESTAT: libc::c_long = 451;
    const PAGE: u64 = 4096;
    let range = [offset, length as u64];
    let mut stat = CacheStat::default();
    // SAFETY: the call reads two integers and writes five, at the places given.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, fd.as_raw_fd(), &range, &mut stat, 0) };
    if result == 0 {
        let pages = (offset + length as u64).div_ceil(PAGE) - offset / PAGE;
        return stat.cached >= pages;
    }
    let mut byte = Vec::with_capacity(1);
    let last = offset + (length as u64).saturating_sub(1);
    matches!(read_some(fd, last, 1, &mut byte, libc::RWF_NOWAIT), Ok(1))
}

/// One `preadv2` into the spare capacity of `into`.
pub fn read_some(
    fd: &OwnedFd,
    offset: u64,
    length: usize,
    into: &mut Vec<u8>,
    flags: i32,
) -> rustix::io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
    let spare = &mut into.spare_capacity_mut()[..length];
    let vector = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: length };
    // SAFETY: the vector covers `length` bytes of spare capacity that nobody
    // else refers to while the call runs.
    let count = unsafe { libc::preadv2(fd.as_raw_fd(), &vector, 1, offset, flags) };
    let count = usize::try_from(count).map_err(|_| last_errno())?;
    // SAFETY: the kernel initialised `count` bytes after the present length,
    // and `count <= length <= spare capacity`.
    unsafe { into.set_len(into.len() + count) };
    Ok(count)
}

pub fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use crate::LocalVfs;
    use vfs::{Actor, AttributeRequest, Case, FsError, Name, OpenHow, RelPath, Vfs, Wait};

    #[test]
    fn tmpfs_read_never_blocks_even_without_nowait_support() {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
        let whole: Vec<u8> = (0..100_000_u32).map(|at| (at * 7 >> 3) as u8).collect();
        std::fs::write(folder.path().join("file"), &whole).unwrap();
        let file = std::fs::File::create(folder.path().join("hole")).unwrap();
        file.set_len(100_000).unwrap();
        let opened = std::fs::File::open(folder.path().join("file")).unwrap();
        if !super::is_cached(&opened.into(), 0, 1) {
            // Kernels before 6.5 have no cachestat.
            return;
        }
        let vfs = LocalVfs::open(folder.path()).unwrap();
        let open = |name: &[u8]| {
            let path = RelPath::root().join(&Name::new(name).unwrap());
            let (case, wait, wanted) =
                (Case::Sensitive, Wait::Allowed, AttributeRequest::default());
            let how = OpenHow { read: true, write: false, case, wanted, no_follow: true, wait };
            vfs.open(Actor::SUPERUSER, &path, how).unwrap().node
        };
        let file = open(b"file");
        assert!(file.local_file().unwrap().syncs_without_waiting());
        for (at, length, found) in
            [(0, 4096, 0..4096), (99_000, 64_000, 99_000..100_000), (100_000, 10, 0..0)]
        {
            let mut read = Vec::new();
            let count = file.read(at, length, &mut read, Wait::Never).unwrap();
            assert_eq!((count, &read[..]), (found.len(), &whole[found]));
        }
        // If non-blocking reads are supported, a hole does not block.
        let hole = open(b"hole").read(0, 10, &mut Vec::new(), Wait::Never);
        assert!(matches!(hole, Ok(10) | Err(FsError::NotSupported)), "{hole:?}");
    }

    #[test]
    fn sync_may_block_except_on_memory_file_systems() {
        // Every kernel file system has its own magic number; procfs is not tmpfs.
        let elsewhere = std::fs::File::open("/proc/self/status").unwrap();
        assert!(!super::is_of_memory(&elsewhere.into()));
    }
}
