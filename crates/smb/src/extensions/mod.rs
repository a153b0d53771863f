//! Extensions of the protocol: Apple's, POSIX, previous versions, quotas.
//!
//! May import `conversion` and `shares`. Handlers import it.

pub mod apple;
pub mod posix;
pub mod previous_versions;
pub mod quota;
