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
    /// Key of this channel; none for guests and anonymous users, who have no secret to derive one from.
    pub signing: Option<SigningKey>,
}
