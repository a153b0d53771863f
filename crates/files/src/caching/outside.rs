//! What others than this process change while clients keep it: nobody asks for
//! it back first, so they are told once it is heard.
//!
//! A file that clients only read is heard at every write. One that they may
//! write is heard when another process closes it: the system would tell of each
//! of our own writes, too.

use crate::context::RequestContext;
use crate::table::{FileState, lock};
use grants::{CacheOwner, OpenId};
use std::sync::{Arc, Weak};
use vfs::{FileKind, FsError, Node, OutsideChange, OutsideWatch, ServerWork, Vfs};

/// Who changes what clients keep, and has no open here.
const NOBODY: CacheOwner = CacheOwner::Open(OpenId(0));

/// The watch of a file or directory of which clients keep something.
#[derive(Debug)]
pub(crate) struct Heed {
    every_write: bool,
    /// Ends when it is dropped.
    _watch: Box<dyn OutsideWatch>,
}

impl FileState {
    /// An open was made of `node`, for writing or not. One load where its client
    /// keeps nothing.
    pub fn heed_others(self: &Arc<Self>, vfs: &dyn Vfs, node: &Arc<dyn Node>, writes: bool) {
        if !self.has_caches() || self.is_stream() {
            return;
        }
        let every_write = !writes && !self.is_directory;
        if lock(&self.outside).as_ref().is_some_and(|heed| every_write || !heed.every_write) {
            return;
        }
        let weak = Arc::downgrade(self);
        let work = ServerWork::Watch;
        let watch = match node.kind() {
            FileKind::Directory => {
                vfs.watch(work, &**node, Arc::new(move |_: &OutsideChange| changed(&weak)))
            }
            _ => vfs.watch_file(work, node, every_write, Arc::new(move || changed(&weak))),
        };
        // Without the mutex: these are system calls.
        let unneeded = match watch {
            Ok(watch) => lock(&self.outside).replace(Heed { every_write, _watch: watch }),
            Err(FsError::NotSupported) => None,
            Err(error) => {
                tracing::debug!(%error, "changes by other processes are not heard");
                None
            }
        };
        drop(unneeded);
        // Given back meanwhile: who noticed that has looked here before.
        if !self.has_caches() {
            self.stop_heeding();
        }
    }

    /// Clients keep nothing any more.
    pub fn stop_heeding(&self) {
        let heed = lock(&self.outside).take();
        drop(heed);
    }
}

fn changed(state: &Weak<FileState>) {
    let Some(state) = state.upgrade() else { return };
    let mut held = state.lock(&RequestContext::SERVER);
    if state.is_directory {
        held.grants.caches.handle_entry_change(None);
    } else {
        held.grants.caches.handle_change(NOBODY);
    }
}
