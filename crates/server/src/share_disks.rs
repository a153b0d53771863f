//! Shares whose disks did not keep what was written.

use files::{DiskFailure, Files};

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareDisk {
    /// The share's name.
    pub share: String,
    /// How its disk has failed since the start.
    pub failure: DiskFailure,
    /// Its clients are refused: see [`smb::Share::has_stopped`].
    pub has_stopped: bool,
}

/// All shares whose disks have failed since the start.
#[must_use]
pub fn all(config: &smb::Config, files: &Files) -> Vec<ShareDisk> {
    let failed = config.shares.iter().filter_map(|share| {
        let failure = files.disk_failure(share.volume.as_ref()?)?;
        let has_stopped = share.has_stopped(files);
        Some(ShareDisk { share: share.name.clone(), failure, has_stopped })
    });
    failed.collect()
}
