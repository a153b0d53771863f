//! User extended attributes of objects. RFC 8276.

use super::Object;
use crate::authorize::{as_granted, rights_to};
use crate::server_work::METADATA;
use crate::watch::{ChangeAction, WatchFilter};
use crate::{Access, Caller, RequestFiles};
use acl::ExecuteRule;
use std::sync::Arc;
use sync::{Mutex, MutexGuard};
use vfs::{AttributeRequest, FileKey, FsError, RelPath, Result, XattrName};

/// Number of locks for existence checks of attributes: files that share a lock wait for each other.
const XATTR_LOCKS: usize = 64;

/// Locks for existence checks, by file: a hanging disk blocks only its own.
#[derive(Debug)]
pub(crate) struct XattrLocks([Mutex<()>; XATTR_LOCKS]);

impl Default for XattrLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl XattrLocks {
    fn begin(&self, file: FileKey) -> MutexGuard<'_, ()> {
        let at = (file.inode ^ file.device) % XATTR_LOCKS as u64;
        self.0[at as usize].lock()
    }
}

/// Required existence of an attribute that is set: setxattr_option4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrSetMode {
    /// The attribute must not exist: [`FsError::AlreadyExists`].
    Create,
    /// Either state.
    Either,
    /// The attribute must exist: [`FsError::NotFound`].
    Replace,
}

impl RequestFiles {
    /// Names of all extended attributes, without Linux' `user.` prefix.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] where none can be stored; [`FsError::AccessDenied`].
    pub async fn object_xattr_names(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
    ) -> Result<Vec<XattrName>> {
        let (caller, object) = (caller.clone(), object.clone());
        self.offload(move || {
            need(&caller, &object, Access::READ_EA)?;
            object.node.need_xattrs()?.xattr_names(caller.identity.actor())
        })
        .await
    }

    /// Value of an extended attribute.
    ///
    /// # Errors
    /// [`FsError::NotFound`]; as [`RequestFiles::object_xattr_names`].
    pub async fn object_xattr(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        name: &XattrName,
    ) -> Result<Vec<u8>> {
        let (caller, object, name) = (caller.clone(), object.clone(), name.clone());
        self.offload(move || {
            need(&caller, &object, Access::READ_EA)?;
            let authority = as_granted(&caller, &*object.node);
            object.node.need_xattrs()?.xattr(authority.actor(), &name)
        })
        .await
    }

    /// Sets an extended attribute; `None` removes it.
    ///
    /// # Errors
    /// [`FsError::NotFound`] and [`FsError::AlreadyExists`] by `wish`, the first also for a removal;
    /// [`FsError::TooLarge`], [`FsError::NoSpace`], [`FsError::ReadOnly`]; as
    /// [`RequestFiles::object_xattr_names`].
    pub async fn set_object_xattr(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        name: &XattrName,
        value: Option<Vec<u8>>,
        wish: XattrSetMode,
    ) -> Result<()> {
        object.volume.check_changeable()?;
        self.recall(object.key(), None).await?;
        let (caller, object, name) = (caller.clone(), object.clone(), name.clone());
        let (table, turns) = (self.table.clone(), self.xattr_locks.clone());
        let context = self.context.clone();
        self.offload(move || {
            need(&caller, &object, Access::WRITE_EA)?;
            // RFC 8276 8.4.2: of two concurrent creates one must fail.
            let wished = wish != XattrSetMode::Either || value.is_none();
            let turn = wished.then(|| turns.begin(object.key()));
            // The right to set an attribute reveals its existence, but not its value.
            let is_there = match object.node.need_xattrs()?.xattr(METADATA, &name) {
                Ok(_) => true,
                Err(FsError::NotFound) => false,
                Err(error) => return Err(error),
            };
            let must_be_there = wish == XattrSetMode::Replace || value.is_none();
            match (is_there, wish) {
                (false, _) if must_be_there => return Err(FsError::NotFound),
                (true, XattrSetMode::Create) if value.is_some() => {
                    return Err(FsError::AlreadyExists);
                }
                _ => {}
            }
            let authority = as_granted(&caller, &*object.node);
            object.node.need_xattrs()?.set_xattr(authority.actor(), &name, value.as_deref())?;
            drop(turn);
            let path = object.present_path().unwrap_or(RelPath::nameless(object.key()));
            table.break_directory_of(&context, &object.volume.vfs, &caller, &path, None);
            let what = WatchFilter::EXTENDED_ATTRIBUTES;
            let change = [(ChangeAction::Modified, &path)];
            table.watches.report(&object.volume.vfs, Some(&caller), what, &change);
            Ok(())
        })
        .await
    }
}

/// Checks that the caller has the right, which a stored descriptor may grant.
fn need(caller: &Caller, object: &Object, right: Access) -> Result<()> {
    let attributes = object.node.attributes(AttributeRequest::default())?;
    let subject = (&*object.node, &attributes, None);
    let rights = rights_to(&object.volume, caller, subject, ExecuteRule::ByBit);
    if rights.contains(right) { Ok(()) } else { Err(FsError::AccessDenied) }
}
