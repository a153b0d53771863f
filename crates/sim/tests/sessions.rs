//! NFS clients with several connections per session; `cargo xtask sim --kind sessions` runs more
//! seeds. The seed printed with a failure repeats it.

use sim::sessions::{SessionCounts, SessionFault, run};

/// Seeds of one run.
const SEEDS: u64 = 400;
/// Maximum number of seeds until a deliberate fault must be detected.
const FAULT_SEEDS: u64 = 500;

#[test]
fn requests_execute_once_despite_lost_connections() {
    let mut counts = SessionCounts::default();
    for seed in 0..SEEDS {
        match run(seed, None) {
            Ok((_, of_run)) => counts.add(&of_run),
            Err(failure) => {
                panic!("{failure}\nagain: cargo xtask sim --seeds 1 --from {seed} --kind sessions")
            }
        }
    }
    // An event that never happens would go untested.
    for (name, count) in counts.named() {
        assert!(count > 2, "{name}: {count}");
    }
}

#[test]
fn seed_repeats_its_run_in_every_step() {
    for seed in [3, 71] {
        let again = run(seed, None);
        assert_eq!(run(seed, None), again);
    }
}

/// Checks that runs with a fault fail, some of them for this reason.
fn assert_found(fault: SessionFault, why: &str) {
    let failures = (0..FAULT_SEEDS).filter_map(|seed| run(seed, Some(fault)).err());
    let mut others = Vec::new();
    let is_it = |what: &String| {
        others.push(what.clone());
        what.contains(why)
    };
    let found = failures.map(|failure| failure.what).find(is_it);
    assert!(found.is_some(), "{fault:?} is not found by {why:?}, but as {others:?}");
}

#[test]
fn simulation_detects_a_missing_reply_cache() {
    assert_found(SessionFault::ResendAsNew, "once:");
}

#[test]
fn simulation_detects_excess_slots() {
    assert_found(SessionFault::Slots, "sessions:");
}

#[test]
fn simulation_detects_a_lost_backchannel() {
    assert_found(SessionFault::Deaf, "backchannel:");
}

#[test]
fn simulation_detects_two_delegation_holders() {
    assert_found(SessionFault::UseReturnedDelegation, "delegations:");
}

#[test]
fn simulation_detects_use_of_revoked_state() {
    assert_found(SessionFault::Hold, "delegations:");
}
