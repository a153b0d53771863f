//! Stage 5: a place among the opens of the file.

use super::Opening;
use crate::Caller;
use crate::caching::CacheWish;
use crate::remove::carry_out;
use crate::table::{Doomed, Entered, Entry, NotEntered, Table};
use acl::Access;
use grants::{Caching, LinkId, OpenId, OpenWish};
use std::sync::Arc;

/// An open that is held and releases itself unless it is kept.
pub(super) struct Ticket {
    table: Arc<Table>,
    held: Option<Entered>,
    id: OpenId,
    /// The file was made for this open, and goes with it.
    new_file: Option<Arc<Caller>>,
}

impl Ticket {
    /// # Errors
    /// [`vfs::FsError::ShareViolation`], [`vfs::FsError::DeletePending`], [`vfs::FsError::TooMany`];
    /// or others have to give back what they keep.
    pub(super) fn acquire(
        opening: &Opening,
        entry: &Entry<'_>,
        access: Access,
        once: Access,
        cache: Option<&CacheWish>,
    ) -> Result<Self, NotEntered> {
        let wish = OpenWish {
            id: opening.id,
            // These and what is cached are known to the table only.
            link: LinkId::default(),
            only_link: entry.only_link,
            access,
            once,
            share: opening.plan.share,
            delete_on_close: opening.plan.delete_on_close,
            caching: Caching::NONE,
        };
        let held = opening.table.open(entry, wish, cache)?;
        Ok(Self { table: opening.table.clone(), held: Some(held), id: opening.id, new_file: None })
    }

    /// The file was made for this open by `caller`.
    pub(super) fn of_new_file(mut self, caller: &Arc<Caller>) -> Self {
        self.new_file = Some(caller.clone());
        self
    }

    /// The open came to be.
    pub(super) fn keep(mut self) -> Entered {
        self.held.take().expect("only this takes it, and takes the ticket too")
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(Entered { state, name, .. }) = self.held.take() else { return };
        let undo = self.new_file.take();
        let made_it = undo.is_some();
        if let Some(caller) = undo {
            let mut held = state.lock();
            held.grants.set_delete_on_close(self.id);
            held.doom(Doomed { name, caller });
        }
        if let Some(removal) = self.table.close(&state, self.id, made_it)
            && let Err(error) = carry_out(&self.table, &state, removal)
        {
            tracing::warn!(%error, "a file marked for deletion could not be removed");
        }
    }
}
