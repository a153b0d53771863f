//! OPLOCK_BREAK acknowledgments. MS-SMB2 3.3.5.22.1, 3.3.5.22.2.

use crate::dispatch::{Outcome, Request, malformed};
use crate::lease::Lease;
use crate::notices::About;
use crate::oplock::{caching_of, level_of};
use files::{AcknowledgeRefusal, CacheKey, Caching};
use wire::ntstatus::NtStatus;
use wire::smb::{LeaseBreakResponse, OplockBreak, OplockBreakAck};

/// Takes back what a client kept to itself.
///
/// # Errors
/// `INVALID_OPLOCK_PROTOCOL` if it was not asked or keeps too much,
/// `INVALID_PARAMETER` for a level that is none. Of a lease: `OBJECT_NAME_NOT_FOUND`
/// if there is none, or the user has opened nothing under it, `UNSUCCESSFUL` if it was not asked
/// for, `REQUEST_NOT_ACCEPTED` if too much is kept.
pub fn oplock_break(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    if let Some(about) = About::of(request.message) {
        request.session()?.handle_answer(about);
    }
    match OplockBreakAck::decode(&mut request.body()?).map_err(malformed)? {
        OplockBreakAck::Oplock { level, file_id } => {
            let open = request.open(file_id)?.free_of_charge();
            let keeps = caching_of(level).ok_or(NtStatus::INVALID_PARAMETER)?;
            let files = request.files;
            files
                .acknowledge(open.file()?, keeps)
                .map_err(|_| NtStatus::INVALID_OPLOCK_PROTOCOL)?;
            OplockBreak { level: level_of(keeps), file_id }.encode(&mut request.w);
            Ok(Outcome::success())
        }
        OplockBreakAck::Lease { key, state } => {
            let client = request.session()?.client_guid;
            acknowledge_lease(request, CacheKey { client, key }, state)?;
            LeaseBreakResponse { key, state }.encode(&mut request.w);
            Ok(Outcome::success())
        }
    }
}

fn acknowledge_lease(request: &Request<'_>, key: CacheKey, state: u32) -> Result<(), NtStatus> {
    let user = request.session()?.user();
    let lease = request.files.key_holder::<Lease>(key);
    if !lease.is_some_and(|lease| lease.is_of(&user.account.name)) {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    let keeps = u8::try_from(state).map_err(|_| NtStatus::REQUEST_NOT_ACCEPTED)?;
    let result = request.files.acknowledge_key(key, Caching(keeps));
    result.map_err(|refusal| match refusal {
        None => NtStatus::OBJECT_NAME_NOT_FOUND,
        Some(AcknowledgeRefusal::NotBreaking) => NtStatus::UNSUCCESSFUL,
        Some(AcknowledgeRefusal::TooMuch) => NtStatus::REQUEST_NOT_ACCEPTED,
    })
}
