//! Options of a copy.

use crate::filter::Filter;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// The treatment of symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkPolicy {
    /// Copies the files and directories that links lead to.
    Follow,
    /// Copies links as links.
    Keep,
    /// Leaves links out, and names them.
    #[default]
    Skip,
    /// Leaves links out without a message.
    SkipSilently,
}

/// Options of one copy.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Parallelism: [`crate::limits`] has the files and blocks in flight for each thread.
    pub threads: usize,
    /// Preserves times.
    pub times: bool,
    /// Preserves DOS attributes or permission bits, where both sides have them.
    pub attributes: bool,
    /// Copies named streams, from SMB to SMB only.
    pub streams: bool,
    /// Copies owner, group and access lists, from SMB to SMB and between local directories.
    pub acls: bool,
    /// The treatment of symbolic links.
    pub links: LinkPolicy,
    /// Reports each file that is copied.
    pub verbose: bool,
    /// Selects the files.
    pub filter: Filter,
    /// Removes entries that only the target has.
    pub deletes: bool,
    /// Changes nothing and reports the actions instead.
    pub dry_run: bool,
    /// Reads the written data back and compares it.
    pub verify: bool,
    /// Syncs each large file before its journal is removed, and all of a local target before the copy
    /// ends.
    pub sync: bool,
    /// Uses server-side copy where both sides are in one session.
    pub offload: bool,
    /// Most bytes that are read from the source in a second, over all files.
    pub bytes_per_second: Option<NonZeroU64>,
    /// Further attempts at a file that is in use or changes.
    pub retries: u32,
    /// Pause before each of them.
    pub retry_wait: Duration,
    /// Directory of the journals; without one no copy is resumed.
    pub state: Option<PathBuf>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            threads: 8,
            times: true,
            attributes: false,
            streams: false,
            acls: false,
            links: LinkPolicy::default(),
            verbose: false,
            filter: Filter::default(),
            deletes: false,
            dry_run: false,
            verify: false,
            sync: true,
            offload: true,
            bytes_per_second: None,
            retries: 2,
            retry_wait: Duration::from_secs(1),
            state: None,
        }
    }
}
