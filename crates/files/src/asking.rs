//! On whose behalf the present thread works. What a request makes its own client
//! be told comes after its answer: the client takes its caches for what they were
//! until then. Others are told at once. MS-SMB2 3.3.4.6, 3.3.4.7.
//!
//! Who asks is known to the thread and goes along to workers, so that nothing
//! between a request and what it breaks has to pass it on.

use crate::caching::CacheHolder;
use futures_util::future::BoxFuture;
use grants::CacheBreak;
use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

thread_local! {
    static PRESENT: RefCell<Option<Arc<Kept>>> = const { RefCell::new(None) };
}

/// Whom to tell what.
type Breaks = Vec<(Arc<dyn CacheHolder>, CacheBreak)>;

/// A request of a client that is being worked on. To be dropped once its answer
/// is queued: then its client is told what was kept back.
#[derive(Debug)]
pub struct Asking(Arc<Kept>);

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

#[derive(Debug)]
pub(crate) struct Kept {
    client: [u8; 16],
    /// None for who waits as long as it takes.
    patience: Option<Patience>,
    /// What the client is to be told after the answer; none once that is queued.
    breaks: Mutex<Option<Breaks>>,
}

impl Asking {
    /// A request of `client`, by whatever its protocol tells clients apart.
    #[must_use]
    pub fn new(client: [u8; 16]) -> Self {
        Self::with(client, None)
    }

    /// As [`Asking::new`], of a client that would rather ask again than wait for long.
    #[must_use]
    pub fn impatient(client: [u8; 16], patience: Patience) -> Self {
        Self::with(client, Some(patience))
    }

    fn with(client: [u8; 16], patience: Option<Patience>) -> Self {
        Self(Arc::new(Kept { client, patience, breaks: Mutex::new(Some(Vec::new())) }))
    }

    /// Does `work` on behalf of it.
    pub async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| on_behalf(Some(self.0.clone()), || work.as_mut().poll(cx))).await
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.tell_kept(None);
    }
}

impl Kept {
    /// Who asks.
    pub fn client(&self) -> [u8; 16] {
        self.client
    }

    /// How long it waits.
    pub fn patience(&self) -> Option<Patience> {
        self.patience.clone()
    }

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

/// The request that the present thread works on is about to wait for others,
/// perhaps for what its own client is still to be told: that is told now.
pub fn begin_wait() {
    if let Some(kept) = present() {
        kept.tell_kept(Some(Vec::new()));
    }
}

/// Breaks that were told since the start, by who caused them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakCounts {
    /// Clients that wait as long as it takes: those of SMB.
    pub smb: u64,
    /// Clients that would rather ask again: those of NFS.
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

fn count_break(cause: Option<&Kept>) {
    let counter = match cause {
        None => &BREAKS_LOCAL,
        Some(Kept { patience: Some(_), .. }) => &BREAKS_NFS,
        Some(_) => &BREAKS_SMB,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Tells a holder of a break, or keeps that back until its own client's request is
/// answered.
pub(crate) fn tell(holder: Arc<dyn CacheHolder>, told: CacheBreak) {
    let present = present();
    count_break(present.as_deref());
    match present.filter(|kept| holder.client() == Some(kept.client)) {
        Some(kept) => kept.keep(holder, told),
        None => holder.handle_break(&told),
    }
}

/// On whose behalf this thread works.
pub(crate) fn present() -> Option<Arc<Kept>> {
    PRESENT.with_borrow(Clone::clone)
}

/// Calls on behalf of `who`.
pub(crate) fn on_behalf<T>(who: Option<Arc<Kept>>, call: impl FnOnce() -> T) -> T {
    let is_request = who.is_some();
    let _back = Back(PRESENT.replace(who));
    vfs::asked::work(is_request, call)
}

/// Whoever was before is again; also after a panic.
struct Back(Option<Arc<Kept>>);

impl Drop for Back {
    fn drop(&mut self) {
        PRESENT.set(self.0.take());
    }
}
