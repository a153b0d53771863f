//! Where the token of the server at an address is: a link in the directory of what runs, by
//! which the commands of the same user find it, and those of root.

use super::token::ADMIN_TOKEN_FILE;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// A link to a token; removed when dropped.
#[derive(Debug)]
pub struct Pointer(PathBuf);

impl Drop for Pointer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Pointer {
    /// Says that the token of the server at `address` is in `state`. None where there is
    /// no directory for that: commands are then told by an option.
    #[must_use]
    pub fn make(address: SocketAddr, state: &Path) -> Option<Self> {
        let target = state.canonicalize().ok()?.join(ADMIN_TOKEN_FILE);
        folders().into_iter().find_map(|folder| Self::make_in(&folder, address, &target))
    }

    fn make_in(folder: &Path, address: SocketAddr, target: &Path) -> Option<Self> {
        // The process has no mask of its own that would keep others out.
        DirBuilder::new().recursive(true).mode(0o755).create(folder).ok()?;
        is_ours(folder).then_some(())?;
        let link = folder.join(name_of(address));
        // Of a server that died, or of one that serves this address no more.
        let _ = std::fs::remove_file(&link);
        symlink(target, &link).ok().map(|()| Self(link))
    }
}

/// The file of the token that the server at `address` takes, as far as it has said so.
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

/// What the service manager made for us, what the system has for root, what a user has.
fn folders() -> Vec<PathBuf> {
    // systemd names several, with colons between, if it made several.
    let first = |all: String| all.split(':').next().map(PathBuf::from);
    let of = |name: &str| std::env::var(name).ok().and_then(first).filter(|p| p.is_absolute());
    let is_root = rustix::process::geteuid().is_root();
    let system = is_root.then(|| PathBuf::from("/run/anabranch"));
    let user = of("XDG_RUNTIME_DIR").map(|folder| folder.join("anabranch"));
    of("RUNTIME_DIRECTORY").into_iter().chain(system).chain(user).collect()
}

/// Nobody but root, us and whom root's service manager gave it to may say there where
/// tokens are.
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
    fn a_link_leads_to_the_token_while_the_server_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (run, target) = (folder.path().join("run"), folder.path().join("admin-token"));
        let address = "127.0.0.1:4480".parse().unwrap();
        let first = Pointer::make_in(&run, address, Path::new("/elsewhere")).unwrap();
        std::mem::forget(first);
        let pointer = Pointer::make_in(&run, address, &target).unwrap();
        assert_eq!(std::fs::read_link(run.join(name_of(address))).unwrap(), target);
        drop(pointer);
        assert!(std::fs::read_dir(&run).unwrap().next().is_none());
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let address = "127.0.0.1:4480".parse().unwrap();
        assert!(Pointer::make_in(folder.path(), address, Path::new("/token")).is_none());
    }
}
