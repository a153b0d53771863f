//! Fuzz targets: every decoder of untrusted bytes, as a plain function of bytes, and whole
//! connections.
//!
//! A target must not panic, exceed its memory limit or take long; it asserts its other properties
//! itself. [`driver`] runs the targets in `cargo test` over a corpus and deterministic mutations of
//! it. `cargo xtask fuzz` runs the same functions under libFuzzer, which searches for new paths and
//! inputs for the corpus.
#![forbid(unsafe_code)]
// A target fails by a panic.
#![allow(clippy::unwrap_used)]

pub mod corpus;
pub mod driver;
pub mod hostile;
pub mod mutate;
pub mod targets;

/// Measures the memory use of a target.
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// A function to be run with arbitrary bytes.
#[derive(Clone, Copy, Debug)]
pub struct FuzzFunction {
    /// The name of the target and of its corpus.
    pub name: &'static str,
    /// Creates what every input uses: it is no input's memory. Repeated calls do nothing.
    pub set_up: fn(),
    /// Runs an input; panics on a violated property.
    pub run: fn(&[u8]),
    /// Memory limit in bytes, for an input of so many bytes.
    pub memory_bytes_max: fn(usize) -> usize,
    /// Mutated inputs in one run of the tests.
    pub rounds: u32,
}

/// The target with this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static FuzzFunction> {
    targets::TARGETS.iter().find(|target| target.name == name)
}
