//! Stage 3: from a path to a node.

use super::{IfExists, Opening, READS, WANTED, WRITES};
use acl::Access;
use vfs::{FsError, OpenHow, Opened, Result, Wait, Wanted};

/// A node that is there.
pub(super) struct Found {
    pub opened: Opened,
    /// The handle can read data, or list.
    pub reads: bool,
    /// The handle can write data.
    pub writes: bool,
}

impl Opening {
    /// Finds the node and opens it for what may be granted.
    pub(super) fn resolve(&self, wait: Wait) -> Result<Found> {
        let maximum = self.desired.contains(Access::MAXIMUM_ALLOWED);
        let data = maximum || self.replaces();
        let of_stream = self.plan.stream.is_some();
        // A collision is found without looking inside, unless it is in a file.
        let looks = self.plan.if_exists != IfExists::Fail || of_stream;
        // Removing a stream is writing to its file.
        let writes = if of_stream { WRITES | Access::DELETE } else { WRITES };
        let needs_write = self.desired.intersects(writes) || self.replaces();
        let mut how = OpenHow {
            read: looks && (data || self.desired.intersects(READS | Access::APPEND_DATA)),
            write: looks && !self.volume.options.read_only && (maximum || needs_write),
            case: self.volume.options.case,
            wanted: WANTED,
            no_follow: self.plan.no_follow,
            wait,
        };
        // As much as POSIX allows, where as much as possible is asked for.
        loop {
            match self.volume.vfs.open(&self.caller.identity, &self.plan.path, how) {
                Err(FsError::AccessDenied | FsError::ReadOnly) if how.write && !needs_write => {
                    how.write = false
                }
                Err(FsError::AccessDenied)
                    if how.read && maximum && !self.desired.intersects(READS) =>
                {
                    how.read = false;
                }
                other => return Ok(Found { opened: other?, reads: how.read, writes: how.write }),
            }
        }
    }

    /// The directory that the name is in.
    ///
    /// # Errors
    /// [`FsError::PathNotFound`]; [`FsError::AccessDenied`] for the root, which is in none.
    pub(super) fn parent(&self) -> Result<Opened> {
        let (parent, _) = self.plan.path.split().ok_or(FsError::AccessDenied)?;
        let how = OpenHow {
            read: false,
            write: false,
            case: self.volume.options.case,
            wanted: Wanted::default(),
            no_follow: false,
            wait: Wait::Allowed,
        };
        match self.volume.vfs.open(&self.caller.identity, &parent, how) {
            Err(FsError::NotFound) => Err(FsError::PathNotFound),
            other => other,
        }
    }
}
