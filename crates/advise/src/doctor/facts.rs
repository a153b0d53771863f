//! Facts about a machine. `None` means unknown.

use serde::Serialize;

/// Everything that the rules evaluate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DoctorFacts {
    /// Major and minor version of the kernel.
    pub kernel: (u32, u32),
    /// Required system calls that failed, with the error.
    pub missing_calls: Vec<(String, String)>,
    /// Whether the check ran as root, as the packaged service does.
    pub is_root: bool,
    /// CPU flags.
    pub cpu_flags: Vec<String>,
    /// Number of CPUs.
    pub cpus: usize,
    /// Limits of the system and of processes.
    pub limits: SystemLimits,
    /// The clock.
    pub clock: ClockFacts,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Available memory in bytes.
    pub memory_available_bytes: Option<u64>,
    /// Budget of all metadata caches in bytes.
    pub cache_bytes: u64,
    /// TCP congestion control algorithm.
    pub congestion: Option<String>,
    /// Interfaces with an address that is reachable from other machines.
    pub interfaces: Vec<NetworkInterfaceFacts>,
    /// Whether Multichannel is enabled.
    pub multichannel: bool,
    /// Addresses to listen on.
    pub ports: Vec<Port>,
    /// Logon mechanisms; `None` without a configuration.
    pub logon: Option<LogonWays>,
    /// Shares that are exported by NFS.
    pub nfs_shares: Vec<NfsShare>,
    /// Running programs that serve the same protocols.
    pub other_servers: Vec<String>,
    /// The packet filter.
    pub firewall: Firewall,
    /// The configuration file, if there is one.
    pub config_path: Option<String>,
    /// Mistakes in the configuration or its environment.
    pub config_problems: Vec<String>,
    /// Warnings about the configuration.
    pub config_warnings: Vec<String>,
    /// Files and directories with required permissions.
    pub folders: Vec<FolderFacts>,
    /// File systems of the shares.
    pub file_systems: Vec<ShareFileSystem>,
    /// The running server, if any.
    pub running: ServerVersion,
    /// Confinement layers that the running server lacks; `None` if no server runs or it does not
    /// report them.
    pub missing_layers: Option<Vec<String>>,
    /// The kernel's log of refused system calls; `None` if no confined server runs.
    pub refusals: Option<RefusalLog>,
    /// The running server's announcements by interface, in words; `None` if none runs or it reports
    /// none.
    pub announcements: Option<Vec<String>>,
    /// Parts of the announcement that fail, with remedies.
    pub announcement_problems: Vec<String>,
    /// Version of this program.
    pub version: String,
}

/// Logon mechanisms for SMB clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogonWays {
    /// Kerberos: keys are configured.
    pub kerberos: bool,
    /// NTLM.
    pub ntlm: bool,
}

/// Audit records of refused system calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefusalLog {
    /// Whether the kernel writes them.
    pub is_written: bool,
    /// Refused calls since boot; `None` if the logs are unreadable.
    pub calls: Option<Vec<RefusedCalls>>,
}

/// Refusals of one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedCalls {
    /// Its number on this architecture.
    pub number: u32,
    /// Whether the call killed the server.
    pub was_fatal: bool,
    /// Number of records.
    pub count: u64,
}

/// Limits of the system and of processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SystemLimits {
    /// RLIMIT_NOFILE of processes started here.
    pub descriptors: Option<u64>,
    /// `fs.inotify.max_user_watches`.
    pub watches: Option<u64>,
    /// `fs.inotify.max_user_instances`.
    pub watch_instances: Option<u64>,
    /// `fs.inotify.max_queued_events`.
    pub queued_events: Option<u64>,
    /// `net.core.somaxconn`.
    pub accept_queue: Option<u64>,
    /// Maximum TCP receive buffer in bytes.
    pub receive_bytes: Option<u64>,
    /// Maximum TCP send buffer in bytes.
    pub send_bytes: Option<u64>,
}

/// The clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClockFacts {
    /// Whether it is synchronised.
    pub synchronized: Option<bool>,
    /// Maximum error in microseconds.
    pub error_microseconds: Option<u64>,
    /// Name of the time zone.
    pub zone: Option<String>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkInterfaceFacts {
    /// Its name.
    pub name: String,
    /// Speed in bits per second; 0 if unknown.
    pub bits_per_second: u64,
    /// Whether it is advertised as RSS capable.
    pub rss_capable: bool,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Port {
    /// Purpose: `SMB`, `NFS` or `admin`.
    pub what: &'static str,
    /// Address with the port.
    pub address: String,
    /// The port.
    pub number: u16,
    /// Whether only this machine can reach it.
    pub is_local: bool,
    /// Availability.
    pub state: PortState,
}

/// Availability of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    /// The address is free.
    Free,
    /// Our own server uses it.
    Ours,
    /// Another program uses it.
    Taken,
    /// The process lacks the permission.
    Refused,
    /// The machine does not have the address.
    Absent,
}

/// A share's trust in NFS clients' assertions about their users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NfsShare {
    /// The share's name.
    pub share: String,
    /// Whether clients must connect from a port below 1024 (`reserved_ports`).
    pub reserved_ports: bool,
    /// Whether all users are mapped to one (`nfs_squash = "all"`).
    pub maps_all_users: bool,
}

/// The packet filter and its rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Firewall {
    /// The rules are unreadable.
    #[default]
    Unknown,
    /// There are no rules.
    None,
    /// `nft list ruleset`.
    Nft(String),
    /// `iptables-save`.
    Iptables(String),
}

/// A file or directory with required permissions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FolderFacts {
    /// Its purpose.
    pub what: &'static str,
    /// Its path.
    pub path: String,
    /// Mode; `None` if it does not exist.
    pub mode: Option<u32>,
    /// Mode bits that it must not have.
    pub forbidden_mode: u32,
    /// Whether the checking user may write to it; as root the same as for the server.
    pub is_writable: bool,
    /// Whether it must be writable.
    pub must_be_writable: bool,
}

/// File system of a share.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShareFileSystem {
    /// Name of the share.
    pub share: String,
    /// Directory of the share.
    pub path: String,
    /// Type in the kernel's terms, for example `ext4`.
    pub kind: String,
    /// Mount point.
    pub mounted_at: String,
    /// Mount options.
    pub options: Vec<String>,
    /// Whether the checking user may write to it; `None` for read-only shares.
    pub writable: Option<bool>,
    /// Whether it stores user attributes (`user.*`).
    pub user_xattrs: Option<bool>,
    /// Whether it stores POSIX ACLs.
    pub acls: Option<bool>,
    /// Whether it supports reflinks.
    pub reflinks: Option<bool>,
    /// Whether the directory is case-insensitive itself (casefold).
    pub case_insensitive: Option<bool>,
    /// Named streams that exceed an extended attribute; `None` if there are none.
    pub long_streams: Option<LongStreams>,
    /// Total and free bytes.
    pub bytes: Option<(u64, u64)>,
    /// Total and free inodes; `None` if inodes are dynamic.
    pub inodes: Option<(u64, u64)>,
}

/// Named streams in separate files of `.anabranch-streams`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LongStreams {
    /// Number of streams.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// Streams whose base file is gone.
    pub orphans: u64,
    /// Their size in bytes.
    pub orphan_bytes: u64,
    /// Streams restored from a backup that no file has used since.
    pub unclaimed: u64,
    /// Other users may enter the directory, so the server does not use it.
    pub is_open_to_others: bool,
}

/// A running server of ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerVersion {
    /// No server was found.
    #[default]
    No,
    /// Its version.
    Version(String),
}
