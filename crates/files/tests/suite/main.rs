//! The file layer over a local directory, through its public interface.
//!
//! One program, so that it links once, with one module for each subject. Tests that need root are
//! skipped without it.
#![allow(clippy::unwrap_used)]

mod access;
mod attributes;
mod create;
mod delegations;
mod frozen_times;
mod harness;
mod holes;
mod leases;
mod locks;
mod model;
mod moving_names;
mod names;
mod object_renames;
mod objects;
mod objects_model;
mod open_journal;
mod oplocks;
mod posix;
mod quotas;
mod races;
mod ranges;
mod removal;
mod rename;
mod reparse;
mod restore;
mod security;
mod sharing;
mod snapshots;
mod streams;
mod streams_model;
mod swapped_directories;
mod watch;
mod watch_data;
