//! CREATE: directories, symbolic links and special files. RFC 8881 18.4.

use super::attributes::{RequestedAttributes, decode_requested, set_list};
use super::names::{change_before, change_info, name_of};
use crate::request::place::HandleTarget;
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use files::NewObject;
use vfs::{Device, SpecialKind};
use wire::nfs::NfsStatus;
use wire::nfs::ops::{CreateArgs, CreateResult, CreateType};

pub(crate) async fn create(
    run: &mut CompoundRun<'_>,
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
    run.set_current(HandleTarget::of(export, made));
    Ok(CreateResult { change, attributes_set: mask })
}
