//! The layers, as the kernel reports them.

use super::capabilities::KEPT;
use rustix::thread::CapabilitySet;
use serde::Serialize;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};

/// Which layers hold for a thread or process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Layers {
    /// No set of capabilities has more than the data paths need.
    pub capabilities: bool,
    /// No program that is started gains rights.
    pub no_new_privs: bool,
    /// A filter of system calls is installed.
    pub seccomp: bool,
    /// Landlock refuses ports that are not configured. None: the kernel tells it of the own
    /// process only.
    pub landlock: Option<bool>,
}

impl Layers {
    /// Layers that do not hold, by name.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let all = [
            ("capabilities", self.capabilities),
            ("no_new_privs", self.no_new_privs),
            ("seccomp", self.seccomp),
            ("landlock", self.landlock != Some(false)),
        ];
        all.into_iter().filter(|(_, holds)| !holds).map(|(name, _)| name).collect()
    }
}

/// The layers of this process.
///
/// # Errors
/// /proc cannot be read.
pub fn layers() -> std::io::Result<Layers> {
    let text = std::fs::read_to_string("/proc/thread-self/status")?;
    Ok(Layers { landlock: Some(is_landlocked()), ..layers_of(&text) })
}

/// The layers that a `/proc/PID/status` reports; Landlock is not in it.
#[must_use]
pub fn layers_of(status: &str) -> Layers {
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let is_within = |name: &str, allowed: CapabilitySet| {
        let bits = field(name).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        bits.is_some_and(|bits| allowed.contains(CapabilitySet::from_bits_retain(bits)))
    };
    let most = KEPT | CapabilitySet::MKNOD;
    let no_new_privs = field("NoNewPrivs") == Some("1");
    let limited = ["CapEff", "CapPrm"].iter().all(|name| is_within(name, most));
    let gone = ["CapInh", "CapAmb"].iter().all(|name| is_within(name, CapabilitySet::empty()));
    Layers {
        capabilities: limited && gone && (is_within("CapBnd", most) || no_new_privs),
        no_new_privs,
        seccomp: field("Seccomp") == Some("2"),
        landlock: None,
    }
}

/// The kernel has no file that says so: a port that nobody configured is tried.
fn is_landlocked() -> bool {
    // More than one, since one may be among the configured.
    (65_500..=65_535u16).rev().step_by(5).any(|port| {
        let tried = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        tried.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    })
}
