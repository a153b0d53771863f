//! Opening objects: [`RequestFiles::begin_open`] by handle, or by a name in a directory that has a
//! handle.

use super::Object;
use crate::{
    Access, CacheHolder, Caller, OpenFile, OpenPlan, OpenProgress, OpenResult, RequestFiles,
    ShareMode,
};
use std::sync::Arc;
use vfs::{Name, Result};

/// Target of an open. The path of its [`OpenPlan`] is ignored.
#[derive(Clone, Debug)]
pub enum OpenAt {
    /// Exactly this object, under any name.
    Object(Object),
    /// The entry of this name in this directory, existing or not.
    Name(Object, Name),
}

/// Parameters of an open beside its [`OpenPlan`].
#[derive(Clone, Debug, Default)]
pub struct ObjectOpen {
    /// Open of the same file that the new one replaces: an upgrade. Its rights and share mode do
    /// not conflict, and its byte-range locks are transferred. Operations that use it may finish,
    /// then the caller closes it. If the open fails, the old one is unchanged.
    pub instead_of: Option<Arc<OpenFile>>,
    /// Verifier of an exclusive create. It is stored with the file, also across a restart, so that
    /// a repeated create with [`crate::IfExists::Fail`] and the same verifier finds the file. RFC
    /// 8881 18.16.3.
    pub verifier: Option<[u8; 8]>,
    /// Holder for breaks. The open uses its client's delegation key for the file
    /// ([`crate::delegation_key`]), so that the file may be delegated.
    pub holder: Option<Arc<dyn CacheHolder>>,
}

impl OpenPlan {
    /// A POSIX open of an existing file: byte-for-byte names, no following of links, and removal of
    /// its names permitted.
    #[must_use]
    pub fn posix(desired: Access, share: ShareMode) -> Self {
        Self {
            path: vfs::RelPath::root(),
            stream: None,
            desired,
            share,
            if_exists: crate::IfExists::Open,
            if_missing: crate::IfMissing::Fail,
            kind: crate::RequestedKind::Any,
            delete_on_close: false,
            dos_bits: 0,
            allocation_bytes: None,
            descriptor: None,
            xattrs: Vec::new(),
            no_follow: false,
            uncompressed: false,
            caching: None,
            semantics: crate::Semantics::Posix,
            mode: None,
        }
    }
}

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
