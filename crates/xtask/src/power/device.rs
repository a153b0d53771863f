//! Disks of this lane: one records its requests, one shows the content after a cut; and loop devices
//! on their files.

use super::fuse::{DiskResult, FuseDisk};
use super::image::DiskImage;
use super::recording::{DiskRecording, DiskRequest};
use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::process::Command;
use sync::Mutex;

/// Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A disk that records all writes, discards and flushes.
#[derive(Debug)]
pub struct RecordedDisk {
    size_bytes: u64,
    state: Mutex<(DiskImage, DiskRecording)>,
}

impl RecordedDisk {
    /// An empty disk.
    pub fn new(size_bytes: u64) -> Self {
        Self { size_bytes, state: Mutex::default() }
    }

    /// The requests that reached the disk so far.
    pub fn recording(&self) -> DiskRecording {
        self.state.lock().1.clone()
    }

    fn push(&self, request: DiskRequest) {
        let mut state = self.state.lock();
        match &request {
            DiskRequest::Write(offset, data) => state.0.write(*offset, data),
            DiskRequest::Zero(offset, length) => state.0.zero(*offset, *length),
            DiskRequest::Flush => {}
        }
        state.1.push(monotonic_ns(), request);
    }
}

impl FuseDisk for RecordedDisk {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset_bytes: u64, out: &mut [u8]) -> DiskResult {
        self.state.lock().0.read(offset_bytes, out);
        Ok(())
    }

    fn write(&self, offset_bytes: u64, data: &[u8]) -> DiskResult {
        self.push(DiskRequest::Write(offset_bytes, data.into()));
        Ok(())
    }

    fn zero(&self, offset_bytes: u64, length_bytes: u64) -> DiskResult {
        self.push(DiskRequest::Zero(offset_bytes, length_bytes));
        Ok(())
    }

    fn flush(&self) -> DiskResult {
        self.push(DiskRequest::Flush);
        Ok(())
    }
}

/// A disk whose content can be replaced while it is not mounted.
#[derive(Debug)]
pub struct ReplacedDisk {
    size_bytes: u64,
    image: Mutex<DiskImage>,
}

impl ReplacedDisk {
    /// An empty disk.
    pub fn new(size_bytes: u64) -> Self {
        Self { size_bytes, image: Mutex::default() }
    }

    /// Replaces the content.
    pub fn replace(&self, image: DiskImage) {
        *self.image.lock() = image;
    }

    fn with<T>(&self, act: impl FnOnce(&mut DiskImage) -> T) -> T {
        act(&mut self.image.lock())
    }
}

impl FuseDisk for ReplacedDisk {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset_bytes: u64, out: &mut [u8]) -> DiskResult {
        self.with(|image| image.read(offset_bytes, out));
        Ok(())
    }

    fn write(&self, offset_bytes: u64, data: &[u8]) -> DiskResult {
        self.with(|image| image.write(offset_bytes, data));
        Ok(())
    }

    fn zero(&self, offset_bytes: u64, length_bytes: u64) -> DiskResult {
        self.with(|image| image.zero(offset_bytes, length_bytes));
        Ok(())
    }

    fn flush(&self) -> DiskResult {
        Ok(())
    }
}

/// A loop device, detached when dropped.
#[derive(Debug)]
pub struct LoopDevice {
    /// Path, such as `/dev/loop0`.
    pub path: String,
}

impl LoopDevice {
    /// Attaches a loop device to this file, with sectors of [`super::image::BLOCK_BYTES`].
    pub fn attach(file: &Path) -> Result<Self> {
        let file = file.display().to_string();
        let options = ["--find", "--show", "--direct-io=on", "--sector-size=4096"];
        let path = output("losetup", &[&options[..], &[&file]].concat())?;
        Ok(Self { path: path.trim().to_owned() })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

/// Standard output of a command, which must succeed.
pub fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output().context(program.to_owned())?;
    if !output.status.success() {
        bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
