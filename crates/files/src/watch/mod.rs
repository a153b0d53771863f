//! Watching directories: who is told of which changes. MS-FSA 2.1.4.1,
//! 2.1.5.11, MS-SMB2 3.3.1.3.
//!
//! A watch belongs to an open of a directory, begins with its first request
//! and ends with the open. What happens between two requests is kept for the
//! next one, within bounds. Whatever protocol a change comes by, it is told
//! from here. A change to what a file holds is told when it happens, and while it
//! goes on a few times a second: a log that grows is seen in its open handle.

mod charge;
mod data;
mod index;
mod outside;
mod pulse;
mod state;
mod streams;

use crate::context::RequestContext;
use crate::table::{OpenName, lock};
use crate::{Access, Caller, Files, OpenFile, RequestFiles};
use charge::{ChargedWatch, DueAnswer};
use futures_channel::oneshot;
use limits::{Holder, Ledger, Share};
use pulse::{ListRights, PerTick, Pulse};
use state::{RequestId, Watch};
use std::ops::BitOr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use vfs::{FsError, OutsideWatch, RelPath, Result, StreamName};

pub(crate) use charge::WatchLedgers;
pub use charge::{WATCHES_MAX, WATCHES_PER_DIRECTORY_MAX};
pub(crate) use data::DataReports;
pub(crate) use index::Watches;
pub(crate) use state::WatchEnd;

/// Bytes that a watch keeps between two requests, by the asker's measure: what
/// Windows lets a program ask for over the network.
pub const WATCH_BYTES_MAX: usize = 64 * 1024;

/// Kinds of changes. MS-SMB2 2.2.35.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter(pub u32);

impl Filter {
    /// Files come, go, or are renamed.
    pub const FILE_NAME: Self = Self(0x001);
    /// Directories come, go, or are renamed.
    pub const DIRECTORY_NAME: Self = Self(0x002);
    /// DOS attributes.
    pub const ATTRIBUTES: Self = Self(0x004);
    /// The length of files.
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
    /// Named streams come, go, or are renamed.
    pub const STREAM_NAME: Self = Self(0x200);
    /// The length of named streams.
    pub const STREAM_SIZE: Self = Self(0x400);
    /// What named streams hold.
    pub const STREAM_WRITE: Self = Self(0x800);

    /// The kinds that a writer causes again and again.
    pub(crate) const DATA: Self =
        Self(Self::SIZE.0 | Self::LAST_WRITE.0 | Self::STREAM_SIZE.0 | Self::STREAM_WRITE.0);

    /// Whether all kinds are changes of data.
    pub(crate) fn is_of_data(self) -> bool {
        self.0 & !Self::DATA.0 == 0
    }

    /// Whether a kind is in both.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Filter {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What happened to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new in its directory.
    Added,
    /// What it names was changed.
    Modified,
    /// It is gone from its directory.
    Removed,
    /// It was renamed and had this name; [`ChangeKind::RenamedTo`] follows.
    RenamedFrom,
    /// It has this name now.
    RenamedTo,
    /// A named stream of it is new.
    AddedStream,
    /// A named stream of it was changed.
    ModifiedStream,
    /// A named stream of it is gone.
    RemovedStream,
}

/// One change, as a watch is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// To which name, as seen from the watched directory.
    pub path: RelPath,
    /// To which of its named streams, if it happened to one.
    pub stream: Option<StreamName>,
}

/// Bytes that an answer has once it holds this change too, in the form that
/// the asker's protocol gives it.
pub type Measure = fn(usize, &Change) -> usize;

/// A request for changes.
#[derive(Clone, Copy, Debug)]
pub struct WatchWish {
    /// What to tell; the first request of an open decides.
    pub filter: Filter,
    /// Whatever is below the directory too; the first request decides.
    pub tree: bool,
    /// Bytes that the answer may have.
    pub room_bytes: usize,
    /// How they are counted; the first request decides.
    pub measure: Measure,
}

/// What a request is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchAnswer {
    /// These changes, in order; at least one.
    Changes(Vec<Change>),
    /// The open was closed.
    Closed,
    /// The directory is about to vanish.
    DeletePending,
    /// More than the room allows: look for yourself.
    Overflow,
}

impl Files {
    /// Watches of all protocols, by holder.
    #[must_use]
    pub fn watches(&self) -> &Arc<Ledger> {
        &self.watch_ledgers.watches
    }

    /// Tells what was deferred of changes of data. To be called about once a second.
    pub fn handle_tick(&self) {
        self.table.watches.handle_tick();
    }

    /// Bytes of memory that changes take until they are reported, by holder.
    #[must_use]
    pub fn watch_bytes(&self) -> &Arc<Ledger> {
        &self.watch_ledgers.bytes
    }
}

impl RequestFiles {
    /// Asks for the changes since the last request of this open, or for the
    /// next ones. It is in its place in the line when this returns; requests
    /// of one open are answered in order. Dropping what is returned withdraws it.
    /// A watch that begins is charged to `holder`.
    ///
    /// # Errors
    /// [`FsError::InvalidParameter`] if it is not a directory, [`FsError::AccessDenied`]
    /// if the open may not list it, [`FsError::TooMany`] if `holder` may have no more of
    /// [`WATCHES_MAX`], or has [`WATCHES_PER_DIRECTORY_MAX`] of this directory.
    pub fn next_changes(
        &self,
        open: &OpenFile,
        wish: &WatchWish,
        holder: &Holder,
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
        holder: &Holder,
    ) -> Result<Arc<Watcher>> {
        let charges = self.files.watch_ledgers.charge(holder)?;
        let watcher = Arc::new(Watcher::new(open, wish, charges));
        self.table.watches.add(&watcher)?;
        let present = open.watch.get_or_init(|| watcher.clone());
        if !Arc::ptr_eq(present, &watcher) {
            // Two first requests at once.
            self.table.watches.remove(&watcher);
            return Ok(present.clone());
        }
        watcher.watch_outside(&*open.node);
        Ok(watcher)
    }
}

/// The watch of one open.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Where the directory is.
    pub name: Arc<OpenName>,
    pub caller: Arc<Caller>,
    pub filter: Filter,
    pub tree: bool,
    told: Mutex<ChargedWatch>,
    /// Of all watches.
    pulse: Arc<Pulse>,
    list_rights: Mutex<ListRights>,
    /// The watch itself, as its user is charged for it.
    charge: Share,
    /// Tell what others than this process do in the directory, and below it.
    outside: Mutex<Vec<Box<dyn OutsideWatch>>>,
}

impl Watcher {
    fn new(open: &OpenFile, wish: &WatchWish, (charge, memory): (Share, Share)) -> Self {
        let watch = Watch::new(wish.room_bytes.min(WATCH_BYTES_MAX), wish.measure);
        Self {
            name: open.name.clone(),
            caller: open.caller.clone(),
            filter: wish.filter,
            tree: wish.tree,
            told: Mutex::new(ChargedWatch::new(watch, memory)),
            pulse: open.table.watches.pulse.clone(),
            list_rights: Mutex::default(),
            charge,
            outside: Mutex::default(),
        }
    }

    fn ask(self: &Arc<Self>, room_bytes: usize) -> NextChanges {
        let (tell, told) = oneshot::channel();
        let mut guard = lock(&self.told);
        let request = guard.watch.handle_request(room_bytes);
        guard.waiting.push((request, tell));
        NextChanges { watcher: self.clone(), request, told: Some(told) }
    }

    /// Changes that belong together, seen from the directory.
    pub fn handle_changes(&self, changes: impl Iterator<Item = Change>) {
        let veto = &self.name.volume.options.veto_names;
        let changes = changes.filter(|change| !veto.has_any(&change.path));
        let mut guard = lock(&self.told);
        changes.for_each(|change| guard.watch.handle_change(change));
        guard.settle_memory();
        drop(guard);
        self.settle();
    }

    /// Changes of data, seen from the directory: [`Watch::handle_data_change`].
    pub fn handle_data_changes(&self, changes: impl Iterator<Item = Change>) {
        let veto = &self.name.volume.options.veto_names;
        let changes = changes.filter(|change| !veto.has_any(&change.path));
        let mut guard = lock(&self.told);
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

    /// Whether changes of data are told already, or will be.
    pub fn knows(&self, changes: &[Change]) -> bool {
        let guard = lock(&self.told);
        changes.iter().all(|change| guard.watch.knows(change))
    }

    /// About a second has passed.
    pub fn handle_tick(&self) {
        let mut guard = lock(&self.told);
        let tells = guard.watch.handle_tick();
        guard.settle_memory();
        drop(guard);
        // Its notices count until the next one.
        self.pulse.has_data.fetch_or(tells, Ordering::AcqRel);
        self.settle();
    }

    /// Nothing is told any more; to be followed by [`Watcher::settle`].
    pub fn handle_end(&self, end: WatchEnd) {
        lock(&self.told).watch.handle_end(end);
    }

    /// The directory does not vanish.
    pub fn handle_spared(&self) {
        lock(&self.told).watch.handle_spared();
    }

    /// Gives the answers that are due, without holding anything: that wakes tasks.
    pub fn settle(&self) {
        while self.tell_due() {}
    }

    /// True if an answer found nobody, and is now due to another request.
    fn tell_due(&self) -> bool {
        let mut answers = Vec::new();
        let mut guard = lock(&self.told);
        while let Some((request, answer)) = guard.poll_answer() {
            if let Some(at) = guard.waiting.iter().position(|(id, _)| *id == request) {
                answers.push((guard.waiting.swap_remove(at).1, answer));
            }
        }
        drop(guard);
        let mut untold = false;
        for (tell, answer) in answers {
            if let Err(due) = tell.send(answer) {
                self.handle_untold(due);
                untold = true;
            }
        }
        untold
    }

    /// An answer found nobody.
    fn handle_untold(&self, due: DueAnswer) {
        let DueAnswer { answer, .. } = due;
        let mut guard = lock(&self.told);
        guard.watch.handle_untold(answer);
        guard.settle_memory();
    }
}

/// A request in the line of its watch.
#[derive(Debug)]
pub struct NextChanges {
    watcher: Arc<Watcher>,
    request: RequestId,
    /// Taken once the answer has arrived.
    told: Option<oneshot::Receiver<DueAnswer>>,
}

impl NextChanges {
    /// Waits for the answer.
    pub async fn answer(mut self) -> WatchAnswer {
        let told = self.told.as_mut().expect("taken only below and when dropped");
        let answer = told.await;
        self.told = None;
        // The teller goes with the watch, which goes with its open.
        answer.map_or(WatchAnswer::Closed, |due| due.answer)
    }
}

impl Drop for NextChanges {
    fn drop(&mut self) {
        let Some(told) = &mut self.told else { return };
        let mut guard = lock(&self.watcher.told);
        guard.waiting.retain(|(id, _)| *id != self.request);
        if guard.watch.handle_cancel(self.request) {
            return;
        }
        drop(guard);
        // Answered already. Closing before looking: the answer is either here
        // or finds nobody; in both cases the next one who asks is told.
        told.close();
        if let Ok(Some(due)) = told.try_recv() {
            self.watcher.handle_untold(due);
            self.watcher.settle();
        }
    }
}

impl OpenFile {
    /// A watch that began, or a request that came, while the open was being
    /// closed or its directory marked for deletion is told so.
    fn check_watch(&self, watcher: &Watcher) {
        let held = self.state.look();
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

    /// The directory was marked for deletion, or is spared: who watches it is
    /// told that. MS-FSA 2.1.5.15.3.
    pub(crate) fn judge_watches(&self) {
        if self.table.watches.is_empty() {
            return;
        }
        // Under the lock of the grants: of two who change the mark, the later
        // one tells later.
        let held = self.state.look();
        let watchers = self.table.watches.on(&self.volume().vfs, &self.path());
        let is_doomed = held.grants.is_delete_pending(self.name.link);
        for watcher in &watchers {
            if is_doomed {
                watcher.handle_end(WatchEnd::DeletePending);
            } else {
                watcher.handle_spared();
            }
        }
        drop(held);
        watchers.iter().for_each(|watcher| watcher.settle());
    }

    /// The open is closed: so is its watch.
    pub(crate) fn end_watch(&self) {
        if let Some(watcher) = self.watch.get() {
            self.table.watches.remove(watcher);
            watcher.unwatch_outside();
            watcher.handle_end(WatchEnd::Closed);
            watcher.settle();
        }
    }

    /// Tells that the file was changed, and what of it.
    pub(crate) fn report_modified(&self, context: &RequestContext, what: Filter) {
        self.break_directory(context, &self.path());
        if self.state.has_caches() {
            // Attributes, which nobody else keeps.
            self.state.lock(context).grants.caches.handle_recall(self.cache_owner());
        }
        self.tell_watches(what);
    }

    /// Whether a watch hears of what is written by this open. Costs one load where nothing is
    /// watched, and two where nothing was watched anew since the last time.
    pub(crate) fn is_watched(&self) -> bool {
        let watches = &self.table.watches;
        if watches.is_empty() {
            return false;
        }
        // Before the look: a watch that begins meanwhile makes it out of date.
        let generation = watches.generation();
        if let Some(known) = self.heard.of(generation) {
            return known;
        }
        let is_heard = watches.is_heard(&self.volume().vfs, self.data_filter(), &self.path());
        self.heard.set(generation, is_heard);
        is_heard
    }

    /// Tells watches, and leases on the directory nothing.
    pub(crate) fn tell_watches(&self, what: Filter) {
        self.table.watches.report_change(&self.name, &self.caller, what);
    }
}

impl OpenFile {
    /// The file was renamed; its opens know it already. MS-FSA 2.1.5.15.11.
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
            // Windows sets the archive bit, and tells of it when the file is closed.
            self.note_unreported(Filter::ATTRIBUTES);
        }
        let (what, by) = (name_filter(self.is_directory()), Some(&*self.caller));
        if from.directories().next() == to.directories().next() {
            let changes = [(ChangeKind::RenamedFrom, from), (ChangeKind::RenamedTo, to)];
            watches.report(vfs, by, what, &changes);
        } else {
            watches.report(vfs, by, what, &[(ChangeKind::Removed, from)]);
            watches.report(vfs, by, what, &[(ChangeKind::Added, to)]);
        }
    }

    /// A name of the file came or went that none of its opens came by.
    pub(crate) fn report_name(&self, context: &RequestContext, kind: ChangeKind, path: &RelPath) {
        let (watches, vfs) = (&self.table.watches, &self.volume().vfs);
        self.break_directory(context, path);
        watches.report(vfs, Some(&self.caller), Filter::FILE_NAME, &[(kind, path)]);
    }
}

/// Whether an open's writes are heard, and as of which generation of the watches that is known.
#[derive(Debug, Default)]
pub(crate) struct Heard(AtomicU32);

impl Heard {
    fn of(&self, generation: u32) -> Option<bool> {
        let known = self.0.load(Ordering::Relaxed);
        (known >> 1 == generation).then_some(known & 1 == 1)
    }

    fn set(&self, generation: u32, is_heard: bool) {
        self.0.store(generation << 1 | u32::from(is_heard), Ordering::Relaxed);
    }
}

/// How a name of this kind is watched for.
pub(crate) fn name_filter(is_directory: bool) -> Filter {
    if is_directory { Filter::DIRECTORY_NAME } else { Filter::FILE_NAME }
}
