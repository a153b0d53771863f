//! NEGOTIATE. MS-SMB2 2.2.3, 2.2.4.

use crate::codec::{DecodeError, Reader, Writer};
use crate::fscc::FileTime;

/// Security mode: signing is enabled.
pub const SIGNING_ENABLED: u16 = 1;
/// Security mode: signing is required.
pub const SIGNING_REQUIRED: u16 = 2;

/// SMB2_GLOBAL_CAP_*.
#[allow(missing_docs, reason = "the names are the specification's")]
pub mod capabilities {
    pub const DFS: u32 = 1;
    pub const LEASING: u32 = 2;
    pub const LARGE_MTU: u32 = 4;
    pub const MULTI_CHANNEL: u32 = 8;
    pub const PERSISTENT_HANDLES: u32 = 0x10;
    pub const DIRECTORY_LEASING: u32 = 0x20;
    pub const ENCRYPTION: u32 = 0x40;
}

/// Negotiate context types. MS-SMB2 2.2.3.1.
#[allow(missing_docs, reason = "the names are the specification's")]
pub mod context {
    pub const PREAUTH_INTEGRITY: u16 = 1;
    pub const ENCRYPTION: u16 = 2;
    pub const COMPRESSION: u16 = 3;
    pub const NETNAME: u16 = 5;
    pub const TRANSPORT: u16 = 6;
    pub const RDMA_TRANSFORM: u16 = 7;
    pub const SIGNING: u16 = 8;
    pub const POSIX_EXTENSIONS: u16 = 0x100;
}

/// Maximum number of dialects in one NEGOTIATE.
const DIALECTS_MAX: usize = 64;
/// Maximum number of contexts in one NEGOTIATE.
const CONTEXTS_MAX: usize = 32;
/// Maximum number of algorithms in one context.
const ALGORITHMS_MAX: usize = 64;

/// NEGOTIATE request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiateRequest<'a> {
    /// See [`SIGNING_ENABLED`].
    pub security_mode: u16,
    /// See [`capabilities`].
    pub capabilities: u32,
    /// The client's GUID.
    pub client_guid: [u8; 16],
    /// Offered dialects.
    pub dialects: Vec<u16>,
    /// Contexts of 3.1.1: type and data, including unknown types.
    pub contexts: Vec<(u16, &'a [u8])>,
}

impl<'a> NegotiateRequest<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, no dialect, or a broken list.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(36, "negotiate")?;
        let count = usize::from(r.u16("negotiate")?);
        let security_mode = r.u16("negotiate")?;
        r.skip(2, "negotiate")?;
        let capabilities = r.u32("negotiate")?;
        let client_guid = r.array("negotiate")?;
        let contexts_offset = r.u32("negotiate")? as usize;
        let contexts_count = usize::from(r.u16("negotiate")?);
        r.skip(2, "negotiate")?;
        if count == 0 || count > DIALECTS_MAX {
            return Err(r.malformed("dialect count"));
        }
        let bytes = r.take(count * 2, "dialects")?;
        let dialects: Vec<u16> =
            bytes.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
        // In older dialects the two fields hold a start time.
        let contexts = if dialects.contains(&0x0311) {
            decode_contexts(r.whole(), contexts_offset, contexts_count)?
        } else {
            Vec::new()
        };
        Ok(Self { security_mode, capabilities, client_guid, dialects, contexts })
    }

    /// Appends the body. It contains contexts only if 3.1.1 is among the dialects.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offers_311 = self.dialects.contains(&0x0311);
        let contexts = if offers_311 { &self.contexts[..] } else { &[] };
        w.u16(36);
        w.u16(self.dialects.len() as u16);
        w.u16(self.security_mode);
        w.u16(0);
        w.u32(self.capabilities);
        w.bytes(&self.client_guid);
        let contexts_field = w.position();
        w.u32(0);
        w.u16(contexts.len() as u16);
        w.u16(0);
        self.dialects.iter().for_each(|d| w.u16(*d));
        encode_contexts(w, contexts_field, contexts.iter().copied());
    }

    /// Data of the first context of type `kind`.
    #[must_use]
    pub fn context(&self, kind: u16) -> Option<&'a [u8]> {
        self.contexts.iter().find(|(k, _)| *k == kind).map(|(_, data)| *data)
    }
}

fn decode_contexts(
    message: &[u8],
    offset: usize,
    count: usize,
) -> Result<Vec<(u16, &[u8])>, DecodeError> {
    let mut contexts = Vec::new();
    let mut r = Reader::new(message);
    r.skip(offset, "negotiate contexts")?;
    if count > CONTEXTS_MAX {
        return Err(r.malformed("negotiate context count"));
    }
    for at in 0..count {
        if at > 0 {
            let pad = r.position().next_multiple_of(8) - r.position();
            r.skip(pad, "negotiate context padding")?;
        }
        let kind = r.u16("negotiate context")?;
        let length = usize::from(r.u16("negotiate context")?);
        r.skip(4, "negotiate context")?;
        contexts.push((kind, r.take(length, "negotiate context")?));
    }
    Ok(contexts)
}

/// Decodes the list of 16-bit numbers of an encryption or signing context.
///
/// # Errors
/// [`DecodeError`] if the list is shorter than its count requires, or empty.
pub fn decode_algorithms(data: &[u8]) -> Result<Vec<u16>, DecodeError> {
    let mut r = Reader::new(data);
    let count = usize::from(r.u16("algorithm count")?);
    if count == 0 || count > ALGORITHMS_MAX {
        return Err(r.malformed("algorithm count"));
    }
    (0..count).map(|_| r.u16("algorithm")).collect()
}

/// Decodes the hash algorithms of the preauthentication context.
///
/// # Errors
/// As [`decode_algorithms`].
pub fn decode_preauth(data: &[u8]) -> Result<Vec<u16>, DecodeError> {
    let mut r = Reader::new(data);
    let count = usize::from(r.u16("hash count")?);
    let salt = usize::from(r.u16("salt length")?);
    if count == 0 || count > ALGORITHMS_MAX {
        return Err(r.malformed("hash count"));
    }
    let hashes = (0..count).map(|_| r.u16("hash")).collect::<Result<_, _>>()?;
    r.skip(salt, "salt")?;
    Ok(hashes)
}

/// NEGOTIATE response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiateResponse<'a> {
    /// See [`SIGNING_ENABLED`].
    pub security_mode: u16,
    /// Chosen dialect, or 0x02FF (the multi-protocol wildcard).
    pub dialect: u16,
    /// The server's GUID.
    pub server_guid: [u8; 16],
    /// See [`capabilities`].
    pub capabilities: u32,
    /// Maximum payload of QUERY, SET and IOCTL, in bytes.
    pub transact_bytes_max: u32,
    /// Maximum length of a READ, in bytes.
    pub read_bytes_max: u32,
    /// Maximum length of a WRITE, in bytes.
    pub write_bytes_max: u32,
    /// The server's time.
    pub now: FileTime,
    /// GSS token that lists the mechanisms.
    pub token: &'a [u8],
    /// Contexts of 3.1.1.
    pub contexts: Vec<(u16, Vec<u8>)>,
}

impl<'a> NegotiateResponse<'a> {
    /// Decodes the body; contexts only if 3.1.1 was chosen.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or a part lies outside it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(65, "negotiate response")?;
        let security_mode = r.u16("negotiate response")?;
        let dialect = r.u16("negotiate response")?;
        let contexts_count = usize::from(r.u16("negotiate response")?);
        let server_guid = r.array("negotiate response")?;
        let capabilities = r.u32("negotiate response")?;
        let transact_bytes_max = r.u32("negotiate response")?;
        let read_bytes_max = r.u32("negotiate response")?;
        let write_bytes_max = r.u32("negotiate response")?;
        let now = FileTime(r.u64("negotiate response")?);
        r.skip(8, "negotiate response")?;
        let token_offset = usize::from(r.u16("negotiate response")?);
        let token_length = usize::from(r.u16("negotiate response")?);
        let contexts_offset = r.u32("negotiate response")? as usize;
        let token = r.part(token_offset, token_length, "negotiate token")?;
        let contexts = if dialect == 0x0311 && contexts_count > 0 {
            decode_contexts(r.whole(), contexts_offset, contexts_count)?
                .into_iter()
                .map(|(kind, data)| (kind, data.to_vec()))
                .collect()
        } else {
            Vec::new()
        };
        Ok(Self {
            security_mode,
            dialect,
            server_guid,
            capabilities,
            transact_bytes_max,
            read_bytes_max,
            write_bytes_max,
            now,
            token,
            contexts,
        })
    }

    /// Data of the first context of type `kind`.
    #[must_use]
    pub fn context(&self, kind: u16) -> Option<&[u8]> {
        self.contexts.iter().find(|(k, _)| *k == kind).map(|(_, data)| &data[..])
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let token_offset = w.position() + 64;
        w.u16(65);
        w.u16(self.security_mode);
        w.u16(self.dialect);
        w.u16(self.contexts.len() as u16);
        w.bytes(&self.server_guid);
        w.u32(self.capabilities);
        w.u32(self.transact_bytes_max);
        w.u32(self.read_bytes_max);
        w.u32(self.write_bytes_max);
        w.u64(self.now.0);
        // The start time is not disclosed, because it helps attackers only.
        w.u64(0);
        w.u16(token_offset as u16);
        w.u16(self.token.len() as u16);
        let contexts_field = w.position();
        w.u32(0);
        w.bytes(self.token);
        encode_contexts(w, contexts_field, self.contexts.iter().map(|(k, data)| (*k, &data[..])));
    }
}

/// Appends the contexts, and patches their offset into `offset_field`.
fn encode_contexts<'a>(
    w: &mut Writer<'_>,
    offset_field: usize,
    contexts: impl Iterator<Item = (u16, &'a [u8])>,
) {
    for (at, (kind, data)) in contexts.enumerate() {
        w.align(8);
        if at == 0 {
            let offset = w.position() as u32;
            w.patch_u32(offset_field, offset);
        }
        w.u16(kind);
        w.u16(data.len() as u16);
        w.u32(0);
        w.bytes(data);
    }
}

/// Appends the list that [`decode_algorithms`] decodes.
pub fn put_algorithms(out: &mut Vec<u8>, numbers: &[u16]) {
    out.extend_from_slice(&(numbers.len() as u16).to_le_bytes());
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Appends the preauthentication context's data: SHA-512, and a salt.
pub fn put_preauth(out: &mut Vec<u8>, salt: &[u8]) {
    for number in [1, salt.len() as u16, 1] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(salt);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_response_round_trips_and_rejects_truncation() {
        let mut preauth = Vec::new();
        put_preauth(&mut preauth, &[7; 32]);
        let mut ciphers = Vec::new();
        put_algorithms(&mut ciphers, &[2]);
        let response = NegotiateResponse {
            security_mode: 3,
            dialect: 0x0311,
            server_guid: [9; 16],
            capabilities: 0x2F,
            transact_bytes_max: 1,
            read_bytes_max: 2,
            write_bytes_max: 3,
            now: FileTime(4),
            token: b"token",
            contexts: vec![(context::PREAUTH_INTEGRITY, preauth), (context::ENCRYPTION, ciphers)],
        };
        let mut bytes = vec![0; 64];
        response.encode(&mut Writer::with_origin(&mut bytes, 0));
        let decode = |bytes| {
            let mut r = Reader::new(bytes);
            r.skip(64, "header")?;
            NegotiateResponse::decode(&mut r)
        };
        let read = decode(&bytes[..]).unwrap();
        assert_eq!(read, response);
        assert_eq!(decode_preauth(read.context(1).unwrap()), Ok(vec![1]));
        assert_eq!(decode_algorithms(read.context(2).unwrap()), Ok(vec![2]));
        for length in 64..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length}");
        }
    }
}
