//! A disk that fails under the server. `conformance/python/power_errors.py` triggers the failures, and
//! checks the replies to clients and the messages to administrators.

use super::device::{LoopDevice, ReplacedDisk};
use super::file_system::KernelFileSystem;
use super::fuse::{DiskFiles, DiskResult, FuseDisk};
use super::worker::MountWorker;
use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A write that contains this text fails like one to a bad sector; the surrounding data are stored.
const BAD_SECTOR: &str = "data of a sector that cannot be written";
/// A write that contains this text fails as on a thin volume whose pool is full.
const NO_ROOM: &str = "data that the disk has no room for";
/// Timeout of the checks, which take seconds.
const CHECKS_SECONDS_MAX: u32 = 100;

/// A disk that refuses some data, and fails entirely on command.
#[derive(Debug)]
struct FailingDisk {
    disk: ReplacedDisk,
    is_gone: AtomicBool,
}

impl FailingDisk {
    fn new(size_bytes: u64) -> Self {
        Self { disk: ReplacedDisk::new(size_bytes), is_gone: AtomicBool::new(false) }
    }

    fn require_present(&self) -> DiskResult {
        if self.is_gone.load(Ordering::Acquire) { Err(Errno::IO) } else { Ok(()) }
    }
}

impl FuseDisk for FailingDisk {
    fn size_bytes(&self) -> u64 {
        self.disk.size_bytes()
    }

    fn read(&self, offset_bytes: u64, out: &mut [u8]) -> DiskResult {
        self.require_present()?;
        self.disk.read(offset_bytes, out)
    }

    fn write(&self, offset_bytes: u64, data: &[u8]) -> DiskResult {
        self.require_present()?;
        for (mark, error) in [(BAD_SECTOR, Errno::IO), (NO_ROOM, Errno::NOSPC)] {
            if data.windows(mark.len()).any(|bytes| bytes == mark.as_bytes()) {
                return Err(error);
            }
        }
        self.disk.write(offset_bytes, data)
    }

    fn zero(&self, offset_bytes: u64, length_bytes: u64) -> DiskResult {
        self.require_present()?;
        self.disk.zero(offset_bytes, length_bytes)
    }

    fn flush(&self) -> DiskResult {
        self.require_present()
    }
}

/// Whether the checks have passed on each of these file systems.
pub fn run(root: &Path, file_systems: &[KernelFileSystem], folder: &Path) -> Result<bool> {
    let mut has_passed = true;
    for file_system in file_systems {
        let own = folder.join(file_system.name());
        has_passed &= run_on(root, *file_system, &own)?;
    }
    let outcome = if has_passed { "all of them are reported" } else { "FAILED" };
    println!("power: disks that fail: {outcome}");
    Ok(has_passed)
}

fn run_on(root: &Path, file_system: KernelFileSystem, folder: &Path) -> Result<bool> {
    let place = |name: &str| -> Result<PathBuf> {
        let place = folder.join(name);
        fs::create_dir_all(&place)?;
        Ok(place)
    };
    let (files, live, work) = (place("failing")?, place("live")?, place("work")?);
    let disk = Arc::new(FailingDisk::new(file_system.disk_bytes()));
    let files = DiskFiles::mount(&files, vec![disk.clone()])?;
    let device = LoopDevice::attach(&files.path(0))?;
    file_system.format(&device)?;
    let mut worker = MountWorker::start()?;
    worker.mount(file_system, &device.path, &live)?;
    let mut checks = Command::new("timeout");
    checks
        .args([&format!("{CHECKS_SECONDS_MAX}"), "python3"])
        .arg(root.join("conformance/python/power_errors.py"))
        .args(["--bad-sector", BAD_SECTOR, "--no-room", NO_ROOM])
        .args([Path::new("--binary"), &super::binary()?, Path::new("--mount"), &live])
        .args([Path::new("--work"), &work]);
    let has_passed = supervise(&mut checks, file_system, &disk)?;
    worker.unmount(&live)?;
    Ok(has_passed)
}

/// Fails the disk when the checks print the line `gone`, and prints the other lines. Returns whether
/// the checks have passed.
fn supervise(
    checks: &mut Command,
    file_system: KernelFileSystem,
    disk: &FailingDisk,
) -> Result<bool> {
    let mut checks =
        checks.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("timeout")?;
    let (Some(mut input), Some(output)) = (checks.stdin.take(), checks.stdout.take()) else {
        bail!("cannot open pipes to power_errors.py");
    };
    for line in BufReader::new(output).lines() {
        let line = line?;
        if line == "gone" {
            disk.is_gone.store(true, Ordering::Release);
            input.write_all(b"done\n")?;
        } else {
            println!("{}: {line}", file_system.name());
        }
    }
    Ok(checks.wait()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_write_keeps_what_was_there() {
        let disk = FailingDisk::new(1 << 20);
        assert_eq!(disk.write(0, &[7; 8192]), Ok(()));
        for (mark, error) in [(BAD_SECTOR, Errno::IO), (NO_ROOM, Errno::NOSPC)] {
            let mut bad = vec![8; 4096];
            bad[100..100 + mark.len()].copy_from_slice(mark.as_bytes());
            assert_eq!(disk.write(4096, &bad), Err(error));
        }
        let mut out = vec![0; 4096];
        assert_eq!(disk.read(4096, &mut out), Ok(()));
        assert_eq!(out, [7; 4096]);
    }

    #[test]
    fn disk_that_is_gone_fails_every_request() {
        let disk = FailingDisk::new(1 << 20);
        assert_eq!(disk.flush(), Ok(()));
        disk.is_gone.store(true, Ordering::Release);
        let all = [
            disk.read(0, &mut [0; 512]),
            disk.write(0, &[0; 512]),
            disk.zero(0, 512),
            disk.flush(),
        ];
        assert_eq!(all, [Err(Errno::IO); 4]);
    }
}
