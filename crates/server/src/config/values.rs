//! Parsers of single share keys.

use super::{
    AuditTarget, EncryptionSetting, HostRule, NfsTls, Ntlm, PathTemplate, Problem, ServerConfig,
    ShareConfig, SigningSetting, SnapshotTool,
};
use crate::accounts::system_users;
use crate::metadata_cache::BUDGET_BYTES_MAX;
use files::{FileAuditKind, FileAuditKinds};
use smb::{Network, ShareVisibility};
use std::path::Path;

/// Maximum length of a name pattern in characters, and maximum number of patterns of a share.
const PATTERN_CHARS_MAX: usize = 255;
const PATTERNS_MAX: usize = 256;

/// Parses the kinds of audited file operations.
pub(super) fn parse_audit<'a>(
    kinds: impl IntoIterator<Item = &'a str>,
) -> Result<FileAuditKinds, String> {
    let parse = |text: &str| {
        let found = FileAuditKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = FileAuditKind::ALL.iter().map(|kind| kind.name()).collect();
            format!("audit has {text:?}; the kinds of operations are {}", names.join(", "))
        })
    };
    kinds.into_iter().map(parse).collect()
}

/// Parses name patterns, each for one path component.
pub(super) fn parse_patterns<'a>(
    key: &str,
    patterns: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<String>, String> {
    let patterns: Vec<String> = patterns.into_iter().map(str::to_owned).collect();
    if patterns.len() > PATTERNS_MAX {
        return Err(format!("{key} has more than {PATTERNS_MAX} patterns"));
    }
    for pattern in &patterns {
        let count = pattern.chars().count();
        if count == 0 || count > PATTERN_CHARS_MAX || pattern.contains(['/', '\\']) {
            return Err(format!(
                "{key} has {pattern:?}; a pattern matches one name: no /, * for any characters, ? \
                 for one"
            ));
        }
        if key == "veto_names" && pattern.chars().all(|c| c == '*') {
            return Err(format!("veto_names has {pattern:?}, which matches every name"));
        }
    }
    Ok(patterns)
}

/// Parses clients in the forms of exports(5).
pub(super) fn parse_hosts<'a>(
    key: &str,
    hosts: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<HostRule>, String> {
    let one = |text| HostRule::parse(text).map_err(|what| format!("{key}: {what}"));
    hosts.into_iter().map(one).collect()
}

/// Parses networks, for example `192.0.2.0/24`.
pub(super) fn parse_networks<'a>(
    key: &str,
    networks: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Network>, String> {
    let one = |text| Network::parse(text).map_err(|what| format!("{key}: {what}"));
    networks.into_iter().map(one).collect()
}

/// Parses a size, for example `500 GiB`, `2TB` or a plain number. Units are powers of 1024.
pub(super) fn parse_size(key: &str, text: &str) -> Result<u64, String> {
    let wrong = || format!("{key} = {text:?} is not a size, such as \"500 GiB\"");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text[digits.len()..].trim().to_ascii_uppercase();
    let letter = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
    let power = match letter {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(1 << (10 * power)).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// Parses the size of a cache; zero for `off`.
pub(super) fn parse_cache(text: &str) -> Result<u64, String> {
    if text == "off" {
        return Ok(0);
    }
    let bytes = parse_size("metadata_cache", text)?;
    if bytes > BUDGET_BYTES_MAX {
        return Err(format!("metadata_cache = {text:?} is more than 4 GiB, or \"off\""));
    }
    Ok(bytes)
}

/// Maximum artificial latency of a backend call in microseconds.
const BACKEND_LATENCY_US_MAX: u64 = 1_000_000;

/// Parses the artificial latency of a backend call in microseconds.
pub(super) fn parse_latency(text: &str) -> Result<u64, String> {
    let wrong = || format!("backend_latency_us = {text:?} is not a number of microseconds");
    check_latency(text.parse().map_err(|_| wrong())?)
}

/// Checks the range of [`parse_latency`].
pub(super) fn check_latency(latency_us: u64) -> Result<u64, String> {
    if latency_us > BACKEND_LATENCY_US_MAX {
        return Err(format!(
            "backend_latency_us = {latency_us} is more than {BACKEND_LATENCY_US_MAX}: a second"
        ));
    }
    Ok(latency_us)
}

/// Parses the key `listed`.
pub(super) fn parse_listed(text: &str) -> Result<ShareVisibility, String> {
    match text {
        "everyone" => Ok(ShareVisibility::Everyone),
        "users" => Ok(ShareVisibility::Users),
        "nobody" => Ok(ShareVisibility::Nobody),
        _ => Err(format!("listed = {text:?} is none of everyone, users and nobody")),
    }
}

impl ShareConfig {
    /// Contradictions to the rest of the configuration.
    pub(super) fn contradictions(&self, config: &ServerConfig) -> Vec<String> {
        let name = &self.name;
        let mut wrong = self.provision_contradictions();
        wrong.extend(self.template_contradictions());
        if self.encryption_required && config.encryption == EncryptionSetting::Off {
            wrong.push(format!("share {name}: encryption_required needs encryption in [server], where it is \"off\""));
        }
        if self.nfs_tls == NfsTls::Required && config.nfs_tls.is_none() {
            wrong.push(format!("share {name}: nfs_tls = \"required\" needs nfs_tls_certificate and nfs_tls_key in [server]"));
        }
        let is_exported = self.nfs == Some(true) && !config.nfs.is_empty();
        if self.encryption_required && is_exported && self.nfs_tls != NfsTls::Required {
            wrong.push(format!(
                "share {name}: encryption_required conflicts with NFS without TLS; \
                                set nfs_tls = \"required\", or remove nfs"
            ));
        }
        if !self.audit.is_empty() && config.log.audit == AuditTarget::Off {
            wrong.push(format!(
                "share {name}: audit needs the audit log; set audit in [log] to \"log\" or a file"
            ));
        }
        if self.guest_ok && config.guest.is_none() {
            wrong.push(format!("share {name}: guest_ok needs guest in [server], the system user that guests act as, such as \"nobody\""));
        }
        let sealed = self.encryption_required || config.encryption == EncryptionSetting::Required;
        if self.guest_ok && sealed {
            wrong.push(format!("share {name}: guest_ok and required encryption exclude each other: guests have no key"));
        }
        if self.guest_ok && config.signing == SigningSetting::Required {
            wrong.push(format!(
                "share {name}: guest_ok and required signing exclude each other: \
                                guests have no key; set signing = \"offered\" in [server], or \
                                    remove guest_ok"
            ));
        }
        if self.guest_ok && config.ntlm == Ntlm::Off {
            wrong.push(format!("share {name}: guest_ok and ntlm = \"off\" exclude each other: guests log on by NTLM"));
        }
        wrong
    }

    /// Settings that need one directory for all users.
    fn template_contradictions(&self) -> Vec<String> {
        let is_own = self.template.as_ref().is_some_and(PathTemplate::is_of_one_user);
        if self.create_home && !is_own {
            let name = &self.name;
            return vec![format!(
                "share {name}: create_home needs %U or %H in path: it creates the directory of one \
                 user"
            )];
        }
        let Some(template) = &self.template else { return Vec::new() };
        if self.create_home && template.depends_on_address() {
            let name = &self.name;
            return vec![format!(
                "share {name}: create_home and %I in path exclude each other: a client with many \
                 addresses would create a directory for each"
            )];
        }
        let (name, path) = (&self.name, self.path.display());
        let wrong = |key: &str, why: &str| {
            format!(
                "share {name}: {key} and variables in path = \"{path}\" exclude each other: {why}"
            )
        };
        let has_size = self.size_limit_bytes.is_some() || self.provision.gib.is_some();
        let nfs = "an NFS mount has no user; export the directory above the variables as a share \
                   of its own";
        let persistent = "persistent handles need the directory at the start; remove \
                          continuously_available";
        let size = "each user has a directory; use quotas of the file system";
        let guest = "a guest has no name of its own; remove guest_ok";
        let (has_absolute, has_own) = self.unusable_snapshots(&template.base());
        let absolute = "all users would see the same snapshots; set snapshot_root to the \
                        directory of which the snapshots are, and snapshots to a path in it";
        let own = "a user could exchange snapshots in the own directory; set snapshot_root to a \
                   directory above";
        [
            (self.nfs == Some(true), "nfs", nfs),
            (self.continuously_available, "continuously_available", persistent),
            (has_size, "a size", size),
            (self.guest_ok, "guest_ok", guest),
            (has_absolute, "an absolute path in snapshots", absolute),
            (has_own, "snapshots without a snapshot_root above the variables", own),
        ]
        .into_iter()
        .filter(|(is_set, ..)| *is_set)
        .map(|(_, key, why)| wrong(key, why))
        .collect()
    }

    /// Whether snapshots of a share with variables have an absolute path, and whether they are taken
    /// of a directory that depends on the user.
    fn unusable_snapshots(&self, base: &Path) -> (bool, bool) {
        let Some(snapshots) = &self.snapshots else { return (false, false) };
        let has_absolute =
            matches!(&snapshots.kept, SnapshotTool::Directory(path) if path.is_absolute());
        let is_above = snapshots.root.as_ref().is_some_and(|root| base.starts_with(root));
        (has_absolute, !has_absolute && !is_above)
    }

    /// Users and groups in lists that this machine does not have.
    pub(super) fn unknown_names(&self) -> Vec<Problem> {
        let name = &self.name;
        let lists = [&self.denied_users, &self.read_users, &self.write_users];
        let entries = lists.into_iter().chain(&self.users).flatten();
        let mut groups: Vec<&str> = entries.filter_map(|entry| entry.strip_prefix('@')).collect();
        groups.extend(self.force_group.as_deref());
        groups.sort_unstable();
        groups.dedup();
        let groups = groups.into_iter().filter(|g| system_users::group_number(g).is_none());
        let mut texts: Vec<String> = groups
            .map(|group| {
                format!(
                    "share {name}: there is no system group {group}; create it with: groupadd \
                     {group}"
                )
            })
            .collect();
        let user = self.force_user.as_deref();
        if let Some(user) = user.filter(|user| system_users::identity_of(user).is_none()) {
            texts.push(format!(
                "share {name}: there is no system user {user}, which force_user refers to"
            ));
        }
        texts.into_iter().map(|text| Problem { line: self.line, text }).collect()
    }
}

impl ServerConfig {
    /// Warnings about guest sessions: settings that make `guest` ineffective, and shares that
    /// guests can use.
    pub(super) fn guest_warnings(&self) -> Vec<Problem> {
        let Some(guest) = self.guest.as_deref() else { return Vec::new() };
        let demand = match (self.ntlm, self.encryption, self.signing) {
            (Ntlm::Off, ..) => Some("ntlm = \"off\""),
            (_, EncryptionSetting::Required, _) => Some("encryption = \"required\""),
            (_, _, SigningSetting::Required) => Some("signing = \"required\""),
            _ => None,
        };
        if let Some(demand) = demand {
            let text =
                format!("guest has no effect: {demand} refuses anonymous and guest sessions");
            return vec![Problem { line: None, text }];
        }
        let warning = |share: &ShareConfig| {
            let text = format!(
                "share {}: anyone who reaches this server may use it as the system user {guest}; guests' messages are neither signed nor encrypted",
                share.name
            );
            Problem { line: share.line, text }
        };
        self.shares.iter().filter(|share| share.guest_ok).map(warning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_parsed_with_its_unit() {
        let sizes = [("4096", 4096), ("10k", 10 << 10), ("500 GiB", 500 << 30), ("2TB", 2 << 40)];
        for (text, bytes) in sizes {
            assert_eq!(parse_size("size_limit", text), Ok(bytes), "{text}");
        }
        for bad in ["", "GiB", "0", "-1", "1.5G", "10 apples", "99999999999P", "1 2"] {
            assert!(parse_size("size_limit", bad).unwrap_err().contains("is not a size"), "{bad}");
        }
    }
}
