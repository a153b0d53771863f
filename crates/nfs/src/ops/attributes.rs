//! GETATTR, SETATTR, ACCESS, VERIFY, NVERIFY. RFC 8881 18.1, 18.7, 18.15, 18.30, 18.31.

use super::delegation;
use crate::encoding::access_list::entries_of;
use crate::encoding::attributes::{
    FileSystemFacts, LISTS, ReportedObject, SPACE, check_readable, put, settable, timestamp,
};
use crate::encoding::owner::number_of;
use crate::exports::export::Export;
use crate::exports::pseudo::PseudoId;
use crate::request::place::HandleTarget;
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use files::{
    Access as Rights, Caller, NamedAce, NamedList, NamedWho, NewMode, Object, ObjectChanges,
};
use std::sync::Arc;
use vfs::{
    Attributes, DosInfo, FileKey, FileKind, MetadataPresence, Space, TimeChange, Timestamp,
    TreeFeatures,
};
use wire::nfs::acl::AclFlags;
use wire::nfs::attributes::{Fattr, FsId, ModeMasked, NfsAttributes, SetTime, attribute};
use wire::nfs::ops::{AccessArgs, AccessResult, SetAttrArgs, SetAttrReply, VerifyArgs};
use wire::nfs::xdr::XdrWriter;
use wire::nfs::{Access, Bitmap4, NfsStatus};

/// Result of GETATTR, encoded behind its status.
pub(crate) struct GetAttrReply {
    pub shown: ReportedObject,
    pub around: FileSystemFacts,
}

impl GetAttrReply {
    pub fn put(&self, w: &mut XdrWriter<'_>, requested: Bitmap4) {
        put(w, requested, &self.shown, &self.around);
    }
}

pub(crate) async fn get(
    run: &mut CompoundRun<'_>,
    requested: Bitmap4,
) -> Result<GetAttrReply, NfsStatus> {
    check_readable(requested)?;
    let files = run.files().clone();
    let wants_handle = requested.contains(attribute::FILEHANDLE);
    let handle = if wants_handle { Some(run.place()?.handle(&files)?) } else { None };
    if let HandleTarget::Pseudo(id) = *run.place()? {
        let around = around(run, None, requested)?;
        return Ok(GetAttrReply {
            shown: ReportedObject { handle, ..shown_pseudo(run, id) },
            around,
        });
    }
    let export = run.object_place()?.export.clone();
    let alone = (requested & SPACE).is_empty();
    if let Some(attributes) = alone.then(|| attributes_without_lookup(run, requested)).flatten() {
        let around = around(run, Some((&export, None)), requested)?;
        let mounted_on = attributes.key.inode;
        let shown = shown_on(&export, mounted_on, attributes);
        return Ok(GetAttrReply { shown: ReportedObject { handle, ..shown }, around });
    }
    let object = run.object_place()?.object(&files).await?;
    let looked = run.seen.take().filter(|(key, _)| *key == object.key());
    // TIME_CREATE is stored in an extended attribute, which costs another system call.
    let attributes = match (requested.contains(attribute::TIME_CREATE), looked) {
        (true, _) => files.object_attributes(&object),
        (false, Some((_, attributes))) => Ok(attributes),
        (false, None) => files.object_attributes_alone(&object),
    };
    let attributes = attributes.or_status()?;
    let attributes = match delegation::may_be_stale(run, requested, object.key()) {
        true => Box::pin(delegation::with_writer_attributes(run, &object, attributes)).await?,
        false => attributes,
    };
    let around = around(run, Some((&export, Some(&object))), requested)?;
    let list = match (requested & LISTS).is_empty() {
        true => None,
        false => {
            let caller = run.caller(&export);
            Some(Box::pin(files.object_acl(&caller, &object)).await.or_status()?)
        }
    };
    Ok(GetAttrReply {
        shown: ReportedObject { handle, list, ..shown(&export, &object, attributes) },
        around,
    })
}

/// Attributes without a lookup of the object: those of an earlier operation, or those of an open of
/// the file. None if the request needs more.
fn attributes_without_lookup(run: &mut CompoundRun<'_>, requested: Bitmap4) -> Option<Attributes> {
    let is_all = (requested & LISTS).is_empty() && !requested.contains(attribute::TIME_CREATE);
    if !is_all || run.object_place().ok()?.has_object() {
        return None;
    }
    let attributes = match run.seen {
        Some((_, attributes)) => attributes,
        None => {
            let files = run.files().clone();
            let place = run.object_place().ok()?;
            files.attributes_of_open(&place.export.volume, place.unresolved_handle()?)?
        }
    };
    (!delegation::may_be_stale(run, requested, attributes.key)).then_some(attributes)
}

pub(crate) fn shown(export: &Export, object: &Object, attributes: Attributes) -> ReportedObject {
    let mounted_on = if object.is_root() { mount_point(export) } else { attributes.key.inode };
    shown_on(export, mounted_on, attributes)
}

fn shown_on(export: &Export, mounted_on: u64, attributes: Attributes) -> ReportedObject {
    ReportedObject {
        fsid: fsid(export, attributes.key),
        attributes,
        mounted_on,
        handle: None,
        list: None,
    }
}

/// A share is a file system of its own, and so is each mount in it.
pub(crate) fn fsid(export: &Export, key: FileKey) -> FsId {
    FsId { major: u64::from(export.id.0), minor: key.device }
}

/// Inode number of a share's directory in the pseudo root.
pub(crate) fn mount_point(export: &Export) -> u64 {
    (1 << 32) | u64::from(export.id.0)
}

/// Attributes of a pseudo directory, which never changes.
pub(crate) fn shown_pseudo(run: &CompoundRun<'_>, id: PseudoId) -> ReportedObject {
    let started = run.server().started;
    let attributes = Attributes {
        key: FileKey { device: 0, inode: id.inode() },
        kind: FileKind::Directory,
        mode: 0o555,
        uid: 0,
        gid: 0,
        links: 2,
        size_bytes: 4096,
        allocated_bytes: 0,
        accessed: started,
        modified: started,
        changed: started,
        change: run.server().generation(),
        born: Some(started),
        dos: DosInfo::default(),
        set_changed: None,
        device: None,
        compressed: false,
        protection: vfs::Protection::None,
        stored: MetadataPresence::default(),
    };
    let access = Rights::FILE_READ | Rights::FILE_EXECUTE;
    let everyone = NamedAce { allows: true, flags: 0, access, who: NamedWho::Everyone };
    let list = Some(NamedList { entries: vec![everyone], ..NamedList::default() });
    ReportedObject { attributes, fsid: FsId::default(), mounted_on: id.inode(), handle: None, list }
}

/// Facts of the server and of the object's file system; the pseudo root is in none.
pub(crate) fn around(
    run: &CompoundRun<'_>,
    export: Option<(&Export, Option<&Object>)>,
    requested: Bitmap4,
) -> Result<FileSystemFacts, NfsStatus> {
    let wants_space = !(requested & SPACE).is_empty();
    let space = match export {
        Some((export, object)) if wants_space => {
            let caller = run.caller(export);
            let space = match object {
                Some(object) => run.files().object_space(object, &caller),
                None => run.files().space(&export.volume, &caller),
            };
            Some(space.or_status()?)
        }
        _ if wants_space => Some(Space::default()),
        _ => None,
    };
    let features =
        export.map_or_else(TreeFeatures::default, |(export, _)| export.volume.features());
    Ok(FileSystemFacts {
        minor_version: run.minor_version,
        lease: run.config.lease,
        // NFS compares names byte for byte, whatever SMB does on the share.
        is_case_insensitive: false,
        features,
        space,
    })
}

/// Decoded attributes that a client wants to set.
#[derive(Debug, Default)]
pub(crate) struct RequestedAttributes {
    /// All but the access list.
    pub changes: ObjectChanges,
    /// Access list, which the server sets after the mode: RFC 8881 6.4.1.3.
    pub list: Option<NamedList>,
    /// Attributes in the request.
    pub mask: Bitmap4,
    masked: Option<ModeMasked>,
    /// Mode before the umask, if the client sent both.
    unmasked_mode: Option<u32>,
}

impl RequestedAttributes {
    /// Mode of a new object, where `default` is the share's. The umask applies only without
    /// inheritance. RFC 8275 4.
    ///
    /// An access list is set in a second step, and the power may fail in between. Until then only
    /// the creator has access. The x bits of a file stay, since no list grants execution without
    /// one.
    pub fn new_mode(&self, default: u32) -> Option<NewMode> {
        const CREATOR_ALONE: u32 = 0o7711;
        if self.list.is_some() {
            let bits = self.changes.mode.unwrap_or(default);
            return Some(NewMode::exactly(bits & CREATOR_ALONE));
        }
        let bits = self.changes.mode?;
        Some(NewMode { bits, inherits_within: Some(self.unmasked_mode.unwrap_or(bits)) })
    }

    /// Completes a mode of which the client gave only some bits.
    pub fn complete_mode(&mut self, present: impl FnOnce() -> Option<u32>) {
        if let Some(ModeMasked { value, mask }) = self.masked {
            self.changes.mode = present().map(|mode| mode & 0o7777 & !mask | value & mask);
        }
    }
}

/// Decodes the attributes that a client wants to set.
///
/// # Errors
/// ATTRNOTSUPP; INVAL for read-only attributes; BADXDR, BADOWNER, INVAL for bad values.
pub(crate) fn decode_requested(
    run: &CompoundRun<'_>,
    attributes: &Fattr<'_>,
) -> Result<RequestedAttributes, NfsStatus> {
    let mask = attributes.mask;
    let supported = crate::encoding::attributes::supported(run.minor_version);
    if !supported.contains_all(mask) {
        return Err(NfsStatus::ATTRNOTSUPP);
    }
    // Two attributes for the same property would contradict each other.
    let is_twice = |ways: Bitmap4| (mask & ways).0.count_ones() > 1;
    if !settable(run.minor_version).contains_all(mask) || is_twice(MODES) || is_twice(LISTS) {
        return Err(NfsStatus::INVAL);
    }
    let named: NfsAttributes<'_> = attributes.attributes().map_err(NfsStatus::from)?;
    let mut changes = ObjectChanges { size_bytes: named.size, ..ObjectChanges::default() };
    let without_umask = named.mode_umask.map(|mode| mode.mode & !mode.umask);
    changes.mode = named.mode.or(without_umask);
    let masked = named.mode_set_masked;
    let bits = changes.mode.or(masked.map(|mode| mode.value | mode.mask));
    if bits.is_some_and(|mode| mode & !0o7777 != 0) {
        return Err(NfsStatus::INVAL);
    }
    changes.owner.uid = named.owner.map(number_of).transpose()?;
    changes.owner.gid = named.owner_group.map(number_of).transpose()?;
    changes.accessed = time_change(named.time_access_set)?;
    changes.modified = time_change(named.time_modify_set)?;
    if let Some(created) = named.time_create {
        changes.dos = Some(DosInfo { bits: None, created: Some(timestamp(created)?) });
    }
    let unmasked_mode = named.mode_umask.map(|mode| mode.mode);
    Ok(RequestedAttributes { changes, list: list_of(&named)?, mask, masked, unmasked_mode })
}

/// Attributes that set the mode.
const MODES: Bitmap4 =
    Bitmap4::of(&[attribute::MODE, attribute::MODE_SET_MASKED, attribute::MODE_UMASK]);

fn list_of(named: &NfsAttributes<'_>) -> Result<Option<NamedList>, NfsStatus> {
    if let Some(acl) = &named.acl {
        // acl has no inherited flag, so the list counts as protected.
        let entries = entries_of(acl, false)?;
        return Ok(Some(NamedList { is_inherited: false, is_protected: true, entries }));
    }
    let Some(dacl) = &named.dacl else { return Ok(None) };
    let is_inherited = dacl.flags.contains(AclFlags::AUTO_INHERIT);
    let is_protected = dacl.flags.contains(AclFlags::PROTECTED);
    let entries = entries_of(&dacl.entries, true)?;
    Ok(Some(NamedList { is_inherited, is_protected, entries }))
}

/// Sets the access list, if there is one.
///
/// # Errors
/// PERM where the caller may not set mode bits either; ATTRNOTSUPP if the list is too long to
/// store.
pub(crate) async fn set_list(
    run: &CompoundRun<'_>,
    (object, caller): (&Object, &Arc<Caller>),
    list: Option<&NamedList>,
) -> Result<(), NfsStatus> {
    let Some(list) = list else { return Ok(()) };
    let result = run.files().set_object_acl(caller, object, list).await;
    result.map_err(|error| match error {
        vfs::FsError::AccessDenied => NfsStatus::PERM,
        vfs::FsError::TooLarge => NfsStatus::ATTRNOTSUPP,
        other => crate::status::status_of(other),
    })
}

fn time_change(set: Option<SetTime>) -> Result<TimeChange, NfsStatus> {
    Ok(match set {
        None => TimeChange::Keep,
        Some(SetTime::Server) => TimeChange::Now,
        Some(SetTime::Client(time)) => {
            let at: Timestamp = timestamp(time)?;
            TimeChange::Set(at)
        }
    })
}

pub(crate) async fn set(run: &mut CompoundRun<'_>, args: &SetAttrArgs<'_>) -> SetAttrReply {
    match try_set(run, args).await {
        Ok(attributes_set) => SetAttrReply { status: NfsStatus::OK, attributes_set },
        Err(status) => SetAttrReply::failed(status),
    }
}

async fn try_set(run: &mut CompoundRun<'_>, args: &SetAttrArgs<'_>) -> Result<Bitmap4, NfsStatus> {
    let mut requested = decode_requested(run, &args.attributes)?;
    let (object, caller) = run.object().await?;
    let present = || run.files().object_attributes(&object).ok();
    requested.complete_mode(|| present().map(|present| present.mode));
    let RequestedAttributes { mut changes, list, mask, .. } = requested;
    if object.kind() == FileKind::Symlink {
        // Links have no mode on Linux; clients that copy one set it all the same.
        changes.mode = None;
    }
    let id = run.resolve_id(args.state_id)?;
    let by = match changes.size_bytes {
        Some(_) if !id.is_special() => Some(run.open_by(&id, Rights::WRITE_DATA)?.open),
        Some(_) => {
            run.server().check_no_grace()?;
            None
        }
        None => None,
    };
    let files = run.files().clone();
    let result = files.set_object_attributes(&caller, &object, by.as_ref(), &changes).await;
    match result {
        // RFC 8881 15.1.6.2: PERM if only the owner or root may do this.
        Err(vfs::FsError::AccessDenied) if is_owners(&changes) => Err(NfsStatus::PERM),
        other => other.or_status(),
    }?;
    set_list(run, (&object, &caller), list.as_ref()).await?;
    run.note_changed(&[&object]);
    Ok(mask)
}

/// Whether a change is reserved for the owner. A writer may set times to the current time only.
fn is_owners(changes: &ObjectChanges) -> bool {
    let sets = |time| matches!(time, TimeChange::Set(_));
    changes.mode.is_some()
        || changes.owner != Default::default()
        || sets(changes.accessed)
        || sets(changes.modified)
}

pub(crate) async fn access(
    run: &mut CompoundRun<'_>,
    args: &AccessArgs,
) -> Result<AccessResult, NfsStatus> {
    let asked = args.access;
    if matches!(run.place()?, HandleTarget::Pseudo(_)) {
        let supported = asked & Access(0x1F);
        let access = supported & (Access::READ | Access::LOOKUP);
        return Ok(AccessResult { supported, access });
    }
    let (object, caller) = run.object().await?;
    let seen = run.seen.filter(|(key, _)| *key == object.key()).map(|(_, seen)| seen);
    let mut rights = run.files().object_access_as_seen(&caller, &object, seen).or_status()?;
    let peer = run.call.conn.link.facts.peer.ip();
    if run.object_place()?.export.is_read_only(peer) {
        let changing = Rights::WRITE_DATA | Rights::APPEND_DATA | Rights::WRITE_EA;
        rights = rights - changing - Rights::DELETE_CHILD;
    }
    let is_directory = object.kind() == FileKind::Directory;
    let mut known = vec![
        (Access::READ, Rights::READ_DATA),
        (Access::MODIFY, Rights::WRITE_DATA),
        (Access::EXTEND, Rights::APPEND_DATA),
    ];
    if is_directory {
        known.push((Access::LOOKUP, Rights::EXECUTE));
        known.push((Access::DELETE, Rights::DELETE_CHILD));
    } else {
        known.push((Access::EXECUTE, Rights::EXECUTE));
    }
    if run.minor_version >= 2 {
        known.push((Access::XATTR_READ, Rights::READ_EA));
        known.push((Access::XATTR_WRITE, Rights::WRITE_EA));
        known.push((Access::XATTR_LIST, Rights::READ_EA));
    }
    let (mut supported, mut access) = (Access(0), Access(0));
    for (bit, right) in known {
        if asked.contains(bit) {
            supported |= bit;
            if rights.contains(right) {
                access |= bit;
            }
        }
    }
    Ok(AccessResult { supported, access })
}

/// VERIFY (`same`), which succeeds if the attributes match, and NVERIFY, which fails then.
pub(crate) async fn verify(
    run: &mut CompoundRun<'_>,
    args: &VerifyArgs<'_>,
    same: bool,
) -> Result<(), NfsStatus> {
    match is_same(run, &args.attributes).await? {
        is if is == same => Ok(()),
        true => Err(NfsStatus::SAME),
        false => Err(NfsStatus::NOT_SAME),
    }
}

/// Whether the attributes match the current ones. RFC 8881 18.31.
async fn is_same(run: &mut CompoundRun<'_>, attributes: &Fattr<'_>) -> Result<bool, NfsStatus> {
    let mask = attributes.mask;
    if !crate::encoding::attributes::supported(run.minor_version).contains_all(mask) {
        return Err(NfsStatus::ATTRNOTSUPP);
    }
    if mask.contains(attribute::RDATTR_ERROR) {
        return Err(NfsStatus::INVAL);
    }
    let present = get(run, mask).await?;
    let mut written = Vec::new();
    let mut w = XdrWriter::new(&mut written);
    present.put(&mut w, mask);
    let mut claimed = Vec::new();
    XdrWriter::new(&mut claimed).put(attributes);
    Ok(written == claimed)
}
