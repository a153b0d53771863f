//! Wire formats as pure functions of bytes and keys: SMB2/SMB3, the DCE/RPC calls over its pipes,
//! its security protocols, and NFSv4. Every format is implemented in both directions, so that the
//! server, the client and the fuzzers share one codec.
//!
//! Absent on purpose: state, clocks, randomness, sockets, async, `unsafe`.
#![forbid(unsafe_code)]

pub mod codec;
pub mod crypto;
pub mod frame;
pub mod fscc;
pub mod nfs;
pub mod ntlm;
pub mod ntstatus;
pub mod pac;
pub mod rpc;
pub mod smb;
pub mod spnego;
#[cfg(any(test, feature = "testing"))]
pub mod wiretap;
