//! The file as typed, and its conversion to [`ServerConfig`].

use super::AdminAddress;
use super::discovery::RawDiscovery;
use super::limits::{RawLimits, RawProvision};
use super::logging::RawLogging;
use super::meaning::{ConfigInterpreter, line_of};
use super::multichannel::RawMultichannel;
use super::nfs_clients;
use super::tolerant::{self, Faults};
use super::values::{
    parse_cache, parse_hosts, parse_listed, parse_networks, parse_patterns, parse_size,
};
use super::{
    ConfigError, Confinement, EncryptionSetting, KerberosKeys, KeyLines, NAME_CHARS_MAX, NfsSquash,
    NfsStable, NfsTls, Ntlm, Problem, ServerConfig, ShareConfig, SigningSetting, SmbStable,
    SnapshotTool, SnapshotsConfig, TlsFiles, check_share_name, parse_mode, same_name,
};
use crate::limits::{LOGON_WITHIN_MAX, REQUEST_MEMORY_MIB, STALL_WITHIN_MAX, WORKERS_MAX};
use serde::Deserialize;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// Share keys that the command line can set.
pub const SHARE_KEYS: &[&str] = &[
    "absolute_links",
    "backend_latency_us",
    "case_sensitive",
    "class",
    "comment",
    "continuously_available",
    "denied_users",
    "device_nodes",
    "directory_mode",
    "encryption_required",
    "file_mode",
    "force_group",
    "force_user",
    "guest_ok",
    "hidden_names",
    "hide_unreadable",
    "hosts_allowed",
    "hosts_denied",
    "listed",
    "metadata_cache",
    "named_streams",
    "nfs",
    "nfs_anongid",
    "nfs_anonuid",
    "nfs_squash",
    "nfs_stable",
    "smb_stable",
    "nfs_tls",
    "posix",
    "provisioned_gib",
    "provisioned_iops",
    "provisioned_mib_per_second",
    "read_only",
    "read_users",
    "reserved_ports",
    "show_symlinks",
    "size_limit",
    "snapshot_names",
    "snapshot_root",
    "snapshots",
    "time_machine",
    "time_machine_max_bytes",
    "users",
    "veto_names",
    "write_users",
];

/// Clients renew their lease several times within its duration.
const NFS_LEASE_SECONDS: std::ops::RangeInclusive<u64> = 5..=3600;

/// The file as typed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    /// The `[server]` table.
    #[serde(default)]
    server: RawServer,
    /// The `[multichannel]` table.
    #[serde(default)]
    multichannel: RawMultichannel,
    /// The `[discovery]` table.
    #[serde(default)]
    discovery: RawDiscovery,
    /// The `[log]` table.
    #[serde(default)]
    log: RawLogging,
    /// The `[[share]]` tables.
    #[serde(default)]
    share: Vec<Spanned<RawShare>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    /// Computer name; the host name by default.
    name: Option<Spanned<String>>,
    /// Workgroup.
    workgroup: Option<String>,
    /// Listening addresses of SMB, each as `"ADDR:PORT"`.
    smb: Option<Spanned<Vec<SocketAddr>>>,
    /// Listening addresses of NFS; none by default.
    nfs: Option<Spanned<Vec<SocketAddr>>>,
    /// NFS lease time in seconds.
    nfs_lease_seconds: Option<Spanned<u64>>,
    /// Whether NFS clients can also mount shares by the paths of their directories.
    nfs_paths: Option<bool>,
    /// PEM file of the certificate for NFS under TLS, with intermediate certificates.
    nfs_tls_certificate: Option<Spanned<PathBuf>>,
    /// PEM file of its private key.
    nfs_tls_key: Option<Spanned<PathBuf>>,
    /// PEM file of the authorities of client certificates.
    nfs_tls_client_ca: Option<Spanned<PathBuf>>,
    /// Whether NFS clients must use a reserved source port; true by default.
    reserved_ports: Option<bool>,
    /// Address of the admin API, `"unix:/PATH"`, or `"off"`, the default.
    admin: Option<Spanned<String>>,
    /// `required` or `offered`.
    signing: Option<SigningSetting>,
    ntlm: Option<Spanned<Ntlm>>,
    /// `off`, `offered` or `required`.
    encryption: Option<Spanned<EncryptionSetting>>,
    /// The user file.
    users: Option<Spanned<PathBuf>>,
    /// The state directory; that of the user file by default.
    state: Option<Spanned<PathBuf>>,
    /// Minimum dialect: `2.0.2`, `2.1`, `3.0`, `3.0.2`, `3.1.1`.
    min_protocol: Option<Spanned<String>>,
    /// Maximum dialect.
    max_protocol: Option<Spanned<String>>,
    /// Keytab with the keys of `cifs/HOST`, for verifying Kerberos tickets.
    kerberos_keytab: Option<Spanned<PathBuf>>,
    /// Realm whose principals map to local users.
    kerberos_realm: Option<Spanned<String>>,
    /// System account for anonymous and guest sessions; without it they are refused.
    guest: Option<Spanned<String>>,
    /// `on` or `off`.
    confinement: Option<Confinement>,
    /// Maximum number of connections.
    connections_max: Option<Spanned<usize>>,
    /// Seconds within which a connection must log on.
    logon_seconds: Option<Spanned<u64>>,
    /// Seconds after which a stalled client counts as gone.
    stall_seconds: Option<Spanned<u64>>,
    request_memory_mib: Option<Spanned<u64>>,
    /// Threads for blocking calls; changes require a restart.
    workers: Option<Spanned<usize>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawShare {
    /// Name that clients use; mandatory.
    name: Option<Spanned<String>>,
    /// Directory; mandatory.
    path: Option<Spanned<PathBuf>>,
    /// Description in share lists.
    comment: Option<String>,
    /// Refuses all changes.
    #[serde(default)]
    read_only: bool,
    /// Requires encrypted connections.
    #[serde(default)]
    encryption_required: bool,
    /// Users that may connect; every account by default.
    users: Option<Vec<String>>,
    /// Users that may not connect.
    #[serde(default)]
    denied_users: Vec<String>,
    /// Users with read-only access.
    #[serde(default)]
    read_users: Vec<String>,
    /// Users with write access despite `read_only` or `read_users`.
    #[serde(default)]
    write_users: Vec<String>,
    /// Clients that may connect, for example `"192.0.2.0/24"`.
    hosts_allowed: Option<Spanned<Vec<String>>>,
    /// Networks that may not connect.
    hosts_denied: Option<Spanned<Vec<String>>>,
    /// Guests may connect.
    #[serde(default)]
    guest_ok: bool,
    /// Clients whose share lists contain the share: `everyone`, `users` or `nobody`.
    listed: Option<Spanned<String>>,
    /// System user for all file access.
    force_user: Option<String>,
    /// System group of all new files.
    force_group: Option<String>,
    /// Name patterns with the hidden attribute.
    hidden_names: Option<Spanned<Vec<String>>>,
    /// Name patterns that are not served.
    veto_names: Option<Spanned<Vec<String>>>,
    /// Upper bound of the size that clients see.
    size_limit: Option<Spanned<String>>,
    /// Class: `standard`, `premium` or `custom`.
    class: Option<Spanned<String>>,
    /// Size in GiB: clients see it and cannot write beyond it.
    provisioned_gib: Option<Spanned<u64>>,
    /// Operations per second, independent of the size.
    provisioned_iops: Option<Spanned<u64>>,
    /// Throughput in MiB per second, independent of the size.
    provisioned_mib_per_second: Option<Spanned<u64>>,
    /// Explicit limits that replace the class's.
    limits: Option<RawLimits>,
    /// Whether the share is exported by NFS.
    nfs: Option<bool>,
    /// NFS users that are mapped to the anonymous account: `root`, `all` or `none`.
    nfs_squash: Option<NfsSquash>,
    /// Uid of anonymous NFS users.
    nfs_anonuid: Option<Spanned<u32>>,
    /// Gid of anonymous NFS users.
    nfs_anongid: Option<Spanned<u32>>,
    /// Terms by NFS client, as entries of exports(5).
    nfs_clients: Option<Spanned<Vec<String>>>,
    nfs_stable: Option<NfsStable>,
    smb_stable: Option<SmbStable>,
    /// Whether NFS clients must use TLS: `offered` or `required`.
    nfs_tls: Option<NfsTls>,
    /// Whether NFS clients must use a reserved source port; the server's setting by default.
    reserved_ports: Option<bool>,
    /// Clients may store symbolic links to targets outside of the share.
    #[serde(default)]
    absolute_links: bool,
    /// NFS clients with uid 0 may create device nodes.
    #[serde(default)]
    device_nodes: bool,
    /// Omits entries that the user may not read from directory listings.
    #[serde(default)]
    hide_unreadable: bool,
    /// Names are case-sensitive.
    #[serde(default)]
    case_sensitive: bool,
    /// Offers the POSIX extensions of SMB 3.1.1; true by default.
    posix: Option<bool>,
    /// Offers the share to Time Machine.
    #[serde(default)]
    time_machine: bool,
    /// Maximum size of all backups together in bytes; unlimited by default.
    time_machine_max_bytes: Option<u64>,
    /// Persistent handles: opens survive a restart of the server.
    #[serde(default)]
    continuously_available: bool,
    /// Clients see symbolic links and resolve them themselves, as Linux and macOS can.
    #[serde(default)]
    show_symlinks: bool,
    /// Budget of the metadata cache in bytes, or `off`.
    metadata_cache: Option<Spanned<String>>,
    /// Artificial latency of each backend call in microseconds, for measurements.
    backend_latency_us: Option<Spanned<u64>>,
    /// Files may have named streams; true by default.
    named_streams: Option<bool>,
    /// Location of snapshots: `snapper`, `zfs`, `cephfs`, or a directory.
    snapshots: Option<Spanned<String>>,
    /// Name format of snapshots, for example `"auto-%Y-%m-%d_%H-%M"`, in UTC.
    snapshot_names: Option<String>,
    /// Directory of which the snapshots are, if it is not the share's.
    snapshot_root: Option<PathBuf>,
    /// Mode of new files, for example `"0644"`.
    file_mode: Option<Spanned<String>>,
    /// Mode of new directories, for example `"0755"`.
    directory_mode: Option<Spanned<String>>,
}

impl RawShare {
    fn take_provision(&mut self) -> RawProvision {
        RawProvision {
            class: self.class.take(),
            gib: self.provisioned_gib.take(),
            iops: self.provisioned_iops.take(),
            mib_per_second: self.provisioned_mib_per_second.take(),
            limits: self.limits.take(),
        }
    }
}

/// Parses the text of a file.
pub fn parse(text: &str) -> Result<ServerConfig, ConfigError> {
    let tolerant::TolerantParse { raw, problems, faults } = tolerant::parse::<RawConfig>(text);
    let Some(raw) = raw else { return Err(ConfigError { path: None, problems }) };
    let mut reader = ConfigInterpreter { text, problems };
    let mut config = reader.server(raw.server);
    config.multichannel = reader.multichannel(raw.multichannel);
    config.discovery = reader.discovery(raw.discovery);
    config.lines.audit = raw.log.line_of_audit(text);
    config.log = reader.logging(raw.log);
    for share in raw.share {
        reader.share(share, &mut config, &faults);
    }
    let too_many = config.too_many_names().map(|text| Problem { line: None, text });
    reader.problems.extend(too_many);
    if reader.problems.is_empty() {
        return Ok(config);
    }
    reader.problems.sort_by_key(|p| p.line);
    Err(ConfigError { path: None, problems: reader.problems })
}

/// Lines of keys of `[server]`.
fn lines_of(text: &str, raw: &RawServer) -> KeyLines {
    fn line<T>(text: &str, value: Option<&Spanned<T>>) -> Option<usize> {
        value.map(|value| line_of(text, value.span().start))
    }
    KeyLines {
        smb: line(text, raw.smb.as_ref()),
        nfs: line(text, raw.nfs.as_ref()),
        admin: line(text, raw.admin.as_ref()),
        state: line(text, raw.state.as_ref()).or_else(|| line(text, raw.users.as_ref())),
        guest: line(text, raw.guest.as_ref()),
        audit: None,
    }
}

impl ConfigInterpreter<'_> {
    fn tls(&mut self, raw: &RawServer) -> Option<TlsFiles> {
        let path = |value: &Spanned<PathBuf>| value.get_ref().clone();
        let (certificate, key) = (&raw.nfs_tls_certificate, &raw.nfs_tls_key);
        let either = certificate.as_ref().or(key.as_ref()).or(raw.nfs_tls_client_ca.as_ref())?;
        let (Some(certificate), Some(key)) = (certificate, key) else {
            let what = "NFS with TLS needs nfs_tls_certificate and nfs_tls_key; set both";
            self.wrong(either.span(), what);
            return None;
        };
        Some(TlsFiles {
            certificate: path(certificate),
            key: path(key),
            client_ca: raw.nfs_tls_client_ca.as_ref().map(path),
            line: Some(line_of(self.text, certificate.span().start)),
        })
    }

    fn kerberos(&mut self, raw: &RawServer) -> Option<KerberosKeys> {
        let (keytab, realm) = (&raw.kerberos_keytab, &raw.kerberos_realm);
        let span = keytab.as_ref().map(Spanned::span).or(realm.as_ref().map(Spanned::span))?;
        let (Some(keytab), Some(realm)) = (keytab, realm) else {
            self.wrong(span, "Kerberos needs kerberos_keytab and kerberos_realm; set both");
            return None;
        };
        Some(KerberosKeys {
            keytab: keytab.get_ref().clone(),
            realm: realm.get_ref().clone(),
            line: Some(line_of(self.text, keytab.span().start)),
        })
    }

    fn server(&mut self, raw: RawServer) -> ServerConfig {
        let mut config = ServerConfig::empty();
        config.lines = lines_of(self.text, &raw);
        config.nfs_tls = self.tls(&raw);
        config.kerberos = self.kerberos(&raw);
        if let Some(name) = raw.name {
            self.name(&name);
            config.name = name.into_inner().to_uppercase();
        }
        config.workgroup = raw.workgroup.unwrap_or(config.workgroup);
        config.smb = raw.smb.map(Spanned::into_inner).unwrap_or_default();
        config.nfs = raw.nfs.map(Spanned::into_inner).unwrap_or_default();
        if let Some(seconds) = raw.nfs_lease_seconds {
            let seconds = self.bounded("nfs_lease_seconds", &seconds, NFS_LEASE_SECONDS);
            config.nfs_lease = Duration::from_secs(seconds);
        }
        config.nfs_paths = raw.nfs_paths.unwrap_or(config.nfs_paths);
        config.reserved_ports = raw.reserved_ports.unwrap_or(config.reserved_ports);
        config.admin = raw.admin.and_then(|admin| self.admin(&admin));
        config.signing = raw.signing.unwrap_or_default();
        if let Some(ntlm) = &raw.ntlm {
            config.ntlm = *ntlm.get_ref();
            if config.ntlm == Ntlm::Off && config.kerberos.is_none() {
                self.wrong(
                    ntlm.span(),
                    "ntlm = \"off\" leaves no way to log on; set kerberos_keytab and kerberos_realm",
                );
            }
        }
        config.users = raw.users.map_or(config.users, Spanned::into_inner);
        config.state = raw.state.map(Spanned::into_inner);
        config.confinement = raw.confinement.unwrap_or_default();
        config.guest = raw.guest.map(Spanned::into_inner);
        self.dialects(raw.min_protocol.as_ref(), raw.max_protocol.as_ref(), &mut config);
        if let Some(encryption) = raw.encryption {
            config.encryption = *encryption.get_ref();
            if config.encryption == EncryptionSetting::Required
                && config.dialect_max < smb::Dialect::Smb300
            {
                self.wrong(
                    encryption.span(),
                    "encryption needs max_protocol 3.0 or later; raise it",
                );
            }
        }
        if let Some(connections) = raw.connections_max {
            config.connections_max = self.bounded("connections_max", &connections, 1..=1_000_000);
        }
        if let Some(seconds) = raw.logon_seconds {
            let seconds = self.bounded("logon_seconds", &seconds, 1..=LOGON_WITHIN_MAX.as_secs());
            config.patience.logon = Duration::from_secs(seconds);
        }
        if let Some(seconds) = raw.stall_seconds {
            let seconds = self.bounded("stall_seconds", &seconds, 1..=STALL_WITHIN_MAX.as_secs());
            config.patience.stall = Duration::from_secs(seconds);
        }
        if let Some(memory) = raw.request_memory_mib {
            let mib = self.bounded("request_memory_mib", &memory, REQUEST_MEMORY_MIB);
            config.request_memory_bytes = mib << 20;
        }
        if let Some(workers) = raw.workers {
            config.workers = self.bounded("workers", &workers, 1..=WORKERS_MAX);
        }
        config
    }

    fn name(&mut self, name: &Spanned<String>) {
        let (text, count) = (name.get_ref(), name.get_ref().chars().count());
        let bad = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if count == 0 || count > NAME_CHARS_MAX || text.contains(bad) {
            let what = format!(
                "{text:?} cannot be a computer's name; use 1 to {NAME_CHARS_MAX} letters, digits, - and _"
            );
            self.wrong(name.span(), what);
        }
    }

    fn admin(&mut self, admin: &Spanned<String>) -> Option<AdminAddress> {
        if admin.get_ref() == "off" {
            return None;
        }
        let address = admin.get_ref().parse();
        address.map_err(|why| self.wrong(admin.span(), format!("admin: {why}, nor \"off\""))).ok()
    }

    fn dialects(
        &mut self,
        min: Option<&Spanned<String>>,
        max: Option<&Spanned<String>>,
        config: &mut ServerConfig,
    ) {
        if let Some(dialect) = min.and_then(|text| self.dialect(text)) {
            config.dialect_min = dialect;
        }
        if let Some(dialect) = max.and_then(|text| self.dialect(text)) {
            config.dialect_max = dialect;
        }
        let above = config.dialect_min > config.dialect_max;
        if let (true, Some(at)) = (above, min.or(max)) {
            self.wrong(at.span(), "min_protocol is above max_protocol");
        }
    }

    /// Converts a share. In a file with items at fault, contradictions are not looked for.
    fn share(&mut self, raw: Spanned<RawShare>, config: &mut ServerConfig, faults: &Faults) {
        let header = raw.span();
        let mut raw = raw.into_inner();
        let (name, path) = (raw.name.take(), raw.path.take());
        for (key, is_missing) in [("name", name.is_none()), ("path", path.is_none())] {
            if is_missing && !faults.have(self.text, header.start, key) {
                self.wrong(header.clone(), format!("the key `{key}` is missing here"));
            }
        }
        let at = name.as_ref().map_or(header, Spanned::span);
        if let Some(name) = &name {
            self.share_name(name, config);
        }
        if let Some(path) = path.as_ref().filter(|path| !path.get_ref().is_absolute()) {
            let what = format!("path = {:?} must begin with /", path.get_ref());
            self.wrong(path.span(), what);
        }
        // The placeholders are of no consequence, since the file is refused.
        let line = path.as_ref().map(|path| line_of(self.text, path.span().start));
        let name = name.map_or_else(String::new, Spanned::into_inner);
        let path = path.map_or_else(|| PathBuf::from("/"), Spanned::into_inner);
        let path = path.as_path();
        let mut share = ShareConfig::new(&name, path);
        share.line = line;
        share.snapshots = self.snapshots(&raw, path, &at);
        self.names_and_hosts(&raw, &mut share);
        self.nfs_terms(&raw, &mut share);
        self.provision(raw.take_provision(), &mut share);
        share.comment = raw.comment.unwrap_or_default();
        share.read_only = raw.read_only;
        share.encryption_required = raw.encryption_required;
        share.users = raw.users;
        share.hide_unreadable = raw.hide_unreadable;
        share.absolute_links = raw.absolute_links;
        share.device_nodes = raw.device_nodes;
        share.case_sensitive = raw.case_sensitive;
        share.posix = raw.posix.unwrap_or(share.posix);
        share.time_machine = raw.time_machine;
        share.time_machine_max_bytes = raw.time_machine_max_bytes;
        share.continuously_available = raw.continuously_available;
        share.show_symlinks = raw.show_symlinks;
        share.named_streams = raw.named_streams.unwrap_or(share.named_streams);
        share.file_mode = self.mode(raw.file_mode.as_ref(), share.file_mode);
        share.directory_mode = self.mode(raw.directory_mode.as_ref(), share.directory_mode);
        share.denied_users = raw.denied_users;
        share.read_users = raw.read_users;
        share.write_users = raw.write_users;
        share.guest_ok = raw.guest_ok;
        share.nfs_stable = raw.nfs_stable.unwrap_or_default();
        share.smb_stable = raw.smb_stable.unwrap_or_default();
        share.nfs_tls = raw.nfs_tls.unwrap_or_default();
        share.reserved_ports = raw.reserved_ports;
        share.force_user = raw.force_user;
        share.force_group = raw.force_group;
        if faults.is_empty() {
            for what in share.contradictions(config) {
                self.wrong(at.clone(), what);
            }
        }
        config.shares.push(share);
    }

    fn share_name(&mut self, name: &Spanned<String>, config: &ServerConfig) {
        if let Err(what) = check_share_name(name.get_ref()) {
            self.wrong(name.span(), what);
        }
        if config.shares.iter().any(|s| same_name(&s.name, name.get_ref())) {
            let what = format!("there are two shares named {:?}; rename one", name.get_ref());
            self.wrong(name.span(), what);
        }
    }

    fn nfs_terms(&mut self, raw: &RawShare, share: &mut ShareConfig) {
        share.nfs = raw.nfs;
        share.nfs_squash = raw.nfs_squash.unwrap_or_default();
        for (key, said, id) in [
            ("nfs_anonuid", &raw.nfs_anonuid, &mut share.nfs_anonuid),
            ("nfs_anongid", &raw.nfs_anongid, &mut share.nfs_anongid),
        ] {
            if let Some(said) = said {
                *id = self
                    .meant(said.span(), nfs_clients::parse_id(key, &said.get_ref().to_string()));
            }
        }
        if let Some(list) = &raw.nfs_clients {
            let entries = list.get_ref().iter().map(String::as_str);
            share.nfs_clients = self.meant(list.span(), nfs_clients::parse(entries));
        }
    }

    fn names_and_hosts(&mut self, raw: &RawShare, share: &mut ShareConfig) {
        if let Some(list) = &raw.hosts_allowed {
            share.hosts_allowed =
                self.meant(list.span(), parse_hosts("hosts_allowed", texts(list)));
        }
        if let Some(list) = &raw.hosts_denied {
            share.hosts_denied =
                self.meant(list.span(), parse_networks("hosts_denied", texts(list)));
        }
        if let Some(list) = &raw.hidden_names {
            share.hidden_names =
                self.meant(list.span(), parse_patterns("hidden_names", texts(list)));
        }
        if let Some(list) = &raw.veto_names {
            share.veto_names = self.meant(list.span(), parse_patterns("veto_names", texts(list)));
        }
        if let Some(text) = &raw.listed {
            share.listed = self.meant(text.span(), parse_listed(text.get_ref()));
        }
        if let Some(text) = &raw.metadata_cache {
            share.metadata_cache_bytes = self.meant(text.span(), parse_cache(text.get_ref()));
        }
        if let Some(latency) = &raw.backend_latency_us {
            let checked = super::values::check_latency(*latency.get_ref());
            share.backend_latency_us = self.meant(latency.span(), checked);
        }
        if let Some(text) = &raw.size_limit {
            share.size_limit_bytes =
                self.meant(text.span(), parse_size("size_limit", text.get_ref()).map(Some));
        }
    }

    /// The value, or its default after the mistake is recorded.
    fn meant<T: Default>(&mut self, span: Range<usize>, value: Result<T, String>) -> T {
        value.unwrap_or_else(|what| {
            self.wrong(span, what);
            T::default()
        })
    }

    fn snapshots(
        &mut self,
        raw: &RawShare,
        share: &Path,
        at: &Range<usize>,
    ) -> Option<SnapshotsConfig> {
        let Some(kept) = &raw.snapshots else {
            if raw.snapshot_names.is_some() || raw.snapshot_root.is_some() {
                let what =
                    "snapshot_names and snapshot_root need snapshots, which says where they are";
                self.wrong(at.clone(), what);
            }
            return None;
        };
        let config = SnapshotsConfig {
            kept: SnapshotTool::of(kept.get_ref()),
            names: raw.snapshot_names.clone(),
            root: raw.snapshot_root.clone(),
        };
        if let Err(what) = config.check(share) {
            self.wrong(kept.span(), what);
        }
        Some(config)
    }

    fn mode(&mut self, text: Option<&Spanned<String>>, default: u32) -> u32 {
        let Some(text) = text else { return default };
        parse_mode(text.get_ref()).unwrap_or_else(|what| {
            self.wrong(text.span(), what);
            default
        })
    }
}

fn texts(list: &Spanned<Vec<String>>) -> impl Iterator<Item = &str> {
    list.get_ref().iter().map(String::as_str)
}

/// The host name, reduced to a valid computer name.
#[must_use]
pub fn host_name() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().into_owned();
    let good = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let short: String =
        name.chars().take_while(|c| *c != '.').filter(good).take(NAME_CHARS_MAX).collect();
    if short.is_empty() { "ANABRANCH".into() } else { short.to_uppercase() }
}
