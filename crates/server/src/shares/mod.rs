//! Limits and facts of the shares: classes, burst credits, space, failed disks.
//!
//! May import `config`, `state` and `accounts`; of `backend` the seam alone, for its meters.

pub mod credits;
pub mod disks;
pub mod facts;
pub mod limits;
pub mod usage;
