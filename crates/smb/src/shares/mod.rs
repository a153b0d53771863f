//! Shares as a user sees them: admission, identities, tree connects, and the resources charged to a
//! user. MS-SMB2 3.3.1.6, 3.3.1.9.
//!
//! May import `config`, `host` and `limits` only. Opens and sessions import it.

pub mod admission;
pub mod holdings;
pub mod tree;
pub mod user;
