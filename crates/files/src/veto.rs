//! Vetoed names that are reached over symbolic links. Samba resolves links itself and checks `veto
//! files` on each component of the target. Here the kernel follows links
//! ([`vfs::TreeFeatures::follows_links`]), so the reached path is checked.

use crate::Volume;
use crate::server_work::LOCATE;
use vfs::{FileKind, FsError, OpenedNode, RelPath, Result};

/// Limit of retries while a directory above the node is renamed.
const TRIES_MAX: usize = 8;

impl Volume {
    /// Refuses a node that was reached over a link and whose own path contains a vetoed name: as
    /// not found, or with [`FsError::AccessDenied`] for a creation. A hard link counts as a name of
    /// its own.
    ///
    /// # Errors
    /// As above; [`FsError::PathNotFound`] below such a name; [`FsError::NotFound`] if the backend
    /// cannot determine the node's path.
    pub(crate) fn check_reached(&self, opened: &OpenedNode, creates: bool) -> Result<()> {
        let veto = &self.options.veto_names;
        let may_be_elsewhere = opened.attributes.kind != FileKind::Symlink;
        if veto.is_empty() || !may_be_elsewhere || !self.features().follows_links {
            return Ok(());
        }
        match self.reached(opened) {
            Some(path) if path == opened.path => Ok(()),
            Some(path) => veto.check(&path, creates),
            None => Err(FsError::NotFound),
        }
    }

    fn reached(&self, opened: &OpenedNode) -> Option<RelPath> {
        let handles = self.vfs.handles()?;
        let look =
            |_| handles.path_of(LOCATE, &*opened.node).ok().filter(|path| !path.is_nameless());
        (0..TRIES_MAX).find_map(look)
    }
}
