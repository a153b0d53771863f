//! Operations: a module for each, or for a group that shares its rules.
//!
//! Imports `request`, `callback`, `encoding` and the rooms below them. Only `compound` imports it.

pub mod allocate;
pub mod attributes;
pub mod clone;
pub mod close;
pub mod commit;
pub mod copy;
pub mod create;
pub mod delegation;
pub mod handle;
pub mod io_advise;
pub mod link;
pub mod lock;
pub mod lookup;
pub mod names;
pub mod open;
pub mod paid_open;
pub mod read;
pub mod read_plus;
pub mod readdir;
pub mod readlink;
pub mod remove;
pub mod rename;
pub mod secinfo;
pub mod seek;
pub mod session;
pub mod state;
pub mod write;
pub mod xattr;
