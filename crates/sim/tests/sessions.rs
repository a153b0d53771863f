//! NFS clients with several connections to one session; `cargo xtask sim --kind sessions` runs
//! more. What is printed with a failure repeats it.

use sim::sessions::{Counts, Fault, run};

/// Seeds of one run.
const SEEDS: u64 = 400;
/// Seeds within which what is done wrong on purpose must be found.
const FAULT_SEEDS: u64 = 500;

#[test]
fn each_request_happens_once_whatever_connections_are_lost() {
    let mut counts = Counts::default();
    for seed in 0..SEEDS {
        match run(seed, None) {
            Ok((_, of_run)) => counts.add(&of_run),
            Err(failure) => {
                panic!("{failure}\nagain: cargo xtask sim --seeds 1 --from {seed} --kind sessions")
            }
        }
    }
    // What does not happen is not looked at either.
    for (name, count) in counts.named() {
        assert!(count > 2, "{name}: {count}");
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
fn a_server_that_keeps_no_answers_would_be_found() {
    assert_found(Fault::Again, "once:");
}

#[test]
fn slots_beyond_what_was_agreed_would_be_found() {
    assert_found(Fault::Slots, "sessions:");
}

#[test]
fn a_backchannel_that_stays_lost_would_be_found() {
    assert_found(Fault::Deaf, "backchannel:");
}

#[test]
fn two_holders_of_a_delegation_would_be_found() {
    assert_found(Fault::GiveBack, "delegations:");
}

#[test]
fn who_goes_on_with_what_it_lost_while_it_was_away_would_be_found() {
    assert_found(Fault::Hold, "delegations:");
}
