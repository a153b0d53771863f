//! Compression of files by their file system: `chattr +c`.

use rustix::fd::BorrowedFd;
use rustix::fs::IFlags;
use rustix::io::Errno;

/// Magic numbers of the file systems that compress a file with the compression flag: btrfs, f2fs and
/// UBIFS. ext4 stores the flag and does not compress; ZFS and bcachefs have other means.
const COMPRESSING: [i64; 3] = [0x9123_683E, 0xF2F5_2010, 0x2405_1905];

/// Whether the file system of a node compresses files with the flag. It may be mounted read-only.
pub fn compresses(node: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(node).is_ok_and(|found| COMPRESSING.contains(&found.f_type))
}

/// Sets or clears the compression flag, without changing the other flags. Refused with
/// [`Errno::OPNOTSUPP`] by a file system that does not compress: the flag would be a lie.
pub fn set_compressed(fd: BorrowedFd<'_>, compressed: bool) -> rustix::io::Result<()> {
    if !compresses(fd) {
        return Err(Errno::OPNOTSUPP);
    }
    let mut flags = rustix::fs::ioctl_getflags(fd)?;
    if flags.contains(IFlags::COMPRESSED) == compressed {
        return Ok(());
    }
    flags.set(IFlags::COMPRESSED, compressed);
    rustix::fs::ioctl_setflags(fd, flags)
}
