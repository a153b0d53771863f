//! Fuzz targets: every decoder of what others send, each a plain function of
//! bytes, and the connection that is built on them.
//!
//! A target must not panic, must not use more memory than its limit, and must
//! not take long; what else must hold it asserts itself. [`driver`] runs them in
//! `cargo test` over a kept corpus and mutations of it, always the same ones;
//! `cargo xtask fuzz` runs the same functions under libFuzzer, which looks for
//! new ways through the code and finds inputs worth keeping.
#![forbid(unsafe_code)]
// A target fails by a panic.
#![allow(clippy::unwrap_used)]

pub mod corpus;
pub mod driver;
pub mod hostile;
pub mod mutate;
pub mod targets;

/// Counts what a target uses.
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// Something to be tried with any bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its corpus.
    pub name: &'static str,
    /// Panics if a property does not hold.
    pub run: fn(&[u8]),
    /// Memory that it may use for an input of so many bytes, in bytes.
    pub memory_bytes_max: fn(usize) -> usize,
    /// Mutated inputs in one run of the tests.
    pub rounds: u32,
}

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    targets::TARGETS.iter().find(|target| target.name == name)
}
