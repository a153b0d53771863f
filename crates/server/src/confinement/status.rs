//! The enforced layers, as the kernel reports them.

use super::capabilities::KEPT;
use rustix::thread::CapabilitySet;
use serde::Serialize;
use std::path::Path;

/// Seccomp actions that the kernel logs; an administrator can change them.
const ACTIONS_LOGGED: &str = "/proc/sys/kernel/seccomp/actions_logged";
/// A file that exists on kernels with audit records.
const AUDITED: &str = "/proc/self/loginuid";

/// The layers of a thread or process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Layers {
    /// No capability set exceeds the data paths' needs.
    pub capabilities: bool,
    /// Started programs cannot gain privileges.
    pub no_new_privs: bool,
    /// A seccomp filter is installed.
    pub seccomp: bool,
    /// Landlock refuses unconfigured TCP ports. `None`: only the process itself can know.
    pub landlock: Option<bool>,
    /// Landlock refuses signals and abstract sockets of other processes. `None`: as above.
    pub landlock_scopes: Option<bool>,
}

impl Layers {
    /// Names of the layers that are missing.
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
/// /proc is unreadable.
pub fn layers() -> std::io::Result<Layers> {
    let text = std::fs::read_to_string("/proc/thread-self/status")?;
    let rules = super::LANDLOCK.get().copied().unwrap_or_default();
    let (landlock, landlock_scopes) = (Some(rules.ports), Some(rules.scopes));
    Ok(Layers { landlock, landlock_scopes, ..layers_of(&text) })
}

/// The layers in a `/proc/PID/status`, which does not contain Landlock.
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

/// Whether the kernel writes an audit record for each refused system call: to auditd if it runs,
/// otherwise to the kernel log.
#[must_use]
pub fn are_refusals_logged() -> bool {
    let actions = std::fs::read_to_string(ACTIONS_LOGGED).unwrap_or_default();
    Path::new(AUDITED).exists() && logs_refusals(&actions)
}

/// Whether `actions` contains both actions of the filters.
pub(super) fn logs_refusals(actions: &str) -> bool {
    ["errno", "kill_process"].iter().all(|outcome| actions.split(' ').any(|a| a.trim() == *outcome))
}
