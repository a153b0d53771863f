//! An operation waits here for the limits of its share, before anything is done of it.
//!
//! READ, WRITE and others that need an open wait once that is known, since its file may have
//! limits, too. Of the others those count that do something with files; what only says which
//! file is meant does not, nor do few looks at attributes beside something else. Whoever waits
//! keeps its slot; the client is told to use few of them meanwhile.

use crate::compound::Run;
use crate::limits::LOOKS_PER_CHARGE;
use crate::operations::{Charge, charge};
use crate::place::Place;
use crate::session::Session;
use crate::status::status_of;
use files::{OpenFile, ShareQueue};
use limits::{Cost, ShareLimits, ThrottleReason};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::FsError;
use wire::nfs::{NfsStatus, Operation};

/// Counted among the requests that wait, until it goes.
struct Counted(Arc<Session>);

impl Counted {
    fn among(session: &Arc<Session>) -> Self {
        session.throttled.fetch_add(1, Ordering::Relaxed);
        Self(session.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.throttled.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Run<'_> {
    /// Waits until an operation may begin, unless its cost is known only once its open is.
    pub async fn admit_operation(&mut self, operation: &Operation<'_>) {
        self.throttled = ThrottleReason::None;
        if self.share_limits().is_none() {
            return;
        }
        match charge(operation) {
            Charge::Metadata => {}
            Charge::MetadataAlone => {
                if let Some(left) = self.prepaid_looks.checked_sub(1) {
                    self.prepaid_looks = left;
                    return;
                }
            }
            Charge::ByOpen | Charge::Nothing => return,
        }
        self.admit(None, Cost::metadata()).await;
    }

    /// Waits until an operation may go on that costs so much, by an open if it has one.
    pub async fn admit(&mut self, open: Option<&OpenFile>, cost: Cost) {
        let Some(queue) = self.queue() else { return };
        self.prepaid_looks = LOOKS_PER_CHARGE;
        if !queue.admit_now(open, cost, self.now) {
            Box::pin(self.wait_for_limits(&queue, open, cost)).await;
        }
    }

    /// What a client is told whose open was refused, which may be by a limit of the share.
    pub fn open_refused(&mut self, error: FsError) -> NfsStatus {
        if error == FsError::TooManyHandles {
            self.throttled = ThrottleReason::Handles;
        }
        status_of(error)
    }

    /// Where those wait that copy from the saved file to the current one, in this order.
    pub fn copy_queues(&mut self) -> [Option<Arc<ShareQueue>>; 2] {
        let saved = self.saved_place().and_then(limits_of).cloned();
        let source = saved.and_then(|limits| Some(self.session.as_ref()?.queue(&limits)));
        [source, self.queue()]
    }

    /// Waits until so many bytes may be copied.
    pub async fn admit_copy(
        &mut self,
        queues: &[Option<Arc<ShareQueue>>; 2],
        files: [&OpenFile; 2],
        bytes: u64,
    ) {
        if queues.iter().all(Option::is_none) {
            return;
        }
        self.files().context().begin_wait();
        let _counted = self.session.as_ref().map(Counted::among);
        let server = self.server().clone();
        let clock = || server.host.now().instant;
        self.throttled = self.files().clone().admit_copy(queues, files, bytes, &clock).await;
        self.now = clock();
    }

    /// A read gave less than it asked for.
    pub fn give_back(&mut self, open: &OpenFile, cost: Cost, read: usize) {
        let unused = cost.bytes.saturating_sub(read as u64);
        if unused > 0
            && let Some(queue) = self.queue()
        {
            queue.give_back(open, cost, unused);
        }
    }

    async fn wait_for_limits(&mut self, queue: &ShareQueue, open: Option<&OpenFile>, cost: Cost) {
        self.files().context().begin_wait();
        let _counted = self.session.as_ref().map(Counted::among);
        let server = self.server().clone();
        let clock = || server.host.now().instant;
        self.throttled = self.files().clone().admit(queue, open, cost, &clock).await;
        self.now = clock();
    }

    /// The limits of the share that the current file handle leads to, if it has any.
    fn share_limits(&self) -> Option<&Arc<ShareLimits>> {
        limits_of(self.current.as_ref()?)
    }

    /// Where the session's requests wait for them.
    fn queue(&mut self) -> Option<Arc<ShareQueue>> {
        let limits = self.share_limits()?;
        if let Some(queue) = &self.queue
            && Arc::ptr_eq(queue.limits(), limits)
        {
            return Some(queue.clone());
        }
        let queue = self.session.as_ref()?.queue(limits);
        self.queue = Some(queue.clone());
        Some(queue)
    }
}

fn limits_of(place: &Place) -> Option<&Arc<ShareLimits>> {
    let Place::Object(place) = place else { return None };
    let limits = place.export.volume.options.limits.as_ref()?;
    limits.is_limited().then_some(limits)
}
