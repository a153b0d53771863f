//! Objects: files and directories that an NFS client identifies by handle instead of path. RFC 8881
//! 4, 5, 18.
//!
//! An [`Object`] is an open node. Its operations share the stages of operations by path. The
//! backend reports the node's current path, the path's operation runs, and the path is read again.
//! If it has changed, the operation restarts, and an object created in the wrong place is removed.
//!
//! So all protocols share one order of decisions and one table of names, where calls relative to a
//! directory would need a second of each. An open by handle uses no path ([`vfs::Vfs::open_node`]).
//! Access that a stored descriptor grants beyond POSIX is used in exactly the authorized directory
//! ([`vfs::NameActor`]).

mod attributes;
mod create;
mod descriptor;
mod directory_cache;
mod find;
mod handle;
mod names;
mod open;
mod open_at;
mod open_handles;
mod readdir;
mod remembered;
mod xattr;

use crate::Volume;
use std::sync::Arc;
use vfs::{FileKey, FileKind, Node, RelPath};

pub use attributes::ObjectChanges;
pub use create::NewObject;
pub(crate) use directory_cache::DirectoryCache;
pub use handle::{HandleSeal, ObjectHandle, VolumeId};
pub use open_at::{ObjectOpen, OpenAt};
pub(crate) use open_handles::OpenHandles;
pub use readdir::{ListWish, ListedObject, ObjectList, ObjectListSink, UnreadableObject};
pub(crate) use xattr::XattrLocks;
pub use xattr::XattrSetMode;

/// A file or directory that a client identifies by handle. Cheap to clone; holds a descriptor, but
/// conflicts with no open.
#[derive(Clone, Debug)]
pub struct Object {
    pub(crate) volume: Arc<Volume>,
    pub(crate) node: Arc<dyn Node>,
    /// Path at the time of the lookup.
    pub(crate) path: RelPath,
}

impl Object {
    /// Volume of the object.
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Key of the file: equal for all its names.
    #[must_use]
    pub fn key(&self) -> FileKey {
        self.node.key()
    }

    /// Kind of the file.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.node.kind()
    }

    /// Whether it is the root of its volume, which has no parent.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.path.is_root()
    }
}
