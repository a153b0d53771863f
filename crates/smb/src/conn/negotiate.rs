//! NEGOTIATE. MS-SMB2 3.3.5.3, 3.3.5.4.

use crate::config::{EncryptionPolicy, SmbConfig};
use crate::conn::close::SmbCloseReason;
use crate::conn::connection::SmbConn;
use crate::limits::{IO_BYTES_MAX, IO_BYTES_MAX_SMALL};
use crate::outgoing::transmit::{FrameTransmit, MESSAGE_START, new_buffer};
use crate::session::negotiation::{Negotiation, greatest_common};
use bytes::Bytes;
use meter::Authentication;

use std::sync::{Arc, OnceLock};
use wire::codec::{Reader, Writer};
use wire::crypto::{Cipher, SigningAlgorithm};
use wire::fscc::{FileTime, POSIX_EXTENSIONS};
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::{
    NegotiateRequest, NegotiateResponse, SIGNING_ENABLED, SIGNING_REQUIRED, capabilities, context,
    decode_algorithms, decode_preauth,
};
use wire::smb::{
    Command, Dialect, ErrorResponse, Flags, Header, MessageId, SessionId, TreeId, smb1_dialects,
    smb1_refusal,
};
use wire::spnego;

/// SMB2_PREAUTH_INTEGRITY_HASH SHA-512.
const SHA512: u16 = 1;
const WILDCARD: u16 = 0x02FF;

impl SmbConn {
    /// Handles SMB1's NEGOTIATE of a client that also speaks older protocols. MS-SMB2 3.3.5.3.
    pub(crate) fn handle_smb1_negotiate(&mut self, frame: &[u8]) -> Result<(), SmbCloseReason> {
        let names = smb1_dialects(frame).map_err(|m| SmbCloseReason::Garbage(m.what))?;
        let config = self.server.config();
        let header = reply_template();
        let dialect = if names.contains(&&b"SMB 2.???"[..]) && config.dialect_max > Dialect::Smb202
        {
            self.wildcard_answered = true;
            WILDCARD
        } else if names.contains(&&b"SMB 2.002"[..]) && config.dialect_min == Dialect::Smb202 {
            self.negotiated = Some(Arc::new(plain_202(&config)));
            Dialect::Smb202.number()
        } else {
            let offers = |name: &[u8]| names.contains(&name);
            let best = match (offers(b"SMB 2.???"), offers(b"SMB 2.002")) {
                (true, _) => Some(Dialect::Smb210),
                (false, true) => Some(Dialect::Smb202),
                (false, false) => None,
            };
            return self.refuse_smb1(frame, best);
        };
        // The message id is 0. The request that follows the wildcard has 0 or 1.
        let grant = self.charge(&header)?;
        let response = self.response(&config, dialect, 0, IO_BYTES_MAX_SMALL);
        self.send_negotiate(&header, grant, &response);
        Ok(())
    }

    /// Refuses an SMB1-only client, once: the next message closes the connection. `best` is the
    /// latest SMB2 dialect that the client offered.
    fn refuse_smb1(&mut self, frame: &[u8], best: Option<Dialect>) -> Result<(), SmbCloseReason> {
        let best = best.map(Dialect::number);
        self.server.host.dialect_refused(self.shared.facts.peer, best.as_slice());
        let refused = SmbCloseReason::Refused("only SMB1 offered");
        if std::mem::replace(&mut self.smb1_refused, true) {
            return Err(refused);
        }
        let reply = smb1_refusal(frame).ok_or(refused)?;
        let mut buffer = new_buffer(Vec::new());
        buffer.extend_from_slice(&reply);
        self.respond_to_negotiate(buffer, NtStatus::NOT_SUPPORTED);
        Ok(())
    }

    /// Handles SMB2's NEGOTIATE. MS-SMB2 3.3.5.4.
    pub(crate) fn handle_negotiate(
        &mut self,
        frame: &Bytes,
        header: &Header,
    ) -> Result<(), SmbCloseReason> {
        if self.negotiated.is_some() {
            return Err(SmbCloseReason::Refused("second negotiate"));
        }
        let grant = self.charge(header)?;
        let mut r = Reader::new(frame);
        let parsed =
            r.skip(Header::LENGTH, "header").and_then(|()| NegotiateRequest::decode(&mut r));
        let Ok(request) = parsed else {
            return self.refuse_negotiate(header, grant, NtStatus::INVALID_PARAMETER);
        };
        let config = self.server.config();
        let served = config.dialect_min..=config.dialect_max;
        let common = greatest_common(&served, &request.dialects);
        let Some(dialect) = common else {
            self.server.host.dialect_refused(self.shared.facts.peer, &request.dialects);
            return self.refuse_negotiate(header, grant, NtStatus::NOT_SUPPORTED);
        };
        let (negotiated, contexts) = match agree(&config, &request, dialect, &self.server) {
            Ok(agreed) => agreed,
            Err(status) => return self.refuse_negotiate(header, grant, status),
        };
        let mut response = self.response(
            &config,
            dialect.number(),
            negotiated.capabilities,
            negotiated.io_bytes_max,
        );
        response.contexts = contexts;
        self.negotiated = Some(Arc::new(negotiated));
        if dialect == Dialect::Smb311 {
            self.preauth.update(frame);
        }
        let start = MESSAGE_START;
        let buffer = self.send_negotiate(header, grant, &response);
        if dialect == Dialect::Smb311 {
            self.preauth.update(&buffer[start..]);
        }
        Ok(())
    }

    fn response(
        &self,
        config: &SmbConfig,
        dialect: u16,
        capabilities: u32,
        io_bytes_max: u32,
    ) -> NegotiateResponse<'static> {
        let now = self.server.host.now().wall;
        NegotiateResponse {
            security_mode: security_mode(config),
            dialect,
            server_guid: config.server_guid,
            capabilities,
            transact_bytes_max: io_bytes_max,
            read_bytes_max: io_bytes_max,
            write_bytes_max: io_bytes_max,
            now: FileTime::from_unix_nanos(now.0),
            token: hint(self.server.mechanisms(config)),
            contexts: Vec::new(),
        }
    }

    /// Sends the response and returns its bytes, prefix included, for the preauthentication hash.
    fn send_negotiate(
        &mut self,
        header: &Header,
        grant: u16,
        response: &NegotiateResponse<'_>,
    ) -> Vec<u8> {
        let mut buffer = new_buffer(Vec::new());
        let mut w = Writer::with_origin(&mut buffer, MESSAGE_START);
        header.reply(NtStatus::SUCCESS, grant).encode(&mut w);
        response.encode(&mut w);
        self.respond_to_negotiate(buffer.clone(), NtStatus::SUCCESS);
        buffer
    }

    fn refuse_negotiate(
        &mut self,
        header: &Header,
        grant: u16,
        status: NtStatus,
    ) -> Result<(), SmbCloseReason> {
        let mut buffer = new_buffer(Vec::new());
        let mut w = Writer::with_origin(&mut buffer, MESSAGE_START);
        header.reply(status, grant).encode(&mut w);
        ErrorResponse::EMPTY.encode(&mut w);
        self.respond_to_negotiate(buffer, status);
        Ok(())
    }

    fn respond_to_negotiate(&mut self, buffer: Vec<u8>, status: NtStatus) {
        let mut transmit = FrameTransmit::plain(buffer, None);
        let by = Authentication::Anonymous;
        self.meter_direct_response(Command::NEGOTIATE, status, by, Some(&mut transmit));
        self.transmit(transmit);
    }
}

/// The SPNEGO hint with the offered mechanisms; each combination is encoded once.
fn hint(offered: spnego::Mechanisms) -> &'static [u8] {
    static HINTS: [OnceLock<Vec<u8>>; 4] = [const { OnceLock::new() }; 4];
    let which = usize::from(offered.ntlm) << 1 | usize::from(offered.kerberos);
    HINTS[which].get_or_init(|| spnego::hint(offered))
}

fn security_mode(config: &SmbConfig) -> u16 {
    if config.signing_required { SIGNING_ENABLED | SIGNING_REQUIRED } else { SIGNING_ENABLED }
}

/// The request header that the response to an SMB1 NEGOTIATE is derived from.
fn reply_template() -> Header {
    Header {
        credit_charge: 0,
        status: NtStatus::SUCCESS,
        command: Command::NEGOTIATE,
        credits: 1,
        flags: Flags::default(),
        next_command: 0,
        message_id: MessageId(0),
        process_id: 0xFEFF,
        tree_id: TreeId(0),
        session_id: SessionId(0),
        signature: [0; 16],
    }
}

fn plain_202(config: &SmbConfig) -> Negotiation {
    Negotiation {
        dialect: Dialect::Smb202,
        multi_credit: false,
        io_bytes_max: IO_BYTES_MAX_SMALL,
        cipher: None,
        signing: SigningAlgorithm::HmacSha256,
        client_guid: [0; 16],
        client_capabilities: 0,
        client_security_mode: 0,
        client_dialects: vec![Dialect::Smb202.number()],
        served: config.dialect_min..=config.dialect_max,
        capabilities: 0,
        security_mode: security_mode(config),
        server_guid: config.server_guid,
        posix: false,
    }
}

type AgreedContexts = (Negotiation, Vec<(u16, Vec<u8>)>);

/// Chooses algorithms in the server's order of preference: fastest first.
fn agree(
    config: &SmbConfig,
    request: &NegotiateRequest<'_>,
    dialect: Dialect,
    server: &crate::server::SmbServer,
) -> Result<AgreedContexts, NtStatus> {
    let mut contexts = Vec::new();
    let may_seal = config.encryption != EncryptionPolicy::Off
        || config.shares.iter().any(|s| s.encryption_required);
    let (mut cipher, mut signing) = (None, SigningAlgorithm::HmacSha256);
    let mut posix = false;
    let mut offered = match dialect {
        Dialect::Smb202 => 0,
        _ => capabilities::LARGE_MTU | capabilities::LEASING,
    };
    if dialect >= Dialect::Smb300 {
        signing = SigningAlgorithm::AesCmac;
        // Only clients that ask get it: some others fail on an unknown capability (MS-SMB2
        // 3.3.5.4).
        offered |= request.capabilities & capabilities::DIRECTORY_LEASING;
        if config.multichannel.supports_dialect(dialect) {
            offered |= request.capabilities & capabilities::MULTI_CHANNEL;
        }
        if server.host.persists_opens() && config.shares.iter().any(|s| s.continuously_available) {
            offered |= request.capabilities & capabilities::PERSISTENT_HANDLES;
        }
        let client_seals = request.capabilities & capabilities::ENCRYPTION != 0;
        if dialect < Dialect::Smb311 && may_seal && client_seals {
            cipher = Some(Cipher::Aes128Ccm);
            offered |= capabilities::ENCRYPTION;
        }
    }
    if dialect == Dialect::Smb311 {
        agree_preauth(request, server, &mut contexts)?;
        cipher = agree_cipher(request, may_seal, &mut contexts)?;
        let may_bind = offered & capabilities::MULTI_CHANNEL != 0;
        signing = agree_signing(request, may_bind, &mut contexts)?;
        if signing == SigningAlgorithm::AesGmac {
            offered &= !capabilities::MULTI_CHANNEL;
        }
        posix = agree_posix(config, request, &mut contexts)?;
    }
    let io_bytes_max = if dialect > Dialect::Smb202 {
        IO_BYTES_MAX.min(config.io_bytes_max)
    } else {
        IO_BYTES_MAX_SMALL
    };
    let negotiated = Negotiation {
        dialect,
        multi_credit: dialect > Dialect::Smb202,
        io_bytes_max,
        cipher,
        signing,
        client_guid: request.client_guid,
        client_capabilities: request.capabilities,
        client_security_mode: request.security_mode,
        client_dialects: request.dialects.clone(),
        served: config.dialect_min..=config.dialect_max,
        capabilities: offered,
        security_mode: security_mode(config),
        server_guid: config.server_guid,
        posix,
    };
    Ok((negotiated, contexts))
}

fn agree_preauth(
    request: &NegotiateRequest<'_>,
    server: &crate::server::SmbServer,
    contexts: &mut Vec<(u16, Vec<u8>)>,
) -> Result<(), NtStatus> {
    let data = request.context(context::PREAUTH_INTEGRITY).ok_or(NtStatus::INVALID_PARAMETER)?;
    let hashes = decode_preauth(data).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    if !hashes.contains(&SHA512) {
        return Err(NtStatus::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP);
    }
    let mut salt = [0; 32];
    server.host.random(&mut salt);
    let mut answer = vec![1, 0, 32, 0, SHA512 as u8, 0];
    answer.extend_from_slice(&salt);
    contexts.push((context::PREAUTH_INTEGRITY, answer));
    Ok(())
}

fn agree_cipher(
    request: &NegotiateRequest<'_>,
    may_seal: bool,
    contexts: &mut Vec<(u16, Vec<u8>)>,
) -> Result<Option<Cipher>, NtStatus> {
    let Some(data) = request.context(context::ENCRYPTION) else { return Ok(None) };
    let offered = decode_algorithms(data).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let preferred = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Aes128Ccm, Cipher::Aes256Ccm];
    let chosen = preferred.into_iter().find(|c| may_seal && offered.contains(&c.number()));
    let number = chosen.map_or(0, Cipher::number);
    contexts.push((context::ENCRYPTION, vec![1, 0, number as u8, 0]));
    Ok(chosen)
}

/// Negotiates the POSIX extensions. The client lists the variants that it supports; only one is
/// defined. POSIX-SMB2 2.1.1.1.
fn agree_posix(
    config: &SmbConfig,
    request: &NegotiateRequest<'_>,
    contexts: &mut Vec<(u16, Vec<u8>)>,
) -> Result<bool, NtStatus> {
    let Some(data) = request.context(context::POSIX_EXTENSIONS) else { return Ok(false) };
    let (variants, rest) = data.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let agreed =
        variants.contains(&POSIX_EXTENSIONS) && config.shares.iter().any(|share| share.posix);
    if agreed {
        contexts.push((context::POSIX_EXTENSIONS, POSIX_EXTENSIONS.to_vec()));
    }
    Ok(agreed)
}

/// Prefers AES-GMAC, the fastest, on a connection whose session gets no further channels.
///
/// A binding is signed with the session's key under message ids that the session's first connection
/// uses as well. Two messages under one nonce disclose AES-GMAC's authentication key (MS-SMB2
/// 3.1.4.1, 3.3.5.5.2).
fn agree_signing(
    request: &NegotiateRequest<'_>,
    may_bind: bool,
    contexts: &mut Vec<(u16, Vec<u8>)>,
) -> Result<SigningAlgorithm, NtStatus> {
    let Some(data) = request.context(context::SIGNING) else {
        return Ok(SigningAlgorithm::AesCmac);
    };
    let offered = decode_algorithms(data).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let (gmac, cmac) = (SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac);
    let (first, second) = if may_bind { (cmac, gmac) } else { (gmac, cmac) };
    let preferred = [first, second, SigningAlgorithm::HmacSha256];
    let chosen = preferred
        .into_iter()
        .find(|a| offered.contains(&a.number()))
        .unwrap_or(SigningAlgorithm::AesCmac);
    contexts.push((context::SIGNING, vec![1, 0, chosen.number() as u8, 0]));
    Ok(chosen)
}
