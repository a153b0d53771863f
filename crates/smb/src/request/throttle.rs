//! Requests wait here for the limits of their share, before they do anything.
//!
//! A waiting request can be cancelled, and ends with its session. While a connection has one, the
//! server grants its client few credits, so that further requests wait at the client.

use crate::opens::open::{Open, OpenTarget};
use crate::outgoing::conn_handle::ConnHandle;
use crate::request::context::Request;
use crate::request::unpaid::{UnpaidOpen, UnpaidTree};
use crate::shares::tree::TreeConnect;
use files::OpenFile;
use futures_util::future::{Either, select};
use limits::Cost;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use wire::ntstatus::NtStatus;

/// Counts one request as delayed by limits; dropping it ends that.
struct ThrottledCount<'a>(&'a AtomicU32);

impl<'a> ThrottledCount<'a> {
    fn among(shared: &'a ConnHandle) -> Self {
        shared.throttled.fetch_add(1, Ordering::Relaxed);
        Self(&shared.throttled)
    }
}

impl Drop for ThrottledCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Request<'_> {
    /// Waits until a request on an open may begin, and returns the open.
    ///
    /// # Errors
    /// `CANCELLED`, `FILE_CLOSED` and `USER_SESSION_DELETED` if that event came first.
    pub async fn admit(&mut self, open: UnpaidOpen, cost: Cost) -> Result<Arc<Open>, NtStatus> {
        self.admit_further(&open.0, cost).await?;
        Ok(open.0)
    }

    /// Waits until an admitted request may continue at an additional cost.
    ///
    /// # Errors
    /// The errors of [`Request::admit`].
    pub async fn admit_further(&mut self, open: &Open, cost: Cost) -> Result<(), NtStatus> {
        let Some(queue) = open.tree.queue() else { return Ok(()) };
        let file = match &open.target {
            OpenTarget::File(file) => file,
            OpenTarget::Pipe(_) | OpenTarget::Quotas(_) => return Ok(()),
        };
        if queue.admit_now(Some(file), cost, self.now) {
            return Ok(());
        }
        Box::pin(self.wait_for_limits(&open.tree, Some(file), cost)).await?;
        let is_gone = self.throttled.has_waited() && open.closed.is_raised();
        if is_gone { Err(NtStatus::FILE_CLOSED) } else { Ok(()) }
    }

    /// Waits until a CREATE may begin, and returns the tree. A CREATE of a pipe is free.
    ///
    /// The errors of [`Request::admit`].
    pub async fn admit_create(&mut self, tree: UnpaidTree) -> Result<Arc<TreeConnect>, NtStatus> {
        let tree = tree.0;
        let cost = Cost::metadata();
        match tree.queue().filter(|_| !tree.share.is_ipc()) {
            Some(queue) if !queue.admit_now(None, cost, self.now) => {
                Box::pin(self.wait_for_limits(&tree, None, cost)).await?;
            }
            _ => {}
        }
        Ok(tree)
    }

    async fn wait_for_limits(
        &mut self,
        tree: &TreeConnect,
        file: Option<&OpenFile>,
        cost: Cost,
    ) -> Result<(), NtStatus> {
        let Some(queue) = tree.queue() else { return Ok(()) };
        self.files.context().begin_wait();
        let session = self.session()?;
        let _counted = ThrottledCount::among(self.shared);
        let ticket = self.shared.pending.enter_throttled(self.header.message_id);
        let cancelled = async {
            match &ticket {
                Some(ticket) => ticket.cancelled.raised().await,
                // Too many requests wait; this one waits without being cancellable.
                None => pending().await,
            }
        };
        let host = &self.server.host;
        let clock = || host.now().instant;
        let admitted = self.files.admit(queue, file, cost, &clock);
        let (cancelled, ended) = (pin!(cancelled), pin!(session.ended.raised()));
        match select(pin!(admitted), select(cancelled, ended)).await {
            Either::Left((throttled, _)) => {
                *self.throttled = throttled;
                Ok(())
            }
            Either::Right((Either::Left(_), _)) => Err(NtStatus::CANCELLED),
            Either::Right((Either::Right(_), _)) => Err(NtStatus::USER_SESSION_DELETED),
        }
    }
}
