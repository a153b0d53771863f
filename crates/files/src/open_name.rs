//! The name of an open file, which a rename changes for all opens through it.

use crate::Volume;
use crate::open_stream::OpenStream;
use grants::LinkId;
use std::sync::Arc;
use sync::{Mutex, MutexGuard};
use vfs::{Attributes, RelPath, Vfs};

/// A name that is shared by all opens through it; a rename changes it for all.
#[derive(Debug)]
pub(crate) struct OpenName {
    pub volume: Arc<Volume>,
    pub link: LinkId,
    /// The open stream of the file; none for the file itself.
    pub stream: Option<Arc<OpenStream>>,
    path: Mutex<RelPath>,
}

impl OpenName {
    /// A new name, for the first open through it.
    pub fn new(
        volume: &Arc<Volume>,
        link: LinkId,
        path: &RelPath,
        stream: Option<Arc<OpenStream>>,
    ) -> Arc<Self> {
        let (volume, path) = (volume.clone(), Mutex::new(path.clone()));
        Arc::new(Self { volume, link, stream, path })
    }

    /// The current path in the volume.
    pub fn path(&self) -> RelPath {
        self.path.lock().clone()
    }

    /// The current path, locked for a comparison or a rename.
    pub fn lock_path(&self) -> MutexGuard<'_, RelPath> {
        self.path.lock()
    }

    /// The file's attributes as presented for this name.
    pub fn presented(&self, attributes: Attributes) -> Attributes {
        self.volume.presented(self.path.lock().as_bytes(), attributes)
    }

    /// Whether this is the name `path` of this tree.
    pub fn is(&self, vfs: &Arc<dyn Vfs>, path: &RelPath) -> bool {
        Arc::ptr_eq(&self.volume.vfs, vfs) && *self.path.lock() == *path
    }
}
