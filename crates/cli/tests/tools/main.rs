//! The tools beside the server: copy, bench, probe, client library, doctor, import, and the output
//! of the command line.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod bench;
mod bench_report;
mod check;
mod client;
mod commands;
mod copy;
mod copy_kills;
mod copy_links;
mod copy_names;
mod doctor;
mod import;
mod json_output;
mod probe;
#[path = "../support/mod.rs"]
mod support;
