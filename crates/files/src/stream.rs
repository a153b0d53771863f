//! Named streams: separate data of a file, with share modes and byte-range locks of their own. All
//! other properties belong to the file. MS-FSA 2.1.1.5, 2.1.5.15.11.1.

use crate::authorize::{Authority, as_granted};
use crate::frozen_times::MovedTimes;
use crate::open_stream::OpenStream;
use crate::server_work::{METADATA, SYNC, WANTED};
use crate::watch::{ChangeAction, WatchFilter};
use crate::{Access, OpenFile, RequestFiles};
use std::any::Any;
use std::sync::Arc;
use vfs::{
    Actor, AttributeChanges, AttributeRequest, Attributes, Case, DirEntry, DosInfo,
    ExtendedAttributes, FileExtents, FileKey, FileKind, FsError, Name, Node, PosixAcl, Replace,
    Result, SecurityChange, StreamEntry, StreamName, TimeChange, Wait,
};

/// Size of the zeros that are written at once over a stream stored as an attribute, which is
/// smaller. MS-FSCC 2.3.71.
const ZEROS_BYTES_MAX: u64 = 1024 * 1024;
/// Size of one copied piece of a stream.
const COPY_BYTES: usize = 1024 * 1024;

impl RequestFiles {
    /// All named streams of the file, also for an open of one of its streams.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn streams(&self, open: &OpenFile) -> Result<Vec<StreamEntry>> {
        if !open.volume().has_streams() {
            return Ok(Vec::new());
        }
        match &open.name.stream {
            Some(stream) => stream.file.streams(METADATA),
            None => open.node.streams(METADATA),
        }
    }

    /// Attributes of the file without those stored beside it, and all named streams, from the cache
    /// if possible; also for an open of one of its streams.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn attributes_and_streams(
        &self,
        open: &OpenFile,
    ) -> Result<(Attributes, Vec<StreamEntry>)> {
        let node = open.name.stream.as_ref().map_or(&open.node, |stream| &stream.file);
        let attributes = node.attributes(AttributeRequest::default())?;
        let known = open.cached_security(&attributes).filter(|_| open.volume().has_streams());
        let streams = match known {
            Some(known) => known.streams(METADATA, &**node),
            None => self.streams(open),
        }?;
        Ok((open.presented(attributes), streams))
    }

    /// Truncates an open stream and marks it delete pending.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] without the right to write, [`FsError::NotSupported`] if the open
    /// is not of a stream, [`FsError::ReadOnly`], [`FsError::LockConflict`].
    pub fn discard_stream(&self, open: &OpenFile) -> Result<()> {
        if open.name.stream.is_none() {
            return Err(FsError::NotSupported);
        }
        open.need_any(Access::WRITE_DATA)?;
        open.need_writable()?;
        open.need_unlocked(0, u64::MAX, true)?;
        open.keep_times(MovedTimes::All, || open.node.set_size(open.caller.identity.actor(), 0))?;
        open.note_changed(&self.context, &open.caller);
        let mut held = open.state.lock(&self.context);
        held.grants.handle_disposition(open.id, true);
        held.set_delete_pending(open.pending_delete());
        Ok(())
    }

    /// Copies all named streams of one open file to another; existing ones are replaced.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] by the rights of either open; [`FsError::NoSpace`].
    pub async fn copy_streams(&self, source: &Arc<OpenFile>, target: &Arc<OpenFile>) -> Result<()> {
        source.need_any(Access::READ_DATA | Access::EXECUTE)?;
        target.need_any(Access::WRITE_DATA)?;
        target.need_writable()?;
        let (from, to) = (source.node.clone(), target.node.clone());
        let reader = as_granted(&source.caller, &*from);
        let writer = as_granted(&target.caller, &*to);
        let target = target.clone();
        self.offload(move || {
            for stream in from.streams(METADATA)? {
                let copied = target.keep_times(MovedTimes::All, || {
                    copy_stream((reader.actor(), &*from), (writer.actor(), &*to), &stream)
                });
                let (kind, what, name) = copied?;
                target.report_streams(what, &[(kind, &name)]);
            }
            Ok(())
        })
        .await
    }

    /// Attributes of the file, also for an open of one of its streams.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn file_attributes(&self, open: &OpenFile) -> Result<Attributes> {
        let attributes = match &open.name.stream {
            Some(stream) => stream.file.attributes(WANTED),
            None => open.node.attributes(WANTED),
        };
        Ok(open.presented(attributes?))
    }

    /// Renames an open stream to `to` for all its opens. An empty stream of that name is replaced
    /// if `replace` is set.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] without DELETE or if the stream to be replaced is open,
    /// [`FsError::NotSupported`] if the open is not of a stream, [`FsError::AlreadyExists`],
    /// [`FsError::InvalidParameter`] if data would be lost, [`FsError::ShareViolation`].
    pub async fn rename_stream(
        &self,
        open: &Arc<OpenFile>,
        to: &StreamName,
        replace: bool,
    ) -> Result<()> {
        open.need_any(Access::DELETE)?;
        open.need_writable()?;
        let (open, to) = (open.clone(), to.clone());
        let call = move || {
            // Concurrent opens resolve again.
            let turns = &open.table.rename_turns;
            let _renaming = turns.begin_file_rename(open.key(), &[&open.path()]);
            open.keep_times(MovedTimes::Changed, || rename_now(&open, &to, replace))
        };
        self.offload(call).await
    }
}

/// Copies a stream; an existing one is replaced. Returns the change that watches report.
fn copy_stream(
    (reader, from): (Actor<'_>, &dyn Node),
    (writer, to): (Actor<'_>, &dyn Node),
    stream: &StreamEntry,
) -> Result<(ChangeAction, WatchFilter, StreamName)> {
    let (kind, what) =
        match to.need_streams()?.create_stream(writer, &stream.name, Case::Insensitive) {
            Ok(()) => (ChangeAction::AddedStream, WatchFilter::STREAM_NAME),
            Err(FsError::AlreadyExists) => {
                (ChangeAction::ModifiedStream, WatchFilter::STREAM_SIZE | WatchFilter::STREAM_WRITE)
            }
            Err(error) => return Err(error),
        };
    let name = to.find_stream(METADATA, &stream.name, Case::Insensitive)?.name;
    to.need_streams()?.set_stream_size(writer, &name, 0)?;
    copy_data((reader, (from, &stream.name)), (writer, (to, &name)), stream.size_bytes)?;
    Ok((kind, what, name))
}

/// Copies the data of a stream to an empty one.
fn copy_data(
    (reader, (from, source)): (Actor<'_>, (&dyn Node, &StreamName)),
    (writer, (to, target)): (Actor<'_>, (&dyn Node, &StreamName)),
    length: u64,
) -> Result<()> {
    let (mut at, mut piece) = (0, Vec::new());
    while at < length {
        piece.clear();
        let wanted = usize::try_from(length - at).map_or(COPY_BYTES, |left| left.min(COPY_BYTES));
        let count = from.need_streams()?.read_stream(reader, source, at, wanted, &mut piece)?;
        if count == 0 {
            break;
        }
        to.need_streams()?.write_stream(writer, target, at, &piece)?;
        at += count as u64;
    }
    Ok(())
}

fn rename_now(open: &OpenFile, to: &StreamName, replace: bool) -> Result<()> {
    let Some(stream) = &open.name.stream else { return Err(FsError::NotSupported) };
    let from = stream.reachable()?;
    if open.state.view().grants.others_forbid_delete(open.id) {
        return Err(FsError::ShareViolation);
    }
    let taken = match stream.file.find_stream(METADATA, to, open.volume().options.case) {
        Err(FsError::NotFound) => None,
        other => Some(other?),
    };
    let authority = as_granted(&open.caller, &*stream.file);
    let replaced = taken.as_ref().map(|taken| taken.name.clone()).filter(|name| *name != from);
    let how = match taken {
        Some(taken) if taken.name == from => {
            if *to == from {
                return Ok(());
            }
            Replace::Never
        }
        Some(_) if !replace => return Err(FsError::AlreadyExists),
        Some(taken) => {
            check_replaceable(open, &taken)?;
            if taken.name != *to {
                stream.file.need_streams()?.remove_stream(authority.actor(), &taken.name)?;
            }
            Replace::File
        }
        None => Replace::Never,
    };
    stream.file.need_streams()?.rename_stream(authority.actor(), &from, to, how)?;
    stream.rename(to);
    let mut changes: Vec<_> =
        replaced.iter().map(|name| (ChangeAction::RemovedStream, name)).collect();
    changes.extend([(ChangeAction::RemovedStream, &from), (ChangeAction::AddedStream, to)]);
    open.report_streams(WatchFilter::STREAM_NAME, &changes);
    Ok(())
}

fn check_replaceable(open: &OpenFile, taken: &StreamEntry) -> Result<()> {
    if open.file_has_open_stream(&taken.name) {
        return Err(FsError::AccessDenied);
    }
    if taken.size_bytes > 0 { Err(FsError::InvalidParameter) } else { Ok(()) }
}

/// A stream as a node: data of the stream, everything else of the file.
#[derive(Debug)]
pub(crate) struct StreamNode {
    /// The file, opened with this open's rights.
    pub file: Arc<dyn Node>,
    pub stream: Arc<OpenStream>,
    /// Authority to read and write the stream.
    pub authority: Authority,
    /// See [`vfs::TreeFeatures::stream_bytes_max`].
    pub bytes_max: u64,
}

/// Error for a stream that was removed concurrently.
fn stale_if_removed(error: FsError) -> FsError {
    if error == FsError::NotFound { FsError::Stale } else { error }
}

impl StreamNode {
    fn size_bytes(&self) -> Result<u64> {
        let found = self.file.find_stream(METADATA, &self.stream.reachable()?, Case::Sensitive);
        Ok(found.map_err(stale_if_removed)?.size_bytes)
    }

    /// The file that stores the data, if there is one: see [`vfs::NamedStreams::stream_data`].
    fn data(&self, writes: bool) -> Result<Option<Arc<dyn Node>>> {
        let name = self.stream.reachable()?;
        self.file
            .need_streams()?
            .stream_data(self.authority.actor(), &name, writes)
            .map_err(stale_if_removed)
    }

    /// Updates the file's times: the backend does not see a write to a stream's data file.
    fn touch(&self) {
        let changes = AttributeChanges { modified: TimeChange::Now, ..Default::default() };
        if let Err(error) = self.file.set_attributes(self.authority.actor(), &changes) {
            tracing::debug!(%error, "a write to a stream cannot update the modification time of its file");
        }
    }
}

impl Node for StreamNode {
    fn key(&self) -> FileKey {
        self.file.key()
    }

    fn kind(&self) -> FileKind {
        FileKind::File
    }

    fn attributes(&self, wanted: AttributeRequest) -> Result<Attributes> {
        let file = self.file.attributes(wanted)?;
        let size_bytes = self.size_bytes()?;
        let mut dos = file.dos;
        if file.kind == FileKind::Directory {
            // Without attributes, those of a new file would be presented.
            dos = DosInfo { bits: Some(dos.bits.unwrap_or(0)), ..dos };
        }
        let (kind, allocated_bytes) = (FileKind::File, size_bytes);
        Ok(Attributes { kind, size_bytes, allocated_bytes, dos, ..file })
    }

    fn set_attributes(&self, actor: Actor<'_>, changes: &AttributeChanges) -> Result<()> {
        self.file.set_attributes(actor, changes)
    }

    fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>, wait: Wait) -> Result<usize> {
        if wait == Wait::Never {
            return Err(FsError::WouldBlock);
        }
        let authority = &self.authority;
        self.file
            .need_streams()?
            .read_stream(authority.actor(), &self.stream.reachable()?, offset, length, into)
            .map_err(stale_if_removed)
    }

    fn write(&self, _: Actor<'_>, offset: u64, data: &[u8]) -> Result<()> {
        let authority = &self.authority;
        self.file
            .need_streams()?
            .write_stream(authority.actor(), &self.stream.reachable()?, offset, data)
            .map_err(stale_if_removed)?;
        self.touch();
        Ok(())
    }

    fn sync(&self, actor: Actor<'_>, data_only: bool) -> Result<()> {
        if let Ok(name) = self.stream.reachable() {
            match self.file.need_streams()?.stream_data(SYNC, &name, false) {
                Ok(Some(data)) => data.sync(actor, data_only)?,
                // A stream that was removed has no data left.
                Ok(None) | Err(FsError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        // A stream's data may be stored as an attribute of its file.
        self.file.sync(actor, false)
    }

    fn set_size(&self, _: Actor<'_>, size_bytes: u64) -> Result<()> {
        let authority = &self.authority;
        self.file
            .need_streams()?
            .set_stream_size(authority.actor(), &self.stream.reachable()?, size_bytes)
            .map_err(stale_if_removed)?;
        self.touch();
        Ok(())
    }

    fn copy_range(&self, _: Actor<'_>, _: u64, _: &dyn Node, _: u64, _: u64) -> Result<u64> {
        Err(FsError::NotSupported)
    }

    fn readdir(&self, _: u64, _: &mut dyn FnMut(DirEntry) -> bool) -> Result<bool> {
        Err(FsError::NotDirectory)
    }

    fn child_attributes(&self, _: Actor<'_>, _: &Name, _: AttributeRequest) -> Result<Attributes> {
        Err(FsError::NotDirectory)
    }

    fn readlink(&self, _: Actor<'_>) -> Result<Vec<u8>> {
        Err(FsError::NotSupported)
    }

    fn file_extents(&self) -> Option<&dyn FileExtents> {
        Some(self)
    }

    fn extended_attributes(&self) -> Option<&dyn ExtendedAttributes> {
        self.file.extended_attributes()
    }

    fn security_descriptor(&self) -> Result<Option<Vec<u8>>> {
        self.file.security_descriptor()
    }

    fn posix_acl(&self) -> Result<Option<PosixAcl>> {
        self.file.posix_acl()
    }

    fn set_security(&self, actor: Actor<'_>, change: &SecurityChange<'_>) -> Result<()> {
        self.file.set_security(actor, change)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl FileExtents for StreamNode {
    fn allocate(&self, actor: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        // A size that can never be stored is refused now.
        if offset.saturating_add(length) > self.bytes_max {
            return Err(FsError::TooLarge);
        }
        match self.data(true)? {
            Some(data) => data.need_extents()?.allocate(actor, offset, length),
            // An attribute has no allocation of its own.
            None => Ok(()),
        }
    }

    fn punch_hole(&self, actor: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        if let Some(data) = self.data(true)? {
            data.need_extents()?.punch_hole(actor, offset, length)?;
            self.touch();
            return Ok(());
        }
        let count = self.size_bytes()?.saturating_sub(offset).min(length).min(ZEROS_BYTES_MAX);
        self.write(actor, offset, &vec![0; count as usize])
    }

    fn seek_data(&self, offset: u64) -> Result<Option<(u64, u64)>> {
        if let Some(data) = self.data(false)? {
            return data.need_extents()?.seek_data(offset);
        }
        let size = self.size_bytes()?;
        Ok((offset < size).then_some((offset, size)))
    }

    fn allocate_and_grow(&self, _: Actor<'_>, _: u64, _: u64) -> Result<()> {
        Err(FsError::NotSupported)
    }

    fn clone_range(&self, _: Actor<'_>, _: u64, _: &dyn Node, _: u64, _: u64) -> Result<()> {
        Err(FsError::NotSupported)
    }

    fn set_compressed(&self, _: Actor<'_>, _: bool) -> Result<()> {
        Err(FsError::NotSupported)
    }
}
