//! Tests that read clocks, memory or CPU time, or that keep both CPUs busy: each runs alone in its
//! turn, by `support::MeasuringTurn`.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod chaos;
mod idle;
mod idle_channels;
mod limits;
mod limits_cost;
mod staleness;
#[path = "../support/mod.rs"]
mod support;
