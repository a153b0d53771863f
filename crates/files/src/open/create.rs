//! Entering a created node. It is visible before its creator's open is registered, so other clients
//! may rename, replace or remove it meanwhile.

use super::apply::CreatedNode;
use super::{OpenAction, OpenAttempt, OpenInProgress, OpenTicket, RequestedKind, TableVersion};
use crate::rename_turns::RenameSubject;
use crate::server_work::WANTED;
use crate::table::OpenRefusal;
use crate::watch::{ChangeAction, name_filter};
use acl::{Access, Descriptor};
use vfs::{Actor, FileKind, FsError, OpenHow, OpenedNode, Result, ServerWork, Wait};

/// A created file or directory whose open is not registered yet.
pub(super) struct UnregisteredNode {
    pub opened: OpenedNode,
    /// Descriptor that is stored with it.
    pub descriptor: Option<Descriptor>,
    /// Whether an earlier try to register the open lost a race.
    is_retry: bool,
}

/// Location of a created node.
enum NodeLocation {
    /// At its original path, and every later rename sees this open.
    Original,
    /// A rename in flight may not see this open, or has moved it.
    Unsettled,
    /// Removed.
    Removed,
}

impl OpenInProgress {
    /// Creates the missing node and opens it.
    pub(super) fn create(&mut self, version: &TableVersion) -> Result<OpenAttempt> {
        if self.plan.stream.is_some() {
            self.check_host(FileKind::File)?;
        }
        let is_directory = self.plan.kind == RequestedKind::Directory && self.plan.stream.is_none();
        let new = self.create_new(is_directory)?;
        self.enter_new(new, is_directory, version)
    }

    /// Creates a node without a lookup.
    ///
    /// # Errors
    /// [`FsError::WouldBlock`] if creation fails. A worker, which may block, finds the reason,
    /// since the file may exist.
    pub(super) fn create_unseen(&mut self, version: &TableVersion) -> Result<OpenAttempt> {
        let is_directory = self.plan.kind == RequestedKind::Directory;
        self.check_key(None)?;
        let new = self.create_new(is_directory).map_err(|_| FsError::WouldBlock)?;
        self.enter_new(new, is_directory, version)
    }

    fn create_new(&self, is_directory: bool) -> Result<(CreatedNode, Option<Descriptor>)> {
        let (directory, parent) = self.authorize_create(is_directory)?;
        let descriptor = self.new_descriptor(parent.as_ref(), is_directory);
        let granted_in = parent.is_some().then_some(&directory);
        Ok((self.create_node(is_directory, granted_in, descriptor.as_ref())?, descriptor))
    }

    fn enter_new(
        &mut self,
        (new, descriptor): (CreatedNode, Option<Descriptor>),
        is_directory: bool,
        version: &TableVersion,
    ) -> Result<OpenAttempt> {
        if self.had_moved_before_create() {
            // It was created in another directory, which has taken the path.
            self.remove_misplaced(&new);
            return Ok(OpenAttempt::Lost);
        }
        let opened = new.opened;
        self.report(ChangeAction::Added, name_filter(is_directory), &opened.path);
        self.enter_created(UnregisteredNode { opened, descriptor, is_retry: false }, version)
    }

    /// Opens the created node. After a lost race it is retained for the next try unless it was
    /// removed: a new lookup would take it for another caller's file.
    pub(super) fn enter_created(
        &mut self,
        mut created: UnregisteredNode,
        version: &TableVersion,
    ) -> Result<OpenAttempt> {
        let granted = self.granted_to_creator(&created.opened, created.descriptor.as_ref());
        // Another client may have opened the node meanwhile; then it stays, and this open loses.
        let entered = match &self.plan.stream {
            None => self.acquire(&created.opened, granted),
            Some(_) => self.hold(&created.opened, granted),
        };
        match self.locate_created(&mut created, version)? {
            NodeLocation::Original => {}
            NodeLocation::Removed => return Ok(OpenAttempt::Lost),
            NodeLocation::Unsettled => {
                self.unregistered = Some(UnregisteredNode { is_retry: true, ..created });
                return Ok(OpenAttempt::Lost);
            }
        }
        let ticket = match entered {
            Ok(ticket) => ticket,
            Err(OpenRefusal::Breaking(wait)) => {
                self.unregistered = Some(UnregisteredNode { is_retry: true, ..created });
                return Ok(OpenAttempt::Breaking(wait));
            }
            Err(OpenRefusal::Refused(FsError::DeletePending))
                if self.is_of_earlier_file(&created) =>
            {
                self.unregistered = Some(UnregisteredNode { is_retry: true, ..created });
                return Ok(OpenAttempt::Lost);
            }
            Err(OpenRefusal::Refused(error)) => return Err(error),
        };
        match &self.plan.stream {
            None => self.finish_created(created, ticket, granted),
            Some(name) => self.open_new_stream(created, name, ticket, granted),
        }
    }

    /// Whether the delete-pending file is an earlier one with the same file number. Its name is
    /// gone, and the table drops it soon.
    fn is_of_earlier_file(&self, created: &UnregisteredNode) -> bool {
        let known = self.table.find(created.opened.attributes.key);
        known
            .is_none_or(|known| !known.is_delete_pending_at(&self.volume.vfs, &created.opened.path))
    }

    fn finish_created(
        &self,
        created: UnregisteredNode,
        ticket: OpenTicket,
        granted: Access,
    ) -> Result<OpenAttempt> {
        let opened = created.opened;
        let ticket = ticket.of_new_file(&self.caller);
        let is_directory = opened.attributes.kind == FileKind::Directory;
        let changed = self.shape_data(&opened, is_directory)?;
        let attributes = if changed { opened.node.attributes(WANTED)? } else { opened.attributes };
        Ok(OpenAttempt::Opened(self.finish(
            ticket,
            opened,
            attributes,
            granted,
            OpenAction::Created,
        )))
    }

    /// Finds the node's location after this open is registered: later renames and removals see the
    /// open.
    fn locate_created(
        &self,
        created: &mut UnregisteredNode,
        version: &TableVersion,
    ) -> Result<NodeLocation> {
        self.note_device(&created.opened);
        let nothing_moved = self.is_current(version, &created.opened) && !created.is_retry;
        // Removals are frequent: the link count tells whether they concern this node, without a
        // path lookup.
        if nothing_moved && !self.lost_its_name(version, &created.opened)? {
            return Ok(NodeLocation::Original);
        }
        let (key, path) = (created.opened.attributes.key, &created.opened.path);
        let subject = RenameSubject::new(&self.volume, Some(key), path);
        if self.table.rename_turns.is_in_flight(subject) {
            return Ok(NodeLocation::Unsettled);
        }
        let opened = &mut created.opened;
        let (vfs, root) =
            (&self.volume.vfs, self.context.call(Actor::server(ServerWork::LocateNode)));
        let how = OpenHow::looking(Wait::Allowed);
        match vfs.open(root, &opened.path, how) {
            Ok(found) if found.attributes.key == opened.attributes.key => {
                return Ok(NodeLocation::Original);
            }
            Ok(_) | Err(FsError::NotFound | FsError::PathNotFound) => {}
            Err(error) => return Err(error),
        }
        match vfs.handles().map(|handles| handles.path_of(root, &*opened.node)) {
            Some(Ok(path)) if !path.is_nameless() => {
                opened.path = path;
                Ok(NodeLocation::Unsettled)
            }
            _ => Ok(NodeLocation::Removed),
        }
    }
}

#[cfg(test)]
mod tests;
