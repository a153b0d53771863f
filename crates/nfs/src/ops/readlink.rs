//! READLINK. RFC 8881 18.24.

use crate::request::place::HandleTarget;
use crate::request::run::CompoundRun;
use crate::status::OrStatus;
use vfs::FileKind;
use wire::nfs::NfsStatus;

pub(crate) async fn readlink(run: &mut CompoundRun<'_>) -> Result<Vec<u8>, NfsStatus> {
    if matches!(run.place()?, HandleTarget::Pseudo(_)) {
        return Err(NfsStatus::WRONG_TYPE);
    }
    let (object, caller) = run.object().await?;
    if object.kind() != FileKind::Symlink {
        return Err(NfsStatus::WRONG_TYPE);
    }
    run.files().readlink_object(&caller, &object).await.or_status()
}
