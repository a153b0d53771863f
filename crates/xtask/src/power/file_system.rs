//! File systems of the lane, with their creation and mount options.

use super::device::{LoopDevice, output};
use anyhow::{Context, Result};
use rustix::mount::MountFlags;
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::path::Path;

/// A file system of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
pub enum KernelFileSystem {
    /// ext4
    Ext4,
    /// XFS
    Xfs,
    /// btrfs
    Btrfs,
}

impl KernelFileSystem {
    /// Name for mount(8).
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Size of a disk for the workload; mkfs.xfs refuses less than 300 MiB.
    pub fn disk_bytes(self) -> u64 {
        let mebibytes = match self {
            Self::Ext4 => 128,
            Self::Xfs => 320,
            Self::Btrfs => 256,
        };
        mebibytes << 20
    }

    /// Whether files can share blocks.
    pub fn has_clones(self) -> bool {
        self != Self::Ext4
    }

    /// Whether a name may be missing after a cut when a file that was never synced replaced another
    /// one: neither file has the name. On btrfs a sync of a third file commits that the old file lost
    /// the name. It happens without any server, but not if the new file was synced before the rename.
    /// If the new file was synced afterwards and then lost the name without a promise, the old file may
    /// have it back.
    pub fn loses_replaced_names(self) -> bool {
        self == Self::Btrfs
    }

    /// Whether truncated data may reappear after a cut, within the block of the former end. The file
    /// was truncated and synced, and has grown again without a promise: btrfs may commit the new length
    /// without the zeros. It happens without any server (ftruncate, fsync, ftruncate, a commit).
    pub fn shows_cut_data(self) -> bool {
        self == Self::Btrfs
    }

    /// Disks with this file system's copies that may be mounted at once: btrfs takes two disks of one
    /// number for one file system.
    pub fn mounts_max(self) -> usize {
        if self == Self::Btrfs { 1 } else { 3 }
    }

    /// Mount options. They postpone periodic commits where the file system permits it, so that the lane
    /// tests the server's own syncs.
    fn mount_options(self) -> &'static CStr {
        match self {
            Self::Ext4 => c"commit=1000",
            Self::Xfs => c"nouuid",
            Self::Btrfs => c"commit=300,nodiscard",
        }
    }

    /// Creates the file system on a device.
    pub fn format(self, device: &LoopDevice) -> Result<()> {
        let (program, options): (_, &[&str]) = match self {
            Self::Ext4 => {
                let at_once = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
                ("mkfs.ext4", &["-q", "-F", "-b", "4096", "-E", at_once])
            }
            Self::Xfs => ("mkfs.xfs", &["-q", "-f", "-K"]),
            Self::Btrfs => ("mkfs.btrfs", &["-q", "-f", "-K"]),
        };
        output(program, &[options, &[&device.path]].concat()).map(drop)
    }

    /// Mounts it, which replays its journal.
    pub fn mount(self, device: &str, folder: &Path) -> Result<()> {
        let (flags, options) = (MountFlags::NOATIME, self.mount_options());
        rustix::mount::mount(device, folder, self.name(), flags, options)
            .with_context(|| format!("mount of {}", self.name()))
    }
}
