//! Samba's modules for previous versions, `shadow_copy2` and `snapper`, as the keys `snapshots`,
//! `snapshot_names` and `snapshot_root`.

use super::ImportMachine;
use super::text::boolean;
use crate::backend::{SnapshotTool, SnapshotsConfig};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Samba's default of `shadow:format`.
const FORMAT: &str = "@GMT-%Y.%m.%d-%H.%M.%S";
/// Samba's default of `shadow:snapdir`.
const SNAPDIR: &str = ".snapshots";

/// The values of the three keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotKeys {
    /// `snapshots`.
    pub snapshots: String,
    /// `snapshot_names`; `None` for all well-known ones.
    pub names: Option<String>,
    /// `snapshot_root`; `None` for the share's directory.
    pub root: Option<String>,
}

/// Converts the options of `shadow_copy2` for a share at `path`. Keys of `options` have no prefix.
///
/// # Errors
/// The reason for which no snapshots are shown, with the remedy.
pub fn of_shadow_copy2(
    options: &BTreeMap<String, String>,
    path: &Path,
    facts: &ImportMachine<'_>,
) -> Result<SnapshotKeys, String> {
    let option = |name: &str| options.get(name).map(String::as_str);
    let is_on = |name: &str| option(name).and_then(boolean) == Some(true);
    if is_on("snapdirseverywhere") || is_on("crossmountpoints") {
        return Err("snapshots are shown from one directory of a share; set snapshots and \
                    snapshot_root"
            .into());
    }
    if option("snapprefix").is_some() {
        return Err("names of snapshots by shadow:snapprefix are not supported; set \
                    snapshot_names"
            .into());
    }
    let format = option("format").unwrap_or(FORMAT);
    if is_on("localtime") && !facts.is_utc && !is_on("sscanf") {
        return Err("the names of snapshots are in local time, and here they are in UTC; have \
                    them created with UTC names, then set snapshots and snapshot_names"
            .into());
    }
    let names = if is_on("sscanf") { format.replace("%lu", "%s") } else { format.to_owned() };
    let mounted_at = match option("mountpoint") {
        Some(mounted_at) => PathBuf::from(mounted_at),
        None => (facts.mount_point_of)(path).ok_or(
            "the share's directory is missing, so its mount point is unknown; set snapshots and \
             snapshot_root",
        )?,
    };
    let root = root_of(options, path, &mounted_at)?;
    // An absolute directory replaces the mount point.
    let directory = mounted_at.join(option("snapdir").unwrap_or(SNAPDIR));
    let snapshots = match directory == root.join(".zfs/snapshot") {
        true => "zfs".into(),
        false => directory.display().to_string(),
    };
    let keys = SnapshotKeys {
        names: (names != FORMAT).then_some(names),
        root: (root != path).then(|| root.display().to_string()),
        snapshots,
    };
    keys.check(path)?;
    Ok(keys)
}

/// The directory of which the snapshots are.
fn root_of(
    options: &BTreeMap<String, String>,
    path: &Path,
    mounted_at: &Path,
) -> Result<PathBuf, String> {
    if let Some(inside) = options.get("snapsharepath") {
        let inside = Path::new(inside.trim_matches('/'));
        let count = inside.components().count();
        let root = path.ancestors().nth(count).filter(|_| path.ends_with(inside));
        return root.map(Path::to_path_buf).ok_or_else(|| {
            "shadow:snapsharepath is not the end of the share's path; set snapshots and \
             snapshot_root"
                .into()
        });
    }
    Ok(options.get("basedir").map_or_else(|| mounted_at.to_path_buf(), PathBuf::from))
}

/// The snapshots of snapper for a share at `path`: those of the nearest directory that has some.
///
/// # Errors
/// The reason for which no snapshots are shown, with the remedy.
pub fn of_snapper(path: &Path, facts: &ImportMachine<'_>) -> Result<SnapshotKeys, String> {
    let has_snapshots = |root: &&Path| (facts.has_directory)(&root.join(SNAPDIR));
    let root = path.ancestors().find(has_snapshots).ok_or(
        "no directory of the share's path has .snapshots; set snapshots = \"snapper\" and \
         snapshot_root",
    )?;
    let root = (root != path).then(|| root.display().to_string());
    Ok(SnapshotKeys { snapshots: "snapper".into(), names: None, root })
}

impl SnapshotKeys {
    fn check(&self, share: &Path) -> Result<(), String> {
        let config = SnapshotsConfig {
            kept: SnapshotTool::of(&self.snapshots),
            names: self.names.clone(),
            root: self.root.as_ref().map(PathBuf::from),
        };
        config.check(share).map_err(|what| format!("{what}; set snapshots by hand"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(options: &[(&str, &str)], is_utc: bool) -> Result<SnapshotKeys, String> {
        let options =
            options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let facts = ImportMachine {
            read: &|_| Err(std::io::ErrorKind::NotFound.into()),
            home_of: &|_| None,
            groups_of: &|_| Vec::new(),
            mount_point_of: &|path| path.starts_with("/tank").then(|| "/tank/data".into()),
            has_directory: &|path| path == Path::new("/tank/data/.snapshots"),
            interfaces: Vec::new(),
            is_utc,
            host: "host".into(),
            users: Vec::new(),
            users_file: "/users.toml".into(),
        };
        of_shadow_copy2(&options, Path::new("/tank/data/work"), &facts)
    }

    fn shown(keys: SnapshotKeys) -> String {
        let or = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        format!("{} {} {}", keys.snapshots, or(keys.names), or(keys.root))
    }

    #[test]
    fn shadow_copy2_becomes_snapshot_keys() {
        for (options, expected) in [
            (&[][..], "/tank/data/.snapshots - /tank/data"),
            (
                &[("snapdir", ".zfs/snapshot"), ("format", "auto-%Y-%m-%d_%H-%M")],
                "zfs auto-%Y-%m-%d_%H-%M /tank/data",
            ),
            (&[("snapdir", "/snap"), ("basedir", "/tank/data/work")], "/snap - -"),
            (&[("sscanf", "yes"), ("format", "t%lu")], "/tank/data/.snapshots t%s /tank/data"),
            (&[("snapsharepath", "work")], "/tank/data/.snapshots - /tank/data"),
            (&[("mountpoint", "/tank")], "/tank/.snapshots - /tank"),
        ] {
            assert_eq!(keys(options, true).map(shown), Ok(expected.to_owned()), "{options:?}");
        }
    }

    #[test]
    fn shadow_copy2_without_counterpart_is_refused() {
        for (options, part) in [
            (("localtime", "yes"), "in local time"),
            (("snapdirseverywhere", "yes"), "one directory"),
            (("format", "%y-%j"), "snapshot_names"),
            (("basedir", "/other"), "snapshot_root"),
            (("snapsharepath", "elsewhere"), "snapshot_root"),
        ] {
            let why = keys(&[options, ("sort", "desc")], false).unwrap_err();
            assert!(why.contains(part), "{options:?}: {why}");
        }
    }
}
