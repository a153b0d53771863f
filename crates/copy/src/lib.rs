//! Copies files and trees between local directories, SMB shares and NFS exports.
//!
//! [`Side`] is one of the three, [`run`] the copy. Large files go in blocks, many
//! under way at once and over all connections; small ones whole, by one or two
//! frames. Nothing has its final name before it is whole. What was copied of a
//! large file is kept in a journal ([`journal`]), by which the next run goes on.
//!
//! The rules are functions of their arguments: [`filter`], [`decide`], [`ranges`],
//! [`journal`], [`names`]. Absent on purpose: arguments, printing, the wall
//! clock, the environment.
#![forbid(unsafe_code)]

pub mod decide;
mod error;
mod extras;
pub mod filter;
mod gather;
mod item;
pub mod journal;
mod large;
pub mod limits;
mod local;
pub mod names;
mod nfs;
mod options;
pub mod ranges;
mod sessions;
mod side;
mod small;
mod smb;
mod tally;
mod tree;

pub use error::{Error, Failure};
pub use filter::Filter;
pub use item::{Facts, Item, Kind};
pub use options::Options;
pub use side::{Place, Side};
pub use tally::{Progress, Summary, Tally};
pub use tree::run;
