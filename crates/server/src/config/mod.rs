//! The configuration: from the TOML file to checked values.
//!
//! One step converts the file as typed (`raw`) to its meaning ([`ServerConfig`]) and finds every
//! mistake, with its line and remedy.

mod admin_address;
mod certificates;
mod default_addresses;
mod discovery;
mod export_line;
mod host_rule;
mod key_files;
mod limits;
mod logging;
mod meaning;
mod multichannel;
mod nfs_clients;
mod raw;
pub mod reference;
mod share_warnings;
mod suggest;
mod surroundings;
mod tolerant;
mod values;

pub(crate) use self::limits::change_provision;
use crate::accounts::names::WantedNames;
use crate::backend::{self, ShareSource};
pub use crate::backend::{SnapshotTool, SnapshotsConfig};
use crate::conn::connections::ConnectionTimeouts;
use crate::discovery::DiscoverySettings;
use crate::limits::{CONNECTIONS_MAX, HOSTS_MAX, MEMORY_BYTES_MAX, NETGROUPS_MAX};
use ::limits::Provision;
pub use admin_address::AdminAddress;
pub use default_addresses::{DefaultAddresses, default_addresses, has_ipv6};
pub use export_line::ExportLine;
pub use host_rule::{HostRule, NamePattern};
pub use key_files::{KerberosKeys, TlsFiles};
pub use logging::{AuditTarget, LogFormat, LogSettings, TraceTarget};
pub use multichannel::MultichannelConfig;
pub use nfs_clients::{NOBODY, NfsClients};
use serde::Deserialize;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
pub use surroundings::{KeyLines, MachineFindings, missing_system_user};

pub use raw::host_name;

/// Maximum length of a share name in characters. MS-SMB2 2.2.9, MS-SRVS 2.2.4.23.
const SHARE_NAME_CHARS_MAX: usize = 80;
/// Maximum length of a NetBIOS computer name in characters.
pub(crate) const NAME_CHARS_MAX: usize = 15;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line of the file from 1; `None` for the command line and for missing keys.
    pub line: Option<usize>,
    /// A sentence with the remedy.
    pub text: String,
}

/// All mistakes of a configuration, as texts for an administrator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigError {
    /// The configuration file, if there is one.
    pub path: Option<PathBuf>,
    /// The mistakes, at least one.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    fn of(text: impl Into<String>) -> Self {
        Self { path: None, problems: vec![Problem { line: None, text: text.into() }] }
    }
}

/// One line per problem in the form of compilers: `file:line: text`.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match (&self.path, problem.line) {
                (Some(path), Some(line)) => write!(f, "{}:{line}: ", path.display())?,
                (Some(path), None) => write!(f, "{}: ", path.display())?,
                (None, Some(line)) => write!(f, "line {line}: ")?,
                (None, None) => {}
            }
            f.write_str(&problem.text)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Whether SMB messages must be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum SigningSetting {
    /// Every message is signed or encrypted.
    #[default]
    Required,
    /// The client decides.
    Offered,
}

/// Whether clients may log on by NTLM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Ntlm {
    /// NTLM is permitted, and so are guests if configured.
    #[default]
    On,
    /// Only Kerberos is permitted.
    Off,
}

/// Whether the process drops privileges before it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Confinement {
    /// Capabilities, system calls and ports are restricted.
    #[default]
    On,
    /// The process keeps its privileges.
    Off,
}

/// Whether SMB encryption is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum EncryptionSetting {
    /// Never.
    Off,
    /// The client decides.
    #[default]
    Offered,
    /// Every message is encrypted.
    Required,
}

/// Mapping of NFS users to the anonymous account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum NfsSquash {
    /// All users are mapped.
    All,
    /// No user is mapped.
    None,
    /// The superuser is mapped.
    #[default]
    Root,
}

/// Changes that must be on stable storage before an NFS reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum NfsStable {
    /// Names, attributes and data, as NFS requires.
    #[default]
    Always,
    /// Only data that the client requests to be stable.
    Relaxed,
}

/// Changes that must be on stable storage before an SMB reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum SmbStable {
    /// Flushes and write-through data only, as with Windows and Samba.
    #[default]
    #[serde(alias = "asked")]
    Requested,
    /// All changes.
    Always,
}

/// Whether NFS clients must use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum NfsTls {
    /// The client decides.
    #[default]
    Offered,
    /// The share is reachable under TLS only.
    Required,
}

fn tls_of(value: &str) -> Result<NfsTls, ConfigError> {
    match value {
        "offered" => Ok(NfsTls::Offered),
        "required" => Ok(NfsTls::Required),
        _ => Err(ConfigError::of(format!("nfs_tls is offered or required, not {value:?}"))),
    }
}

fn squash_of(value: &str) -> Result<NfsSquash, ConfigError> {
    match value {
        "all" => Ok(NfsSquash::All),
        "none" => Ok(NfsSquash::None),
        "root" => Ok(NfsSquash::Root),
        _ => Err(ConfigError::of(format!("nfs_squash is root, all or none, not {value:?}"))),
    }
}

fn smb_stable_of(value: &str) -> Result<SmbStable, ConfigError> {
    match value {
        "requested" | "asked" => Ok(SmbStable::Requested),
        "always" => Ok(SmbStable::Always),
        _ => Err(ConfigError::of(format!("smb_stable is requested or always, not {value:?}"))),
    }
}

fn stable_of(value: &str) -> Result<NfsStable, ConfigError> {
    match value {
        "always" => Ok(NfsStable::Always),
        "relaxed" => Ok(NfsStable::Relaxed),
        _ => Err(ConfigError::of(format!("nfs_stable is always or relaxed, not {value:?}"))),
    }
}

/// One share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareConfig {
    /// Name that clients use.
    pub name: String,
    /// Directory.
    pub path: PathBuf,
    /// Line of the path in the file.
    pub line: Option<usize>,
    /// Description in share lists.
    pub comment: String,
    /// Refuses all changes.
    pub read_only: bool,
    /// Requires encrypted connections.
    pub encryption_required: bool,
    /// Users that may connect; `None` permits every account.
    pub users: Option<Vec<String>>,
    /// Omits entries that the user may not read from directory listings.
    pub hide_unreadable: bool,
    /// Clients may store symbolic links to targets outside of the share.
    pub absolute_links: bool,
    /// NFS clients with uid 0 may create device nodes.
    pub device_nodes: bool,
    /// Names are case-sensitive.
    pub case_sensitive: bool,
    /// Offers the POSIX extensions of SMB 3.1.1.
    pub posix: bool,
    /// Offers the share to Time Machine.
    pub time_machine: bool,
    /// Maximum size of all backups together in bytes.
    pub time_machine_max_bytes: Option<u64>,
    /// Persistent handles: opens survive a restart of the server.
    pub continuously_available: bool,
    /// Clients see symbolic links and resolve them themselves.
    pub show_symlinks: bool,
    /// Files may have named streams.
    pub named_streams: bool,
    /// Location of snapshots (previous versions), if any.
    pub snapshots: Option<SnapshotsConfig>,
    /// Mode of new files.
    pub file_mode: u32,
    /// Mode of new directories.
    pub directory_mode: u32,
    /// Users that may not connect. As in the other lists, `@NAME` is a system group.
    pub denied_users: Vec<String>,
    /// Users with read-only access.
    pub read_users: Vec<String>,
    /// Users with write access despite `read_only` or `read_users`.
    pub write_users: Vec<String>,
    /// Clients that may connect; all if empty.
    pub hosts_allowed: Vec<HostRule>,
    /// Networks that may not connect.
    pub hosts_denied: Vec<smb::Network>,
    /// Name patterns with the hidden attribute.
    pub hidden_names: Vec<String>,
    /// Name patterns that are not served.
    pub veto_names: Vec<String>,
    /// Guests may connect.
    pub guest_ok: bool,
    /// Clients whose share lists contain the share.
    pub listed: smb::ShareVisibility,
    /// System user for all file access.
    pub force_user: Option<String>,
    /// System group of all new files.
    pub force_group: Option<String>,
    /// Budget of the metadata cache in bytes; zero disables it.
    pub metadata_cache_bytes: u64,
    /// Artificial latency of each backend call in microseconds, for measurements.
    pub backend_latency_us: u64,
    /// Upper bound of the size that clients see, in bytes.
    pub size_limit_bytes: Option<u64>,
    /// Class, size and limits as configured; see [`ShareConfig::provision`].
    pub provision: Provision,
    /// Whether the share is exported by NFS. By default it is, unless a setting requires
    /// authenticated users.
    pub nfs: Option<bool>,
    /// Mapping of NFS users to the anonymous account.
    pub nfs_squash: NfsSquash,
    /// Uid of anonymous NFS users.
    pub nfs_anonuid: u32,
    /// Gid of anonymous NFS users.
    pub nfs_anongid: u32,
    /// Terms by NFS client; the first match counts. If empty, the share's terms apply to all.
    pub nfs_clients: Vec<NfsClients>,
    /// Changes that must be on stable storage before an SMB reply.
    pub smb_stable: SmbStable,
    /// Changes that must be on stable storage before an NFS reply.
    pub nfs_stable: NfsStable,
    /// Whether NFS clients must use TLS.
    pub nfs_tls: NfsTls,
    /// Whether NFS clients must use a reserved source port; `None` inherits the server's setting.
    pub reserved_ports: Option<bool>,
}

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Computer name.
    pub name: String,
    /// Workgroup.
    pub workgroup: String,
    /// Listening addresses of SMB.
    pub smb: Vec<SocketAddr>,
    /// Listening addresses of NFS; empty disables it.
    pub nfs: Vec<SocketAddr>,
    /// NFS lease time.
    pub nfs_lease: Duration,
    /// Whether NFS clients can also mount shares by the paths of their directories.
    pub nfs_paths: bool,
    /// Certificate files for NFS under TLS, if offered.
    pub nfs_tls: Option<TlsFiles>,
    /// Default for shares: whether NFS clients must use a reserved source port.
    pub reserved_ports: bool,
    /// Listening address of the admin API, if enabled.
    pub admin: Option<AdminAddress>,
    /// See [`SigningSetting`].
    pub signing: SigningSetting,
    /// See [`EncryptionSetting`].
    pub encryption: EncryptionSetting,
    /// See [`Ntlm`].
    pub ntlm: Ntlm,
    /// The user file.
    pub users: PathBuf,
    /// The state directory; `None` means that of the user file.
    pub state: Option<PathBuf>,
    /// Minimum SMB dialect.
    pub dialect_min: smb::Dialect,
    /// Maximum SMB dialect.
    pub dialect_max: smb::Dialect,
    /// Keys for verifying Kerberos tickets; `None` disables Kerberos.
    pub kerberos: Option<KerberosKeys>,
    /// System account for anonymous and guest sessions.
    pub guest: Option<String>,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Memory for requests in flight and their replies.
    pub request_memory_bytes: u64,
    /// Timeouts of connections.
    pub patience: ConnectionTimeouts,
    /// Threads for blocking calls.
    pub workers: usize,
    /// Settings of SMB Multichannel.
    pub multichannel: MultichannelConfig,
    /// Announcements to clients of the link.
    pub discovery: DiscoverySettings,
    /// Whether the process drops privileges.
    pub confinement: Confinement,
    /// Settings of the log.
    pub log: LogSettings,
    /// Lines of keys in the file.
    pub lines: KeyLines,
    /// The shares.
    pub shares: Vec<ShareConfig>,
}

impl ServerConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`] with all mistakes.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path);
        let config = text
            .map_err(|e| ConfigError::of(format!("cannot be read: {e}")))
            .and_then(|t| Self::parse(&t));
        config.map_err(|e| ConfigError { path: Some(path.to_path_buf()), ..e })
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`ConfigError`] with all mistakes.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        raw::parse(text)
    }

    /// The configuration of an empty file: no shares, defaults otherwise.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            name: raw::host_name(),
            workgroup: "WORKGROUP".into(),
            smb: Vec::new(),
            nfs: Vec::new(),
            nfs_lease: nfs::limits::LEASE,
            nfs_paths: true,
            nfs_tls: None,
            reserved_ports: true,
            admin: None,
            signing: SigningSetting::default(),
            ntlm: Ntlm::default(),
            encryption: EncryptionSetting::default(),
            users: default_users_file(),
            state: None,
            dialect_min: smb::Dialect::Smb202,
            dialect_max: smb::Dialect::Smb311,
            kerberos: None,
            guest: None,
            connections_max: CONNECTIONS_MAX,
            request_memory_bytes: MEMORY_BYTES_MAX,
            patience: ConnectionTimeouts::default(),
            workers: crate::limits::WORKERS,
            multichannel: MultichannelConfig::default(),
            discovery: DiscoverySettings::default(),
            confinement: Confinement::default(),
            log: LogSettings::default(),
            lines: KeyLines::default(),
            shares: Vec::new(),
        }
    }

    /// Adds a share.
    ///
    /// # Errors
    /// [`ConfigError`] if the name is invalid or taken.
    pub fn add_share(&mut self, name: &str, path: &Path) -> Result<&mut ShareConfig, ConfigError> {
        check_share_name(name).map_err(ConfigError::of)?;
        if self.shares.iter().any(|s| same_name(&s.name, name)) {
            return Err(ConfigError::of(format!(
                "there are two shares named {name:?}; rename one"
            )));
        }
        self.shares.push(ShareConfig::new(name, path));
        self.shares.last_mut().ok_or_else(|| ConfigError::of("no share"))
    }

    /// Remarks on valid but unusual settings.
    #[must_use]
    pub fn warnings(&self) -> Vec<Problem> {
        let MultichannelConfig { enabled, channels_max, channels_max_line: line, .. } =
            self.multichannel;
        let usual = smb::limits::CHANNELS_PER_SESSION;
        let text = format!(
            "channels_max = {channels_max}: more than {usual} connections of one client rarely \
             improve throughput, and each takes memory and a descriptor"
        );
        let many = enabled && channels_max > usual;
        let many = many.then_some(Problem { line, text });
        let many = many.into_iter().chain(self.guest_warnings());
        many.chain(self.certificate_warnings()).chain(self.directory_warnings()).collect()
    }

    /// All host rules of all shares, unordered.
    pub fn host_rules(&self) -> impl Iterator<Item = &HostRule> {
        self.shares.iter().flat_map(|share| {
            let of_nfs = share.nfs_clients.iter().map(|clients| &clients.hosts);
            share.hosts_allowed.iter().chain(of_nfs)
        })
    }

    fn too_many_names(&self) -> Option<String> {
        let WantedNames { hosts, netgroups } = WantedNames::of(self).0;
        let (hosts, netgroups) = (hosts.len(), netgroups.len());
        let is_many = hosts > HOSTS_MAX || netgroups > NETGROUPS_MAX;
        is_many.then(|| {
            format!(
                "{hosts} hosts by name and {netgroups} netgroups in nfs_clients and hosts_allowed, and \
                 there may be {HOSTS_MAX} and {NETGROUPS_MAX}; name networks or wildcards instead"
            )
        })
    }

    /// Whether NFS clients of `share` must connect from a port below 1024.
    #[must_use]
    pub fn requires_reserved_port(&self, share: &ShareConfig) -> bool {
        share.reserved_ports.unwrap_or(self.reserved_ports)
    }

    /// The state directory.
    #[must_use]
    pub fn state_folder(&self) -> &Path {
        let beside = || self.users.parent().filter(|p| !p.as_os_str().is_empty());
        self.state.as_deref().or_else(beside).unwrap_or(Path::new("."))
    }

    /// Problems outside of the file: missing directories, users and groups, unusable certificates.
    #[must_use]
    pub fn problems_outside(&self) -> Vec<Problem> {
        let of = |share: &ShareConfig| {
            share.problem_outside().into_iter().chain(share.unknown_names()).collect::<Vec<_>>()
        };
        let tls = self.nfs_tls.as_ref().and_then(|files| {
            let text = crate::conn::tls::load(files).err()?;
            Some(Problem { line: files.line, text })
        });
        let kerberos = self.kerberos.as_ref().and_then(|keys| {
            let text = crate::accounts::kerberos::Judge::load(keys).err()?;
            Some(Problem { line: keys.line, text })
        });
        tls.into_iter().chain(kerberos).chain(self.shares.iter().flat_map(of)).collect()
    }
}

/// Parses a list of clients on the command line, separated by plus signs.
fn hosts_of(key: &str, value: &str) -> Result<Vec<HostRule>, ConfigError> {
    values::parse_hosts(key, value.split('+')).map_err(ConfigError::of)
}

/// Parses a list of networks on the command line, separated by plus signs.
fn networks_of(key: &str, value: &str) -> Result<Vec<smb::Network>, ConfigError> {
    values::parse_networks(key, value.split('+')).map_err(ConfigError::of)
}

impl ShareConfig {
    fn new(name: &str, path: &Path) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            line: None,
            comment: String::new(),
            read_only: false,
            encryption_required: false,
            users: None,
            hide_unreadable: false,
            absolute_links: false,
            device_nodes: false,
            case_sensitive: false,
            posix: true,
            time_machine: false,
            time_machine_max_bytes: None,
            continuously_available: false,
            show_symlinks: false,
            named_streams: true,
            snapshots: None,
            file_mode: 0o644,
            directory_mode: 0o755,
            denied_users: Vec::new(),
            read_users: Vec::new(),
            write_users: Vec::new(),
            hosts_allowed: Vec::new(),
            hosts_denied: Vec::new(),
            hidden_names: vec![".*".into()],
            veto_names: Vec::new(),
            guest_ok: false,
            listed: smb::ShareVisibility::Everyone,
            force_user: None,
            force_group: None,
            metadata_cache_bytes: crate::metadata_cache::BUDGET_BYTES,
            backend_latency_us: 0,
            size_limit_bytes: None,
            provision: Provision::default(),
            nfs: None,
            nfs_squash: NfsSquash::default(),
            nfs_anonuid: NOBODY,
            nfs_anongid: NOBODY,
            nfs_clients: Vec::new(),
            smb_stable: SmbStable::default(),
            nfs_stable: NfsStable::default(),
            nfs_tls: NfsTls::default(),
            reserved_ports: None,
        }
    }

    /// Whether the share is exported by NFS. NFS clients assert their users without proof, so a
    /// share with user-based restrictions needs an explicit `nfs = true`.
    #[must_use]
    pub fn is_exported(&self) -> bool {
        let asks = self.users.is_some()
            || self.encryption_required
            || self.force_user.is_some()
            || self.force_group.is_some()
            || [&self.denied_users, &self.read_users, &self.write_users]
                .iter()
                .any(|users| !users.is_empty());
        self.nfs.unwrap_or(!asks)
    }

    /// The settings that the share's backend needs.
    #[must_use]
    pub fn source(&self) -> ShareSource {
        ShareSource {
            path: self.path.clone(),
            follows_links: !self.show_symlinks,
            snapshots: self.snapshots.clone(),
        }
    }

    fn problem_outside(&self) -> Option<Problem> {
        let what = backend::configured().find_problem(&self.source())?;
        Some(Problem { line: self.line, text: format!("share {}: {what}", self.name) })
    }

    fn snapshots(&mut self) -> &mut SnapshotsConfig {
        self.snapshots.get_or_insert_default()
    }

    /// Sets one NFS key.
    fn set_nfs(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let id = || nfs_clients::parse_id(key, value).map_err(ConfigError::of);
        match key {
            "nfs_squash" => self.nfs_squash = squash_of(value)?,
            "nfs_anonuid" => self.nfs_anonuid = id()?,
            "nfs_anongid" => self.nfs_anongid = id()?,
            "nfs_stable" => self.nfs_stable = stable_of(value)?,
            _ => self.nfs_tls = tls_of(value)?,
        }
        Ok(())
    }

    /// Sets one key from the command line's `key=value`.
    ///
    /// # Errors
    /// [`ConfigError`] for unknown keys and invalid values.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let flag = || match value {
            "true" | "yes" => Ok(true),
            "false" | "no" => Ok(false),
            _ => Err(ConfigError::of(format!("{key} is yes or no, not {value:?}"))),
        };
        let size = || values::parse_size(key, value).map_err(ConfigError::of);
        // Commas separate keys, so plus signs separate list elements.
        let list = || value.split('+').map(str::to_owned).collect();
        match key {
            "read_only" => self.read_only = flag()?,
            "encryption_required" => self.encryption_required = flag()?,
            "absolute_links" => self.absolute_links = flag()?,
            "device_nodes" => self.device_nodes = flag()?,
            "hide_unreadable" => self.hide_unreadable = flag()?,
            "case_sensitive" => self.case_sensitive = flag()?,
            "time_machine" => self.time_machine = flag()?,
            "time_machine_max_bytes" => self.time_machine_max_bytes = Some(size()?),
            "posix" => self.posix = flag()?,
            "continuously_available" => self.continuously_available = flag()?,
            "show_symlinks" => self.show_symlinks = flag()?,
            "named_streams" => self.named_streams = flag()?,
            "snapshots" => self.snapshots().kept = SnapshotTool::of(value),
            "snapshot_names" => self.snapshots().names = Some(value.to_owned()),
            "snapshot_root" => self.snapshots().root = Some(value.into()),
            "nfs" => self.nfs = Some(flag()?),
            "nfs_squash" | "nfs_anonuid" | "nfs_anongid" | "nfs_stable" | "nfs_tls" => {
                self.set_nfs(key, value)?;
            }
            "smb_stable" => self.smb_stable = smb_stable_of(value)?,
            "reserved_ports" => self.reserved_ports = Some(flag()?),
            "comment" => value.clone_into(&mut self.comment),
            "users" => self.users = Some(list()),
            "denied_users" => self.denied_users = list(),
            "read_users" => self.read_users = list(),
            "write_users" => self.write_users = list(),
            "hosts_allowed" => self.hosts_allowed = hosts_of(key, value)?,
            "hosts_denied" => self.hosts_denied = networks_of(key, value)?,
            "hidden_names" | "veto_names" => {
                let patterns = value.split('+').filter(|p| !p.is_empty());
                let patterns = values::parse_patterns(key, patterns).map_err(ConfigError::of)?;
                if key == "veto_names" {
                    self.veto_names = patterns;
                } else {
                    self.hidden_names = patterns;
                }
            }
            "guest_ok" => self.guest_ok = flag()?,
            "listed" => self.listed = values::parse_listed(value).map_err(ConfigError::of)?,
            "force_user" => self.force_user = Some(value.to_owned()),
            "force_group" => self.force_group = Some(value.to_owned()),
            "metadata_cache" => {
                self.metadata_cache_bytes = values::parse_cache(value).map_err(ConfigError::of)?;
            }
            "backend_latency_us" => {
                self.backend_latency_us = values::parse_latency(value).map_err(ConfigError::of)?;
            }
            "size_limit" => self.size_limit_bytes = Some(size()?),
            "file_mode" => self.file_mode = parse_mode(value).map_err(ConfigError::of)?,
            "directory_mode" => self.directory_mode = parse_mode(value).map_err(ConfigError::of)?,
            _ if self.set_provision(key, value)? => {}
            _ => {
                let hint = suggest::hint(key, raw::SHARE_KEYS);
                return Err(ConfigError::of(format!("a share has no key `{key}`{hint}")));
            }
        }
        Ok(())
    }
}

/// Whether two share names are equal; they are case-insensitive.
pub(crate) fn same_name(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

pub(crate) fn check_share_name(name: &str) -> Result<(), String> {
    let count = name.chars().count();
    // MS-SRVS 2.2.2.4, and characters that a Windows path cannot contain.
    let bad = |c: char| c.is_control() || "\\/:*?\"<>|[]+=;,".contains(c);
    if count == 0 || count > SHARE_NAME_CHARS_MAX || name.contains(bad) || name.trim() != name {
        return Err(format!(
            "{name:?} cannot be a share's name; use up to {SHARE_NAME_CHARS_MAX} letters, digits, -, _ and ."
        ));
    }
    if same_name(name, "IPC$") {
        return Err("\"IPC$\" cannot be a share's name: it is always there, for named pipes".into());
    }
    Ok(())
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|m| *m <= 0o7777);
    mode.ok_or_else(|| format!("{text:?} is not an octal mode; write it as \"0644\""))
}

/// Default location of the user file: the directory that systemd's `StateDirectory=` names, a system
/// directory for root, the user's state directory otherwise.
#[must_use]
pub fn default_users_file() -> PathBuf {
    let is_root = rustix::process::geteuid().is_root();
    default_state_folder(is_root, |name| std::env::var_os(name)).join("users.toml")
}

/// systemd.exec(5) gives `STATE_DIRECTORY` as absolute paths separated by colons, of which the first
/// is used.
fn default_state_folder(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let absolute = |name: &str| {
        let value = variable(name)?.into_vec();
        let first = value.split(|byte| *byte == b':').next()?;
        let path = PathBuf::from(OsStr::from_bytes(first));
        path.is_absolute().then_some(path)
    };
    if let Some(given) = absolute("STATE_DIRECTORY") {
        return given;
    }
    if is_root {
        return PathBuf::from("/var/lib/anabranch");
    }
    let state = variable("XDG_STATE_HOME").map(PathBuf::from);
    let home = || variable("HOME").map(|h| PathBuf::from(h).join(".local/state"));
    state.or_else(home).unwrap_or_else(|| PathBuf::from(".")).join("anabranch")
}

#[cfg(test)]
mod tests;
