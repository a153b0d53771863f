//! REMOVE. RFC 8881 18.25.

use super::names::{change_before, change_info, in_use, name_of};
use crate::request::run::CompoundRun;
use wire::nfs::ops::RemoveArgs;
use wire::nfs::{ChangeInfo, NfsStatus};

pub(crate) async fn remove(
    run: &mut CompoundRun<'_>,
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
