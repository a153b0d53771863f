//! Workstation service: describes this machine. MS-WKST 3.2.4.1.

use super::ndr::{align, put_referent, put_string, unique_string};
use super::{RpcFacts, RpcFault};
use crate::codec::{Reader, Writer};

const GET_INFO: u16 = 0;
const WERR_OK: u32 = 0;
const WERR_INVALID_LEVEL: u32 = 124;

pub(super) fn call(opnum: u16, stub: &[u8], facts: &RpcFacts) -> Result<Vec<u8>, RpcFault> {
    let mut r = Reader::new(stub);
    if opnum != GET_INFO {
        return Err(RpcFault::Opnum);
    }
    unique_string(&mut r)?;
    align(&mut r)?;
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
    w.u32(500);
    put_referent(&mut w, 1);
    put_referent(&mut w, 2);
    w.u32(10);
    w.u32(0);
    if level > 100 {
        put_referent(&mut w, 3);
    }
    if level == 102 {
        w.u32(0);
    }
    put_string(&mut w, &facts.server_name);
    put_string(&mut w, &facts.domain);
    if level > 100 {
        put_string(&mut w, "");
    }
    w.u32(WERR_OK);
    Ok(out)
}
