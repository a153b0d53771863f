//! What the protocol layer is configured with. Immutable once built; a reload
//! builds a new one, and what is connected stays connected.

use crate::admission::Admission;
use crate::session::SessionUser;
use files::{Caller, Files, Volume};
use std::net::IpAddr;
use std::sync::Arc;
use vfs::Identity;
use wire::rpc::{self, ShareFact};
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
    /// Whether clients may log on by NTLM, which is also how they log on without a proof.
    pub ntlm: bool,
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

impl Config {
    /// Whether sessions without a proof may begin: they have no key that only their client
    /// knows, so they can neither sign nor seal. MS-SMB2 3.3.5.5.3.
    #[must_use]
    pub fn takes_unproven(&self) -> bool {
        self.ntlm && !self.signing_required && self.encryption != Encryption::Required
    }
}

/// Whom lists of shares show one to. Who is not shown it may connect all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listed {
    /// To all who ask.
    #[default]
    Everyone,
    /// To those who may connect.
    Users,
    /// To none.
    Nobody,
}

/// One share.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// The name that clients use, compared without case.
    pub name: String,
    /// Shown beside the name.
    pub comment: String,
    /// What is served; none for IPC$.
    pub volume: Option<Arc<Volume>>,
    /// Refuse tree connects that are not sealed.
    pub encryption_required: bool,
    /// Who may connect, and for what.
    pub admission: Admission,
    /// Listings leave out what the caller may not read.
    pub access_based_enumeration: bool,
    /// The POSIX extensions of SMB 3.1.1 may be used on it.
    pub posix: bool,
    /// Clients of Apple may keep backups on it.
    pub time_machine: bool,
    /// Bytes that all backups together may take.
    pub time_machine_max_bytes: Option<u64>,
    /// Whom lists of shares show it to.
    pub listed: Listed,
    /// As whom all users touch its files; as themselves if none.
    pub forced_user: Option<Arc<Caller>>,
    /// The group that its users are in first, and make files with.
    pub forced_group: Option<u32>,
    /// What is open on it may outlive the server.
    pub continuously_available: bool,
    /// Each reply is stable: see [`Share::is_stable`].
    pub always_stable: bool,
}

impl Share {
    /// Whether what was answered survives a loss of power on every open.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.always_stable || self.continuously_available
    }

    /// Whether the share is continuously available and its disk has lost what it had taken: its
    /// clients would go on with what is not there any more. Until the server is started again,
    /// with a file system that was looked after.
    #[must_use]
    pub fn has_stopped(&self, files: &Files) -> bool {
        let failure = self.volume.as_ref().filter(|_| self.continuously_available);
        failure.and_then(|volume| files.disk_failure(volume)).is_some_and(|disk| disk.has_lost)
    }

    /// The share of named pipes.
    #[must_use]
    pub fn ipc() -> Self {
        Self {
            name: "IPC$".into(),
            comment: "Remote IPC".into(),
            // Who has no name may look what there is.
            admission: Admission { guests: true, ..Admission::default() },
            ..Self::default()
        }
    }

    /// Whether this is the share of named pipes.
    #[must_use]
    pub fn is_ipc(&self) -> bool {
        self.volume.is_none()
    }

    /// Whether its class lets clients have several connections.
    #[must_use]
    pub fn has_multichannel(&self) -> bool {
        let limits = self.volume.as_ref().and_then(|volume| volume.options.limits.as_ref());
        limits.is_none_or(|limits| limits.has_multichannel())
    }

    /// What lists of shares tell of it to a user; none if they must not know.
    #[must_use]
    pub fn fact_for(&self, user: &SessionUser, peer: IpAddr) -> Option<ShareFact> {
        let admission = &self.admission;
        let is_of_these = admission.admits_host(peer) == Some(true);
        let is_admitted = is_of_these && admission.admits(&user.account, user.is_proven());
        if self.listed == Listed::Users && !is_admitted {
            return None;
        }
        let flag = |set, flag| if set { flag } else { 0 };
        Some(ShareFact {
            name: self.name.clone(),
            // A disk, or the special share of pipes. MS-SRVS 2.2.2.4.
            kind: if self.is_ipc() { 0x8000_0003 } else { 0 },
            remark: self.comment.clone(),
            flags: flag(self.access_based_enumeration, rpc::SHARE_ACCESS_BASED_ENUMERATION)
                | flag(self.encryption_required, rpc::SHARE_ENCRYPT_DATA),
            is_listed: self.listed != Listed::Nobody,
        })
    }

    /// On whose behalf `caller` touches files here, if not on their own.
    #[must_use]
    pub fn forced(&self, caller: &Caller) -> Option<Arc<Caller>> {
        let base = self.forced_user.as_deref();
        let Some(gid) = self.forced_group else { return self.forced_user.clone() };
        let mut identity = base.unwrap_or(caller).identity.clone();
        let own = std::mem::replace(&mut identity.gid, gid);
        // Forcing a group takes none of the user's own away.
        if own != gid && !identity.groups.contains(&own) {
            identity.groups.push(own);
        }
        identity.groups.retain(|g| *g != gid);
        identity.groups.sort_unstable();
        identity.groups.truncate(Identity::GROUPS_MAX);
        Some(Arc::new(Caller::of(identity)))
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
