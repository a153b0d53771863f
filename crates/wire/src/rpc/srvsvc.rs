//! Server service: the list of shares. MS-SRVS 3.1.4.

use super::ndr::{align, put_referent, put_string, string, unique_string};
use super::{Fault, RpcFacts, ShareFact};
use crate::codec::{Reader, Writer};

const SHARE_ENUM_ALL: u16 = 15;
const SHARE_GET_INFO: u16 = 16;
const SERVER_GET_INFO: u16 = 21;
const SHARE_ENUM: u16 = 36;

const WERR_OK: u32 = 0;
const WERR_INVALID_LEVEL: u32 = 124;
const WERR_NET_NAME_NOT_FOUND: u32 = 2310;

/// PLATFORM_ID_NT.
const PLATFORM: u32 = 500;
/// SV_TYPE_WORKSTATION | SV_TYPE_SERVER | SV_TYPE_SERVER_NT.
const SERVER_TYPE: u32 = 0x1 | 0x2 | 0x8000;

pub(super) fn call(opnum: u16, stub: &[u8], facts: &RpcFacts) -> Result<Vec<u8>, Fault> {
    let mut r = Reader::new(stub);
    match opnum {
        SHARE_ENUM_ALL | SHARE_ENUM => share_enum(&mut r, facts),
        SHARE_GET_INFO => share_get_info(&mut r, facts),
        SERVER_GET_INFO => server_get_info(&mut r, facts),
        _ => Err(Fault::Opnum),
    }
}

fn share_enum(r: &mut Reader<'_>, facts: &RpcFacts) -> Result<Vec<u8>, Fault> {
    unique_string(r)?;
    align(r)?;
    let level = r.u32("level")?;
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.u32(level);
    w.u32(level);
    let known = matches!(level, 0 | 1 | 2 | 501 | 502);
    if !known {
        w.u32(0);
        w.u32(0);
        w.u32(0);
        w.u32(WERR_INVALID_LEVEL);
        return Ok(out);
    }
    put_referent(&mut w, 0);
    w.u32(facts.shares.len() as u32);
    put_referent(&mut w, 1);
    w.u32(facts.shares.len() as u32);
    let mut referent = 2;
    for share in &facts.shares {
        put_share_fixed(&mut w, level, share, &mut referent);
    }
    for share in &facts.shares {
        put_share_strings(&mut w, level, share);
    }
    w.u32(facts.shares.len() as u32);
    // No resume handle.
    w.u32(0);
    w.u32(WERR_OK);
    Ok(out)
}

fn share_get_info(r: &mut Reader<'_>, facts: &RpcFacts) -> Result<Vec<u8>, Fault> {
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

/// The part of a SHARE_INFO before its strings. MS-SRVS 2.2.4.22 to 2.2.4.27.
fn put_share_fixed(w: &mut Writer<'_>, level: u32, share: &ShareFact, referent: &mut u32) {
    let mut pointer = |w: &mut Writer<'_>| {
        put_referent(w, *referent);
        *referent += 1;
    };
    if level == 1005 {
        w.u32(0);
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
            // Permissions, unlimited uses, none known.
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
        501 => w.u32(0),
        _ => {}
    }
}

fn put_share_strings(w: &mut Writer<'_>, level: u32, share: &ShareFact) {
    if level == 1005 {
        return;
    }
    put_string(w, &share.name);
    if level == 0 {
        return;
    }
    put_string(w, &share.remark);
    if matches!(level, 2 | 502) {
        // Where the share is on this machine is nobody's business.
        put_string(w, "C:\\");
    }
}

fn server_get_info(r: &mut Reader<'_>, facts: &RpcFacts) -> Result<Vec<u8>, Fault> {
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
