//! The response to a CREATE, with the requested contexts.

use super::plan::RequestedContexts;
use crate::conversion::attributes::{allocation_bytes, attribute_bits, size_bytes, times};
use crate::extensions::apple;
use crate::extensions::posix::posix_facts;
use crate::opens::durability::DurableKind;
use crate::opens::lease::LEVEL_LEASE;
use crate::opens::open::Open;
use crate::opens::oplock::level_of;
use files::{OpenAction, OpenResult, RequestFiles};
use vfs::{Attributes, FileKind};
use wire::codec::Writer;
use wire::fscc::POSIX_EXTENSIONS;
use wire::ntstatus::NtStatus;
use wire::smb::{CreateResponse, DurableResponseV2, LEASE_CONTEXT, put_context};

/// CreateAction values. MS-SMB2 2.2.14.
const FILE_SUPERSEDED: u32 = 0;
pub(super) const FILE_OPENED: u32 = 1;
const FILE_CREATED: u32 = 2;
const FILE_OVERWRITTEN: u32 = 3;

/// Writes the response.
pub(super) fn respond(
    w: &mut Writer<'_>,
    files: &RequestFiles,
    requested: &RequestedContexts,
    open: &Open,
    opened: &OpenResult,
) {
    let contexts = contexts(files, requested, open, opened);
    let attributes = &opened.attributes;
    let response = CreateResponse {
        oplock: open.lease.as_ref().map_or_else(|| level_of(opened.caching.has), |_| LEVEL_LEASE),
        action: match opened.action {
            OpenAction::Superseded => FILE_SUPERSEDED,
            OpenAction::Opened => FILE_OPENED,
            OpenAction::Created => FILE_CREATED,
            OpenAction::Overwritten => FILE_OVERWRITTEN,
        },
        times: times(attributes),
        allocation_bytes: allocation(requested, attributes),
        size_bytes: size_bytes(attributes),
        attributes: attribute_bits(attributes),
        file_id: open.id,
    };
    response.encode(w, &contexts);
}

/// At least the requested allocation; directories have none.
fn allocation(requested: &RequestedContexts, attributes: &Attributes) -> u64 {
    let wanted =
        requested.allocation_bytes.filter(|_| attributes.kind == FileKind::File).unwrap_or(0);
    wanted.max(allocation_bytes(attributes))
}

fn contexts(
    files: &RequestFiles,
    requested: &RequestedContexts,
    open: &Open,
    opened: &OpenResult,
) -> Vec<u8> {
    let mut list = Vec::new();
    if let Some(known_since) = requested.maximal_access {
        let modified = times(&opened.attributes)[2].0;
        let mut data = [0u8; 8];
        if known_since == Some(modified) {
            data[..4].copy_from_slice(&NtStatus::NONE_MAPPED.0.to_le_bytes());
        } else if let Ok(access) = files.maximal_access(&opened.open) {
            data[4..].copy_from_slice(&access.0.to_le_bytes());
        }
        put_context(&mut list, b"MxAc", &data);
    }
    if let (Some(lease), Some(requested)) = (&open.lease, &requested.lease) {
        if opened.open.is_directory() {
            lease.set_directory();
        }
        put_context(&mut list, LEASE_CONTEXT, &lease.reply(requested, opened.caching).encode());
    }
    if let (Some(wish), Some(granted)) = (requested.durable, open.durability()) {
        let persistent = granted.kind == DurableKind::Persistent;
        let answer = DurableResponseV2 { timeout_ms: granted.timeout_ms(), persistent };
        match wish.create_guid {
            None => put_context(&mut list, b"DHnQ", &[0; 8]),
            Some(_) => put_context(&mut list, b"DH2Q", &answer.to_bytes()),
        }
    }
    if requested.disk_id {
        let mut data = [0u8; 32];
        data[..8].copy_from_slice(&opened.attributes.key.inode.to_le_bytes());
        data[8..16].copy_from_slice(&opened.attributes.key.device.to_le_bytes());
        put_context(&mut list, b"QFid", &data);
    }
    if let Some(query) = &requested.apple {
        put_context(&mut list, b"AAPL", &apple::answer(query, &open.tree));
    }
    if requested.posix {
        let mut data = Vec::new();
        posix_facts(&opened.attributes).encode(&mut data);
        put_context(&mut list, &POSIX_EXTENSIONS, &data);
    }
    list
}
