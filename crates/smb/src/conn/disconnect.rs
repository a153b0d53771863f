//! Requests for which the specification closes the connection without a response, although they are
//! well-formed. An attacker on the path may have changed the negotiation. MS-SMB2 3.3.5.7,
//! 3.3.5.15.12.

use crate::conn::close::SmbCloseReason;
use crate::request::element::Element;
use crate::session::negotiation::{Negotiation, greatest_common};
use wire::codec::Reader;
use wire::smb::fsctl::{VALIDATE_NEGOTIATE_INFO, ValidateNegotiate};
use wire::smb::{Command, Dialect, FileId, Flags, Header, IoctlRequest};

/// Bytes of a VALIDATE_NEGOTIATE_INFO response. MS-SMB2 2.2.32.6.
pub(crate) const VALIDATION_BYTES: u32 = 24;

/// Log text of such a connection. The Linux client signs the request unasked since version 4.18.
const UNSIGNED_TREE_CONNECT: &str = "TREE_CONNECT of SMB 3.1.1 neither signed nor encrypted; mount with the option sign, or with a Linux kernel newer than 4.17";

/// Checks a request whose session and signature are valid.
///
/// # Errors
/// [`SmbCloseReason::Refused`] if the connection must be closed.
pub(crate) fn check_tampering(
    negotiated: Option<&Negotiation>,
    message: &[u8],
    element: &Element,
    is_sealed: bool,
) -> Result<(), SmbCloseReason> {
    match element.header.command {
        Command::TREE_CONNECT => check_tree_connect(negotiated, element, is_sealed),
        Command::IOCTL => check_validation(negotiated, message, element, is_sealed),
        _ => Ok(()),
    }
}

/// MS-SMB2 3.3.5.7: the signature of the first TREE_CONNECT proves NEGOTIATE to a 3.1.1 server.
/// A client with a key must not omit it.
fn check_tree_connect(
    negotiated: Option<&Negotiation>,
    element: &Element,
    is_sealed: bool,
) -> Result<(), SmbCloseReason> {
    let dialect = negotiated.map(|negotiated| negotiated.dialect);
    let is_protected = is_sealed || element.header.flags.contains(Flags::SIGNED);
    if dialect != Some(Dialect::Smb311) || is_protected {
        return Ok(());
    }
    let user = element.channel.as_ref().map(|channel| channel.session.user());
    if user.is_some_and(|user| user.is_proven()) {
        return Err(SmbCloseReason::Refused(UNSIGNED_TREE_CONNECT));
    }
    Ok(())
}

/// MS-SMB2 3.3.5.15.12. A request that 3.3.5.15 refuses before that step gets an error response
/// instead.
fn check_validation(
    negotiated: Option<&Negotiation>,
    message: &[u8],
    element: &Element,
    is_sealed: bool,
) -> Result<(), SmbCloseReason> {
    let Some(negotiated) = negotiated else { return Ok(()) };
    let mut r = Reader::new(message);
    let body = r.skip(Header::LENGTH, "header").and_then(|()| IoctlRequest::decode(&mut r));
    let Ok(body) = body else { return Ok(()) };
    let is_asked = body.code == VALIDATE_NEGOTIATE_INFO
        && body.is_fsctl
        && body.file_id == FileId::RELATED
        && reaches_tree(element, is_sealed);
    match validation_refusal(negotiated, &body).filter(|_| is_asked) {
        Some(why) => Err(SmbCloseReason::Refused(why)),
        None => Ok(()),
    }
}

/// True if the request's tree exists and accepts it, as far as known before the preceding
/// requests of the chain run.
fn reaches_tree(element: &Element, is_sealed: bool) -> bool {
    let Some(channel) = &element.channel else { return false };
    let is_related = element.header.flags.contains(Flags::RELATED);
    let tree = channel.session.tree(element.header.tree_id);
    tree.map_or(is_related, |tree| is_sealed || !tree.share.encryption_required)
}

/// The reason for which VALIDATE_NEGOTIATE_INFO closes the connection, if any. A 3.1.1 server
/// compares the dialect lists, any other the greatest common dialect. MS-SMB2 3.3.5.15.12.
fn validation_refusal(negotiated: &Negotiation, body: &IoctlRequest<'_>) -> Option<&'static str> {
    if negotiated.dialect == Dialect::Smb311 {
        return Some("VALIDATE_NEGOTIATE_INFO on SMB 3.1.1");
    }
    if body.output_bytes_max < VALIDATION_BYTES {
        return Some("VALIDATE_NEGOTIATE_INFO with too small an output buffer");
    }
    let said = ValidateNegotiate::decode(body.input).ok()?;
    let are_dialects_same = match *negotiated.served.end() {
        Dialect::Smb311 => said.dialects == negotiated.client_dialects,
        _ => greatest_common(&negotiated.served, &said.dialects) == Some(negotiated.dialect),
    };
    let is_same = are_dialects_same
        && said.guid == negotiated.client_guid
        && said.security_mode == negotiated.client_security_mode
        && said.capabilities == negotiated.client_capabilities;
    (!is_same).then_some("VALIDATE_NEGOTIATE_INFO that differs from NEGOTIATE")
}
