//! From a file of wishes to a configuration that can be served.
//!
//! What is typed (`RawConfig`) becomes what it means ([`Config`]) in one step;
//! everything that is wrong is found in it, with the line and the remedy.

use serde::Deserialize;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What is wrong with a configuration, for people: with line and remedy where known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Whether signing is a must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Signing {
    /// Every message is signed or sealed.
    #[default]
    Required,
    /// The client decides.
    Offered,
}

/// Whether sealing is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// Never.
    Off,
    /// The client decides.
    #[default]
    Offered,
    /// Every message is sealed.
    Required,
}

/// The file as it is typed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    #[serde(default)]
    server: RawServer,
    #[serde(default)]
    share: Vec<RawShare>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    /// Computer name that clients see; the host's if left out.
    name: Option<String>,
    /// Workgroup.
    workgroup: Option<String>,
    /// Addresses to serve SMB on.
    smb: Option<Vec<SocketAddr>>,
    /// Address of the admin API.
    admin: Option<SocketAddr>,
    /// `required` or `offered`.
    signing: Option<Signing>,
    /// `off`, `offered` or `required`.
    encryption: Option<Encryption>,
    /// File of users.
    users: Option<PathBuf>,
    /// Lowest dialect: `2.0.2`, `2.1`, `3.0`, `3.0.2`, `3.1.1`.
    min_protocol: Option<String>,
    /// Highest dialect.
    max_protocol: Option<String>,
    /// System user that sessions without a name act as; none: they are refused.
    guest: Option<String>,
    /// Connections at once.
    connections_max: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawShare {
    /// Name that clients use.
    name: String,
    /// Directory.
    path: PathBuf,
    /// Shown beside the name.
    comment: Option<String>,
    /// Nothing may be changed.
    #[serde(default)]
    read_only: bool,
    /// Only sealed connections.
    #[serde(default)]
    encryption_required: bool,
    /// Who may connect; everyone with an account if left out.
    users: Option<Vec<String>>,
    /// Leave out of listings what the user may not read.
    #[serde(default)]
    hide_unreadable: bool,
    /// Names differ by case.
    #[serde(default)]
    case_sensitive: bool,
    /// Permission bits of new files, as `"0644"`.
    file_mode: Option<String>,
    /// Permission bits of new directories.
    directory_mode: Option<String>,
}

/// One share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareConfig {
    /// Name that clients use.
    pub name: String,
    /// Directory.
    pub path: PathBuf,
    /// Shown beside the name.
    pub comment: String,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Only sealed connections.
    pub encryption_required: bool,
    /// Who may connect.
    pub users: Option<Vec<String>>,
    /// Leave out of listings what the user may not read.
    pub hide_unreadable: bool,
    /// Names differ by case.
    pub case_sensitive: bool,
    /// Permission bits of new files.
    pub file_mode: u32,
    /// Permission bits of new directories.
    pub directory_mode: u32,
}

/// A configuration that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Computer name.
    pub name: String,
    /// Workgroup.
    pub workgroup: String,
    /// Addresses to serve SMB on.
    pub smb: Vec<SocketAddr>,
    /// Address of the admin API, if any.
    pub admin: Option<SocketAddr>,
    /// See [`Signing`].
    pub signing: Signing,
    /// See [`Encryption`].
    pub encryption: Encryption,
    /// File of users.
    pub users: PathBuf,
    /// Lowest dialect.
    pub dialect_min: smb::Dialect,
    /// Highest dialect.
    pub dialect_max: smb::Dialect,
    /// Whom nameless sessions act as.
    pub guest: Option<String>,
    /// Connections at once.
    pub connections_max: usize,
    /// The shares.
    pub shares: Vec<ShareConfig>,
}

/// Connections at once if nothing is said: each has a descriptor, and the
/// usual hard limit is half a million.
const CONNECTIONS_MAX: usize = 100_000;
/// Longest share name.
const SHARE_NAME_MAX: usize = 80;

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| ConfigError(format!("cannot read {}: {e}", path.display())))?;
        Self::parse(&text).map_err(|e| ConfigError(format!("{}: {e}", path.display())))
    }

    /// Understands the text of a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let raw: RawConfig = toml::from_str(text).map_err(|e| explain(&e))?;
        Self::from_raw(raw)
    }

    /// What is served if nothing is configured: no share, defaults for the rest.
    #[must_use]
    pub fn empty() -> Self {
        Self::from_raw(RawConfig::default())
            .unwrap_or_else(|e| unreachable!("the defaults are valid: {e}"))
    }

    fn from_raw(raw: RawConfig) -> Result<Self, ConfigError> {
        let server = raw.server;
        let dialect = |text: Option<String>, default| match text {
            None => Ok(default),
            Some(text) => parse_dialect(&text),
        };
        let name = server.name.unwrap_or_else(host_name);
        if name.is_empty() || name.len() > 15 || name.contains(['\\', '/', ' ']) {
            return Err(ConfigError(format!(
                "server.name = {name:?}: a computer name has 1 to 15 letters"
            )));
        }
        let config = Self {
            name: name.to_uppercase(),
            workgroup: server.workgroup.unwrap_or_else(|| "WORKGROUP".into()),
            smb: server.smb.unwrap_or_default(),
            admin: server.admin,
            signing: server.signing.unwrap_or_default(),
            encryption: server.encryption.unwrap_or_default(),
            users: server.users.unwrap_or_else(default_users_file),
            dialect_min: dialect(server.min_protocol, smb::Dialect::Smb202)?,
            dialect_max: dialect(server.max_protocol, smb::Dialect::Smb311)?,
            guest: server.guest,
            connections_max: server.connections_max.unwrap_or(CONNECTIONS_MAX),
            shares: raw.share.into_iter().map(ShareConfig::from_raw).collect::<Result<_, _>>()?,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.dialect_min > self.dialect_max {
            return Err(ConfigError("server.min_protocol is above server.max_protocol".into()));
        }
        if self.encryption == Encryption::Required && self.dialect_max < smb::Dialect::Smb300 {
            return Err(ConfigError("encryption needs max_protocol 3.0 or later".into()));
        }
        let mut seen: Vec<String> = Vec::new();
        for share in &self.shares {
            let folded = share.name.to_lowercase();
            if seen.contains(&folded) {
                return Err(ConfigError(format!("there are two shares named {:?}", share.name)));
            }
            seen.push(folded);
        }
        Ok(())
    }

    /// Adds a share of `path` called `name`.
    ///
    /// # Errors
    /// [`ConfigError`] if the name cannot be one, or is taken.
    pub fn add_share(&mut self, name: &str, path: &Path) -> Result<&mut ShareConfig, ConfigError> {
        let raw = RawShare {
            name: name.into(),
            path: path.into(),
            comment: None,
            read_only: false,
            encryption_required: false,
            users: None,
            hide_unreadable: false,
            case_sensitive: false,
            file_mode: None,
            directory_mode: None,
        };
        self.shares.push(ShareConfig::from_raw(raw)?);
        self.check()?;
        self.shares.last_mut().ok_or_else(|| ConfigError("no share".into()))
    }
}

impl ShareConfig {
    fn from_raw(raw: RawShare) -> Result<Self, ConfigError> {
        let name = raw.name;
        let bad = name.is_empty()
            || name.len() > SHARE_NAME_MAX
            || name.contains(['\\', '/', ':', '*', '?', '"']);
        if bad || name.eq_ignore_ascii_case("IPC$") {
            return Err(ConfigError(format!(
                "{name:?} cannot be a share's name; use letters, digits, - and _"
            )));
        }
        let mode = |text: Option<String>, default, key| match text {
            None => Ok(default),
            Some(text) => {
                u32::from_str_radix(&text, 8).ok().filter(|m| *m <= 0o7777).ok_or_else(|| {
                    ConfigError(format!(
                        "share {name}: {key} = {text:?} is not an octal mode, as \"0644\""
                    ))
                })
            }
        };
        Ok(Self {
            file_mode: mode(raw.file_mode, 0o644, "file_mode")?,
            directory_mode: mode(raw.directory_mode, 0o755, "directory_mode")?,
            name,
            path: raw.path,
            comment: raw.comment.unwrap_or_default(),
            read_only: raw.read_only,
            encryption_required: raw.encryption_required,
            users: raw.users,
            hide_unreadable: raw.hide_unreadable,
            case_sensitive: raw.case_sensitive,
        })
    }

    /// Sets one key from the command line's `key=value`.
    ///
    /// # Errors
    /// [`ConfigError`] for keys and values that do not exist.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let flag = || match value {
            "true" | "yes" => Ok(true),
            "false" | "no" => Ok(false),
            _ => Err(ConfigError(format!("{key} is yes or no, not {value:?}"))),
        };
        match key {
            "read_only" => self.read_only = flag()?,
            "encryption_required" => self.encryption_required = flag()?,
            "hide_unreadable" => self.hide_unreadable = flag()?,
            "case_sensitive" => self.case_sensitive = flag()?,
            "comment" => value.clone_into(&mut self.comment),
            _ => {
                let known = [
                    "read_only",
                    "encryption_required",
                    "hide_unreadable",
                    "case_sensitive",
                    "comment",
                ];
                let near = nearest(key, &known)
                    .map_or_else(String::new, |k| format!("; did you mean {k}?"));
                return Err(ConfigError(format!("a share has no key {key:?}{near}")));
            }
        }
        Ok(())
    }
}

fn parse_dialect(text: &str) -> Result<smb::Dialect, ConfigError> {
    let found = [
        smb::Dialect::Smb202,
        smb::Dialect::Smb210,
        smb::Dialect::Smb300,
        smb::Dialect::Smb302,
        smb::Dialect::Smb311,
    ];
    let found = found.into_iter().find(|d| d.to_string() == text);
    found.ok_or_else(|| {
        ConfigError(format!("{text:?} is not a dialect; they are 2.0.2, 2.1, 3.0, 3.0.2 and 3.1.1"))
    })
}

/// The library's message has line and column; a suggestion is added to it.
fn explain(error: &toml::de::Error) -> ConfigError {
    let text = error.to_string();
    let mut quoted = text.split('`').skip(1).step_by(2);
    let suggestion = match (text.contains("unknown field"), quoted.next()) {
        (true, Some(typed)) => {
            let known: Vec<&str> = quoted.collect();
            nearest(typed, &known).map(|k| format!("\ndid you mean `{k}`?"))
        }
        _ => None,
    };
    ConfigError(format!("{}{}", text.trim_end(), suggestion.unwrap_or_default()))
}

/// The word that is nearest to what was typed, if any is near.
fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let best = known.iter().map(|k| (distance(typed, k), *k)).min()?;
    (best.0 <= typed.len().max(3) / 2).then_some(best.1)
}

/// Letters to insert, remove or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn host_name() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().into_owned();
    let short: String = name
        .chars()
        .take_while(|c| *c != '.')
        .filter(char::is_ascii_alphanumeric)
        .take(15)
        .collect();
    if short.is_empty() { "ANABRANCH".into() } else { short }
}

/// Where users are kept if nothing is said: the system's place for root, the
/// user's own for others.
#[must_use]
pub fn default_users_file() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/anabranch/users.toml");
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".local/state"));
    state.or_else(home).unwrap_or_else(|| PathBuf::from(".")).join("anabranch/users.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_named_with_its_line_and_a_suggestion() {
        let error = Config::parse("[server]\nsignin = \"required\"\n").unwrap_err().0;
        assert!(error.contains("line 2"), "{error}");
        assert!(error.contains("did you mean `signing`?"), "{error}");
    }

    #[test]
    fn contradictions_are_refused() {
        for (text, part) in [
            ("[[share]]\nname='a'\npath='/x'\n[[share]]\nname='A'\npath='/y'\n", "two shares"),
            ("[[share]]\nname='IPC$'\npath='/x'\n", "cannot be a share's name"),
            ("[server]\nmin_protocol='3.1.1'\nmax_protocol='2.1'\n", "above"),
            ("[server]\nmin_protocol='4'\n", "not a dialect"),
            ("[[share]]\nname='a'\npath='/x'\nfile_mode='9'\n", "octal"),
        ] {
            let error = Config::parse(text).unwrap_err().0;
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_full_file_is_understood() {
        let text = "[server]\nname='srv'\nsmb=['127.0.0.1:4450']\nsigning='offered'\nencryption='required'\n\
                    [[share]]\nname='data'\npath='/srv/data'\nread_only=true\n";
        let config = Config::parse(text).unwrap();
        assert_eq!((config.name.as_str(), config.signing), ("SRV", Signing::Offered));
        assert!(config.shares[0].read_only);
    }
}
