//! Local security authority: translates SIDs to names and names to SIDs. MS-LSAT 3.1.4, MS-LSAD
//! 3.1.4.
//!
//! A policy handle is valid on its pipe. Its requested access is not checked, because every call
//! here is open to all authenticated callers.

mod lookup;

use super::ndr::{align, put_referent, unique_string};
use super::{RpcFacts, RpcFault};
use crate::codec::{DecodeError, Reader, Writer};
use crate::ntstatus::NtStatus;

const CLOSE: u16 = 0;
const OPEN_POLICY: u16 = 6;
const QUERY_INFORMATION_POLICY: u16 = 7;
const LOOKUP_NAMES: u16 = 14;
const LOOKUP_SIDS: u16 = 15;
const OPEN_POLICY_2: u16 = 44;
const GET_USER_NAME: u16 = 45;
const QUERY_INFORMATION_POLICY_2: u16 = 46;
const LOOKUP_SIDS_2: u16 = 57;
const LOOKUP_NAMES_2: u16 = 58;
const LOOKUP_NAMES_3: u16 = 68;
const LOOKUP_SIDS_3: u16 = 76;
const LOOKUP_NAMES_4: u16 = 77;
const OPEN_POLICY_3: u16 = 130;

/// Maximum number of open handles per pipe.
const HANDLES_MAX: u32 = 32;
/// Prefix of the server's handles, after their attributes.
const HANDLE_MARK: [u8; 12] = *b"anabranchlsa";

/// Open handles of one pipe, one bit each.
#[derive(Debug, Default)]
pub(super) struct PolicyHandles {
    open: u32,
}

impl PolicyHandles {
    fn open(&mut self) -> Option<[u8; 20]> {
        let number = self.open.trailing_ones();
        if number >= HANDLES_MAX {
            return None;
        }
        self.open |= 1 << number;
        Some(handle(number))
    }

    fn find(&self, given: &[u8; 20]) -> Option<u32> {
        (0..HANDLES_MAX).find(|n| self.open & 1 << n != 0 && handle(*n) == *given)
    }
}

fn handle(number: u32) -> [u8; 20] {
    let mut handle = [0; 20];
    handle[4..8].copy_from_slice(&(number + 1).to_le_bytes());
    handle[8..].copy_from_slice(&HANDLE_MARK);
    handle
}

pub(super) fn call(
    opnum: u16,
    stub: &[u8],
    facts: &RpcFacts,
    handles: &mut PolicyHandles,
) -> Result<Vec<u8>, RpcFault> {
    let mut r = Reader::new(stub);
    match opnum {
        OPEN_POLICY | OPEN_POLICY_2 => Ok(open_policy(false, handles)),
        OPEN_POLICY_3 => Ok(open_policy(true, handles)),
        GET_USER_NAME => get_user_name(&mut r, facts),
        LOOKUP_SIDS_3 => lookup::sids(&mut r, facts, true),
        LOOKUP_NAMES_4 => lookup::names(&mut r, facts, lookup::SidForm::WholeSid),
        _ => with_policy(opnum, &mut r, facts, handles),
    }
}

/// Dispatches the calls that take a policy handle.
fn with_policy(
    opnum: u16,
    r: &mut Reader<'_>,
    facts: &RpcFacts,
    handles: &mut PolicyHandles,
) -> Result<Vec<u8>, RpcFault> {
    const OPNUMS: &[u16] = &[
        CLOSE,
        QUERY_INFORMATION_POLICY,
        QUERY_INFORMATION_POLICY_2,
        LOOKUP_SIDS,
        LOOKUP_SIDS_2,
        LOOKUP_NAMES,
        LOOKUP_NAMES_2,
        LOOKUP_NAMES_3,
    ];
    if !OPNUMS.contains(&opnum) {
        return Err(RpcFault::Opnum);
    }
    let number = handles.find(&r.array("policy handle")?).ok_or(RpcFault::Handle)?;
    match opnum {
        QUERY_INFORMATION_POLICY | QUERY_INFORMATION_POLICY_2 => query_policy(r, facts),
        LOOKUP_SIDS => lookup::sids(r, facts, false),
        LOOKUP_SIDS_2 => lookup::sids(r, facts, true),
        LOOKUP_NAMES => lookup::names(r, facts, lookup::SidForm::Relative),
        LOOKUP_NAMES_2 => lookup::names(r, facts, lookup::SidForm::RelativeWithFlags),
        LOOKUP_NAMES_3 => lookup::names(r, facts, lookup::SidForm::WholeSid),
        _ => {
            handles.open &= !(1 << number);
            // A null handle, and success.
            Ok(vec![0; 24])
        }
    }
}

/// MS-LSAD 3.1.4.4.1, 3.1.4.4.2, 3.1.4.4.9.
fn open_policy(with_version: bool, handles: &mut PolicyHandles) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    if with_version {
        // Version 1, twice for the union's switch; revision 1 without features.
        [1, 1, 1, 0].into_iter().for_each(|n| w.u32(n));
    }
    let handle = handles.open();
    w.bytes(&handle.unwrap_or_default());
    let status =
        if handle.is_some() { NtStatus::SUCCESS } else { NtStatus::INSUFFICIENT_RESOURCES };
    w.u32(status.0);
    out
}

/// Names and identifiers of workgroup and machine. MS-LSAD 3.1.4.4.4.
fn query_policy(r: &mut Reader<'_>, facts: &RpcFacts) -> Result<Vec<u8>, RpcFault> {
    const PRIMARY_DOMAIN: u16 = 3;
    const ACCOUNT_DOMAIN: u16 = 5;
    const SERVER_ROLE: u16 = 6;
    const DNS_DOMAIN: u16 = 12;
    let class = r.u16("policy information class")?;
    let names = &facts.names;
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    if !matches!(class, PRIMARY_DOMAIN | ACCOUNT_DOMAIN | SERVER_ROLE | DNS_DOMAIN) {
        w.u32(0);
        w.u32(NtStatus::INVALID_PARAMETER.0);
        return Ok(out);
    }
    put_referent(&mut w, 0);
    w.u16(class);
    w.align(4);
    match class {
        PRIMARY_DOMAIN => {
            // A workgroup is not a domain and has no SID.
            put_unicode(&mut w, &names.workgroup, 1);
            w.u32(0);
            put_chars(&mut w, &names.workgroup);
        }
        ACCOUNT_DOMAIN => {
            put_unicode(&mut w, &names.machine, 1);
            put_referent(&mut w, 2);
            put_chars(&mut w, &names.machine);
            put_sid(&mut w, &names.machine_sid);
        }
        DNS_DOMAIN => {
            put_unicode(&mut w, &names.workgroup, 1);
            put_unicode(&mut w, "", 2);
            put_unicode(&mut w, "", 3);
            w.zeros(16);
            w.u32(0);
            [names.workgroup.as_str(), "", ""].into_iter().for_each(|text| put_chars(&mut w, text));
        }
        _ => {
            const PRIMARY: u16 = 3;
            w.u16(PRIMARY);
            w.align(4);
        }
    }
    w.u32(NtStatus::SUCCESS.0);
    Ok(out)
}

/// Returns the caller's name. MS-LSAT 3.1.4.4.
fn get_user_name(r: &mut Reader<'_>, facts: &RpcFacts) -> Result<Vec<u8>, RpcFault> {
    unique_string(r)?;
    skip_unicode_pointer(r)?;
    align(r)?;
    let wants_domain = r.remaining() >= 4 && r.u32("domain name")? != 0;
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    put_referent(&mut w, 0);
    put_unicode(&mut w, &facts.user, 1);
    put_chars(&mut w, &facts.user);
    if wants_domain {
        put_referent(&mut w, 2);
        put_referent(&mut w, 3);
        put_unicode(&mut w, &facts.names.machine, 4);
        put_chars(&mut w, &facts.names.machine);
    } else {
        w.u32(0);
    }
    w.u32(NtStatus::SUCCESS.0);
    Ok(out)
}

/// Skips a pointer to an RPC_UNICODE_STRING.
fn skip_unicode_pointer(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    align(r)?;
    if r.u32("referent")? == 0 {
        return Ok(());
    }
    r.skip(4, "string length")?;
    if r.u32("referent")? != 0 {
        super::ndr::string(r)?;
    }
    Ok(())
}

/// The fixed part of an RPC_UNICODE_STRING. MS-DTYP 2.3.10.
fn put_unicode(w: &mut Writer<'_>, text: &str, referent: u32) {
    let length = (text.encode_utf16().count() * 2) as u16;
    w.u16(length);
    w.u16(length);
    put_referent(w, referent);
}

/// The characters of an RPC_UNICODE_STRING, without a terminator.
fn put_chars(w: &mut Writer<'_>, text: &str) {
    let units: Vec<u16> = text.encode_utf16().collect();
    w.u32(units.len() as u32);
    w.u32(0);
    w.u32(units.len() as u32);
    units.iter().for_each(|unit| w.u16(*unit));
    w.align(4);
}

/// A SID behind a pointer: its subauthority count, then its bytes.
fn put_sid(w: &mut Writer<'_>, sid: &[u8]) {
    w.u32((sid.len().saturating_sub(8) / 4) as u32);
    w.bytes(sid);
}

#[cfg(test)]
mod tests;
