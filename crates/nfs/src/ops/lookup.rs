//! LOOKUP, LOOKUPP. RFC 8881 18.13, 18.14.

use super::names::name_of;
use crate::exports::export::{Export, HostVerdict};
use crate::exports::pseudo::{PseudoId, PseudoTarget, ROOT};
use crate::request::place::HandleTarget;
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use std::sync::Arc;
use vfs::FileKind;
use wire::nfs::NfsStatus;
use wire::nfs::ops::LookupArgs;

pub(crate) async fn lookup(
    run: &mut CompoundRun<'_>,
    args: &LookupArgs<'_>,
) -> Result<(), NfsStatus> {
    let name = match run.place()? {
        HandleTarget::Pseudo(id) => {
            let id = *id;
            return walk_pseudo(run, id, args.name).await;
        }
        HandleTarget::Object(_) => name_of(args.name)?,
    };
    let (directory, caller) = run.object().await?;
    let export = run.object_place()?.export.clone();
    if let Some((handle, attributes)) =
        run.files().lookup_remembered(&caller, &directory, &name, export.id)
    {
        run.set_current(HandleTarget::of_handle(export, handle));
        run.seen = Some((attributes.key, attributes));
        return Ok(());
    }
    let (found, attributes) =
        run.files().lookup_with_attributes(&caller, &directory, &name).await.or_status()?;
    let key = found.key();
    run.set_current(HandleTarget::of(export, found));
    run.seen = Some((key, attributes));
    Ok(())
}

/// Resolves a name in a pseudo directory: in the root a share of this name, else a path component.
/// A share that refuses the client does not hide a path that admits it, and looks like a missing
/// one. Other shares are not evaluated, so an unknown name starts no host lookup. While a lookup is
/// in flight, DELAY reveals that the name exists.
async fn walk_pseudo(
    run: &mut CompoundRun<'_>,
    id: PseudoId,
    name: &[u8],
) -> Result<(), NfsStatus> {
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
            run.set_current(HandleTarget::Pseudo(id));
            Ok(())
        }
        Some(PseudoTarget::Unknown) => Err(NfsStatus::DELAY),
        None => Err(NfsStatus::NOENT),
    }
}

async fn enter_share(run: &mut CompoundRun<'_>, export: &Arc<Export>) -> Result<(), NfsStatus> {
    let export = export.clone();
    // The verdict may have changed since the lookup.
    run.call.conn.admit(&export, NfsStatus::NOENT, NfsStatus::NOENT)?;
    let root = run.files().root_object(&export.volume).await.or_status()?;
    run.set_current(HandleTarget::of(export, root));
    Ok(())
}

pub(crate) async fn lookup_parent(run: &mut CompoundRun<'_>) -> Result<(), NfsStatus> {
    if let HandleTarget::Pseudo(id) = *run.place()? {
        if id.is_root() {
            return Err(NfsStatus::NOENT);
        }
        let parent = run.config.tree.parent(id);
        run.set_current(HandleTarget::Pseudo(parent));
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
        run.set_current(HandleTarget::Pseudo(ROOT));
        return Ok(());
    }
    let export = run.object_place()?.export.clone();
    let found = run.files().lookup_parent(&caller, &directory).await.or_status()?;
    run.set_current(HandleTarget::of(export, found));
    Ok(())
}
