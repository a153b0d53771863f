//! A session as seen from one connection. MS-SMB2 3.3.1.14.

use crate::session::state::SmbSession;
use std::sync::Arc;
use wire::crypto::SigningKey;

/// One connection's part in one session. Immutable, so that requests take no lock to sign or
/// verify.
#[derive(Debug)]
pub struct SessionChannel {
    /// The session.
    pub session: Arc<SmbSession>,
    /// Channel.SigningKey. An anonymous session's key is no secret, but a client that signs with it
    /// must sign correctly.
    pub signing: Arc<SigningKey>,
}
