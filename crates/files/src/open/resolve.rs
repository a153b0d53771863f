//! Stage 3: resolve a path to a node.

use super::origin::OpenOrigin;
use super::{IfExists, IfMissing, OpenInProgress, READS, WRITES};
use crate::authorize::{EffectiveSecurity, rights_to};
use crate::server_work::WANTED;
use acl::{Access, ExecuteRule};
use std::sync::Arc;
use vfs::{
    Actor, AttributeRequest, FileKind, FsError, NodeSecurityCache, OpenHow, OpenWithSecurity,
    OpenedNode, Result, ServerWork, Wait,
};

/// An existing node.
pub(super) struct ResolvedNode {
    pub opened: OpenedNode,
    /// Security information that the backend returned with the node.
    pub security: Option<Arc<NodeSecurityCache>>,
    /// Whether the handle can read data, or list.
    pub reads: bool,
    /// Whether the handle can write data.
    pub writes: bool,
}

impl OpenInProgress {
    /// Finds the node and opens it with the access that may be granted.
    pub(super) fn resolve(&self, wait: Wait) -> Result<ResolvedNode> {
        let maximum = self.desired.contains(Access::MAXIMUM_ALLOWED);
        let of_stream = self.plan.stream.is_some();
        // A collision is detected without opening for data, unless it concerns a stream.
        let looks = self.plan.if_exists != IfExists::Fail || of_stream;
        // Removing a stream writes to its file.
        let writes = if of_stream { WRITES | Access::DELETE } else { WRITES };
        // A caller that only writes to a file may lack the right to read it.
        let reads = if of_stream { READS | Access::APPEND_DATA } else { READS };
        let needs_read = self.desired.intersects(reads) || (of_stream && self.replaces());
        let needs_write = self.desired.intersects(writes) || self.replaces();
        let mut how = OpenHow {
            read: looks && (maximum || needs_read),
            write: looks && !self.volume.is_unchangeable() && (maximum || needs_write),
            case: self.case(),
            wanted: if self.removes_by_directory { AttributeRequest::default() } else { WANTED },
            no_follow: self.plan.no_follow || self.is_posix(),
            wait,
        };
        // MAXIMUM_ALLOWED falls back to as much as POSIX allows.
        let requested = how;
        loop {
            match self.open_with_security(self.user(), how) {
                Err(FsError::AccessDenied) if how == requested && (how.read || how.write) => {
                    match self.resolve_by_other_rule(how, maximum)? {
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
                    let OpenWithSecurity { opened, security } = other?;
                    return Ok(ResolvedNode {
                        opened,
                        security,
                        reads: how.read,
                        writes: how.write,
                    });
                }
            }
        }
    }

    /// Opens a directory in which the caller may create names but which it may not list. Creating
    /// needs no readable handle.
    fn resolve_to_add(&self, how: OpenHow) -> Result<ResolvedNode> {
        if how.read {
            return Err(FsError::AccessDenied);
        }
        let opened = self.open_in_backend(self.user(), OpenHow { write: false, ..how })?;
        match opened.attributes.kind {
            vfs::FileKind::Directory => {
                Ok(ResolvedNode { opened, security: None, reads: false, writes: false })
            }
            _ => Err(FsError::AccessDenied),
        }
    }

    /// Opens a node that POSIX mode bits refuse to the caller, if another rule grants access.
    fn resolve_by_other_rule(&self, how: OpenHow, maximum: bool) -> Result<Option<ResolvedNode>> {
        match self.resolve_by_descriptor(how, maximum)? {
            None if how.read && !how.write => self.resolve_to_execute(how),
            other => Ok(other),
        }
    }

    /// Opens an execute-only file for reading: an NFS client must read what it executes.
    fn resolve_to_execute(&self, how: OpenHow) -> Result<Option<ResolvedNode>> {
        if matches!(self.origin, OpenOrigin::Path) {
            return Ok(None);
        }
        let seen = self.open_in_backend(self.user(), OpenHow { read: false, ..how })?;
        let subject = (&*seen.node, &seen.attributes, None);
        let rights = rights_to(&self.volume, &self.caller, subject, self.execute_rule());
        if !self.reads_by_executing(&seen, rights) {
            return Ok(None);
        }
        // Opened by node: the name may refer to another file by now.
        let opened = self.open_seen(&seen, how)?;
        Ok(Some(ResolvedNode { opened, security: None, reads: true, writes: false }))
    }

    /// Rule for the right to execute. NFS clients, which open by handle, need the mode's execute
    /// bit.
    pub(super) fn execute_rule(&self) -> ExecuteRule {
        match self.origin {
            OpenOrigin::Path => ExecuteRule::WithRead,
            OpenOrigin::Object(_) | OpenOrigin::Name(..) => ExecuteRule::ByBit,
        }
    }

    /// Whether the right to execute permits reading the file.
    pub(super) fn reads_by_executing(&self, found: &OpenedNode, rights: Access) -> bool {
        !matches!(self.origin, OpenOrigin::Path)
            && found.attributes.kind == FileKind::File
            && rights.contains(Access::EXECUTE)
    }

    /// Opens a node that POSIX mode bits refuse to the caller, where a stored descriptor grants
    /// access. The descriptor alone decides then.
    fn resolve_by_descriptor(&self, how: OpenHow, maximum: bool) -> Result<Option<ResolvedNode>> {
        let only_look = OpenHow { read: false, write: false, ..how };
        let seen = self.open_in_backend(self.user(), only_look)?;
        // An ACL grants data and names. Opening a pipe or a device has further effects.
        if !matches!(seen.attributes.kind, FileKind::File | FileKind::Directory) {
            return Ok(None);
        }
        let in_force = EffectiveSecurity::of(&*seen.node, &seen.attributes);
        if !in_force.is_stored() {
            return Ok(None);
        }
        let rights = in_force.rights(&self.volume, &self.caller);
        // Appending reads the size only; removing a stream needs no data.
        let reads = rights.intersects(READS | Access::APPEND_DATA);
        let writes = rights.intersects(WRITES | Access::DELETE);
        let granted = OpenHow { read: how.read && reads, write: how.write && writes, ..how };
        if granted == only_look || (granted != how && !maximum) {
            return Ok(None);
        }
        let opened = self.open_seen(&seen, granted)?;
        let (reads, writes) = (granted.read, granted.write);
        Ok(Some(ResolvedNode { opened, security: None, reads, writes }))
    }

    /// Reopens a file that a replayed create found, with the granted access. The creation mode of
    /// the file does not restrict its creator.
    pub(super) fn reopen_created(
        &self,
        found: ResolvedNode,
        granted: Access,
        wait: Wait,
    ) -> Result<ResolvedNode> {
        let reads = granted.intersects(READS | Access::APPEND_DATA);
        let writes = granted.intersects(WRITES);
        if !reads && !writes {
            return Ok(found);
        }
        let (read, write, wanted) = (reads, writes, WANTED);
        let how = OpenHow { read, write, wanted, ..OpenHow::looking(wait) };
        let opened = self.open_seen(&found.opened, how)?;
        Ok(ResolvedNode { opened, security: None, reads, writes })
    }

    /// Opens exactly the inspected node, with the authority of the process. Its path may lead to a
    /// pipe or a device by now, which must not be opened.
    fn open_seen(&self, seen: &OpenedNode, how: OpenHow) -> Result<OpenedNode> {
        let server = self.context.call(Actor::server(ServerWork::OpenChecked));
        let opened = match self.volume.vfs.open_node(server, &*seen.node, how) {
            Err(FsError::NotSupported) => return Err(FsError::AccessDenied),
            other => other?,
        };
        Ok(OpenedNode { path: seen.path.clone(), ..opened })
    }

    /// Opens the directory that contains the name.
    ///
    /// # Errors
    /// [`FsError::PathNotFound`]; [`FsError::AccessDenied`] for the root, which is in none.
    pub(super) fn parent(&self) -> Result<OpenWithSecurity> {
        self.parent_within(Wait::Allowed)
    }

    /// As [`OpenInProgress::parent`]; with [`Wait::Never`] it may fail with
    /// [`FsError::WouldBlock`].
    pub(super) fn parent_within(&self, wait: Wait) -> Result<OpenWithSecurity> {
        let parent = self.plan.path.parent().ok_or(FsError::AccessDenied)?;
        let names = self.volume.names();
        let found = names.open_directory(self.user(), &parent, self.case(), wait);
        let checked = found.and_then(|found| {
            self.check_reached(&found.opened, false)?;
            Ok(found)
        });
        match checked {
            Err(FsError::NotFound) => Err(FsError::PathNotFound),
            other => other,
        }
    }

    /// Returns `found` if the volume serves the location that the path reached. An NFS object is
    /// reached by no symbolic link.
    pub(super) fn served(&self, found: ResolvedNode) -> Result<ResolvedNode> {
        self.check_reached(&found.opened, self.plan.if_missing == IfMissing::Create)?;
        Ok(found)
    }

    fn check_reached(&self, opened: &OpenedNode, creates: bool) -> Result<()> {
        match self.origin {
            OpenOrigin::Path => self.volume.check_reached(opened, creates),
            OpenOrigin::Object(_) | OpenOrigin::Name(..) => Ok(()),
        }
    }
}
