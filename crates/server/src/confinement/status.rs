//! The layers, as the kernel reports them.

use super::capabilities::KEPT;
use rustix::thread::CapabilitySet;
use serde::Serialize;
use std::path::Path;

/// Outcomes of filters that the kernel logs, by an administrator's choice.
const ACTIONS_LOGGED: &str = "/proc/sys/kernel/seccomp/actions_logged";
/// A file of kernels that have audit records.
const AUDITED: &str = "/proc/self/loginuid";

/// Which layers hold for a thread or process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Layers {
    /// No set of capabilities has more than the data paths need.
    pub capabilities: bool,
    /// No program that is started gains rights.
    pub no_new_privs: bool,
    /// A filter of system calls is installed.
    pub seccomp: bool,
    /// Landlock refuses TCP ports that are not configured. None: the kernel reports it to the
    /// process itself only.
    pub landlock: Option<bool>,
    /// Landlock refuses signals to other processes, and their abstract sockets. None: as above.
    pub landlock_scopes: Option<bool>,
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
            ("landlock_scopes", self.landlock_scopes != Some(false)),
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
    let rules = super::LANDLOCK.get().copied().unwrap_or_default();
    let (landlock, landlock_scopes) = (Some(rules.ports), Some(rules.scopes));
    Ok(Layers { landlock, landlock_scopes, ..layers_of(&text) })
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
        landlock_scopes: None,
    }
}

/// Whether the kernel writes an audit record of each system call that the filters refuse: to
/// auditd where it runs, otherwise to its own log.
#[must_use]
pub fn are_refusals_logged() -> bool {
    let actions = std::fs::read_to_string(ACTIONS_LOGGED).unwrap_or_default();
    Path::new(AUDITED).exists() && logs_refusals(&actions)
}

/// Whether `actions` has both outcomes of the filters.
pub(super) fn logs_refusals(actions: &str) -> bool {
    ["errno", "kill_process"].iter().all(|outcome| actions.split(' ').any(|a| a.trim() == *outcome))
}
