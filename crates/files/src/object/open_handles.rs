//! Index of open files by handle. A lookup by handle takes a worker and a walk, which an open
//! saves. The index does not delay a close.

use super::ObjectHandle;
use crate::{OpenFile, RequestFiles, Volume};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use sync::Mutex;
use vfs::{AttributeRequest, Attributes, KeyedBuildHasher, NodeHandle};

/// Maximum of indexed handles.
const HANDLES_MAX: usize = 4096;

/// The most recent opens of all volumes, by the handles of their files.
#[derive(Debug, Default)]
pub(crate) struct OpenHandles(Mutex<OpenHandlesState>);

#[derive(Debug, Default)]
struct OpenHandlesState {
    by_handle: HashMap<NodeHandle, Weak<OpenFile>, KeyedBuildHasher>,
    /// Handles in order of insertion.
    order: VecDeque<NodeHandle>,
}

impl OpenHandles {
    fn note(&self, handle: &NodeHandle, open: &Arc<OpenFile>) {
        let mut inner = self.0.lock();
        if inner.by_handle.insert(handle.clone(), Arc::downgrade(open)).is_some() {
            return;
        }
        inner.order.push_back(handle.clone());
        if inner.order.len() > HANDLES_MAX
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.by_handle.remove(&oldest);
        }
    }

    fn find(&self, handle: &NodeHandle) -> Option<Arc<OpenFile>> {
        self.0.lock().by_handle.get(handle)?.upgrade()
    }
}

impl RequestFiles {
    /// Indexes an open by its file's handle.
    pub fn note_open(&self, handle: &ObjectHandle, open: &Arc<OpenFile>) {
        self.open_handles.note(handle.node(), open);
    }

    /// Attributes of an open file, like those of [`RequestFiles::object_attributes_alone`]. None if
    /// a lookup is needed.
    #[must_use]
    pub fn attributes_of_open(
        &self,
        volume: &Arc<Volume>,
        handle: &ObjectHandle,
    ) -> Option<Attributes> {
        let open = self.open_handles.find(handle.node())?;
        let is_open = open.state.view().grants.is_open(open.id);
        let is_this = Arc::ptr_eq(open.volume(), volume) && is_open && !open.is_replaced();
        // Checks the same as a lookup by handle.
        let is_served = || volume.options.veto_names.check(&open.path(), false).is_ok();
        let is_looked_at = is_this && is_served();
        is_looked_at.then(|| open.node.attributes(AttributeRequest::default()).ok()).flatten()
    }
}
