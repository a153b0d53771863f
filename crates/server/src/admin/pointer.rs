//! A symbolic link from the address of the server to its admin token, in the runtime directory.
//! Commands of the same user and of root find the token by it.

use super::token::ADMIN_TOKEN_FILE;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// The link; removed on drop.
#[derive(Debug)]
pub struct Pointer(PathBuf);

impl Drop for Pointer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Pointer {
    /// Links the address to the token in `state`. Returns `None` without a runtime directory:
    /// commands then need an option.
    #[must_use]
    pub fn create(address: SocketAddr, state: &Path) -> Option<Self> {
        let target = state.canonicalize().ok()?.join(ADMIN_TOKEN_FILE);
        folders().into_iter().find_map(|folder| Self::create_in(&folder, address, &target))
    }

    fn create_in(folder: &Path, address: SocketAddr, target: &Path) -> Option<Self> {
        // The process has a permissive umask, so the mode must be explicit.
        DirBuilder::new().recursive(true).mode(0o755).create(folder).ok()?;
        is_ours(folder).then_some(())?;
        let link = folder.join(name_of(address));
        // A leftover of a dead server, or of one that has given up this address.
        let _ = std::fs::remove_file(&link);
        symlink(target, &link).ok().map(|()| Self(link))
    }
}

/// The token file of the server at `address`, if a trustworthy link exists.
#[must_use]
pub fn pointed_token(address: SocketAddr) -> Option<PathBuf> {
    let links = folders().into_iter().map(|folder| (folder.join(name_of(address)), folder));
    links.into_iter().find_map(|(link, folder)| {
        is_ours(&folder).then(|| std::fs::read_link(link).ok()).flatten()
    })
}

fn name_of(address: SocketAddr) -> String {
    format!("admin-{address}.token")
}

/// Candidates: the service manager's runtime directory, root's and the user's.
fn folders() -> Vec<PathBuf> {
    // systemd separates several directories by colons.
    let first = |all: String| all.split(':').next().map(PathBuf::from);
    let of = |name: &str| std::env::var(name).ok().and_then(first).filter(|p| p.is_absolute());
    let is_root = rustix::process::geteuid().is_root();
    let system = is_root.then(|| PathBuf::from("/run/anabranch"));
    let user = of("XDG_RUNTIME_DIR").map(|folder| folder.join("anabranch"));
    of("RUNTIME_DIRECTORY").into_iter().chain(system).chain(user).collect()
}

/// Whether only root, this user and the owner that root's service manager chose can create links in
/// the directory.
fn is_ours(folder: &Path) -> bool {
    let Ok(metadata) = std::fs::symlink_metadata(folder) else { return false };
    let own = rustix::process::geteuid();
    let is_owner = metadata.uid() == 0 || metadata.uid() == own.as_raw() || own.is_root();
    metadata.is_dir() && is_owner && metadata.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn link_resolves_to_the_token_while_the_server_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (run, target) = (folder.path().join("run"), folder.path().join("admin-token"));
        let address = "127.0.0.1:4480".parse().unwrap();
        let first = Pointer::create_in(&run, address, Path::new("/elsewhere")).unwrap();
        std::mem::forget(first);
        let pointer = Pointer::create_in(&run, address, &target).unwrap();
        assert_eq!(std::fs::read_link(run.join(name_of(address))).unwrap(), target);
        drop(pointer);
        assert!(std::fs::read_dir(&run).unwrap().next().is_none());
    }

    #[test]
    fn directory_writable_by_others_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let address = "127.0.0.1:4480".parse().unwrap();
        assert!(Pointer::create_in(folder.path(), address, Path::new("/token")).is_none());
    }
}
