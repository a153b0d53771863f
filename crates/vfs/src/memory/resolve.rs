//! Path resolution within the tree.

use super::inode::{NodeContent, Right};
use super::state::{MemoryState, ROOT};
use crate::{Actor, Case, FsError, Name, RelPath, Result};

/// Limit of symbolic links on one path, as on Linux.
const LINKS_MAX: u32 = 40;

/// Options of a path resolution.
#[derive(Clone, Copy)]
pub(super) struct Resolution<'a> {
    pub(super) actor: Actor<'a>,
    pub(super) case: Case,
    /// Opens a final symbolic link itself.
    pub(super) no_follow: bool,
}

impl MemoryState {
    /// The node at `path`, and the path as stored.
    pub(super) fn resolve(&self, path: &RelPath, how: Resolution<'_>) -> Result<(u64, RelPath)> {
        let (mut at, mut spelt, mut links) = (ROOT, RelPath::root(), 0);
        let mut components = path.components().peekable();
        while let Some(component) = components.next() {
            let is_last = components.peek().is_none();
            let missing = if is_last { FsError::NotFound } else { FsError::PathNotFound };
            let (name, number) = self.look_up(at, component, how)?.ok_or(missing)?;
            let follows = !(is_last && how.no_follow);
            at = match follows.then(|| self.follow(at, number, &mut links, how)).transpose() {
                // A link with a missing target counts as a missing name.
                Err(FsError::NotFound) => return Err(missing),
                followed => followed?.unwrap_or(number),
            };
            spelt.push(&name);
        }
        Ok((at, spelt))
    }

    /// The directory of a name, its path as stored, and the name.
    pub(super) fn resolve_parent(
        &self,
        path: &RelPath,
        how: Resolution<'_>,
    ) -> Result<(u64, RelPath, Name)> {
        let (parent, name) = path.split().ok_or(FsError::AccessDenied)?;
        let how = Resolution { no_follow: false, ..how };
        let (number, spelt) = self.resolve(&parent, how).map_err(|error| match error {
            FsError::NotFound => FsError::PathNotFound,
            other => other,
        })?;
        if self.directory(number).is_none() {
            return Err(FsError::PathNotFound);
        }
        Ok((number, spelt, name))
    }

    fn look_up(
        &self,
        at: u64,
        component: &[u8],
        how: Resolution<'_>,
    ) -> Result<Option<(Name, u64)>> {
        let directory = self.directory(at).ok_or(FsError::PathNotFound)?;
        if !self.inode(at)?.grants(how.actor, Right::Search) {
            return Err(FsError::AccessDenied);
        }
        Ok(directory.find(&Name::new(component)?, how.case == Case::Insensitive))
    }

    /// Follows a node found in the directory `at`, if it is a link.
    fn follow(&self, at: u64, number: u64, links: &mut u32, how: Resolution<'_>) -> Result<u64> {
        let NodeContent::Symlink(target) = &self.inode(number)?.body else { return Ok(number) };
        *links += 1;
        if *links > LINKS_MAX {
            return Err(FsError::SymlinkLoop);
        }
        if target.starts_with(b"/") {
            return Err(FsError::SymlinkEscapes);
        }
        let mut at = at;
        // A link's text is case-sensitive, as in the kernel.
        let how = Resolution { case: Case::Sensitive, ..how };
        for component in target.split(|b| *b == b'/') {
            at = match component {
                b"" | b"." => at,
                b".." if at == ROOT => return Err(FsError::SymlinkEscapes),
                b".." => self.directory(at).ok_or(FsError::PathNotFound)?.parent,
                name => {
                    let (_, found) = self.look_up(at, name, how)?.ok_or(FsError::NotFound)?;
                    self.follow(at, found, links, how)?
                }
            };
        }
        Ok(at)
    }
}
