//! The reference of all configuration keys: purpose, default, and when a change takes effect.
//!
//! The Markdown page and the manual page are generated from this table. Tests compare it with the
//! parser's keys, with the effective defaults and with the packaged example.

mod server;
mod share;

use std::fmt::Write;

/// A table of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigSection {
    /// Its header as typed, with brackets.
    pub header: &'static str,
    /// Its purpose.
    pub text: &'static str,
    /// Its keys.
    pub keys: &'static [ConfigKey],
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// Name of the key.
    pub name: &'static str,
    /// Permitted values.
    pub form: &'static str,
    /// Default.
    pub default: DefaultValue,
    /// When a change takes effect.
    pub counts: EffectTime,
    /// Its purpose.
    pub text: &'static str,
}

/// The default of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// Equivalent to this value.
    Is(&'static str),
    /// The key is mandatory.
    Needed,
    /// Described in words, because no value expresses it.
    Described(&'static str),
}

/// When a change of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectTime {
    /// After a reload, which interrupts no client.
    Reload,
    /// After a restart.
    Restart,
}

/// All tables in the order of the page.
pub const SECTIONS: &[ConfigSection] = &[
    ConfigSection { header: "[server]", text: "Settings of the server.", keys: server::SERVER },
    ConfigSection {
        header: "[multichannel]",
        text: "Several connections for one session, where a client asks for them.",
        keys: server::MULTICHANNEL,
    },
    ConfigSection {
        header: "[[multichannel.interface]]",
        text: "Advertises exactly these addresses to clients, instead of the detected ones. One \
               table for each address.",
        keys: server::INTERFACE,
    },
    ConfigSection {
        header: "[discovery]",
        text: "Announcements, by which the server shows up in macOS' Finder, in Linux' file managers \
               and in Windows' Explorer. The server announces itself on interfaces with a private \
               address (RFC 1918, fc00::/7) at which it serves SMB, or with link-local addresses \
               alone, except those that `include` and `exclude` of `[multichannel]` leave out. \
               Interfaces without a physical port, as `docker0`, `virbr0`, those of containers and \
               tunnels, must match `include`.",
        keys: server::DISCOVERY,
    },
    ConfigSection {
        header: "[log]",
        text: "The log, the audit log, and traces of slow requests.",
        keys: server::LOG,
    },
    ConfigSection {
        header: "[[share]]",
        text: "One table for each share. Lists of users contain user names, and system groups as \
               `@NAME`.",
        keys: share::SHARE,
    },
    ConfigSection {
        header: "[share.limits]",
        text: "Limits of the share above, for both protocols together. Each replaces the value of \
               the share's class. On the command line: `--share NAME=PATH,limits.iops=1000`.",
        keys: share::LIMITS,
    },
];

impl DefaultValue {
    /// The default in words, with `code` formatting for values.
    #[must_use]
    pub fn shown(self) -> String {
        match self {
            Self::Is(value) => format!("`{value}`"),
            Self::Needed => "none, it must be set".to_owned(),
            Self::Described(words) => words.to_owned(),
        }
    }
}

impl EffectTime {
    /// The effect in words.
    #[must_use]
    pub fn shown(self) -> &'static str {
        match self {
            Self::Reload => "after a reload",
            Self::Restart => "after a restart",
        }
    }
}

/// The reference as a Markdown page.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    for section in SECTIONS {
        let _ = write!(page, "\n## `{}`\n\n{}\n", section.header, section.text);
        for key in section.keys {
            let ConfigKey { name, form, text, .. } = key;
            let (default, counts) = (key.default.shown(), key.counts.shown());
            let _ = write!(page, "\n### `{name}`\n\n{text}\n\n");
            let _ =
                write!(page, "- value: {form}\n- default: {default}\n- takes effect {counts}\n");
        }
    }
    page
}

/// Introduction of the page.
const INTRODUCTION: &str = "\
# Configuration

<!-- Written by `anabranch generate configuration` from crates/server/src/config/reference. -->

The file of `anabranch serve --config FILE`, for the packaged service
`/etc/anabranch/anabranch.toml`, is [TOML](https://toml.io). Unknown keys are refused.
`anabranch check FILE` reports mistakes with their lines. After a change:

- `systemctl reload anabranch`, or SIGHUP. Sessions continue, except those whose logon the new
  configuration refuses: sessions of removed users; guest sessions if `guest` or the last `guest_ok`
  is removed; NTLM sessions if `ntlm` is off; and sessions below the requirements of `signing`,
  `encryption` and `min_protocol`, whose clients reconnect by themselves. User and host lists of a
  share apply from its next tree connect. A file with mistakes changes nothing.
- `systemctl restart anabranch` for changes that take effect after a restart.

An example with every key: [anabranch.toml](../packaging/anabranch.toml). The command line accepts
keys of a share, too, as in `--share NAME=PATH,read_only=yes`; there `+` separates list elements.
";

#[cfg(test)]
mod tests;
