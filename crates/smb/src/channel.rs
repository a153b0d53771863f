//! A session as seen from one connection. MS-SMB2 3.3.1.14.

use crate::session::Session;
use std::sync::Arc;
use wire::crypto::SigningKey;

/// One connection's part in one session. Frozen once made, so that requests
/// take no lock to sign or verify.
#[derive(Debug)]
pub struct Channel {
    /// The session.
    pub session: Arc<Session>,
    /// Key of this channel. For a session without a name it is no secret, but
    /// a client that signs with it is held to it.
    pub signing: Arc<SigningKey>,
}
