//! State that outlives the process: the state directory and the files in it.
//!
//! May import `limits` only; knows the records' owners by their bytes.

pub mod archive;
pub mod directory;
pub mod format;
pub mod journal;
pub mod nfs_identity;
pub mod nfs_records;
pub mod sid_pins;
pub mod usual_networks;
