//! Creation of directories, symbolic links and special files.

use super::find::object_of;
use super::{Object, ObjectOpen, OpenAt};
use crate::authorize::may_add;
use crate::link_target::check_target;
use crate::watch::{ChangeAction, name_filter};
use crate::{
    Access, Caller, IfExists, IfMissing, NewMode, OpenPlan, RequestFiles, RequestedKind, ShareMode,
};
use std::sync::Arc;
use vfs::{
    ChildName, ExpectedChild, FsError, Name, NameActor, NewChild, OpenedNode, RelPath, Result,
    SpecialKind,
};

/// Object to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewObject {
    /// A directory with these permission bits.
    Directory {
        /// Permission bits; the volume's if none.
        mode: Option<NewMode>,
    },
    /// A symbolic link.
    Symlink {
        /// Target text, which clients interpret.
        target: Vec<u8>,
    },
    /// A pipe, a socket or a device.
    Special {
        /// Kind of special file.
        kind: SpecialKind,
        /// Permission bits; the volume's of files if none.
        mode: Option<NewMode>,
    },
}

impl NewObject {
    fn is_device(&self) -> bool {
        matches!(self, Self::Special { kind: SpecialKind::Device(_), .. })
    }
}

/// Maximum length of a symbolic link's text on Linux.
const TARGET_BYTES_MAX: usize = 4095;

impl RequestFiles {
    /// Creates an object other than a regular file, named `name` in `directory`.
    /// [`RequestFiles::begin_open_object`] creates files.
    ///
    /// # Errors
    /// [`FsError::AlreadyExists`], [`FsError::AccessDenied`], [`FsError::DeletePending`] for a
    /// delete-pending directory, [`FsError::PrivilegeNotHeld`] for a device node and for a link
    /// that leads out of the volume, [`FsError::NotDirectory`], [`FsError::ReadOnly`],
    /// [`FsError::NoSpace`], [`FsError::NameTooLong`], [`FsError::NotSupported`].
    pub async fn create_object(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        name: &Name,
        new: NewObject,
    ) -> Result<Object> {
        directory.need_directory()?;
        if let NewObject::Directory { mode } = new {
            return self.create_directory(caller, directory, name, mode).await;
        }
        if matches!(&new, NewObject::Symlink { target } if target.len() > TARGET_BYTES_MAX) {
            return Err(FsError::NameTooLong);
        }
        let (table, caller) = (self.table.clone(), caller.clone());
        let (directory, name) = (directory.clone(), name.clone());
        let context = self.context.clone();
        self.offload(move || {
            let volume = &directory.volume;
            volume.check_changeable()?;
            if new.is_device() && !(volume.options.device_nodes && caller.is_root()) {
                return Err(FsError::PrivilegeNotHeld);
            }
            let created = directory.create_with_stable_path(&caller, |path| {
                let path = path.join(&name);
                volume.options.veto_names.check(&path, true)?;
                if let NewObject::Symlink { target } = &new {
                    check_target(volume, &path, target)?;
                }
                let parent = directory.opened()?;
                if table.is_directory_delete_pending(
                    parent.attributes.key,
                    &volume.vfs,
                    &parent.path,
                ) {
                    return Err(FsError::DeletePending);
                }
                let is_granted = may_add(volume, &caller, &parent, false)?.is_some();
                create(&caller, &directory, &path, &new, is_granted)
            })?;
            let vfs = &volume.vfs;
            table.break_directory_of(&context, vfs, &caller, &created.path, None);
            let change = [(ChangeAction::Added, &created.path)];
            table.watches.report(vfs, Some(&caller), name_filter(false), &change);
            Ok(object_of(volume, created))
        })
        .await
    }

    async fn create_directory(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        name: &Name,
        mode: Option<NewMode>,
    ) -> Result<Object> {
        let plan = OpenPlan {
            if_exists: IfExists::Fail,
            if_missing: IfMissing::Create,
            kind: RequestedKind::Directory,
            mode,
            ..OpenPlan::posix(Access::READ_ATTRIBUTES, ShareMode::ALL)
        };
        let at = OpenAt::Name(directory.clone(), name.clone());
        let open = self.open_object(caller, &at, plan, ObjectOpen::default()).await?.open;
        let object = open.object();
        self.close(open).await?;
        Ok(object)
    }
}

fn create(
    caller: &Caller,
    directory: &Object,
    path: &RelPath,
    new: &NewObject,
    is_granted: bool,
) -> Result<CreatedObject> {
    let (options, vfs) = (&directory.volume.options, &directory.volume.vfs);
    let actor = caller.identity.actor();
    let (created, new_child) = match new {
        NewObject::Symlink { target } => {
            (vfs.symlink(actor, path, target), NewChild::Symlink(target))
        }
        NewObject::Special { kind, mode } => {
            let mode = mode.unwrap_or(NewMode::exactly(options.file_mode)).at_creation();
            let kind = *kind;
            (vfs.create_special(actor, path, kind, mode), NewChild::Special { kind, mode })
        }
        NewObject::Directory { .. } => return Err(FsError::InvalidParameter),
    };
    match created {
        // Created in the authorized directory: the path may lead to another one by now. An ACL does
        // not grant creating a device.
        Err(FsError::AccessDenied) if is_granted && !new.is_device() => {
            let child = ChildName { directory: &*directory.node, path };
            let opened =
                vfs.create_special_in(NameActor::Granted(&caller.identity), child, new_child)?;
            Ok(CreatedObject { opened, is_granted })
        }
        other => Ok(CreatedObject { opened: other?, is_granted: false }),
    }
}

/// An object that was just created.
pub(super) struct CreatedObject {
    opened: OpenedNode,
    /// Whether a stored descriptor granted the creation, which POSIX refuses.
    is_granted: bool,
}

impl Object {
    /// Its current state, for access checks.
    pub(super) fn opened(&self) -> Result<OpenedNode> {
        let attributes = self.node.attributes(vfs::AttributeRequest::default())?;
        Ok(OpenedNode { node: self.node.clone(), attributes, path: self.present_path()? })
    }

    /// As [`Object::with_stable_path`], for a creating call: an object created elsewhere is
    /// removed.
    pub(super) fn create_with_stable_path(
        &self,
        caller: &Caller,
        call: impl Fn(&RelPath) -> Result<CreatedObject>,
    ) -> Result<OpenedNode> {
        self.with_stable_path(|path| {
            let CreatedObject { opened, is_granted } = call(path)?;
            let is_here = self.present_path().as_ref() == Ok(path);
            if !is_here {
                let (vfs, user, key) = (&self.volume.vfs, &caller.identity, opened.attributes.key);
                let _ = match is_granted {
                    true => vfs.remove_in(
                        NameActor::Granted(user),
                        ChildName { directory: &*self.node, path: &opened.path },
                        ExpectedChild { key, is_file_as_seen: false },
                    ),
                    false => vfs.remove(user.actor(), &opened.path, key),
                };
            }
            Ok(opened)
        })
    }
}
