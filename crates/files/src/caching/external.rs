//! External changes: another process changes a file that clients cache. Such a process waits for no
//! break, so the server breaks caches once the system reports the change.
//!
//! A file with read-only opens is watched for every write. A file that clients may write is watched
//! for a close by another process, since the system would report our own writes as well.

use crate::context::RequestContext;
use crate::table::{ExternalChangeWatch, OpenFileState};
use grants::{CacheOwner, OpenId};
use std::sync::{Arc, Weak};
use vfs::{ExternalChange, FileKind, FsError, Node, ServerWork, Vfs};

/// Owner of external changes, which belong to no open.
const NOBODY: CacheOwner = CacheOwner::Open(OpenId(0));

impl OpenFileState {
    /// Watches for external changes after an open of `node`. It costs one load if no client caches
    /// the file.
    pub fn watch_external_changes(
        self: &Arc<Self>,
        vfs: &dyn Vfs,
        node: &Arc<dyn Node>,
        writes: bool,
    ) {
        if !self.has_caches() || self.is_stream() {
            return;
        }
        let every_write = !writes && !self.is_directory;
        if self
            .external_watch
            .lock()
            .as_ref()
            .is_some_and(|watch_| every_write || !watch_.every_write)
        {
            return;
        }
        let Some(watches) = vfs.external_watches() else { return };
        let weak = Arc::downgrade(self);
        let work = ServerWork::Watch;
        let watch = match node.kind() {
            FileKind::Directory => {
                watches.watch(work, &**node, Arc::new(move |_: &ExternalChange| changed(&weak)))
            }
            _ => watches.watch_file(work, node, every_write, Arc::new(move || changed(&weak))),
        };
        // The mutex is free during these system calls.
        let unneeded = match watch {
            Ok(watch) => self
                .external_watch
                .lock()
                .replace(ExternalChangeWatch { every_write, _watch: watch }),
            Err(FsError::NotSupported) => None,
            Err(error) => {
                tracing::debug!(%error, "cannot watch a cached file for changes by local processes");
                None
            }
        };
        drop(unneeded);
        // The caches may have gone meanwhile, and [`OpenFileState::stop_external_watch`] may have
        // run before the watch was set.
        if !self.has_caches() {
            self.stop_external_watch();
        }
    }
}

fn changed(state: &Weak<OpenFileState>) {
    let Some(state) = state.upgrade() else { return };
    let mut held = state.lock(&RequestContext::SERVER);
    if state.is_directory {
        held.grants.caches.handle_entry_change(None);
    } else {
        held.grants.caches.handle_change(NOBODY);
    }
}
