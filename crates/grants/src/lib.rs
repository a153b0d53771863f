//! Conflicts between concurrent users of one file: opens with share modes, delete pending, oplocks,
//! leases, delegations and byte-range locks. One pure state machine per file serves every protocol;
//! delegations are treated as leases.
//!
//! It has no clock, lock or I/O. Inputs are `handle_*`; effects for the caller are returned.
#![forbid(unsafe_code)]

mod caching;
mod compact_list;
mod file;
mod ids;
mod ranges;

pub use acl::Access;
pub use caching::{
    AcknowledgeRefusal, BreakNumber, CacheBreak, CacheKey, CacheOwner, CacheState, Caches,
    CachingRights,
};
pub use compact_list::insert_exact;
pub use file::{
    Absence, BlockedOperation, CloseOutcome, FileGrants, GrantRefusal, OpenWish, ShareMode,
};
pub use ids::{LinkId, OpenId};
pub use ranges::{
    ConflictingLock, LockDecision, LockKind, LockOwner, LockProgress, LockRefusal,
    OwnerLockOutcome, Range, RangeLock, RangeLocks, WaitId,
};
