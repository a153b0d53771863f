//! Opening objects: [`RequestFiles::begin_open`] by handle, or by a name in a directory that has a
//! handle.

use super::{ObjectOpen, OpenAt};
use crate::{
    Access, Caller, Object, OpenFile, OpenPlan, OpenProgress, OpenResult, RequestFiles, ShareMode,
};
use std::sync::Arc;
use vfs::Result;

impl RequestFiles {
    /// Opens or creates an object; returns [`OpenProgress::Waiting`] if it must wait for another
    /// client.
    ///
    /// # Errors
    /// As [`RequestFiles::open`]; [`vfs::FsError::IsSymlink`] for a symbolic link unless
    /// [`OpenPlan::no_follow`]; [`vfs::FsError::Stale`] for a removed object.
    pub async fn begin_open_object(
        &self,
        caller: &Arc<Caller>,
        at: &OpenAt,
        plan: OpenPlan,
        with: ObjectOpen,
    ) -> Result<OpenProgress> {
        self.begin_open_at(caller, at, plan, with).await
    }

    /// As [`RequestFiles::begin_open_object`], and waits without a limit.
    ///
    /// # Errors
    /// As [`RequestFiles::begin_open_object`].
    pub async fn open_object(
        &self,
        caller: &Arc<Caller>,
        at: &OpenAt,
        plan: OpenPlan,
        with: ObjectOpen,
    ) -> Result<OpenResult> {
        match self.begin_open_object(caller, at, plan, with).await? {
            OpenProgress::Opened(result) => Ok(result),
            OpenProgress::Waiting(waiting) => waiting.opened().await,
        }
    }

    /// Reduces an open to these rights and this share mode: a downgrade. Waiting opens that no
    /// longer conflict proceed.
    ///
    /// # Errors
    /// [`vfs::FsError::InvalidParameter`] if that would extend the open; [`vfs::FsError::Stale`] if
    /// it is closed.
    pub fn downgrade(&self, open: &OpenFile, access: Access, share: ShareMode) -> Result<()> {
        open.downgrade(&self.context, access, share)
    }
}

impl OpenFile {
    /// The file as an object.
    #[must_use]
    pub fn object(&self) -> Object {
        Object { volume: self.volume().clone(), node: self.present().clone(), path: self.path() }
    }
}
