//! Attributes of files as XDR: the supported set, their encoding, access lists, owners.
//!
//! Imports `limits` alone. Only `ops` imports it.

pub mod access_list;
pub mod attributes;
pub mod owner;
