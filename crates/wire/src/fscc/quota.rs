//! User quotas. MS-FSCC 2.4.41, 2.4.41.1, MS-SMB2 2.2.37.1.

use crate::codec::{DecodeError, Reader};

/// Maximum number of entries in one list.
const ENTRIES_MAX: usize = 4096;
/// Length of an entry before its SID, in bytes.
const FIXED: usize = 40;
/// Alignment of entries, in bytes.
const ALIGNED: usize = 8;

/// Limit value: unlimited.
pub const QUOTA_NO_LIMIT: u64 = u64::MAX;
/// Limit value in a set request: removes the user's quota entry.
pub const QUOTA_REMOVE: u64 = u64::MAX - 1;

/// FILE_QUOTA_INFORMATION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaEntry<'a> {
    /// Bytes that the user stores.
    pub used_bytes: u64,
    /// Warning threshold in bytes, or [`QUOTA_NO_LIMIT`].
    pub threshold_bytes: u64,
    /// Limit in bytes, [`QUOTA_NO_LIMIT`] or [`QUOTA_REMOVE`].
    pub limit_bytes: u64,
    /// SID of the user.
    pub sid: &'a [u8],
}

/// Decodes the quotas of a set request.
///
/// # Errors
/// [`DecodeError`] if an entry exceeds the list.
pub fn decode_quota_list(bytes: &[u8]) -> Result<Vec<QuotaEntry<'_>>, DecodeError> {
    chain(bytes, |r| {
        let length = r.u32("quota")? as usize;
        r.skip(8, "quota change time")?;
        let used_bytes = r.u64("quota used")?;
        let threshold_bytes = r.u64("quota threshold")?;
        let limit_bytes = r.u64("quota limit")?;
        let sid = r.take(length, "quota sid")?;
        Ok(QuotaEntry { used_bytes, threshold_bytes, limit_bytes, sid })
    })
}

/// Decodes the users of a query: FILE_GET_QUOTA_INFORMATION.
///
/// # Errors
/// As [`decode_quota_list`].
pub fn decode_quota_users(bytes: &[u8]) -> Result<Vec<&[u8]>, DecodeError> {
    chain(bytes, |r| {
        let length = r.u32("quota user")? as usize;
        r.take(length, "quota user")
    })
}

/// Decodes entries that each start with the distance to the next one (`NextEntryOffset`).
fn chain<'a, T>(
    mut bytes: &'a [u8],
    entry: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let mut r = Reader::new(bytes);
        let next = r.u32("quota next")? as usize;
        entries.push(entry(&mut r)?);
        if next == 0 {
            break;
        }
        if next < r.position() || next >= bytes.len() || entries.len() == ENTRIES_MAX {
            return Err(r.malformed("quota next"));
        }
        bytes = &bytes[next..];
    }
    Ok(entries)
}

/// Builds a list of quota entries.
#[derive(Debug)]
pub struct QuotaList<'a> {
    out: &'a mut Vec<u8>,
    room_bytes: usize,
    previous: Option<usize>,
}

impl<'a> QuotaList<'a> {
    /// Starts an empty list in `out`, which must be empty, of at most `room_bytes` bytes.
    pub fn new(out: &'a mut Vec<u8>, room_bytes: usize) -> Self {
        Self { out, room_bytes, previous: None }
    }

    /// Appends an entry; false if it does not fit.
    pub fn put(&mut self, entry: &QuotaEntry<'_>) -> bool {
        let at = self.out.len().next_multiple_of(ALIGNED);
        if at + FIXED + entry.sid.len() > self.room_bytes {
            return false;
        }
        self.out.resize(at, 0);
        if let Some(previous) = self.previous.replace(at) {
            let next = (at - previous) as u32;
            self.out[previous..previous + 4].copy_from_slice(&next.to_le_bytes());
        }
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(&(entry.sid.len() as u32).to_le_bytes());
        // `ChangeTime` is unknown.
        self.out.extend_from_slice(&[0; 8]);
        for number in [entry.used_bytes, entry.threshold_bytes, entry.limit_bytes] {
            self.out.extend_from_slice(&number.to_le_bytes());
        }
        self.out.extend_from_slice(entry.sid);
        true
    }
}

/// SMB2_QUERY_QUOTA_INFO: selects the entries of a quota query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaQuery<'a> {
    /// `ReturnSingle`: return one entry only.
    pub single: bool,
    /// `RestartScan`: start at the first entry.
    pub restart: bool,
    /// Users to return, see [`decode_quota_users`]; empty for all users.
    pub users: &'a [u8],
    /// SID of the user to start with; empty for the first.
    pub start: &'a [u8],
}

impl<'a> QuotaQuery<'a> {
    /// Decodes the query.
    ///
    /// # Errors
    /// [`DecodeError`] if the query is short or a part exceeds it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let single = r.u8("quota query")? != 0;
        let restart = r.u8("quota query")? != 0;
        r.skip(2, "quota query")?;
        let users_length = r.u32("quota query")? as usize;
        let start_length = r.u32("quota query")? as usize;
        let start_offset = r.u32("quota query")? as usize;
        let mut rest = Reader::new(r.rest());
        // A query holds either a list or a start SID: MS-SMB2 2.2.37.1 has both in one buffer.
        let users = rest.take(users_length, "quota users")?;
        if users_length > 0 || start_length == 0 {
            return Ok(Self { single, restart, users, start: &[] });
        }
        rest.skip(start_offset, "quota start")?;
        let start = rest.take(start_length, "quota start")?;
        Ok(Self { single, restart, users, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SID: &[u8] = &[1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, 0xA1, 0x0F, 0, 0];

    #[test]
    fn quota_list_round_trips_and_rejects_truncation() {
        let entry = |used_bytes, sid| QuotaEntry {
            used_bytes,
            threshold_bytes: 2,
            limit_bytes: QUOTA_NO_LIMIT,
            sid,
        };
        let entries = [entry(1, SID), entry(3, &SID[..12]), entry(4, SID)];
        let mut out = Vec::new();
        let mut list = QuotaList::new(&mut out, 168);
        assert_eq!(entries.map(|entry| list.put(&entry)), [true; 3]);
        assert_eq!(decode_quota_list(&out).unwrap(), entries);
        assert_eq!(out.len(), 168);
        assert_eq!(out[..16], [56, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for length in 1..out.len() {
            assert!(decode_quota_list(&out[..length]).is_err(), "{length}");
        }
        let mut short = Vec::new();
        let mut list = QuotaList::new(&mut short, 167);
        assert_eq!(entries.map(|entry| list.put(&entry)), [true, true, false]);
    }

    #[test]
    fn quota_query_holds_users_or_a_start_sid() {
        let mut users = vec![0, 0, 0, 0, SID.len() as u8, 0, 0, 0];
        users.extend(SID);
        let mut bytes = vec![1, 0, 0, 0, users.len() as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend(&users);
        let query = QuotaQuery::decode(&bytes).unwrap();
        assert_eq!((query.single, query.restart, query.start), (true, false, &[][..]));
        assert_eq!(decode_quota_users(query.users), Ok(vec![SID]));
        let mut bytes = vec![0, 1, 0, 0, 0, 0, 0, 0, SID.len() as u8, 0, 0, 0, 4, 0, 0, 0];
        bytes.extend([0; 4]);
        bytes.extend(SID);
        let query = QuotaQuery::decode(&bytes).unwrap();
        assert_eq!((query.restart, query.start), (true, SID));
        for length in 0..bytes.len() {
            assert!(QuotaQuery::decode(&bytes[..length]).is_err(), "{length}");
        }
    }
}
