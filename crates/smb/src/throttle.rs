//! A request waits here for the limits of its share, before anything is done of it.
//!
//! It can be cancelled meanwhile, and ends with its session. While one of a connection waits,
//! that connection's client is granted few credits, so that what it would have wait here
//! waits with the client.

use crate::conn::Shared;
use crate::dispatch::Request;
use crate::open::{Open, Target};
use crate::tree::Tree;
use files::OpenFile;
use futures_util::future::{Either, select};
use limits::Cost;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use wire::ntstatus::NtStatus;

/// The open that a request names, not paid for yet: a handler that forgets to have its cost
/// admitted does not compile.
#[derive(Debug)]
#[must_use]
pub struct UnpaidOpen(Arc<Open>);

impl UnpaidOpen {
    /// Of a request that has begun.
    pub(crate) fn new(open: Arc<Open>) -> Self {
        Self(open)
    }

    /// The target of the open, by which some requests cost nothing, or are refused before they cost
    /// anything.
    pub fn target(&self) -> &Target {
        &self.0.target
    }

    /// The open, for a request that limits are not about: of a pipe, or that gives something
    /// back for which others wait.
    pub fn free_of_charge(self) -> Arc<Open> {
        self.0
    }
}

/// The tree that a request names, not paid for yet, as [`UnpaidOpen`].
#[derive(Debug)]
#[must_use]
pub struct UnpaidTree(Arc<Tree>);

impl UnpaidTree {
    /// Of a request that has begun.
    pub(crate) fn new(tree: Arc<Tree>) -> Self {
        Self(tree)
    }

    /// The tree, for a request that is about no file.
    pub fn free_of_charge(self) -> Arc<Tree> {
        self.0
    }
}

/// Counted among the requests that wait for limits, until it goes.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    fn among(shared: &'a Shared) -> Self {
        shared.throttled.fetch_add(1, Ordering::Relaxed);
        Self(&shared.throttled)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Request<'_> {
    /// Waits until a request about an open may begin; the open to do it by.
    ///
    /// # Errors
    /// `CANCELLED`, `FILE_CLOSED` and `USER_SESSION_DELETED` if that came first.
    pub async fn admit(&mut self, open: UnpaidOpen, cost: Cost) -> Result<Arc<Open>, NtStatus> {
        self.admit_further(&open.0, cost).await?;
        Ok(open.0)
    }

    /// Waits until a request may go on that was admitted, and costs more than that.
    ///
    /// # Errors
    /// As [`Request::admit`].
    pub async fn admit_further(&mut self, open: &Open, cost: Cost) -> Result<(), NtStatus> {
        let Some(queue) = open.tree.queue() else { return Ok(()) };
        let file = match &open.target {
            Target::File(file) => file,
            Target::Pipe(_) | Target::Quotas(_) => return Ok(()),
        };
        if queue.admit_now(Some(file), cost, self.now) {
            return Ok(());
        }
        Box::pin(self.wait_for_limits(&open.tree, Some(file), cost)).await?;
        let is_gone = self.throttled.has_waited() && open.closed.is_raised();
        if is_gone { Err(NtStatus::FILE_CLOSED) } else { Ok(()) }
    }

    /// Waits until a request may begin that makes an open; the tree to make it in. One for a pipe
    /// costs nothing.
    ///
    /// # Errors
    /// As [`Request::admit`].
    pub async fn admit_create(&mut self, tree: UnpaidTree) -> Result<Arc<Tree>, NtStatus> {
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
        tree: &Tree,
        file: Option<&OpenFile>,
        cost: Cost,
    ) -> Result<(), NtStatus> {
        let Some(queue) = tree.queue() else { return Ok(()) };
        self.files.context().begin_wait();
        let session = self.session()?;
        let _counted = Counted::among(self.shared);
        let ticket = self.shared.waiting.enter_throttled(self.header.message_id);
        let cancelled = async {
            match &ticket {
                Some(ticket) => ticket.cancelled.raised().await,
                // Too many wait: this one does so in any case.
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
