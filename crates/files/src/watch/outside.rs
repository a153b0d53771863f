//! What others than this process do in a watched directory, as far as the
//! backend can tell.

use super::{Change, ChangeKind, Filter, Watcher, name_filter};
use crate::table::lock;
use std::sync::{Arc, Weak};
use vfs::{FsError, Name, Node, OutsideChange, OutsideName, RelPath};

/// Which of the attributes it was, nobody says.
const ANY_ATTRIBUTES: Filter = Filter(
    Filter::ATTRIBUTES.0
        | Filter::LAST_WRITE.0
        | Filter::LAST_ACCESS.0
        | Filter::CREATION.0
        | Filter::EXTENDED_ATTRIBUTES.0
        | Filter::SECURITY.0,
);

impl Watcher {
    /// Asks the backend to tell. Where it cannot, the watch goes without.
    pub(super) fn watch_outside(self: &Arc<Self>, directory: &dyn Node) {
        let weak: Weak<Self> = Arc::downgrade(self);
        let tell = move |change: &OutsideChange| {
            if let Some(watcher) = weak.upgrade() {
                watcher.handle_outside(change);
            }
        };
        match self.name.volume.vfs.watch(directory, Arc::new(tell)) {
            Ok(watch) => *lock(&self.outside) = Some(watch),
            Err(FsError::NotSupported) => {}
            Err(error) => tracing::debug!(%error, "changes by other processes are not told"),
        }
    }

    /// The watch has ended.
    pub(super) fn unwatch_outside(&self) {
        // Outside of the mutex: it is a system call.
        let watch = lock(&self.outside).take();
        drop(watch);
    }

    fn handle_outside(&self, change: &OutsideChange) {
        let data = Filter::SIZE | Filter::LAST_WRITE;
        let one = |kind, of: &OutsideName| vec![change_of(kind, &of.name)];
        let (what, changes) = match change {
            OutsideChange::Added(of) => (name_filter(of.is_directory), one(ChangeKind::Added, of)),
            OutsideChange::AttributesModified(of) => {
                (ANY_ATTRIBUTES, one(ChangeKind::Modified, of))
            }
            OutsideChange::DataModified(of) => (data, one(ChangeKind::Modified, of)),
            OutsideChange::Lost => return self.handle_lost(),
            OutsideChange::Removed(of) => {
                (name_filter(of.is_directory), one(ChangeKind::Removed, of))
            }
            OutsideChange::Renamed(from, to) => {
                let pair = [
                    change_of(ChangeKind::RenamedFrom, &from.name),
                    change_of(ChangeKind::RenamedTo, to),
                ];
                (name_filter(from.is_directory), pair.to_vec())
            }
        };
        if self.filter.intersects(what) {
            self.handle_changes(changes.into_iter());
        }
    }

    fn handle_lost(&self) {
        lock(&self.told).watch.handle_lost();
        self.settle();
    }
}

fn change_of(kind: ChangeKind, name: &Name) -> Change {
    Change { kind, path: RelPath::root().join(name) }
}
