//! Context of a request: its client, its patience with other clients, and its client's deferred
//! breaks. The decoder of a request creates it and passes it down; no thread-local holds any of it.
//!
//! Breaks that a request causes for its own client follow its response: until then the client
//! relies on its caches. Other clients receive theirs at once. MS-SMB2 3.3.4.6, 3.3.4.7.
//!
//! The acting user is a separate argument ([`crate::Caller`]): one request may concern several
//! shares, each with its own user mapping.

use crate::Files;
use crate::cache_holder::CacheHolder;
use crate::offload::{CallHolder, offload};
use futures_util::future::BoxFuture;
use grants::CacheBreak;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use sync::Mutex;
use vfs::{Actor, ArrivalOrder, Result};

/// Breaks with their recipients.
type DeferredBreaks = Vec<(Arc<dyn CacheHolder>, CacheBreak)>;

/// Protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProtocol {
    /// SMB: requests wait without a limit.
    Smb,
    /// NFS: a request fails with NFS4ERR_DELAY, and its client retries.
    Nfs,
}

/// Limit of a request's wait for breaks and recalls. When it passes, the request fails with
/// [`vfs::FsError::Unavailable`], and its client retries without occupying the server.
#[derive(Clone)]
pub struct Patience {
    /// Limit of each wait.
    pub limit: Duration,
    /// Continues a wait after its request has failed, so that a silent holder loses its caching at
    /// the deadline.
    pub carry_on: Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>,
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// A request of a client, or work of the server itself. Clones share the request; threads may share
/// them.
#[derive(Clone, Debug)]
pub struct RequestContext(Option<Arc<ClientRequest>>);

#[derive(Debug)]
struct ClientRequest {
    protocol: ClientProtocol,
    /// Identity of the client within its protocol.
    client: [u8; 16],
    /// None for a request that waits without a limit.
    patience: Option<Patience>,
    /// Arrival order of the request. It advances after a wait, during which other clients may have
    /// caused external changes.
    order: AtomicU64,
    /// Breaks deferred until the client's response is queued; none afterwards.
    breaks: Mutex<Option<DeferredBreaks>>,
}

impl RequestContext {
    /// Work of the server itself, or on behalf of a client that has disconnected.
    pub const SERVER: Self = Self(None);

    /// A request of `client`, an identity within `protocol`. Without `patience` it waits without a
    /// limit. `order` is its arrival order.
    #[must_use]
    pub fn new(
        protocol: ClientProtocol,
        client: [u8; 16],
        patience: Option<Patience>,
        order: ArrivalOrder,
    ) -> Self {
        let (order, breaks) = (AtomicU64::new(order.number()), Mutex::new(Some(Vec::new())));
        Self(Some(Arc::new(ClientRequest { protocol, client, patience, order, breaks })))
    }

    /// The client of the request.
    #[must_use]
    pub fn client(&self) -> Option<[u8; 16]> {
        self.0.as_ref().map(|request| request.client)
    }

    /// Limit of the request's waits; none if it waits without a limit.
    #[must_use]
    pub fn patience(&self) -> Option<&Patience> {
        self.0.as_ref()?.patience.as_ref()
    }

    /// Prepares a wait. The request may wait for its own client's acknowledgement, so deferred
    /// breaks are sent now.
    pub fn begin_wait(&self) {
        if let Some(request) = &self.0 {
            request.send_deferred(Some(Vec::new()));
            request.order.store(ArrivalOrder::next().number(), Ordering::Relaxed);
        }
    }

    /// Arrival order of the request; the next one for the server's own work.
    pub(crate) fn order(&self) -> ArrivalOrder {
        match &self.0 {
            Some(request) => ArrivalOrder::of_number(request.order.load(Ordering::Relaxed)),
            None => ArrivalOrder::next(),
        }
    }

    /// The backend call of `actor`, with the arrival order of the request.
    pub(crate) fn call<'a>(&self, actor: Actor<'a>) -> Actor<'a> {
        match &self.0 {
            Some(_) => actor.in_order(self.order()),
            None => actor,
        }
    }

    /// Sends a break that the request has caused, or defers it until the response is queued if its
    /// own client holds the caching.
    pub(crate) fn send_break(&self, holder: Arc<dyn CacheHolder>, cache_break: CacheBreak) {
        count_break(self.0.as_deref());
        match self.0.as_ref().filter(|request| holder.client() == Some(request.client)) {
            Some(request) => request.defer(holder, cache_break),
            None => holder.handle_break(&cache_break),
        }
    }
}

/// A response that is not queued yet. Drop it once it is queued: deferred breaks are sent then, and
/// later ones at once.
#[derive(Debug)]
pub struct PendingAnswer(RequestContext);

impl PendingAnswer {
    /// The response to `request`.
    #[must_use]
    pub fn to(request: &RequestContext) -> Self {
        Self(request.clone())
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        if let Some(request) = &self.0.0 {
            request.send_deferred(None);
        }
    }
}

impl ClientRequest {
    /// Defers a break, or sends it if the response is queued already.
    fn defer(&self, holder: Arc<dyn CacheHolder>, cache_break: CacheBreak) {
        let mut breaks = self.breaks.lock();
        match &mut *breaks {
            Some(breaks) => breaks.push((holder, cache_break)),
            None => {
                drop(breaks);
                holder.handle_break(&cache_break);
            }
        }
    }

    /// Sends the deferred breaks; `next` replaces them.
    fn send_deferred(&self, next: Option<DeferredBreaks>) {
        let mut breaks = self.breaks.lock();
        let deferred = std::mem::replace(&mut *breaks, next);
        drop(breaks);
        deferred
            .into_iter()
            .flatten()
            .for_each(|(holder, cache_break)| holder.handle_break(&cache_break));
    }
}

/// The file layer as seen by one request: its operations carry the request's context.
#[derive(Clone, Debug)]
pub struct RequestFiles {
    pub(crate) files: Arc<Files>,
    pub(crate) context: RequestContext,
    /// Holder that is charged for calls on workers.
    pub(crate) holder: CallHolder,
}

impl RequestFiles {
    /// Context of the request.
    #[must_use]
    pub fn context(&self) -> &RequestContext {
        &self.context
    }
}

impl RequestFiles {
    /// Runs `call` on a worker, at its holder's turn.
    ///
    /// # Errors
    /// Errors of `call`; [`FsError::TooMany`] if the workers dropped it.
    pub(crate) async fn offload<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        offload(&*self.workers, &self.holder, call).await
    }
}

impl Deref for RequestFiles {
    type Target = Arc<Files>;

    fn deref(&self) -> &Arc<Files> {
        &self.files
    }
}

impl Files {
    /// View for a request; its calls on workers are charged to `holder`.
    #[must_use]
    pub fn for_request(
        self: &Arc<Self>,
        context: &RequestContext,
        holder: CallHolder,
    ) -> RequestFiles {
        RequestFiles { files: self.clone(), context: context.clone(), holder }
    }

    /// View for the server's own work: see [`RequestContext::SERVER`].
    #[must_use]
    pub fn for_server(self: &Arc<Self>) -> RequestFiles {
        self.for_server_charged(CallHolder::Server)
    }

    /// As [`Files::for_server`], for work that a client waits for: its calls are charged to
    /// `holder`.
    #[must_use]
    pub fn for_server_charged(self: &Arc<Self>, holder: CallHolder) -> RequestFiles {
        self.for_request(&RequestContext::SERVER, holder)
    }
}

/// Breaks sent since the start, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakCounts {
    /// Requests of SMB clients.
    pub smb: u64,
    /// Requests of NFS clients.
    pub nfs: u64,
    /// External changes and timeouts.
    pub local: u64,
}

static BREAKS_SMB: AtomicU64 = AtomicU64::new(0);
static BREAKS_NFS: AtomicU64 = AtomicU64::new(0);
static BREAKS_LOCAL: AtomicU64 = AtomicU64::new(0);

/// See [`BreakCounts`].
#[must_use]
pub fn break_counts() -> BreakCounts {
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    BreakCounts { smb: of(&BREAKS_SMB), nfs: of(&BREAKS_NFS), local: of(&BREAKS_LOCAL) }
}

fn count_break(cause: Option<&ClientRequest>) {
    let counter = match cause.map(|request| request.protocol) {
        None => &BREAKS_LOCAL,
        Some(ClientProtocol::Nfs) => &BREAKS_NFS,
        Some(ClientProtocol::Smb) => &BREAKS_SMB,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}
