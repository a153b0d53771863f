//! Change notification for directories. MS-FSA 2.1.4.1, 2.1.5.11, MS-SMB2 3.3.1.3.
//!
//! A watch belongs to an open of a directory, begins with the open's first request and ends with
//! the open. Changes between two requests are buffered within bounds. Watches report the changes of
//! every protocol.
//!
//! A data change is reported when it happens, and a few times a second while it continues: an
//! observer sees a growing log while its writer has it open.

mod change;
mod charge;
mod data;
mod external;
mod index;
mod pulse;
mod state;
mod streams;
mod watcher;
mod write_kinds;

use crate::context::RequestContext;
use crate::{Access, Files, OpenFile, RequestFiles};
pub(crate) use change::name_filter;
pub use change::{
    ChangeAction, Measure, WATCH_BYTES_MAX, WatchAnswer, WatchChange, WatchFilter, WatchWish,
};
pub(crate) use charge::WatchLedgers;
pub use charge::{WATCHES_MAX, WATCHES_PER_DIRECTORY_MAX};
pub(crate) use data::DataReports;
pub(crate) use index::Watches;
use limits::{Ledger, LedgerHolder};
pub(crate) use state::WatchEnd;
use std::sync::Arc;
use vfs::{FsError, RelPath, Result};
pub use watcher::NextChanges;
pub(crate) use watcher::{WatchedCache, Watcher};

impl Files {
    /// Ledger of watches over all protocols.
    #[must_use]
    pub fn watches(&self) -> &Arc<Ledger> {
        &self.watch_ledgers.watches
    }

    /// Reports deferred data changes. Call it about once a second.
    pub fn handle_tick(&self) {
        self.table.watches.handle_tick();
    }

    /// Ledger of bytes that unreported changes occupy.
    #[must_use]
    pub fn watch_bytes(&self) -> &Arc<Ledger> {
        &self.watch_ledgers.bytes
    }
}

impl RequestFiles {
    /// Requests the changes since the last request of this open, or the next ones. The request is
    /// queued when this returns; requests of one open are answered in order. Dropping the result
    /// cancels the request. A new watch is charged to `holder`.
    ///
    /// # Errors
    /// [`FsError::InvalidParameter`] if the open is not of a directory, [`FsError::AccessDenied`]
    /// if it may not list, [`FsError::TooMany`] if `holder` exceeds its share of [`WATCHES_MAX`] or
    /// has [`WATCHES_PER_DIRECTORY_MAX`] of this directory.
    pub fn watch(
        &self,
        open: &OpenFile,
        wish: &WatchWish,
        holder: &LedgerHolder,
    ) -> Result<NextChanges> {
        if !open.is_directory() {
            return Err(FsError::InvalidParameter);
        }
        open.need_any(Access::READ_DATA)?;
        let watcher = match open.watch.get() {
            Some(watcher) => watcher.clone(),
            None => self.begin_watch(open, wish, holder)?,
        };
        let next = watcher.ask(wish.room_bytes);
        open.check_watch(&watcher);
        Ok(next)
    }

    fn begin_watch(
        &self,
        open: &OpenFile,
        wish: &WatchWish,
        holder: &LedgerHolder,
    ) -> Result<Arc<Watcher>> {
        let charges = self.files.watch_ledgers.charge(holder)?;
        let watcher = Arc::new(Watcher::new(
            (&open.name, &open.caller),
            wish,
            &self.table.watches.pulse,
            charges,
        ));
        self.table.watches.add(&watcher)?;
        let present = open.watch.get_or_init(|| watcher.clone());
        if !Arc::ptr_eq(present, &watcher) {
            // Two first requests ran concurrently.
            self.table.watches.remove(&watcher);
            return Ok(present.clone());
        }
        watcher.watch_external(&*open.node);
        Ok(watcher)
    }
}

impl OpenFile {
    /// Ends the watch if it began, or its request came, while the open was closed or the directory
    /// became delete pending.
    fn check_watch(&self, watcher: &Watcher) {
        let held = self.state.view();
        let is_open = held.grants.is_open(self.id);
        if is_open && held.grants.is_delete_pending(self.name.link) {
            watcher.handle_end(WatchEnd::DeletePending);
        }
        drop(held);
        if is_open {
            watcher.settle();
        } else {
            self.end_watch();
        }
    }

    /// Reports to watchers that delete pending was set or cleared. MS-FSA 2.1.5.15.3.
    pub(crate) fn report_delete_pending(&self) {
        if self.table.watches.is_empty() {
            return;
        }
        // The grants stay locked, so that concurrent changes of the state are reported in their
        // order.
        let held = self.state.view();
        let watchers = self.table.watches.on(&self.volume().vfs, &self.path());
        let is_delete_pending = held.grants.is_delete_pending(self.name.link);
        for watcher in &watchers {
            if is_delete_pending {
                watcher.handle_end(WatchEnd::DeletePending);
            } else {
                watcher.handle_delete_cancelled();
            }
        }
        drop(held);
        watchers.iter().for_each(|watcher| watcher.settle());
    }

    /// Ends the watch when its open is closed.
    pub(crate) fn end_watch(&self) {
        if let Some(watcher) = self.watch.get() {
            self.table.watches.remove(watcher);
            watcher.unwatch_external();
            watcher.handle_end(WatchEnd::Closed);
            watcher.settle();
        }
    }

    /// Reports a modification of the file: a few times between two ticks, then with the next tick.
    pub(crate) fn report_modified(&self, context: &RequestContext, what: WatchFilter) {
        self.break_directory(context, &self.path());
        if self.state.has_caches() {
            // Recalls delegations, which alone cache attributes.
            self.state.lock(context).grants.caches.handle_recall(self.cache_owner());
        }
        let watches = &self.table.watches;
        if watches.is_empty() {
            return;
        }
        if what.intersects(WatchFilter::SECURITY) {
            // Cached rights end now, even if the report is deferred.
            watches.renew_generation();
        }
        // A client may change attributes as often as data.
        self.report_kinds(what);
    }

    /// Whether a watch reports writes of this open. It costs one load without watches, and two if
    /// no watch was added since the last call.
    pub(crate) fn is_watched(&self) -> bool {
        let watches = &self.table.watches;
        if watches.is_empty() {
            return false;
        }
        // Read first, so that a watch that begins meanwhile invalidates the result.
        let generation = watches.generation();
        if let Some(known) = self.watched_cache.of(generation) {
            return known;
        }
        let is_reported = watches.is_reported(&self.volume().vfs, self.data_filter(), &self.path());
        self.watched_cache.set(generation, is_reported);
        is_reported
    }

    /// Reports to watches only, without breaking directory leases.
    pub(crate) fn notify_watches(&self, what: WatchFilter) {
        self.table.watches.report_change(&self.name, &self.caller, what);
    }
}

impl OpenFile {
    /// Reports a rename that the opens reflect already. MS-FSA 2.1.5.15.11.
    pub(crate) fn report_renamed(&self, context: &RequestContext, from: &RelPath, to: &RelPath) {
        if from == to {
            return;
        }
        let (watches, vfs) = (&self.table.watches, &self.volume().vfs);
        watches.renew_generation();
        self.break_directory(context, from);
        if from.directories().next() != to.directories().next() {
            self.break_directory(context, to);
        }
        if self.is_directory() {
            watches.moved(vfs, from, to);
        } else {
            // Windows sets the archive attribute, and reports it when the file is closed.
            self.note_unreported(WatchFilter::ATTRIBUTES);
        }
        let (what, by) = (name_filter(self.is_directory()), Some(&*self.caller));
        if from.directories().next() == to.directories().next() {
            let changes = [(ChangeAction::RenamedFrom, from), (ChangeAction::RenamedTo, to)];
            watches.report(vfs, by, what, &changes);
        } else {
            watches.report(vfs, by, what, &[(ChangeAction::Removed, from)]);
            watches.report(vfs, by, what, &[(ChangeAction::Added, to)]);
        }
    }

    /// Reports an added or removed name that no open of the file uses.
    pub(crate) fn report_name(&self, context: &RequestContext, kind: ChangeAction, path: &RelPath) {
        let (watches, vfs) = (&self.table.watches, &self.volume().vfs);
        self.break_directory(context, path);
        watches.report(vfs, Some(&self.caller), WatchFilter::FILE_NAME, &[(kind, path)]);
    }
}
