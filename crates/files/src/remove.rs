//! Removing: the mark, and what the last close does about it. MS-FSA 2.1.5.5,
//! 2.1.5.15.3.

use crate::authorize::{certainly_unwritable, stored, stored_lets_remove};
use crate::context::RequestContext;
use crate::directory_lease::ParentKey;
use crate::server_work::WANTED;
use crate::table::{Doomed, FileState, Removal, Table};
use crate::volume::dos;
use crate::watch::{ChangeKind, Filter, name_filter};
use crate::{Access, Caller, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{
    Attributes, Case, ChildName, Expected, FileKey, FileKind, FsError, NameActor, OpenHow, Opened,
    RelPath, Result, StreamName, Vfs, Wait, Wanted,
};

/// Times that a name is looked for again because it was renamed meanwhile.
const REMOVE_TRIES_MAX: u32 = 4;

impl RequestFiles {
    /// Marks the name to vanish at its last close, or takes the mark away.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] without DELETE, or where POSIX will not let
    /// the caller remove it; [`FsError::CannotDelete`] for read-only files and
    /// the root, [`FsError::NotEmpty`] for directories.
    pub fn set_delete(&self, open: &OpenFile, delete: bool, ignore_readonly: bool) -> Result<()> {
        open.need_any(Access::DELETE)?;
        open.need_writable()?;
        if delete {
            let ignores = ignore_readonly || open.is_posix();
            let attributes =
                open.node.attributes(if ignores { Wanted::default() } else { WANTED })?;
            check_deletable(&self.context, open, &attributes, ignores)?;
        }
        self.dispose(open, delete)
    }

    /// As [`RequestFiles::set_delete`]; on a worker where all looks take long.
    ///
    /// # Errors
    /// As [`RequestFiles::set_delete`].
    pub async fn mark_deleted(
        &self,
        open: &Arc<OpenFile>,
        delete: bool,
        ignore_readonly: bool,
    ) -> Result<()> {
        if !open.volume().features().waits {
            return self.set_delete(open, delete, ignore_readonly);
        }
        let (files, open) = (self.clone(), open.clone());
        self.offload(move || files.set_delete(&open, delete, ignore_readonly)).await
    }

    /// Marks the name of an open that was just made to vanish at its close, whatever DOS
    /// attributes say; it has these attributes.
    ///
    /// # Errors
    /// As [`RequestFiles::set_delete`].
    pub(crate) fn doom(&self, open: &OpenFile, attributes: &Attributes) -> Result<()> {
        open.need_any(Access::DELETE)?;
        open.need_writable()?;
        check_deletable(&self.context, open, attributes, true)?;
        self.dispose(open, true)
    }

    fn dispose(&self, open: &OpenFile, delete: bool) -> Result<()> {
        let mut held = open.state.lock(&self.context);
        if !held.grants.is_open(open.id) {
            return Err(FsError::Stale);
        }
        held.grants.handle_disposition(open.id, delete);
        if delete {
            // Those who were not waited for are asked at least.
            held.grants.caches.handle_name_change(open.cache_owner());
            held.doom(open.doomed());
        } else {
            held.forgive(open.name.link);
        }
        drop(held);
        if open.is_directory() {
            open.judge_watches();
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
    // Better refused now than when nobody listens any more.
    let (vfs, who) = (&open.volume().vfs, &open.caller.identity);
    match vfs.open_directory(context.call(who.actor()), &parent, Case::Sensitive, Wait::Allowed) {
        Ok(found) if forbids(open, &found.opened, attributes) => Err(FsError::AccessDenied),
        _ => Ok(()),
    }
}

/// Removing a stream is a change of its file, not of a directory.
fn check_stream_deletable(open: &OpenFile, file: &Attributes, readonly: bool) -> Result<()> {
    if readonly {
        return Err(FsError::CannotDelete);
    }
    if certainly_unwritable(&open.caller, file, file.uid) && stored(&*open.node).is_none() {
        return Err(FsError::AccessDenied);
    }
    Ok(())
}

fn forbids(open: &OpenFile, parent: &Opened, child: &Attributes) -> bool {
    certainly_unwritable(&open.caller, &parent.attributes, child.uid)
        && !stored_lets_remove(open.volume(), &open.caller, (&*open.node, child), parent)
}

/// Whether a directory is empty, looked at through a handle of its own: the
/// open's may not be for listing.
fn is_empty(context: &RequestContext, open: &OpenFile) -> Result<bool> {
    match look(context, open, &open.path(), true) {
        // The link goes over which the directory was opened, not the directory.
        Ok(found) if found.attributes.kind == FileKind::Symlink => Ok(true),
        Ok(found) => found.node.is_empty(),
        // Who may not list it learns at the removal.
        Err(FsError::AccessDenied) => Ok(true),
        Err(error) => Err(error),
    }
}

fn look(context: &RequestContext, open: &OpenFile, path: &RelPath, read: bool) -> Result<Opened> {
    let who = context.call(open.caller.identity.actor());
    open.volume().vfs.open(who, path, exact(read, true))
}

fn exact(read: bool, no_follow: bool) -> OpenHow {
    let (case, wait) = (Case::Sensitive, Wait::Allowed);
    OpenHow { read, write: false, case, wanted: Wanted::default(), no_follow, wait }
}

/// Removes a name whose last open has gone. Until it returns, the name cannot
/// be opened.
///
/// # Errors
/// Those of the backend. To Windows a name that is gone already, and a directory
/// that something was put into, are none: the first is what was wanted, the second
/// stays. MS-FSA 2.1.5.5.
///
/// The directory is kept by `parent_key` for the client of the last open.
pub(crate) fn carry_out(
    context: &RequestContext,
    table: &Table,
    state: &FileState,
    removal: Removal,
    parent_key: Option<ParentKey>,
) -> Result<()> {
    let result = match &removal.doomed {
        Some(doomed) => unlink(context, doomed, state.present_key()),
        None => Err(FsError::NotFound),
    };
    if let (Ok(gone), Some(doomed)) = (&result, &removal.doomed) {
        // Who wanted it and who did it must be one to know of it.
        let except = parent_key.filter(|key| doomed.parent_key == Some(*key));
        report(context, table, doomed, gone, state.is_directory, except);
        doomed.name.volume.note_freed();
    }
    table.removed(context, state, removal.link);
    result.map(|_| ())
}

/// What is gone.
enum Gone {
    Name(RelPath),
    /// Of the file by whose name the stream was open; none if it had gone before.
    Stream(Option<StreamName>),
}

fn report(
    context: &RequestContext,
    table: &Table,
    doomed: &Doomed,
    gone: &Gone,
    is_directory: bool,
    except: Option<ParentKey>,
) {
    let (vfs, caller) = (&doomed.name.volume.vfs, &doomed.caller);
    match gone {
        Gone::Name(path) => {
            table.break_directory_of(context, vfs, caller, path, except);
            let changes = [(ChangeKind::Removed, path)];
            table.watches.report(vfs, Some(caller), name_filter(is_directory), &changes);
        }
        Gone::Stream(Some(name)) => {
            let (path, changes) = (doomed.name.path(), [(ChangeKind::RemovedStream, name)]);
            let (watches, what) = (&table.watches, Filter::STREAM_NAME);
            watches.report_streams(vfs, Some(caller), what, &path, &changes);
        }
        Gone::Stream(None) => {}
    }
}

/// Removes a name, or a stream; what it was.
fn unlink(context: &RequestContext, doomed: &Doomed, key: FileKey) -> Result<Gone> {
    let (vfs, caller) = (&doomed.name.volume.vfs, &doomed.caller);
    if let Some(stream) = &doomed.name.stream {
        return stream.remove(caller).map(Gone::Stream);
    }
    let mut path = doomed.name.path();
    let mut result = Ok(());
    for _ in 0..REMOVE_TRIES_MAX {
        let who = context.call(caller.identity.actor());
        result = match vfs.remove(who, &path, key) {
            Err(FsError::NotFound) => unlink_symlink(context, vfs, caller, &path, key),
            Err(FsError::AccessDenied) => match directory_to_unlink_in(context, doomed, &path, key)
            {
                Some(directory) => vfs.remove_in(
                    NameActor::Granted(&caller.identity),
                    ChildName { directory: &*directory.node, path: &path },
                    Expected { key, is_file_as_seen: false },
                ),
                None => Err(FsError::AccessDenied),
            },
            other => other,
        };
        // The name may have changed between our asking for it and now.
        let now = doomed.name.path();
        if !matches!(result, Err(FsError::NotFound | FsError::PathNotFound)) || now == path {
            break;
        }
        path = now;
    }
    result.map(|()| Gone::Name(path))
}

/// The directory from which a stored descriptor lets the caller remove a name that POSIX keeps.
fn directory_to_unlink_in(
    context: &RequestContext,
    doomed: &Doomed,
    path: &RelPath,
    key: FileKey,
) -> Option<Opened> {
    let (volume, caller) = (&doomed.name.volume, &doomed.caller);
    let who = context.call(caller.identity.actor());
    let parent = path.parent()?;
    let parent = volume.vfs.open_directory(who, &parent, Case::Sensitive, Wait::Allowed);
    let parent = parent.ok()?.opened;
    let file = volume.vfs.open(who, path, exact(false, true)).ok()?;
    let lets = file.attributes.key == key
        && stored_lets_remove(volume, caller, (&*file.node, &file.attributes), &parent);
    lets.then_some(parent)
}

/// A file that was opened through a symbolic link: the link goes, not the file.
fn unlink_symlink(
    context: &RequestContext,
    vfs: &Arc<dyn Vfs>,
    caller: &Caller,
    path: &RelPath,
    key: FileKey,
) -> Result<()> {
    let who = context.call(caller.identity.actor());
    let link = vfs.open(who, path, exact(false, true))?;
    let target = vfs.open(who, path, exact(false, false))?;
    if link.attributes.kind != FileKind::Symlink || target.attributes.key != key {
        return Err(FsError::NotFound);
    }
    vfs.remove(who, path, link.attributes.key)
}
