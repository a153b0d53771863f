//! SET_INFO. MS-SMB2 3.3.5.21.

use super::info_classes::{file_set_refusal, fs_set_refusal};
use super::query_info::parts;
use crate::conversion::extended_attributes;
use crate::conversion::names::{SmbPath, SmbStreamName, names_directory, parse_path};
use crate::conversion::status::status_of;
use crate::extensions::apple::{is_info, take_nfs_entries};
use crate::extensions::posix::{is_posix, is_unchanged_list, mode_of, parse_posix_path};
use crate::extensions::quota;
use crate::opens::open::{Open, OpenTarget};
use crate::opens::stable::{self, Promise};
use crate::request::context::{HandlerOutcome, Request, malformed};
use files::{
    Access, BasicChange, Descriptor, OpenFile, RequestFiles, SecurityParts, Sid, TimeSetting, dos,
};
use limits::Cost;
use std::sync::Arc;
use vfs::{FsError, Timestamp};
use wire::codec::{Reader, utf16_units};
use wire::fscc::{BasicInfo, FileInfoClass, FileTime, RenameInfo};
use wire::ntstatus::NtStatus;
use wire::smb::{AFP_INFO_BYTES, InfoType, SetInfoRequest};

/// Changes a file: its metadata, name, disposition or security descriptor.
pub async fn set_info(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = SetInfoRequest::decode(&mut request.body()?).map_err(malformed)?;
    request.check_payload(body.input.len(), 0)?;
    let open = request.open(body.file_id)?;
    let open = request.admit(open, Cost::metadata()).await?;
    if let (InfoType::Quota, OpenTarget::Quotas(quotas)) = (body.kind, &open.target) {
        quota::set(request, &open, quotas, body.input).await?;
        Box::pin(stable::after_quotas(request.files, &open, &quotas.volume)).await?;
        request.w.u16(2);
        return Ok(HandlerOutcome::success());
    }
    let file = open.file()?;
    match body.kind {
        InfoType::File => {
            let class =
                FileInfoClass::from_number(body.class).ok_or(file_set_refusal(body.class))?;
            let stabilizing =
                stable::before(request.files, &open, Promise::of_file_info(class)).await?;
            set_file_info(request, &open, (class, body.class), body.input).await?;
            stabilizing.after(request.files, file).await?;
            if [FileInfoClass::Disposition, FileInfoClass::DispositionEx].contains(&class) {
                Box::pin(request.files.record_opens(file)).await.map_err(status_of)?;
            }
        }
        InfoType::FileSystem => {
            let may_write = file.granted().intersects(Access::WRITE_DATA);
            return Err(fs_set_refusal(body.class, may_write));
        }
        InfoType::Security => {
            let descriptor =
                Descriptor::decode(body.input).map_err(|_| NtStatus::INVALID_SECURITY_DESCR)?;
            let (files, parts) = (request.files, parts(body.additional));
            let stabilizing = stable::before(request.files, &open, Promise::File).await?;
            if open.tree.is_apple() && parts.dacl {
                set_security_of_apple(files, file, descriptor, parts)?;
            } else {
                set_security(files, file, descriptor, parts)?;
            }
            stabilizing.after(files, file).await?;
        }
        InfoType::Quota => return Err(NtStatus::INVALID_HANDLE),
        InfoType::Unknown(_) => return Err(NtStatus::INVALID_PARAMETER),
    }
    request.w.u16(2);
    Ok(HandlerOutcome::success())
}

/// Sets a descriptor. POSIX clients send the mode as an ACE, and owners as numeric SIDs.
fn set_security(
    files: &RequestFiles,
    file: &OpenFile,
    mut descriptor: Descriptor,
    mut parts: SecurityParts,
) -> Result<(), NtStatus> {
    if !is_posix(file) {
        return files.set_descriptor(file, &descriptor, parts).map_err(status_of);
    }
    let mut mode = None;
    if parts.dacl {
        let shown = files.descriptor_unchecked(file).map_err(status_of)?;
        let is_chown = parts.owner || parts.group;
        mode = mode_of(&descriptor, shown.dacl.as_deref().unwrap_or_default());
        parts.dacl = mode.is_none();
        if is_chown {
            // chown(2): the Linux client returns the ACL that it read, and no new mode.
            mode = None;
            parts.dacl &= !is_unchanged_list(&descriptor, &shown);
        }
        // A mode beside a real ACL has no effect.
        descriptor.dacl.iter_mut().for_each(|it| it.retain(|ace| ace.sid.as_nfs_mode().is_none()));
    }
    descriptor.owner = descriptor.owner.map(Sid::from_nfs);
    descriptor.group = descriptor.group.map(Sid::from_nfs);
    if parts != SecurityParts::default() {
        files.set_descriptor(file, &descriptor, parts).map_err(status_of)?;
    }
    mode.map_or(Ok(()), |mode| files.set_mode(file, mode)).map_err(status_of)
}

/// Sets a descriptor of an Apple client. Such clients return the entries that they read with
/// another mode, and send empty ACLs without meaning.
fn set_security_of_apple(
    files: &RequestFiles,
    file: &OpenFile,
    mut descriptor: Descriptor,
    parts: SecurityParts,
) -> Result<(), NtStatus> {
    let is_empty = |descriptor: &Descriptor| descriptor.dacl.as_ref().is_some_and(Vec::is_empty);
    if is_empty(&descriptor) {
        return Ok(());
    }
    let mode = take_nfs_entries(&mut descriptor);
    let parts = SecurityParts { dacl: !is_empty(&descriptor), ..parts };
    if parts != SecurityParts::default() {
        files.set_descriptor(file, &descriptor, parts).map_err(status_of)?;
    }
    mode.map_or(Ok(()), |mode| files.set_mode(file, mode)).map_err(status_of)
}

/// Sets times and attributes. The record of a persistent open contains which times it leaves.
fn set_basic(request: &Request<'_>, open: &Open, change: &BasicChange) -> Result<(), NtStatus> {
    request.files.set_attributes(open.file()?, change).map_err(status_of)?;
    request.server.record_stopped_times(open);
    Ok(())
}

async fn set_file_info(
    request: &Request<'_>,
    open: &Open,
    (class, number): (FileInfoClass, u8),
    input: &[u8],
) -> Result<(), NtStatus> {
    let (files, file) = (request.files, open.file()?);
    let short = |_| NtStatus::INFO_LENGTH_MISMATCH;
    let mut r = Reader::new(input);
    match class {
        FileInfoClass::Basic => {
            let change = basic_change(BasicInfo::decode(input).map_err(short)?)?;
            set_basic(request, open, &change)
        }
        FileInfoClass::Rename | FileInfoClass::RenameEx => {
            let info = RenameInfo::decode(input).map_err(short)?;
            rename(files, open, &info).await
        }
        FileInfoClass::Link => {
            let info = RenameInfo::decode(input).map_err(short)?;
            let to = target(files, file, &info).await?;
            if to.stream.is_some() {
                return Err(NtStatus::NOT_SUPPORTED);
            }
            files.link(file, &to.path, info.flags & 1 != 0).await.map_err(status_of)
        }
        FileInfoClass::Disposition => {
            let delete = r.u8("disposition").map_err(short)? != 0;
            set_delete(files, file, delete, false).await
        }
        FileInfoClass::DispositionEx => {
            let flags = r.u32("disposition").map_err(short)?;
            set_delete(files, file, flags & 1 != 0, flags & 0x10 != 0).await
        }
        FileInfoClass::EndOfFile => {
            let size = r.u64("end of file").map_err(short)?;
            check_size(size)?;
            if is_info(file) {
                // As on macOS, AfpInfo cannot grow beyond its fixed size, and is never truncated.
                let fits = size <= AFP_INFO_BYTES as u64;
                return if fits { Ok(()) } else { Err(NtStatus::ALLOTTED_SPACE_EXCEEDED) };
            }
            files.set_size(file.caller(), file, size).await.map_err(status_of)
        }
        FileInfoClass::Allocation => {
            let size = r.u64("allocation").map_err(short)?;
            check_size(size)?;
            files.set_allocation(file.caller(), file, size).await.map_err(status_of)
        }
        FileInfoClass::Position => {
            let position = r.u64("position").map_err(short)?;
            check_size(position)?;
            file.set_position(position);
            Ok(())
        }
        FileInfoClass::Mode => {
            let mode = r.u32("mode").map_err(short)?;
            open.change_mode(mode)?;
            Box::pin(request.server.update_record(open)).await
        }
        FileInfoClass::FullEa => set_xattrs(request, file, input),
        FileInfoClass::ValidDataLength => {
            check_valid_data(files, file, r.u64("valid data").map_err(short)?)
        }
        _ => Err(file_set_refusal(number)),
    }
}

async fn set_delete(
    files: &RequestFiles,
    file: &Arc<OpenFile>,
    delete: bool,
    ignore_readonly: bool,
) -> Result<(), NtStatus> {
    if delete {
        files.break_handles_before_delete(file).await.map_err(status_of)?;
    }
    files.mark_deleted(file, delete, ignore_readonly).await.map_err(status_of)
}

/// Checks ValidDataLength, which must equal the file size because all data is valid; nothing
/// changes. MS-FSA 2.1.5.15.14.
fn check_valid_data(files: &RequestFiles, file: &OpenFile, bytes: u64) -> Result<(), NtStatus> {
    // MS-SMB2 3.3.5.21.1.
    if !file.granted().intersects(Access::WRITE_DATA) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if !file.caller().is_root() {
        return Err(NtStatus::PRIVILEGE_NOT_HELD);
    }
    let attributes = files.attributes_unchecked(file).map_err(status_of)?;
    let is_sparse = attributes.dos.bits.unwrap_or(0) & dos::SPARSE != 0;
    if file.is_directory() || is_sparse || attributes.compressed || attributes.size_bytes != bytes {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(())
}

fn check_size(size: u64) -> Result<(), NtStatus> {
    if size > i64::MAX as u64 { Err(NtStatus::INVALID_PARAMETER) } else { Ok(()) }
}

/// Special time values. MS-FSCC 2.4.7.
fn basic_change(info: BasicInfo) -> Result<BasicChange, NtStatus> {
    let setting = |time: FileTime| match time.0 {
        0 => Ok(TimeSetting::Keep),
        u64::MAX => Ok(TimeSetting::Freeze),
        0xFFFF_FFFF_FFFF_FFFE => Ok(TimeSetting::Thaw),
        value if value > i64::MAX as u64 => Err(NtStatus::INVALID_PARAMETER),
        _ => Ok(TimeSetting::Set(Timestamp(time.to_unix_nanos()))),
    };
    let [created, accessed, modified, changed] = info.times;
    Ok(BasicChange {
        created: setting(created)?,
        accessed: setting(accessed)?,
        modified: setting(modified)?,
        changed: setting(changed)?,
        dos_bits: (info.attributes != 0).then_some(info.attributes),
    })
}

/// A target that begins with `:` renames the file's stream. MS-FSA 2.1.5.15.11.
async fn rename(files: &RequestFiles, open: &Open, info: &RenameInfo<'_>) -> Result<(), NtStatus> {
    let file = open.file()?;
    let (to, replace) = (target(files, file, info).await?, info.flags & 1 != 0);
    let result = match &to.stream {
        Some(SmbStreamName::Named(name)) if to.path.is_root() => {
            files.rename_stream(file, name, replace).await
        }
        // Converting between a stream and a file's default data is not supported.
        Some(_) if to.path.is_root() || file.stream().is_none() => {
            return Err(NtStatus::NOT_SUPPORTED);
        }
        _ if open.tree.moves_opens_below() => {
            files.rename_with_opens(file, &to.path, replace).await
        }
        _ => files.rename(file, &to.path, replace).await,
    };
    result.map_err(status_of)
}

async fn target(
    files: &RequestFiles,
    file: &OpenFile,
    info: &RenameInfo<'_>,
) -> Result<SmbPath, NtStatus> {
    let mut target = parse_target(file, info)?;
    if let Some(path) = target.ambiguous.take() {
        let (volume, case) = (file.volume(), file.semantics().case(file.volume()));
        let chosen = files.resolve_private_use(volume, file.caller(), case, *path).await;
        target.path = chosen.map_err(status_of)?;
    }
    Ok(target)
}

fn parse_target(file: &OpenFile, info: &RenameInfo<'_>) -> Result<SmbPath, NtStatus> {
    if info.root != 0 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let units = utf16_units(info.name, "new name").map_err(malformed)?;
    // MS-FSA 2.1.5.15.6, 2.1.5.15.11.
    if units.is_empty() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if is_posix(file) {
        return parse_posix_path(&units).map_err(status_of);
    }
    let units = units.strip_prefix(&[u16::from(b'\\')]).unwrap_or(&units);
    if units.is_empty() || (names_directory(units) && !file.is_directory()) {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    parse_path(units).map_err(status_of)
}

fn set_xattrs(request: &Request<'_>, file: &OpenFile, input: &[u8]) -> Result<(), NtStatus> {
    for (name, value) in extended_attributes::decode(input)? {
        let result = request.files.set_xattr(file, &name, value.as_deref());
        result.map_err(|error| match error {
            FsError::InvalidName | FsError::NameTooLong => NtStatus::INVALID_EA_NAME,
            FsError::NotSupported => NtStatus::EAS_NOT_SUPPORTED,
            FsError::TooLarge => NtStatus::EA_TOO_LARGE,
            other => status_of(other),
        })?;
    }
    Ok(())
}
