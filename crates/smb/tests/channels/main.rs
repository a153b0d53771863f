//! Sessions with several connections: what binds, what is refused, and what the
//! end of each part leaves to the others. Every order of events is made on purpose.
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
mod persistent;
mod refused;
mod renewal;
mod replay;
mod returning;
mod slow;
mod tickets;
mod together;
