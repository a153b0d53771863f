//! Every target over its corpus and a deterministic set of mutations, so that a failure repeats
//! everywhere.

use fuzz::{FuzzFunction, corpus, driver, targets::TARGETS};
use std::sync::Mutex;

const SEED: u64 = 1;

/// Memory is measured for the process, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn every_decoder_stays_within_memory_and_time_on_any_bytes() {
    let _alone = ALONE.lock();
    let mut failures = Vec::new();
    // One target only, as for `cargo xtask fuzz`.
    let only = std::env::var("ANABRANCH_FUZZ_TARGET").ok();
    let wanted = |target: &&FuzzFunction| only.as_ref().is_none_or(|only| only == target.name);
    for target in TARGETS.iter().filter(wanted) {
        let start = std::time::Instant::now();
        let inputs = corpus::load(target.name).unwrap();
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        failures.extend(driver::run(target, &inputs, SEED).err());
        println!("{}: {} inputs, {:?}", target.name, inputs.len(), start.elapsed());
    }
    fuzz::targets::remove_files();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The driver itself detects failures.
#[test]
fn driver_finds_a_panic_and_a_large_buffer() {
    let _alone = ALONE.lock();
    let target = |run: fn(&[u8])| FuzzFunction {
        set_up: || (),
        name: "made up",
        run,
        memory_bytes_max: |input| 1024 + input,
        rounds: 2000,
    };
    let panics = target(|input| assert!(input.first() != Some(&0xFF)));
    let grows = target(|input| drop(vec![0; usize::from(input.len() == 3) * 4096]));
    let corpus = [vec![0x7F, 1, 2, 3]];
    assert!(driver::run(&panics, &corpus, SEED).unwrap_err().contains("\nff"));
    assert!(driver::run(&grows, &corpus, SEED).is_err());
    assert_eq!(driver::run(&target(|_| ()), &corpus, SEED), Ok(()));
}
