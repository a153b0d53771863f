//! Conflicts between concurrent users of one file: opens with share modes, delete pending, oplocks,
//! leases, delegations and byte-range locks. One pure state machine per file serves every protocol;
//! delegations are treated as leases.
//!
//! It has no clock, lock or I/O. Inputs are `handle_*`; effects for the caller are returned.
#![forbid(unsafe_code)]

mod caching;
mod file;
mod ranges;
mod snug;

pub use acl::Access;
pub use caching::{
    AcknowledgeRefusal, BreakNumber, CacheBreak, CacheKey, CacheOwner, CacheState, Caches, Caching,
};
pub use file::{Absence, Awaited, Closed, FileGrants, LinkId, OpenId, OpenWish, Refusal, Share};
pub use ranges::{
    Decided, LockHeld, LockKind, LockOwner, LockRefusal, Locking, OwnerLocking, Range, RangeLock,
    RangeLocks, WaitId,
};
pub use snug::insert_snugly;
