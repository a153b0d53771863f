//! Stable storage before a response: the rules by operation.
//!
//! As with Windows and Samba, a response on an ordinary open promises nothing about power loss.
//! FLUSH does (MS-SMB2 3.3.5.11), and WRITE_THROUGH of one WRITE (3.3.5.13).
//!
//! Three kinds of opens promise that every acknowledged change survives; see [`Promise`]:
//! - opens with FILE_WRITE_THROUGH (MS-FSA 2.1.5.1, and 2.1.5.15.7 for SET_INFO, `Mode`);
//! - opens of a continuously available share, whose clients continue after a machine failure
//!   (3.3.5.9.12);
//! - opens of a share with `smb_stable = "always"`.

use crate::conversion::status::status_of;
use crate::opens::open::{Open, OpenTarget};
use files::{OpenAction, OpenFile, RequestFiles, UnstableObjects, Volume};
use std::sync::Arc;
use wire::fscc::FileInfoClass;
use wire::ntstatus::NtStatus;
use wire::smb::fsctl;

/// The objects that an operation on a write-through open makes stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// None: the operation changes nothing, or only the open.
    Nothing,
    /// The file: data, sizes, attributes, descriptor, streams.
    File,
    /// The file, and the directories of its name before and after the operation.
    Names,
}

impl Promise {
    /// The promise of CREATE, by its action.
    pub(crate) fn of_create(action: OpenAction) -> Self {
        match action {
            OpenAction::Opened => Self::Nothing,
            OpenAction::Created | OpenAction::Superseded => Self::Names,
            OpenAction::Overwritten => Self::File,
        }
    }

    /// The promise of SET_INFO for a file. The last close executes a disposition, see
    /// [`before_close`]; until then it is part of the open.
    pub(crate) fn of_file_info(class: FileInfoClass) -> Self {
        use FileInfoClass as Class;
        match class {
            Class::Rename | Class::RenameEx | Class::Link => Self::Names,
            Class::Position | Class::Mode => Self::Nothing,
            Class::Disposition | Class::DispositionEx => Self::Nothing,
            Class::Basic
            | Class::FullEa
            | Class::Allocation
            | Class::EndOfFile
            | Class::ValidDataLength
            | Class::ShortName => Self::File,
            // SET_INFO refuses these: they belong to pipes, or are read-only.
            Class::Pipe
            | Class::PipeLocal
            | Class::Standard
            | Class::Internal
            | Class::Ea
            | Class::Access
            | Class::Name
            | Class::Alignment
            | Class::All
            | Class::AlternateName
            | Class::Stream
            | Class::Compression
            | Class::NetworkOpen
            | Class::AttributeTag
            | Class::NormalizedName
            | Class::Id => Self::Nothing,
        }
    }

    /// The promise of IOCTL. An unlisted code promises the most.
    pub(crate) fn of_ioctl(code: u32) -> Self {
        match code {
            fsctl::LMR_REQUEST_RESILIENCY
            | fsctl::SRV_REQUEST_RESUME_KEY
            | fsctl::QUERY_ALLOCATED_RANGES
            | fsctl::QUERY_FILE_REGIONS
            | fsctl::MARK_HANDLE
            | fsctl::OFFLOAD_READ
            | fsctl::OFFLOAD_WRITE
            | fsctl::GET_COMPRESSION
            | fsctl::CREATE_OR_GET_OBJECT_ID
            | fsctl::GET_OBJECT_ID
            | fsctl::GET_REPARSE_POINT
            | fsctl::SRV_ENUMERATE_SNAPSHOTS
            | fsctl::SRV_READ_HASH
            | fsctl::REFS_STREAM_SNAPSHOT_MANAGEMENT
            | fsctl::IS_VOLUME_DIRTY => Self::Nothing,
            fsctl::SRV_COPYCHUNK
            | fsctl::SRV_COPYCHUNK_WRITE
            | fsctl::DUPLICATE_EXTENTS_TO_FILE
            | fsctl::DUPLICATE_EXTENTS_TO_FILE_EX
            | fsctl::SET_SPARSE
            | fsctl::SET_ZERO_DATA
            | fsctl::FILE_LEVEL_TRIM
            | fsctl::SET_COMPRESSION => Self::File,
            // Includes SET_REPARSE_POINT and DELETE_REPARSE_POINT, which replace the file in its
            // directory by a symbolic link, and back.
            _ => Self::Names,
        }
    }
}

/// An operation that may have to become stable, from its start on.
#[must_use]
#[derive(Debug)]
pub(crate) struct StableOperation(Option<(Promise, UnstableObjects)>);

/// Prepares an operation; called before it runs.
///
/// # Errors
/// The directory of the open's name is not found.
pub(crate) async fn before(
    files: &RequestFiles,
    open: &Open,
    promise: Promise,
) -> Result<StableOperation, NtStatus> {
    let OpenTarget::File(file) = &open.target else { return Ok(StableOperation(None)) };
    if !open.writes_through() || promise == Promise::Nothing {
        return Ok(StableOperation(None));
    }
    let mut unstable = UnstableObjects::default();
    if promise == Promise::Names {
        files.add_parent(&mut unstable, file).await.map_err(status_of)?;
    }
    Ok(StableOperation(Some((promise, unstable))))
}

impl StableOperation {
    /// Waits until the successful operation is stable.
    ///
    /// # Errors
    /// The operation may not be stable.
    pub(crate) async fn after(self, files: &RequestFiles, file: &OpenFile) -> Result<(), NtStatus> {
        let Some((promise, mut unstable)) = self.0 else { return Ok(()) };
        unstable.add_open(file);
        if promise == Promise::Names {
            files.add_parent(&mut unstable, file).await.map_err(status_of)?;
        }
        files.make_stable(unstable).await.map_err(status_of)
    }
}

/// Waits until changed quota limits are stable, if the open promises that. The limits belong to the
/// file system, so no object is synced.
///
/// The limits may not be stable.
pub(crate) async fn after_quotas(
    files: &RequestFiles,
    open: &Open,
    volume: &Arc<Volume>,
) -> Result<(), NtStatus> {
    match open.writes_through() {
        true => files.make_quotas_stable(volume).await.map_err(status_of),
        false => Ok(()),
    }
}

/// Waits until the effects of CREATE are stable, if the open promises that.
///
/// # Errors
/// The effects may not be stable.
pub(crate) async fn after_create(
    files: &RequestFiles,
    file: &OpenFile,
    (write_through, action): (bool, OpenAction),
) -> Result<(), NtStatus> {
    let promise = Promise::of_create(action);
    let is_needed = write_through && promise != Promise::Nothing;
    StableOperation(is_needed.then(|| (promise, UnstableObjects::default())))
        .after(files, file)
        .await
}

/// The directories that lose files, and the files that lose streams, when the opens close. They
/// must become stable afterwards.
///
/// The errors of [`before`].
pub(crate) async fn before_close(
    files: &RequestFiles,
    opens: &[Arc<Open>],
) -> Result<UnstableObjects, NtStatus> {
    let removes = |file: &&Arc<OpenFile>| file.may_remove_at_close();
    let mut unstable = UnstableObjects::default();
    for open in opens.iter().filter(|open| open.writes_through()) {
        let Some(file) = open.file().ok().filter(removes) else { continue };
        // Boxed, because every CLOSE future would reserve the space, and few need it.
        Box::pin(files.add_parent(&mut unstable, file)).await.map_err(status_of)?;
        if file.stream().is_some() {
            unstable.add_open(file);
        }
    }
    Ok(unstable)
}
