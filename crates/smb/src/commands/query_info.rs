//! QUERY_INFO. MS-SMB2 3.3.5.20.

use super::info_classes::{file_query_refusal, fs_query_refusal};
use crate::conversion::attributes::{allocation_bytes, attribute_bits, size_bytes, times};
use crate::conversion::extended_attributes::{
    EaPair, VALUE_BYTES_MAX, is_name, next_position, page,
};
use crate::conversion::names::{path_units, stream_units};
use crate::conversion::reparse::{tag_by_kind, tag_of};
use crate::conversion::status::status_of;
use crate::extensions::apple;
use crate::extensions::posix::{is_posix, posix_info};
use crate::extensions::quota;
use crate::opens::open::{Open, OpenTarget};
use crate::request::context::{HandlerOutcome, QueryRefusal, Request, malformed};
use files::{Access, Caller, OpenFile, RequestFiles, SecurityParts, Volume};
use limits::Cost;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{Attributes, FileKind, FileSystemId, QuotaState, Space, TreeFeatures};
use wire::codec::Writer;
use wire::fscc::{
    self, FILE_POSIX_INFORMATION, FILE_VC_QUOTA_ENFORCE, FILE_VC_QUOTA_TRACK, FS_POSIX_INFORMATION,
    FileFacts, FileInfoClass, FsFacts, FsInfoClass, PosixFsInfo, PosixInfo, StreamFact,
    decode_ea_names, encode_file_info, encode_fs_info, put_ea_list, streams_fitting,
};
use wire::ntstatus::NtStatus;
use wire::smb::{Dialect, InfoType, QueryInfoRequest, output_buffer_response};

/// FILE_CASE_PRESERVED_NAMES and FILE_UNICODE_ON_DISK. MS-FSCC 2.5.1.
const FS_NAMES: u32 = 0x2 | 0x4;
/// FILE_CASE_SENSITIVE_SEARCH, if names may differ in case only.
const FS_CASE_SENSITIVE: u32 = 0x1;
/// FILE_SUPPORTS_OBJECT_IDS, if FSCTL_CREATE_OR_GET_OBJECT_ID returns ids of the file system.
const FS_OBJECT_IDS: u32 = 0x0001_0000;
/// FILE_SUPPORTS_SPARSE_FILES, if the file system has holes and frees them.
const FS_SPARSE_FILES: u32 = 0x40;
/// FILE_PERSISTENT_ACLS and FILE_SUPPORTS_EXTENDED_ATTRIBUTES, if the file system stores extended
/// attributes.
const FS_OF_XATTRS: u32 = 0x8 | 0x0080_0000;
/// FILE_SUPPORTS_REPARSE_POINTS: symbolic links, and others in extended attributes.
const FS_REPARSE_POINTS: u32 = 0x80;
/// FILE_SUPPORTS_HARD_LINKS.
const FS_HARD_LINKS: u32 = 0x0040_0000;
/// FILE_READ_ONLY_VOLUME, for read-only shares and file systems, and previous versions.
const FS_READ_ONLY: u32 = 0x0008_0000;
/// FILE_NAMED_STREAMS, if the file system stores them.
const FS_NAMED_STREAMS: u32 = 0x0004_0000;
/// FILE_VOLUME_QUOTAS, if the file system accounts space by user.
const FS_QUOTAS: u32 = 0x20;
/// FILE_FILE_COMPRESSION, if the file system compresses on request.
const FS_COMPRESSION: u32 = 0x10;
/// FILE_SUPPORTS_BLOCK_REFCOUNTING, if files can share blocks.
const FS_BLOCK_REFCOUNTING: u32 = 0x0800_0000;

/// Queries a file, its file system or its security descriptor.
///
/// # Errors
/// `INFO_LENGTH_MISMATCH` or `BUFFER_TOO_SMALL` for a buffer below the fixed part,
/// `INVALID_INFO_CLASS`, `ACCESS_DENIED`.
pub async fn query_info(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = QueryInfoRequest::decode(&mut request.body()?).map_err(malformed)?;
    request.check_payload(body.input.len(), body.output_bytes as usize)?;
    let open = request.open(body.file_id)?;
    let open = request.admit(open, Cost::metadata()).await?;
    let mut data = Vec::new();
    match answer(request, &open, &body, &mut data).await {
        Ok(status) => {
            output_buffer_response(&mut request.w, &data);
            Ok(HandlerOutcome::status(status))
        }
        Err(refusal) => request.refuse_query(refusal),
    }
}

async fn answer(
    request: &Request<'_>,
    open: &Open,
    body: &QueryInfoRequest<'_>,
    data: &mut Vec<u8>,
) -> Result<NtStatus, QueryRefusal> {
    let room = body.output_bytes as usize;
    Ok(match (body.kind, &open.target) {
        (InfoType::File, OpenTarget::Pipe(_)) => pipe_info(open, body.class, room, data)?,
        (InfoType::Quota, OpenTarget::Quotas(quotas)) => {
            quota::query(request, open, quotas, body, data).await?
        }
        (InfoType::FileSystem, OpenTarget::Quotas(quotas)) => {
            let space = request.files.space(&quotas.volume, &*caller_of(request, open)?);
            let volume = FsOfOpen::of_volume(request, &quotas.volume);
            fs_info(request, &volume, body, space.map_err(status_of)?, data)?
        }
        (_, OpenTarget::Pipe(_) | OpenTarget::Quotas(_)) => {
            return Err(NtStatus::INVALID_DEVICE_REQUEST.into());
        }
        (InfoType::File, OpenTarget::File(file)) => {
            file_info(request, open, file, body, data).await?
        }
        (InfoType::FileSystem, OpenTarget::File(file)) => {
            let backups = room_for_backups(request, file).await?;
            let space = request.files.space_of(file, &*caller_of(request, open)?);
            let space = space.map_err(status_of)?;
            if body.class == FS_POSIX_INFORMATION && is_posix(file) {
                posix_fs_info(request, file, space, (room, data))?
            } else {
                let space = backups.map_or(space, |backups| backups.limit(space));
                fs_info(request, &FsOfOpen::of_file(request, file), body, space, data)?
            }
        }
        (InfoType::Security, OpenTarget::File(file)) => security_info(request, file, body, data)?,
        // MS-SMB2 3.3.5.20.4: quotas are queried on the quota file.
        (InfoType::Quota, _) => return Err(NtStatus::INVALID_HANDLE.into()),
        (InfoType::Unknown(_), _) => return Err(NtStatus::INVALID_PARAMETER.into()),
    })
}

/// Truncates a response to the client's buffer. MS-SMB2 3.3.5.20.1.
fn fit(data: &mut Vec<u8>, room: usize) -> NtStatus {
    if data.len() <= room {
        return NtStatus::SUCCESS;
    }
    data.truncate(room);
    NtStatus::BUFFER_OVERFLOW
}

async fn file_info(
    request: &Request<'_>,
    open: &Open,
    file: &Arc<OpenFile>,
    body: &QueryInfoRequest<'_>,
    data: &mut Vec<u8>,
) -> Result<NtStatus, QueryRefusal> {
    let files = request.files;
    let room = body.output_bytes as usize;
    if body.class == FILE_POSIX_INFORMATION && is_posix(file) {
        return Ok(posix_file_info(files, file, room, data)?);
    }
    let class = FileInfoClass::from_number(body.class).ok_or(file_query_refusal(body.class))?;
    if class == FileInfoClass::FullEa {
        return full_ea(files, open, file, body, data);
    }
    if room < class.bytes_min() {
        return Err(NtStatus::INFO_LENGTH_MISMATCH.into());
    }
    let session = request.session()?;
    if class == FileInfoClass::NormalizedName && session.dialect != Dialect::Smb311 {
        // MS-SMB2 3.3.5.20.1: for dialect 3.1.1 only.
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    if class == FileInfoClass::AlternateName {
        return Ok(alternate_name(files, file, room, data).await?);
    }
    if needs_read_attributes(class) && !file.granted().intersects(Access::READ_ATTRIBUTES) {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let mut facts = file_facts(files, open, file)?;
    if shows_name(class) {
        facts.name = name_units(files, file).await?;
    }
    let mut status = NtStatus::SUCCESS;
    if class == FileInfoClass::Stream {
        facts.streams = streams(files, file, open.tree.is_apple())?;
        let count = streams_fitting(&facts.streams, room);
        if count < facts.streams.len() {
            facts.streams.truncate(count);
            status = NtStatus::BUFFER_OVERFLOW;
        }
    }
    if !encode_file_info(class, &facts, &mut Writer::new(data)) {
        return Err(file_query_refusal(body.class).into());
    }
    Ok(if status == NtStatus::SUCCESS { fit(data, room) } else { status })
}

/// POSIX-FSCC 2.2.1.
fn posix_file_info(
    files: &RequestFiles,
    file: &OpenFile,
    room: usize,
    data: &mut Vec<u8>,
) -> Result<NtStatus, NtStatus> {
    if room < PosixInfo::BYTES_MIN {
        return Err(NtStatus::INFO_LENGTH_MISMATCH);
    }
    let attributes = files.attributes_unchecked(file).map_err(status_of)?;
    posix_info(&attributes).encode(data);
    Ok(fit(data, room))
}

/// The server generates no 8.3 names: a name is its own alternate, the only one that opens it.
/// Programs that need 8.3 names are older than SMB2.
async fn alternate_name(
    files: &RequestFiles,
    file: &Arc<OpenFile>,
    room: usize,
    data: &mut Vec<u8>,
) -> Result<NtStatus, NtStatus> {
    file.path().name().ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let path = shown_path(files, file).await?;
    let own = path.rsplit(|unit| *unit == u16::from(b'\\')).next().unwrap_or_default();
    let mut w = Writer::new(data);
    w.u32((own.len() * 2) as u32);
    own.iter().for_each(|u| w.u16(*u));
    Ok(fit(data, room))
}

/// MS-FSA 2.1.5.12: classes that show attributes need FILE_READ_ATTRIBUTES.
fn needs_read_attributes(class: FileInfoClass) -> bool {
    matches!(
        class,
        FileInfoClass::Basic
            | FileInfoClass::All
            | FileInfoClass::NetworkOpen
            | FileInfoClass::AttributeTag
    )
}

/// Classes with a name, which may need directory look-ups.
fn shows_name(class: FileInfoClass) -> bool {
    matches!(class, FileInfoClass::All | FileInfoClass::Name | FileInfoClass::NormalizedName)
}

fn file_facts(files: &RequestFiles, open: &Open, file: &OpenFile) -> Result<FileFacts, NtStatus> {
    let attributes = files.attributes_unchecked(file).map_err(status_of)?;
    let delete_pending = file.is_delete_pending();
    let size = size_bytes(&attributes);
    let allocation = allocation_bytes(&attributes);
    Ok(FileFacts {
        times: times(&attributes),
        attributes: attribute_bits(&attributes),
        allocation_bytes: allocation,
        size_bytes: size,
        links: if file.is_directory() { 1 } else { attributes.links }
            - u32::from(delete_pending && attributes.links > 0),
        delete_pending,
        // A symbolic link to a directory counts as one.
        is_directory: attribute_bits(&attributes) & fscc::FILE_ATTRIBUTE_DIRECTORY != 0,
        index: attributes.key.inode,
        volume_serial: attributes.key.device,
        ea_bytes: files.xattr_bytes(file),
        access: file.granted().0,
        position: file.position(),
        mode: open.mode(),
        name: Vec::new(),
        streams: Vec::new(),
        reparse_tag: reparse_tag(files, file, &attributes),
    })
}

fn reparse_tag(files: &RequestFiles, file: &OpenFile, attributes: &Attributes) -> u32 {
    let looked_at = || files.reparse(file).map_or(0, |found| tag_of(&found));
    tag_by_kind(attributes).unwrap_or_else(looked_at)
}

/// Path of an open, with a leading `\`. Names that take a look-up are rare; a worker looks them up,
/// which may wait for a disk.
async fn shown_path(files: &RequestFiles, file: &Arc<OpenFile>) -> Result<Vec<u16>, NtStatus> {
    if let Some(path) = path_without_look_up(file) {
        return Ok(path);
    }
    let shown = files.look_at_names(file, |files, file| {
        path_units(&file.path(), |path| files.volume_has_name(file, path))
    });
    shown.await.map_err(status_of)
}

fn path_without_look_up(file: &OpenFile) -> Option<Vec<u16>> {
    let is_certain = Cell::new(true);
    let path = path_units(&file.path(), |_| {
        is_certain.set(false);
        false
    });
    is_certain.get().then_some(path)
}

/// Path and stream of an open, with a leading `\`.
async fn name_units(files: &RequestFiles, file: &Arc<OpenFile>) -> Result<Vec<u16>, NtStatus> {
    let mut name = shown_path(files, file).await?;
    if let Some(stream) = file.stream().as_ref().and_then(stream_units) {
        name.push(u16::from(b':'));
        name.extend(stream);
    }
    Ok(name)
}

/// All streams of a file, the default stream first. MS-FSA 2.1.5.12.28.
fn streams(
    files: &RequestFiles,
    file: &OpenFile,
    is_apple: bool,
) -> Result<Vec<StreamFact>, NtStatus> {
    let (attributes, streams) = files.attributes_and_streams(file).map_err(status_of)?;
    let mut facts = Vec::new();
    if attributes.kind != FileKind::Directory {
        facts.push(StreamFact {
            name: "::$DATA".encode_utf16().collect(),
            size_bytes: size_bytes(&attributes),
            allocation_bytes: allocation_bytes(&attributes),
        });
    }
    for stream in streams {
        if stream.size_bytes == 0 && (is_apple || apple::is_apple_stream(&stream.name)) {
            continue;
        }
        let Some(units) = stream_units(&stream.name) else { continue };
        let colon = [u16::from(b':')];
        facts.push(StreamFact {
            name: colon.into_iter().chain(units).chain(":$DATA".encode_utf16()).collect(),
            size_bytes: stream.size_bytes,
            allocation_bytes: stream.size_bytes.next_multiple_of(4096),
        });
    }
    Ok(facts)
}

/// MS-FSA 2.1.5.12.11.
fn full_ea(
    files: &RequestFiles,
    open: &Open,
    file: &OpenFile,
    body: &QueryInfoRequest<'_>,
    data: &mut Vec<u8>,
) -> Result<NtStatus, QueryRefusal> {
    let room = body.output_bytes as usize;
    let all = files.xattrs(file).map_err(status_of)?;
    let all = all.into_iter().filter(|(_, value)| value.len() <= VALUE_BYTES_MAX);
    let entries: Vec<EaPair> = all.map(|(name, value)| (name.as_bytes().to_vec(), value)).collect();
    if !body.input.is_empty() {
        let asked = select_named(&entries, body.input)?;
        return show_ea(&asked, data, room).map(|(_, status)| status);
    }
    let position = open.ea_position.load(Ordering::Relaxed);
    let range = page(entries.len(), body.flags, body.additional, position)?;
    let start = range.start;
    let (shown, status) = show_ea(&entries[range], data, room)?;
    let next = next_position(start, start + shown, entries.len(), body.flags);
    open.ea_position.store(next, Ordering::Relaxed);
    Ok(status)
}

/// The attributes that a list names; absent ones are returned empty.
fn select_named(entries: &[EaPair], list: &[u8]) -> Result<Vec<EaPair>, NtStatus> {
    let names = decode_ea_names(list).map_err(|_| NtStatus::EA_LIST_INCONSISTENT)?;
    if !names.iter().all(|name| is_name(name)) {
        return Err(NtStatus::INVALID_EA_NAME);
    }
    let find = |wanted: &&[u8]| {
        let found = entries.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.cloned().unwrap_or((wanted.to_vec(), Vec::new()))
    };
    Ok(names.iter().map(find).collect())
}

/// Appends as many entries as fit, and returns their number.
fn show_ea(
    entries: &[EaPair],
    data: &mut Vec<u8>,
    room: usize,
) -> Result<(usize, NtStatus), QueryRefusal> {
    match put_ea_list(entries, data, room) {
        // MS-FSA 2.1.5.12.12: at least the next entry must fit.
        0 => {
            put_ea_list(entries.get(..1).unwrap_or_default(), data, usize::MAX);
            Err(QueryRefusal::BufferTooSmall(data.len()))
        }
        count if count < entries.len() => Ok((count, NtStatus::BUFFER_OVERFLOW)),
        count => Ok((count, NtStatus::SUCCESS)),
    }
}

fn pipe_info(
    open: &Open,
    class: u8,
    room: usize,
    data: &mut Vec<u8>,
) -> Result<NtStatus, NtStatus> {
    let class = FileInfoClass::from_number(class).ok_or(NtStatus::INVALID_INFO_CLASS)?;
    if room < class.bytes_min() {
        return Err(NtStatus::INFO_LENGTH_MISMATCH);
    }
    let facts = FileFacts {
        attributes: fscc::FILE_ATTRIBUTE_NORMAL,
        allocation_bytes: 4096,
        links: 1,
        delete_pending: true,
        index: open.id.persistent,
        access: Access::FILE_READ.0 | Access::FILE_WRITE.0,
        ..FileFacts::default()
    };
    let known =
        matches!(class, FileInfoClass::Basic | FileInfoClass::Standard | FileInfoClass::Internal);
    if !known || !encode_file_info(class, &facts, &mut Writer::new(data)) {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    Ok(NtStatus::SUCCESS)
}

/// Space accounting of a share with a limit for backups.
#[derive(Clone, Copy, Debug)]
struct BackupRoom {
    max_bytes: u64,
    used_bytes: u64,
}

impl BackupRoom {
    fn limit(self, space: Space) -> Space {
        let left = self.max_bytes.saturating_sub(self.used_bytes);
        Space {
            total_bytes: space.total_bytes.min(self.max_bytes),
            free_bytes: space.free_bytes.min(left),
            available_bytes: space.available_bytes.min(left),
            ..space
        }
    }
}

fn caller_of(request: &Request<'_>, open: &Open) -> Result<Arc<Caller>, NtStatus> {
    Ok(open.tree.caller(&request.session()?.user()).clone())
}

async fn room_for_backups(
    request: &Request<'_>,
    file: &OpenFile,
) -> Result<Option<BackupRoom>, NtStatus> {
    let share = request.related.open.as_ref().map(|open| &open.tree.share);
    let Some(max_bytes) = share.and_then(|share| share.time_machine_max_bytes) else {
        return Ok(None);
    };
    let used = request.files.backup_bytes(file.volume()).await;
    Ok(Some(BackupRoom { max_bytes, used_bytes: used.map_err(status_of)? }))
}

/// The file system of an open: that of its file, which may be mounted below the share's root.
struct FsOfOpen {
    features: TreeFeatures,
    /// Number of the share's root, as which the complete share is one volume.
    serial: u64,
    has_streams: bool,
    is_read_only: bool,
    quotas: QuotaState,
}

impl FsOfOpen {
    fn of_file(request: &Request<'_>, file: &OpenFile) -> Self {
        let features = file.features();
        Self {
            features,
            serial: file.volume().vfs_serial(),
            has_streams: file.volume().has_streams() && features.stream_bytes_max > 0,
            is_read_only: file.is_read_only_mount(),
            quotas: request.files.quota_state_of(file),
        }
    }

    fn of_volume(request: &Request<'_>, volume: &Volume) -> Self {
        Self {
            features: volume.features(),
            serial: volume.vfs_serial(),
            has_streams: volume.has_streams(),
            is_read_only: volume.is_read_only(),
            quotas: request.files.quota_state(volume),
        }
    }

    fn attributes(&self) -> u32 {
        let features = &self.features;
        FS_NAMES
            | has(features.case_sensitive, FS_CASE_SENSITIVE)
            | has(features.file_system.is_some(), FS_OBJECT_IDS)
            | has(self.has_streams, FS_NAMED_STREAMS)
            | has(features.xattrs, FS_OF_XATTRS)
            | has(features.xattrs || features.symlinks, FS_REPARSE_POINTS)
            | has(features.hard_links, FS_HARD_LINKS)
            | has(features.sparse, FS_SPARSE_FILES)
            | has(self.is_read_only, FS_READ_ONLY)
            | has(features.compression, FS_COMPRESSION)
            | has(features.reflink, FS_BLOCK_REFCOUNTING)
            | has(self.quotas != QuotaState::Absent, FS_QUOTAS)
    }
}

fn fs_info(
    request: &Request<'_>,
    fs: &FsOfOpen,
    body: &QueryInfoRequest<'_>,
    space: Space,
    data: &mut Vec<u8>,
) -> Result<NtStatus, NtStatus> {
    let room = body.output_bytes as usize;
    let class = FsInfoClass::from_number(body.class).ok_or(fs_query_refusal(body.class))?;
    if room < class.bytes_min() {
        return Err(NtStatus::INFO_LENGTH_MISMATCH);
    }
    let object_id = fs.features.file_system.map(|FileSystemId(id)| id);
    if class == FsInfoClass::ObjectId && object_id.is_none() {
        // MS-FSA 2.1.5.13.8.
        return Err(NtStatus::VOLUME_NOT_UPGRADED);
    }
    let open = request.related.open.as_ref().ok_or(NtStatus::FILE_CLOSED)?;
    let unit = u64::from(space.block_bytes.max(512));
    let facts = FsFacts {
        created: fscc::FileTime(0),
        serial: fs.serial as u32 ^ (fs.serial >> 32) as u32,
        label: open.tree.share.name.clone(),
        units_total: space.total_bytes / unit,
        units_free: space.free_bytes / unit,
        units_available: space.available_bytes / unit,
        sectors_per_unit: (unit / 512) as u32,
        attributes: fs.attributes(),
        quota_flags: quota_flags(fs.quotas),
        trims: fs.features.sparse && !fs.is_read_only,
        name_max: 255,
        object_id: object_id.unwrap_or_default(),
    };
    encode_fs_info(class, &facts, &mut Writer::new(data));
    Ok(fit(data, room))
}

/// POSIX-FSCC 2.3.1.
fn posix_fs_info(
    request: &Request<'_>,
    file: &OpenFile,
    space: Space,
    (room, data): (usize, &mut Vec<u8>),
) -> Result<NtStatus, NtStatus> {
    if room < PosixFsInfo::BYTES {
        return Err(NtStatus::INFO_LENGTH_MISMATCH);
    }
    let block = u64::from(space.block_bytes.max(1));
    let info = PosixFsInfo {
        transfer_bytes: request.negotiated.io_bytes_max,
        block_bytes: space.block_bytes,
        blocks_total: space.total_bytes / block,
        blocks_free: space.free_bytes / block,
        blocks_available: space.available_bytes / block,
        nodes_total: space.nodes_total,
        nodes_free: space.nodes_free,
        serial: file.volume().vfs_serial(),
    };
    info.encode(&mut Writer::new(data));
    Ok(NtStatus::SUCCESS)
}

fn quota_flags(quotas: QuotaState) -> u32 {
    match quotas {
        QuotaState::Absent => 0,
        QuotaState::Counted => FILE_VC_QUOTA_TRACK,
        QuotaState::Enforced => FILE_VC_QUOTA_ENFORCE,
    }
}

fn has(is_so: bool, attribute: u32) -> u32 {
    if is_so { attribute } else { 0 }
}

fn security_info(
    request: &Request<'_>,
    file: &OpenFile,
    body: &QueryInfoRequest<'_>,
    data: &mut Vec<u8>,
) -> Result<NtStatus, QueryRefusal> {
    let parts = parts(body.additional);
    let files = request.files;
    let mut descriptor = files.descriptor(file, parts).map_err(status_of)?;
    let is_apple = request.related.open.as_ref().is_some_and(|open| open.tree.is_apple());
    if is_apple && parts.dacl {
        let attributes = files.file_attributes(file).map_err(status_of)?;
        apple::add_nfs_entries(&mut descriptor, &attributes);
    }
    *data = descriptor.encode();
    if data.len() > body.output_bytes as usize {
        return Err(QueryRefusal::BufferTooSmall(data.len()));
    }
    Ok(NtStatus::SUCCESS)
}

/// The parts of a descriptor that SECURITY_INFORMATION bits select. MS-DTYP 2.4.7.
pub(super) fn parts(bits: u32) -> SecurityParts {
    SecurityParts {
        owner: bits & fscc::OWNER_SECURITY_INFORMATION != 0,
        group: bits & fscc::GROUP_SECURITY_INFORMATION != 0,
        dacl: bits & fscc::DACL_SECURITY_INFORMATION != 0,
        sacl: bits & fscc::SACL_SECURITY_INFORMATION != 0,
    }
}
