//! One module a command. Each decodes its request, calls `files`, and writes its response.
//! Decisions that concern every protocol belong to `files`.

pub mod change_notify;
pub mod close;
pub mod create;
pub mod dispatch;
pub mod echo;
pub mod flush;
mod info_classes;
pub mod ioctl;
pub mod lock;
pub mod logoff;
pub mod oplock_break;
pub mod query_directory;
pub mod query_info;
pub mod read;
pub mod set_info;
pub mod tree_connect;
pub mod tree_disconnect;
pub mod write;
