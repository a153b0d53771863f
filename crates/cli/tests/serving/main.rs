//! The built server as a process: start, end, administration, state, hostile connections.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod admin;
mod confinement;
mod first_user;
mod hoarding;
mod hostile;
mod kill;
mod logging;
mod serve;
mod state;
mod supervisor;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
