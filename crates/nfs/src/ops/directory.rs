//! LOOKUP, LOOKUPP, READLINK, CREATE, REMOVE, RENAME, LINK.
//! RFC 8881 18.4, 18.9, 18.13, 18.14, 18.24 to 18.26.

use super::attributes::{RequestedAttributes, decode_requested, set_list};
use crate::exports::export::{Export, HostVerdict};
use crate::exports::pseudo::{PseudoId, PseudoTarget, ROOT};
use crate::request::place::Place;
use crate::request::run::Run;
use crate::status::{OrStatus, status_of};
use files::{NewObject, Object};
use std::sync::Arc;
use vfs::{Device, FileKind, FsError, Name, SpecialKind};
use wire::nfs::ops::{
    CreateArgs, CreateResult, CreateType, LinkArgs, LookupArgs, RemoveArgs, RenameArgs,
    RenameResult,
};
use wire::nfs::{ChangeInfo, NfsStatus};

/// Decodes a name.
///
/// # Errors
/// INVAL for an empty name, BADNAME for `.` and `..`, BADCHAR, NAMETOOLONG.
pub(crate) fn name_of(bytes: &[u8]) -> Result<Name, NfsStatus> {
    match bytes {
        b"" => Err(NfsStatus::INVAL),
        b"." | b".." => Err(NfsStatus::BADNAME),
        _ if bytes.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(NfsStatus::BADCHAR),
        _ => Name::new(bytes).or_status(),
    }
}

pub(crate) async fn look_up(run: &mut Run<'_>, args: &LookupArgs<'_>) -> Result<(), NfsStatus> {
    let name = match run.place()? {
        Place::Pseudo(id) => {
            let id = *id;
            return walk_pseudo(run, id, args.name).await;
        }
        Place::Object(_) => name_of(args.name)?,
    };
    let (directory, caller) = run.object().await?;
    let export = run.object_place()?.export.clone();
    if let Some((handle, attributes)) =
        run.files().look_up_remembered(&caller, &directory, &name, export.id)
    {
        run.set_current(Place::of_handle(export, handle));
        run.seen = Some((attributes.key, attributes));
        return Ok(());
    }
    let (found, attributes) =
        run.files().look_up_with_attributes(&caller, &directory, &name).await.or_status()?;
    let key = found.key();
    run.set_current(Place::of(export, found));
    run.seen = Some((key, attributes));
    Ok(())
}

/// Resolves a name in a pseudo directory: in the root a share of this name, else a path component.
/// A share that refuses the client does not hide a path that admits it, and looks like a missing
/// one. Other shares are not evaluated, so an unknown name starts no host lookup. While a lookup is
/// in flight, DELAY reveals that the name exists.
async fn walk_pseudo(run: &mut Run<'_>, id: PseudoId, name: &[u8]) -> Result<(), NfsStatus> {
    name_of(name)?;
    let (config, peer) = (run.config.clone(), run.call.conn.link.facts.peer.ip());
    let named = if id.is_root() { config.export_named(name) } else { None };
    if let Some(export) = named
        && matches!(export.verdict(peer), HostVerdict::Admitted | HostVerdict::Unknown)
    {
        return enter_share(run, export).await;
    }
    match config.tree.find(id, name, &config.exports, peer) {
        Some(PseudoTarget::Export(export)) => enter_share(run, export).await,
        Some(PseudoTarget::Directory(id)) => {
            run.set_current(Place::Pseudo(id));
            Ok(())
        }
        Some(PseudoTarget::Unknown) => Err(NfsStatus::DELAY),
        None => Err(NfsStatus::NOENT),
    }
}

async fn enter_share(run: &mut Run<'_>, export: &Arc<Export>) -> Result<(), NfsStatus> {
    let export = export.clone();
    // The verdict may have changed since the lookup.
    run.call.conn.admit(&export, NfsStatus::NOENT, NfsStatus::NOENT)?;
    let root = run.files().root_object(&export.volume).await.or_status()?;
    run.set_current(Place::of(export, root));
    Ok(())
}

pub(crate) async fn look_up_parent(run: &mut Run<'_>) -> Result<(), NfsStatus> {
    if let Place::Pseudo(id) = *run.place()? {
        if id.is_root() {
            return Err(NfsStatus::NOENT);
        }
        let parent = run.config.tree.parent(id);
        run.set_current(Place::Pseudo(parent));
        return Ok(());
    }
    let (directory, caller) = run.object().await?;
    if directory.kind() != FileKind::Directory {
        // RFC 8881 15.2: LOOKUPP has SYMLINK and NOTDIR.
        let is_link = directory.kind() == FileKind::Symlink;
        return Err(if is_link { NfsStatus::SYMLINK } else { NfsStatus::NOTDIR });
    }
    if directory.is_root() {
        // By whichever path the client came: a share has one parent directory.
        run.set_current(Place::Pseudo(ROOT));
        return Ok(());
    }
    let export = run.object_place()?.export.clone();
    let found = run.files().look_up_parent(&caller, &directory).await.or_status()?;
    run.set_current(Place::of(export, found));
    Ok(())
}

pub(crate) async fn read_link(run: &mut Run<'_>) -> Result<Vec<u8>, NfsStatus> {
    if matches!(run.place()?, Place::Pseudo(_)) {
        return Err(NfsStatus::WRONG_TYPE);
    }
    let (object, caller) = run.object().await?;
    if object.kind() != FileKind::Symlink {
        return Err(NfsStatus::WRONG_TYPE);
    }
    run.files().read_object_link(&caller, &object).await.or_status()
}

/// Change attributes around a change of a directory; not atomic, since others may change it, too.
pub(crate) fn change_info(run: &Run<'_>, directory: &Object, before: u64) -> ChangeInfo {
    ChangeInfo { is_atomic: false, before, after: run.files().change_after(directory) }
}

/// The change attribute of a directory before its change.
pub(crate) fn change_before(run: &Run<'_>, directory: &Object) -> u64 {
    run.files().change_before(directory)
}

pub(crate) async fn create(
    run: &mut Run<'_>,
    args: &CreateArgs<'_>,
) -> Result<CreateResult, NfsStatus> {
    let mut requested = decode_requested(run, &args.attributes)?;
    let (directory, caller) = run.object().await?;
    let export = run.object_place()?.export.clone();
    let options = &export.volume.options;
    let is_directory = matches!(args.object_type, CreateType::Directory);
    let mode = if is_directory { options.directory_mode } else { options.file_mode };
    requested.complete_mode(|| Some(mode));
    let new_mode = requested.new_mode(mode);
    let RequestedAttributes { mut changes, list, mask, .. } = requested;
    let special = |kind| NewObject::Special { kind, mode: new_mode };
    let device = |is_block, device: wire::nfs::attributes::SpecData| {
        let (major, minor) = (device.major, device.minor);
        special(SpecialKind::Device(Device { is_block, major, minor }))
    };
    let new = match args.object_type {
        CreateType::Block(numbers) => device(true, numbers),
        CreateType::Character(numbers) => device(false, numbers),
        CreateType::Directory => NewObject::Directory { mode: new_mode },
        CreateType::Fifo => special(SpecialKind::Fifo),
        CreateType::Link(target) => NewObject::Symlink { target: target.to_vec() },
        CreateType::Socket => special(SpecialKind::Socket),
        CreateType::Other(_) => return Err(NfsStatus::BADTYPE),
    };
    let name = name_of(args.name)?;
    let before = change_before(run, &directory);
    let files = run.files().clone();
    let made = files.create_object(&caller, &directory, &name, new).await.or_status()?;
    // A link has no mode; the others have theirs already.
    changes.mode = None;
    changes.size_bytes = None;
    // Attributes set at the creation become stable with the name.
    run.note_changed(&[&directory]);
    if changes != Default::default() {
        run.note_changed(&[&made]);
        files.initialise_object_attributes(&caller, &made, None, &changes).await.or_status()?;
    }
    // A directory gets its inherited access list after its name.
    if list.is_some() || is_directory {
        run.note_changed(&[&made]);
    }
    set_list(run, (&made, &caller), list.as_ref()).await?;
    let change = change_info(run, &directory, before);
    run.set_current(Place::of(export, made));
    Ok(CreateResult { change, attributes_set: mask })
}

pub(crate) async fn remove(
    run: &mut Run<'_>,
    args: &RemoveArgs<'_>,
) -> Result<ChangeInfo, NfsStatus> {
    let (directory, caller) = run.object().await?;
    let name = name_of(args.name)?;
    let before = change_before(run, &directory);
    let files = run.files().clone();
    let removed = files.remove_object(&caller, &directory, &name).await;
    removed.map_err(in_use)?;
    run.note_changed(&[&directory]);
    Ok(change_info(run, &directory, before))
}

/// Status of a removal or rename that another open's share mode blocks.
fn in_use(error: FsError) -> NfsStatus {
    match error {
        FsError::ShareViolation => NfsStatus::FILE_OPEN,
        other => status_of(other),
    }
}

pub(crate) async fn rename(
    run: &mut Run<'_>,
    args: &RenameArgs<'_>,
) -> Result<RenameResult, NfsStatus> {
    let (source, _) = run.saved_object().await?;
    let (target, caller) = run.object().await?;
    let (old, new) = (name_of(args.old_name)?, name_of(args.new_name)?);
    let before = (change_before(run, &source), change_before(run, &target));
    let files = run.files().clone();
    let renamed = files.rename_object(&caller, (&source, &old), (&target, &new)).await;
    renamed.map_err(|error| match error {
        FsError::IsDirectory => NfsStatus::EXIST,
        FsError::NotEmpty => NfsStatus::EXIST,
        other => in_use(other),
    })?;
    run.note_changed(&[&source, &target]);
    let in_source = change_info(run, &source, before.0);
    let in_target = match source.key() == target.key() {
        true => in_source,
        false => change_info(run, &target, before.1),
    };
    Ok(RenameResult { source: in_source, target: in_target })
}

pub(crate) async fn link(run: &mut Run<'_>, args: &LinkArgs<'_>) -> Result<ChangeInfo, NfsStatus> {
    let (object, _) = run.saved_object().await?;
    let (directory, caller) = run.object().await?;
    let name = name_of(args.new_name)?;
    let before = change_before(run, &directory);
    let files = run.files().clone();
    files.link_object(&caller, &object, &directory, &name).await.map_err(in_use)?;
    run.note_changed(&[&directory]);
    Ok(change_info(run, &directory, before))
}
