//! Landlock: restricts the TCP ports that may be bound, and the reach of signals and abstract
//! sockets.
//!
//! File access is not restricted. A file that is opened by its NFS handle has no path while no name
//! of it is in the dentry cache. Linux 6.18 then looks for rules at the mount's root only. With a
//! rule for a directory below it `open_by_handle_at` fails with EACCES, so handles would become
//! stale at each restart. A reload may also add shares, but rights cannot be regained. The trace
//! collector may change at a reload, so connections are not restricted either.

use super::ConfinementError;
use landlock::{
    ABI, Access, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};

/// The first ABI with all rules below.
const LEVEL: ABI = ABI::V6;

/// Rules that the kernel enforces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LandlockRules {
    /// Only configured TCP ports can be bound: ABI 4, Linux 6.7.
    pub(super) ports: bool,
    /// Signals and connections to abstract sockets stay within the process: ABI 6, Linux 6.12.
    pub(super) scopes: bool,
}

/// Restricts this thread to binding `ports` and to signalling its own process.
///
/// Older kernels enforce the rules that they have; the log names the others.
pub(super) fn restrict(ports: &[u16]) -> Result<LandlockRules, ConfinementError> {
    let rules =
        restrict_to(LEVEL, ports).map_err(|error| ConfinementError::new("Landlock", error))?;
    match rules {
        LandlockRules { scopes: true, .. } => {}
        LandlockRules { ports: true, .. } => tracing::warn!(
            "this kernel's Landlock restricts TCP ports but not signals; Linux 6.12 restricts both"
        ),
        _ => tracing::warn!(
            "this kernel has no Landlock for TCP ports (Linux 6.7, lsm=landlock): \
             the other layers of confinement hold"
        ),
    }
    Ok(rules)
}

/// As [`restrict`], with the rules of the ABI `level`.
pub(super) fn restrict_to(level: ABI, ports: &[u16]) -> Result<LandlockRules, RulesetError> {
    let handled = AccessNet::from_all(level) & AccessNet::BindTcp;
    let scopes = wanted_scopes() & Scope::from_all(level);
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    if !handled.is_empty() {
        ruleset = ruleset.handle_access(handled)?;
    }
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    if handled.is_empty() && scopes.is_empty() {
        return Ok(LandlockRules::default());
    }
    let mut ruleset = ruleset.create()?;
    for port in ports {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    let kernel = match ruleset.restrict_self()?.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => ABI::Unsupported,
    };
    Ok(LandlockRules {
        ports: !(handled & AccessNet::from_all(kernel)).is_empty(),
        scopes: !(scopes & Scope::from_all(kernel)).is_empty(),
    })
}

/// Both scopes, except abstract sockets if the service manager uses one, as old ones do.
fn wanted_scopes() -> BitFlags<Scope> {
    let is_notified = std::env::var("NOTIFY_SOCKET").is_ok_and(|path| path.starts_with('@'));
    if is_notified { Scope::Signal.into() } else { Scope::Signal | Scope::AbstractUnixSocket }
}
