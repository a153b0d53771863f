//! NEGOTIATE, CHALLENGE and AUTHENTICATE messages. MS-NLMP 2.2.1, 2.2.2.

use crate::codec::{DecodeError, Reader, Writer, put_utf16, utf16_units};

/// Negotiate flags. MS-NLMP 2.2.2.5.
#[allow(missing_docs, reason = "the names are the specification's")]
pub mod flags {
    pub const UNICODE: u32 = 0x1;
    pub const REQUEST_TARGET: u32 = 0x4;
    pub const SIGN: u32 = 0x10;
    pub const SEAL: u32 = 0x20;
    pub const NTLM: u32 = 0x200;
    pub const ALWAYS_SIGN: u32 = 0x8000;
    pub const TARGET_TYPE_SERVER: u32 = 0x2_0000;
    pub const EXTENDED_SESSION_SECURITY: u32 = 0x8_0000;
    pub const TARGET_INFO: u32 = 0x80_0000;
    pub const VERSION: u32 = 0x200_0000;
    pub const KEY_128: u32 = 0x2000_0000;
    pub const KEY_EXCHANGE: u32 = 0x4000_0000;
    pub const KEY_56: u32 = 0x8000_0000;
}

/// AV pair ids. MS-NLMP 2.2.2.1.
#[allow(missing_docs, reason = "the names are the specification's")]
pub mod av {
    pub const END: u16 = 0;
    pub const NB_COMPUTER: u16 = 1;
    pub const NB_DOMAIN: u16 = 2;
    pub const DNS_COMPUTER: u16 = 3;
    pub const DNS_DOMAIN: u16 = 4;
    pub const FLAGS: u16 = 6;
    pub const TIMESTAMP: u16 = 7;
}

const SIGNATURE: [u8; 8] = *b"NTLMSSP\0";

/// Windows 10 build 17763, NTLM revision 15.
const VERSION: [u8; 8] = [10, 0, 0x63, 0x45, 0, 0, 0, 15];

/// Offset of the version in a CHALLENGE message. MS-NLMP 2.2.1.2.
const VERSION_AT: usize = 48;

/// True if a token is a bare NTLM message, without SPNEGO.
#[must_use]
pub fn is_ntlm(token: &[u8]) -> bool {
    token.starts_with(&SIGNATURE)
}

fn begin<'a>(bytes: &'a [u8], kind: u32) -> Result<Reader<'a>, DecodeError> {
    let mut r = Reader::new(bytes);
    if r.array::<8>("NTLM signature")? != SIGNATURE || r.u32("NTLM type")? != kind {
        return Err(r.malformed("NTLM message type"));
    }
    Ok(r)
}

/// The flags of a NEGOTIATE message.
///
/// # Errors
/// [`DecodeError`] if it is another message.
pub fn negotiate_flags(bytes: &[u8]) -> Result<u32, DecodeError> {
    begin(bytes, 1)?.u32("NTLM flags")
}

/// Writes a NEGOTIATE message, without names.
#[must_use]
pub fn negotiate(flags: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.bytes(&SIGNATURE);
    w.u32(1);
    w.u32(flags);
    put_field(&mut w, 0, 0);
    put_field(&mut w, 0, 0);
    w.bytes(&VERSION);
    out
}

/// Version of the system that sent a message, as it claims. MS-NLMP 2.2.2.10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NtlmVersion {
    /// ProductMajorVersion.
    pub major: u8,
    /// ProductMinorVersion.
    pub minor: u8,
    /// ProductBuild.
    pub build: u16,
}

/// A CHALLENGE message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// The flags that the server accepts.
    pub flags: u32,
    /// The server challenge.
    pub challenge: [u8; 8],
    /// AV pairs that describe the server.
    pub info: &'a [u8],
    /// The server's system, if the message has it.
    pub version: Option<NtlmVersion>,
}

impl<'a> Challenge<'a> {
    /// Reads the message.
    ///
    /// # Errors
    /// [`DecodeError`] if the message is another one, or a part lies outside it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = begin(bytes, 2)?;
        r.skip(8, "NTLM target name")?;
        let flags = r.u32("NTLM flags")?;
        let challenge = r.array("NTLM challenge")?;
        r.skip(8, "NTLM challenge")?;
        let info = if flags & flags::TARGET_INFO == 0 {
            &[][..]
        } else {
            let length = usize::from(r.u16("NTLM target info")?);
            r.skip(2, "NTLM target info")?;
            let offset = r.u32("NTLM target info")? as usize;
            r.part(offset, length, "NTLM target info")?
        };
        let version = match (flags & flags::VERSION, bytes.get(VERSION_AT..)) {
            (flags::VERSION, Some([major, minor, low, high, ..])) => {
                let build = u16::from_le_bytes([*low, *high]);
                Some(NtlmVersion { major: *major, minor: *minor, build })
            }
            _ => None,
        };
        Ok(Self { flags, challenge, info, version })
    }
}

/// Writes a CHALLENGE message.
#[must_use]
pub fn challenge(flags: u32, challenge: &[u8; 8], target: &str, info: &[u8]) -> Vec<u8> {
    let mut name = Vec::new();
    put_utf16(&mut name, target);
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.bytes(&SIGNATURE);
    w.u32(2);
    put_field(&mut w, name.len(), 56);
    w.u32(flags);
    w.bytes(challenge);
    w.zeros(8);
    put_field(&mut w, info.len(), 56 + name.len());
    w.bytes(&VERSION);
    w.bytes(&name);
    w.bytes(info);
    out
}

fn put_field(w: &mut Writer<'_>, length: usize, offset: usize) {
    w.u16(length as u16);
    w.u16(length as u16);
    w.u32(offset as u32);
}

/// An AUTHENTICATE message.
#[derive(Clone, Copy, Debug)]
pub struct Authenticate<'a> {
    /// LM response.
    pub lm: &'a [u8],
    /// NT response: proof and blob.
    pub nt: &'a [u8],
    /// Domain, UTF-16LE.
    pub domain: &'a [u8],
    /// User, UTF-16LE.
    pub user: &'a [u8],
    /// Workstation, UTF-16LE.
    pub workstation: &'a [u8],
    /// Encrypted random session key.
    pub session_key: &'a [u8],
    /// Negotiated flags.
    pub flags: u32,
    /// The MIC, if the message has room for one.
    pub mic: Option<[u8; 16]>,
}

/// Position of the MIC in an AUTHENTICATE message.
pub const MIC: std::ops::Range<usize> = 72..88;

impl<'a> Authenticate<'a> {
    /// Encodes the message, with zeros for the MIC if one is to be added: the MIC covers all other
    /// bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        w.bytes(&SIGNATURE);
        w.u32(3);
        // In the order of the published example: names, then responses.
        let parts = [self.domain, self.user, self.workstation, self.lm, self.nt, self.session_key];
        let mut offsets = [if self.mic.is_some() { MIC.end } else { MIC.start }; 6];
        for at in 1..parts.len() {
            offsets[at] = offsets[at - 1] + parts[at - 1].len();
        }
        for at in [3, 4, 0, 1, 2, 5] {
            put_field(&mut w, parts[at].len(), offsets[at]);
        }
        w.u32(self.flags);
        w.bytes(&VERSION);
        w.bytes(self.mic.as_ref().map_or(&[], |mic| mic));
        parts.iter().for_each(|part| w.bytes(part));
        out
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`DecodeError`] if the message is another one, or a part lies outside it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = begin(bytes, 3)?;
        let mut field = |what| -> Result<(&'a [u8], usize), DecodeError> {
            let length = usize::from(r.u16(what)?);
            r.skip(2, what)?;
            let offset = r.u32(what)? as usize;
            Ok((r.part(offset, length, what)?, if length == 0 { usize::MAX } else { offset }))
        };
        let (lm, lm_at) = field("LM response")?;
        let (nt, nt_at) = field("NT response")?;
        let (domain, domain_at) = field("NTLM domain")?;
        let (user, user_at) = field("NTLM user")?;
        let (workstation, workstation_at) = field("NTLM workstation")?;
        let (session_key, key_at) = field("NTLM session key")?;
        let flags = r.u32("NTLM flags")?;
        let first = [lm_at, nt_at, domain_at, user_at, workstation_at, key_at]
            .into_iter()
            .min()
            .unwrap_or(0);
        let mic =
            if first >= MIC.end { bytes.get(MIC).and_then(|m| m.try_into().ok()) } else { None };
        Ok(Self { lm, nt, domain, user, workstation, session_key, flags, mic })
    }
}

/// Decodes a text field.
///
/// # Errors
/// [`DecodeError`] if the field is not UTF-16.
pub fn text(bytes: &[u8], unicode: bool) -> Result<String, DecodeError> {
    if !unicode {
        return Ok(bytes.iter().map(|&b| char::from(b)).collect());
    }
    let units = utf16_units(bytes, "NTLM text")?;
    String::from_utf16(&units).map_err(|_| DecodeError { what: "NTLM text", at: 0 })
}

/// Appends an AV pair.
pub fn put_av(out: &mut Vec<u8>, id: u16, value: &[u8]) {
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
}

/// The value of the first AV pair with this id.
///
/// # Errors
/// [`DecodeError`] if the list has no MsvAvEOL.
pub fn find_av(list: &[u8], id: u16) -> Result<Option<&[u8]>, DecodeError> {
    let mut r = Reader::new(list);
    let mut value = None;
    loop {
        let found = r.u16("AV id")?;
        let length = usize::from(r.u16("AV length")?);
        let bytes = r.take(length, "AV value")?;
        if found == av::END {
            return Ok(value);
        }
        if found == id && value.is_none() {
            value = Some(bytes);
        }
    }
}
