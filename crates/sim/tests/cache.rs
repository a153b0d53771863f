//! The metadata cache is never stale; `cargo xtask sim --kind cache` runs more seeds. The seed
//! printed with a failure repeats it.

use sim::cache::{CacheFault, run};
use std::collections::BTreeMap;

/// Seeds of one test.
const SEEDS: u64 = 1000;
/// Maximum number of seeds until a deliberate fault must be detected.
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
fn cached_results_equal_uncached_ones() {
    let hits = run_all(0..SEEDS);
    // A kind without hits would go untested; the tree has no streams.
    for (kind, hits) in hits.into_iter().filter(|(kind, _)| *kind != "streams") {
        assert!(hits > SEEDS, "{kind}: {hits}");
    }
}

#[test]
fn cached_results_equal_uncached_ones_for_more_seeds() {
    run_all(1_000_000..1_000_000 + SEEDS);
}

#[test]
fn cache_seed_repeats_its_run() {
    for seed in 0..20 {
        assert_eq!(run(seed, None), run(seed, None));
    }
    let failed = (0..FAULT_SEEDS).find(|seed| run(*seed, Some(CacheFault::Removed)).is_err());
    let failed = failed.expect("one is found");
    assert_eq!(run(failed, Some(CacheFault::Removed)), run(failed, Some(CacheFault::Removed)));
}

fn assert_found(fault: CacheFault) {
    let found = (0..FAULT_SEEDS).find_map(|seed| run(seed, Some(fault)).err());
    let found = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
    println!("{fault:?}: seed {}", found.seed);
}

#[test]
fn simulation_detects_a_dropped_add_event() {
    assert_found(CacheFault::Added);
}

#[test]
fn simulation_detects_a_dropped_permission_event() {
    assert_found(CacheFault::Attributes);
}

#[test]
fn simulation_detects_a_stale_path_after_a_rename() {
    assert_found(CacheFault::Removed);
}

#[test]
fn simulation_detects_a_stale_listing() {
    assert_found(CacheFault::Listing);
}

#[test]
fn simulation_detects_an_unwatched_listing() {
    assert_found(CacheFault::Unfollowed);
}
