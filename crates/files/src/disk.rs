//! Disks that did not keep what was written, by device: what was answered as kept may not be, which
//! administrators are told, and shares that promise to go on stop.

use crate::{Files, Volume};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use vfs::{FileKey, FsError};

/// Devices that failures are counted for apart; others share a count. A power of two.
const COUNTS: usize = 64;

/// Devices of which is known how they failed: as many as a machine has served at once.
const DEVICES_MAX: usize = 1024;

/// How a disk has failed since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFailure {
    /// Times that something could not be made stable.
    pub count: u64,
    /// The last error.
    pub error: FsError,
    /// It has failed otherwise than by being full: what it had taken may be gone.
    pub has_lost: bool,
}

impl DiskFailure {
    /// The last error, in an administrator's words.
    #[must_use]
    pub fn reason(&self) -> String {
        match self.error {
            FsError::Io => "I/O error".to_owned(),
            FsError::NoSpace => "no space left".to_owned(),
            FsError::OverQuota => "quota exceeded".to_owned(),
            FsError::ReadOnly => "file system is read-only".to_owned(),
            other => other.to_string(),
        }
    }
}

/// The failures of all devices.
#[derive(Debug)]
pub(crate) struct DiskFailures {
    has_any: AtomicBool,
    counts: [AtomicU64; COUNTS],
    by_device: Mutex<BTreeMap<u64, DiskFailure>>,
}

impl Default for DiskFailures {
    fn default() -> Self {
        let counts = [const { AtomicU64::new(0) }; COUNTS];
        Self { has_any: AtomicBool::new(false), counts, by_device: Mutex::default() }
    }
}

impl DiskFailures {
    fn count_of(&self, file: FileKey) -> &AtomicU64 {
        // Neighbours in number differ in their lowest bits.
        &self.counts[(file.device % COUNTS as u64) as usize]
    }

    /// The file could not be made stable. What was refused for another reason than the disk, such
    /// as too many open files, or a lease of a local process on the file, says nothing of the disk.
    pub fn note(&self, file: FileKey, error: FsError) {
        if !matches!(error, FsError::Io | FsError::NoSpace | FsError::OverQuota) {
            return;
        }
        self.count_of(file).fetch_add(1, Ordering::AcqRel);
        let mut by_device = self.by_device.lock().unwrap_or_else(PoisonError::into_inner);
        if by_device.len() >= DEVICES_MAX && !by_device.contains_key(&file.device) {
            return;
        }
        let new = DiskFailure { count: 0, error, has_lost: false };
        let failure = by_device.entry(file.device).or_insert(new);
        failure.count += 1;
        failure.error = error;
        failure.has_lost |= error == FsError::Io;
        self.has_any.store(true, Ordering::Release);
        if failure.count == 1 {
            tracing::error!(
                device = file.device,
                error = failure.reason(),
                "a disk did not keep what was written: look into the system's log, check the file \
                 system, then start the server again"
            );
        }
    }
}

impl Files {
    /// How many flushes have failed on the device of a file. Linux tells each descriptor of a
    /// failure once, and not those that are opened afterwards: what was written before it by
    /// whoever finds another number now may be lost, though a flush of today succeeds.
    #[must_use]
    pub fn flushes_failed(&self, file: FileKey) -> u64 {
        self.disk_failures.count_of(file).load(Ordering::Acquire)
    }

    /// How the disk that the volume's root is on has failed; none if it has not. One load where no
    /// disk has failed.
    #[must_use]
    pub fn disk_failure(&self, volume: &Volume) -> Option<DiskFailure> {
        if !self.disk_failures.has_any.load(Ordering::Acquire) {
            return None;
        }
        let device = volume.vfs_serial();
        let by_device = self.disk_failures.by_device.lock();
        by_device.unwrap_or_else(PoisonError::into_inner).get(&device).copied()
    }
}
