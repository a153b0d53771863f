//! Starting point of an open: a path, or an object that may have moved since.

use super::OpenInProgress;
use super::apply::CreatedNode;
use crate::object::Object;
use crate::server_work::METADATA;
use crate::{IfExists, OpenAt};
use vfs::{
    Actor, ChildName, ExpectedChild, FsError, Name, NameActor, OpenHow, OpenWithSecurity,
    OpenedNode, RelPath, Result,
};

/// Origin of a plan's path.
pub(super) enum OpenOrigin {
    /// The caller gave the path.
    Path,
    /// Any path of this object; the object is opened by node.
    Object(Object),
    /// A name in this directory.
    Name(Object, Name),
}

impl OpenOrigin {
    pub fn of(at: &OpenAt) -> Self {
        match at {
            OpenAt::Object(object) => Self::Object(object.clone()),
            OpenAt::Name(directory, name) => Self::Name(directory.clone(), name.clone()),
        }
    }
}

impl OpenInProgress {
    /// Updates `plan.path` to the current path.
    ///
    /// # Errors
    /// [`FsError::Stale`] if there is none.
    pub(super) fn refresh_path(&mut self) -> Result<()> {
        match &self.origin {
            OpenOrigin::Path => {}
            OpenOrigin::Object(object) => {
                self.plan.path = match object.present_path() {
                    // The object has no name left, but an open still holds it.
                    Err(FsError::Stale) if self.is_in_table(object) => {
                        RelPath::nameless(object.key())
                    }
                    other => other?,
                }
            }
            // The first lookup's path serves; it is verified before the open takes effect.
            OpenOrigin::Name(directory, name) if !self.has_path => {
                self.plan.path = directory.path.join(name);
            }
            OpenOrigin::Name(directory, name) => {
                self.plan.path = directory.present_path()?.join(name)
            }
        }
        self.has_path = true;
        Ok(())
    }

    fn is_in_table(&self, object: &Object) -> bool {
        self.table.find(object.key()).is_some()
    }

    /// Whether the directory has another path by now, so that the used path may have led elsewhere.
    /// An object is opened by node, so that its path does not matter.
    pub(super) fn has_moved(&self) -> bool {
        self.path_differs(Object::present_path)
    }

    /// The same check after a create. A caller ordered after a change of this process sees all
    /// changes before it, so a cached path may suffice.
    pub(super) fn had_moved_before_create(&self) -> bool {
        self.path_differs(|directory| directory.path_since(self.context.order()))
    }

    fn path_differs(&self, path_of: impl FnOnce(&Object) -> Result<RelPath>) -> bool {
        let OpenOrigin::Name(directory, name) = &self.origin else { return false };
        path_of(directory).map(|path| path.join(name)) != Ok(self.plan.path.clone())
    }

    /// The caller as an actor, with its own rights.
    pub(super) fn user(&self) -> Actor<'_> {
        self.context.call(self.caller.identity.actor())
    }

    /// Opens the target in the backend.
    pub(super) fn open_in_backend(&self, actor: Actor<'_>, how: OpenHow) -> Result<OpenedNode> {
        let OpenOrigin::Object(object) = &self.origin else {
            return self.volume.vfs.open(actor, &self.plan.path, how);
        };
        match self.volume.vfs.open_node(actor, &*object.node, how) {
            Err(FsError::NotSupported) => {
                let found = self.volume.vfs.open(actor, &self.plan.path, how)?;
                let is_same = found.attributes.key == object.key();
                if is_same { Ok(found) } else { Err(FsError::Stale) }
            }
            other => Ok(OpenedNode { path: self.plan.path.clone(), ..other? }),
        }
    }

    /// As [`OpenInProgress::open_in_backend`], with the security information that the backend
    /// returns.
    pub(super) fn open_with_security(
        &self,
        actor: Actor<'_>,
        how: OpenHow,
    ) -> Result<OpenWithSecurity> {
        match self.origin {
            OpenOrigin::Object(_) => self.open_in_backend(actor, how).map(OpenWithSecurity::from),
            _ => self.volume.names().open_with_security(actor, &self.plan.path, how),
        }
    }

    /// Whether an earlier transmission of this very exclusive create made the file. RFC 8881
    /// 18.16.3.
    pub(super) fn is_replayed_create(&self, opened: &OpenedNode) -> bool {
        let Some(verifier) = self.with.verifier else { return false };
        let retained = opened.node.exclusive_creation();
        self.plan.if_exists == IfExists::Fail
            && retained.is_some_and(|file| file.verifier(METADATA) == Ok(verifier))
    }

    /// Whether `directory` is the target directory, where a handle and not only a path identifies
    /// it.
    pub(super) fn is_target_directory(&self, directory: &OpenedNode) -> bool {
        match &self.origin {
            OpenOrigin::Name(meant, _) => meant.key() == directory.attributes.key,
            OpenOrigin::Path | OpenOrigin::Object(_) => true,
        }
    }

    /// Removes a node that was created in the wrong place, with the right that created it.
    pub(super) fn remove_misplaced(&self, CreatedNode { opened, granted_in }: &CreatedNode) {
        let (vfs, key, path) = (&self.volume.vfs, opened.attributes.key, &opened.path);
        let removed = match granted_in {
            Some(directory) => vfs.remove_in(
                NameActor::Granted(&self.caller.identity),
                ChildName { directory: &**directory, path },
                ExpectedChild { key, is_file_as_seen: false },
            ),
            None => vfs.remove(self.user(), path, key),
        };
        if let Err(error) = removed {
            tracing::warn!(?path, %error, "an open failed, since its directory was renamed meanwhile, and the file that it created cannot be removed");
        }
    }
}
