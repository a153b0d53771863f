//! Throttling: an operation waits for the limits of its share before it starts.
//!
//! READ, WRITE and other operations with an open wait once the open is known, since its file may
//! have limits, too. Other operations count if they touch files. Operations that only select a file
//! do not count, and neither do a few attribute operations beside a counted one. A waiting request
//! occupies its slot, and the client is asked to use fewer slots meanwhile.

use crate::clients::session::NfsSession;
use crate::limits::ATTRIBUTE_OPS_PER_CHARGE;
use crate::request::operations::{Charge, charge};
use crate::request::place::HandleTarget;
use crate::request::run::CompoundRun;
use crate::status::status_of;
use files::{OpenFile, ShareQueue};
use limits::{Cost, ShareLimits, ThrottleReason};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::FsError;
use wire::nfs::{NfsStatus, Operation};

/// Guard that counts a waiting request.
struct ThrottleGuard(Arc<NfsSession>);

impl ThrottleGuard {
    fn among(session: &Arc<NfsSession>) -> Self {
        session.throttled.fetch_add(1, Ordering::Relaxed);
        Self(session.clone())
    }
}

impl Drop for ThrottleGuard {
    fn drop(&mut self) {
        self.0.throttled.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CompoundRun<'_> {
    /// Waits until an operation may start, unless its cost depends on its open.
    pub async fn admit_operation(&mut self, operation: &Operation<'_>) {
        self.throttled = ThrottleReason::None;
        if self.share_limits().is_none() {
            return;
        }
        match charge(operation) {
            Charge::Metadata => {}
            Charge::MetadataAlone => {
                if let Some(left) = self.prepaid_attribute_ops.checked_sub(1) {
                    self.prepaid_attribute_ops = left;
                    return;
                }
            }
            Charge::ByOpen | Charge::Nothing => return,
        }
        self.admit(None, Cost::metadata()).await;
    }

    /// Waits until an operation of this cost may proceed, with the limits of its open's file if it
    /// has one.
    pub async fn admit(&mut self, open: Option<&OpenFile>, cost: Cost) {
        let Some(queue) = self.queue() else { return };
        self.prepaid_attribute_ops = ATTRIBUTE_OPS_PER_CHARGE;
        if !queue.admit_now(open, cost, self.now) {
            Box::pin(self.wait_for_limits(&queue, open, cost)).await;
        }
    }

    /// Status of a refused open, which a limit of the share may have caused.
    pub fn open_refused(&mut self, error: FsError) -> NfsStatus {
        if error == FsError::TooManyHandles {
            self.throttled = ThrottleReason::Handles;
        }
        status_of(error)
    }

    /// Queues of a copy: of the saved and of the current file handle's share.
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
        let _guard = self.session.as_ref().map(ThrottleGuard::among);
        let server = self.server().clone();
        let clock = || server.host.now().instant;
        self.throttled = self.files().clone().admit_copy(queues, files, bytes, &clock).await;
        self.now = clock();
    }

    /// Refunds the charge for bytes that a short read did not return.
    pub fn refund(&mut self, open: &OpenFile, cost: Cost, read: usize) {
        let unused = cost.bytes.saturating_sub(read as u64);
        if unused > 0
            && let Some(queue) = self.queue()
        {
            queue.give_back(open, cost, unused);
        }
    }

    async fn wait_for_limits(&mut self, queue: &ShareQueue, open: Option<&OpenFile>, cost: Cost) {
        self.files().context().begin_wait();
        let _guard = self.session.as_ref().map(ThrottleGuard::among);
        let server = self.server().clone();
        let clock = || server.host.now().instant;
        self.throttled = self.files().clone().admit(queue, open, cost, &clock).await;
        self.now = clock();
    }

    /// Limits of the share of the current file handle, if it has any.
    fn share_limits(&self) -> Option<&Arc<ShareLimits>> {
        limits_of(self.current.as_ref()?)
    }

    /// Queue of the session at these limits.
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

fn limits_of(place: &HandleTarget) -> Option<&Arc<ShareLimits>> {
    let HandleTarget::Object(place) = place else { return None };
    let limits = place.export.volume.options.limits.as_ref()?;
    limits.is_limited().then_some(limits)
}
