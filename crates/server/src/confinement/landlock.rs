//! Landlock: TCP ports that may be bound, and processes that signals and abstract sockets reach.
//!
//! Rights on files are left out. A file that is opened by its NFS handle while no name of it is
//! in memory has no path. Linux 6.18 then looks for rules at the root of the mount only: with a
//! rule for a directory below it `open_by_handle_at` fails with EACCES, and handles would go
//! stale at each restart. Shares may also be added at a reload, when no right comes back. The
//! collector of traces may change at a reload, so connections are not limited either.

use super::ConfinementError;
use landlock::{
    ABI, Access, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};

/// The first level that has all of the rules below.
const LEVEL: ABI = ABI::V6;

/// Rules that the kernel took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LandlockRules {
    /// Only configured TCP ports can be bound: since level 4, Linux 6.7.
    pub(super) ports: bool,
    /// No signal leaves the process, nor a connection to an abstract socket: since level 6,
    /// Linux 6.12.
    pub(super) scopes: bool,
}

/// Restricts this thread to binding `ports`, and to signalling its own process.
///
/// Kernels of a lower level enforce the rules that they have; the log names the others.
pub(super) fn restrict(ports: &[u16]) -> Result<LandlockRules, ConfinementError> {
    let rules =
        restrict_to(LEVEL, ports).map_err(|error| ConfinementError::new("Landlock", error))?;
    match rules {
        LandlockRules { scopes: true, .. } => {}
        LandlockRules { ports: true, .. } => tracing::warn!(
            "this kernel's Landlock knows TCP ports but not signals; Linux 6.12 has both"
        ),
        _ => tracing::warn!(
            "this kernel has no Landlock for TCP ports (Linux 6.7, lsm=landlock): \
             the other layers of confinement hold"
        ),
    }
    Ok(rules)
}

/// As [`restrict`], by the rules that a kernel of `level` has.
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

/// Both, but for abstract sockets where the service manager listens at one, as old ones do.
fn wanted_scopes() -> BitFlags<Scope> {
    let is_notified = std::env::var("NOTIFY_SOCKET").is_ok_and(|path| path.starts_with('@'));
    if is_notified { Scope::Signal.into() } else { Scope::Signal | Scope::AbstractUnixSocket }
}
