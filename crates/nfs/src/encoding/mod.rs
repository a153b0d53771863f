//! Attributes of files as XDR: the supported set, their encoding, access lists.
//!
//! Imports `limits` alone. `ops` may import it.

pub mod access_list;
pub mod attributes;
