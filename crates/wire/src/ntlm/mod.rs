//! NTLM version 2, acceptor and initiator. MS-NLMP.
//!
//! Version 1 responses are never accepted and never sent, because an attacker can recover the
//! password from them.

mod acceptor;
mod crypto;
mod initiator;
mod message;

pub use acceptor::{GuestPolicy, LogonKind, LogonRefusal, NtlmAcceptor, NtlmLogon, TargetFacts};
pub use crypto::{MessageSigner, NtHash};
pub use initiator::{NtlmCredentials, NtlmInitiator, NtlmResponse, Secrets};
pub use message::{NtlmVersion, is_ntlm};
