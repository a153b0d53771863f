//! Vetoed names that a path reaches over symbolic links. Samba restarts with the link's target
//! and so holds its `veto files` against each component of that; here the kernel follows links
//! ([`vfs::Features::follows_links`]), so the place that it reached is looked at.

use crate::Volume;
use crate::server_work::LOCATE;
use vfs::{FileKind, FsError, Opened, RelPath, Result};

/// Times that the place is asked for again because a directory above it is being moved.
const TRIES_MAX: usize = 8;

impl Volume {
    /// Refuses a node that its path reached over a link, and whose own path has a vetoed name: as
    /// if it were not there, or with [`FsError::AccessDenied`] where it would be made. A hard link
    /// is a name of its own.
    ///
    /// # Errors
    /// As above; [`FsError::PathNotFound`] for what is below such a name; [`FsError::NotFound`]
    /// where the backend does not say where the node is.
    pub(crate) fn check_reached(&self, opened: &Opened, makes: bool) -> Result<()> {
        let veto = &self.options.veto_names;
        let may_be_elsewhere = opened.attributes.kind != FileKind::Symlink;
        if veto.is_empty() || !may_be_elsewhere || !self.features().follows_links {
            return Ok(());
        }
        match self.reached(opened) {
            Some(path) if path == opened.path => Ok(()),
            Some(path) => veto.check(&path, makes),
            None => Err(FsError::NotFound),
        }
    }

    fn reached(&self, opened: &Opened) -> Option<RelPath> {
        let look =
            |_| self.vfs.path_of(LOCATE, &*opened.node).ok().filter(|path| !path.is_nameless());
        (0..TRIES_MAX).find_map(look)
    }
}
