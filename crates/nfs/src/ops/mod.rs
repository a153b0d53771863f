//! Operations, one module for each group.

pub mod attributes;
pub mod copy;
pub mod data;
pub mod delegate;
pub mod directory;
pub mod handle;
pub mod lock;
pub mod open;
pub mod paid_open;
pub mod readdir;
pub mod security;
pub mod session;
pub mod space;
pub mod state;
pub mod xattr;
