//! Storage backend for a directory on Linux.
//!
//! Owns file descriptors and all system calls on them. Knows no protocol. Beside the other backends
//! it is the only crate with `unsafe`, and each block states why it is sound. Paths are resolved by
//! `openat2` with RESOLVE_BENEATH, so that neither a client's path nor a symbolic link leads out of
//! the directory.
//!
//! Layers, each of which imports only those before it: calls on descriptors (`attribute_calls`,
//! `inotify`, `resolve`, `xattrs`); an open node (`local_node`); what is stored with a node
//! (`posix_acl`, `security`, `streams`, `stream_store`, `times`); the interface of nodes (`node`) and of
//! the tree (`tree`).
//!
//! If the process runs as root, calls with an identity run with that user's credentials (see
//! [`identity`]), so that the kernel checks the permissions.
#![allow(unsafe_code)]

mod attribute_calls;
mod case;
mod changes;
mod children;
mod clock;
mod compression;
mod creation;
mod dos_attributes;
mod errors;
mod features;
mod group_mark;
mod handle_notes;
mod handles;
mod identity;
mod inotify;
mod listing;
mod listing_changes;
mod local_node;
mod location;
mod noatime;
mod node;
mod ntacl;
mod outside;
mod packing;
mod posix_acl;
mod public_look;
mod quota;
mod resident;
mod resolve;
mod rights;
mod security;
mod snapshots;
mod stamp_clock;
mod stream_store;
mod streams;
mod times;
mod tree;
mod umask;
mod unreported_change;
mod xattr_names;
mod xattr_notes;
mod xattrs;

pub use case::scans;
pub use clock::{ClockState, clock_state};
pub use identity::{heed_limits, keep_identity, rest_as_process, rest_without_power};
pub use snapshots::{
    LocalSnapshots, NameFormat, NameFormatError, SNAPSHOTS_MAX, SnapshotNaming, SnapshotPlace,
};
pub use stream_store::StreamInventory;
pub use tree::{LocalVfs, OpenError};
