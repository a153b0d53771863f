//! A bounded number of seeds; `cargo xtask sim` runs more.

/// Seeds per test: both tests together take some ten seconds.
const SEEDS: u64 = 120;

fn run(from: u64) {
    for seed in from..from + SEEDS {
        if let Err(failure) = sim::run(seed) {
            panic!("{failure}");
        }
    }
}

#[test]
fn replies_are_linearizable() {
    run(0);
}

#[test]
fn replies_are_linearizable_for_more_seeds() {
    run(1_000_000);
}

#[test]
fn seed_repeats_its_run_in_every_step() {
    for seed in [3, 71, 261] {
        assert_eq!(sim::run(seed), sim::run(seed));
    }
}
