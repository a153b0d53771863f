//! Kerberos in SPNEGO. A system library processes the tickets; its user passes opaque tokens in and
//! out here. RFC 4178, MS-KILE 3.1.5.

use crate::crypto::SessionKey;
use std::fmt;

/// 1.2.840.113554.1.2.2
pub(super) const KERBEROS: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02];
/// 1.2.840.48018.1.2.2: the same mechanism with an arc that Windows 2000 truncated.
pub(super) const MS_KERBEROS: &[u8] = &[0x2A, 0x86, 0x48, 0x82, 0xF7, 0x12, 0x01, 0x02, 0x02];

/// The initiator's Kerberos context: a ticket for the server, and the rest of its exchange.
pub trait Ticket: fmt::Debug + Send {
    /// The AP-REQ token.
    fn first(&self) -> &[u8];

    /// Processes the server's AP-REP; returns the session key.
    ///
    /// # Errors
    /// A description, if the server does not authenticate itself.
    fn handle_answer(&mut self, token: &[u8]) -> Result<SessionKey, String>;
}

/// A verified ticket.
#[derive(Debug)]
pub struct AcceptedTicket {
    /// The AP-REP token, which authenticates the server.
    pub token: Vec<u8>,
    /// The client, as a user of this server.
    pub user: String,
    /// The client's realm.
    pub realm: String,
    /// The session key.
    pub session_key: SessionKey,
    /// Expiry of the ticket, in seconds since 1970.
    pub end_time: u64,
    /// The client's SID, if the realm supplies it.
    pub sid: Option<String>,
}

/// Why a ticket is refused. For the log only; the client does not receive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketRefusal {
    /// The user of the ticket's principal; empty if unknown.
    pub user: String,
    /// A description.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::super::{Mechanisms, NTLMSSP, SpnegoAcceptor, SpnegoInitiator, SpnegoStep, hint};
    use super::*;
    use crate::fscc::FileTime;
    use crate::ntlm::{self, GuestPolicy, LogonRefusal, TargetFacts};

    /// Accepts one ticket, 32 bytes of 7, and authenticates itself with 32 bytes of 8.
    #[derive(Debug)]
    struct Realm;

    impl Realm {
        fn judge(&self, token: &[u8]) -> Result<AcceptedTicket, TicketRefusal> {
            if token != [7; 32] {
                let why = "the clock is wrong".into();
                return Err(TicketRefusal { user: String::new(), why });
            }
            Ok(AcceptedTicket {
                token: vec![8; 32],
                user: "alice".into(),
                realm: "R".into(),
                session_key: SessionKey::new(&[9; 32]),
                end_time: 1_700_000_000,
                sid: None,
            })
        }
    }

    /// Passes a client's first token to the realm.
    fn show(client: &SpnegoInitiator) -> Result<SpnegoStep, LogonRefusal> {
        let acceptor = acceptor(true);
        let token = client.first();
        let ticket = acceptor.claimed_ticket(&token).expect("a ticket");
        acceptor.handle_ticket(&token, Realm.judge(&ticket))
    }

    #[derive(Debug)]
    struct FixedTicket([u8; 32]);

    impl Ticket for FixedTicket {
        fn first(&self) -> &[u8] {
            &self.0
        }

        fn handle_answer(&mut self, token: &[u8]) -> Result<SessionKey, String> {
            if token == [8; 32] { Ok(SessionKey::new(&[9; 32])) } else { Err("another".into()) }
        }
    }

    fn acceptor(kerberos: bool) -> SpnegoAcceptor {
        offering(Mechanisms { ntlm: true, kerberos })
    }

    fn offering(offered: Mechanisms) -> SpnegoAcceptor {
        let facts = TargetFacts { name: "SRV".into(), domain: "WG".into() };
        let ntlm = ntlm::NtlmAcceptor::new(facts, [1; 8], FileTime(1));
        SpnegoAcceptor::new(ntlm, GuestPolicy::default()).offering(offered)
    }

    #[test]
    fn ticket_is_accepted_at_once_with_its_full_key() {
        let mut client = SpnegoInitiator::with_ticket(Box::new(FixedTicket([7; 32])));
        let Ok(SpnegoStep::Done(last, logon)) = show(&client) else { panic!("refused") };
        assert_eq!(
            (logon.user.as_str(), logon.domain.as_str(), logon.ticket_end),
            ("alice", "R", Some(1_700_000_000))
        );
        let key = client.handle_last(&last).unwrap().unwrap();
        assert_eq!((key.full(), &key), (&[9; 32][..], &logon.session_key));
    }

    #[test]
    fn unauthenticated_kerberos_server_gets_no_session() {
        let client = || SpnegoInitiator::with_ticket(Box::new(FixedTicket([7; 32])));
        let Ok(SpnegoStep::Done(last, _)) = show(&client()) else { panic!("refused") };
        for at in [last.len() - 1, last.len() - 32] {
            let mut changed = last.clone();
            changed[at] ^= 1;
            assert!(client().handle_last(&changed).is_err());
        }
        for length in 0..last.len() {
            assert!(client().handle_last(&last[..length]).is_err());
        }
        assert!(client().handle_challenge(&last).is_err(), "a challenge of NTLM");
    }

    #[test]
    fn bad_ticket_is_refused_and_no_keytab_means_ntlm_only() {
        let bad = SpnegoInitiator::with_ticket(Box::new(FixedTicket([6; 32])));
        let refused =
            LogonRefusal::Ticket { user: String::new(), why: "the clock is wrong".into() };
        assert_eq!(show(&bad).unwrap_err(), refused);
        let good = SpnegoInitiator::with_ticket(Box::new(FixedTicket([7; 32])));
        assert!(matches!(
            acceptor(false).handle_token(&good.first(), |_| None),
            Err(LogonRefusal::Malformed("no mechanism in common"))
        ));
        assert!(acceptor(false).claimed_ticket(&good.first()).is_none());
        assert!(offers(true, true, KERBEROS) && offers(true, true, MS_KERBEROS));
        assert!(offers(true, true, NTLMSSP) && offers(true, false, NTLMSSP));
        assert!(!offers(true, false, KERBEROS));
    }

    fn offers(ntlm: bool, kerberos: bool, oid: &[u8]) -> bool {
        hint(Mechanisms { ntlm, kerberos }).windows(oid.len()).any(|w| w == oid)
    }

    #[test]
    fn blocked_ntlm_is_not_offered_beside_kerberos() {
        assert!(!offers(false, true, NTLMSSP) && offers(false, true, KERBEROS));
        let ticket = SpnegoInitiator::with_ticket(Box::new(FixedTicket([7; 32])));
        let acceptor = offering(Mechanisms { ntlm: false, kerberos: true });
        assert!(acceptor.claimed_ticket(&ticket.first()).is_some());
    }
}
