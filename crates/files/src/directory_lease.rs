//! Leases on directories: broken by every change of what a listing shows, but
//! for those under the key by which whoever makes the change keeps the
//! directory itself. MS-FSA 2.1.4.12.1, MS-SMB2 3.3.1.12 (ParentLeaseKey).

use crate::context::RequestContext;
use crate::table::Table;
use crate::{Caller, OpenFile};
use std::sync::Arc;
use vfs::{Actor, FileKey, FsError, OpenHow, RelPath, ServerWork, Vfs, Wait};

/// The key by which a client keeps a directory.
pub(crate) type ParentKey = [u8; 16];

impl Table {
    /// Whether anybody is to be told that a file was changed: by a watch, or by a lease on its
    /// directory.
    pub fn tells_of_changes(&self) -> bool {
        !self.watches.is_empty() || self.keys.has_directories()
    }

    /// The name `path`, or what it names, was changed. One load where nobody
    /// has a lease on a directory.
    pub fn break_directory_of(
        &self,
        context: &RequestContext,
        vfs: &Arc<dyn Vfs>,
        caller: &Caller,
        path: &RelPath,
        except: Option<ParentKey>,
    ) {
        if !self.keys.has_directories() {
            return;
        }
        let Some((directory, _)) = path.split() else { return };
        let key = match key_of(vfs, context.call(caller.identity.actor()), &directory) {
            // Who changed it was let in before.
            Err(FsError::AccessDenied) => {
                key_of(vfs, context.call(Actor::server(ServerWork::LocateNode)), &directory)
            }
            other => other,
        };
        let Some(state) = key.ok().and_then(|key| self.find(key)) else { return };
        if state.has_caches() {
            state.lock(context).grants.caches.handle_entry_change(except);
        }
    }
}

impl OpenFile {
    /// The file, or this name of it, was changed by this open.
    pub(crate) fn break_directory(&self, context: &RequestContext, path: &RelPath) {
        let vfs = &self.volume().vfs;
        self.table.break_directory_of(context, vfs, &self.caller, path, self.parent_key);
    }
}

fn key_of(vfs: &Arc<dyn Vfs>, who: Actor<'_>, directory: &RelPath) -> vfs::Result<FileKey> {
    let how = OpenHow::looking(Wait::Allowed);
    vfs.open(who, directory, how).map(|found| found.attributes.key)
}
