//! Messages of SMB2/SMB3, of RPC over its pipes, of the security protocols
//! inside it, and of NFSv4, as pure functions of bytes and keys; both directions, so that a
//! server, a client and a fuzzer use the same code.
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
