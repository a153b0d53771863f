//! Landlock: TCP ports that may be bound, and whom signals and abstract sockets reach.
//!
//! Rights on files are left out. A file that is opened by its NFS handle while no name of it is
//! in memory has no path, and Landlock refuses what it finds no path for (EACCES, seen with
//! Linux 6.18 after dropping caches): handles would go stale at each restart. The collector of
//! traces may change at a reload, so connections are not limited either.

use super::ConfinementError;
use landlock::{
    AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};

/// Restricts this thread to binding `ports`, and to signalling its own process.
///
/// Kernels before 6.7 (ports) and 6.12 (signals) enforce what they know; the log says so.
pub(super) fn restrict(ports: &[u16]) -> Result<(), ConfinementError> {
    let status = restrict_to(ports).map_err(|error| ConfinementError::new("Landlock", error))?;
    match status {
        RulesetStatus::FullyEnforced => {}
        RulesetStatus::PartiallyEnforced => tracing::warn!(
            "this kernel's Landlock knows TCP ports but not signals; Linux 6.12 has both"
        ),
        RulesetStatus::NotEnforced => tracing::warn!(
            "this kernel has no Landlock for TCP ports (Linux 6.7, lsm=landlock): \
             the other layers of confinement hold"
        ),
    }
    Ok(())
}

fn restrict_to(ports: &[u16]) -> Result<RulesetStatus, RulesetError> {
    let scopes = if notifies_abstract_socket() {
        Scope::Signal.into()
    } else {
        Scope::Signal | Scope::AbstractUnixSocket
    };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessNet::BindTcp)?
        .scope(scopes)?
        .create()?;
    for port in ports {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

/// Whether the service manager listens at an abstract socket, as old ones do.
fn notifies_abstract_socket() -> bool {
    std::env::var("NOTIFY_SOCKET").is_ok_and(|path| path.starts_with('@'))
}
