//! Names of objects: remove, rename, link and readlink.

use super::find::TRIES_MAX;
use super::{Object, ObjectOpen, OpenAt};
use crate::close::NameRemoval;
use crate::{Access, Caller, OpenFile, OpenPlan, OpenResult, RequestFiles, ShareMode};
use std::sync::Arc;
use vfs::{FileKind, FsError, Name, RelPath, Result};

impl RequestFiles {
    /// Removes a name. POSIX opens continue without it. An open that denies deletion prevents the
    /// removal, and handle caching is broken first, which may take long. A name with Windows opens
    /// is removed by their last close.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::NotEmpty`], [`FsError::ShareViolation`],
    /// [`FsError::AccessDenied`], [`FsError::ReadOnly`], [`FsError::NotDirectory`],
    /// [`FsError::CannotDelete`] for a mount point.
    pub async fn remove_object(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        name: &Name,
    ) -> Result<()> {
        directory.need_directory()?;
        if let Some(removed) = self.remove_remembered(caller, directory, name) {
            return removed;
        }
        for _ in 0..TRIES_MAX {
            let OpenResult { open, attributes, .. } =
                self.open_name(caller, directory, name, Access::DELETE).await?;
            self.break_handles_before_delete(&open).await?;
            let removal =
                NameRemoval { directory: directory.key(), name: name.clone(), attributes };
            match self.close_removing(open, removal).await {
                // The file was renamed or replaced meanwhile. The name may refer to another one.
                Err(FsError::Stale | FsError::NotFound) => {}
                closed => return closed,
            }
        }
        Err(FsError::NotFound)
    }

    /// Renames the entry `from.1` of `from.0` to `to.1` in `to.0`. It replaces an existing entry if
    /// both are files, or both directories and the target is empty. If both refer to one file, both
    /// stay.
    ///
    /// # Errors
    /// As [`RequestFiles::remove_object`] for a removed name, [`RequestFiles::create_object`] for the
    /// new one; [`FsError::AlreadyExists`] for kinds that do not replace each other;
    /// [`FsError::CrossDevice`]; [`FsError::InvalidParameter`] if a directory would move into
    /// itself.
    pub async fn rename_object(
        &self,
        caller: &Arc<Caller>,
        from: (&Object, &Name),
        to: (&Object, &Name),
    ) -> Result<()> {
        let directory = to.0;
        from.0.need_directory()?;
        directory.need_directory()?;
        if !Arc::ptr_eq(&from.0.volume, &directory.volume) {
            return Err(FsError::CrossDevice);
        }
        let mut result = Err(FsError::NotFound);
        for _ in 0..TRIES_MAX {
            let open = self.open_name(caller, from.0, from.1, Access::DELETE).await?.open;
            result = self.rename_opened(open, from, to).await;
            // The file was renamed or replaced since it was opened. The name may refer to another one;
            // if there is none, the next open says so.
            if result != Err(FsError::NotFound) {
                break;
            }
        }
        result
    }

    async fn rename_opened(
        &self,
        open: Arc<OpenFile>,
        from: (&Object, &Name),
        (directory, name): (&Object, &Name),
    ) -> Result<()> {
        let directories = ((from.0.key(), from.1), directory.key());
        let mut result = Err(FsError::Stale);
        for attempt in 0..TRIES_MAX {
            let to = self.path_to_try(directory, attempt)?.join(name);
            let is_within = to != open.path() && to.starts_with(&open.path());
            result = match open.is_directory() && is_within {
                true => Err(FsError::InvalidParameter),
                false => self.rename_between(&open, &to, Some(directories), true).await,
            };
            if !matches!(result, Err(FsError::Stale | FsError::PathNotFound)) {
                break;
            }
        }
        self.close(open).await?;
        result
    }

    /// Adds the name `name` in `directory` to an object that is not a directory.
    ///
    /// # Errors
    /// [`FsError::AlreadyExists`], [`FsError::IsDirectory`], [`FsError::CrossDevice`],
    /// [`FsError::Stale`] for an unlinked object; as [`RequestFiles::create_object`].
    pub async fn link_object(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        directory: &Object,
        name: &Name,
    ) -> Result<()> {
        directory.need_directory()?;
        if object.kind() == FileKind::Directory {
            return Err(FsError::IsDirectory);
        }
        if !Arc::ptr_eq(&object.volume, &directory.volume) {
            return Err(FsError::CrossDevice);
        }
        self.recall(object.key(), None).await?;
        let plan = OpenPlan {
            no_follow: true,
            ..OpenPlan::posix(Access::READ_ATTRIBUTES, ShareMode::ALL)
        };
        let at = OpenAt::Object(object.clone());
        let open = self.open_object(caller, &at, plan, ObjectOpen::default()).await?.open;
        let mut result = Err(FsError::Stale);
        for attempt in 0..TRIES_MAX {
            let to = self.path_to_try(directory, attempt)?.join(name);
            result = self.link_into(&open, &to, Some(directory.key()), false).await;
            if !matches!(result, Err(FsError::Stale | FsError::PathNotFound)) {
                break;
            }
        }
        self.close(open).await?;
        result
    }

    /// Text of a symbolic link.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for another kind of object.
    pub async fn readlink_object(&self, caller: &Arc<Caller>, object: &Object) -> Result<Vec<u8>> {
        let (node, caller) = (object.node.clone(), caller.clone());
        self.offload(move || node.readlink(caller.identity.actor())).await
    }

    /// Path of a directory for a try. The caller verifies the directory and retries otherwise, so
    /// the first try uses the path known since the request arrived.
    fn path_to_try(&self, directory: &Object, attempt: u32) -> Result<RelPath> {
        match attempt {
            0 => directory.path_since(self.context.order()),
            _ => directory.present_path(),
        }
    }

    async fn open_name(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        name: &Name,
        access: Access,
    ) -> Result<OpenResult> {
        let plan = OpenPlan { no_follow: true, ..OpenPlan::posix(access, ShareMode::ALL) };
        let at = OpenAt::Name(directory.clone(), name.clone());
        self.open_object(caller, &at, plan, ObjectOpen::default()).await
    }
}
