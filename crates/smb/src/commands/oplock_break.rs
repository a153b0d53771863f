//! OPLOCK_BREAK acknowledgments. MS-SMB2 3.3.5.22.1, 3.3.5.22.2.

use crate::opens::lease::{LEVEL_LEASE, Lease};
use crate::opens::open::Open;
use crate::opens::oplock::{
    LEVEL_BATCH, LEVEL_EXCLUSIVE, LEVEL_II, LEVEL_NONE, caching_of, level_of,
};
use crate::outgoing::notices::NoticeSubject;
use crate::request::context::{HandlerOutcome, Request, malformed};
use files::{AcknowledgeRefusal, CacheKey, CachingRights};
use wire::ntstatus::NtStatus;
use wire::smb::{LeaseBreakResponse, OplockBreak, OplockBreakAck};

/// Handles the acknowledgment of an oplock or lease break.
///
/// # Errors
/// The errors of [`acknowledge_oplock`]. For a lease: `OBJECT_NAME_NOT_FOUND` if it does not exist
/// or the user has no open under it, `UNSUCCESSFUL` if it is not breaking, `REQUEST_NOT_ACCEPTED`
/// if the client retains too much caching.
pub fn oplock_break(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    if let Some(subject) = NoticeSubject::of(request.message) {
        request.session()?.handle_acknowledgment(subject);
    }
    match OplockBreakAck::decode(&mut request.body()?).map_err(malformed)? {
        OplockBreakAck::Oplock { level, file_id } => {
            let open = request.open(file_id)?.free_of_charge();
            acknowledge_oplock(request, &open, level)?;
            OplockBreak { level, file_id }.encode(&mut request.w);
            Ok(HandlerOutcome::success())
        }
        OplockBreakAck::Lease { key, state } => {
            let client = request.session()?.client_guid;
            acknowledge_lease(request, CacheKey { client, key }, state)?;
            LeaseBreakResponse { key, state }.encode(&mut request.w);
            Ok(HandlerOutcome::success())
        }
    }
}

/// Downgrades an oplock to `level`. MS-SMB2 3.3.5.22.1, in its order. An invalid acknowledgment
/// also ends the break, without any caching left, so that the waiting open continues.
///
/// `INVALID_PARAMETER` for the lease level; `INVALID_OPLOCK_PROTOCOL` if the client retains too
/// much; without a break those of [`refusal_without_break`]. `INVALID_OPLOCK_PROTOCOL` also
/// refuses the answer to a break from level II, which needs none: the object store refuses it
/// (MS-FSA 2.1.5.18), and Windows passes that on.
fn acknowledge_oplock(request: &Request<'_>, open: &Open, level: u8) -> Result<(), NtStatus> {
    let keeps = match level {
        LEVEL_NONE | LEVEL_II => caching_of(level),
        _ => None,
    };
    let given_back = request.files.acknowledge(open.file()?, keeps.unwrap_or(CachingRights::NONE));
    match given_back {
        Ok(()) if keeps.is_some() => Ok(()),
        Ok(()) if level == LEVEL_LEASE => Err(NtStatus::INVALID_PARAMETER),
        Ok(()) | Err(AcknowledgeRefusal::TooMuch) => Err(NtStatus::INVALID_OPLOCK_PROTOCOL),
        Err(AcknowledgeRefusal::NotBreaking) => {
            let is_unasked =
                open.oplock.as_ref().is_some_and(|oplock| oplock.take_superfluous_ack());
            if is_unasked && level != LEVEL_LEASE {
                return Err(NtStatus::INVALID_OPLOCK_PROTOCOL);
            }
            let held = open.oplock.is_some().then(|| Ok(level_of(open.file()?.caching())));
            Err(refusal_without_break(held.transpose()?.unwrap_or(LEVEL_NONE), level))
        }
    }
}

/// The refusal of an acknowledgment that keeps `level`, while no oplock is breaking and the open
/// has the level `held`.
///
/// MS-SMB2 3.3.5.22.1 as published now tests for a break first, and refuses with
/// INVALID_DEVICE_STATE whatever the level. Microsoft's model of Windows decides by the level, as
/// earlier editions did; so does this server.
fn refusal_without_break(held: u8, level: u8) -> NtStatus {
    match (held, level) {
        (_, LEVEL_LEASE) => NtStatus::INVALID_PARAMETER,
        // An open without an oplock has no level to violate.
        (LEVEL_NONE, _) | (_, LEVEL_NONE) | (LEVEL_EXCLUSIVE | LEVEL_BATCH, LEVEL_II) => {
            NtStatus::INVALID_DEVICE_STATE
        }
        _ => NtStatus::INVALID_OPLOCK_PROTOCOL,
    }
}

fn acknowledge_lease(request: &Request<'_>, key: CacheKey, state: u32) -> Result<(), NtStatus> {
    let user = request.session()?.user();
    let lease = request.files.key_holder::<Lease>(key);
    if !lease.is_some_and(|lease| lease.is_of(&user.account.name)) {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    let keeps = u8::try_from(state).map_err(|_| NtStatus::REQUEST_NOT_ACCEPTED)?;
    let result = request.files.acknowledge_key(key, CachingRights(keeps));
    result.map_err(|refusal| match refusal {
        None => NtStatus::OBJECT_NAME_NOT_FOUND,
        Some(AcknowledgeRefusal::NotBreaking) => NtStatus::UNSUCCESSFUL,
        Some(AcknowledgeRefusal::TooMuch) => NtStatus::REQUEST_NOT_ACCEPTED,
    })
}
