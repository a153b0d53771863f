//! Confinement: the privileges that the process drops before it serves, one module per layer.
//!
//! An exploited decoder must not yield control of the machine. The layers apply to the calling
//! thread and to its future threads, so [`confine`] runs before the runtime exists. [`layers`]
//! reads them back from the kernel.
//!
//! The kernel logs each refused system call as an audit record. An attacker's code in this process
//! cannot prevent that.

mod capabilities;
mod landlock;
mod seccomp;
mod status;

#[cfg(test)]
mod tests;

use crate::config::{Confinement, ServerConfig};
pub use status::{Layers, are_refusals_logged, layers, layers_of};
use std::sync::OnceLock;

/// The enforced Landlock rules: the kernel reports them once, at the start.
static LANDLOCK: OnceLock<landlock::LandlockRules> = OnceLock::new();

/// A layer that the system refused.
#[derive(Debug)]
pub struct ConfinementError {
    layer: &'static str,
    cause: String,
}

impl ConfinementError {
    fn new(layer: &'static str, cause: impl std::fmt::Display) -> Self {
        Self { layer, cause: cause.to_string() }
    }
}

impl std::fmt::Display for ConfinementError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cannot confine the server ({}): {}; use a kernel that has it, or set confinement = \"off\" in [server]",
            self.layer, self.cause
        )
    }
}

impl std::error::Error for ConfinementError {}

/// Drops the capabilities, system calls and ports that `config` does not need, for the calling
/// thread and its future threads. Call it while there are no other threads.
///
/// A kernel without Landlock causes a warning only.
///
/// # Errors
/// [`ConfinementError`]: the system refused a layer that every supported kernel has.
pub fn confine(config: &ServerConfig) -> Result<(), ConfinementError> {
    if config.confinement == Confinement::Off {
        tracing::warn!(
            "confinement is off: an exploited defect in the server would yield root; set \
             confinement = \"on\" in [server]"
        );
        return Ok(());
    }
    capabilities::limit(needs_device_nodes(config))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| ConfinementError::new("no_new_privs", error))?;
    // This must precede the seccomp filters, which do not permit the calls that create a ruleset.
    let _ = LANDLOCK.set(landlock::restrict(&ports(config))?);
    if !are_refusals_logged() {
        tracing::warn!(
            "this kernel does not log the system calls that confinement refuses: \
             it needs CONFIG_AUDIT, and errno and kill_process in kernel.seccomp.actions_logged"
        );
    }
    seccomp::install()
}

/// Whether a share permits device nodes, which requires CAP_MKNOD.
#[must_use]
pub fn needs_device_nodes(config: &ServerConfig) -> bool {
    config.shares.iter().any(|share| share.device_nodes)
}

/// TCP ports that the server binds: ports for clients at the start, the port of discovery
/// whenever an interface gets an address.
fn ports(config: &ServerConfig) -> Vec<u16> {
    let admin = match config.admin {
        Some(crate::config::AdminAddress::Tcp(address)) => Some(address),
        _ => None,
    };
    let all = config.smb.iter().chain(&config.nfs).chain(&admin);
    let metadata = config.discovery.wsd.then_some(::discovery::wsd::METADATA_PORT);
    all.map(std::net::SocketAddr::port).chain(metadata).collect()
}
