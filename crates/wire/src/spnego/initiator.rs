//! The SPNEGO initiator (client). RFC 4178 4.2.

use super::kerberos::{KERBEROS, Ticket};
use super::{
    ACCEPT_COMPLETED, NTLMSSP, NegTokenResp, OCTETS, OID, SEQUENCE, SPNEGO, bad, context, tlv,
};
use crate::codec::DecodeError;
use crate::crypto::SessionKey;
use crate::ntlm::{self, MessageSigner};
use aws_lc_rs::constant_time::verify_slices_are_equal;

/// The initiator's state of one exchange: first token, challenge, answer, and optionally a last
/// token.
#[derive(Debug)]
pub struct SpnegoInitiator {
    mechanism: Mechanism,
}

#[derive(Debug)]
enum Mechanism {
    Ntlm {
        ntlm: Box<ntlm::NtlmInitiator>,
        signer: Option<Box<MessageSigner>>,
        server_version: Option<ntlm::NtlmVersion>,
    },
    Kerberos(Box<dyn Ticket>),
}

/// The initiator's answer to a challenge.
#[derive(Debug)]
pub struct ChallengeAnswer {
    /// Token to send.
    pub token: Vec<u8>,
    /// The session key, valid if the server accepts the answer.
    pub session_key: SessionKey,
}

/// The list of mechanisms, which has one entry. The MIC covers these bytes.
fn mechanisms(only: &[u8]) -> Vec<u8> {
    tlv(SEQUENCE, &tlv(OID, only))
}

impl SpnegoInitiator {
    /// Starts an NTLM exchange.
    #[must_use]
    pub fn new(ntlm: ntlm::NtlmInitiator) -> Self {
        let ntlm = Box::new(ntlm);
        Self { mechanism: Mechanism::Ntlm { ntlm, signer: None, server_version: None } }
    }

    /// Starts a Kerberos exchange. The initiator offers Kerberos alone, so that an attacker cannot
    /// downgrade the exchange. A server without Kerberos refuses it.
    #[must_use]
    pub fn with_ticket(ticket: Box<dyn Ticket>) -> Self {
        Self { mechanism: Mechanism::Kerberos(ticket) }
    }

    /// The server's system, as its NTLM challenge claims; none before it, and with Kerberos.
    #[must_use]
    pub fn server_version(&self) -> Option<ntlm::NtlmVersion> {
        match &self.mechanism {
            Mechanism::Ntlm { server_version, .. } => *server_version,
            Mechanism::Kerberos(_) => None,
        }
    }

    /// The first token: the mechanism, and its optimistic first message.
    #[must_use]
    pub fn first(&self) -> Vec<u8> {
        let (only, message) = match &self.mechanism {
            Mechanism::Ntlm { ntlm, .. } => (NTLMSSP, ntlm.negotiate()),
            Mechanism::Kerberos(ticket) => (KERBEROS, ticket.first()),
        };
        let list = tlv(context(0), &mechanisms(only));
        let message = tlv(context(2), &tlv(OCTETS, message));
        let init = tlv(context(0), &tlv(SEQUENCE, &[list, message].concat()));
        tlv(super::APPLICATION_0, &[tlv(OID, SPNEGO), init].concat())
    }

    /// Processes the server's challenge.
    ///
    /// # Errors
    /// [`DecodeError`] if the token holds no challenge.
    pub fn handle_challenge(&mut self, token: &[u8]) -> Result<ChallengeAnswer, DecodeError> {
        let Mechanism::Ntlm { ntlm, signer, server_version } = &mut self.mechanism else {
            return Err(bad("a challenge, where a ticket was shown"));
        };
        let response = NegTokenResp::decode(token)?;
        let challenge = response.token.ok_or_else(|| bad("no challenge"))?;
        let mut initiated = ntlm.handle_challenge(challenge)?;
        let mic = initiated.signer.expected(&mechanisms(NTLMSSP));
        let message = tlv(context(2), &tlv(OCTETS, &initiated.token));
        let mic = tlv(context(3), &tlv(OCTETS, &mic));
        let token = tlv(context(1), &tlv(SEQUENCE, &[message, mic].concat()));
        *signer = Some(Box::new(initiated.signer));
        *server_version = initiated.server_version;
        Ok(ChallengeAnswer { token, session_key: SessionKey::new(&initiated.session_key) })
    }

    /// Processes the server's final token. With NTLM it may hold the server's MIC of the list of
    /// mechanisms, which is verified. With Kerberos it authenticates the server and yields the
    /// session key.
    ///
    /// # Errors
    /// [`DecodeError`] if the verification fails, or the exchange is not complete.
    pub fn handle_last(&mut self, token: &[u8]) -> Result<Option<SessionKey>, DecodeError> {
        if let Mechanism::Kerberos(ticket) = &mut self.mechanism {
            let proof = completed(token)?.token.ok_or_else(|| bad("no proof of the server"))?;
            let key = ticket.handle_answer(proof).map_err(|_| bad("the server's proof"))?;
            return Ok(Some(key));
        }
        if token.is_empty() {
            return Ok(None);
        }
        match (completed(token)?.mic, &mut self.mechanism) {
            (Some(sent), Mechanism::Ntlm { signer: Some(signer), .. }) => {
                let expected = signer.sign(&mechanisms(NTLMSSP));
                verify_slices_are_equal(sent, &expected).map_err(|_| bad("mechanism list MIC"))?;
                Ok(None)
            }
            (Some(_), _) => Err(bad("mechanism list MIC")),
            (None, _) => Ok(None),
        }
    }
}

/// Decodes the server's final token.
fn completed(token: &[u8]) -> Result<NegTokenResp<'_>, DecodeError> {
    let response = NegTokenResp::decode(token)?;
    let goes_on = response.state.is_some_and(|state| state != ACCEPT_COMPLETED);
    if goes_on { Err(bad("SPNEGO state")) } else { Ok(response) }
}

#[cfg(test)]
mod tests {
    use super::super::{SpnegoAcceptor, SpnegoStep};
    use super::*;
    use crate::fscc::FileTime;
    use crate::ntlm::{NtHash, NtlmCredentials, Secrets, TargetFacts};

    fn initiator() -> SpnegoInitiator {
        let credentials = NtlmCredentials {
            user: "alice".into(),
            domain: String::new(),
            workstation: "HERE".into(),
            hash: NtHash::of_password("secret"),
        };
        let secrets = Secrets { challenge: [1; 8], session_key: [2; 16], now: FileTime(3) };
        SpnegoInitiator::new(ntlm::NtlmInitiator::new(credentials, secrets))
    }

    #[test]
    fn spnego_sides_agree_and_verify_the_mechanism_list() {
        let facts = TargetFacts { name: "SRV".into(), domain: "WG".into() };
        let ntlm = ntlm::NtlmAcceptor::new(facts, [1; 8], FileTime(1));
        let (mut client, mut server) =
            (initiator(), SpnegoAcceptor::new(ntlm, ntlm::GuestPolicy::default()));
        let lookup = |_: &str| Some(NtHash::of_password("secret"));
        let Ok(SpnegoStep::Continue(challenge)) = server.handle_token(&client.first(), lookup)
        else {
            panic!("refused")
        };
        let answer = client.handle_challenge(&challenge).unwrap();
        let Ok(SpnegoStep::Done(last, logon)) = server.handle_token(&answer.token, lookup) else {
            panic!("refused")
        };
        assert_eq!(logon.session_key, answer.session_key);
        let mut changed = last.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(client.handle_last(&last), Ok(None));
        assert!(client.handle_last(&changed).is_err());
    }

    #[test]
    fn broken_challenge_is_refused_without_a_panic() {
        let token = tlv(context(1), &tlv(SEQUENCE, &tlv(context(2), &tlv(OCTETS, b"NTLMSSP\0"))));
        for length in 0..=token.len() {
            assert!(initiator().handle_challenge(&token[..length]).is_err());
        }
    }
}
