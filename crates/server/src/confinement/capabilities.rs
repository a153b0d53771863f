//! Capabilities: the data paths' capabilities remain in every set; all others are dropped.

use super::ConfinementError;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

/// The capabilities that the data paths need. The packaged unit's `CapabilityBoundingSet` is the
/// same set.
///
/// SETUID and SETGID: acting as a caller. DAC_OVERRIDE, DAC_READ_SEARCH: file handles, and work on
/// behalf of the server itself. CHOWN, FOWNER, FSETID: owners and modes that clients set.
/// SYS_ADMIN: `security.NTACL`, fanotify, quotas. NET_BIND_SERVICE: ports 445 and 2049, which
/// runtime threads bind.
pub(super) const KEPT: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Upper bound of capability numbers in the kernel's interface.
const NUMBERS: u32 = 64;

/// Drops all but [`KEPT`], and MKNOD unless `device_nodes`, from every set of this thread.
pub(super) fn limit(device_nodes: bool) -> Result<(), ConfinementError> {
    drop_all_but(if device_nodes { KEPT | CapabilitySet::MKNOD } else { KEPT })
        .map_err(|error| ConfinementError::new("capabilities", error))
}

fn drop_all_but(kept: CapabilitySet) -> rustix::io::Result<()> {
    let held = capabilities(None)?;
    clear_ambient_capability_set()?;
    // A service manager that withholds SETPCAP has limited the bounding set itself; and
    // no_new_privs prevents programs from gaining capabilities.
    if held.effective.contains(CapabilitySet::SETPCAP) {
        limit_bounding_set(kept)?;
    }
    let remaining = held.permitted & kept;
    set_capabilities(
        None,
        CapabilitySets {
            effective: held.effective & remaining,
            permitted: remaining,
            inheritable: CapabilitySet::empty(),
        },
    )
}

fn limit_bounding_set(kept: CapabilitySet) -> rustix::io::Result<()> {
    for number in 0..NUMBERS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // The first number unknown to the kernel ends the list.
        let Ok(is_present) = capability_is_in_bounding_set(one) else { break };
        if is_present && !kept.contains(one) {
            remove_capability_from_bounding_set(one)?;
        }
    }
    Ok(())
}
