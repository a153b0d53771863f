//! From a path to a node, without leaving the tree.

use super::inode::{Body, Right};
use super::state::{ROOT, State};
use crate::{Actor, Case, FsError, Name, RelPath, Result};

/// Symbolic links met on one path, as Linux has it.
const LINKS_MAX: u32 = 40;

/// How a path is resolved.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) who: Actor<'a>,
    pub(super) case: Case,
    /// A symbolic link at the end is what is looked for.
    pub(super) no_follow: bool,
}

impl State {
    /// The node at `path`, and the path as it is spelt.
    pub(super) fn resolve(&self, path: &RelPath, way: Way<'_>) -> Result<(u64, RelPath)> {
        let (mut at, mut spelt, mut links) = (ROOT, RelPath::root(), 0);
        let mut components = path.components().peekable();
        while let Some(component) = components.next() {
            let is_last = components.peek().is_none();
            let missing = if is_last { FsError::NotFound } else { FsError::PathNotFound };
            let (name, number) = self.look_up(at, component, way)?.ok_or(missing)?;
            let follows = !(is_last && way.no_follow);
            at = match follows.then(|| self.follow(at, number, &mut links, way)).transpose() {
                // Where a link should lead is missing.
                Err(FsError::NotFound) => return Err(missing),
                followed => followed?.unwrap_or(number),
            };
            spelt.push(&name);
        }
        Ok((at, spelt))
    }

    /// The directory that a name is in, with its path as spelt, and the name.
    pub(super) fn resolve_parent(
        &self,
        path: &RelPath,
        way: Way<'_>,
    ) -> Result<(u64, RelPath, Name)> {
        let (parent, name) = path.split().ok_or(FsError::AccessDenied)?;
        let way = Way { no_follow: false, ..way };
        let (number, spelt) = self.resolve(&parent, way).map_err(|error| match error {
            FsError::NotFound => FsError::PathNotFound,
            other => other,
        })?;
        if self.directory(number).is_none() {
            return Err(FsError::PathNotFound);
        }
        Ok((number, spelt, name))
    }

    fn look_up(&self, at: u64, component: &[u8], way: Way<'_>) -> Result<Option<(Name, u64)>> {
        let directory = self.directory(at).ok_or(FsError::PathNotFound)?;
        if !self.inode(at)?.grants(way.who, Right::Search) {
            return Err(FsError::AccessDenied);
        }
        Ok(directory.find(&Name::new(component)?, way.case == Case::Insensitive))
    }

    /// Where a node leads to that was found in the directory `at`.
    fn follow(&self, at: u64, number: u64, links: &mut u32, way: Way<'_>) -> Result<u64> {
        let Body::Symlink(target) = &self.inode(number)?.body else { return Ok(number) };
        *links += 1;
        if *links > LINKS_MAX {
            return Err(FsError::SymlinkLoop);
        }
        if target.starts_with(b"/") {
            return Err(FsError::SymlinkEscapes);
        }
        let mut at = at;
        // What a link says is taken literally, as the kernel takes it.
        let way = Way { case: Case::Sensitive, ..way };
        for component in target.split(|b| *b == b'/') {
            at = match component {
                b"" | b"." => at,
                b".." if at == ROOT => return Err(FsError::SymlinkEscapes),
                b".." => self.directory(at).ok_or(FsError::PathNotFound)?.parent,
                name => {
                    let (_, found) = self.look_up(at, name, way)?.ok_or(FsError::NotFound)?;
                    self.follow(at, found, links, way)?
                }
            };
        }
        Ok(at)
    }
}
