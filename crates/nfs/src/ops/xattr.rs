//! GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR. RFC 8276 8.4.

use crate::request::run::CompoundRun;
use files::XattrSetMode;
use vfs::{FsError, XattrName};
use wire::nfs::ops::{GetXattrArgs, ListXattrsArgs, RemoveXattrArgs, SetXattrArgs, SetXattrOption};
use wire::nfs::{ChangeInfo, NfsStatus};

fn refused(error: FsError) -> NfsStatus {
    match error {
        FsError::NotFound => NfsStatus::NOXATTR,
        FsError::TooLarge => NfsStatus::XATTR2BIG,
        other => crate::status::status_of(other),
    }
}

/// Decodes a name, which lacks Linux's prefix `user.`.
fn name_of(bytes: &[u8]) -> Result<XattrName, NfsStatus> {
    if bytes.is_empty() {
        return Err(NfsStatus::INVAL);
    }
    XattrName::new(bytes).map_err(refused)
}

pub(crate) async fn get(
    run: &mut CompoundRun<'_>,
    args: &GetXattrArgs<'_>,
    room: usize,
) -> Result<Vec<u8>, NfsStatus> {
    let (object, caller) = run.object().await?;
    let name = name_of(args.name)?;
    let value = run.files().object_xattr(&caller, &object, &name).await.map_err(refused)?;
    // RFC 8276 8.4.1.4: a value cannot be returned in parts.
    if value.len() + 8 > room { Err(NfsStatus::TOOSMALL) } else { Ok(value) }
}

pub(crate) async fn set(
    run: &mut CompoundRun<'_>,
    args: &SetXattrArgs<'_>,
) -> Result<ChangeInfo, NfsStatus> {
    let wish = match args.option {
        SetXattrOption::Create => XattrSetMode::Create,
        SetXattrOption::Either => XattrSetMode::Either,
        SetXattrOption::Replace => XattrSetMode::Replace,
    };
    change(run, args.name, Some(args.value.to_vec()), wish).await
}

pub(crate) async fn remove(
    run: &mut CompoundRun<'_>,
    args: &RemoveXattrArgs<'_>,
) -> Result<ChangeInfo, NfsStatus> {
    change(run, args.name, None, XattrSetMode::Replace).await
}

async fn change(
    run: &mut CompoundRun<'_>,
    name: &[u8],
    value: Option<Vec<u8>>,
    wish: XattrSetMode,
) -> Result<ChangeInfo, NfsStatus> {
    let (object, caller) = run.object().await?;
    let name = name_of(name)?;
    let before = run.change_of(&object);
    let files = run.files().clone();
    files.set_object_xattr(&caller, &object, &name, value, wish).await.map_err(refused)?;
    run.note_changed(&[&object]);
    Ok(ChangeInfo { is_atomic: false, before, after: run.change_of(&object) })
}

/// A part of the names; on most file systems all fit into one reply.
pub(crate) struct Names {
    pub names: Vec<XattrName>,
    pub cookie: u64,
    pub is_end: bool,
}

/// Bytes of a list of names beside them: cookie, count, flag.
const LIST_BYTES: usize = 16;

pub(crate) async fn list(
    run: &mut CompoundRun<'_>,
    args: &ListXattrsArgs,
    room: usize,
) -> Result<Names, NfsStatus> {
    let (object, caller) = run.object().await?;
    let all = run.files().object_xattr_names(&caller, &object).await.map_err(refused)?;
    let first = usize::try_from(args.cookie).map_err(|_| NfsStatus::BAD_COOKIE)?;
    if first > all.len() {
        return Err(NfsStatus::BAD_COOKIE);
    }
    let mut left = room.min(args.bytes_max as usize).saturating_sub(LIST_BYTES);
    let mut names = Vec::new();
    for name in &all[first..] {
        let bytes = 4 + name.as_bytes().len().next_multiple_of(4);
        if bytes > left {
            break;
        }
        left -= bytes;
        names.push(name.clone());
    }
    let end = first + names.len();
    if names.is_empty() && end < all.len() {
        return Err(NfsStatus::TOOSMALL);
    }
    Ok(Names { names, cookie: end as u64, is_end: end == all.len() })
}
