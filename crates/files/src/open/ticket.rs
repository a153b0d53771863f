//! A registered open until it is complete; dropping it undoes the open.

use crate::Caller;
use crate::context::RequestContext;
use crate::frozen_times::FrozenTimes;
use crate::open_stream::OpenStream;
use crate::pending_removal::remove_pending_name;
use crate::table::{DeletePendingName, FileTable, RegisteredOpen};
use grants::OpenId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::FsError;

/// A registered open that is withdrawn on drop unless [`OpenTicket::complete`] is called.
pub(crate) struct OpenTicket {
    table: Arc<FileTable>,
    held: Option<RegisteredOpen>,
    id: OpenId,
    /// Open that this one replaces once it is kept.
    instead_of: Option<OpenId>,
    /// Creator of a file that was created for this open; the file is removed if the open fails.
    new_file: Option<Arc<Caller>>,
    /// For a named stream, the hold on its file; released after the stream.
    hold: Option<Box<OpenTicket>>,
}

impl OpenTicket {
    /// A ticket for a registered open. A stream has the hold on its file.
    pub(crate) fn new(
        table: &Arc<FileTable>,
        entered: RegisteredOpen,
        id: OpenId,
        instead_of: Option<OpenId>,
        hold: Option<Box<Self>>,
    ) -> Self {
        let (table, held) = (table.clone(), Some(entered));
        Self { table, held, id, instead_of, new_file: None, hold }
    }

    /// Identifier of the open.
    pub(crate) fn id(&self) -> OpenId {
        self.id
    }

    /// Whether a client caches the file.
    pub(crate) fn has_caches(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.state.has_caches())
    }

    /// The stream of this open, if it is one.
    pub(super) fn stream(&self) -> Option<Arc<OpenStream>> {
        self.held.as_ref()?.name.stream.clone()
    }

    /// Marks the file's streams as about to be removed.
    ///
    /// # Errors
    /// [`vfs::FsError::ShareViolation`] if an open of one does not share deletion.
    pub(super) fn detach_streams(&self) -> vfs::Result<()> {
        let Some(entered) = &self.held else { return Ok(()) };
        let mut held = entered.state.lock(&RequestContext::SERVER);
        if held.streams_forbid_delete() {
            return Err(vfs::FsError::ShareViolation);
        }
        held.detach_streams();
        Ok(())
    }

    /// Counts a truncation by this open, for writes in flight: see
    /// [`crate::OpenFile::note_length_change`].
    pub(super) fn note_length_change(&self) {
        if let Some(entered) = &self.held {
            entered.state.length_changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether the name of this open is delete pending.
    pub(crate) fn is_delete_pending(&self) -> bool {
        let pending =
            |held: &RegisteredOpen| held.state.view().grants.is_delete_pending(held.name.link);
        self.held.as_ref().is_some_and(pending)
    }

    /// Retains a created file although this open fails: another client uses it.
    pub(super) fn retain_new_file(&mut self) {
        self.new_file = None;
    }

    /// Marks the file as created for this open by `caller`.
    pub(super) fn of_new_file(mut self, caller: &Arc<Caller>) -> Self {
        self.new_file = Some(caller.clone());
        self
    }

    /// Completes the open. A stream's hold on its file is returned with it.
    pub(crate) fn complete(
        mut self,
        context: &RequestContext,
    ) -> (RegisteredOpen, Option<Box<Self>>) {
        let held = self.held.take().expect("only this takes it, and takes the ticket too");
        if let Some(before) = self.instead_of {
            held.state.lock(context).transfer(before, self.id);
        }
        let mut hold = self.hold.take();
        if let Some(hold) = &mut hold {
            // The new file stays as well.
            hold.retain_new_file();
        }
        (held, hold)
    }

    /// Withdraws the open. `times` of the closed stream stay.
    ///
    /// # Errors
    /// Errors from removing a file that was delete pending.
    pub(crate) fn release(
        mut self,
        context: &RequestContext,
        times: Option<&Arc<FrozenTimes>>,
    ) -> vfs::Result<()> {
        self.withdraw(context, times)
    }

    fn withdraw(
        &mut self,
        context: &RequestContext,
        times: Option<&Arc<FrozenTimes>>,
    ) -> vfs::Result<()> {
        let Some(RegisteredOpen { state, name, .. }) = self.held.take() else { return Ok(()) };
        let undo = self.new_file.take();
        let was_created = undo.is_some();
        if let Some(caller) = undo {
            let mut held = state.lock(context);
            held.grants.set_delete_on_close(self.id);
            held.set_delete_pending(DeletePendingName { name, caller, parent_key: None });
        }
        let removal = self.table.close(context, &state, self.id, was_created);
        let remove =
            |removal| remove_pending_name(context, &self.table, &state, removal, (None, times));
        match removal {
            Some(removal) => match remove(removal) {
                Err(FsError::NotFound | FsError::PathNotFound | FsError::NotEmpty) => Ok(()),
                other => other,
            },
            None => Ok(()),
        }
    }
}

impl Drop for OpenTicket {
    fn drop(&mut self) {
        if let Err(error) = self.withdraw(&RequestContext::SERVER, None) {
            tracing::warn!(%error, "cannot remove a delete-pending file at its last close");
        }
    }
}
