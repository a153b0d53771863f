//! Extensions of the protocol: Apple's, POSIX, previous versions, quotas.
//!
//! May import `conversion`, `shares`, `opens` and `request`. Handlers import it.

pub mod apple;
pub mod posix;
pub mod previous_versions;
pub mod quota;
