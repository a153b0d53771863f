//! Stage 3: from a path to a node.

use super::place::Place;
use super::{IfExists, IfMissing, Opening, READS, WRITES};
use crate::authorize::{InForce, rights_to};
use crate::server_work::WANTED;
use acl::{Access, ExecuteRule};
use std::sync::Arc;
use vfs::{
    Actor, FileKind, FsError, KnownOpen, KnownSecurity, OpenHow, Opened, Result, ServerWork, Wait,
    Wanted,
};

/// A node that is there.
pub(super) struct Found {
    pub opened: Opened,
    /// Known of it beside.
    pub security: Option<Arc<KnownSecurity>>,
    /// The handle can read data, or list.
    pub reads: bool,
    /// The handle can write data.
    pub writes: bool,
}

impl Opening {
    /// Finds the node and opens it for what may be granted.
    pub(super) fn resolve(&self, wait: Wait) -> Result<Found> {
        let maximum = self.desired.contains(Access::MAXIMUM_ALLOWED);
        let of_stream = self.plan.stream.is_some();
        // A collision is found without looking inside, unless it is in a file.
        let looks = self.plan.if_exists != IfExists::Fail || of_stream;
        // Removing a stream is writing to its file.
        let writes = if of_stream { WRITES | Access::DELETE } else { WRITES };
        // Whoever only writes to a file may not be let read it.
        let reads = if of_stream { READS | Access::APPEND_DATA } else { READS };
        let needs_read = self.desired.intersects(reads) || (of_stream && self.replaces());
        let needs_write = self.desired.intersects(writes) || self.replaces();
        let mut how = OpenHow {
            read: looks && (maximum || needs_read),
            write: looks && !self.volume.is_unchangeable() && (maximum || needs_write),
            case: self.case(),
            wanted: if self.removes_by_directory { Wanted::default() } else { WANTED },
            no_follow: self.plan.no_follow || self.is_posix(),
            wait,
        };
        // As much as POSIX allows, where as much as possible is asked for.
        let asked = how;
        loop {
            match self.open_known(self.user(), how) {
                Err(FsError::AccessDenied) if how == asked && (how.read || how.write) => {
                    match self.resolve_beyond_mode(how, maximum)? {
                        Some(found) => return Ok(found),
                        None if how.write && !needs_write => how.write = false,
                        None if how.read && maximum && !self.desired.intersects(READS) => {
                            how.read = false;
                        }
                        None => return self.resolve_to_add(how),
                    }
                }
                Err(FsError::AccessDenied | FsError::ReadOnly) if how.write && !needs_write => {
                    how.write = false
                }
                Err(FsError::AccessDenied)
                    if how.read && maximum && !self.desired.intersects(READS) =>
                {
                    how.read = false;
                }
                Err(FsError::AccessDenied) if how.write => return self.resolve_to_add(how),
                other => {
                    let KnownOpen { opened, security } = other?;
                    return Ok(Found { opened, security, reads: how.read, writes: how.write });
                }
            }
        }
    }

    /// Opens a directory to which names may be added and which may not be listed: adding takes no
    /// handle that reads.
    fn resolve_to_add(&self, how: OpenHow) -> Result<Found> {
        if how.read {
            return Err(FsError::AccessDenied);
        }
        let opened = self.open_in_backend(self.user(), OpenHow { write: false, ..how })?;
        match opened.attributes.kind {
            vfs::FileKind::Directory => {
                Ok(Found { opened, security: None, reads: false, writes: false })
            }
            _ => Err(FsError::AccessDenied),
        }
    }

    /// Opens what POSIX refuses to the caller, where something else grants it.
    fn resolve_beyond_mode(&self, how: OpenHow, maximum: bool) -> Result<Option<Found>> {
        match self.resolve_by_descriptor(how, maximum)? {
            None if how.read && !how.write => self.resolve_to_execute(how),
            other => Ok(other),
        }
    }

    /// Opens a file to be read that may only be executed: a client that knows handles must read
    /// what it executes.
    fn resolve_to_execute(&self, how: OpenHow) -> Result<Option<Found>> {
        if matches!(self.place, Place::Path) {
            return Ok(None);
        }
        let seen = self.open_in_backend(self.user(), OpenHow { read: false, ..how })?;
        let subject = (&*seen.node, &seen.attributes, None);
        let rights = rights_to(&self.volume, &self.caller, subject, self.execute_rule());
        if !self.reads_by_executing(&seen, rights) {
            return Ok(None);
        }
        // Not by its name, which may be another file's by now.
        let opened = self.open_seen(&seen, how)?;
        Ok(Some(Found { opened, security: None, reads: true, writes: false }))
    }

    /// What the right to execute follows from: clients that open by handles are NFS's.
    pub(super) fn execute_rule(&self) -> ExecuteRule {
        match self.place {
            Place::Path => ExecuteRule::WithRead,
            Place::Of(_) | Place::In(..) => ExecuteRule::ByBit,
        }
    }

    /// Whether the file may be read since it may be executed.
    pub(super) fn reads_by_executing(&self, found: &Opened, rights: Access) -> bool {
        !matches!(self.place, Place::Path)
            && found.attributes.kind == FileKind::File
            && rights.contains(Access::EXECUTE)
    }

    /// Opens what POSIX refuses to the caller, where a stored descriptor grants
    /// it: then that alone decides.
    fn resolve_by_descriptor(&self, how: OpenHow, maximum: bool) -> Result<Option<Found>> {
        let only_look = OpenHow { read: false, write: false, ..how };
        let seen = self.open_in_backend(self.user(), only_look)?;
        // A list grants data and names. Opening a pipe or a device does more than that.
        if !matches!(seen.attributes.kind, FileKind::File | FileKind::Directory) {
            return Ok(None);
        }
        let in_force = InForce::of(&*seen.node, &seen.attributes);
        if !in_force.is_stored() {
            return Ok(None);
        }
        let rights = in_force.rights(&self.volume, &self.caller);
        // Appending reads the length, no more; removing a stream needs no data.
        let reads = rights.intersects(READS | Access::APPEND_DATA);
        let writes = rights.intersects(WRITES | Access::DELETE);
        let granted = OpenHow { read: how.read && reads, write: how.write && writes, ..how };
        if granted == only_look || (granted != how && !maximum) {
            return Ok(None);
        }
        let opened = self.open_seen(&seen, granted)?;
        let (reads, writes) = (granted.read, granted.write);
        Ok(Some(Found { opened, security: None, reads, writes }))
    }

    /// What its maker asks for again, which was only looked at, opened for what was granted of it,
    /// whatever the mode says that it was made with.
    pub(super) fn found_to_use(&self, found: Found, granted: Access, wait: Wait) -> Result<Found> {
        let reads = granted.intersects(READS | Access::APPEND_DATA);
        let writes = granted.intersects(WRITES);
        if !reads && !writes {
            return Ok(found);
        }
        let (read, write, wanted) = (reads, writes, WANTED);
        let how = OpenHow { read, write, wanted, ..OpenHow::looking(wait) };
        let opened = self.open_seen(&found.opened, how)?;
        Ok(Found { opened, security: None, reads, writes })
    }

    /// Opens the very node that was looked at, with the power of the process: its path may lead
    /// to a pipe or a device by now, which must not even be opened.
    fn open_seen(&self, seen: &Opened, how: OpenHow) -> Result<Opened> {
        let server = self.context.call(Actor::server(ServerWork::OpenChecked));
        let opened = match self.volume.vfs.open_node(server, &*seen.node, how) {
            Err(FsError::NotSupported) => return Err(FsError::AccessDenied),
            other => other?,
        };
        Ok(Opened { path: seen.path.clone(), ..opened })
    }

    /// The directory that the name is in.
    ///
    /// # Errors
    /// [`FsError::PathNotFound`]; [`FsError::AccessDenied`] for the root, which is in none.
    pub(super) fn parent(&self) -> Result<KnownOpen> {
        self.parent_within(Wait::Allowed)
    }

    /// As [`Opening::parent`], or [`FsError::WouldBlock`].
    pub(super) fn parent_within(&self, wait: Wait) -> Result<KnownOpen> {
        let parent = self.plan.path.parent().ok_or(FsError::AccessDenied)?;
        let vfs = &self.volume.vfs;
        let found = vfs.open_directory(self.user(), &parent, self.case(), wait);
        let checked = found.and_then(|found| {
            self.check_reached(&found.opened, false)?;
            Ok(found)
        });
        match checked {
            Err(FsError::NotFound) => Err(FsError::PathNotFound),
            other => other,
        }
    }

    /// What was found, if the volume serves the place that a path has led to. An object of NFS was
    /// found by no link.
    pub(super) fn served(&self, found: Found) -> Result<Found> {
        self.check_reached(&found.opened, self.plan.if_missing == IfMissing::Create)?;
        Ok(found)
    }

    fn check_reached(&self, opened: &Opened, makes: bool) -> Result<()> {
        match self.place {
            Place::Path => self.volume.check_reached(opened, makes),
            Place::Of(_) | Place::In(..) => Ok(()),
        }
    }
}
