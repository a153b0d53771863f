//! Shares whose disks failed to store written data.

use files::{DiskFailure, Files};

/// A share with a failed disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareDisk {
    /// The share's name.
    pub share: String,
    /// The failure since the start.
    pub failure: DiskFailure,
    /// The share refuses its clients; see [`smb::SmbShare::has_stopped`].
    pub has_stopped: bool,
}

/// All shares with a disk failure since the start.
#[must_use]
pub fn all(config: &smb::SmbConfig, files: &Files) -> Vec<ShareDisk> {
    let failed = config.shares.iter().filter_map(|share| {
        let failure = files.disk_failure(share.volume.as_ref()?)?;
        let has_stopped = share.has_stopped(files);
        Some(ShareDisk { share: share.name.clone(), failure, has_stopped })
    });
    failed.collect()
}
