//! Disk failures by device. Acknowledged data may be lost then: administrators are notified, and
//! continuously available shares stop.

use crate::{Files, Volume};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::Mutex;
use vfs::{FileKey, FsError};

/// Number of failure counters; devices may share one. A power of two.
const COUNTS: usize = 64;

/// Limit of devices whose failures are recorded: more than a machine serves at once.
const DEVICES_MAX: usize = 1024;

/// Failures of a disk since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFailure {
    /// Number of failed syncs.
    pub count: u64,
    /// The last error.
    pub error: FsError,
    /// Whether it failed other than by a full disk: acknowledged data may be lost.
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

/// Failures of all devices.
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
        // Adjacent device numbers differ in their lowest bits.
        &self.counts[(file.device % COUNTS as u64) as usize]
    }

    /// Records that a file could not be synced. Errors that do not concern the disk, such as too
    /// many open files or a local lease, are ignored.
    pub fn note(&self, file: FileKey, error: FsError) {
        if !matches!(error, FsError::Io | FsError::NoSpace | FsError::OverQuota) {
            return;
        }
        self.count_of(file).fetch_add(1, Ordering::AcqRel);
        let mut by_device = self.by_device.lock();
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
                "written data was not stored: check the kernel log and the file system, then \
                 restart the server"
            );
        }
    }
}

impl Files {
    /// Number of failed syncs on the device of a file. Linux reports a failure once to each open
    /// descriptor, and to none opened later. If the number has changed since a write, its data may
    /// be lost even though a later sync succeeds.
    #[must_use]
    pub fn flushes_failed(&self, file: FileKey) -> u64 {
        self.disk_failures.count_of(file).load(Ordering::Acquire)
    }

    /// Failure of the disk with the volume's root; none if it has not failed. It costs one load
    /// without failures.
    #[must_use]
    pub fn disk_failure(&self, volume: &Volume) -> Option<DiskFailure> {
        if !self.disk_failures.has_any.load(Ordering::Acquire) {
            return None;
        }
        let device = volume.vfs_serial();
        let by_device = self.disk_failures.by_device.lock();
        by_device.get(&device).copied()
    }
}
