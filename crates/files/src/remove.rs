//! Removal: delete pending, and the removal of the name at the last close. MS-FSA 2.1.5.5,
//! 2.1.5.15.3.

use crate::authorize::{posix_forbids_removal, stored, stored_lets_remove};
use crate::cache_holder::ParentKey;
use crate::context::RequestContext;
use crate::server_work::WANTED;
use crate::table::{DeletePendingName, FileTable, OpenFileState, Removal};
use crate::volume::dos;
use crate::watch::{ChangeAction, WatchFilter, name_filter};
use crate::{Access, Caller, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{
    AttributeRequest, Attributes, Case, ChildName, ExpectedChild, FileKey, FileKind, FsError,
    NameActor, OpenHow, OpenedNode, RelPath, Result, StreamName, Vfs, Wait,
};

/// Limit of retries after the name was renamed meanwhile.
const REMOVE_TRIES_MAX: u32 = 4;

impl RequestFiles {
    /// Sets or clears delete pending for the open's name.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] without DELETE, or if POSIX forbids the removal;
    /// [`FsError::CannotDelete`] for read-only files and the root, [`FsError::NotEmpty`] for
    /// directories.
    pub fn set_delete(&self, open: &OpenFile, delete: bool, ignore_readonly: bool) -> Result<()> {
        open.need_any(Access::DELETE)?;
        open.need_writable()?;
        if delete {
            let ignores = ignore_readonly || open.is_posix();
            let attributes =
                open.node.attributes(if ignores { AttributeRequest::default() } else { WANTED })?;
            check_deletable(&self.context, open, &attributes, ignores)?;
        }
        self.set_disposition(open, delete)
    }

    /// As [`RequestFiles::set_delete`]; on a worker if the backend's lookups block.
    ///
    /// # Errors
    /// As [`RequestFiles::set_delete`].
    pub async fn mark_deleted(
        &self,
        open: &Arc<OpenFile>,
        delete: bool,
        ignore_readonly: bool,
    ) -> Result<()> {
        if !open.volume().features().always_waits {
            return self.set_delete(open, delete, ignore_readonly);
        }
        let (files, open) = (self.clone(), open.clone());
        self.offload(move || files.set_delete(&open, delete, ignore_readonly)).await
    }

    /// Sets delete pending for a new open with these attributes, whatever its DOS attributes say.
    ///
    /// # Errors
    /// As [`RequestFiles::set_delete`].
    pub(crate) fn mark_new_open_deleted(
        &self,
        open: &OpenFile,
        attributes: &Attributes,
    ) -> Result<()> {
        open.need_any(Access::DELETE)?;
        open.need_writable()?;
        check_deletable(&self.context, open, attributes, true)?;
        self.set_disposition(open, true)
    }

    fn set_disposition(&self, open: &OpenFile, delete: bool) -> Result<()> {
        let mut held = open.state.lock(&self.context);
        if !held.grants.is_open(open.id) {
            return Err(FsError::Stale);
        }
        held.grants.handle_disposition(open.id, delete);
        if delete {
            // Breaks caches that the opening did not wait for.
            held.grants.caches.handle_name_change(open.cache_owner());
            held.set_delete_pending(open.pending_delete());
        } else {
            held.clear_delete_pending(open.name.link);
        }
        drop(held);
        if open.is_directory() {
            open.report_delete_pending();
        }
        Ok(())
    }
}

fn check_deletable(
    context: &RequestContext,
    open: &OpenFile,
    attributes: &Attributes,
    ignore_readonly: bool,
) -> Result<()> {
    let readonly = attributes.dos.bits.unwrap_or(0) & dos::READONLY != 0;
    if open.name.stream.is_some() {
        return check_stream_deletable(open, attributes, readonly && !ignore_readonly);
    }
    let Some(parent) = open.path().parent() else { return Err(FsError::CannotDelete) };
    if readonly && !ignore_readonly {
        return Err(FsError::CannotDelete);
    }
    if open.is_directory() && !is_empty(context, open)? {
        return Err(FsError::NotEmpty);
    }
    // Refused now: at close no caller receives the error.
    let (volume, identity) = (open.volume(), &open.caller.identity);
    match volume.names().open_directory(
        context.call(identity.actor()),
        &parent,
        Case::Sensitive,
        Wait::Allowed,
    ) {
        Ok(found) if forbids(open, &found.opened, attributes) => Err(FsError::AccessDenied),
        _ => Ok(()),
    }
}

/// Removing a stream changes its file, not a directory.
fn check_stream_deletable(open: &OpenFile, file: &Attributes, readonly: bool) -> Result<()> {
    if readonly {
        return Err(FsError::CannotDelete);
    }
    if posix_forbids_removal(&open.caller, file, file.uid) && stored(&*open.node).is_none() {
        return Err(FsError::AccessDenied);
    }
    Ok(())
}

fn forbids(open: &OpenFile, parent: &OpenedNode, child: &Attributes) -> bool {
    posix_forbids_removal(&open.caller, &parent.attributes, child.uid)
        && !stored_lets_remove(open.volume(), &open.caller, (&*open.node, child), parent)
}

/// Whether a directory is empty, read through another handle: the open's may lack the right to
/// list.
fn is_empty(context: &RequestContext, open: &OpenFile) -> Result<bool> {
    match look(context, open, &open.path(), true) {
        // The close removes the link that was followed, not the directory.
        Ok(found) if found.attributes.kind == FileKind::Symlink => Ok(true),
        Ok(found) => found.node.is_empty(),
        // A caller that may not list gets the error from the removal.
        Err(FsError::AccessDenied) => Ok(true),
        Err(error) => Err(error),
    }
}

fn look(
    context: &RequestContext,
    open: &OpenFile,
    path: &RelPath,
    read: bool,
) -> Result<OpenedNode> {
    let actor = context.call(open.caller.identity.actor());
    open.volume().vfs.open(actor, path, exact(read, true))
}

fn exact(read: bool, no_follow: bool) -> OpenHow {
    let (case, wait) = (Case::Sensitive, Wait::Allowed);
    OpenHow { read, write: false, case, wanted: AttributeRequest::default(), no_follow, wait }
}

/// Removes a name after its last close; it cannot be opened until this returns. `parent_key` is the
/// ParentLeaseKey of the last open.
///
/// # Errors
/// Errors of the backend. The close of a Windows open ignores a name that is gone already and a
/// directory that is not empty. MS-FSA 2.1.5.5.
pub(crate) fn remove_pending_name(
    context: &RequestContext,
    table: &FileTable,
    state: &OpenFileState,
    removal: Removal,
    parent_key: Option<ParentKey>,
) -> Result<()> {
    let result = match &removal.pending {
        Some(pending) => unlink(context, pending, state.present_key()),
        None => Err(FsError::NotFound),
    };
    if let (Ok(removed), Some(pending)) = (&result, &removal.pending) {
        // The lease survives only if requester and remover use the same key.
        let except = parent_key.filter(|key| pending.parent_key == Some(*key));
        report(context, table, pending, removed, state.is_directory, except);
        pending.name.volume.note_freed();
    }
    table.removed(context, state, removal.link);
    result.map(|_| ())
}

/// A removed name or stream.
enum RemovedItem {
    Name(RelPath),
    /// Name of the stream; none if it had been removed already.
    Stream(Option<StreamName>),
}

fn report(
    context: &RequestContext,
    table: &FileTable,
    pending: &DeletePendingName,
    removed: &RemovedItem,
    is_directory: bool,
    except: Option<ParentKey>,
) {
    let (vfs, caller) = (&pending.name.volume.vfs, &pending.caller);
    match removed {
        RemovedItem::Name(path) => {
            table.break_directory_of(context, vfs, caller, path, except);
            let changes = [(ChangeAction::Removed, path)];
            table.watches.report(vfs, Some(caller), name_filter(is_directory), &changes);
        }
        RemovedItem::Stream(Some(name)) => {
            let (path, changes) = (pending.name.path(), [(ChangeAction::RemovedStream, name)]);
            let (watches, what) = (&table.watches, WatchFilter::STREAM_NAME);
            watches.report_streams(vfs, Some(caller), what, &path, &changes);
        }
        RemovedItem::Stream(None) => {}
    }
}

/// Removes a name or stream, and returns it.
fn unlink(
    context: &RequestContext,
    pending: &DeletePendingName,
    key: FileKey,
) -> Result<RemovedItem> {
    let (vfs, caller) = (&pending.name.volume.vfs, &pending.caller);
    if let Some(stream) = &pending.name.stream {
        return stream.remove(caller).map(RemovedItem::Stream);
    }
    let mut path = pending.name.path();
    let mut result = Ok(());
    for _ in 0..REMOVE_TRIES_MAX {
        let actor = context.call(caller.identity.actor());
        result = match vfs.remove(actor, &path, key) {
            Err(FsError::NotFound) => unlink_symlink(context, vfs, caller, &path, key),
            Err(FsError::AccessDenied) => {
                match directory_to_unlink_in(context, pending, &path, key) {
                    Some(directory) => vfs.remove_in(
                        NameActor::Granted(&caller.identity),
                        ChildName { directory: &*directory.node, path: &path },
                        ExpectedChild { key, is_file_as_seen: false },
                    ),
                    None => Err(FsError::AccessDenied),
                }
            }
            other => other,
        };
        // The name may have been changed since it was read.
        let now = pending.name.path();
        if !matches!(result, Err(FsError::NotFound | FsError::PathNotFound)) || now == path {
            break;
        }
        path = now;
    }
    result.map(|()| RemovedItem::Name(path))
}

/// The directory from which a stored descriptor grants the removal that POSIX refuses.
fn directory_to_unlink_in(
    context: &RequestContext,
    pending: &DeletePendingName,
    path: &RelPath,
    key: FileKey,
) -> Option<OpenedNode> {
    let (volume, caller) = (&pending.name.volume, &pending.caller);
    let actor = context.call(caller.identity.actor());
    let parent = path.parent()?;
    let parent = volume.names().open_directory(actor, &parent, Case::Sensitive, Wait::Allowed);
    let parent = parent.ok()?.opened;
    let file = volume.vfs.open(actor, path, exact(false, true)).ok()?;
    let lets = file.attributes.key == key
        && stored_lets_remove(volume, caller, (&*file.node, &file.attributes), &parent);
    lets.then_some(parent)
}

/// Removes the symbolic link through which a file was opened, not the file.
fn unlink_symlink(
    context: &RequestContext,
    vfs: &Arc<dyn Vfs>,
    caller: &Caller,
    path: &RelPath,
    key: FileKey,
) -> Result<()> {
    let actor = context.call(caller.identity.actor());
    let link = vfs.open(actor, path, exact(false, true))?;
    let target = vfs.open(actor, path, exact(false, false))?;
    if link.attributes.kind != FileKind::Symlink || target.attributes.key != key {
        return Err(FsError::NotFound);
    }
    vfs.remove(actor, path, link.attributes.key)
}
