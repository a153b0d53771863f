//! Opening a named stream. The file is resolved and authorized as for an open of its own, then held
//! while the stream is open. MS-FSA 2.1.5.1.

use super::create::UnregisteredNode;
use super::resolve::ResolvedNode;
use super::{
    IfExists, IfMissing, OpenAction, OpenAttempt, OpenInProgress, OpenTicket, TableVersion, WRITES,
};
use super::{RequestedKind, reserve};
use crate::authorize::{as_granted, posix_forbids_removal, rights_to_opened, stored};
use crate::server_work::{METADATA, WANTED};
use crate::stream::StreamNode;
use crate::table::{OpenRefusal, StreamOpenEntry};
use crate::volume::dos;
use crate::watch::{ChangeAction, WatchFilter};
use acl::Access;
use std::sync::Arc;
use vfs::{FileKind, FsError, Node, OpenedNode, Result, StreamName, Wait};

/// A stream that existed or was just created.
struct ResolvedStream {
    name: StreamName,
    is_new: bool,
}

impl OpenInProgress {
    /// Checks that the volume supports streams.
    pub(super) fn check_streams(&self, wait: Wait) -> Result<()> {
        if !self.volume.has_streams() {
            return Err(FsError::InvalidName);
        }
        // Stream metadata may not be cached.
        if wait == Wait::Never { Err(FsError::WouldBlock) } else { Ok(()) }
    }

    /// Opens or creates a stream of an existing file.
    pub(super) fn open_stream(
        &self,
        found: ResolvedNode,
        name: &StreamName,
        version: &TableVersion,
    ) -> Result<OpenAttempt> {
        let file = &found.opened;
        self.check_host(file.attributes.kind)?;
        let granted = self.authorize(&found, Wait::Allowed)?;
        let present = match file.node.find_stream(METADATA, name, self.volume.options.case) {
            Ok(_) if self.plan.if_exists == IfExists::Fail => return Err(FsError::AlreadyExists),
            Ok(entry) => Some(entry.name),
            Err(FsError::NotFound) if self.plan.if_missing == IfMissing::Create => None,
            Err(error) => return Err(error),
        };
        self.check_stream_bits(file, granted, present.is_none())?;
        if present.is_none() {
            self.check_may_add(file)?;
        }
        let hold = match self.hold(file, granted) {
            Ok(hold) => hold,
            Err(OpenRefusal::Breaking(wait)) => return Ok(OpenAttempt::Breaking(wait)),
            Err(OpenRefusal::Refused(error)) => return Err(error),
        };
        if self.lost_its_path(version, file)? {
            return Ok(OpenAttempt::Lost);
        }
        let stored = match present {
            Some(name) => ResolvedStream { name, is_new: false },
            None => match self.create_stream(file, name) {
                Err(FsError::AlreadyExists) if self.plan.if_exists != IfExists::Fail => {
                    return Ok(OpenAttempt::Lost);
                }
                other => other?,
            },
        };
        self.enter(found.opened, hold, stored, granted)
    }

    /// Opens the stream of a held file that was created with it.
    pub(super) fn open_new_stream(
        &self,
        created: UnregisteredNode,
        name: &StreamName,
        hold: OpenTicket,
        granted: Access,
    ) -> Result<OpenAttempt> {
        let hold = hold.of_new_file(&self.caller);
        self.shape_data(&created.opened, false)?;
        let stored = self.report_new_stream(&created.opened, name);
        self.enter(created.opened, hold, stored, granted)
    }

    /// Checks that the file can have streams and that the open may refer to one.
    pub(super) fn check_host(&self, kind: FileKind) -> Result<()> {
        match kind {
            _ if self.plan.kind == RequestedKind::Directory => Err(FsError::NotDirectory),
            FileKind::File | FileKind::Directory => Ok(()),
            _ => Err(FsError::AccessDenied),
        }
    }

    /// Checks the DOS attributes, which belong to the file.
    fn check_stream_bits(&self, host: &OpenedNode, granted: Access, is_new: bool) -> Result<()> {
        let file = &host.attributes;
        let bits = file.dos.bits.unwrap_or(0);
        let is_readonly = bits & dos::READONLY != 0 && file.kind == FileKind::File;
        if is_readonly && (is_new || self.replaces() || self.desired.intersects(WRITES)) {
            return Err(FsError::AccessDenied);
        }
        if !self.plan.delete_on_close {
            return Ok(());
        }
        if is_readonly || self.volume.is_unchangeable() {
            return Err(FsError::CannotDelete);
        }
        let unwritable = posix_forbids_removal(&self.caller, file, file.uid);
        if !granted.contains(Access::DELETE) || (unwritable && stored(&*host.node).is_none()) {
            return Err(FsError::AccessDenied);
        }
        Ok(())
    }

    /// Checks that a stream may be added to an existing file, which counts as writing to it.
    fn check_may_add(&self, file: &OpenedNode) -> Result<()> {
        self.volume.check_changeable()?;
        let rights = rights_to_opened(&self.volume, &self.caller, file);
        if rights.contains(Access::WRITE_DATA) { Ok(()) } else { Err(FsError::AccessDenied) }
    }

    /// Registers an open of the file that conflicts with no other, but keeps the file while the
    /// stream is open.
    pub(super) fn hold(
        &self,
        file: &OpenedNode,
        granted: Access,
    ) -> std::result::Result<OpenTicket, OpenRefusal> {
        OpenTicket::hold(self, &self.entry(file), granted)
    }

    fn create_stream(&self, file: &OpenedNode, name: &StreamName) -> Result<ResolvedStream> {
        let case = self.volume.options.case;
        let authority = as_granted(&self.caller, &*file.node);
        file.node.need_streams()?.create_stream(authority.actor(), name, case)?;
        Ok(self.report_new_stream(file, name))
    }

    fn report_new_stream(&self, file: &OpenedNode, name: &StreamName) -> ResolvedStream {
        let changes = [(ChangeAction::AddedStream, name)];
        self.report_streams(WatchFilter::STREAM_NAME, &file.path, &changes);
        ResolvedStream { name: name.clone(), is_new: true }
    }

    /// Runs the last stages for an existing stream; lost if the stream has been removed again.
    fn enter(
        &self,
        file: OpenedNode,
        hold: OpenTicket,
        stored: ResolvedStream,
        granted: Access,
    ) -> Result<OpenAttempt> {
        // A stream that this open has created is not truncated.
        let replaces = self.replaces() && !stored.is_new;
        let opening_access = if replaces { Access::WRITE_DATA } else { Access::NONE };
        let entry =
            StreamOpenEntry { file: self.entry(&file), node: &file.node, name: &stored.name };
        let mut ticket = match hold.acquire_stream(self, &entry, (granted, opening_access)) {
            Ok(ticket) => ticket,
            Err(OpenRefusal::Breaking(wait)) => return Ok(OpenAttempt::Breaking(wait)),
            Err(OpenRefusal::Refused(error)) => return Err(error),
        };
        if stored.is_new {
            ticket = ticket.of_new_file(&self.caller);
        }
        let stream = ticket.stream().expect("acquired as one");
        let is_directory = file.attributes.kind == FileKind::Directory;
        let node: Arc<dyn Node> = Arc::new(StreamNode {
            authority: as_granted(&self.caller, &*file.node),
            file: file.node,
            stream,
            bytes_max: self.volume.vfs.features().stream_bytes_max,
        });
        let opened = OpenedNode { node, attributes: file.attributes, path: file.path };
        let action = match self.settle_stream(&ticket, &opened, &stored) {
            Err(FsError::Stale) => return Ok(OpenAttempt::Lost),
            other => other?,
        };
        let attributes = match opened.node.attributes(WANTED) {
            Err(FsError::Stale) => return Ok(OpenAttempt::Lost),
            other => other?,
        };
        let result = self.finish(ticket, opened, attributes, granted, action);
        if is_directory {
            // Directories have no archive bit.
            result.open.state.note_archive(false);
        }
        Ok(OpenAttempt::Opened(result))
    }

    /// Truncates and reserves as requested.
    fn settle_stream(
        &self,
        ticket: &OpenTicket,
        opened: &OpenedNode,
        stored: &ResolvedStream,
    ) -> Result<OpenAction> {
        let is_new = stored.is_new;
        let replaces = self.replaces() && !is_new;
        if replaces {
            opened.node.set_size(self.user(), 0)?;
            ticket.note_length_change();
            let changes = [(ChangeAction::ModifiedStream, &stored.name)];
            let what = WatchFilter::STREAM_SIZE | WatchFilter::STREAM_WRITE;
            self.report_streams(what, &opened.path, &changes);
            self.report(ChangeAction::Modified, WatchFilter::LAST_WRITE, &opened.path);
        }
        if let Some(bytes) = self.plan.allocation_bytes.filter(|_| replaces || is_new) {
            reserve(&self.volume, &self.caller, opened, bytes)?;
        }
        Ok(match self.plan.if_exists {
            _ if is_new => OpenAction::Created,
            IfExists::Overwrite => OpenAction::Overwritten,
            IfExists::Supersede => OpenAction::Superseded,
            IfExists::Open | IfExists::Fail => OpenAction::Opened,
        })
    }
}
