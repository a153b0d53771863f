//! SMB clients with several channels, whose opens survive connections and the server; `cargo xtask
//! sim` runs more seeds. The seed printed with a failure repeats it.

use sim::channels::{ChannelCounts, ChannelFault, run};

/// Seeds of the two kinds of runs.
const SEEDS: u64 = 5000;
const SCHEDULES: u64 = 200;
/// Maximum number of seeds until a deliberate fault must be detected.
const FAULT_SEEDS: u64 = 4000;

fn run_all(seeds: std::ops::Range<u64>, is_about_channels: bool) -> ChannelCounts {
    let kind = if is_about_channels { "schedules" } else { "channels" };
    let mut counts = ChannelCounts::default();
    for seed in seeds {
        match run(seed, is_about_channels, None) {
            Ok((_, of_run)) => counts.add(&of_run),
            Err(failure) => {
                panic!("{failure}\nagain: cargo xtask sim --seeds 1 --from {seed} --kind {kind}")
            }
        }
    }
    counts
}

#[test]
fn multichannel_clients_see_consistent_state() {
    let counts = run_all(0..SEEDS / 2, false);
    // An event that never happens would go untested.
    for (name, count) in counts.named() {
        assert!(count > 4, "{name}: {count}");
    }
}

#[test]
fn multichannel_clients_stay_consistent_for_more_seeds() {
    run_all(SEEDS / 2..SEEDS, false);
}

#[test]
fn any_channel_schedule_preserves_what_clients_know() {
    let counts = run_all(0..SCHEDULES, true);
    let counted = [
        counts.bound,
        counts.refused_binds,
        counts.cut,
        counts.given_up,
        counts.replayed,
        counts.renewed,
        counts.logged_off,
    ];
    assert!(counted.iter().all(|count| *count > 50), "{counts:?}");
}

/// Seeds with late requests, late replies and dropped CreateGuids.
#[test]
fn former_false_alarms_pass() {
    for (seed, is_about_channels) in
        [(2539, false), (439, true), (689, true), (1347, true), (1541, true), (1972, true)]
    {
        run(seed, is_about_channels, None).unwrap();
    }
}

#[test]
fn seed_repeats_its_run_in_every_step() {
    for (seed, is_about_channels) in [(3, false), (71, false), (5, true)] {
        let again = run(seed, is_about_channels, None);
        assert_eq!(run(seed, is_about_channels, None), again);
    }
}

/// Checks that a run with a fault fails for this reason. In other runs a consequence may be
/// detected first, for instance a lock that is granted because its holder was dropped.
fn assert_found(fault: ChannelFault, why: &str) {
    let is_found = (0..FAULT_SEEDS)
        .any(|seed| run(seed, false, Some(fault)).is_err_and(|found| found.what.contains(why)));
    assert!(is_found, "{fault:?} is not found as {why}");
}

#[test]
fn simulation_detects_two_cache_holders() {
    assert_found(ChannelFault::Acknowledge, "caching:");
}

#[test]
fn simulation_detects_an_ignored_break() {
    assert_found(ChannelFault::Notice, "caching:");
}

#[test]
fn simulation_detects_violated_share_modes() {
    assert_found(ChannelFault::Share, "share modes:");
}

#[test]
fn simulation_detects_two_lock_holders() {
    assert_found(ChannelFault::Lock, "locks:");
}

#[test]
fn simulation_detects_a_lost_write() {
    assert_found(ChannelFault::Write, "data:");
}

#[test]
fn simulation_detects_an_open_given_to_another_user() {
    assert_found(ChannelFault::User, "users:");
}

#[test]
fn simulation_detects_a_lost_persistent_open() {
    assert_found(ChannelFault::Journal, "persistence:");
}

#[test]
fn simulation_detects_a_create_executed_twice() {
    assert_found(ChannelFault::Replay, "");
}

#[test]
fn simulation_detects_a_channel_lost_to_a_refused_bind() {
    assert_found(ChannelFault::Bind, "");
}
