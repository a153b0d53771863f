//! The cache of metadata tells nobody what is not so; `cargo xtask sim --kind cache` runs
//! more. What is printed with a failure repeats it.

use sim::cache::{Fault, run};
use std::collections::BTreeMap;

/// Seeds of one test.
const SEEDS: u64 = 1000;
/// Seeds within which what is done wrong on purpose must be found.
const FAULT_SEEDS: u64 = 1000;

fn run_all(seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::new();
    for seed in seeds {
        match run(seed, None) {
            Ok((_, hits)) => {
                hits.into_iter().for_each(|(kind, hits)| *all.entry(kind).or_default() += hits);
            }
            Err(failure) => {
                panic!("{failure}\nagain: cargo xtask sim --seeds 1 --from {seed} --kind cache")
            }
        }
    }
    all
}

#[test]
fn what_is_told_from_memory_is_what_would_have_been_found() {
    let hits = run_all(0..SEEDS);
    // What is never told from memory is not looked at either; the tree has no streams.
    for (kind, hits) in hits.into_iter().filter(|(kind, _)| *kind != "streams") {
        assert!(hits > SEEDS, "{kind}: {hits}");
    }
}

#[test]
fn what_else_is_told_from_memory_is_what_would_have_been_found() {
    run_all(1_000_000..1_000_000 + SEEDS);
}

#[test]
fn a_seed_repeats_a_run_of_the_cache_in_every_step() {
    for seed in 0..20 {
        assert_eq!(run(seed, None), run(seed, None));
    }
    let failed = (0..FAULT_SEEDS).find(|seed| run(*seed, Some(Fault::Removed)).is_err());
    let failed = failed.expect("one is found");
    assert_eq!(run(failed, Some(Fault::Removed)), run(failed, Some(Fault::Removed)));
}

fn assert_found(fault: Fault) {
    let found = (0..FAULT_SEEDS).find_map(|seed| run(seed, Some(fault)).err());
    let found = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
    println!("{fault:?}: seed {}", found.seed);
}

#[test]
fn a_new_name_that_is_not_heard_would_be_found() {
    assert_found(Fault::Added);
}

#[test]
fn permissions_whose_change_is_not_heard_would_be_found() {
    assert_found(Fault::Attributes);
}

#[test]
fn a_path_that_is_not_forgotten_when_it_is_renamed_would_be_found() {
    assert_found(Fault::Removed);
}

#[test]
fn a_listing_that_is_not_forgotten_would_be_found() {
    assert_found(Fault::Listing);
}

#[test]
fn a_listing_without_a_mark_would_be_found() {
    assert_found(Fault::Unfollowed);
}
