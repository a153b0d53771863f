//! The file layer: every operation is a decision of `grants` and a call of a
//! backend, in the one right order. Protocols meet here and nowhere else.
//!
//! Absent on purpose: protocol messages, sockets, the runtime, clocks. What
//! may take long runs on [`Workers`]; what may have to wait for others is
//! `async`, and withdraws when its future is dropped.
//!
//! Lock order: a shard of the table, then the grants of one file, then those
//! of its streams, then the index of watches or that of keys, then the name of
//! an open or one watch. None is held across a backend call or an await.
#![forbid(unsafe_code)]

mod attributes;
mod authorize;
mod backup;
mod caching;
mod context;
mod copy;
mod courtesy;
mod delegation;
mod descriptor;
mod directory_lease;
mod disk;
mod handles;
mod holes;
mod link_target;
mod list;
mod lock;
mod names;
mod object;
mod offload;
mod open;
mod open_file;
mod open_journal;
mod owner_lock;
pub mod private_use;
mod quota;
mod read;
mod remove;
mod rename;
mod reparse;
mod restore;
mod room;
mod server_work;
mod shown_link;
mod stable;
mod stream;
mod table;
mod throttle;
mod veto;
mod volume;
mod watch;
mod write;
mod xattr;

use limits::Ledger;
use meter::Meter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use acl::{
    Access, Ace, AceKind, Descriptor, NAMED_ACES_MAX, NamedAce, NamedList, NamedWho, Sid, Token,
};
pub use attributes::{BasicChange, TimeSetting};
pub use caching::{
    ACKNOWLEDGED_WITHIN, CacheGrant, CacheHolder, CacheKeyWish, CacheWish, KEYS_PER_CLIENT_MAX,
};
pub use context::{
    BreakCounts, Patience, PendingAnswer, Protocol, RequestContext, RequestFiles, break_counts,
};
pub use courtesy::Courtesy;
pub use delegation::{Delegate, Delegation, delegation_key};
pub use descriptor::SecurityParts;
pub use disk::DiskFailure;
pub use grants::{
    Absence, AcknowledgeRefusal, CacheBreak, CacheKey, CacheOwner, CacheState, Caching, LockHeld,
    LockKind, LockOwner, OpenId, OwnerLocking, Range, RangeLock, Share,
};
pub use list::Child;
pub use names::NamePatterns;
pub use object::{
    Handle, HandleSeal, ListWish, Listed, ListedObject, NewObject, Object, ObjectChanges,
    ObjectOpen, OpenAt, TakeListed, UnseenObject, VolumeId, XattrWish,
};
pub use offload::{CallHolder, Inline, Workers};
pub use open::{
    Begun, IfExists, IfMissing, NewMode, OpenAction, OpenPlan, OpenResult, Semantics, WaitingOpen,
    WishedKind,
};
pub use open_file::{FrozenTimes, OpenFile};
pub use open_journal::{FURTHER_PATHS_MAX, OpenJournal};
pub use read::ResidentRange;
pub use reparse::{MetLink, Reparse};
pub use restore::{FileIdentity, OpenFacts};
pub use stable::Unstable;
pub use throttle::{Clock, ShareQueue};
pub use volume::{Caller, Volume, VolumeOptions, dos};
pub use watch::{
    Change, ChangeKind, Filter, Measure, NextChanges, WATCH_BYTES_MAX, WATCHES_MAX,
    WATCHES_PER_DIRECTORY_MAX, WatchAnswer, WatchWish,
};

/// Opens that every holder may have, while there are any: what a desktop needs.
const OPENS_FLOOR: u64 = 64;

/// Byte ranges that are locked or waited for, of all protocols: some 30 bytes each, or 100 where an
/// owner of NFS has them. One holder alone may have half: those of 32 files that are full of them.
pub const LOCK_RANGES_MAX: u64 = 1 << 21;

/// Byte ranges that every holder may have, while there are any: those of one request.
pub const LOCK_RANGES_FLOOR: u64 = 4096;

/// The file layer: one for a process, shared by all volumes and protocols.
pub struct Files {
    table: Arc<table::Table>,
    workers: Arc<dyn Workers>,
    next_open: AtomicU64,
    seal: Option<Arc<dyn HandleSeal>>,
    /// Directories that were found by handles.
    known: Arc<object::Known>,
    /// Files that are open, by their handles.
    open_handles: Arc<object::OpenHandles>,
    /// What protocols count of their requests.
    meter: Arc<Meter>,
    /// Held from the look whether an extended attribute is there until it is set or removed,
    /// where that was wished.
    xattr_turns: Arc<object::XattrTurns>,
    /// Opens of all protocols, by holder: each has a descriptor.
    opens: Arc<Ledger>,
    /// Watches and the memory of their changes, by holder.
    watch_ledgers: watch::WatchLedgers,
    /// Byte ranges of all protocols, by holder.
    lock_ranges: Arc<Ledger>,
    /// Failures of disks to keep data.
    disk_failures: Arc<disk::DiskFailures>,
    /// Changes that are being made stable.
    syncs: Arc<stable::Syncs>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

impl Files {
    /// A file layer without opens, which runs long calls on `workers`.
    #[must_use]
    pub fn new(workers: Arc<dyn Workers>) -> Self {
        Self {
            table: Arc::default(),
            workers,
            next_open: AtomicU64::new(1),
            seal: None,
            known: Arc::default(),
            open_handles: Arc::default(),
            meter: Arc::default(),
            xattr_turns: Arc::default(),
            opens: Ledger::new(u64::MAX, OPENS_FLOOR),
            watch_ledgers: watch::WatchLedgers::default(),
            lock_ranges: Ledger::new(LOCK_RANGES_MAX, LOCK_RANGES_FLOOR),
            disk_failures: Arc::default(),
            syncs: Arc::default(),
        }
    }

    /// Opens of all protocols: a protocol charges each to whom it serves, before it opens.
    #[must_use]
    pub fn opens(&self) -> &Arc<Ledger> {
        &self.opens
    }

    /// Byte ranges of all protocols: a protocol says with each lock whom it is charged to.
    #[must_use]
    pub fn lock_ranges(&self) -> &Arc<Ledger> {
        &self.lock_ranges
    }

    /// Has protocols count into `meter`.
    #[must_use]
    pub fn with_meter(self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self }
    }

    /// What protocols count of their requests: one for all of them.
    #[must_use]
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn new_open_id(&self) -> OpenId {
        OpenId(self.next_open.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits, where whoever asks has no clock.
    pub async fn pause(&self, duration: Duration) {
        self.workers.sleep(duration).await;
    }

    /// As [`Files::pause`], to be waited for beside something else.
    #[must_use]
    pub fn pause_for(&self, duration: Duration) -> futures_util::future::BoxFuture<'static, ()> {
        self.workers.sleep(duration)
    }

    /// The server is about to end: clients are asked to write what they keep back and to close
    /// what only their caches keep open, and for delegations. How many have not written yet; to
    /// be asked for again, since they may be given more meanwhile.
    #[must_use]
    pub fn ask_back(&self) -> usize {
        let ask = |state: &Arc<table::FileState>| {
            state.lock(&RequestContext::SERVER).grants.caches.handle_end_near()
        };
        self.table.cached().iter().map(ask).sum()
    }

    /// Number of files that are open.
    #[must_use]
    pub fn open_file_count(&self) -> usize {
        self.table.len()
    }
}
