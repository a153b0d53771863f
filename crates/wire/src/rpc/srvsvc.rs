//! Server service: lists shares. MS-SRVS 3.1.4.
//!
//! Administrative calls (share paths, sessions, changes) are refused with the error and in the form
//! that Windows uses.

use super::ndr::{align, put_referent, put_string, string, unique_string};
use super::{RpcFacts, RpcFault, ShareInfo};
use crate::codec::{Reader, Writer};

const CONNECTION_ENUM: u16 = 8;
const FILE_ENUM: u16 = 9;
const FILE_CLOSE: u16 = 11;
const SESSION_ENUM: u16 = 12;
const SESSION_DEL: u16 = 13;
const SHARE_ADD: u16 = 14;
const SHARE_ENUM_ALL: u16 = 15;
const SHARE_GET_INFO: u16 = 16;
const SHARE_SET_INFO: u16 = 17;
const SHARE_DEL: u16 = 18;
const SHARE_DEL_STICKY: u16 = 19;
const SERVER_GET_INFO: u16 = 21;
const REMOTE_TOD: u16 = 28;
/// NetrShareEnumSticky: like [`SHARE_ENUM_ALL`], without temporary shares.
const SHARE_ENUM: u16 = 36;

const WERR_OK: u32 = 0;
const WERR_ACCESS_DENIED: u32 = 5;
const WERR_INVALID_LEVEL: u32 = 124;
const WERR_NET_NAME_NOT_FOUND: u32 = 2310;

/// PLATFORM_ID_NT.
const PLATFORM: u32 = 500;
/// SV_TYPE_WORKSTATION | SV_TYPE_SERVER | SV_TYPE_SERVER_NT.
const SERVER_TYPE: u32 = 0x1 | 0x2 | 0x8000;

pub(super) fn call(opnum: u16, stub: &[u8], facts: &RpcFacts) -> Result<Vec<u8>, RpcFault> {
    let mut r = Reader::new(stub);
    match opnum {
        SHARE_ENUM_ALL | SHARE_ENUM => share_enum(&mut r, facts),
        SHARE_GET_INFO => share_get_info(&mut r, facts),
        SERVER_GET_INFO => server_get_info(&mut r, facts),
        REMOTE_TOD => remote_time(&mut r, facts),
        CONNECTION_ENUM => refused_list(&mut r, 1),
        FILE_ENUM | SESSION_ENUM => refused_list(&mut r, 2),
        // `ParmErr` is 0: the caller, not a parameter, is refused.
        SHARE_ADD | SHARE_SET_INFO => Ok([[0; 4], WERR_ACCESS_DENIED.to_le_bytes()].concat()),
        FILE_CLOSE | SESSION_DEL | SHARE_DEL | SHARE_DEL_STICKY => {
            Ok(WERR_ACCESS_DENIED.to_le_bytes().to_vec())
        }
        _ => Err(RpcFault::Opnum),
    }
}

/// NetrRemoteTOD: TIME_OF_DAY_INFO, in UTC. MS-SRVS 2.2.4.105, 3.1.4.21.
fn remote_time(r: &mut Reader<'_>, facts: &RpcFacts) -> Result<Vec<u8>, RpcFault> {
    /// `tod_tinterval`: 10,000ths of a second per clock tick, the value of Windows and Samba.
    const TICK: u32 = 310;
    unique_string(r)?;
    let milliseconds = facts.now_unix_ms.max(0) as u64;
    let seconds = milliseconds / 1000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of(days);
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    put_referent(&mut w, 0);
    w.u32(seconds as u32);
    w.u32(milliseconds as u32);
    for number in [of_day / 3600, of_day / 60 % 60, of_day % 60, milliseconds / 10 % 100] {
        w.u32(number as u32);
    }
    // `tod_timezone`: minutes from UTC.
    w.u32(0);
    w.u32(TICK);
    // 1970 began on a Thursday.
    for number in [day, month, year, (days + 4) % 7] {
        w.u32(number as u32);
    }
    w.u32(WERR_OK);
    Ok(out)
}

/// Converts days since 1970 to year, month and day of the Gregorian calendar. Years start in March,
/// so that a leap day is the last day of its year.
fn date_of(days: u64) -> (u64, u64, u64) {
    /// Days from the first of March of the year 0 to 1970.
    const TO_1970: u64 = 719_468;
    let days = days + TO_1970;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

fn share_enum(r: &mut Reader<'_>, facts: &RpcFacts) -> Result<Vec<u8>, RpcFault> {
    unique_string(r)?;
    align(r)?;
    let level = r.u32("level")?;
    let refusal = match level {
        0 | 1 | 501 => None,
        2 | 502 if facts.is_administrator => None,
        2 | 502 | 503 => Some(WERR_ACCESS_DENIED),
        _ => Some(WERR_INVALID_LEVEL),
    };
    if let Some(error) = refusal {
        return Ok(no_list(level, error));
    }
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.u32(level);
    w.u32(level);
    let listed = || facts.shares.iter().filter(|share| share.is_listed);
    let count = listed().count() as u32;
    put_referent(&mut w, 0);
    w.u32(count);
    put_referent(&mut w, 1);
    w.u32(count);
    let mut referent = 2;
    listed().for_each(|share| put_share_fixed(&mut w, level, share, &mut referent));
    listed().for_each(|share| put_share_strings(&mut w, level, share));
    w.u32(count);
    // No resume handle.
    w.u32(0);
    w.u32(WERR_OK);
    Ok(out)
}

/// Refuses an administrative list after reading its filters: an empty list and an error.
fn refused_list(r: &mut Reader<'_>, filters: usize) -> Result<Vec<u8>, RpcFault> {
    for _ in 0..=filters {
        unique_string(r)?;
        align(r)?;
    }
    let level = r.u32("level")?;
    Ok(no_list(level, WERR_ACCESS_DENIED))
}

/// An empty list: a null container, no entries, no resume handle, and `error`.
fn no_list(level: u32, error: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.u32(level);
    w.u32(level);
    w.zeros(12);
    w.u32(error);
    out
}

fn share_get_info(r: &mut Reader<'_>, facts: &RpcFacts) -> Result<Vec<u8>, RpcFault> {
    unique_string(r)?;
    let name = string(r)?.to_lowercase();
    align(r)?;
    let level = r.u32("level")?;
    let share = facts.shares.iter().find(|s| s.name.to_lowercase() == name);
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.u32(level);
    let error = match share {
        None => WERR_NET_NAME_NOT_FOUND,
        Some(_) if matches!(level, 2 | 502 | 503) && !facts.is_administrator => WERR_ACCESS_DENIED,
        Some(_) if !matches!(level, 0 | 1 | 2 | 501 | 502 | 1005) => WERR_INVALID_LEVEL,
        Some(share) => {
            put_referent(&mut w, 0);
            let mut referent = 1;
            put_share_fixed(&mut w, level, share, &mut referent);
            put_share_strings(&mut w, level, share);
            w.u32(WERR_OK);
            return Ok(out);
        }
    };
    w.u32(0);
    w.u32(error);
    Ok(out)
}

/// The part of a SHARE_INFO structure before its strings. MS-SRVS 2.2.4.22 to 2.2.4.27.
fn put_share_fixed(w: &mut Writer<'_>, level: u32, share: &ShareInfo, referent: &mut u32) {
    let mut pointer = |w: &mut Writer<'_>| {
        put_referent(w, *referent);
        *referent += 1;
    };
    if level == 1005 {
        w.u32(share.flags);
        return;
    }
    pointer(w);
    if level == 0 {
        return;
    }
    w.u32(share.kind);
    pointer(w);
    match level {
        2 | 502 => {
            // Permissions, unlimited uses, current uses.
            w.u32(0);
            w.u32(u32::MAX);
            w.u32(0);
            pointer(w);
            w.u32(0);
            if level == 502 {
                w.u32(0);
                w.u32(0);
            }
        }
        501 => w.u32(share.flags),
        _ => {}
    }
}

fn put_share_strings(w: &mut Writer<'_>, level: u32, share: &ShareInfo) {
    if level == 1005 {
        return;
    }
    put_string(w, &share.name);
    if level == 0 {
        return;
    }
    put_string(w, &share.remark);
    if matches!(level, 2 | 502) {
        // The share's real path is not disclosed.
        put_string(w, "C:\\");
    }
}

fn server_get_info(r: &mut Reader<'_>, facts: &RpcFacts) -> Result<Vec<u8>, RpcFault> {
    unique_string(r)?;
    align(r)?;
    let level = r.u32("level")?;
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.u32(level);
    if !matches!(level, 100..=102) {
        w.u32(0);
        w.u32(WERR_INVALID_LEVEL);
        return Ok(out);
    }
    put_referent(&mut w, 0);
    w.u32(PLATFORM);
    put_referent(&mut w, 1);
    if level > 100 {
        w.u32(10);
        w.u32(0);
        w.u32(SERVER_TYPE);
        put_referent(&mut w, 2);
    }
    if level == 102 {
        // Users, disconnect time, hidden, announce rate and its variation, licences, path.
        for value in [u32::MAX, 15, 0, 240, 3000, 0] {
            w.u32(value);
        }
        put_referent(&mut w, 3);
    }
    put_string(&mut w, &facts.server_name);
    if level > 100 {
        put_string(&mut w, &facts.comment);
    }
    if level == 102 {
        put_string(&mut w, "C:\\");
    }
    w.u32(WERR_OK);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(is_administrator: bool) -> RpcFacts {
        let share = |name: &str, flags, is_listed| ShareInfo {
            name: name.into(),
            kind: 0,
            remark: "a remark".into(),
            flags,
            is_listed,
        };
        let shares = vec![share("data", 0x0800, true), share("quiet", 0, false)];
        RpcFacts { shares, is_administrator, ..RpcFacts::default() }
    }

    /// The status that ends every response.
    fn error(answer: &[u8]) -> u32 {
        u32::from_le_bytes(*answer.last_chunk().unwrap())
    }

    /// A request without server name, with a level and the fields that follow it.
    fn share_enum(level: u32, facts: &RpcFacts) -> Vec<u8> {
        let stub: Vec<u8> =
            [0, level, level, 1, 0, 0, u32::MAX, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
        call(SHARE_ENUM_ALL, &stub, facts).unwrap()
    }

    fn share_get_info(name: &str, level: u32, facts: &RpcFacts) -> Vec<u8> {
        let mut stub = Vec::new();
        let mut w = Writer::new(&mut stub);
        w.u32(0);
        put_string(&mut w, name);
        w.u32(level);
        call(SHARE_GET_INFO, &stub, facts).unwrap()
    }

    fn has(answer: &[u8], text: &str) -> bool {
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        answer.windows(units.len()).any(|w| w == units)
    }

    #[test]
    fn share_enum_lists_shares_and_refuses_admin_levels() {
        for (level, expected) in
            [(0, 0), (1, 0), (501, 0), (2, 5), (502, 5), (503, 5), (3, 124), (1005, 124)]
        {
            let answer = share_enum(level, &facts(false));
            assert_eq!(error(&answer), expected, "level {level}");
            assert_eq!(has(&answer, "data"), expected == 0, "level {level}");
            assert!(!has(&answer, "quiet"), "level {level}");
        }
        for level in [2, 502] {
            assert_eq!(error(&share_enum(level, &facts(true))), 0, "level {level}");
        }
    }

    #[test]
    fn share_get_info_covers_unlisted_shares() {
        for (level, expected) in [(0, 0), (1, 0), (501, 0), (1005, 0), (2, 5), (502, 5), (7, 124)] {
            assert_eq!(error(&share_get_info("QUIET", level, &facts(false))), expected, "{level}");
        }
        assert_eq!(error(&share_get_info("other", 1, &facts(false))), WERR_NET_NAME_NOT_FOUND);
        let flags = share_get_info("data", 1005, &facts(false));
        // Level, pointer, flags, error.
        assert_eq!(flags[8..12], 0x0800u32.to_le_bytes());
    }

    #[test]
    fn remote_time_is_the_time_of_the_latest_request() {
        // 2024-02-29 23:59:58.760 is a Thursday; the second date is 1 March of a common year.
        for (now_unix_ms, expected) in [
            (1_709_251_198_760, [23, 59, 58, 76, 0, 310, 29, 2, 2024, 4]),
            (1_677_628_800_000, [0, 0, 0, 0, 0, 310, 1, 3, 2023, 3]),
            (0, [0, 0, 0, 0, 0, 310, 1, 1, 1970, 4]),
        ] {
            let facts = RpcFacts { now_unix_ms, ..facts(false) };
            let answer = call(REMOTE_TOD, &[0; 4], &facts).unwrap();
            let numbers: Vec<u32> = answer
                .chunks(4)
                .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
                .collect();
            assert_eq!(numbers[1], (now_unix_ms / 1000) as u32);
            assert_eq!(numbers[3..13], expected);
            assert_eq!(numbers[13..], [WERR_OK]);
        }
    }

    #[test]
    fn session_lists_and_changes_are_refused_in_their_form() {
        let numbers = |of: &[u32]| of.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        let list = numbers(&[10, 10, 0, 0, 0, 5]);
        let three = numbers(&[0, 0, 0, 10, 10, 1, 0, 0, u32::MAX, 0]);
        assert_eq!(call(SESSION_ENUM, &three, &facts(false)), Ok(list.clone()));
        assert_eq!(call(FILE_ENUM, &three, &facts(false)), Ok(list.clone()));
        assert_eq!(call(CONNECTION_ENUM, &three[4..], &facts(false)), Ok(list));
        assert_eq!(call(SHARE_DEL, &[], &facts(true)), Ok(numbers(&[5])));
        assert_eq!(call(SHARE_ADD, &[], &facts(true)), Ok(numbers(&[0, 5])));
        assert_eq!(call(200, &[], &facts(true)), Err(RpcFault::Opnum));
        assert_eq!(call(SESSION_ENUM, &three[..8], &facts(false)), Err(RpcFault::Ndr));
    }
}
