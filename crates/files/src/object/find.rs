//! Lookup of objects by handle and by name.

use super::{Object, ObjectHandle};
use crate::server_work::LOCATE;
use crate::{Caller, RequestFiles, Volume};
use std::sync::Arc;
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Attributes, FileKind, FsError, Name, OpenHow,
    OpenedNode, RelPath, Result, ServerWork, Wait,
};

/// Limit of retries after a directory was moved during an operation.
pub(super) const TRIES_MAX: u32 = 8;

impl RequestFiles {
    /// The root of a volume.
    ///
    /// # Errors
    /// [`FsError::Stale`] if it was removed.
    pub async fn root_object(&self, volume: &Arc<Volume>) -> Result<Object> {
        let (volume, context) = (volume.clone(), self.context.clone());
        self.lookup_offloading(move |wait| {
            let server = context.call(Actor::server(ServerWork::ShareRoot));
            match volume.vfs.open(server, &RelPath::root(), OpenHow::looking(wait)) {
                Ok(opened) => Ok(object_of(&volume, opened)),
                Err(FsError::NotFound) => Err(FsError::Stale),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// The object of a handle that names `volume`. An unlinked object is found while it is open.
    /// Where the backend cannot verify that an object is in the volume, the handle's seal proves
    /// that it was.
    ///
    /// # Errors
    /// [`FsError::Stale`] if it was removed or is outside the volume; [`FsError::InvalidParameter`]
    /// if the backend rejects the handle.
    pub async fn find_object(&self, volume: &Arc<Volume>, handle: &ObjectHandle) -> Result<Object> {
        if let Some(object) = self.find_cached(volume, handle) {
            return Ok(object);
        }
        let (volume, handle) = (volume.clone(), handle.node().clone());
        let (table, is_sealed) = (self.table.clone(), self.seal.is_some());
        let directory_cache = self.directory_cache.clone();
        self.offload(move || {
            let found =
                volume.vfs.need_handles()?.find(LOCATE, &handle, AttributeRequest::default())?;
            let known = table.find(found.attributes.key);
            let is_open = known.is_some_and(|state| state.is_open_in(&volume.vfs));
            let is_named = found.attributes.links > 0;
            if !is_open && !(is_named && (found.is_certain || is_sealed)) {
                return Err(FsError::Stale);
            }
            let veto = &volume.options.veto_names;
            if !found.path.is_nameless() && veto.check(&found.path, false).is_err() {
                return Err(FsError::Stale);
            }
            if found.node.kind() == FileKind::Directory {
                directory_cache.insert(&volume.vfs, &handle, &found.node);
            }
            Ok(Object { volume, node: found.node, path: found.path })
        })
        .await
    }

    /// The object from a cache, if it still exists.
    fn find_cached(&self, volume: &Arc<Volume>, handle: &ObjectHandle) -> Option<Object> {
        let Some(node) = self.directory_cache.find(&volume.vfs, handle.node()) else {
            let (node, path) = volume.names().find_cached(handle.node(), self.context.order())?;
            let is_served = volume.options.veto_names.check(&path, false).is_ok();
            return is_served.then(|| Object { volume: volume.clone(), node, path });
        };
        let path = volume.names().path_since(self.context.call(LOCATE), &*node);
        match path {
            Ok(path) if volume.options.veto_names.check(&path, false).is_ok() => {
                Some(Object { volume: volume.clone(), node, path })
            }
            _ => {
                self.directory_cache.evict(handle.node());
                None
            }
        }
    }

    /// Runs a lookup inline if it is answered from memory, otherwise on a worker.
    pub(crate) async fn lookup_offloading<T: Send + 'static>(
        &self,
        look: impl Fn(Wait) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match look(Wait::Never) {
            Err(FsError::WouldBlock) => self.offload(move || look(Wait::Allowed)).await,
            other => other,
        }
    }

    /// The object `name` in `directory`, byte for byte; a symbolic link is not followed.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::NotDirectory`], [`FsError::IsSymlink`] if `directory` is a
    /// symbolic link, [`FsError::AccessDenied`], [`FsError::Stale`].
    pub async fn lookup(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        name: &Name,
    ) -> Result<Object> {
        Ok(self.lookup_with_attributes(caller, directory, name).await?.0)
    }

    /// As [`RequestFiles::lookup`], with attributes like those of
    /// [`RequestFiles::object_attributes_alone`].
    ///
    /// # Errors
    /// As [`RequestFiles::lookup`].
    pub async fn lookup_with_attributes(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        name: &Name,
    ) -> Result<(Object, Attributes)> {
        directory.need_directory()?;
        let (caller, directory, name) = (caller.clone(), directory.clone(), name.clone());
        let context = self.context.clone();
        self.lookup_offloading(move |wait| {
            let actor = context.call(caller.identity.actor());
            lookup_with_attributes(actor, &directory, &name, wait)
        })
        .await
    }

    /// The parent of `directory`.
    ///
    /// # Errors
    /// [`FsError::NotFound`] for the root of the volume; as [`RequestFiles::lookup`].
    pub async fn lookup_parent(&self, caller: &Arc<Caller>, directory: &Object) -> Result<Object> {
        directory.need_directory()?;
        let (caller, directory) = (caller.clone(), directory.clone());
        let context = self.context.clone();
        self.lookup_offloading(move |wait| {
            let actor = context.call(caller.identity.actor());
            directory.with_stable_path(|path| {
                let (parent, _) = path.split().ok_or(FsError::NotFound)?;
                let volume = &directory.volume;
                let found = volume.vfs.open(actor, &parent, OpenHow::looking(wait))?;
                Ok(object_of(volume, found))
            })
        })
        .await
    }
}

fn lookup_with_attributes(
    actor: Actor<'_>,
    directory: &Object,
    name: &Name,
    wait: Wait,
) -> Result<(Object, Attributes)> {
    let volume = &directory.volume;
    directory.with_stable_path(|path| {
        let path = path.join(name);
        volume.options.veto_names.check(&path, false)?;
        let found = volume.vfs.open(actor, &path, OpenHow::looking(wait))?;
        let attributes = found.attributes;
        Ok((object_of(volume, found), attributes))
    })
}

impl Object {
    /// Refuses an object that is not a directory, with an error by its kind.
    pub(super) fn need_directory(&self) -> Result<()> {
        match self.kind() {
            FileKind::Directory => Ok(()),
            FileKind::Symlink => Err(FsError::IsSymlink),
            _ => Err(FsError::NotDirectory),
        }
    }

    /// Current path of the object.
    ///
    /// # Errors
    /// [`FsError::Stale`] if it has none in the volume.
    pub(crate) fn present_path(&self) -> Result<RelPath> {
        match self.volume.vfs.handles() {
            Some(handles) => handles.path_of(LOCATE, &*self.node),
            // Such a backend reaches nodes by path only.
            None => Ok(self.path.clone()),
        }
    }

    /// As [`Object::present_path`], from changes received since the request of this order arrived
    /// and changes by this process ([`vfs::NameCache::path_since`]).
    ///
    /// # Errors
    /// As [`Object::present_path`].
    pub(crate) fn path_since(&self, order: ArrivalOrder) -> Result<RelPath> {
        match self.volume.vfs.handles() {
            Some(_) => self.volume.names().path_since(LOCATE.in_order(order), &*self.node),
            None => Ok(self.path.clone()),
        }
    }

    /// Calls with the object's known path, and repeats the call if the path has changed meanwhile:
    /// it may have led elsewhere then.
    pub(super) fn with_stable_path<T>(&self, call: impl Fn(&RelPath) -> Result<T>) -> Result<T> {
        let mut path = self.path.clone();
        for _ in 0..TRIES_MAX {
            let result = call(&path);
            let now = self.present_path()?;
            if now == path {
                return match result {
                    // The object exists, so a directory above denies search.
                    Err(FsError::PathNotFound) => Err(FsError::NotFound),
                    other => other,
                };
            }
            path = now;
        }
        Err(FsError::Stale)
    }
}

pub(super) fn object_of(volume: &Arc<Volume>, opened: OpenedNode) -> Object {
    Object { volume: volume.clone(), node: opened.node, path: opened.path }
}
