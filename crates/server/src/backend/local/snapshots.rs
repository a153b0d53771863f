//! Location and naming of a share's snapshots (previous versions).

use std::path::{Path, PathBuf};
use vfs_local::{NameFormat, SnapshotNaming, SnapshotPlace};

/// Default name formats: Windows and Samba, TrueNAS, sanoid, zfs-auto-snapshot, CephFS schedules.
const NAMES: [&str; 6] = [
    "@GMT-%Y.%m.%d-%H.%M.%S",
    "auto-%Y-%m-%d_%H-%M",
    "autosnap_%Y-%m-%d_%H:%M:%S_*",
    "zfs-auto-snap_*-%Y-%m-%d-%H%M",
    "scheduled-%Y-%m-%d-%H_%M_%S_UTC",
    "scheduled-%Y-%m-%d-%H_%M_%S",
];

/// The snapshot tool, which determines the location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SnapshotTool {
    /// snapper, in `.snapshots`.
    Snapper,
    /// ZFS, in `.zfs/snapshot`.
    #[default]
    Zfs,
    /// CephFS, in `.snap`.
    CephFs,
    /// Any tool; the directory may be relative to the snapshots' root.
    Directory(PathBuf),
}

/// Snapshot keys of a share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotsConfig {
    /// See [`SnapshotTool`].
    pub kept: SnapshotTool,
    /// Name format; `None` means all well-known ones.
    pub names: Option<String>,
    /// Directory of which the snapshots are; `None` means the share's.
    pub root: Option<PathBuf>,
}

impl SnapshotTool {
    /// Parses the value of the key `snapshots`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        match text {
            "snapper" => Self::Snapper,
            "zfs" => Self::Zfs,
            "cephfs" => Self::CephFs,
            directory => Self::Directory(directory.into()),
        }
    }
}

impl SnapshotsConfig {
    /// Checks the settings for a share at `share`, without a look at the disk.
    ///
    /// # Errors
    /// The problem, as a text for an administrator.
    pub(crate) fn check(&self, share: &Path) -> Result<(), String> {
        self.place(share, true).map(drop)
    }

    /// The location for the backend.
    ///
    /// # Errors
    /// The problem, as a text for an administrator.
    pub(super) fn place(&self, share: &Path, follows_links: bool) -> Result<SnapshotPlace, String> {
        let root = self.root.as_deref().unwrap_or(share);
        let inside = share.strip_prefix(root).map_err(|_| {
            format!("snapshot_root = {root:?} is not a directory above the share, {share:?}")
        })?;
        let directory = match &self.kept {
            SnapshotTool::Snapper => root.join(".snapshots"),
            SnapshotTool::Zfs => root.join(".zfs/snapshot"),
            SnapshotTool::CephFs => root.join(".snap"),
            SnapshotTool::Directory(directory) => root.join(directory),
        };
        let naming = match (&self.kept, &self.names) {
            (SnapshotTool::Snapper, None) => SnapshotNaming::Snapper,
            (SnapshotTool::Snapper, Some(_)) => {
                return Err("snapper names its snapshots by numbers; remove snapshot_names".into());
            }
            (_, Some(form)) => {
                let form = NameFormat::new(form);
                SnapshotNaming::Names(vec![form.map_err(|e| format!("snapshot_names: {e}"))?])
            }
            (_, None) => {
                let known = NAMES.iter().map(|form| NameFormat::new(form));
                SnapshotNaming::Names(known.collect::<Result<_, _>>().map_err(|e| e.to_string())?)
            }
        };
        let (root, inside) = (root.to_owned(), inside.into());
        Ok(SnapshotPlace { directory, root, naming, inside, follows_links })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(kept: &str, names: Option<&str>, root: Option<&str>) -> Result<SnapshotPlace, String> {
        let (names, root) = (names.map(str::to_owned), root.map(PathBuf::from));
        let config = SnapshotsConfig { kept: SnapshotTool::of(kept), names, root };
        config.place(Path::new("/srv/data"), true)
    }

    #[test]
    fn snapshot_tool_determines_directory_and_naming() {
        let zfs = place("zfs", None, None).unwrap();
        assert_eq!(zfs.directory, Path::new("/srv/data/.zfs/snapshot"));
        assert!(matches!(zfs.naming, SnapshotNaming::Names(forms) if forms.len() == NAMES.len()));
        let snapper = place("snapper", None, Some("/srv")).unwrap();
        assert_eq!(snapper.directory, Path::new("/srv/.snapshots"));
        assert_eq!((snapper.naming, snapper.inside), (SnapshotNaming::Snapper, "data".into()));
        let lvm = place("/mnt/kept", Some("%s"), Some("/srv/data")).unwrap();
        assert_eq!((lvm.directory, lvm.inside), ("/mnt/kept".into(), "".into()));
        assert_eq!(place(".kept", None, None).unwrap().directory, Path::new("/srv/data/.kept"));
    }

    #[test]
    fn invalid_snapshot_settings_are_reported() {
        assert!(place("zfs", None, Some("/home")).unwrap_err().contains("snapshot_root"));
        assert!(place("zfs", Some("%Q"), None).unwrap_err().contains("snapshot_names"));
        assert!(place("snapper", Some("%s"), None).is_err());
    }
}
