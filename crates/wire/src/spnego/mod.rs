//! SPNEGO around NTLM and Kerberos, acceptor and initiator. RFC 4178, MS-SPNG.
//!
//! The acceptor takes NTLM tokens with and without the SPNEGO wrapping.

mod initiator;
mod kerberos;

pub use initiator::{ChallengeAnswer, SpnegoInitiator};
pub use kerberos::{AcceptedTicket, Ticket, TicketRefusal};

use crate::codec::DecodeError;
use crate::crypto::SessionKey;
use crate::ntlm::{self, GuestPolicy, LogonKind, LogonRefusal, NtHash, NtlmLogon};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use kerberos::{KERBEROS, MS_KERBEROS};

/// 1.3.6.1.4.1.311.2.2.10
const NTLMSSP: &[u8] = &[0x2B, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0A];
/// 1.3.6.1.5.5.2
const SPNEGO: &[u8] = &[0x2B, 0x06, 0x01, 0x05, 0x05, 0x02];
/// Limits of the mechanism list: its entries and its encoded bytes. The acceptor retains the list
/// until the exchange ends.
const MECHANISMS_MAX: usize = 32;
const LIST_BYTES_MAX: usize = 1024;

const OID: u8 = 0x06;
const OCTETS: u8 = 0x04;
const ENUMERATED: u8 = 0x0A;
const SEQUENCE: u8 = 0x30;
const APPLICATION_0: u8 = 0x60;

const fn context(number: u8) -> u8 {
    0xA0 | number
}

/// The mechanisms that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mechanisms {
    /// NTLM, including anonymous and guest sessions.
    pub ntlm: bool,
    /// Kerberos.
    pub kerberos: bool,
}

/// The token of a NEGOTIATE response, which lists the mechanisms. MS-SPNG 2.2.1.
#[must_use]
pub fn hint(offered: Mechanisms) -> Vec<u8> {
    let tickets: &[&[u8]] = if offered.kerberos { &[MS_KERBEROS, KERBEROS] } else { &[] };
    let ntlm: &[&[u8]] = if offered.ntlm { &[NTLMSSP] } else { &[] };
    let list: Vec<u8> = tickets.iter().chain(ntlm).flat_map(|oid| tlv(OID, oid)).collect();
    let mechanisms = tlv(context(0), &tlv(SEQUENCE, &list));
    let name = tlv(0x1B, b"not_defined_in_RFC4178@please_ignore");
    let hints = tlv(context(3), &tlv(SEQUENCE, &tlv(context(0), &name)));
    let init = tlv(context(0), &tlv(SEQUENCE, &[mechanisms, hints].concat()));
    tlv(APPLICATION_0, &[tlv(OID, SPNEGO), init].concat())
}

/// The result of processing one token.
#[derive(Debug)]
pub enum SpnegoStep {
    /// The token to send; the exchange continues.
    Continue(Vec<u8>),
    /// The exchange is complete: the token to send, and the logon.
    Done(Vec<u8>, Box<CompletedLogon>),
}

/// A completed logon.
#[derive(Debug)]
pub struct CompletedLogon {
    /// User name of the client or of its ticket; empty if anonymous.
    pub user: String,
    /// Domain that the client sent, or the ticket's realm.
    pub domain: String,
    /// The session key.
    pub session_key: SessionKey,
    /// How the client authenticated.
    pub kind: LogonKind,
    /// Expiry of the ticket, in seconds since 1970; `None` without Kerberos.
    pub ticket_end: Option<u64>,
}

impl From<NtlmLogon> for CompletedLogon {
    fn from(ntlm: NtlmLogon) -> Self {
        let session_key = SessionKey::new(&*ntlm.session_key);
        Self {
            user: ntlm.user,
            domain: ntlm.domain,
            session_key,
            kind: ntlm.kind,
            ticket_end: None,
        }
    }
}

/// The acceptor's state of one exchange.
#[derive(Debug)]
pub struct SpnegoAcceptor {
    ntlm: ntlm::NtlmAcceptor,
    wrapped: Option<MechanismList>,
    unproven: GuestPolicy,
    offered: Mechanisms,
}

#[derive(Debug)]
struct MechanismList {
    /// The client's list as it encoded it, which its MIC covers.
    mechanisms: Vec<u8>,
    /// The client's first choice was another mechanism, so the list needs a MIC.
    mic_required: bool,
}

impl SpnegoAcceptor {
    /// Starts an exchange around `ntlm`.
    #[must_use]
    pub fn new(ntlm: ntlm::NtlmAcceptor, unproven: GuestPolicy) -> Self {
        let offered = Mechanisms { ntlm: true, kerberos: false };
        Self { ntlm, wrapped: None, unproven, offered }
    }

    /// Restricts the exchange to these mechanisms.
    #[must_use]
    pub fn offering(self, offered: Mechanisms) -> Self {
        Self { offered, ..self }
    }

    /// The Kerberos ticket in the client's next token, if there is one. The caller verifies it and
    /// passes the verdict to [`Self::handle_ticket`].
    #[must_use]
    pub fn claimed_ticket(&self, token: &[u8]) -> Option<Vec<u8>> {
        let (_, ticket) = self.ticket_of(token)?;
        Some(ticket.to_vec())
    }

    /// Extracts a ticket from a first token whose preferred mechanism is Kerberos. The list then
    /// needs no MIC. RFC 4178 5.
    fn ticket_of<'a>(&self, token: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        if !self.offered.kerberos || token.first() != Some(&APPLICATION_0) {
            return None;
        }
        let init = NegTokenInit::decode(token).ok()?;
        let oid = init.mechanisms.first().copied()?;
        [KERBEROS, MS_KERBEROS].contains(&oid).then_some((oid, init.token?))
    }

    /// Processes the client's token with the verdict on its ticket.
    ///
    /// # Errors
    /// [`LogonRefusal`] ends the exchange.
    pub fn handle_ticket(
        &self,
        token: &[u8],
        verdict: Result<AcceptedTicket, TicketRefusal>,
    ) -> Result<SpnegoStep, LogonRefusal> {
        let (oid, _) = self.ticket_of(token).ok_or(LogonRefusal::Malformed("no ticket"))?;
        let shown =
            verdict.map_err(|TicketRefusal { user, why }| LogonRefusal::Ticket { user, why })?;
        let answer = response(ACCEPT_COMPLETED, Some(oid), Some(&shown.token), None);
        let logon = CompletedLogon {
            user: shown.user,
            domain: shown.realm,
            session_key: shown.session_key,
            kind: LogonKind::User,
            ticket_end: Some(shown.end_time),
        };
        Ok(SpnegoStep::Done(answer, Box::new(logon)))
    }

    /// The user whose password the client's next token claims to prove, if any.
    #[must_use]
    pub fn claimed_user(&self, token: &[u8]) -> Option<String> {
        if !self.offered.ntlm {
            return None;
        }
        if ntlm::is_ntlm(token) {
            return self.ntlm.claimed_user(token);
        }
        self.wrapped.as_ref()?;
        self.ntlm.claimed_user(NegTokenResp::decode(token).ok()?.token?)
    }

    /// Processes the client's next token.
    ///
    /// # Errors
    /// [`LogonRefusal`] ends the exchange.
    pub fn handle_token(
        &mut self,
        token: &[u8],
        lookup: impl FnOnce(&str) -> Option<NtHash>,
    ) -> Result<SpnegoStep, LogonRefusal> {
        if ntlm::is_ntlm(token) {
            return if self.offered.ntlm {
                self.handle_bare(token, lookup)
            } else {
                Err(LogonRefusal::NtlmBlocked)
            };
        }
        match token.first() {
            Some(&APPLICATION_0) => self.handle_init(token),
            Some(&tag) if tag == context(1) => self.handle_response(token, lookup),
            _ => Err(LogonRefusal::Malformed("security token")),
        }
    }

    fn handle_bare(
        &mut self,
        token: &[u8],
        lookup: impl FnOnce(&str) -> Option<NtHash>,
    ) -> Result<SpnegoStep, LogonRefusal> {
        if token.get(8) == Some(&1) {
            return Ok(SpnegoStep::Continue(self.ntlm.handle_negotiate(token)?));
        }
        let logon = self.ntlm.handle_authenticate(token, self.unproven, lookup)?;
        Ok(SpnegoStep::Done(Vec::new(), Box::new(logon.into())))
    }

    fn handle_init(&mut self, token: &[u8]) -> Result<SpnegoStep, LogonRefusal> {
        let init = NegTokenInit::decode(token)?;
        if self.ticket_of(token).is_some() {
            return Err(LogonRefusal::Malformed("a ticket without a verdict"));
        }
        let first = init.mechanisms.first().copied() == Some(NTLMSSP);
        if !init.mechanisms.contains(&NTLMSSP) {
            return Err(LogonRefusal::Malformed("no mechanism in common"));
        }
        if !self.offered.ntlm {
            return Err(LogonRefusal::NtlmBlocked);
        }
        self.wrapped = Some(MechanismList { mechanisms: init.list.to_vec(), mic_required: !first });
        let answer = match init.token {
            Some(token) if first => Some(self.ntlm.handle_negotiate(token)?),
            // An optimistic token of another mechanism is ignored. RFC 4178 4.2.1.
            _ => None,
        };
        let state = if first { ACCEPT_INCOMPLETE } else { REQUEST_MIC };
        Ok(SpnegoStep::Continue(response(state, Some(NTLMSSP), answer.as_deref(), None)))
    }

    fn handle_response(
        &mut self,
        token: &[u8],
        lookup: impl FnOnce(&str) -> Option<NtHash>,
    ) -> Result<SpnegoStep, LogonRefusal> {
        let wrapped = self
            .wrapped
            .as_ref()
            .ok_or(LogonRefusal::Malformed("response without a first token"))?;
        let response_token = NegTokenResp::decode(token)?;
        let inner = response_token.token.ok_or(LogonRefusal::Malformed("no mechanism token"))?;
        if inner.get(8) == Some(&1) {
            let challenge = self.ntlm.handle_negotiate(inner)?;
            return Ok(SpnegoStep::Continue(response(
                ACCEPT_INCOMPLETE,
                None,
                Some(&challenge),
                None,
            )));
        }
        let mut logon = self.ntlm.handle_authenticate(inner, self.unproven, lookup)?;
        let mic = match response_token.mic {
            // The server cannot verify a guest's MIC, because it does not know the session key.
            Some(_) if logon.kind == LogonKind::Guest => None,
            Some(sent) => {
                let expected = logon.signer.expected(&wrapped.mechanisms);
                verify_slices_are_equal(sent, &expected)
                    .map_err(|_| LogonRefusal::Mic { user: logon.user.clone() })?;
                Some(logon.signer.sign(&wrapped.mechanisms))
            }
            None if wrapped.mic_required && logon.kind == LogonKind::User => {
                return Err(LogonRefusal::Mic { user: logon.user });
            }
            None => None,
        };
        let answer = response(ACCEPT_COMPLETED, None, None, mic.as_ref().map(|m| &m[..]));
        Ok(SpnegoStep::Done(answer, Box::new(logon.into())))
    }
}

const ACCEPT_COMPLETED: u8 = 0;
const ACCEPT_INCOMPLETE: u8 = 1;
const REQUEST_MIC: u8 = 3;

/// Wraps a challenge like a server, for tests of clients.
#[must_use]
pub fn wrap_challenge(challenge: &[u8]) -> Vec<u8> {
    response(ACCEPT_INCOMPLETE, Some(NTLMSSP), Some(challenge), None)
}

fn response(
    state: u8,
    mechanism: Option<&[u8]>,
    token: Option<&[u8]>,
    mic: Option<&[u8]>,
) -> Vec<u8> {
    let mut body = tlv(context(0), &tlv(ENUMERATED, &[state]));
    if let Some(mechanism) = mechanism {
        body.extend(tlv(context(1), &tlv(OID, mechanism)));
    }
    if let Some(token) = token {
        body.extend(tlv(context(2), &tlv(OCTETS, token)));
    }
    if let Some(mic) = mic {
        body.extend(tlv(context(3), &tlv(OCTETS, mic)));
    }
    tlv(context(1), &tlv(SEQUENCE, &body))
}

struct NegTokenInit<'a> {
    list: &'a [u8],
    mechanisms: Vec<&'a [u8]>,
    token: Option<&'a [u8]>,
}

impl<'a> NegTokenInit<'a> {
    fn decode(token: &'a [u8]) -> Result<Self, DecodeError> {
        let (body, _) = expect(token, APPLICATION_0)?;
        let (oid, body) = expect(body, OID)?;
        if oid != SPNEGO {
            return Err(bad("SPNEGO"));
        }
        let (body, _) = expect(body, context(0))?;
        let (mut fields, _) = expect(body, SEQUENCE)?;
        let mut init = Self { list: &[], mechanisms: Vec::new(), token: None };
        while !fields.is_empty() {
            let (tag, value, rest) = take(fields)?;
            match tag {
                0xA0 => {
                    if value.len() > LIST_BYTES_MAX {
                        return Err(bad("mechanism list"));
                    }
                    init.list = value;
                    init.mechanisms = decode_oids(value)?;
                }
                0xA2 => init.token = Some(expect(value, OCTETS)?.0),
                // Flags, hints, and a MIC that cannot be verified yet.
                _ => {}
            }
            fields = rest;
        }
        Ok(init)
    }
}

fn decode_oids(list: &[u8]) -> Result<Vec<&[u8]>, DecodeError> {
    let (mut oids, _) = expect(list, SEQUENCE)?;
    let mut found = Vec::new();
    while !oids.is_empty() {
        let (oid, rest) = expect(oids, OID)?;
        if found.len() == MECHANISMS_MAX {
            return Err(bad("mechanism count"));
        }
        found.push(oid);
        oids = rest;
    }
    Ok(found)
}

struct NegTokenResp<'a> {
    state: Option<u8>,
    token: Option<&'a [u8]>,
    mic: Option<&'a [u8]>,
}

impl<'a> NegTokenResp<'a> {
    fn decode(token: &'a [u8]) -> Result<Self, DecodeError> {
        let (body, _) = expect(token, context(1))?;
        let (mut fields, _) = expect(body, SEQUENCE)?;
        let mut response = Self { state: None, token: None, mic: None };
        while !fields.is_empty() {
            let (tag, value, rest) = take(fields)?;
            match tag {
                0xA0 => response.state = expect(value, ENUMERATED)?.0.first().copied(),
                0xA2 => response.token = Some(expect(value, OCTETS)?.0),
                0xA3 => response.mic = Some(expect(value, OCTETS)?.0),
                _ => {}
            }
            fields = rest;
        }
        Ok(response)
    }
}

fn bad(what: &'static str) -> DecodeError {
    DecodeError { what, at: 0 }
}

/// The first element's content and the rest, if the element has this tag.
fn expect(bytes: &[u8], tag: u8) -> Result<(&[u8], &[u8]), DecodeError> {
    let (found, content, rest) = take(bytes)?;
    if found == tag { Ok((content, rest)) } else { Err(bad("DER tag")) }
}

/// Tag, content and rest of the first element: DER with definite lengths of at most three bytes.
fn take(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), DecodeError> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>().ok_or_else(|| bad("DER header"))?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7F);
        let digits = rest
            .get(..count)
            .filter(|_| (1..=3).contains(&count))
            .ok_or_else(|| bad("DER length"))?;
        (digits.iter().fold(0, |n, &d| n << 8 | usize::from(d)), &rest[count..])
    };
    let content = rest.get(..length).ok_or_else(|| bad("DER content"))?;
    Ok((tag, content, &rest[length..]))
}

fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    match length {
        0..=0x7F => out.push(length as u8),
        0x80..=0xFF => out.extend([0x81, length as u8]),
        0x100..=0xFFFF => out.extend([0x82, (length >> 8) as u8, length as u8]),
        _ => out.extend([0x83, (length >> 16) as u8, (length >> 8) as u8, length as u8]),
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acceptor() -> SpnegoAcceptor {
        let facts = ntlm::TargetFacts { name: "SRV".into(), domain: "WG".into() };
        SpnegoAcceptor::new(
            ntlm::NtlmAcceptor::new(facts, [1; 8], crate::fscc::FileTime(1)),
            GuestPolicy::default(),
        )
    }

    fn init(mechanisms: &[&[u8]], token: &[u8]) -> Vec<u8> {
        let list: Vec<u8> = mechanisms.iter().flat_map(|m| tlv(OID, m)).collect();
        let fields =
            [tlv(context(0), &tlv(SEQUENCE, &list)), tlv(context(2), &tlv(OCTETS, token))].concat();
        tlv(APPLICATION_0, &[tlv(OID, SPNEGO), tlv(context(0), &tlv(SEQUENCE, &fields))].concat())
    }

    const NEGOTIATE: &[u8] = b"NTLMSSP\0\x01\0\0\0\x01\0\0\0";

    #[test]
    fn blocked_ntlm_is_refused_bare_and_wrapped() {
        let acceptor = || acceptor().offering(Mechanisms { ntlm: false, kerberos: true });
        for token in [init(&[NTLMSSP], NEGOTIATE), init(&[b"x", NTLMSSP], &[]), NEGOTIATE.to_vec()]
        {
            let refused = acceptor().handle_token(&token, |_| panic!("no password is looked up"));
            assert_eq!(refused.unwrap_err(), LogonRefusal::NtlmBlocked);
        }
        let mut proof = NEGOTIATE.to_vec();
        proof[8] = 3;
        assert_eq!(acceptor().claimed_user(&proof), None);
        let refused = acceptor().handle_token(&proof, |_| panic!("no password is looked up"));
        assert_eq!(refused.unwrap_err(), LogonRefusal::NtlmBlocked);
    }

    #[test]
    fn optimistic_ntlm_token_gets_a_challenge() {
        let Ok(SpnegoStep::Continue(answer)) =
            acceptor().handle_token(&init(&[NTLMSSP], NEGOTIATE), |_| None)
        else {
            panic!("refused")
        };
        let response = NegTokenResp::decode(&answer).unwrap();
        assert!(ntlm::is_ntlm(response.token.unwrap()));
    }

    #[test]
    fn other_first_mechanism_requires_a_mic() {
        let other: &[u8] = &[0x2A, 0x86, 0x48];
        let mut acceptor = acceptor();
        let Ok(SpnegoStep::Continue(answer)) =
            acceptor.handle_token(&init(&[other, NTLMSSP], b"x"), |_| None)
        else {
            panic!("refused")
        };
        assert!(NegTokenResp::decode(&answer).unwrap().token.is_none());
        assert!(acceptor.wrapped.unwrap().mic_required);
        assert!(self::acceptor().handle_token(&init(&[other], b"x"), |_| None).is_err());
    }

    #[test]
    fn unfinished_exchange_retains_bounded_memory() {
        let long = [NEGOTIATE, &[0; 1024][..]].concat();
        assert!(acceptor().handle_token(&long, |_| None).is_err());
        assert!(acceptor().handle_token(&init(&[NTLMSSP], &long), |_| None).is_err());
        assert!(acceptor().handle_token(&init(&[NTLMSSP, &[7; 1024]], b"x"), |_| None).is_err());
    }

    #[test]
    fn changed_spnego_tokens_are_refused_without_a_panic() {
        let token = init(&[NTLMSSP], NEGOTIATE);
        for length in 0..token.len() {
            let _ = acceptor().handle_token(&token[..length], |_| None);
            let mut changed = token.clone();
            changed[length] ^= 0xFF;
            let _ = acceptor().handle_token(&changed, |_| None);
        }
    }
}
