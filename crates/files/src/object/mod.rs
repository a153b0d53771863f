//! Files and directories as clients know them that keep a handle rather than a path:
//! NFS. RFC 8881 4, 5, 18.
//!
//! An [`Object`] is a node that is held open for looking. What is done to it goes
//! through the same stages as what is asked for by a path: the node's present path is
//! asked of the backend, the path's own operation runs, and then the node is asked
//! again. If it has moved meanwhile the operation begins anew, and what was made in
//! the wrong place goes. So there is one order of decisions and one table of names,
//! whoever asks; calls relative to a directory would be a second of each. What is
//! opened by its handle is opened by no path at all ([`vfs::Vfs::open_node`]), and what a stored
//! list grants beyond POSIX is done in the very directory that was judged ([`vfs::NameActor`]).

mod attributes;
mod descriptor;
mod find;
mod handle;
mod known;
mod list;
mod make;
mod names;
mod open;
mod open_handles;
mod remembered;
mod xattr;

use crate::Volume;
use std::sync::Arc;
use vfs::{FileKey, FileKind, Node, RelPath};

pub use attributes::ObjectChanges;
pub use handle::{Handle, HandleSeal, VolumeId};
pub(crate) use known::Known;
pub use list::{ListWish, Listed, ListedObject, TakeListed, UnseenObject};
pub use make::NewObject;
pub use open::{ObjectOpen, OpenAt};
pub(crate) use open_handles::OpenHandles;
pub(crate) use xattr::XattrTurns;
pub use xattr::XattrWish;

/// A file or directory that a client knows by its handle. Cheap to clone; keeps a
/// descriptor open, but no one else from anything.
#[derive(Clone, Debug)]
pub struct Object {
    pub(crate) volume: Arc<Volume>,
    pub(crate) node: Arc<dyn Node>,
    /// Where it was when it was found.
    pub(crate) path: RelPath,
}

impl Object {
    /// The volume that it is in.
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Which file it is: equal for every name of it.
    #[must_use]
    pub fn key(&self) -> FileKey {
        self.node.key()
    }

    /// File, directory, or another kind.
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
