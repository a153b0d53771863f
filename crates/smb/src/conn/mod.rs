//! Connections: frames in, jobs out, frames out. MS-SMB2 3.3.5.1 to 3.3.5.4.
//!
//! Owns negotiation, credits, signatures, and the order of the responses of one frame. May import
//! every room; of `logon` the state of set-ups only. Imported by `logon`; of `commands` by `ioctl/network.rs`, for
//! [`disconnect::VALIDATION_BYTES`].

pub mod chain;
pub mod close;
pub mod connection;
pub mod credits;
pub mod disconnect;
pub mod negotiate;
pub mod response_size;
pub mod signatures;
