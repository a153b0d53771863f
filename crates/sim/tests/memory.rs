//! Memory of an open under a lease, counted by the allocator. A test binary of its own, because the
//! allocator counts the complete process.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use peak_alloc::PeakAlloc;
use sim::crowd::{Crowd, CrowdOpen};
use wire::ntstatus::NtStatus;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const OPENS: u32 = 100_000;
const BYTES_MAX: usize = 2048;

#[test]
fn opens_under_leases_cost_at_most_two_kib_each() {
    let mut crowd = Crowd::new(1).unwrap();
    // The files themselves belong to the backend.
    crowd.make_files(OPENS).unwrap();
    let before = ALLOCATOR.current_usage();
    for file in 0..OPENS {
        crowd.ask_open(0, CrowdOpen { file, key: file.into(), lease: Some(7), share: 7 });
        assert_eq!(crowd.serve(0).unwrap().replies[0].0, NtStatus::SUCCESS);
    }
    let each = (ALLOCATOR.current_usage() - before) / OPENS as usize;
    println!("{each} bytes for each of {OPENS} opens under leases");
    assert!(each <= BYTES_MAX, "{each}");
}
