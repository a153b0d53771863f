//! Configuration of the protocol layer. Immutable; a reload builds a new one, and existing
//! connections stay connected.

use crate::shares::admission::Admission;
use crate::shares::user::SessionUser;
use files::{Caller, Files, Volume};
use std::net::IpAddr;
use std::sync::Arc;
use vfs::Identity;
use wire::rpc::{self, ShareInfo};
use wire::smb::Dialect;

/// The encryption policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncryptionPolicy {
    /// Never offered.
    Off,
    /// Used on demand of a client or a share.
    Offered,
    /// Required; clients without encryption are refused.
    Required,
}

/// Multichannel settings.
#[derive(Clone, Copy, Debug)]
pub struct MultichannelPolicy {
    /// Sessions may have several channels.
    pub enabled: bool,
    /// Channels of one session; at most [`crate::limits::CHANNELS_PER_SESSION_MAX`].
    pub channels_max: usize,
    /// Lowest dialect with multichannel; at least 3.0.
    pub dialect_min: Dialect,
}

impl Default for MultichannelPolicy {
    fn default() -> Self {
        let channels_max = crate::limits::CHANNELS_PER_SESSION;
        Self { enabled: true, channels_max, dialect_min: Dialect::Smb300 }
    }
}

impl MultichannelPolicy {
    /// True if a connection of `dialect` can be one of several channels.
    #[must_use]
    pub fn supports_dialect(&self, dialect: Dialect) -> bool {
        self.enabled && dialect >= self.dialect_min.max(Dialect::Smb300)
    }

    /// Channels that a session may have.
    #[must_use]
    pub fn channels_max(&self) -> usize {
        if self.enabled { self.channels_max } else { 1 }
    }
}

/// Settings of the SMB server.
#[derive(Clone, Debug)]
pub struct SmbConfig {
    /// Identifies this server, also across restarts.
    pub server_guid: [u8; 16],
    /// NetBIOS-style name, at most 15 characters; sent in NTLM challenges.
    pub name: String,
    /// Workgroup or domain, sent in NTLM challenges.
    pub domain: String,
    /// Refuse messages that are neither signed nor encrypted.
    pub signing_required: bool,
    /// The encryption policy of all sessions.
    pub encryption: EncryptionPolicy,
    /// Clients may log on by NTLM, which guest and anonymous logons need as well.
    pub ntlm: bool,
    /// Lowest dialect served.
    pub dialect_min: Dialect,
    /// Highest dialect served.
    pub dialect_max: Dialect,
    /// Largest READ and WRITE payload; at most [`crate::limits::IO_BYTES_MAX`].
    pub io_bytes_max: u32,
    /// Multichannel settings.
    pub multichannel: MultichannelPolicy,
    /// The shares, without the implicit IPC$.
    pub shares: Vec<Arc<SmbShare>>,
}

impl SmbConfig {
    /// True if guest and anonymous sessions may begin. Such sessions have no key that only their
    /// client knows, so they can neither sign nor encrypt. MS-SMB2 3.3.5.5.3.
    #[must_use]
    pub fn accepts_unproven(&self) -> bool {
        self.ntlm && !self.signing_required && self.encryption != EncryptionPolicy::Required
    }
}

/// The users to whom share enumeration shows a share. Hidden shares can still be connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareVisibility {
    /// All users.
    #[default]
    Everyone,
    /// Users that may connect.
    Users,
    /// No user.
    Nobody,
}

/// One share.
#[derive(Clone, Debug, Default)]
pub struct SmbShare {
    /// The name that clients use, compared without case.
    pub name: String,
    /// Shown beside the name.
    pub comment: String,
    /// The volume; none for IPC$.
    pub volume: Option<Arc<Volume>>,
    /// Refuse tree connects without encryption.
    pub encryption_required: bool,
    /// The users that may connect, and their access.
    pub admission: Admission,
    /// Listings leave out what the caller may not read.
    pub access_based_enumeration: bool,
    /// The POSIX extensions of SMB 3.1.1 may be used on it.
    pub posix: bool,
    /// Apple clients may use it for Time Machine.
    pub time_machine: bool,
    /// Size limit of all backups together, in bytes.
    pub time_machine_max_bytes: Option<u64>,
    /// The users to whom share enumeration shows it.
    pub listed: ShareVisibility,
    /// The identity of all file access; each user's own if none.
    pub forced_user: Option<Arc<Caller>>,
    /// The primary group of all its users, which also owns new files.
    pub forced_group: Option<u32>,
    /// Its opens may outlive the server process.
    pub continuously_available: bool,
    /// Each response waits for stable storage: see [`SmbShare::is_stable`].
    pub always_stable: bool,
}

impl SmbShare {
    /// True if every acknowledged change survives a power loss.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.always_stable || self.continuously_available
    }

    /// True if the share is continuously available and its disk has lost acknowledged data. Clients
    /// would continue with lost data, so the share serves nothing until a restart after a file
    /// system check.
    #[must_use]
    pub fn has_stopped(&self, files: &Files) -> bool {
        let failure = self.volume.as_ref().filter(|_| self.continuously_available);
        failure.and_then(|volume| files.disk_failure(volume)).is_some_and(|disk| disk.has_lost)
    }

    /// The IPC$ share.
    #[must_use]
    pub fn ipc() -> Self {
        Self {
            name: "IPC$".into(),
            comment: "Remote IPC".into(),
            // Anonymous clients may enumerate the shares.
            admission: Admission { guests: true, ..Admission::default() },
            ..Self::default()
        }
    }

    /// True for the IPC$ share.
    #[must_use]
    pub fn is_ipc(&self) -> bool {
        self.volume.is_none()
    }

    /// True if its class permits multichannel.
    #[must_use]
    pub fn has_multichannel(&self) -> bool {
        let limits = self.volume.as_ref().and_then(|volume| volume.options.limits.as_ref());
        limits.is_none_or(|limits| limits.has_multichannel())
    }

    /// The share enumeration entry for a user; none if the share is hidden from them.
    #[must_use]
    pub fn fact_for(&self, user: &SessionUser, peer: IpAddr) -> Option<ShareInfo> {
        let admission = &self.admission;
        let is_of_these = admission.admits_host(peer) == Some(true);
        let is_admitted = is_of_these && admission.admits(&user.account, user.is_proven());
        if self.listed == ShareVisibility::Users && !is_admitted {
            return None;
        }
        let flag = |set, flag| if set { flag } else { 0 };
        Some(ShareInfo {
            name: self.name.clone(),
            // A disk, or the special share of pipes. MS-SRVS 2.2.2.4.
            kind: if self.is_ipc() { 0x8000_0003 } else { 0 },
            remark: self.comment.clone(),
            flags: flag(self.access_based_enumeration, rpc::SHARE_ACCESS_BASED_ENUMERATION)
                | flag(self.encryption_required, rpc::SHARE_ENCRYPT_DATA),
            is_listed: self.listed != ShareVisibility::Nobody,
        })
    }

    /// The identity for `caller`'s file access here, if the share forces one.
    #[must_use]
    pub fn forced(&self, caller: &Caller) -> Option<Arc<Caller>> {
        let base = self.forced_user.as_deref();
        let Some(gid) = self.forced_group else { return self.forced_user.clone() };
        let mut identity = base.unwrap_or(caller).identity.clone();
        let own = std::mem::replace(&mut identity.gid, gid);
        // A forced group removes none of the user's own groups.
        if own != gid && !identity.groups.contains(&own) {
            identity.groups.push(own);
        }
        identity.groups.retain(|g| *g != gid);
        identity.groups.sort_unstable();
        identity.groups.truncate(Identity::GROUPS_MAX);
        Some(Arc::new(Caller::of(identity)))
    }
}

impl SmbConfig {
    /// The share `name`, compared without case.
    #[must_use]
    pub fn share(&self, name: &str) -> Option<&Arc<SmbShare>> {
        let name = name.to_lowercase();
        self.shares.iter().find(|share| share.name.to_lowercase() == name)
    }
}
