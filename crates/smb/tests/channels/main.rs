//! Sessions with several connections: binding, refusals, and the effects of each part's end on the
//! others. Each test chooses its order of events.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod absent;
mod agreement;
mod binding;
mod chaos;
mod disk;
mod ending;
mod file_rules;
mod guessing;
mod harness;
mod index;
mod looking;
mod persistent;
mod refused;
mod renewal;
mod replay;
mod returning;
mod slow;
mod tickets;
mod together;
