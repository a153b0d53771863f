//! Copies files and trees between local directories, SMB shares and NFS exports.
//!
//! [`Side`] is one of the three, [`run`] performs the copy. Large files go in blocks, many of them
//! in flight at once and over all connections. Small files go whole, in one or two frames. A file
//! gets its final name once it is complete. A journal ([`journal`]) records the acknowledged blocks
//! of a large file, so that the next run resumes there.
//!
//! The rules are functions of their arguments: [`filter`], [`decide`], [`ranges`], [`journal`],
//! [`names`], [`pairs`], [`smb_names`]. The crate deliberately has no argument parsing and no printing, and reads neither the
//! wall clock nor the environment.
#![forbid(unsafe_code)]

pub mod decide;
mod error;
mod extras;
pub mod filter;
mod gather;
mod handle;
mod item;
mod job;
pub mod journal;
mod large;
pub mod limits;
mod links;
mod local;
mod local_acl;
mod mirror;
pub mod names;
mod nfs;
mod options;
pub mod pairs;
pub mod ranges;
mod read_rate;
mod sessions;
mod side;
mod small;
mod smb;
mod smb_links;
pub mod smb_names;
mod tally;
mod tree;

pub use error::{Error, Failure};
pub use filter::Filter;
pub use item::{CopyItem, ItemFacts, ItemKind, LinkTarget};
pub use options::{CopyOptions, LinkPolicy};
pub use side::{Side, SidePath};
pub use tally::{CopyTally, JobProgress, Summary};
pub use tree::run;
