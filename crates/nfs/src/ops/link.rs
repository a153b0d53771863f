//! LINK. RFC 8881 18.9.

use super::names::{change_before, change_info, in_use, name_of};
use crate::request::run::CompoundRun;
use wire::nfs::ops::LinkArgs;
use wire::nfs::{ChangeInfo, NfsStatus};

pub(crate) async fn link(
    run: &mut CompoundRun<'_>,
    args: &LinkArgs<'_>,
) -> Result<ChangeInfo, NfsStatus> {
    let (object, _) = run.saved_object().await?;
    let (directory, caller) = run.object().await?;
    let name = name_of(args.new_name)?;
    let before = change_before(run, &directory);
    let files = run.files().clone();
    files.link_object(&caller, &object, &directory, &name).await.map_err(in_use)?;
    run.note_changed(&[&directory]);
    Ok(change_info(run, &directory, before))
}
