//! Clients of both protocols on the same files; `cargo xtask sim --kind both` runs more. What is
//! printed with a failure repeats it.

use sim::both::{Counts, Fault, run};

/// Seeds of one run.
const SEEDS: u64 = 300;
/// Seeds within which what is done wrong on purpose must be found.
const FAULT_SEEDS: u64 = 2000;

#[test]
fn what_clients_of_both_protocols_are_told_can_be_together() {
    let mut counts = Counts::default();
    for seed in 0..SEEDS {
        match run(seed, None) {
            Ok((_, of_run)) => counts.add(&of_run),
            Err(failure) => {
                panic!("{failure}\nagain: cargo xtask sim --seeds 1 --from {seed} --kind both")
            }
        }
    }
    // What does not happen is not looked at either.
    for (name, count) in counts.named() {
        assert!(count > 10, "{name}: {count}");
    }
}

#[test]
fn a_seed_repeats_a_run_in_every_step() {
    for seed in [3, 71] {
        let again = run(seed, None);
        assert_eq!(run(seed, None), again);
    }
}

/// Runs with a fault are judged wrong, some for this reason.
fn assert_found(fault: Fault, why: &str) {
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
fn two_opens_that_deny_each_other_would_be_found() {
    assert_found(Fault::Share, "share modes:");
}

#[test]
fn a_lease_that_is_used_after_it_was_given_back_would_be_found() {
    assert_found(Fault::Acknowledge, "caching:");
}

#[test]
fn a_delegation_that_is_used_after_it_was_given_back_would_be_found() {
    assert_found(Fault::GiveBack, "caching:");
}

#[test]
fn two_holders_of_a_range_would_be_found() {
    assert_found(Fault::Unlock, "locks:");
}

#[test]
fn data_that_nobody_wrote_would_be_found() {
    assert_found(Fault::Write, "data:");
}

#[test]
fn a_name_that_is_not_found_would_be_found() {
    assert_found(Fault::Remove, "names:");
}

#[test]
fn who_is_not_told_of_a_name_that_they_watch_would_be_found() {
    assert_found(Fault::Watch, "watching:");
}

#[test]
fn what_stays_open_in_the_end_would_be_found() {
    assert_found(Fault::Close, "end:");
}

#[test]
fn protocols_that_do_not_know_of_each_other_would_be_found() {
    for why in ["share modes:", "caching:", "locks:", "watching:"] {
        assert_found(Fault::Apart, why);
    }
}
