//! A bounded number of seeds; `cargo xtask sim` runs more.

/// Seeds of one test: both together take some ten seconds.
const SEEDS: u64 = 120;

fn run(from: u64) {
    for seed in from..from + SEEDS {
        if let Err(failure) = sim::run(seed) {
            panic!("{failure}");
        }
    }
}

#[test]
fn what_clients_are_told_can_have_come_about() {
    run(0);
}

#[test]
fn what_other_clients_are_told_can_have_come_about() {
    run(1_000_000);
}

#[test]
fn a_seed_repeats_a_run_in_every_step() {
    for seed in [3, 71, 261] {
        assert_eq!(sim::run(seed), sim::run(seed));
    }
}
