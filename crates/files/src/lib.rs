//! The file layer: each operation combines a decision of `grants` with backend calls, in a fixed
//! order. SMB and NFS meet here and nowhere else.
//!
//! The crate contains no protocol messages, sockets, runtime or clocks. Long calls run on
//! [`Workers`]. An operation that may wait for other clients is `async`, and dropping its future
//! cancels it.
//!
//! Lock order: table shard, grants of one file, grants of its streams, watch index or lease key
//! index, then an open's name or one watch. No lock is held across a backend call or an await.
#![forbid(unsafe_code)]

mod access_time;
mod allocate;
mod announced_rename;
mod attributes;
mod authorize;
mod authorize_by_open;
mod backup;
mod cache_holder;
mod caching;
mod clone;
mod close;
mod context;
mod copy;
mod courtesy;
mod delegation;
mod descriptor;
mod directory_lease;
mod disk;
mod flush;
mod frozen_times;
mod handle_breaks;
mod link;
mod link_target;
mod lock;
mod name_lookup;
mod names;
mod new_name;
mod object;
mod offload;
mod open;
mod open_file;
mod open_journal;
mod open_name;
mod open_stream;
mod owner_lock;
mod pending_removal;
pub mod private_use;
mod quota;
mod read;
mod readdir;
mod remove;
mod rename;
mod rename_turns;
mod reparse;
mod restore;
mod room;
mod server_work;
mod shown_link;
mod snapshots;
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
    Access, AccessToken, Ace, AceKind, Descriptor, NAMED_ACES_MAX, NamedAce, NamedList, NamedWho,
    Sid,
};
pub use cache_holder::{CacheGrant, CacheHolder, CacheKeyWish, CacheWish, delegation_key};
pub use caching::{ACKNOWLEDGED_WITHIN, KEYS_PER_CLIENT_MAX};
pub use context::{
    BreakCounts, ClientProtocol, Patience, PendingAnswer, RequestContext, RequestFiles,
    break_counts,
};
pub use courtesy::CourtesyClients;
pub use delegation::{Delegation, DelegationKind};
pub use descriptor::SecurityParts;
pub use disk::DiskFailure;
pub use frozen_times::{BasicChange, StoppedTimes, TimeSetting};
pub use grants::{
    Absence, AcknowledgeRefusal, CacheBreak, CacheKey, CacheOwner, CacheState, CachingRights,
    ConflictingLock, LockKind, LockOwner, OpenId, OwnerLockOutcome, Range, RangeLock, ShareMode,
};

pub use names::NamePatterns;
pub use object::{
    HandleSeal, ListWish, ListedObject, NewObject, Object, ObjectChanges, ObjectHandle, ObjectList,
    ObjectListSink, ObjectOpen, OpenAt, UnreadableObject, VolumeId, XattrSetMode,
};
pub use offload::{CallHolder, Inline, Workers};
pub use open::{
    IfExists, IfMissing, NewMode, OpenAction, OpenPlan, OpenProgress, OpenResult, RequestedKind,
    Semantics, WaitingOpen,
};
pub use open_file::OpenFile;
pub use open_journal::{FURTHER_PATHS_MAX, OpenJournal};
pub use read::ResidentRange;
pub use readdir::ListedChild;
pub use reparse::{LinkOnPath, Reparse};
pub use restore::{FileIdentity, OpenFacts};
pub use stable::UnstableObjects;
pub use throttle::{ClockReader, ShareQueue};
pub use volume::{Caller, Volume, VolumeOptions, dos};
pub use watch::{
    ChangeAction, Measure, NextChanges, WATCH_BYTES_MAX, WATCHES_MAX, WATCHES_PER_DIRECTORY_MAX,
    WatchAnswer, WatchChange, WatchFilter, WatchWish,
};

/// Opens reserved for each holder while the total lasts: enough for a desktop session.
const OPENS_FLOOR: u64 = 64;

/// Limit of locked and waiting byte ranges over all protocols. A range takes about 30 bytes, or 100
/// with an NFS owner. One holder may have half of them: the ranges of 32 full files.
pub const LOCK_RANGES_MAX: u64 = 1 << 21;

/// Byte ranges reserved for each holder while the total lasts: as many as one request carries.
pub const LOCK_RANGES_FLOOR: u64 = 4096;

/// The file layer: one instance per process, shared by all volumes and protocols.
pub struct Files {
    table: Arc<table::FileTable>,
    workers: Arc<dyn Workers>,
    next_open: AtomicU64,
    seal: Option<Arc<dyn HandleSeal>>,
    /// Directories that were recently reached by handle.
    directory_cache: Arc<object::DirectoryCache>,
    /// Open files, indexed by handle.
    open_handles: Arc<object::OpenHandles>,
    /// Request counters of all protocols.
    meter: Arc<Meter>,
    /// Serialises the existence check and the change of an extended attribute, for create-only and
    /// replace-only requests.
    xattr_locks: Arc<object::XattrLocks>,
    /// Opens of all protocols, charged by holder: each occupies a descriptor.
    opens: Arc<Ledger>,
    /// Watches and the memory of their buffered changes, charged by holder.
    watch_ledgers: watch::WatchLedgers,
    /// Byte ranges of all protocols, charged by holder.
    lock_ranges: Arc<Ledger>,
    /// Failures of disks to store data.
    disk_failures: Arc<disk::DiskFailures>,
    /// Outstanding syncs to stable storage.
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
            directory_cache: Arc::default(),
            open_handles: Arc::default(),
            meter: Arc::default(),
            xattr_locks: Arc::default(),
            opens: Ledger::new(u64::MAX, OPENS_FLOOR),
            watch_ledgers: watch::WatchLedgers::default(),
            lock_ranges: Ledger::new(LOCK_RANGES_MAX, LOCK_RANGES_FLOOR),
            disk_failures: Arc::default(),
            syncs: Arc::default(),
        }
    }

    /// Ledger of opens over all protocols. A protocol charges its client for an open before it
    /// opens.
    #[must_use]
    pub fn opens(&self) -> &Arc<Ledger> {
        &self.opens
    }

    /// Ledger of byte ranges over all protocols. A protocol names the charged holder with each
    /// lock.
    #[must_use]
    pub fn lock_ranges(&self) -> &Arc<Ledger> {
        &self.lock_ranges
    }

    /// Makes the protocols count into `meter`.
    #[must_use]
    pub fn with_meter(self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self }
    }

    /// Request counters, shared by all protocols.
    #[must_use]
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn new_open_id(&self) -> OpenId {
        OpenId(self.next_open.fetch_add(1, Ordering::Relaxed))
    }

    /// Sleeps, for callers that have no clock.
    pub async fn pause(&self, duration: Duration) {
        self.workers.sleep(duration).await;
    }

    /// As [`Files::pause`], as an owned future for use in a `select`.
    #[must_use]
    pub fn pause_for(&self, duration: Duration) -> futures_util::future::BoxFuture<'static, ()> {
        self.workers.sleep(duration)
    }

    /// Recalls caches before shutdown: clients write back dirty data, close files that only their
    /// handle caches hold open, and return delegations. Returns the number of caches that still
    /// hold unwritten data. Call it repeatedly, since clients may gain caches in between.
    #[must_use]
    pub fn recall_caches(&self) -> usize {
        let ask = |state: &Arc<table::OpenFileState>| {
            state.lock(&RequestContext::SERVER).grants.caches.handle_shutdown()
        };
        self.table.cached().iter().map(ask).sum()
    }

    /// Number of files that are open.
    #[must_use]
    pub fn open_file_count(&self) -> usize {
        self.table.len()
    }
}
