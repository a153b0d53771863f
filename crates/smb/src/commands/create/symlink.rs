//! CREATE that stops at a symbolic link, which the client follows itself.
//! MS-SMB2 2.2.2.2.1, 3.3.5.9.

use crate::dispatch::{Outcome, Request};
use crate::posix::link_target;
use files::{Access, Caller, IfExists, IfMissing, OpenPlan, Share, Volume, WishedKind};
use std::sync::Arc;
use wire::ntstatus::NtStatus;
use wire::smb::ErrorResponse;

/// Tells where the link that `plan` led to leads.
///
/// # Errors
/// `STOPPED_ON_SYMLINK` alone if the link has gone since, or cannot be read.
pub(super) async fn stopped(
    request: &mut Request<'_>,
    volume: &Arc<Volume>,
    caller: &Arc<Caller>,
    plan: OpenPlan,
) -> Result<Outcome, NtStatus> {
    let of_link = OpenPlan {
        desired: Access::READ_ATTRIBUTES,
        share: Share::ALL,
        if_exists: IfExists::Open,
        if_missing: IfMissing::Fail,
        kind: WishedKind::Any,
        delete_on_close: false,
        no_follow: true,
        caching: None,
        ..plan
    };
    let files = &request.server.files;
    let read = match files.open(volume, caller, of_link).await {
        Ok(opened) => files.read_link(&opened.open),
        Err(error) => Err(error),
    };
    let target = read.and_then(|text| link_target(&text));
    let (units, is_relative) = target.map_err(|_| NtStatus::STOPPED_ON_SYMLINK)?;
    let data = ErrorResponse::symlink_context(&units, 0, is_relative);
    ErrorResponse { contexts: 1, data: &data }.encode(&mut request.w);
    request.related.failed = Some(NtStatus::STOPPED_ON_SYMLINK);
    request.related.open = None;
    Ok(Outcome::status(NtStatus::STOPPED_ON_SYMLINK))
}
