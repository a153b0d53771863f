//! Removal: an open's name becomes delete pending, and its last close removes it
//! ([`crate::pending_removal`]). MS-FSA 2.1.5.15.3.

use crate::authorize::{posix_forbids_removal, stored, stored_lets_remove};
use crate::context::RequestContext;
use crate::open_file::ReadingNode;
use crate::pending_removal::exact;
use crate::server_work::WANTED;
use crate::volume::dos;
use crate::{Access, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{
    AttributeRequest, Attributes, Case, FileKind, FsError, OpenedNode, RelPath, Result, Wait,
};

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
/// list. The read leaves an access time that the open set or stopped.
fn is_empty(context: &RequestContext, open: &OpenFile) -> Result<bool> {
    match look(context, open, &open.path(), true) {
        // The close removes the link that was followed, not the directory.
        Ok(found) if found.attributes.kind == FileKind::Symlink => Ok(true),
        Ok(found) => match open.reading_node() {
            ReadingNode::Noatime(node) => node.is_empty(),
            ReadingNode::Shared(_) => found.node.is_empty(),
        },
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
