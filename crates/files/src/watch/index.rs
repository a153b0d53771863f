//! Index of all watches by directory.
//!
//! Lock order: the index, then the name of an open; a watch by itself.

use super::change::{ChangeAction, WatchChange, WatchFilter};
use super::charge::{WATCHES_PER_DIRECTORY_MAX, is_same_account};
use super::data::{DataQueue, DataReports, RIGHT_WORK, TICK_WORK_MAX};
use super::pulse::WatchPulse;
use super::watcher::Watcher;
use crate::authorize::rights_to_opened;
use crate::{Access, Caller};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use vfs::{AttributeRequest, Case, FsError, OpenHow, RelPath, Result, StreamName, Vfs, Wait};

/// Watches of one tree, by the path of their directory.
type WatchTree = HashMap<Box<[u8]>, Vec<Arc<Watcher>>>;

/// All watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// Number of watches, so that an unwatched change costs one load.
    count: AtomicUsize,
    pub(super) pulse: Arc<WatchPulse>,
    pub(super) data_queue: DataQueue,
    /// Trees by the address of their backend, which a watch keeps alive.
    trees: RwLock<HashMap<usize, WatchTree>>,
}

fn address(vfs: &Arc<dyn Vfs>) -> usize {
    Arc::as_ptr(vfs).cast::<()>() as usize
}

impl Watches {
    /// Whether there is no watch.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Generation within which an answer of [`Watches::is_reported`] holds.
    pub fn generation(&self) -> u32 {
        self.pulse.generation()
    }

    /// Invalidates cached answers after a change of watches, of a file's path or of an ACL.
    pub fn renew_generation(&self) {
        self.pulse.renew_generation();
    }

    /// Whether a watch reports such changes of the name `path`.
    pub fn is_reported(&self, vfs: &Arc<dyn Vfs>, what: WatchFilter, path: &RelPath) -> bool {
        !self.watchers_of(vfs, what, path).is_empty()
    }

    /// Reports deferred changes. It costs little if no data change was reported since the last
    /// tick.
    pub fn handle_tick(&self) {
        self.pulse.handle_tick();
        self.pulse.is_ticking.store(true, Ordering::Release);
        self.report_queued();
        self.pulse.is_ticking.store(false, Ordering::Release);
        if self.pulse.has_data.swap(false, Ordering::AcqRel) {
            let watchers: Vec<Arc<Watcher>> =
                self.read().values().flat_map(|tree| tree.values().flatten().cloned()).collect();
            watchers.iter().for_each(|watcher| watcher.handle_tick());
        }
    }

    /// Registers a watch.
    ///
    /// # Errors
    /// [`FsError::TooMany`] if its user has [`WATCHES_PER_DIRECTORY_MAX`] of the directory.
    pub fn add(&self, watcher: &Arc<Watcher>) -> Result<()> {
        let mut trees = self.write();
        let tree = trees.entry(address(&watcher.name.volume.vfs)).or_default();
        // Read under the write lock, which excludes a move in the index: see `moved`.
        let path = watcher.name.path();
        let present = tree.get(path.as_bytes()).map_or(&[][..], Vec::as_slice);
        let of_user = present
            .iter()
            .filter(|other| is_same_account(other.charge.account(), watcher.charge.account()));
        if of_user.count() >= WATCHES_PER_DIRECTORY_MAX {
            return Err(FsError::TooMany);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        tree.entry(path.as_bytes().into()).or_default().push(watcher.clone());
        self.renew_generation();
        Ok(())
    }

    /// Unregisters a watch.
    pub fn remove(&self, watcher: &Arc<Watcher>) {
        let mut trees = self.write();
        let Some(tree) = trees.get_mut(&address(&watcher.name.volume.vfs)) else { return };
        let path = watcher.name.path();
        let mut removed = take_out(tree, path.as_bytes(), watcher);
        if !removed {
            // A rename of its directory is in flight.
            let paths: Vec<Box<[u8]>> = tree.keys().cloned().collect();
            removed = paths.iter().any(|path| take_out(tree, path, watcher));
        }
        if removed {
            self.renew_generation();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        if tree.is_empty() {
            trees.remove(&address(&watcher.name.volume.vfs));
        }
    }

    /// Updates the paths of a renamed directory and its descendants. Their opens reflect the rename
    /// already.
    pub fn moved(&self, vfs: &Arc<dyn Vfs>, from: &RelPath, to: &RelPath) {
        if self.is_empty() {
            return;
        }
        let mut trees = self.write();
        let Some(tree) = trees.get_mut(&address(vfs)) else { return };
        let is_below = |path: &[u8]| {
            path.strip_prefix(from.as_bytes())
                .is_some_and(|rest| rest.first().is_none_or(|b| *b == b'/'))
        };
        let keys: Vec<Box<[u8]>> = tree.keys().filter(|path| is_below(path)).cloned().collect();
        for key in keys {
            let Some(moved) = tree.remove(&key) else { continue };
            let path = [to.as_bytes(), &key[from.as_bytes().len()..]].concat();
            tree.entry(path.into()).or_default().extend(moved);
        }
        self.renew_generation();
    }

    /// Watches on a directory itself.
    pub fn on(&self, vfs: &Arc<dyn Vfs>, path: &RelPath) -> Vec<Arc<Watcher>> {
        if self.is_empty() {
            return Vec::new();
        }
        let trees = self.read();
        let found = trees.get(&address(vfs)).and_then(|tree| tree.get(path.as_bytes()));
        found.cloned().unwrap_or_default()
    }

    /// Reports changes by one operation of `by` to names of one directory. Receivers are watches of
    /// the directory and of the trees around it. A user receives no names from a subdirectory that
    /// it may not list. Returns the work in watches.
    pub fn report(
        &self,
        vfs: &Arc<dyn Vfs>,
        by: Option<&Caller>,
        what: WatchFilter,
        changes: &[(ChangeAction, &RelPath)],
    ) -> usize {
        let Some((_, first)) = changes.first() else { return 0 };
        if what.intersects(WatchFilter::SECURITY) {
            self.renew_generation();
        }
        self.notify(vfs, by, what, first, &|directory| {
            let seen = |&(kind, path): &(ChangeAction, &RelPath)| {
                path.below(directory).map(|path| WatchChange { kind, path, stream: None })
            };
            changes.iter().filter_map(seen).collect()
        })
    }

    /// Reports changes by one operation of `by` to named streams of one file, to the same watches.
    pub fn report_streams(
        &self,
        vfs: &Arc<dyn Vfs>,
        by: Option<&Caller>,
        what: WatchFilter,
        path: &RelPath,
        changes: &[(ChangeAction, &StreamName)],
    ) -> usize {
        self.notify(vfs, by, what, path, &|directory| {
            let Some(path) = path.below(directory) else { return Vec::new() };
            let seen = |&(kind, stream): &(ChangeAction, &StreamName)| WatchChange {
                kind,
                path: path.clone(),
                stream: Some(stream.clone()),
            };
            changes.iter().map(seen).collect()
        })
    }

    /// Reports the changes that `seen_from` returns for each watched directory above `first`.
    fn notify(
        &self,
        vfs: &Arc<dyn Vfs>,
        by: Option<&Caller>,
        what: WatchFilter,
        first: &RelPath,
        seen_from: &dyn Fn(&[u8]) -> Vec<WatchChange>,
    ) -> usize {
        if self.is_empty() {
            return 0;
        }
        let is_data = what.is_of_data();
        let mut work = 0;
        let mut checked: Vec<(Arc<Caller>, bool)> = Vec::new();
        for (watcher, directory) in self.watchers_of(vfs, what, first) {
            let changes = seen_from(directory);
            work += 1;
            if is_data && watcher.has_reported(&changes) {
                continue;
            }
            let caller = &watcher.caller;
            let is_below = first.directories().next() != Some(directory);
            let is_own = by.is_some_and(|by| by.identity == caller.identity);
            if is_below && !is_own && !caller.is_root() {
                let known = checked.iter().find(|(other, _)| Arc::ptr_eq(other, caller));
                let may = known.map(|(_, may)| *may).unwrap_or_else(|| {
                    let (may, looked) = may_list(&watcher, first, is_data);
                    work += if looked { RIGHT_WORK } else { 0 };
                    checked.push((caller.clone(), may));
                    may
                });
                if !may {
                    continue;
                }
            }
            if is_data {
                watcher.handle_data_changes(changes.into_iter());
            } else {
                watcher.handle_changes(changes.into_iter());
            }
        }
        work
    }

    /// Watches that report changes of the name `path`, with their directories.
    fn watchers_of<'a>(
        &self,
        vfs: &Arc<dyn Vfs>,
        what: WatchFilter,
        path: &'a RelPath,
    ) -> Vec<(Arc<Watcher>, &'a [u8])> {
        let mut watchers_of = Vec::new();
        let trees = self.read();
        let Some(tree) = trees.get(&address(vfs)) else { return watchers_of };
        for (height, directory) in path.directories().enumerate() {
            let watchers = tree.get(directory).into_iter().flatten();
            let matching =
                watchers.filter(|w| w.filter.intersects(what) && (w.tree || height == 0));
            watchers_of.extend(matching.map(|watcher| (watcher.clone(), directory)));
        }
        watchers_of
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<usize, WatchTree>> {
        self.trees.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<usize, WatchTree>> {
        self.trees.write()
    }
}

impl Watches {
    /// Reports data changes now if the work since the last tick permits it, otherwise with the next
    /// tick.
    pub(super) fn report_data(&self, reports: &Arc<DataReports>) {
        let queue = &self.data_queue;
        if queue.permits(reports, self.pulse.tick()) {
            queue.note_work(self.report_deferred(reports));
        } else {
            queue.push(reports);
        }
    }

    /// Reports deferred changes of opens. Call it once a tick.
    fn report_queued(&self) {
        let mut work = 0;
        for _ in 0..self.data_queue.begin_tick() {
            if work >= TICK_WORK_MAX {
                return;
            }
            let Some(reports) = self.data_queue.pop() else { return };
            work += self.report_deferred(&reports);
        }
    }

    fn report_deferred(&self, reports: &DataReports) -> usize {
        match reports.take() {
            WatchFilter(0) => 0,
            what => self.report_change(&reports.name, &reports.caller, what),
        }
    }
}

fn take_out(tree: &mut WatchTree, path: &[u8], watcher: &Arc<Watcher>) -> bool {
    let Some(watchers) = tree.get_mut(path) else { return false };
    let before = watchers.len();
    watchers.retain(|other| !Arc::ptr_eq(other, watcher));
    let removed = watchers.len() < before;
    if watchers.is_empty() {
        tree.remove(path);
    }
    removed
}

/// Whether the watcher's user may list the directory of `path`, and whether that took a lookup.
fn may_list(watcher: &Watcher, path: &RelPath, is_data: bool) -> (bool, bool) {
    match path.split() {
        None => (false, false),
        Some((directory, _)) if is_data => may_list_lately(watcher, &directory),
        Some((directory, _)) => (may_list_in(watcher, &directory), true),
    }
}

/// As [`may_list_in`], for frequent data changes: cached until the next tick or ACL change on the
/// server. The flag says that a lookup was made.
pub(super) fn may_list_lately(watcher: &Watcher, directory: &RelPath) -> (bool, bool) {
    let (as_of, hash) = (watcher.pulse.rights_as_of(), watcher.pulse.hash_of(directory));
    let known = watcher.list_rights.lock().get(as_of, hash);
    let may = known.unwrap_or_else(|| {
        let may = may_list_in(watcher, directory);
        watcher.list_rights.lock().set(as_of, hash, may);
        may
    });
    (may, known.is_none())
}

/// Whether the watcher's user may list a directory.
pub(super) fn may_list_in(watcher: &Watcher, directory: &RelPath) -> bool {
    let (volume, caller) = (&watcher.name.volume, &watcher.caller);
    let how = OpenHow {
        read: true,
        write: false,
        case: Case::Sensitive,
        wanted: AttributeRequest::default(),
        no_follow: true,
        wait: Wait::Allowed,
    };
    volume
        .vfs
        .open(caller.identity.actor(), directory, how)
        .is_ok_and(|opened| rights_to_opened(volume, caller, &opened).contains(Access::READ_DATA))
}
