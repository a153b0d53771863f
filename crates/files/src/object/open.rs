//! Opening objects: [`RequestFiles::begin_open`] by handle, or by a name in a directory that
//! is known by its handle.

use super::Object;
use crate::{
    Access, Begun, CacheHolder, Caller, OpenFile, OpenPlan, OpenResult, RequestFiles, Share,
};
use std::sync::Arc;
use vfs::{Name, Result};

/// What is to be opened. The path of an [`OpenPlan`] does not count then.
#[derive(Clone, Debug)]
pub enum OpenAt {
    /// This very object, whatever it is called by now.
    Object(Object),
    /// What is called so in this directory, or is to be.
    Name(Object, Name),
}

/// What is asked for beside an [`OpenPlan`].
#[derive(Clone, Debug, Default)]
pub struct ObjectOpen {
    /// The new open takes the place of this one of the same file, whose rights and
    /// share mode are not in its way: an upgrade. What it has locked goes over. The
    /// old one stays good for what was begun with it, is otherwise nobody's, and is to
    /// be closed. If the open fails the old one is what it was.
    pub instead_of: Option<Arc<OpenFile>>,
    /// What is made remembers this, also after a restart, and opening it with
    /// [`crate::IfExists::Fail`] and the same number again finds it: creating
    /// exclusively can be repeated by who did not hear the answer. RFC 8881 18.16.3.
    pub verifier: Option<[u8; 8]>,
    /// The open comes under its client's key for the file, whichever that turns out to
    /// be ([`crate::delegation_key`]): it may be delegated, and this is told of breaks.
    pub holder: Option<Arc<dyn CacheHolder>>,
}

impl OpenPlan {
    /// An open as POSIX has it of what is there: with names byte for byte, that does
    /// not follow a link, nor keeps names from being taken away.
    #[must_use]
    pub fn posix(desired: Access, share: Share) -> Self {
        Self {
            path: vfs::RelPath::root(),
            stream: None,
            desired,
            share,
            if_exists: crate::IfExists::Open,
            if_missing: crate::IfMissing::Fail,
            kind: crate::WishedKind::Any,
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
    /// Opens an object, or makes one; says so if it must wait for another client.
    ///
    /// # Errors
    /// As [`RequestFiles::open`]; [`vfs::FsError::IsSymlink`] for a symbolic link unless
    /// [`OpenPlan::no_follow`]; [`vfs::FsError::Stale`] for an object that is gone.
    pub async fn begin_open_object(
        &self,
        caller: &Arc<Caller>,
        at: &OpenAt,
        plan: OpenPlan,
        with: ObjectOpen,
    ) -> Result<Begun> {
        self.begin_open_at(caller, at, plan, with).await
    }

    /// As [`RequestFiles::begin_open_object`], and waits as long as it takes.
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
            Begun::Opened(result) => Ok(result),
            Begun::Waits(waiting) => waiting.opened().await,
        }
    }

    /// Gives up rights and share denials of an open that go beyond these: a downgrade.
    /// Who waits for that is let in.
    ///
    /// # Errors
    /// [`vfs::FsError::InvalidParameter`] if that were more than it has;
    /// [`vfs::FsError::Stale`] if it is closed.
    pub fn narrow(&self, open: &OpenFile, access: Access, share: Share) -> Result<()> {
        open.narrow(&self.context, access, share)
    }
}

impl OpenFile {
    /// The file as an object.
    #[must_use]
    pub fn object(&self) -> Object {
        Object { volume: self.volume().clone(), node: self.present().clone(), path: self.path() }
    }
}
