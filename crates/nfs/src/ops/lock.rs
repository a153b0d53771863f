//! LOCK, LOCKT, LOCKU. RFC 8881 9, 18.10 to 18.12.

use crate::callback::notify_lock::LockWaiter;
use crate::clients::client::ClientIncarnation;
use crate::clients::held_state::HeldOpen;
use crate::request::run::CompoundRun;
use crate::state::stateids::{LockState, Owner, StateKind};
use crate::status::{OrStatus, status_of};
use files::{
    Access as Rights, ConflictingLock, LockKind, LockOwner, OwnerLockOutcome, Range, RangeLock,
};
use vfs::{FileKind, FsError};
use wire::nfs::ops::{
    LockArgs, LockDenied, LockReply, LockTestArgs, LockTestReply, Locker, UnlockArgs,
};
use wire::nfs::xdr::Opaque;
use wire::nfs::{ClientId, LockType, NfsStatus, StateId, StateOwner};

/// Length up to the end of the file. RFC 8881 18.10.3.
const TO_THE_END: u64 = u64::MAX;

/// Outcome of LOCK or LOCKT.
#[derive(Debug)]
pub(crate) enum LockOutcome {
    Granted(StateId),
    Free,
    Denied(LockConflict),
    Failed(NfsStatus),
}

/// A conflicting lock with its owner.
#[derive(Debug)]
pub(crate) struct LockConflict {
    held: ConflictingLock,
    client: ClientId,
    owner: Owner,
}

impl LockOutcome {
    pub fn reply(&self) -> LockReply<'_> {
        match self {
            Self::Granted(id) => LockReply::Granted(*id),
            Self::Free => LockReply::Failed(NfsStatus::SERVERFAULT),
            Self::Denied(denied) => LockReply::Denied(denied.shown()),
            Self::Failed(status) => LockReply::Failed(*status),
        }
    }

    pub fn test_reply(&self) -> LockTestReply<'_> {
        match self {
            Self::Free | Self::Granted(_) => LockTestReply::Free,
            Self::Denied(denied) => LockTestReply::Denied(denied.shown()),
            Self::Failed(status) => LockTestReply::Failed(*status),
        }
    }
}

impl LockConflict {
    fn shown(&self) -> LockDenied<'_> {
        let Range { offset, length } = self.held.lock.range;
        let is_to_the_end = offset.saturating_add(length) == u64::MAX;
        let lock_type = match self.held.lock.kind {
            LockKind::Exclusive => LockType::Write,
            LockKind::Shared => LockType::Read,
        };
        LockDenied {
            offset,
            length: if is_to_the_end { TO_THE_END } else { length },
            lock_type,
            owner: StateOwner { client_id: self.client, owner: Opaque(&self.owner) },
        }
    }
}

/// RFC 8881 18.10.3: INVAL for an empty range, and one beyond 2^64.
fn range_of(offset: u64, length: u64) -> Result<Range, NfsStatus> {
    match length {
        0 => Err(NfsStatus::INVAL),
        TO_THE_END => Ok(Range { offset, length: u64::MAX - offset }),
        _ if offset.checked_add(length).is_none() => Err(NfsStatus::INVAL),
        _ => Ok(Range { offset, length }),
    }
}

fn wanted_of(lock_type: LockType, range: Range) -> RangeLock {
    let kind = if lock_type.is_exclusive() { LockKind::Exclusive } else { LockKind::Shared };
    RangeLock { range, kind }
}

/// Lock owner of the file layer: unique in this process.
fn owner_number(client: &ClientIncarnation, state: u64) -> LockOwner {
    LockOwner(u64::from(client.id.0 as u32) << 32 | u64::from(state as u32))
}

/// Resolves the owner of a conflicting lock.
fn conflict_with_owner(run: &CompoundRun<'_>, held: ConflictingLock) -> LockConflict {
    let unknown = LockConflict { held, client: ClientId(0), owner: Owner::default() };
    let Some(LockOwner(number)) = held.owner else { return unknown };
    let Some(client) = run.server().client_numbered((number >> 32) as u32) else {
        return unknown;
    };
    let owner = match client.states.lock().get(number & u64::from(u32::MAX)).map(|s| &s.kind) {
        Some(StateKind::Lock(lock)) => lock.owner.clone(),
        _ => return unknown,
    };
    LockConflict { held, client: client.id, owner }
}

pub(crate) fn lock(run: &mut CompoundRun<'_>, args: &LockArgs<'_>) -> LockOutcome {
    try_lock(run, args).unwrap_or_else(LockOutcome::Failed)
}

fn try_lock(run: &mut CompoundRun<'_>, args: &LockArgs<'_>) -> Result<LockOutcome, NfsStatus> {
    let range = range_of(args.offset, args.length)?;
    let client = run.client()?;
    run.server().check_grace(&client, args.reclaim)?;
    let right = if args.lock_type.is_exclusive() { Rights::WRITE_DATA } else { Rights::READ_DATA };
    let (held, number, is_new, lock_owner) = match &args.locker {
        Locker::New(new) => {
            let id = run.resolve_id(new.open_state_id)?;
            let held = run.open_by(&id, right)?;
            run.server().make_room(&client, new.lock_owner.owner.len())?;
            let (number, is_new) = locks_of(&client, &id, &held, &new.lock_owner.owner)?;
            (held, number, is_new, Owner::from(&*new.lock_owner.owner))
        }
        Locker::Existing(existing) => {
            let id = run.resolve_id(existing.lock_state_id)?;
            let held = run.open_by(&id, right)?;
            let states = client.states.lock();
            let (number, _) = states.find_locks(&id)?;
            let Some(StateKind::Lock(known)) = states.get(number).map(|state| &state.kind) else {
                return Err(NfsStatus::BAD_STATEID);
            };
            (held, number, false, known.owner.clone())
        }
    };
    let owner = owner_number(&client, number);
    let wanted = wanted_of(args.lock_type, range);
    let files = run.files().clone();
    match files.lock_owned(&held.open, owner, wanted, &client.holder) {
        Ok(OwnerLockOutcome::Granted) => {
            let id = client.with_states(|states| {
                states.get(number)?;
                states.set_locked(number, true);
                Some(if is_new { states.id(number) } else { states.advance(number) })
            });
            let Some(id) = id else {
                // The request that created the state was refused meanwhile, or the open was closed.
                files.unlock_owned(&held.open, owner, range, &client.holder).or_status()?;
                return Err(NfsStatus::DELAY);
            };
            run.current_id = Some(id);
            Ok(LockOutcome::Granted(id))
        }
        other => {
            if is_new {
                remove_unused(&client, number, (&held, owner));
            }
            match other {
                Ok(OwnerLockOutcome::Denied(denied)) => {
                    if matches!(args.lock_type, LockType::ReadWait | LockType::WriteWait) {
                        let waiter = LockWaiter { lock_owner, owner, wanted };
                        waiter.notify_when_free(run.server(), &client, &held);
                    }
                    Ok(LockOutcome::Denied(conflict_with_owner(run, denied)))
                }
                Ok(OwnerLockOutcome::Granted) => Err(NfsStatus::SERVERFAULT),
                // Another OPEN of the same owner replaces this open, or it was closed. A retry
                // resolves it.
                Err(FsError::RangeNotLocked) => Err(NfsStatus::DELAY),
                Err(error) => Err(status_of(error)),
            }
        }
    }
}

/// Removes the state of an owner that got no lock, unless another of its LOCKs got one meanwhile.
fn remove_unused(client: &ClientIncarnation, number: u64, (held, owner): (&HeldOpen, LockOwner)) {
    client.with_states(|states| {
        if !held.open.has_locks_of(owner) {
            drop(states.remove(number));
        }
    });
}

/// The lock state of an owner for the file of an open; creates it if there is none.
fn locks_of(
    client: &ClientIncarnation,
    id: &StateId,
    held: &HeldOpen,
    owner: &[u8],
) -> Result<(u64, bool), NfsStatus> {
    let key = held.open.key();
    client.with_states(|states| {
        let (open, _) = states.find_open(id)?;
        if let Some(number) = states.locks_of(key, owner) {
            return Ok((number, false));
        }
        let lock = LockState { owner: owner.into(), open, is_locked: false };
        Ok((states.add_lock(key, lock).map_err(|_| NfsStatus::DELAY)?, true))
    })
}

pub(crate) async fn test(run: &mut CompoundRun<'_>, args: &LockTestArgs<'_>) -> LockOutcome {
    match try_test(run, args).await {
        Ok(Some(held)) => LockOutcome::Denied(conflict_with_owner(run, held)),
        Ok(None) => LockOutcome::Free,
        Err(status) => LockOutcome::Failed(status),
    }
}

async fn try_test(
    run: &mut CompoundRun<'_>,
    args: &LockTestArgs<'_>,
) -> Result<Option<ConflictingLock>, NfsStatus> {
    let range = range_of(args.offset, args.length)?;
    // A lock that is not reclaimed yet still counts. RFC 8881 8.4.2.1.
    run.server().check_no_grace()?;
    let (object, _) = run.object().await?;
    match object.kind() {
        FileKind::File => {}
        FileKind::Directory => return Err(NfsStatus::ISDIR),
        FileKind::Symlink => return Err(NfsStatus::SYMLINK),
        _ => return Err(NfsStatus::WRONG_TYPE),
    }
    let client = run.client()?;
    let number = client.states.lock().locks_of(object.key(), &args.owner.owner);
    let owner = number.map(|number| owner_number(&client, number));
    let wanted = wanted_of(args.lock_type, range);
    let files = run.files().clone();
    Ok(files.find_lock(&object, owner, wanted))
}

pub(crate) fn unlock(run: &mut CompoundRun<'_>, args: &UnlockArgs) -> Result<StateId, NfsStatus> {
    let range = range_of(args.offset, args.length)?;
    let id = run.resolve_id(args.lock_state_id)?;
    let held = run.open_by(&id, Rights::READ_ATTRIBUTES)?;
    let client = run.client()?;
    let (number, _) = client.states.lock().find_locks(&id)?;
    let owner = owner_number(&client, number);
    run.files().unlock_owned(&held.open, owner, range, &client.holder).or_status()?;
    let is_locked = held.open.has_locks_of(owner);
    let id = client.with_states(|states| {
        states.set_locked(number, is_locked);
        states.advance(number)
    });
    run.current_id = Some(id);
    Ok(id)
}
