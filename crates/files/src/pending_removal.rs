//! Removal of a delete-pending name, after its last close. MS-FSA 2.1.5.5.

use crate::Caller;
use crate::authorize::stored_lets_remove;
use crate::cache_holder::ParentKey;
use crate::context::RequestContext;
use crate::frozen_times::{FrozenTimes, MovedTimes, keep_times};
use crate::table::{DeletePendingName, FileTable, OpenFileState, Removal};
use crate::watch::{ChangeAction, WatchFilter, name_filter};
use std::sync::Arc;
use vfs::{
    AttributeRequest, Case, ChildName, ExpectedChild, FileKey, FileKind, FsError, NameActor,
    OpenHow, OpenedNode, RelPath, Result, StreamName, Vfs, Wait,
};

/// Limit of retries after the name was renamed meanwhile.
const REMOVE_TRIES_MAX: u32 = 4;

/// Removes a name after its last close; it cannot be opened until this returns. `parent_key` is the
/// ParentLeaseKey of the last open, `times` are those that it set or stopped: other names of the
/// file present them.
///
/// # Errors
/// Errors of the backend. The close of a Windows open ignores a name that is gone already and a
/// directory that is not empty. MS-FSA 2.1.5.5.
pub(crate) fn remove_pending_name(
    context: &RequestContext,
    table: &FileTable,
    state: &OpenFileState,
    removal: Removal,
    (parent_key, times): (Option<ParentKey>, Option<&Arc<FrozenTimes>>),
) -> Result<()> {
    let result = match &removal.pending {
        Some(pending) => {
            keep_times(times, MovedTimes::Changed, || unlink(context, pending, state.present_key()))
        }
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

/// Options for opening a name in exactly this spelling.
pub(crate) fn exact(read: bool, no_follow: bool) -> OpenHow {
    let (case, wait) = (Case::Sensitive, Wait::Allowed);
    OpenHow { read, write: false, case, wanted: AttributeRequest::default(), no_follow, wait }
}
