//! Change notification for directories. MS-FSA 2.1.4.1, 2.1.5.11, MS-SMB2 3.3.1.3.
//!
//! A watch belongs to an open of a directory, begins with the open's first request and ends with
//! the open. Changes between two requests are buffered within bounds. Watches report the changes of
//! every protocol.
//!
//! A data change is reported when it happens, and a few times a second while it continues: an
//! observer sees a growing log while its writer has it open.

mod charge;
mod data;
mod external;
mod index;
mod pulse;
mod state;
mod streams;

use crate::context::RequestContext;
use crate::open_name::OpenName;
use crate::{Access, Caller, Files, OpenFile, RequestFiles};
use charge::{ChargedWatch, DueAnswer};
use futures_channel::oneshot;
use limits::{Ledger, LedgerHolder, ResourceCharge};
use pulse::{ListRights, TickQuota, WatchPulse};
use state::{RequestId, WatchState};
use std::ops::BitOr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use sync::Mutex;
use vfs::{ExternalWatch, FsError, RelPath, Result, StreamName};

pub(crate) use charge::WatchLedgers;
pub use charge::{WATCHES_MAX, WATCHES_PER_DIRECTORY_MAX};
pub(crate) use data::DataReports;
pub(crate) use index::Watches;
pub(crate) use state::WatchEnd;

/// Bytes that a watch buffers between two requests, counted by the requester's [`Measure`]. It
/// equals the limit for Windows programs over the network.
pub const WATCH_BYTES_MAX: usize = 64 * 1024;

/// Kinds of changes: CompletionFilter. MS-SMB2 2.2.35.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchFilter(pub u32);

impl WatchFilter {
    /// Files are added, removed or renamed.
    pub const FILE_NAME: Self = Self(0x001);
    /// Directories are added, removed or renamed.
    pub const DIRECTORY_NAME: Self = Self(0x002);
    /// DOS attributes.
    pub const ATTRIBUTES: Self = Self(0x004);
    /// The size of files.
    pub const SIZE: Self = Self(0x008);
    /// The time of the last change of data.
    pub const LAST_WRITE: Self = Self(0x010);
    /// The time of the last access.
    pub const LAST_ACCESS: Self = Self(0x020);
    /// The time of creation.
    pub const CREATION: Self = Self(0x040);
    /// Extended attributes.
    pub const EXTENDED_ATTRIBUTES: Self = Self(0x080);
    /// Owner, group, access lists.
    pub const SECURITY: Self = Self(0x100);
    /// Named streams are added, removed or renamed.
    pub const STREAM_NAME: Self = Self(0x200);
    /// The size of named streams.
    pub const STREAM_SIZE: Self = Self(0x400);
    /// The data of named streams.
    pub const STREAM_WRITE: Self = Self(0x800);

    /// Kinds that a writer causes repeatedly.
    pub(crate) const DATA: Self =
        Self(Self::SIZE.0 | Self::LAST_WRITE.0 | Self::STREAM_SIZE.0 | Self::STREAM_WRITE.0);

    /// Whether all kinds are changes of data.
    pub(crate) fn is_of_data(self) -> bool {
        self.0 & !Self::DATA.0 == 0
    }

    /// Whether both have a kind in common.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for WatchFilter {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Action on a name: FILE_NOTIFY_INFORMATION. MS-FSCC 2.7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeAction {
    /// The name was added to its directory.
    Added,
    /// The file was modified.
    Modified,
    /// The name was removed from its directory.
    Removed,
    /// The file was renamed from this name; [`ChangeAction::RenamedTo`] follows.
    RenamedFrom,
    /// The file was renamed to this name.
    RenamedTo,
    /// A named stream was added to the file.
    AddedStream,
    /// A named stream of the file was modified.
    ModifiedStream,
    /// A named stream was removed from the file.
    RemovedStream,
}

/// One change, as a watch reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchChange {
    /// Action on the name.
    pub kind: ChangeAction,
    /// Name relative to the watched directory.
    pub path: RelPath,
    /// Named stream, if the change concerns one.
    pub stream: Option<StreamName>,
}

/// Size of a reply of the given size after this change is added, in bytes of the requester's
/// protocol.
pub type Measure = fn(usize, &WatchChange) -> usize;

/// A CHANGE_NOTIFY request.
#[derive(Clone, Copy, Debug)]
pub struct WatchWish {
    /// Kinds to report; the first request of an open determines them.
    pub filter: WatchFilter,
    /// Whether to watch the whole tree; the first request determines it.
    pub tree: bool,
    /// Maximum size of the reply, in bytes.
    pub room_bytes: usize,
    /// Size calculation; the first request determines it.
    pub measure: Measure,
}

/// Reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchAnswer {
    /// Changes in order; at least one.
    Changes(Vec<WatchChange>),
    /// The open was closed. STATUS_NOTIFY_CLEANUP.
    Closed,
    /// The directory is delete pending. STATUS_DELETE_PENDING.
    DeletePending,
    /// The changes exceed a bound: the client must enumerate. STATUS_NOTIFY_ENUM_DIR.
    Overflow,
}

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
    pub fn next_changes(
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
        let watcher = Arc::new(Watcher::new(open, wish, charges));
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

/// The watch of one open.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Current path of the directory.
    pub name: Arc<OpenName>,
    pub caller: Arc<Caller>,
    pub filter: WatchFilter,
    pub tree: bool,
    state: Mutex<ChargedWatch>,
    /// State that all watches share.
    pulse: Arc<WatchPulse>,
    list_rights: Mutex<ListRights>,
    /// Charge for the watch itself.
    charge: ResourceCharge,
    /// Backend watches for external changes in the directory and below it.
    external_watches: Mutex<Vec<Box<dyn ExternalWatch>>>,
}

impl Watcher {
    fn new(
        open: &OpenFile,
        wish: &WatchWish,
        (charge, memory): (ResourceCharge, ResourceCharge),
    ) -> Self {
        let watch = WatchState::new(wish.room_bytes.min(WATCH_BYTES_MAX), wish.measure);
        Self {
            name: open.name.clone(),
            caller: open.caller.clone(),
            filter: wish.filter,
            tree: wish.tree,
            state: Mutex::new(ChargedWatch::new(watch, memory)),
            pulse: open.table.watches.pulse.clone(),
            list_rights: Mutex::default(),
            charge,
            external_watches: Mutex::default(),
        }
    }

    fn ask(self: &Arc<Self>, room_bytes: usize) -> NextChanges {
        let (sender, receiver) = oneshot::channel();
        let mut guard = self.state.lock();
        let request = guard.watch.handle_request(room_bytes);
        guard.waiting.push((request, sender));
        NextChanges { watcher: self.clone(), request, receiver: Some(receiver) }
    }

    /// Buffers related changes, with paths relative to the directory.
    pub fn handle_changes(&self, changes: impl Iterator<Item = WatchChange>) {
        let veto = &self.name.volume.options.veto_names;
        let changes = changes.filter(|change| !veto.has_any(&change.path));
        let mut guard = self.state.lock();
        changes.for_each(|change| guard.watch.handle_change(change));
        guard.settle_memory();
        drop(guard);
        self.settle();
    }

    /// Buffers data changes, with paths relative to the directory:
    /// [`WatchState::handle_data_change`].
    pub fn handle_data_changes(&self, changes: impl Iterator<Item = WatchChange>) {
        let veto = &self.name.volume.options.veto_names;
        let changes = changes.filter(|change| !veto.has_any(&change.path));
        let mut guard = self.state.lock();
        if self.pulse.is_ticking.load(Ordering::Acquire) {
            changes.for_each(|change| guard.watch.handle_data_change_in_tick(change));
        } else {
            changes.for_each(|change| guard.watch.handle_data_change(change));
        }
        guard.settle_memory();
        drop(guard);
        self.pulse.has_data.store(true, Ordering::Release);
        self.settle();
    }

    /// Whether these data changes are reported already or will be.
    pub fn has_reported(&self, changes: &[WatchChange]) -> bool {
        let guard = self.state.lock();
        changes.iter().all(|change| guard.watch.has_reported(change))
    }

    /// Handles a tick, about once a second.
    pub fn handle_tick(&self) {
        let mut guard = self.state.lock();
        let reports = guard.watch.handle_tick();
        guard.settle_memory();
        drop(guard);
        // Its notices count until the next tick.
        self.pulse.has_data.fetch_or(reports, Ordering::AcqRel);
        self.settle();
    }

    /// Ends reporting; call [`Watcher::settle`] afterwards.
    pub fn handle_end(&self, end: WatchEnd) {
        self.state.lock().watch.handle_end(end);
    }

    /// Handles a cleared delete-pending state of the directory.
    pub fn handle_delete_cancelled(&self) {
        self.state.lock().watch.handle_delete_cancelled();
    }

    /// Sends due answers without a lock, since sending wakes tasks.
    pub fn settle(&self) {
        while self.send_due() {}
    }

    /// Returns true if an answer had no receiver, so that another request is due.
    fn send_due(&self) -> bool {
        let mut answers = Vec::new();
        let mut guard = self.state.lock();
        while let Some((request, answer)) = guard.poll_answer() {
            if let Some(at) = guard.waiting.iter().position(|(id, _)| *id == request) {
                answers.push((guard.waiting.swap_remove(at).1, answer));
            }
        }
        drop(guard);
        let mut untold = false;
        for (sender, answer) in answers {
            if let Err(due) = sender.send(answer) {
                self.handle_undelivered(due);
                untold = true;
            }
        }
        untold
    }

    /// Returns an undelivered answer to the watch.
    fn handle_undelivered(&self, due: DueAnswer) {
        let DueAnswer { answer, .. } = due;
        let mut guard = self.state.lock();
        guard.watch.handle_undelivered(answer);
        guard.settle_memory();
    }
}

/// A queued request of a watch.
#[derive(Debug)]
pub struct NextChanges {
    watcher: Arc<Watcher>,
    request: RequestId,
    /// None once the answer has arrived.
    receiver: Option<oneshot::Receiver<DueAnswer>>,
}

impl NextChanges {
    /// Waits for the answer.
    pub async fn answer(mut self) -> WatchAnswer {
        let receiver = self.receiver.as_mut().expect("taken only here and on drop");
        let answer = receiver.await;
        self.receiver = None;
        // The sender is dropped with the watch, which ends with its open.
        answer.map_or(WatchAnswer::Closed, |due| due.answer)
    }
}

impl Drop for NextChanges {
    fn drop(&mut self) {
        let Some(receiver) = &mut self.receiver else { return };
        let mut guard = self.watcher.state.lock();
        guard.waiting.retain(|(id, _)| *id != self.request);
        if guard.watch.handle_cancel(self.request) {
            return;
        }
        drop(guard);
        // The request was answered already. Closing first decides: either the answer is in the
        // channel or the sender gets it back. The next request receives it in both cases.
        receiver.close();
        if let Ok(Some(due)) = receiver.try_recv() {
            self.watcher.handle_undelivered(due);
            self.watcher.settle();
        }
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

/// Cached result whether a watch reports an open's writes, with the generation of the watches.
#[derive(Debug, Default)]
pub(crate) struct WatchedCache(AtomicU32);

impl WatchedCache {
    fn of(&self, generation: u32) -> Option<bool> {
        let known = self.0.load(Ordering::Relaxed);
        (known >> 1 == generation).then_some(known & 1 == 1)
    }

    fn set(&self, generation: u32, is_reported: bool) {
        self.0.store(generation << 1 | u32::from(is_reported), Ordering::Relaxed);
    }
}

/// Filter under which a change of such a name is reported.
pub(crate) fn name_filter(is_directory: bool) -> WatchFilter {
    if is_directory { WatchFilter::DIRECTORY_NAME } else { WatchFilter::FILE_NAME }
}
