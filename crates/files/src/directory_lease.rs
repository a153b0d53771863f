//! Directory leases. Every change that a listing shows breaks them, except those under the
//! ParentLeaseKey of the changing open. MS-FSA 2.1.4.12.1, MS-SMB2 3.3.1.12.

use crate::cache_holder::ParentKey;
use crate::context::RequestContext;
use crate::table::FileTable;
use crate::{Caller, OpenFile};
use std::sync::Arc;
use vfs::{Actor, FileKey, FsError, OpenHow, RelPath, ServerWork, Vfs, Wait};

impl FileTable {
    /// Whether a watch or a directory lease needs notification of changes.
    pub fn reports_changes(&self) -> bool {
        !self.watches.is_empty() || self.keys.has_directories()
    }

    /// Breaks leases of the directory that contains `path`, after a change of the name or its file.
    /// It costs one load if there is no directory lease.
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
            // The change was authorized already, so the lookup uses the server's rights.
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
    /// Breaks directory leases after this open has changed the file or this name.
    pub(crate) fn break_directory(&self, context: &RequestContext, path: &RelPath) {
        let vfs = &self.volume().vfs;
        self.table.break_directory_of(context, vfs, &self.caller, path, self.parent_key);
    }
}

fn key_of(vfs: &Arc<dyn Vfs>, actor: Actor<'_>, directory: &RelPath) -> vfs::Result<FileKey> {
    let how = OpenHow::looking(Wait::Allowed);
    vfs.open(actor, directory, how).map(|found| found.attributes.key)
}
