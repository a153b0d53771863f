//! An open named stream: its file and its name, which all its opens share.

use crate::Caller;
use crate::authorize::as_granted;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sync::Mutex;
use vfs::{FsError, Node, Result, StreamName};

/// An open stream, shared by all its opens, so that a rename reaches them all.
#[derive(Debug)]
pub(crate) struct OpenStream {
    /// The stream's file.
    pub file: Arc<dyn Node>,
    name: Mutex<StreamName>,
    /// Whether the stream was removed: another stream may have its name.
    is_gone: AtomicBool,
}

impl OpenStream {
    pub fn new(file: Arc<dyn Node>, name: StreamName) -> Arc<Self> {
        Arc::new(Self { file, name: Mutex::new(name), is_gone: AtomicBool::new(false) })
    }

    /// The stream's name, if it still exists.
    pub fn reachable(&self) -> Result<StreamName> {
        if self.is_gone.load(Ordering::Acquire) { Err(FsError::Stale) } else { Ok(self.name()) }
    }

    /// The stream's file.
    pub fn file(&self) -> &Arc<dyn Node> {
        &self.file
    }

    pub fn set_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    /// The stream's current name as stored.
    pub fn name(&self) -> StreamName {
        self.name.lock().clone()
    }

    pub fn is(&self, name: &StreamName) -> bool {
        *self.name.lock() == *name
    }

    /// Notes the new name after a rename.
    pub fn rename(&self, to: &StreamName) {
        *self.name.lock() = to.clone();
    }

    /// Removes the stream. Returns its name, or none if it had been removed before.
    pub fn remove(&self, caller: &Caller) -> Result<Option<StreamName>> {
        let authority = as_granted(caller, &*self.file);
        match self.reachable() {
            Ok(name) => {
                self.file.need_streams()?.remove_stream(authority.actor(), &name)?;
                Ok(Some(name))
            }
            Err(_) => Ok(None),
        }
    }
}
