//! Connection set-up, from the first byte to a session or to a further channel of it. MS-SMB2
//! 3.2.4.2, 3.2.5.2, 3.2.5.3.

use crate::conn::ClientConn;
use crate::error::Error;
use crate::limits::{IO_BYTES_MAX, SET_UP_LEGS_MAX};
use crate::opener::Opener;
use crate::options::{SigningPolicy, SmbOptions};
use crate::session::{ClientSession, ClientSessionParts, NegotiatedParameters};
use std::sync::Arc;
use wire::codec::{Reader, Writer};
use wire::crypto::{Cipher, KeySource, PreauthHash, SessionKey, SigningAlgorithm};
use wire::frame::{PREFIX_BYTES, prefix};
use wire::ntlm;
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::{
    self, NegotiateRequest, NegotiateResponse, SIGNING_ENABLED, SIGNING_REQUIRED, capabilities,
    context, decode_algorithms, decode_preauth,
};
use wire::smb::{
    Command, Dialect, Flags, Header, MessageId, SessionFlags, SessionId, SessionSetupRequest,
    SessionSetupResponse, TreeId,
};
use wire::spnego;

/// Inputs of a logon.
#[derive(Debug)]
pub struct Logon {
    /// User and password hash.
    pub credentials: ntlm::NtlmCredentials,
    /// Kerberos ticket for the server; replaces the credentials.
    pub ticket: Option<Box<dyn spnego::Ticket>>,
    /// Fresh random bytes.
    pub secrets: ntlm::Secrets,
    /// Fresh random bytes for the preauthentication hash.
    pub salt: [u8; 32],
    /// The session to bind this connection to; `None` for a new session.
    pub binds: Option<Arc<ClientSession>>,
}

/// Next step.
#[derive(Debug)]
pub enum SetUpStep {
    /// Send this frame, and wait for a response.
    Send(Vec<u8>),
    /// The connection is established.
    Done(Box<EstablishedConnection>),
}

/// An established connection.
#[derive(Debug)]
pub struct EstablishedConnection {
    /// Its state.
    pub conn: ClientConn,
    /// The client's offer, for validating NEGOTIATE.
    pub offer: Offer,
}

/// The client's NEGOTIATE parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Capabilities.
    pub capabilities: u32,
    /// Security mode.
    pub security_mode: u16,
    /// Dialects, as numbers.
    pub dialects: Vec<u16>,
}

#[derive(Debug)]
enum SetUpState {
    Negotiating,
    LoggingOn {
        negotiated: NegotiatedParameters,
        exchange: Box<spnego::SpnegoInitiator>,
        key: Option<SessionKey>,
    },
}

/// A set-up in progress.
#[derive(Debug)]
pub struct SetUp {
    options: SmbOptions,
    logon: Logon,
    offer: Offer,
    state: SetUpState,
    preauth: PreauthHash,
    session_id: SessionId,
    next_id: u64,
    credits: u32,
    legs: u8,
}

impl SetUp {
    /// Starts a set-up; returns it with the first frame.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the options allow no dialect.
    pub fn new(options: &SmbOptions, logon: Logon) -> Result<(Self, Vec<u8>), Error> {
        let mut dialects = options.dialects();
        if let Some(session) = &logon.binds {
            // A channel must use the session's dialect.
            dialects.retain(|dialect| *dialect == session.negotiated.dialect);
        }
        if dialects.is_empty() {
            return Err(Error::Misuse("no dialect is left to offer"));
        }
        let offer = Offer {
            capabilities: claimed(options, &dialects),
            security_mode: match options.signing {
                SigningPolicy::Offered => SIGNING_ENABLED,
                SigningPolicy::Required => SIGNING_ENABLED | SIGNING_REQUIRED,
            },
            dialects: dialects.iter().map(|dialect| dialect.number()).collect(),
        };
        let mut set_up = Self {
            options: options.clone(),
            session_id: logon.binds.as_ref().map_or(SessionId(0), |session| session.id),
            logon,
            offer,
            state: SetUpState::Negotiating,
            preauth: PreauthHash::default(),
            next_id: 0,
            credits: 1,
            legs: 0,
        };
        let frame = set_up.negotiate();
        Ok((set_up, frame))
    }

    /// Result of NEGOTIATE, once answered.
    #[must_use]
    pub fn negotiated(&self) -> Option<&NegotiatedParameters> {
        match &self.state {
            SetUpState::Negotiating => None,
            SetUpState::LoggingOn { negotiated, .. } => Some(negotiated),
        }
    }

    fn negotiate(&mut self) -> Vec<u8> {
        let (mut preauth, mut signing, mut ciphers) = (Vec::new(), Vec::new(), Vec::new());
        negotiate::put_preauth(&mut preauth, &self.logon.salt);
        let algorithms: Vec<u16> =
            self.options.offered_signing().iter().map(|a| a.number()).collect();
        negotiate::put_algorithms(&mut signing, &algorithms);
        let numbers: Vec<u16> = self.options.ciphers.iter().map(|c| c.number()).collect();
        negotiate::put_algorithms(&mut ciphers, &numbers);
        let mut contexts = vec![(context::PREAUTH_INTEGRITY, &preauth[..])];
        if !numbers.is_empty() {
            contexts.push((context::ENCRYPTION, &ciphers));
        }
        if !algorithms.is_empty() {
            contexts.push((context::SIGNING, &signing));
        }
        let request = NegotiateRequest {
            security_mode: self.offer.security_mode,
            capabilities: self.offer.capabilities,
            client_guid: self.options.client_guid,
            dialects: self.offer.dialects.clone(),
            contexts,
        };
        self.frame(Command::NEGOTIATE, |w| request.encode(w))
    }

    fn set_up(&mut self, token: &[u8]) -> Vec<u8> {
        let binds = self.logon.binds.is_some();
        let request = SessionSetupRequest {
            flags: if binds { SessionSetupRequest::BINDING } else { 0 },
            security_mode: self.offer.security_mode as u8,
            capabilities: 0,
            previous_session: SessionId(0),
            token,
        };
        self.frame(Command::SESSION_SETUP, |w| request.encode(w))
    }

    /// Encodes one request, signed with the key of the session that it binds to, and adds it to the
    /// preauthentication hash.
    fn frame(&mut self, command: Command, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let binds = self.logon.binds.as_ref().filter(|_| command == Command::SESSION_SETUP);
        let header = Header {
            credit_charge: u16::from(command == Command::SESSION_SETUP),
            status: NtStatus::SUCCESS,
            command,
            credits: self.options.credits.max(1),
            flags: if binds.is_some() { Flags::SIGNED } else { Flags::default() },
            next_command: 0,
            message_id: MessageId(self.next_id),
            process_id: 0xFEFF,
            tree_id: TreeId(0),
            session_id: if command == Command::NEGOTIATE { SessionId(0) } else { self.session_id },
            signature: [0; 16],
        };
        let mut out = vec![0; PREFIX_BYTES];
        let mut w = Writer::with_origin(&mut out, PREFIX_BYTES);
        header.encode(&mut w);
        body(&mut w);
        if let Some(session) = binds {
            session.signing_key.sign(&mut out[PREFIX_BYTES..]);
        }
        let head = prefix(out.len() - PREFIX_BYTES).expect("names and tokens are short");
        out[..PREFIX_BYTES].copy_from_slice(&head);
        self.preauth.update(&out[PREFIX_BYTES..]);
        self.next_id += 1;
        self.credits = self.credits.saturating_sub(1);
        out
    }

    /// Processes the server's next frame, without its prefix.
    ///
    /// # Errors
    /// Why the connection must end.
    pub fn handle_frame(&mut self, frame: &mut [u8]) -> Result<SetUpStep, Error> {
        let mut r = Reader::new(frame);
        let header = Header::decode(&mut r)?;
        if !header.flags.contains(Flags::RESPONSE)
            || header.message_id.0 != self.next_id - 1
            || header.next_command != 0
        {
            return Err(Error::Hostile("not the reply to the request"));
        }
        // An interim response: the server needs more time.
        if header.status == NtStatus::PENDING {
            self.legs += 1;
            let waits = self.legs <= SET_UP_LEGS_MAX;
            return if waits {
                Ok(SetUpStep::Send(Vec::new()))
            } else {
                Err(Error::Hostile("too many interim responses"))
            };
        }
        self.credits = (self.credits + u32::from(header.credits)).min(crate::limits::CREDITS_MAX);
        match self.state {
            SetUpState::Negotiating => self.handle_negotiated(frame, &header),
            SetUpState::LoggingOn { .. } => self.handle_leg(frame, &header),
        }
    }

    fn handle_negotiated(&mut self, frame: &[u8], header: &Header) -> Result<SetUpStep, Error> {
        if header.command != Command::NEGOTIATE {
            return Err(Error::Hostile("not the response to NEGOTIATE"));
        }
        if header.status != NtStatus::SUCCESS {
            return Err(Error::Refused(Command::NEGOTIATE, header.status));
        }
        let mut r = Reader::new(frame);
        r.skip(Header::LENGTH, "header")?;
        let response = NegotiateResponse::decode(&mut r)?;
        let negotiated = self.judge(&response)?;
        if let Some(session) = &self.logon.binds {
            check_alike(&session.negotiated, &negotiated)?;
        }
        self.preauth.update(frame);
        let exchange = Box::new(match self.logon.ticket.take() {
            Some(ticket) => spnego::SpnegoInitiator::with_ticket(ticket),
            None => spnego::SpnegoInitiator::new(ntlm::NtlmInitiator::new(
                self.logon.credentials.clone(),
                self.logon.secrets,
            )),
        });
        let token = exchange.first();
        self.state = SetUpState::LoggingOn { negotiated, exchange, key: None };
        Ok(SetUpStep::Send(self.set_up(&token)))
    }

    /// Checks the server's choices against the offer.
    fn judge(&self, response: &NegotiateResponse<'_>) -> Result<NegotiatedParameters, Error> {
        let dialect = Dialect::from_number(response.dialect)
            .filter(|dialect| self.offer.dialects.contains(&dialect.number()))
            .ok_or(Error::Incompatible("its dialect is not among those offered"))?;
        let is_311 = dialect == Dialect::Smb311;
        if is_311 {
            let hashes = response.context(context::PREAUTH_INTEGRITY).map(decode_preauth);
            if !matches!(hashes, Some(Ok(hashes)) if hashes == [1]) {
                return Err(Error::Hostile("no preauthentication hash"));
            }
        }
        let encrypts = response.capabilities & capabilities::ENCRYPTION != 0;
        let cipher = match response.context(context::ENCRYPTION).filter(|_| is_311) {
            Some(data) => chosen(data)?.and_then(Cipher::from_number),
            None if !is_311 && dialect >= Dialect::Smb300 && encrypts => Some(Cipher::Aes128Ccm),
            None => None,
        };
        if is_311 && cipher.is_some_and(|cipher| !self.options.ciphers.contains(&cipher)) {
            return Err(Error::Hostile("a cipher that was not offered"));
        }
        let signing = match response.context(context::SIGNING).filter(|_| is_311) {
            Some(data) => chosen(data)?
                .and_then(SigningAlgorithm::from_number)
                .filter(|algorithm| self.options.offered_signing().contains(algorithm))
                .ok_or(Error::Hostile("a signing algorithm that was not offered"))?,
            None if dialect >= Dialect::Smb300 => SigningAlgorithm::AesCmac,
            None => SigningAlgorithm::HmacSha256,
        };
        if self.options.sealed && cipher.is_none() {
            return Err(Error::Incompatible("the server does not support encryption"));
        }
        let large = response.capabilities & capabilities::LARGE_MTU != 0;
        let most = if large { IO_BYTES_MAX.min(self.options.io_bytes_max) } else { 65_536 };
        Ok(NegotiatedParameters {
            dialect,
            signing,
            cipher: cipher.filter(|_| !self.options.ciphers.is_empty()),
            capabilities: response.capabilities,
            security_mode: response.security_mode,
            server_guid: response.server_guid,
            transact_bytes_max: response.transact_bytes_max.min(IO_BYTES_MAX),
            read_bytes_max: response.read_bytes_max.min(most),
            write_bytes_max: response.write_bytes_max.min(most),
        })
    }

    fn handle_leg(&mut self, frame: &mut [u8], header: &Header) -> Result<SetUpStep, Error> {
        if header.command != Command::SESSION_SETUP {
            return Err(Error::Hostile("not the response to SESSION_SETUP"));
        }
        self.legs += 1;
        let more = header.status == NtStatus::MORE_PROCESSING_REQUIRED;
        if header.status != NtStatus::SUCCESS && !(more && self.legs < SET_UP_LEGS_MAX) {
            return Err(Error::Refused(Command::SESSION_SETUP, header.status));
        }
        let first = self.session_id == SessionId(0);
        if header.session_id == SessionId(0) || (!first && header.session_id != self.session_id) {
            return Err(Error::Hostile("a SessionId of another session"));
        }
        self.session_id = header.session_id;
        if !more {
            return self.handle_consent(frame, header);
        }
        let SetUpState::LoggingOn { exchange, key, .. } = &mut self.state else {
            return Err(Error::Hostile("an unexpected SESSION_SETUP response"));
        };
        let mut r = Reader::new(frame);
        r.skip(Header::LENGTH, "header")?;
        let response = SessionSetupResponse::decode(&mut r)?;
        let answer = exchange.handle_challenge(response.token)?;
        *key = Some(answer.session_key);
        self.preauth.update(frame);
        Ok(SetUpStep::Send(self.set_up(&answer.token)))
    }

    /// Processes a successful response: the server must prove that it knows the password, or that
    /// the ticket is for it.
    fn handle_consent(&mut self, frame: &mut [u8], header: &Header) -> Result<SetUpStep, Error> {
        let SetUpState::LoggingOn { negotiated, exchange, key } = &mut self.state else {
            return Err(Error::Hostile("an unexpected successful SESSION_SETUP response"));
        };
        let mut r = Reader::new(frame);
        r.skip(Header::LENGTH, "header")?;
        let response = SessionSetupResponse::decode(&mut r)?;
        let by_ticket = exchange.handle_last(response.token)?;
        let Some(key) = by_ticket.as_ref().or(key.as_ref()) else {
            return Err(Error::Hostile("a successful logon without a session key"));
        };
        let flags = response.flags;
        let nobody = flags.contains(SessionFlags::GUEST) || flags.contains(SessionFlags::ANONYMOUS);
        let needs_proof = !self.options.allow_guest
            || self.options.signing == SigningPolicy::Required
            || self.options.sealed;
        if nobody && (needs_proof || self.logon.binds.is_some()) {
            return Err(Error::Incompatible(
                "the server logged the user on as a guest; guests can \
                                            neither sign nor encrypt",
            ));
        }
        let source =
            KeySource { dialect: negotiated.dialect, session_key: key, preauth: &self.preauth };
        let signing = Arc::new(source.signing(negotiated.signing));
        let signed = header.flags.contains(Flags::SIGNED);
        let proves = negotiated.dialect >= Dialect::Smb311
            || self.logon.binds.is_some()
            || self.options.signing == SigningPolicy::Required;
        if !nobody && (signed || proves) && !signing.verify_in_place(frame) {
            return Err(Error::Hostile("the server's proof is wrong"));
        }
        let session = match &self.logon.binds {
            Some(session) => session.clone(),
            None => Arc::new(ClientSession::new(ClientSessionParts {
                id: self.session_id,
                negotiated: *negotiated,
                is_guest: nobody,
                signs: !nobody
                    && (self.options.signing == SigningPolicy::Required
                        || negotiated.security_mode & SIGNING_REQUIRED != 0),
                seals: self.options.sealed || flags.contains(SessionFlags::ENCRYPT_DATA),
                session_key: key.clone(),
                preauth: self.preauth.clone(),
                server_version: exchange.server_version(),
            })),
        };
        if session.seals && session.sealing.is_none() {
            return Err(Error::Incompatible(
                "the server requires encryption, but negotiated no \
                                            cipher",
            ));
        }
        let opener = Opener { session, signing };
        let conn = ClientConn::new(opener, self.next_id, self.credits, self.options.credits);
        Ok(SetUpStep::Done(Box::new(EstablishedConnection { conn, offer: self.offer.clone() })))
    }
}

/// The client's capabilities. MS-SMB2 3.2.4.2.2.2.
fn claimed(options: &SmbOptions, dialects: &[Dialect]) -> u32 {
    if dialects.iter().all(|dialect| *dialect < Dialect::Smb300) {
        return 0;
    }
    let sealing = if options.ciphers.is_empty() { 0 } else { capabilities::ENCRYPTION };
    let channels = if options.wants_channels() { capabilities::MULTI_CHANNEL } else { 0 };
    capabilities::LARGE_MTU | channels | sealing
}

/// The single algorithm in a server's context; 0 is "none" for ciphers.
fn chosen(data: &[u8]) -> Result<Option<u16>, Error> {
    match decode_algorithms(data)?[..] {
        [number] => Ok(Some(number)),
        _ => Err(Error::Hostile("a negotiate context without exactly one algorithm")),
    }
}

/// Checks that a channel leads to the session's server, with the same protection. MS-SMB2 3.2.5.5.
fn check_alike(session: &NegotiatedParameters, new: &NegotiatedParameters) -> Result<(), Error> {
    let alike = (session.dialect, session.signing, session.cipher, session.server_guid)
        == (new.dialect, new.signing, new.cipher, new.server_guid);
    if alike { Ok(()) } else { Err(Error::Incompatible("the other path leads to another server")) }
}

#[cfg(test)]
#[path = "set_up/tests.rs"]
pub(crate) mod tests;
