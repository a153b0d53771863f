//! Names of objects: removing, renaming, linking; what a symbolic link says.

use super::find::TRIES_MAX;
use super::{Object, ObjectOpen, OpenAt};
use crate::{Access, Caller, OpenPlan, OpenResult, RequestFiles, Share};
use std::sync::Arc;
use vfs::{FileKind, FsError, Name, RelPath, Result};

impl RequestFiles {
    /// Removes a name. What is open as POSIX has it goes on without; while somebody has
    /// it open who does not share deletion, it stays; who keeps it open only for a
    /// cache is asked to close it first, which may take long. A name that others have
    /// open as Windows has it goes when they close it.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::NotEmpty`], [`FsError::ShareViolation`],
    /// [`FsError::AccessDenied`], [`FsError::ReadOnly`], [`FsError::NotDirectory`],
    /// [`FsError::CannotDelete`] for what something is mounted on.
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
        let OpenResult { open, attributes, .. } =
            self.open_name(caller, directory, name, Access::DELETE).await?;
        self.ask_before_delete(&open).await?;
        self.doom(&open, &attributes)?;
        self.close_removing(open, attributes.size_bytes).await
    }

    /// Gives what is called `from.1` in `from.0` the name `to.1` in `to.0`, in place of
    /// what has it, if both are files, or directories and that one is empty. Two names
    /// of one file both stay.
    ///
    /// # Errors
    /// As [`RequestFiles::remove_object`] for what loses a name, [`RequestFiles::make_object`] for
    /// the new one; [`FsError::AlreadyExists`] for kinds that do not replace each
    /// other; [`FsError::CrossDevice`]; [`FsError::InvalidParameter`] for a directory
    /// that would come to be within itself.
    pub async fn rename_object(
        &self,
        caller: &Arc<Caller>,
        from: (&Object, &Name),
        to: (&Object, &Name),
    ) -> Result<()> {
        let (directory, name) = to;
        from.0.need_directory()?;
        directory.need_directory()?;
        if !Arc::ptr_eq(&from.0.volume, &directory.volume) {
            return Err(FsError::CrossDevice);
        }
        let open = self.open_name(caller, from.0, from.1, Access::DELETE).await?.open;
        let mut result = Err(FsError::Stale);
        for attempt in 0..TRIES_MAX {
            let to = self.path_to_try(directory, attempt)?.join(name);
            let is_within = to != open.path() && to.starts_with(&open.path());
            result = match open.is_directory() && is_within {
                true => Err(FsError::InvalidParameter),
                false => self.rename_into(&open, &to, Some(directory.key()), true).await,
            };
            if !matches!(result, Err(FsError::Stale | FsError::PathNotFound)) {
                break;
            }
        }
        self.close(open).await?;
        result
    }

    /// Gives an object, which is no directory, the further name `name` in `directory`.
    ///
    /// # Errors
    /// [`FsError::AlreadyExists`], [`FsError::IsDirectory`], [`FsError::CrossDevice`],
    /// [`FsError::Stale`] for what has no name any more; as [`RequestFiles::make_object`].
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
        let plan =
            OpenPlan { no_follow: true, ..OpenPlan::posix(Access::READ_ATTRIBUTES, Share::ALL) };
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

    /// What a symbolic link says.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for what is none.
    pub async fn read_object_link(&self, caller: &Arc<Caller>, object: &Object) -> Result<Vec<u8>> {
        let (node, caller) = (object.node.clone(), caller.clone());
        self.offload(move || node.read_link(caller.identity.actor())).await
    }

    /// Where a directory is. Whoever goes there checks that it is this one, and asks again if it
    /// is not: so first of what was heard since the request came.
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
        let plan = OpenPlan { no_follow: true, ..OpenPlan::posix(access, Share::ALL) };
        let at = OpenAt::Name(directory.clone(), name.clone());
        self.open_object(caller, &at, plan, ObjectOpen::default()).await
    }
}
