//! Quotas of users: the quota file, queries and changes. MS-SMB2 3.3.5.20.4, 3.3.5.21.4, MS-FSA
//! 2.1.5.21, 2.1.5.22.

use crate::conversion::status::status_of;
use crate::opens::open::Open;
use crate::opens::open_quotas::OpenQuotas;
use crate::request::context::{QueryRefusal, Request, malformed};
use crate::shares::tree::TreeConnect;
use files::Sid;
use std::sync::atomic::Ordering;
use vfs::{Quota, QuotaLimits};
use wire::fscc::{
    QUOTA_NO_LIMIT, QUOTA_REMOVE, QuotaEntry, QuotaList, QuotaQuery, decode_quota_list,
    decode_quota_users, upcase,
};
use wire::ntstatus::NtStatus;
use wire::smb::QueryInfoRequest;

/// Name of the quota file in every share, compared without case.
const QUOTA_FILE: &str = r"$EXTEND\$QUOTA:$Q:$INDEX_ALLOCATION";

/// Most quotas in one response.
const QUOTAS_MAX: usize = 1024;

/// Position after the last user.
const END: u64 = u32::MAX as u64 + 1;

/// True if the name of a CREATE on this tree is the quota file.
#[must_use]
pub fn is_quota_file(tree: &TreeConnect, name: &[u8]) -> bool {
    let is_same = |(bytes, wanted): (&[u8; 2], u16)| upcase(u16::from_le_bytes(*bytes)) == wanted;
    let (units, []) = name.as_chunks() else { return false };
    tree.share.volume.is_some()
        && units.len() == QUOTA_FILE.len()
        && units.iter().zip(QUOTA_FILE.encode_utf16()).all(is_same)
}

/// Queries the quotas of the listed users, or enumerates all.
///
/// # Errors
/// `NO_MORE_ENTRIES` at the end; `BUFFER_TOO_SMALL` without room for one; `ACCESS_DENIED` for
/// another user's quota; `NOT_SUPPORTED` on a volume without quotas.
pub async fn query(
    request: &Request<'_>,
    open: &Open,
    quotas: &OpenQuotas,
    body: &QueryInfoRequest<'_>,
    data: &mut Vec<u8>,
) -> Result<NtStatus, QueryRefusal> {
    let query = QuotaQuery::decode(body.input).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let user = request.session()?.user();
    let (files, caller) = (request.files, open.tree.caller(&user));
    let count_max = if query.single { 1 } else { QUOTAS_MAX };
    let is_listing = query.users.is_empty();
    let found = if is_listing {
        let next = match user_of(query.start) {
            Some(uid) => u64::from(uid),
            None if !query.start.is_empty() => return Err(NtStatus::INVALID_SID.into()),
            None if query.restart => 0,
            None => quotas.next.load(Ordering::Relaxed),
        };
        let first = u32::try_from(next).map_err(|_| NtStatus::NO_MORE_ENTRIES)?;
        files.quotas_from(&quotas.volume, caller, first, count_max).await
    } else {
        let users = decode_quota_users(query.users).map_err(|_| NtStatus::INVALID_PARAMETER)?;
        // Only users of this machine have files here.
        let users = users.into_iter().filter_map(user_of).take(count_max).collect();
        files.quotas(&quotas.volume, caller, users).await
    };
    let found = found.map_err(status_of)?;
    let count = put_at_least_one(&found, data, body.output_bytes as usize)?;
    if is_listing {
        let last = found.get(count - 1).map_or(END, |(uid, _)| u64::from(*uid));
        quotas.next.store(last + 1, Ordering::Relaxed);
    }
    Ok(NtStatus::SUCCESS)
}

/// Sets the quota limits of the listed users.
///
/// # Errors
/// `ACCESS_DENIED` except for the superuser; `INVALID_SID` for a SID that is no user of this
/// machine; `NOT_SUPPORTED` on a volume without quotas.
pub async fn set(
    request: &Request<'_>,
    open: &Open,
    quotas: &OpenQuotas,
    input: &[u8],
) -> Result<(), NtStatus> {
    let entries = decode_quota_list(input).map_err(malformed)?;
    let limits = entries.iter().map(|entry| {
        let uid = user_of(entry.sid).ok_or(NtStatus::INVALID_SID)?;
        // Samba's tools send zero for an unlimited quota; a limit of zero bytes has no use.
        let bytes = |bytes| (bytes != QUOTA_NO_LIMIT && bytes != 0).then_some(bytes);
        let limits = match entry.limit_bytes {
            QUOTA_REMOVE => QuotaLimits::default(),
            limit => {
                QuotaLimits { soft_bytes: bytes(entry.threshold_bytes), hard_bytes: bytes(limit) }
            }
        };
        Ok((uid, limits))
    });
    let limits = limits.collect::<Result<Vec<_>, NtStatus>>()?;
    let user = request.session()?.user();
    let (files, caller) = (request.files, open.tree.caller(&user));
    files.set_quotas(&quotas.volume, caller, limits).await.map_err(status_of)
}

/// Appends as many quotas as fit, at least one, and returns their number.
///
/// # Errors
/// See [`query`].
fn put_at_least_one(
    found: &[(u32, Quota)],
    data: &mut Vec<u8>,
    room_bytes: usize,
) -> Result<usize, QueryRefusal> {
    let count = put(found, data, room_bytes);
    match found.first() {
        None => Err(NtStatus::NO_MORE_ENTRIES.into()),
        Some(first) if count == 0 => {
            put(std::slice::from_ref(first), data, usize::MAX);
            Err(QueryRefusal::BufferTooSmall(data.len()))
        }
        Some(_) => Ok(count),
    }
}

/// Appends as many quotas as fit, and returns their number.
fn put(found: &[(u32, Quota)], data: &mut Vec<u8>, room_bytes: usize) -> usize {
    let mut list = QuotaList::new(data, room_bytes);
    let fits = |(uid, quota): &&(u32, Quota)| {
        let mut sid = Vec::new();
        Sid::unix_user(*uid).encode(&mut sid);
        list.put(&QuotaEntry {
            used_bytes: quota.used_bytes,
            threshold_bytes: quota.limits.soft_bytes.unwrap_or(QUOTA_NO_LIMIT),
            limit_bytes: quota.limits.hard_bytes.unwrap_or(QUOTA_NO_LIMIT),
            sid: &sid,
        })
    };
    found.iter().take_while(fits).count()
}

/// The user of a SID, if it is a user of this machine.
fn user_of(sid: &[u8]) -> Option<u32> {
    Sid::decode(sid)?.as_unix_user()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_quota_query_reports_the_size_of_one_entry() {
        let quota = Quota { used_bytes: 5, limits: QuotaLimits::default() };
        let found = [(7, quota), (8, quota)];
        let mut whole = Vec::new();
        assert_eq!(put_at_least_one(&found, &mut whole, usize::MAX), Ok(2));
        let mut one = Vec::new();
        assert_eq!(put_at_least_one(&found[..1], &mut one, usize::MAX), Ok(1));
        for room in [0, 1, one.len() - 1] {
            let refusal = put_at_least_one(&found, &mut Vec::new(), room);
            assert_eq!(refusal, Err(QueryRefusal::BufferTooSmall(one.len())), "room {room}");
        }
        assert_eq!(put_at_least_one(&found, &mut Vec::new(), one.len()), Ok(1));
        assert_eq!(put_at_least_one(&found, &mut Vec::new(), whole.len()), Ok(2));
        let refusal = put_at_least_one(&[], &mut Vec::new(), 0);
        assert_eq!(refusal, Err(QueryRefusal::Status(NtStatus::NO_MORE_ENTRIES)));
    }
}
