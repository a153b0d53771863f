//! Whether names exist, to choose between the readings of a client's path: see
//! [`crate::private_use`].

use crate::private_use::AmbiguousPath;
use crate::server_work::METADATA;
use crate::{Caller, OpenFile, RequestFiles, Volume};
use std::sync::Arc;
use vfs::{Actor, AttributeRequest, Case, FsError, Name, OpenHow, RelPath, Result, Wait};

impl RequestFiles {
    /// Resolves private use characters in a client's path. In each directory the mapped name is
    /// preferred, then the literal one. A missing name is taken as mapped, as are ambiguous names
    /// beyond 128. The result only selects a name: the open checks access.
    ///
    /// # Errors
    /// [`FsError::TooMany`] if the workers dropped the call.
    pub async fn resolve_private_use(
        &self,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        case: Case,
        path: AmbiguousPath,
    ) -> Result<RelPath> {
        let (files, volume, caller) = (self.clone(), volume.clone(), caller.clone());
        let choose = move || {
            let actor = files.context.call(caller.identity.actor());
            path.choose(|path| has_name(&volume, actor, path, case))
        };
        self.offload(choose).await
    }

    /// Whether a directory that is open for listing contains a name, even one hidden from the
    /// caller.
    #[must_use]
    pub fn directory_has_name(&self, directory: &OpenFile, name: &[u8]) -> bool {
        let Ok(name) = Name::new(name) else { return false };
        let actor = self.context.call(directory.caller().identity.actor());
        match directory.node.child_attributes(METADATA, &name, AttributeRequest::default()) {
            Err(FsError::NotFound) => {}
            _ => return true,
        }
        let path = directory.path().join(&name);
        directory.case() == Case::Insensitive
            && has_name(directory.volume(), actor, &path, Case::Insensitive)
    }

    /// Runs `look` on a worker: it looks names of `open`'s volume up.
    ///
    /// # Errors
    /// [`FsError::TooMany`] if the workers dropped the call.
    pub async fn look_at_names<T: Send + 'static>(
        &self,
        open: &Arc<OpenFile>,
        look: impl FnOnce(&Self, &OpenFile) -> T + Send + 'static,
    ) -> Result<T> {
        let (files, open) = (self.clone(), open.clone());
        self.offload(move || Ok(look(&files, &open))).await
    }

    /// Whether `path` exists, by the open's case rule.
    #[must_use]
    pub fn volume_has_name(&self, open: &OpenFile, path: &RelPath) -> bool {
        let actor = self.context.call(open.caller().identity.actor());
        has_name(open.volume(), actor, path, open.case())
    }
}

/// Whether the name exists; an inaccessible one counts.
fn has_name(volume: &Volume, actor: Actor<'_>, path: &RelPath, case: Case) -> bool {
    let how = OpenHow { case, ..OpenHow::looking(Wait::Allowed) };
    let missing = [FsError::NotFound, FsError::PathNotFound, FsError::NotDirectory];
    !volume.vfs.open(actor, path, how).is_err_and(|error| missing.contains(&error))
}
