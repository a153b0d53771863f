//! Who may do what to a file at the same time: opens with share modes, delete
//! pending, oplocks, leases, byte-range locks. One pure state machine per file, for
//! every protocol; delegations are leases here.
//!
//! Owns no clock, no lock and no I/O. Inputs are `handle_*`; what must then be
//! done elsewhere is returned.
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
