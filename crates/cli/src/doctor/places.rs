//! Directories: their permissions, and the features of their file systems.

use advise::doctor::{FolderFacts, LongStreams, ShareFileSystem};
use rustix::fs::{Access, access};
use server::backend::{self, DiskFacts, StreamInventory};
use server::config::{ServerConfig, ShareConfig};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The configuration, the users' file with its hashes, and the state folder.
pub fn folders(config_path: Option<&Path>, config: &ServerConfig) -> Vec<FolderFacts> {
    let of = |what, path: &Path, forbidden_mode, must_be_writable| FolderFacts {
        what,
        path: path.display().to_string(),
        mode: std::fs::metadata(path).ok().map(|found| found.permissions().mode() & 0o7777),
        forbidden_mode,
        is_writable: access(path, Access::WRITE_OK).is_ok(),
        must_be_writable,
    };
    let mut folders: Vec<FolderFacts> =
        config_path.map(|path| of("configuration", path, 0o022, false)).into_iter().collect();
    folders.push(of("users", &config.users, 0o077, false));
    // A user with write access could plant state that the server trusts.
    folders.push(of("state", config.state_folder(), 0o022, true));
    folders
}

/// The file system of a share; none if its directory is missing, which `check` reports, or if its
/// backend has no directory.
pub fn file_system(share: &ShareConfig) -> Option<ShareFileSystem> {
    let facts: DiskFacts = backend::configured().disk_facts(&share.source())?;
    Some(ShareFileSystem {
        share: share.name.clone(),
        path: facts.path.display().to_string(),
        kind: facts.kind,
        mounted_at: facts.mounted_at,
        options: facts.options,
        writable: (!share.read_only).then_some(facts.is_writable),
        user_xattrs: facts.user_xattrs,
        acls: facts.acls,
        reflinks: facts.reflinks,
        case_insensitive: facts.folds_case,
        long_streams: facts.long_streams.map(long_streams),
        bytes: facts.bytes,
        inodes: facts.inodes,
    })
}

fn long_streams(found: StreamInventory) -> LongStreams {
    let StreamInventory { files, bytes, orphans, orphan_bytes, unclaimed, is_open_to_others } =
        found;
    LongStreams { files, bytes, orphans, orphan_bytes, unclaimed, is_open_to_others }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_is_asked_only_where_clients_may_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = ServerConfig::empty();
        let share = config.add_share("a", folder.path()).expect("a share");
        assert_eq!(file_system(share).expect("it is somewhere").writable, Some(true));
        share.read_only = true;
        assert_eq!(file_system(share).expect("it is somewhere").writable, None);
    }
}
