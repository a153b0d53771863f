//! Stage 5: register the open in the table.

use super::{OpenInProgress, OpenPlan};
use crate::Caller;
use crate::cache_holder::CacheWish;
use crate::context::RequestContext;
use crate::pending_removal::remove_pending_name;
use crate::stream::OpenStream;
use crate::table::{
    DeletePendingName, FileTable, OpenRefusal, OpenedEntry, RegisteredOpen, StreamOpenEntry,
};
use acl::Access;
use grants::{OpenId, OpenWish, ShareMode};
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
    /// # Errors
    /// [`vfs::FsError::ShareViolation`], [`vfs::FsError::DeletePending`],
    /// [`vfs::FsError::TooMany`]; or [`OpenRefusal::Breaking`] while caches of other clients are
    /// broken.
    pub(super) fn acquire(
        opening: &OpenInProgress,
        entry: &OpenedEntry<'_>,
        access: Access,
        opening_access: Access,
        cache: Option<&CacheWish>,
    ) -> Result<Self, OpenRefusal> {
        let context = &opening.context;
        if (access | opening_access).contains(Access::DELETE) {
            opening.table.break_stream_handles(context, entry.key, opening.id)?;
        }
        let held =
            opening.table.open(context, entry, wish_of(opening, access, opening_access), cache)?;
        Ok(Self::of(opening, held, None))
    }

    /// Holds a file while one of its streams is opened with these rights. The hold shares and
    /// denies nothing, but the file is not deleted before the stream is closed.
    ///
    /// # Errors
    /// [`vfs::FsError::DeletePending`], [`vfs::FsError::TooMany`]; [`vfs::FsError::ShareViolation`]
    /// if the file is open for deletion and the stream's open does not share deletion.
    pub(super) fn hold(
        opening: &OpenInProgress,
        entry: &OpenedEntry<'_>,
        access: Access,
    ) -> Result<Self, OpenRefusal> {
        let wish = OpenWish::new(opening.id, Access::NONE, ShareMode::ALL);
        let held = opening.table.open(&opening.context, entry, wish, None)?;
        let hold = Self::of(opening, held, None);
        let stream = wish_of(opening, access, Access::NONE);
        opening.table.break_deleting_handles(&opening.context, entry.key, &stream)?;
        Ok(hold)
    }

    /// Registers an open of a stream of the held file. The pair holds the lasting rights and those
    /// used once.
    ///
    /// # Errors
    /// As [`OpenTicket::acquire`].
    pub(super) fn acquire_stream(
        mut self,
        opening: &OpenInProgress,
        entry: &StreamOpenEntry<'_>,
        (access, opening_access): (Access, Access),
    ) -> Result<Self, OpenRefusal> {
        let wish = OpenWish { only_link: true, ..wish_of(opening, access, opening_access) };
        let cache = opening.plan.caching.as_ref();
        match opening.table.open_stream(&opening.context, entry, wish, cache) {
            Ok(held) => Ok(Self::of(opening, held, Some(Box::new(self)))),
            Err(refusal) => {
                // Another client uses the stream, and the new file with it.
                self.new_file = None;
                Err(refusal)
            }
        }
    }

    fn of(opening: &OpenInProgress, held: RegisteredOpen, hold: Option<Box<Self>>) -> Self {
        let table = opening.table.clone();
        let instead_of = instead_of(opening);
        Self { table, held: Some(held), id: opening.id, instead_of, new_file: None, hold }
    }

    /// A ticket for an open that another path registered.
    pub(crate) fn entered(table: &Arc<FileTable>, entered: RegisteredOpen, id: OpenId) -> Self {
        let (table, held) = (table.clone(), Some(entered));
        Self { table, held, id, instead_of: None, new_file: None, hold: None }
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
            hold.new_file = None;
        }
        (held, hold)
    }

    /// Withdraws the open.
    ///
    /// # Errors
    /// Errors from removing a file that was delete pending.
    pub(crate) fn release(mut self, context: &RequestContext) -> vfs::Result<()> {
        self.withdraw(context)
    }

    fn withdraw(&mut self, context: &RequestContext) -> vfs::Result<()> {
        let Some(RegisteredOpen { state, name, .. }) = self.held.take() else { return Ok(()) };
        let undo = self.new_file.take();
        let was_created = undo.is_some();
        if let Some(caller) = undo {
            let mut held = state.lock(context);
            held.grants.set_delete_on_close(self.id);
            held.set_delete_pending(DeletePendingName { name, caller, parent_key: None });
        }
        match self.table.close(context, &state, self.id, was_created) {
            Some(removal) => match remove_pending_name(context, &self.table, &state, removal, None)
            {
                Err(FsError::NotFound | FsError::PathNotFound | FsError::NotEmpty) => Ok(()),
                other => other,
            },
            None => Ok(()),
        }
    }
}

/// The table sets link and caching.
fn wish_of(opening: &OpenInProgress, access: Access, opening_access: Access) -> OpenWish {
    let OpenPlan { share, delete_on_close, .. } = opening.plan;
    let posix = opening.is_posix();
    OpenWish {
        opening_access,
        delete_on_close,
        posix,
        instead_of: instead_of(opening),
        ..OpenWish::new(opening.id, access, share)
    }
}

fn instead_of(opening: &OpenInProgress) -> Option<OpenId> {
    opening.with.instead_of.as_ref().map(|open| open.id)
}

impl Drop for OpenTicket {
    fn drop(&mut self) {
        if let Err(error) = self.withdraw(&RequestContext::SERVER) {
            tracing::warn!(%error, "a file marked for deletion could not be removed");
        }
    }
}
