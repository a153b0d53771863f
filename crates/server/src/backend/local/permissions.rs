//! Permissions of a share's directory, for checks of a configuration. POSIX.1: access(2), mode bits.

use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use vfs::Identity;

/// The reason for which this process may not write to a directory, as a text of the system.
pub(super) fn write_obstacle(path: &Path) -> Option<String> {
    let error = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).err()?;
    Some(std::io::Error::from(error).to_string())
}

/// Whether an identity may pass all directories of a path and list the last one, by their modes. A
/// directory with an ACL is assumed to permit it.
pub(super) fn may_enter(identity: &Identity, path: &Path) -> bool {
    const EXECUTE: u32 = 1;
    const READ: u32 = 4;
    if identity.uid == 0 {
        return true;
    }
    path.ancestors().all(|folder| {
        let Ok(metadata) = folder.metadata() else { return true };
        let wanted = if folder == path { READ | EXECUTE } else { EXECUTE };
        let shift = if metadata.uid() == identity.uid {
            6
        } else if metadata.gid() == identity.gid || identity.groups.contains(&metadata.gid()) {
            3
        } else {
            0
        };
        metadata.mode() >> shift & wanted == wanted || has_acl(folder)
    })
}

fn has_acl(path: &Path) -> bool {
    let mut nothing = [0u8; 0];
    ["system.posix_acl_access", "system.nfs4_acl"]
        .iter()
        .any(|name| rustix::fs::getxattr(path, *name, &mut nothing).is_ok_and(|size| size > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_that_a_user_may_not_enter_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let set = |mode| {
            use std::os::unix::fs::PermissionsExt;
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path(), permissions).unwrap();
        };
        let own = folder.path().metadata().unwrap();
        let other = Identity { uid: own.uid() + 1, gid: own.gid() + 1, groups: Vec::new() };
        let member = Identity { groups: vec![own.gid()], ..other.clone() };
        set(0o750);
        assert!(!may_enter(&other, folder.path()));
        assert!(may_enter(&member, folder.path()));
        set(0o755);
        assert!(may_enter(&other, folder.path()));
    }
}
