//! What a copy does beside the data.

use crate::filter::Filter;
use std::path::PathBuf;

/// Options of one copy.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much goes on at once: see [`crate::limits`].
    pub threads: usize,
    /// Times are kept.
    pub times: bool,
    /// DOS attributes or permission bits are kept, where both sides have them.
    pub attributes: bool,
    /// Named streams are copied: from SMB to SMB.
    pub streams: bool,
    /// Access lists are copied: from SMB to SMB.
    pub acls: bool,
    /// Which files.
    pub filter: Filter,
    /// What only the target has is removed.
    pub deletes: bool,
    /// Nothing is changed; what would be done is told.
    pub dry_run: bool,
    /// What was written is read back and compared.
    pub verify: bool,
    /// A large file is on stable storage before its journal goes, and all of a local target before
    /// the copy ends.
    pub sync: bool,
    /// The server copies where both sides are one.
    pub offload: bool,
    /// Folder of the journals; without one nothing is resumed.
    pub state: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 8,
            times: true,
            attributes: false,
            streams: false,
            acls: false,
            filter: Filter::default(),
            deletes: false,
            dry_run: false,
            verify: false,
            sync: true,
            offload: true,
            state: None,
        }
    }
}
