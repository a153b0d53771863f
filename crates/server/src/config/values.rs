//! Parsers of single share keys.

use super::{
    EncryptionSetting, HostRule, NfsTls, Ntlm, Problem, ServerConfig, ShareConfig, SigningSetting,
};
use crate::accounts::system_users;
use crate::metadata_cache::BUDGET_BYTES_MAX;
use smb::{Network, ShareVisibility};

/// Maximum length of a name pattern in characters, and maximum number of patterns of a share.
const PATTERN_CHARS_MAX: usize = 255;
const PATTERNS_MAX: usize = 256;

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
