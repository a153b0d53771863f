//! The context of a request: whose it is, how long it waits for others, and what its own
//! client is to be told after the answer. It is made where a request is decoded and passed
//! down from there; nothing of it is known to a thread.
//!
//! Breaks that a request causes its own client come after its answer: the client takes its
//! caches for what they were until then. Others are told at once. MS-SMB2 3.3.4.6, 3.3.4.7.
//!
//! As whom a request acts is an argument of its own ([`crate::Caller`]): one request may meet
//! several shares, and each decides as whom it takes a user.

use crate::caching::CacheHolder;
use crate::{CallHolder, Files};
use futures_util::future::BoxFuture;
use grants::CacheBreak;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vfs::{Actor, ArrivalOrder};

/// Whom to tell what.
type Breaks = Vec<(Arc<dyn CacheHolder>, CacheBreak)>;

/// By which protocol a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SMB: its clients wait as long as it takes.
    Smb,
    /// NFS: its clients would rather ask again.
    Nfs,
}

/// How long a request waits for what other clients have to give back before it is refused
/// with [`vfs::FsError::Unavailable`]: its client asks again, and holds up nothing meanwhile.
#[derive(Clone)]
pub struct Patience {
    /// For each thing that is waited for.
    pub limit: Duration,
    /// Goes on with the wait that the request has given up, so that who does not give
    /// anything back loses it in time all the same.
    pub carry_on: Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>,
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// A request of a client that is being worked on, or work of the server's own. Clones are of
/// the same request; may be shared by threads.
#[derive(Clone, Debug)]
pub struct RequestContext(Option<Arc<Request>>);

#[derive(Debug)]
struct Request {
    protocol: Protocol,
    /// By whatever its protocol tells clients apart.
    client: [u8; 16],
    /// None for who waits as long as it takes.
    patience: Option<Patience>,
    /// Its place among the requests that have come: a later one once it has waited for others,
    /// which may have had others do something outside of this process.
    order: AtomicU64,
    /// The breaks that the client is to be told after the answer; none once that is queued.
    breaks: Mutex<Option<Breaks>>,
}

impl RequestContext {
    /// No client's request: what the server does of itself, or because a client has gone.
    pub const SERVER: Self = Self(None);

    /// A request of `client`, by whatever `protocol` tells clients apart. Without `patience` it
    /// waits as long as it takes. `order` is its place among the requests that have come.
    #[must_use]
    pub fn new(
        protocol: Protocol,
        client: [u8; 16],
        patience: Option<Patience>,
        order: ArrivalOrder,
    ) -> Self {
        let (order, breaks) = (AtomicU64::new(order.number()), Mutex::new(Some(Vec::new())));
        Self(Some(Arc::new(Request { protocol, client, patience, order, breaks })))
    }

    /// Whose request it is.
    #[must_use]
    pub fn client(&self) -> Option<[u8; 16]> {
        self.0.as_ref().map(|request| request.client)
    }

    /// How long it waits for others; none for as long as it takes.
    #[must_use]
    pub fn patience(&self) -> Option<&Patience> {
        self.0.as_ref()?.patience.as_ref()
    }

    /// The request is about to wait for others, perhaps for what its own client is still to be
    /// told: that is told now.
    pub fn begin_wait(&self) {
        if let Some(request) = &self.0 {
            request.tell_kept(Some(Vec::new()));
            request.order.store(ArrivalOrder::next().number(), Ordering::Relaxed);
        }
    }

    /// Its place among the requests that have come; for none the next one.
    pub(crate) fn order(&self) -> ArrivalOrder {
        match &self.0 {
            Some(request) => ArrivalOrder::of_number(request.order.load(Ordering::Relaxed)),
            None => ArrivalOrder::next(),
        }
    }

    /// The backend call that `who` makes for it.
    pub(crate) fn call<'a>(&self, who: Actor<'a>) -> Actor<'a> {
        match &self.0 {
            Some(_) => who.in_order(self.order()),
            None => who,
        }
    }

    /// Tells a holder of a break that the request has caused, or keeps that back until its own
    /// client's answer is queued.
    pub(crate) fn tell(&self, holder: Arc<dyn CacheHolder>, told: CacheBreak) {
        count_break(self.0.as_deref());
        match self.0.as_ref().filter(|request| holder.client() == Some(request.client)) {
            Some(request) => request.keep(holder, told),
            None => holder.handle_break(&told),
        }
    }
}

/// An answer that is not queued yet. To be dropped once it is: then the client is told what
/// was kept back, and what its request causes later it is told at once.
#[derive(Debug)]
pub struct PendingAnswer(RequestContext);

impl PendingAnswer {
    /// The answer to a request.
    #[must_use]
    pub fn to(request: &RequestContext) -> Self {
        Self(request.clone())
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        if let Some(request) = &self.0.0 {
            request.tell_kept(None);
        }
    }
}

impl Request {
    /// Keeps a break back, or tells it if there is nothing to wait for any more.
    fn keep(&self, holder: Arc<dyn CacheHolder>, told: CacheBreak) {
        let mut breaks = self.breaks.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *breaks {
            Some(breaks) => breaks.push((holder, told)),
            None => {
                drop(breaks);
                holder.handle_break(&told);
            }
        }
    }

    /// Tells what was kept back; `next` takes its place.
    fn tell_kept(&self, next: Option<Breaks>) {
        let mut breaks = self.breaks.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = std::mem::replace(&mut *breaks, next);
        drop(breaks);
        kept.into_iter().flatten().for_each(|(holder, told)| holder.handle_break(&told));
    }
}

/// The file layer as one request uses it: every operation on files is asked of this, and takes
/// its context along.
#[derive(Clone, Debug)]
pub struct RequestFiles {
    pub(crate) files: Arc<Files>,
    pub(crate) context: RequestContext,
    /// Its calls on workers are charged to this holder.
    pub(crate) holder: CallHolder,
}

impl RequestFiles {
    /// Whose request it is.
    #[must_use]
    pub fn context(&self) -> &RequestContext {
        &self.context
    }
}

impl Deref for RequestFiles {
    type Target = Arc<Files>;

    fn deref(&self) -> &Arc<Files> {
        &self.files
    }
}

impl Files {
    /// This for what a request does; its calls on workers are charged to `holder`.
    #[must_use]
    pub fn for_request(
        self: &Arc<Self>,
        context: &RequestContext,
        holder: CallHolder,
    ) -> RequestFiles {
        RequestFiles { files: self.clone(), context: context.clone(), holder }
    }

    /// This for what no client asks for: see [`RequestContext::SERVER`].
    #[must_use]
    pub fn for_server(self: &Arc<Self>) -> RequestFiles {
        self.for_server_charged(CallHolder::Server)
    }

    /// As [`Files::for_server`], for work of the server's own that a client waits for: its calls
    /// are charged to `holder`.
    #[must_use]
    pub fn for_server_charged(self: &Arc<Self>, holder: CallHolder) -> RequestFiles {
        self.for_request(&RequestContext::SERVER, holder)
    }
}

/// Breaks that were told since the start, by who caused them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakCounts {
    /// Clients of SMB.
    pub smb: u64,
    /// Clients of NFS.
    pub nfs: u64,
    /// Nobody who asks us: processes of this machine, and time.
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

fn count_break(cause: Option<&Request>) {
    let counter = match cause.map(|request| request.protocol) {
        None => &BREAKS_LOCAL,
        Some(Protocol::Nfs) => &BREAKS_NFS,
        Some(Protocol::Smb) => &BREAKS_SMB,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}
