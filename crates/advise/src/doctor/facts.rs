//! What was found on a machine. None: it could not be found out.

use serde::Serialize;

/// Everything that the rules look at.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Major and minor number of the kernel.
    pub kernel: (u32, u32),
    /// Calls that the server needs and that failed, with why.
    pub missing_calls: Vec<(String, String)>,
    /// Whether the look was taken as the superuser, as the packaged service runs.
    pub is_root: bool,
    /// The processor's words for what it can do.
    pub processor_flags: Vec<String>,
    /// Processors.
    pub processors: usize,
    /// See [`Limits`].
    pub limits: Limits,
    /// See [`Clock`].
    pub clock: Clock,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// What of it is free for us, in bytes.
    pub memory_available_bytes: Option<u64>,
    /// What the shares may keep of names and files, in bytes.
    pub cache_bytes: u64,
    /// How connections are kept from sending too much.
    pub congestion: Option<String>,
    /// Interfaces with an address that others reach.
    pub interfaces: Vec<NetworkInterface>,
    /// Whether sessions may have several connections.
    pub multichannel: bool,
    /// Addresses that are to be listened on.
    pub ports: Vec<Port>,
    /// Ways to log on. None: there is no configuration to look at.
    pub logon: Option<LogonWays>,
    /// Shares that NFS clients reach.
    pub nfs_shares: Vec<NfsShare>,
    /// Programs that serve the same protocols and run now.
    pub other_servers: Vec<String>,
    /// See [`Firewall`].
    pub firewall: Firewall,
    /// The configuration file, if there is one.
    pub config_path: Option<String>,
    /// What is wrong in it, or outside.
    pub config_problems: Vec<String>,
    /// What should be thought about.
    pub config_warnings: Vec<String>,
    /// Files and directories whose permissions matter.
    pub folders: Vec<Folder>,
    /// Where the shares are.
    pub file_systems: Vec<FileSystem>,
    /// See [`Running`].
    pub running: Running,
    /// Layers of confinement that the running server lacks. None: none runs, or it does not say.
    pub missing_layers: Option<Vec<String>>,
    /// The kernel's log of system calls that confinement refused. None: no confined server runs.
    pub refusals: Option<RefusalLog>,
    /// This program's version.
    pub version: String,
}

/// Mechanisms that SMB clients may log on by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogonWays {
    /// Kerberos tickets: keys are configured.
    pub kerberos: bool,
    /// NTLM.
    pub ntlm: bool,
}

/// Audit records of refused system calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefusalLog {
    /// Whether the kernel writes them.
    pub is_written: bool,
    /// Calls of servers since the machine started. None: the logs cannot be read.
    pub calls: Option<Vec<RefusedCalls>>,
}

/// Refusals of one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedCalls {
    /// Its number, which depends on the processor.
    pub number: u32,
    /// Whether the call ended the server.
    pub was_fatal: bool,
    /// Records.
    pub count: u64,
}

/// Limits of the system and of processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Descriptors that a process started here may have.
    pub descriptors: Option<u64>,
    /// `fs.inotify.max_user_watches`.
    pub watches: Option<u64>,
    /// `fs.inotify.max_user_instances`.
    pub watch_instances: Option<u64>,
    /// `fs.inotify.max_queued_events`.
    pub queued_events: Option<u64>,
    /// `net.core.somaxconn`.
    pub accept_queue: Option<u64>,
    /// What a connection may hold that is received, at most, in bytes.
    pub receive_bytes: Option<u64>,
    /// The same of what is sent.
    pub send_bytes: Option<u64>,
}

/// The clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Clock {
    /// Whether something keeps it right.
    pub synchronized: Option<bool>,
    /// By how much it may be wrong, in microseconds.
    pub error_microseconds: Option<u64>,
    /// The time zone's name.
    pub zone: Option<String>,
}

/// An interface of the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkInterface {
    /// Its name.
    pub name: String,
    /// Bits in a second; 0 if nobody knows.
    pub bits_per_second: u64,
    /// Whether clients are told that several connections spread over processors.
    pub rss_capable: bool,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// An address that is to be listened on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Port {
    /// What for: `SMB`, `NFS` or `admin`.
    pub what: &'static str,
    /// With the port.
    pub address: String,
    /// The port alone.
    pub number: u16,
    /// Whether only this machine reaches it.
    pub is_local: bool,
    /// See [`PortState`].
    pub state: PortState,
}

/// Whether an address can be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    /// It can.
    Free,
    /// Our own server has it.
    Ours,
    /// Someone else has it.
    Taken,
    /// We may not have it.
    Refused,
    /// This machine does not have the address.
    Absent,
}

/// How far a share believes NFS clients about their users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NfsShare {
    /// The share's name.
    pub share: String,
    /// Whether clients must connect from a port below 1024 (`reserved_ports`).
    pub reserved_ports: bool,
    /// Whether all users of clients act as one (`nfs_squash = "all"`).
    pub is_squashed_to_one: bool,
}

/// What lets packets through.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Firewall {
    /// It could not be looked at.
    #[default]
    Unknown,
    /// There are no rules.
    None,
    /// `nft list ruleset`.
    Nft(String),
    /// `iptables-save`.
    Iptables(String),
}

/// A file or directory whose permissions matter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Folder {
    /// What it is for.
    pub what: &'static str,
    /// Where.
    pub path: String,
    /// Permission bits; none if it is not there.
    pub mode: Option<u32>,
    /// Bits that it must not have.
    pub mode_not: u32,
    /// Whether who looked may write in it; the same as the server as root.
    pub is_writable: bool,
    /// Whether it must be.
    pub must_be_writable: bool,
}

/// What a share is on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FileSystem {
    /// The share's name.
    pub share: String,
    /// Its directory.
    pub path: String,
    /// As the kernel calls it: `ext4`.
    pub kind: String,
    /// Where it is mounted.
    pub mounted_at: String,
    /// What it is mounted with.
    pub options: Vec<String>,
    /// Whether it can be written to by who looked; none for shares that need not be.
    pub writable: Option<bool>,
    /// Whether files take attributes of users (`user.*`).
    pub user_xattrs: Option<bool>,
    /// Whether they take POSIX access lists.
    pub acls: Option<bool>,
    /// Whether files can share blocks.
    pub reflinks: Option<bool>,
    /// Whether the directory looks names up by itself without their case.
    pub folds_case: Option<bool>,
    /// Named streams that are too long for an attribute; none where there are none.
    pub long_streams: Option<LongStreams>,
    /// Bytes, and what of them is free.
    pub bytes: Option<(u64, u64)>,
    /// Inodes, and what of them is free; none where they are made as needed.
    pub inodes: Option<(u64, u64)>,
}

/// Named streams of a share that have files of their own, in `.anabranch-streams`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LongStreams {
    /// How many there are.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Streams whose file is gone.
    pub orphans: u64,
    /// Bytes of those.
    pub orphan_bytes: u64,
    /// Streams out of a backup that no file has used since.
    pub unclaimed: u64,
    /// Other users may enter the directory: the server does not use it.
    pub is_open_to_others: bool,
}

/// A server of ours that runs now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Running {
    /// There is none where it was looked for.
    #[default]
    No,
    /// Its version.
    Version(String),
}
