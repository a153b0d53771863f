//! SMB and NFS against the built server: names, opens, locks, streams, channels, recorded clients.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod apple;
mod channels;
mod durable;
mod field;
mod file_systems;
mod frozen_times;
mod long_streams;
mod metadata;
mod metering;
mod nfs;
mod nfs_tls;
mod persistent;
mod posix;
mod protocols;
mod sealing;
mod storage;
#[path = "../support/mod.rs"]
mod support;
mod traces;
mod unheard;
