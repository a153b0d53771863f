//! NTLM version 2, both sides. MS-NLMP.
//!
//! Version 1 proofs are never accepted and never sent: they can be turned into
//! the password.

mod acceptor;
mod crypto;
mod initiator;
mod message;

pub use acceptor::{Acceptor, Authenticated, LogonKind, Refused, TargetFacts, Unproven};
pub use crypto::{MessageSigner, NtHash};
pub use initiator::{Credentials, Initiated, Initiator, Secrets};
pub use message::is_ntlm;
