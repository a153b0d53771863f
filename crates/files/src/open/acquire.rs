//! Stage 5: register the open in the table.

use super::{OpenInProgress, OpenPlan, OpenTicket};
use crate::cache_holder::CacheWish;
use crate::table::{OpenRefusal, OpenedEntry, RegisteredOpen, StreamOpenEntry};
use acl::Access;
use grants::{OpenId, OpenWish, ShareMode};

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
                self.retain_new_file();
                Err(refusal)
            }
        }
    }

    fn of(opening: &OpenInProgress, held: RegisteredOpen, hold: Option<Box<Self>>) -> Self {
        Self::new(&opening.table, held, opening.id, instead_of(opening), hold)
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
