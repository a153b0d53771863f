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
use std::sync::atomic::{AtomicU32, Ordering};
use wire::ntstatus::NtStatus;

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
    /// Waits until a request about an open may begin.
    ///
    /// # Errors
    /// `CANCELLED`, `FILE_CLOSED` and `USER_SESSION_DELETED` if that came first.
    pub async fn admit(&mut self, open: &Open, cost: Cost) -> Result<(), NtStatus> {
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

    /// The same of one that is about no open.
    ///
    /// # Errors
    /// As [`Request::admit`].
    pub async fn admit_on(
        &mut self,
        tree: &Tree,
        file: Option<&OpenFile>,
        cost: Cost,
    ) -> Result<(), NtStatus> {
        match tree.queue() {
            Some(queue) if !queue.admit_now(file, cost, self.now) => {
                Box::pin(self.wait_for_limits(tree, file, cost)).await
            }
            _ => Ok(()),
        }
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
