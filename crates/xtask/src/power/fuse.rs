//! Disks as files of a file system of our own: the kernel's FUSE protocol, version 7.31, as far as
//! a loop device needs it. A loop device passes on each flush as FSYNC.
//!
//! One thread serves all disks, one request after another: what has arrived before a request is
//! complete when it is served.

use anyhow::Context;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest WRITE, in bytes.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a request's header, before its arguments.
const HEADER_BYTES: usize = 40;
/// Node of the root; disks follow.
const ROOT: u64 = 1;
/// INIT's flag for requests of more than 32 pages.
const MAX_PAGES: u32 = 1 << 22;
/// INIT's flag for writes of more than a page.
const BIG_WRITES: u32 = 1 << 5;
/// OPEN's flag: the kernel caches nothing.
const DIRECT_IO: u32 = 1;

/// Result of a disk operation; an error is returned to the kernel.
pub type DiskResult = Result<(), Errno>;

/// The disk behind a file of [`DiskFiles`].
pub trait FuseDisk: Send + Sync {
    /// Its size, in bytes.
    fn size_bytes(&self) -> u64;
    /// Fills `out`.
    fn read(&self, offset_bytes: u64, out: &mut [u8]) -> DiskResult;
    /// Writes.
    fn write(&self, offset_bytes: u64, data: &[u8]) -> DiskResult;
    /// Discards.
    fn zero(&self, offset_bytes: u64, length_bytes: u64) -> DiskResult;
    /// Makes all written data stable.
    fn flush(&self) -> DiskResult;
}

/// A mounted file system whose files are disks; unmounted when dropped.
#[derive(Debug)]
pub struct DiskFiles {
    folder: PathBuf,
}

impl DiskFiles {
    /// Mounts at `folder`, an existing directory, with `disks` as its files `0`, `1` and so on.
    /// Needs root. Fails where the kernel has no FUSE.
    pub fn mount(folder: &Path, disks: Vec<Arc<dyn FuseDisk>>) -> anyhow::Result<Self> {
        let device = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .context("/dev/fuse: the lane needs FUSE")?;
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = CString::new(options)?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        rustix::mount::mount("power", folder, "fuse", flags, options.as_c_str())
            .context("mount of a FUSE file system")?;
        std::thread::spawn(move || serve(&device, &disks));
        Ok(Self { folder: folder.to_owned() })
    }

    /// Path of a disk's file.
    pub fn path(&self, disk: usize) -> PathBuf {
        self.folder.join(disk.to_string())
    }
}

impl Drop for DiskFiles {
    fn drop(&mut self) {
        // The namespace ends with the process in any case.
        let _ = rustix::mount::unmount(&self.folder, UnmountFlags::DETACH);
    }
}

/// Serves requests until the file system is unmounted.
fn serve(device: &File, disks: &[Arc<dyn FuseDisk>]) {
    let mut buffer = vec![0; WRITE_BYTES_MAX + 4096];
    loop {
        let length = match rustix::io::read(device, &mut buffer) {
            Ok(length) => length,
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            Err(_) => return,
        };
        let request = FuseRequest(&buffer[..length]);
        if let Some(answer) = answer(&request, disks) {
            let frame = answer.frame(request.unique());
            // An interrupted request needs no reply.
            let _ = rustix::io::write(device, &frame);
        }
    }
}

/// A request with its header. The kernel's lengths are trusted.
struct FuseRequest<'a>(&'a [u8]);

impl FuseRequest<'_> {
    fn u32(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        u32::from_ne_bytes(bytes.unwrap_or_default())
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_ne_bytes(bytes.unwrap_or_default())
    }

    fn operation(&self) -> u32 {
        self.u32(4)
    }

    fn unique(&self) -> u64 {
        self.u64(8)
    }

    fn node(&self) -> u64 {
        self.u64(16)
    }

    /// A name that ends with a zero.
    fn name(&self) -> &[u8] {
        self.0[HEADER_BYTES..].split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// Error and body of a reply.
struct FuseAnswer {
    error: i32,
    body: Vec<u8>,
}

impl FuseAnswer {
    fn done() -> Self {
        Self { error: 0, body: Vec::new() }
    }

    fn error(error: Errno) -> Self {
        Self { error: -error.raw_os_error(), body: Vec::new() }
    }

    fn u16(mut self, number: u16) -> Self {
        self.body.extend(number.to_ne_bytes());
        self
    }

    fn u32(mut self, number: u32) -> Self {
        self.body.extend(number.to_ne_bytes());
        self
    }

    fn u64(mut self, number: u64) -> Self {
        self.body.extend(number.to_ne_bytes());
        self
    }

    fn zeros(mut self, bytes: usize) -> Self {
        self.body.resize(self.body.len() + bytes, 0);
        self
    }

    /// `fuse_attr`.
    fn attributes(self, node: u64, disks: &[Arc<dyn FuseDisk>]) -> Self {
        let size = disk_of(node, disks).map_or(0, |disk| disk.size_bytes());
        let mode = if node == ROOT { 0o040_755 } else { 0o100_600 };
        // Times are zero; then mode, links, owner, group, device, block size, flags.
        let sized = self.u64(node).u64(size).u64(size / 512).zeros(24 + 12);
        sized.u32(mode).u32(1).zeros(12).u32(4096).zeros(4)
    }

    fn frame(&self, unique: u64) -> Vec<u8> {
        let mut frame = Vec::with_capacity(16 + self.body.len());
        frame.extend((16 + self.body.len() as u32).to_ne_bytes());
        frame.extend(self.error.to_ne_bytes());
        frame.extend(unique.to_ne_bytes());
        frame.extend(&self.body);
        frame
    }
}

fn disk_of(node: u64, disks: &[Arc<dyn FuseDisk>]) -> Option<&Arc<dyn FuseDisk>> {
    disks.get(usize::try_from(node.checked_sub(ROOT + 1)?).ok()?)
}

/// The reply, if the operation has one. Numbers are those of `enum fuse_opcode`.
fn answer(request: &FuseRequest<'_>, disks: &[Arc<dyn FuseDisk>]) -> Option<FuseAnswer> {
    let node = request.node();
    Some(match request.operation() {
        // FORGET, INTERRUPT, BATCH_FORGET.
        2 | 36 | 42 => return None,
        26 => init(request),
        // LOOKUP.
        1 => {
            let name = std::str::from_utf8(request.name()).ok()?.parse::<u64>();
            match name.ok().map(|number| ROOT + 1 + number) {
                // Node, generation, validity of the entry and the attributes.
                Some(node) if disk_of(node, disks).is_some() => {
                    FuseAnswer::done().u64(node).zeros(32).attributes(node, disks)
                }
                _ => FuseAnswer::error(Errno::NOENT),
            }
        }
        // GETATTR, SETATTR.
        3 | 4 => FuseAnswer::done().zeros(16).attributes(node, disks),
        // OPEN, OPENDIR.
        14 => FuseAnswer::done().u64(0).u32(DIRECT_IO).u32(0),
        27 => FuseAnswer::done().zeros(16),
        // READDIR is not needed: nobody lists the mount.
        28 => FuseAnswer::done(),
        // STATFS: blocks of 4 KiB, names of 255 bytes.
        17 => FuseAnswer::done().zeros(40).u32(4096).u32(255).zeros(32),
        // RELEASE, FLUSH, RELEASEDIR, DESTROY: of files, not of disks.
        18 | 25 | 29 | 38 => FuseAnswer::done(),
        15 | 16 | 20 | 43 => match disk_of(node, disks) {
            Some(disk) => transfer(request, disk.as_ref()),
            None => FuseAnswer::error(Errno::ISDIR),
        },
        _ => FuseAnswer::error(Errno::NOSYS),
    })
}

fn init(request: &FuseRequest<'_>) -> FuseAnswer {
    let read_ahead = request.u32(HEADER_BYTES + 8);
    let flags = request.u32(HEADER_BYTES + 12) & (MAX_PAGES | BIG_WRITES);
    let pages = (WRITE_BYTES_MAX / 4096) as u16;
    // Version, limits of background requests, time's granularity, alignment and the rest.
    let versioned = FuseAnswer::done().u32(7).u32(31).u32(read_ahead).u32(flags);
    versioned.u16(16).u16(12).u32(WRITE_BYTES_MAX as u32).u32(1).u16(pages).zeros(34)
}

/// READ, WRITE, FSYNC, FALLOCATE.
fn transfer(request: &FuseRequest<'_>, disk: &dyn FuseDisk) -> FuseAnswer {
    try_transfer(request, disk).unwrap_or_else(FuseAnswer::error)
}

fn try_transfer(request: &FuseRequest<'_>, disk: &dyn FuseDisk) -> Result<FuseAnswer, Errno> {
    let (offset, length) = (request.u64(HEADER_BYTES + 8), request.u32(HEADER_BYTES + 16));
    Ok(match request.operation() {
        15 => {
            let left = disk.size_bytes().saturating_sub(offset);
            let mut body = vec![0; u64::from(length).min(left) as usize];
            disk.read(offset, &mut body)?;
            FuseAnswer { error: 0, body }
        }
        16 => {
            let data = &request.0[HEADER_BYTES + 40..];
            if offset + data.len() as u64 > disk.size_bytes() {
                return Err(Errno::NOSPC);
            }
            disk.write(offset, data)?;
            FuseAnswer::done().u32(length).u32(0)
        }
        20 => {
            disk.flush()?;
            FuseAnswer::done()
        }
        _ => {
            disk.zero(offset, request.u64(HEADER_BYTES + 16))?;
            FuseAnswer::done()
        }
    })
}
