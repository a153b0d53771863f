//! Connection controls: validation of NEGOTIATE, and the server's interfaces. MS-SMB2 3.3.5.15.12,
//! 3.3.5.15.11.

use super::IoctlOutput;
use crate::conn::disconnect::VALIDATION_BYTES;
use crate::host::InterfaceFact;
use crate::request::context::{QueryRefusal, Request, malformed};
use std::net::IpAddr;
use wire::ntstatus::NtStatus;
use wire::smb::IoctlRequest;
use wire::smb::fsctl::ValidateNegotiate;

/// Size of one NETWORK_INTERFACE_INFO.
const INTERFACE_BYTES: usize = 152;
const RSS_CAPABLE: u32 = 1;

/// Returns the negotiated parameters. A request that differs from NEGOTIATE, or has too small a
/// buffer, has ended the connection before ([`crate::conn::disconnect`]).
pub(super) fn validate_negotiate(
    request: &Request<'_>,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, NtStatus> {
    ValidateNegotiate::decode(body.input).map_err(malformed)?;
    let negotiated = request.negotiated;
    let mut output = Vec::with_capacity(VALIDATION_BYTES as usize);
    output.extend_from_slice(&negotiated.capabilities.to_le_bytes());
    output.extend_from_slice(&negotiated.server_guid);
    output.extend_from_slice(&negotiated.security_mode.to_le_bytes());
    output.extend_from_slice(&negotiated.dialect.number().to_le_bytes());
    Ok(IoctlOutput::ok(output))
}

/// Lists the addresses at which clients reach this server.
pub(super) fn interfaces(
    request: &mut Request<'_>,
    body: &IoctlRequest<'_>,
) -> Result<IoctlOutput, QueryRefusal> {
    // MS-SMB2 3.3.5.15.11 lets a server refuse connections without multichannel. Windows and Samba
    // answer them, because the client may reconnect with a dialect that has it.
    if !request.server.config().multichannel.enabled || !permits_multichannel(request)? {
        // The status of an unserved code on IPC$; on a file the file refuses it.
        let is_ipc = request.tree()?.free_of_charge().share.is_ipc();
        let nobody = NtStatus::FS_DRIVER_REQUIRED;
        return Err(if is_ipc { nobody } else { NtStatus::INVALID_DEVICE_REQUEST }.into());
    }
    let facts = request.server.host.interfaces(request.shared.facts.local.port());
    let output = encode(&facts);
    if output.is_empty() {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    if output.len() > body.output_bytes_max as usize {
        return Err(QueryRefusal::BufferTooSmall(output.len()));
    }
    Ok(IoctlOutput::ok(output))
}

/// True if the class of the request's share permits multichannel. On IPC$ the session's connected
/// shares decide, and before the first tree connect all configured shares.
fn permits_multichannel(request: &mut Request<'_>) -> Result<bool, NtStatus> {
    let tree = request.tree()?.free_of_charge();
    if !tree.share.is_ipc() {
        return Ok(tree.share.has_multichannel());
    }
    let trees = request.session()?.trees();
    let mut connected = trees.iter().filter(|tree| !tree.share.is_ipc()).peekable();
    if connected.peek().is_some() {
        return Ok(connected.any(|tree| tree.share.has_multichannel()));
    }
    let config = request.server.config();
    Ok(config.shares.is_empty() || config.shares.iter().any(|share| share.has_multichannel()))
}

fn encode(facts: &[InterfaceFact]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, fact) in facts.iter().enumerate() {
        let start = out.len();
        let next = if at + 1 < facts.len() { INTERFACE_BYTES as u32 } else { 0 };
        out.extend_from_slice(&next.to_le_bytes());
        out.extend_from_slice(&fact.index.to_le_bytes());
        out.extend_from_slice(&(if fact.rss { RSS_CAPABLE } else { 0 }).to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&fact.bits_per_second.to_le_bytes());
        match fact.address {
            IpAddr::V4(v4) => {
                out.extend_from_slice(&2u16.to_le_bytes());
                out.extend_from_slice(&[0; 2]);
                out.extend_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                out.extend_from_slice(&23u16.to_le_bytes());
                out.extend_from_slice(&[0; 6]);
                out.extend_from_slice(&v6.octets());
            }
        }
        out.resize(start + INTERFACE_BYTES, 0);
    }
    out
}
