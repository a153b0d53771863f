//! CREATE that stops at a symbolic link, which the client follows itself. MS-SMB2 2.2.2.2.1,
//! 3.3.5.9.

use crate::conversion::reparse;
use crate::conversion::status::status_of;
use crate::extensions::posix::link_target;
use crate::request::context::{HandlerOutcome, Request};
use files::{Access, Caller, IfExists, IfMissing, OpenPlan, RequestedKind, ShareMode, Volume};
use std::sync::Arc;
use vfs::RelPath;
use wire::fscc::Symlink;
use wire::ntstatus::NtStatus;

/// Reports the target of the link at the end of `plan`'s path.
///
/// # Errors
/// `STOPPED_ON_SYMLINK` without data if the link was removed meanwhile, or is not readable.
pub(super) async fn respond_at_final_link(
    request: &mut Request<'_>,
    volume: &Arc<Volume>,
    caller: &Arc<Caller>,
    plan: OpenPlan,
) -> Result<HandlerOutcome, NtStatus> {
    let of_link = OpenPlan {
        desired: Access::READ_ATTRIBUTES,
        share: ShareMode::ALL,
        if_exists: IfExists::Open,
        if_missing: IfMissing::Fail,
        kind: RequestedKind::Any,
        delete_on_close: false,
        no_follow: true,
        caching: None,
        ..plan
    };
    let files = request.files;
    let read = match files.open(volume, caller, of_link).await {
        Ok(opened) => files.readlink(&opened.open),
        Err(error) => Err(error),
    };
    let target = read.and_then(|text| link_target(&text));
    let (units, is_relative) = target.map_err(|_| NtStatus::STOPPED_ON_SYMLINK)?;
    let data = Symlink { target: units, is_relative }.error_data(0);
    Ok(stop_on_symlink(request, &data.ok_or(NtStatus::STOPPED_ON_SYMLINK)?))
}

/// Reports the first link along `path`, for clients that follow links themselves.
///
/// # Errors
/// `OBJECT_PATH_NOT_FOUND` if the link was removed meanwhile, or cannot be represented.
pub(super) async fn respond_at_path_link(
    request: &mut Request<'_>,
    volume: &Arc<Volume>,
    caller: &Arc<Caller>,
    path: RelPath,
) -> Result<HandlerOutcome, NtStatus> {
    let link = request.files.first_link(volume, caller, path).await.map_err(status_of)?;
    let data = link.as_ref().and_then(reparse::symlink_error_data);
    Ok(stop_on_symlink(request, &data.ok_or(NtStatus::OBJECT_PATH_NOT_FOUND)?))
}

fn stop_on_symlink(request: &mut Request<'_>, data: &[u8]) -> HandlerOutcome {
    request.write_error_data(data);
    request.related.failed = Some(NtStatus::STOPPED_ON_SYMLINK);
    request.related.open = None;
    HandlerOutcome::status(NtStatus::STOPPED_ON_SYMLINK)
}
