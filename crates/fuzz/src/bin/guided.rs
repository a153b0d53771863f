//! Runs the target named by ANABRANCH_FUZZ_TARGET under libFuzzer. `cargo xtask fuzz` builds and
//! starts it with the necessary compiler options.
#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<fuzz::FuzzFunction> = LazyLock::new(|| {
    let name = std::env::var("ANABRANCH_FUZZ_TARGET").expect("cargo xtask fuzz sets it");
    *fuzz::target(&name).expect("cargo xtask fuzz names one that exists")
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::driver::check(&TARGET, input));
