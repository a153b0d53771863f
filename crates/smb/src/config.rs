//! What the protocol layer is configured with. Immutable once built; a reload
//! builds a new one, and what is connected stays connected.

use files::Volume;
use std::sync::Arc;
use wire::smb::Dialect;

/// Whether messages are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Never, and not offered.
    Off,
    /// When the client or a share asks for it.
    Offered,
    /// Always; clients that cannot are refused.
    Required,
}

/// Several connections for one session.
#[derive(Clone, Copy, Debug)]
pub struct Multichannel {
    /// Sessions may have them.
    pub enabled: bool,
    /// Connections of one session; at most [`crate::limits::CHANNELS_PER_SESSION_MAX`].
    pub channels_max: usize,
    /// Lowest dialect with them; at least 3.0.
    pub dialect_min: Dialect,
}

impl Default for Multichannel {
    fn default() -> Self {
        let channels_max = crate::limits::CHANNELS_PER_SESSION;
        Self { enabled: true, channels_max, dialect_min: Dialect::Smb300 }
    }
}

impl Multichannel {
    /// Whether a connection of `dialect` can be one of several.
    #[must_use]
    pub fn is_for(&self, dialect: Dialect) -> bool {
        self.enabled && dialect >= self.dialect_min.max(Dialect::Smb300)
    }

    /// Connections that a session may have.
    #[must_use]
    pub fn channels_max(&self) -> usize {
        if self.enabled { self.channels_max } else { 1 }
    }
}

/// Settings of the SMB server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Identifies this server for as long as it runs, and across restarts.
    pub server_guid: [u8; 16],
    /// NetBIOS-style name, at most 15 characters; told in NTLM challenges.
    pub name: String,
    /// The workgroup or domain told in NTLM challenges.
    pub domain: String,
    /// Refuse messages that are neither signed nor sealed.
    pub signing_required: bool,
    /// Sealing for all sessions.
    pub encryption: Encryption,
    /// Lowest dialect spoken.
    pub dialect_min: Dialect,
    /// Highest dialect spoken.
    pub dialect_max: Dialect,
    /// Largest READ and WRITE payload; at most [`crate::limits::IO_BYTES_MAX`].
    pub io_bytes_max: u32,
    /// Several connections for one session.
    pub multichannel: Multichannel,
    /// The shares, without IPC$, which is always there.
    pub shares: Vec<Arc<Share>>,
}

/// One share.
#[derive(Clone, Debug)]
pub struct Share {
    /// The name that clients use, compared without case.
    pub name: String,
    /// Shown beside the name.
    pub comment: String,
    /// What is served; none for IPC$.
    pub volume: Option<Arc<Volume>>,
    /// Refuse tree connects that are not sealed.
    pub encryption_required: bool,
    /// Who may connect; everyone with an account if none.
    pub users: Option<Vec<String>>,
    /// Leave out of listings what the caller may not read.
    pub access_based_enumeration: bool,
    /// The POSIX extensions of SMB 3.1.1 may be used on it.
    pub posix: bool,
    /// Clients of Apple may keep backups on it.
    pub time_machine: bool,
}

impl Share {
    /// The share of named pipes.
    #[must_use]
    pub fn ipc() -> Self {
        Self {
            name: "IPC$".into(),
            comment: "Remote IPC".into(),
            volume: None,
            encryption_required: false,
            users: None,
            access_based_enumeration: false,
            posix: false,
            time_machine: false,
        }
    }

    /// Whether this is the share of named pipes.
    #[must_use]
    pub fn is_ipc(&self) -> bool {
        self.volume.is_none()
    }

    /// Whether `user` may connect.
    #[must_use]
    pub fn admits(&self, user: &str) -> bool {
        self.users.as_ref().is_none_or(|users| users.iter().any(|u| u.eq_ignore_ascii_case(user)))
    }
}

impl Config {
    /// The share called `name`, without regard to case.
    #[must_use]
    pub fn share(&self, name: &str) -> Option<&Arc<Share>> {
        let name = name.to_lowercase();
        self.shares.iter().find(|share| share.name.to_lowercase() == name)
    }
}
