//! NTLM version 2, the accepting side. MS-NLMP.
//!
//! Version 1 proofs are never accepted: they can be turned into the password.

mod acceptor;
mod crypto;
mod message;

pub use acceptor::{Acceptor, Authenticated, LogonKind, Refused, TargetFacts};
pub use crypto::{MessageSigner, NtHash};
pub use message::is_ntlm;
