//! RENAME. RFC 8881 18.26.

use super::names::{change_before, change_info, in_use, name_of};
use crate::request::run::CompoundRun;
use vfs::FsError;
use wire::nfs::NfsStatus;
use wire::nfs::ops::{RenameArgs, RenameResult};

pub(crate) async fn rename(
    run: &mut CompoundRun<'_>,
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
