//! Resolution of a file handle: a pseudo directory, or an object in a share. RFC 8881 4, 7.3.

use crate::clients::connection::ConnShared;
use crate::exports::config::NfsConfig;
use crate::exports::export::{Export, HostVerdict};
use crate::exports::pseudo::{self, PseudoId};
use crate::status::OrStatus;
use files::{Files, Object, ObjectHandle, RequestFiles};
use std::sync::Arc;
use vfs::FsError;
use wire::nfs::{FileHandle, NfsStatus};

/// Target of a file handle. The object is looked up on demand, because many requests need only an
/// open of it.
#[derive(Clone, Debug)]
pub enum HandleTarget {
    /// A pseudo directory: the root of all shares, or a path component.
    Pseudo(PseudoId),
    /// An object in a share.
    Object(ObjectPlace),
}

/// An object in a share. At least one of handle and object is set.
#[derive(Clone, Debug)]
pub struct ObjectPlace {
    /// Its share.
    pub export: Arc<Export>,
    handle: Option<ObjectHandle>,
    object: Option<Object>,
}

impl HandleTarget {
    /// Decodes a file handle from the wire.
    ///
    /// # Errors
    /// BADHANDLE for malformed bytes. STALE if the share is gone or refuses the client, or the
    /// pseudo directory leads it nowhere. DELAY while a host lookup is in flight or has no answer;
    /// the errors of [`ConnShared::admit`].
    pub fn parse(
        files: &Files,
        config: &NfsConfig,
        conn: &ConnShared,
        handle: &FileHandle,
    ) -> Result<Self, NfsStatus> {
        if let Some(id) = config.tree.of_handle(handle.as_bytes()) {
            return match config.tree.verdict(id, &config.exports, conn.link.facts.peer.ip()) {
                HostVerdict::Admitted => Ok(Self::Pseudo(id)),
                HostVerdict::Refused => Err(NfsStatus::STALE),
                HostVerdict::Unknown | HostVerdict::Unanswered => Err(NfsStatus::DELAY),
            };
        }
        // A client that knows a path can compute its handle, so unknown and hidden directories get
        // the same status.
        if pseudo::is_handle(handle.as_bytes()) {
            return Err(NfsStatus::STALE);
        }
        let handle = files.parse_handle(handle.as_bytes()).map_err(|_| NfsStatus::BADHANDLE)?;
        let export = config.export(handle.volume()).ok_or(NfsStatus::STALE)?.clone();
        // The client may have mounted the share while the name service answered. By STALE it would
        // lose its locks and its cached writes.
        conn.admit(&export, NfsStatus::STALE, NfsStatus::DELAY)?;
        Ok(Self::Object(ObjectPlace { export, handle: Some(handle), object: None }))
    }

    /// The target of a known object.
    #[must_use]
    pub fn of(export: Arc<Export>, object: Object) -> Self {
        Self::Object(ObjectPlace { export, handle: None, object: Some(object) })
    }

    /// The target of a handle, looked up on demand.
    #[must_use]
    pub fn of_handle(export: Arc<Export>, handle: ObjectHandle) -> Self {
        Self::Object(ObjectPlace { export, handle: Some(handle), object: None })
    }

    /// The handle for the wire.
    ///
    /// # Errors
    /// Errors of [`Files::handle`].
    pub fn handle(&mut self, files: &Files) -> Result<FileHandle, NfsStatus> {
        let bytes = match self {
            Self::Pseudo(id) => {
                return FileHandle::new(&id.handle()).ok_or(NfsStatus::SERVERFAULT);
            }
            Self::Object(place) => place.handle(files)?,
        };
        FileHandle::new(bytes.as_bytes()).ok_or(NfsStatus::SERVERFAULT)
    }
}

impl ObjectPlace {
    /// Whether the object has been looked up.
    #[must_use]
    pub fn has_object(&self) -> bool {
        self.object.is_some()
    }

    /// The object.
    ///
    /// # Errors
    /// STALE if it is deleted; BADHANDLE for an invalid handle.
    pub async fn object(&mut self, files: &RequestFiles) -> Result<Object, NfsStatus> {
        if let Some(object) = &self.object {
            return Ok(object.clone());
        }
        let handle = self.handle.as_ref().ok_or(NfsStatus::SERVERFAULT)?;
        let found = files.find_object(&self.export.volume, handle).await;
        let object = found.map_err(|error| match error {
            FsError::InvalidParameter => NfsStatus::BADHANDLE,
            FsError::NotFound | FsError::PathNotFound => NfsStatus::STALE,
            error => crate::status::status_of(error),
        })?;
        self.object = Some(object.clone());
        Ok(object)
    }

    /// The handle from the wire, if the object has not been looked up.
    #[must_use]
    pub fn unresolved_handle(&self) -> Option<&ObjectHandle> {
        self.handle.as_ref().filter(|_| self.object.is_none())
    }

    /// The handle.
    ///
    /// # Errors
    /// Errors of [`Files::handle`].
    pub fn handle(&mut self, files: &Files) -> Result<&ObjectHandle, NfsStatus> {
        if self.handle.is_none() {
            let object = self.object.as_ref().ok_or(NfsStatus::SERVERFAULT)?;
            self.handle = Some(files.handle(self.export.id, object).or_status()?);
        }
        self.handle.as_ref().ok_or(NfsStatus::SERVERFAULT)
    }
}
