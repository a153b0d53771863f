//! Clients of both protocols on the same files; `cargo xtask sim --kind both` runs more seeds. The
//! seed printed with a failure repeats it.

use sim::both::{MixedCounts, MixedFault, run};

/// Seeds of one run.
const SEEDS: u64 = 600;
/// Maximum number of seeds until a deliberate fault must be detected.
const FAULT_SEEDS: u64 = 2000;

#[test]
fn clients_of_both_protocols_see_consistent_state() {
    let mut counts = MixedCounts::default();
    for seed in 0..SEEDS {
        match run(seed, None) {
            Ok((_, of_run)) => counts.add(&of_run),
            Err(failure) => {
                panic!("{failure}\nagain: cargo xtask sim --seeds 1 --from {seed} --kind both")
            }
        }
    }
    // An event that never happens would go untested.
    for (name, count) in counts.named() {
        assert!(count > 10, "{name}: {count}");
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
fn assert_found(fault: MixedFault, why: &str) {
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
fn simulation_detects_conflicting_share_modes() {
    assert_found(MixedFault::Share, "share modes:");
}

#[test]
fn simulation_detects_use_of_an_acknowledged_lease() {
    assert_found(MixedFault::Acknowledge, "caching:");
}

#[test]
fn simulation_detects_use_of_a_returned_delegation() {
    assert_found(MixedFault::UseReturnedDelegation, "caching:");
}

#[test]
fn simulation_detects_two_lock_holders() {
    assert_found(MixedFault::Unlock, "locks:");
}

#[test]
fn simulation_detects_data_that_was_never_written() {
    assert_found(MixedFault::Write, "data:");
}

#[test]
fn simulation_detects_a_missing_name() {
    assert_found(MixedFault::Remove, "names:");
}

#[test]
fn simulation_detects_a_missing_change_notification() {
    assert_found(MixedFault::Watch, "watching:");
}

#[test]
fn simulation_detects_a_leaked_open() {
    assert_found(MixedFault::Close, "end:");
}

#[test]
fn simulation_detects_isolated_protocols() {
    for why in ["share modes:", "caching:", "locks:", "watching:"] {
        assert_found(MixedFault::Apart, why);
    }
}
