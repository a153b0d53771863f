//! Translation of SIDs and names. MS-LSAT 3.1.4.5 to 3.1.4.11.

use super::super::names::{NameKind, NamedSid, SidBytes, last_part, parent, text};
use super::super::ndr::{align, put_referent, string};
use super::super::{RpcFacts, RpcFault};
use super::{put_chars, put_sid, put_unicode};
use crate::codec::{DecodeError, Reader, Writer};
use crate::ntstatus::NtStatus;

/// Maximum number of SIDs or names in one call. MS-LSAT 2.2.16 permits 20,480.
const LOOKUPS_MAX: usize = 1000;
/// Maximum number of subauthorities in one SID.
const PARTS_MAX: u32 = 15;
/// Domain index for "no domain".
const NO_DOMAIN: u32 = u32::MAX;

/// How a call returns a name's SID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SidForm {
    /// As a RID relative to the domain. LsarLookupNames.
    Relative,
    /// As a RID with flags. LsarLookupNames2.
    RelativeWithFlags,
    /// As a complete SID. LsarLookupNames3 and LsarLookupNames4.
    WholeSid,
}

/// Domains that a response refers to, without duplicates.
#[derive(Default)]
struct Domains {
    list: Vec<(String, SidBytes)>,
}

impl Domains {
    fn index_of(&mut self, named: &NamedSid) -> u32 {
        let wanted = (&named.domain, &named.domain_sid);
        let known = self.list.iter().position(|(name, sid)| (name, sid) == wanted);
        known.unwrap_or_else(|| {
            self.list.push((named.domain.clone(), named.domain_sid.clone()));
            self.list.len() - 1
        }) as u32
    }

    /// LSAPR_REFERENCED_DOMAIN_LIST behind its pointer. MS-LSAT 2.2.12.
    fn put(&self, w: &mut Writer<'_>) {
        let count = self.list.len() as u32;
        put_referent(w, 0);
        w.u32(count);
        if count == 0 {
            w.u32(0);
            w.u32(0);
            return;
        }
        put_referent(w, 1);
        w.u32(count);
        w.u32(count);
        for (n, (name, _)) in self.list.iter().enumerate() {
            put_unicode(w, name, 2 + 2 * n as u32);
            put_referent(w, 3 + 2 * n as u32);
        }
        for (name, sid) in &self.list {
            put_chars(w, name);
            put_sid(w, sid);
        }
    }
}

/// The count and the pointer of an array, and its conformant count.
fn put_list_head(w: &mut Writer<'_>, count: usize) {
    w.u32(count as u32);
    if count > 0 {
        put_referent(w, 0x1000);
        w.u32(count as u32);
    } else {
        w.u32(0);
    }
}

/// The number of translated entries, and the status that follows from it. MS-LSAT 3.1.4.5.
fn put_outcome(w: &mut Writer<'_>, found: usize, asked: usize) {
    w.u32(found as u32);
    let status = match found {
        _ if found == asked => NtStatus::SUCCESS,
        0 => NtStatus::NONE_MAPPED,
        _ => NtStatus::SOME_NOT_MAPPED,
    };
    w.u32(status.0);
}

/// LsarLookupSids; with flags, LsarLookupSids2 and LsarLookupSids3.
pub(super) fn sids(
    r: &mut Reader<'_>,
    facts: &RpcFacts,
    with_flags: bool,
) -> Result<Vec<u8>, RpcFault> {
    let asked = read_sids(r)?;
    let found: Vec<Option<NamedSid>> = asked.iter().map(|sid| facts.names.of_sid(sid)).collect();
    let mut domains = Domains::default();
    let entries: Vec<(NameKind, String, u32)> = asked
        .iter()
        .zip(&found)
        .map(|(sid, found)| match found {
            Some(named) => (named.kind, named.name.clone(), domains.index_of(named)),
            None => (NameKind::Unknown, text(sid), NO_DOMAIN),
        })
        .collect();
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    domains.put(&mut w);
    put_list_head(&mut w, entries.len());
    for (n, (kind, name, domain)) in entries.iter().enumerate() {
        w.u16(*kind as u16);
        w.align(4);
        put_unicode(&mut w, name, 0x1001 + n as u32);
        w.u32(*domain);
        if with_flags {
            w.u32(0);
        }
    }
    entries.iter().for_each(|(_, name, _)| put_chars(&mut w, name));
    put_outcome(&mut w, found.iter().flatten().count(), asked.len());
    Ok(out)
}

/// LsarLookupNames to LsarLookupNames4.
pub(super) fn names(
    r: &mut Reader<'_>,
    facts: &RpcFacts,
    form: SidForm,
) -> Result<Vec<u8>, RpcFault> {
    let asked = read_names(r)?;
    let found: Vec<Option<NamedSid>> = asked.iter().map(|name| facts.names.of_name(name)).collect();
    let mut domains = Domains::default();
    let indices: Vec<u32> = found
        .iter()
        .map(|found| found.as_ref().map_or(NO_DOMAIN, |named| domains.index_of(named)))
        .collect();
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    domains.put(&mut w);
    put_list_head(&mut w, found.len());
    for (n, (found, domain)) in found.iter().zip(indices).enumerate() {
        let kind = found.as_ref().map_or(NameKind::Unknown, |named| named.kind);
        w.u16(kind as u16);
        w.align(4);
        match (form, found) {
            (SidForm::WholeSid, Some(_)) => put_referent(&mut w, 0x1001 + n as u32),
            (SidForm::WholeSid, None) => w.u32(0),
            (_, found) => w.u32(relative_id(found.as_ref())),
        }
        w.u32(domain);
        if form != SidForm::Relative {
            w.u32(0);
        }
    }
    if form == SidForm::WholeSid {
        found.iter().flatten().for_each(|named| put_sid(&mut w, &named.sid));
    }
    put_outcome(&mut w, found.iter().flatten().count(), asked.len());
    Ok(out)
}

/// The RID; a domain has none of its own.
fn relative_id(named: Option<&NamedSid>) -> u32 {
    let within = named.filter(|n| parent(&n.sid).as_ref() == Some(&n.domain_sid));
    within.and_then(|n| last_part(&n.sid)).unwrap_or(u32::MAX)
}

/// LSAPR_SID_ENUM_BUFFER. MS-LSAT 2.2.18.
fn read_sids(r: &mut Reader<'_>) -> Result<Vec<SidBytes>, DecodeError> {
    let count = read_count(r)?;
    if r.u32("referent")? == 0 || count == 0 {
        return Ok(Vec::new());
    }
    let pointers = read_pointers(r, count, 0)?;
    let mut sids = Vec::with_capacity(count);
    for has_sid in pointers {
        sids.push(if has_sid { read_sid(r)? } else { Vec::new() });
    }
    Ok(sids)
}

fn read_sid(r: &mut Reader<'_>) -> Result<SidBytes, DecodeError> {
    align(r)?;
    let parts = r.u32("parts of an identifier")?;
    if parts > PARTS_MAX {
        return Err(r.malformed("parts of an identifier"));
    }
    Ok(r.take(8 + parts as usize * 4, "identifier")?.to_vec())
}

/// A count, and an array of RPC_UNICODE_STRINGs.
fn read_names(r: &mut Reader<'_>) -> Result<Vec<String>, DecodeError> {
    let count = read_count(r)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let pointers = read_pointers(r, count, 4)?;
    let mut names = Vec::with_capacity(count);
    for has_name in pointers {
        names.push(if has_name { string(r)? } else { String::new() });
    }
    Ok(names)
}

fn read_count(r: &mut Reader<'_>) -> Result<usize, DecodeError> {
    align(r)?;
    let count = r.u32("count")? as usize;
    if count > LOOKUPS_MAX { Err(r.malformed("count of look-ups")) } else { Ok(count) }
}

/// The fixed parts of an array's elements: whether the pointer in each, at `before` bytes, is
/// non-null.
fn read_pointers(
    r: &mut Reader<'_>,
    count: usize,
    before: usize,
) -> Result<Vec<bool>, DecodeError> {
    if r.u32("array size")? as usize != count {
        return Err(r.malformed("array size"));
    }
    let mut pointers = Vec::with_capacity(count);
    for _ in 0..count {
        r.skip(before, "array element")?;
        pointers.push(r.u32("referent")? != 0);
    }
    Ok(pointers)
}
