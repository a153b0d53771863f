//! Renaming and linking. MS-FSA 2.1.5.15.

use crate::volume::dos;
use crate::{Access, Files, OpenFile};
use std::sync::Arc;
use vfs::{Case, FileKind, FsError, OpenHow, Opened, RelPath, Replace, Result, Wait, Wanted};

impl Files {
    /// Gives the file the name `to` instead of its present one.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] without DELETE, if files below are open, or
    /// if the target is open, a directory or read-only; [`FsError::AlreadyExists`];
    /// [`FsError::ShareViolation`] if another open forbids it.
    pub async fn rename(&self, open: &Arc<OpenFile>, to: &RelPath, replace: bool) -> Result<()> {
        open.need_any(Access::DELETE)?;
        open.need_writable()?;
        let from = open.path();
        if from.is_root() || to.is_root() {
            return Err(FsError::AccessDenied);
        }
        if open.state.grants().others_forbid_delete(open.id) {
            return Err(FsError::ShareViolation);
        }
        if open.is_directory() && self.table.has_open_below(open.volume(), &from) {
            return Err(FsError::AccessDenied);
        }
        let to = self.respell_target(open, to)?;
        let how = self.check_target(open, &from, &to, replace)?;
        open.volume().vfs.rename(&open.caller.identity, &from, &to, how)?;
        open.name.set_path(to);
        Ok(())
    }

    /// Gives the file the further name `to`.
    ///
    /// # Errors
    /// As [`Files::rename`].
    pub async fn link(&self, open: &Arc<OpenFile>, to: &RelPath, replace: bool) -> Result<()> {
        open.need_writable()?;
        if open.is_directory() {
            return Err(FsError::IsDirectory);
        }
        let to = self.respell_target(open, to)?;
        let how = self.check_target(open, &open.path(), &to, replace)?;
        open.volume().vfs.link(&open.caller.identity, &*open.node, &to, how)
    }

    /// The target's directory as it is stored.
    fn respell_target(&self, open: &OpenFile, to: &RelPath) -> Result<RelPath> {
        let (parent, name) = to.split().ok_or(FsError::AccessDenied)?;
        let found = self.look(open, &parent).map_err(|e| match e {
            FsError::NotFound => FsError::PathNotFound,
            other => other,
        })?;
        if found.attributes.kind != FileKind::Directory {
            return Err(FsError::PathNotFound);
        }
        // Someone may be about to remove the directory that is moved into.
        let parent = self.table.find(found.attributes.key);
        if parent.is_some_and(|p| p.grants().may_someone_delete()) {
            return Err(FsError::ShareViolation);
        }
        Ok(found.path.join(&name))
    }

    /// Whether the name `to` may be taken, and how.
    fn check_target(
        &self,
        open: &OpenFile,
        from: &RelPath,
        to: &RelPath,
        replace: bool,
    ) -> Result<Replace> {
        let target = match self.look(open, to) {
            Err(FsError::NotFound) => return Ok(Replace::Never),
            other => other?,
        };
        if target.attributes.key == open.key() && target.path == *from {
            // Only the spelling changes, or nothing does.
            return Ok(Replace::File);
        }
        if !replace {
            return Err(FsError::AlreadyExists);
        }
        let bits = target.attributes.dos.bits.unwrap_or(0);
        if target.attributes.kind == FileKind::Directory
            || open.is_directory()
            || bits & dos::READONLY != 0
        {
            return Err(FsError::AccessDenied);
        }
        if self.table.find(target.attributes.key).is_some() {
            return Err(FsError::AccessDenied);
        }
        if target.path != *to {
            // The same name in another case: the old spelling must go.
            let volume = open.volume();
            volume.vfs.remove(&open.caller.identity, &target.path, target.attributes.key)?;
        }
        Ok(Replace::File)
    }

    fn look(&self, open: &OpenFile, path: &RelPath) -> Result<Opened> {
        let case = if path.is_root() { Case::Sensitive } else { open.volume().options.case };
        let how = OpenHow {
            read: false,
            write: false,
            case,
            wanted: Wanted { dos: true },
            no_follow: true,
            wait: Wait::Allowed,
        };
        open.volume().vfs.open(&open.caller.identity, path, how)
    }
}
