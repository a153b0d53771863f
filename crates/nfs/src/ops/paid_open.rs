//! The open that an operation on data uses: of its state id, or for the operation alone.
//!
//! The lookup may open a file, so it also admits the cost. No other code finds an open for such an
//! operation, so that an uncharged one does not compile.

use crate::request::place::HandleTarget;
use crate::request::run::CompoundRun;
use files::{Access as Rights, Caller, Object, ObjectOpen, OpenAt, OpenFile, OpenPlan, ShareMode};
use limits::Cost;
use std::sync::Arc;
use vfs::{FileKind, FsError};
use wire::nfs::{NfsStatus, StateId};

/// An open whose use the limits of its share have admitted.
#[derive(Debug)]
pub(crate) struct PaidOpen {
    /// The open; another user of the same client may have opened it.
    pub open: Arc<OpenFile>,
    /// Caller of the request, as whom the file is changed.
    pub caller: Arc<Caller>,
}

/// The open for READ or WRITE, with `cost` admitted. Without a state id it is an open for this
/// operation, which must not conflict with others.
pub(crate) async fn open_for(
    run: &mut CompoundRun<'_>,
    id: StateId,
    rights: Rights,
    cost: Cost,
) -> Result<PaidOpen, NfsStatus> {
    let found = find(run, id, rights).await;
    admitted(run, found, cost).await
}

/// As [`open_for`], for the saved file handle. The open of a state id costs nothing; `cost` is for
/// an open for this operation.
pub(crate) async fn saved_open_for(
    run: &mut CompoundRun<'_>,
    id: StateId,
    rights: Rights,
    cost: Cost,
) -> Result<PaidOpen, NfsStatus> {
    let id = run.resolve_id(id)?;
    if !id.is_special() {
        let (held, caller) = run.saved_open_by(&id, rights)?;
        return Ok(PaidOpen { open: held.open, caller });
    }
    run.server().check_no_grace()?;
    let (object, export) = run.saved_object().await?;
    let caller = run.caller(&export);
    let found = anonymous_open(run, object, caller, rights).await;
    admitted(run, found, cost).await
}

/// The opens of the saved and of the current file handle.
pub(crate) async fn copy_opens(
    run: &mut CompoundRun<'_>,
    (source, target): (StateId, StateId),
) -> Result<(Arc<OpenFile>, PaidOpen), NfsStatus> {
    let from = saved_open_for(run, source, Rights::READ_DATA, Cost::metadata()).await?;
    let to = open_for(run, target, Rights::WRITE_DATA, Cost::metadata()).await?;
    Ok((from.open, to))
}

/// Some open of the client on the current file, or one for this operation: any suffices to flush
/// the file. Admits `cost`.
pub(crate) async fn any_open(run: &mut CompoundRun<'_>, cost: Cost) -> Result<PaidOpen, NfsStatus> {
    let found = find_any(run).await;
    admitted(run, found, cost).await
}

/// Admits the cost of an open; a refused one costs one operation.
async fn admitted(
    run: &mut CompoundRun<'_>,
    found: Result<PaidOpen, NfsStatus>,
    cost: Cost,
) -> Result<PaidOpen, NfsStatus> {
    match &found {
        Ok(paid) => run.admit(Some(&paid.open), cost).await,
        Err(_) => run.admit(None, Cost::metadata()).await,
    }
    found
}

async fn find(
    run: &mut CompoundRun<'_>,
    id: StateId,
    rights: Rights,
) -> Result<PaidOpen, NfsStatus> {
    if matches!(run.place()?, HandleTarget::Pseudo(_)) {
        return Err(NfsStatus::ISDIR);
    }
    let id = run.resolve_id(id)?;
    if !id.is_special() {
        let (held, caller) = run.open_and_caller(&id, rights)?;
        return Ok(PaidOpen { open: held.open, caller });
    }
    // Clients that reclaim opens may have denied access to others. RFC 8881 8.4.2.1.
    run.server().check_no_grace()?;
    let (object, caller) = run.object().await?;
    Box::pin(anonymous_open(run, object, caller, rights)).await
}

async fn find_any(run: &mut CompoundRun<'_>) -> Result<PaidOpen, NfsStatus> {
    let files = run.files().clone();
    let handle = run.place()?.handle(&files)?;
    let client = run.client()?;
    let own = {
        let states = client.states.lock();
        let held = states.opens().find(|open| open.holds.handle == handle);
        held.map(|open| open.holds.clone())
    };
    if let Some(held) = own {
        let export = run.object_place()?.export.clone();
        let caller = run.caller(&export);
        return Ok(PaidOpen { open: held.open, caller });
    }
    let (object, caller) = run.object().await?;
    // COMMIT changes nothing: a caller who may write opens the file without breaking caches.
    let found = files.object_access(&caller, &object);
    let may_write = found.is_ok_and(|access| access.contains(Rights::WRITE_DATA));
    let rights = if may_write { Rights::READ_ATTRIBUTES } else { Rights::WRITE_DATA };
    match anonymous_open(run, object, caller, rights).await {
        // RFC 8881 15.2: COMMIT has no ROFS, and data that was written before the file system
        // became read-only may be lost.
        Err(NfsStatus::ROFS) => Err(NfsStatus::IO),
        other => other,
    }
}

/// Opens the file for one operation.
async fn anonymous_open(
    run: &mut CompoundRun<'_>,
    object: Object,
    caller: Arc<Caller>,
    rights: Rights,
) -> Result<PaidOpen, NfsStatus> {
    match object.kind() {
        FileKind::File => {}
        FileKind::Directory => return Err(NfsStatus::ISDIR),
        FileKind::Symlink => return Err(NfsStatus::SYMLINK),
        _ => return Err(NfsStatus::WRONG_TYPE),
    }
    let plan = OpenPlan::posix(rights, ShareMode::ALL);
    let at = OpenAt::Object(object);
    let files = run.files();
    match files.open_object(&caller, &at, plan, ObjectOpen::default()).await {
        Ok(opened) => Ok(PaidOpen { open: opened.open, caller }),
        // RFC 8881 18.22.3: share reservations and locks of others deny it.
        Err(FsError::ShareViolation) => Err(NfsStatus::LOCKED),
        Err(error) => Err(run.open_refused(error)),
    }
}
