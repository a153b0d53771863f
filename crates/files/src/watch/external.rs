//! External changes in a watched directory or below it, as far as the backend reports them.

use super::index::{may_list_in, may_list_lately};
use super::{ChangeAction, WatchChange, WatchFilter, Watcher, name_filter};
use std::sync::{Arc, Weak};
use vfs::{ExternalChange, ExternalName, ExternalWatch, FsError, Name, Node, RelPath, ServerWork};

/// The backend does not report which attribute changed.
const ANY_ATTRIBUTES: WatchFilter = WatchFilter(
    WatchFilter::ATTRIBUTES.0
        | WatchFilter::LAST_WRITE.0
        | WatchFilter::LAST_ACCESS.0
        | WatchFilter::CREATION.0
        | WatchFilter::EXTENDED_ATTRIBUTES.0
        | WatchFilter::SECURITY.0,
);

impl Watcher {
    /// Registers with the backend. Without support there, the watch lacks external changes.
    pub(super) fn watch_external(self: &Arc<Self>, directory: &dyn Node) {
        let Some(watches) = self.name.volume.vfs.external_watches() else { return };
        let weak: Weak<Self> = Arc::downgrade(self);
        let notify = move |change: &ExternalChange| {
            if let Some(watcher) = weak.upgrade() {
                watcher.handle_external(change);
            }
        };
        self.keep(watches.watch(ServerWork::Watch, directory, Arc::new(notify)));
        if !self.tree {
            return;
        }
        let weak: Weak<Self> = Arc::downgrade(self);
        let notify = move |directory: &RelPath, change: &ExternalChange| {
            if let Some(watcher) = weak.upgrade() {
                watcher.handle_external_in(directory, change);
            }
        };
        self.keep(watches.watch_tree(ServerWork::Watch, Arc::new(notify)));
    }

    fn keep(&self, watch: vfs::Result<Box<dyn ExternalWatch>>) {
        match watch {
            Ok(watch) => self.external_watches.lock().push(watch),
            Err(FsError::NotSupported) => {}
            Err(error) => {
                tracing::debug!(%error, "cannot watch a directory for changes by local processes")
            }
        }
    }

    /// Stops the backend watches.
    pub(super) fn unwatch_external(&self) {
        // Dropped without the mutex, since that makes system calls.
        let watches = std::mem::take(&mut *self.external_watches.lock());
        drop(watches);
    }

    /// Handles an external change in the directory itself.
    fn handle_external(&self, change: &ExternalChange) {
        match seen(change, &RelPath::root()) {
            None => self.handle_lost(),
            Some((what, changes)) if self.filter.intersects(what) => self.take(what, changes),
            Some(_) => {}
        }
    }

    /// Handles an external change in a directory of the volume, which may lie below the watched
    /// one.
    fn handle_external_in(&self, directory: &RelPath, change: &ExternalChange) {
        let own = self.name.path();
        let Some(below) = directory.below(own.as_bytes()) else { return };
        let Some((what, changes)) = seen(change, &below) else { return };
        if !self.filter.intersects(what) || what.is_of_data() && self.has_reported(&changes) {
            return;
        }
        let may_list = || match what.is_of_data() {
            true => may_list_lately(self, directory).0,
            false => may_list_in(self, directory),
        };
        if self.caller.is_root() || may_list() {
            self.take(what, changes);
        }
    }

    fn take(&self, what: WatchFilter, changes: Vec<WatchChange>) {
        if what.is_of_data() {
            self.handle_data_changes(changes.into_iter());
        } else {
            self.handle_changes(changes.into_iter());
        }
    }
}

/// Filter and changes of an external change in `directory`; none if changes were lost.
fn seen(change: &ExternalChange, directory: &RelPath) -> Option<(WatchFilter, Vec<WatchChange>)> {
    let change_of =
        |kind, name: &Name| WatchChange { kind, path: directory.join(name), stream: None };
    let one = |kind, of: &ExternalName| vec![change_of(kind, &of.name)];
    Some(match change {
        ExternalChange::Added(of) => (name_filter(of.is_directory), one(ChangeAction::Added, of)),
        ExternalChange::AttributesModified(of) => (ANY_ATTRIBUTES, one(ChangeAction::Modified, of)),
        ExternalChange::DataModified(of) => {
            (WatchFilter::SIZE | WatchFilter::LAST_WRITE, one(ChangeAction::Modified, of))
        }
        ExternalChange::Lost => return None,
        ExternalChange::Removed(of) => {
            (name_filter(of.is_directory), one(ChangeAction::Removed, of))
        }
        ExternalChange::Renamed(from, to) => {
            let pair = [
                change_of(ChangeAction::RenamedFrom, &from.name),
                change_of(ChangeAction::RenamedTo, to),
            ];
            (name_filter(from.is_directory), pair.to_vec())
        }
    })
}
