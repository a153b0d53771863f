//! Where Kerberos meets SPNEGO. Tickets are the business of a library of the system, which is
//! brought by who has one: tokens go in and come out here. RFC 4178, MS-KILE 3.1.5.

use crate::crypto::SessionKey;
use std::fmt;

/// 1.2.840.113554.1.2.2
pub(super) const KERBEROS: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02];
/// 1.2.840.48018.1.2.2: the same, with a digit that Windows once lost.
pub(super) const MS_KERBEROS: &[u8] = &[0x2A, 0x86, 0x48, 0x82, 0xF7, 0x12, 0x01, 0x02, 0x02];

/// A ticket for the server, and the rest of its exchange.
pub trait Ticket: fmt::Debug + Send {
    /// The token that begins.
    fn first(&self) -> &[u8];

    /// Takes the server's answer; gives the key that both have now.
    ///
    /// # Errors
    /// The server does not prove who it is, in words.
    fn handle_answer(&mut self, token: &[u8]) -> Result<SessionKey, String>;
}

/// Who showed a ticket.
#[derive(Debug)]
pub struct Shown {
    /// The token that proves who the server is.
    pub token: Vec<u8>,
    /// The client, as a user of this server.
    pub user: String,
    /// Its realm.
    pub realm: String,
    /// The key that both have now.
    pub session_key: SessionKey,
    /// When the ticket ends, in seconds since 1970.
    pub end_time: u64,
    /// The client's SID, where the realm tells it.
    pub sid: Option<String>,
}

/// Why a ticket is refused: for the log, not for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTicket {
    /// The user that its principal is, if it came so far.
    pub user: String,
    /// In words.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::super::{Acceptor, Initiator, Mechanisms, NTLMSSP, Step, hint};
    use super::*;
    use crate::fscc::FileTime;
    use crate::ntlm::{self, Refused, TargetFacts, Unproven};

    /// Knows one ticket, of 32 bytes of 7, for which it proves itself by 32 bytes of 8.
    #[derive(Debug)]
    struct Realm;

    impl Realm {
        fn judge(&self, token: &[u8]) -> Result<Shown, RefusedTicket> {
            if token != [7; 32] {
                let why = "the clock is wrong".into();
                return Err(RefusedTicket { user: String::new(), why });
            }
            Ok(Shown {
                token: vec![8; 32],
                user: "alice".into(),
                realm: "R".into(),
                session_key: SessionKey::new(&[9; 32]),
                end_time: 1_700_000_000,
                sid: None,
            })
        }
    }

    /// Shows a client's first token to the realm.
    fn show(client: &Initiator) -> Result<Step, Refused> {
        let acceptor = acceptor(true);
        let token = client.first();
        let ticket = acceptor.claimed_ticket(&token).expect("a ticket");
        acceptor.handle_ticket(&token, Realm.judge(&ticket))
    }

    #[derive(Debug)]
    struct Held([u8; 32]);

    impl Ticket for Held {
        fn first(&self) -> &[u8] {
            &self.0
        }

        fn handle_answer(&mut self, token: &[u8]) -> Result<SessionKey, String> {
            if token == [8; 32] { Ok(SessionKey::new(&[9; 32])) } else { Err("another".into()) }
        }
    }

    fn acceptor(kerberos: bool) -> Acceptor {
        offering(Mechanisms { ntlm: true, kerberos })
    }

    fn offering(offered: Mechanisms) -> Acceptor {
        let facts = TargetFacts { name: "SRV".into(), domain: "WG".into() };
        let ntlm = ntlm::Acceptor::new(facts, [1; 8], FileTime(1));
        Acceptor::new(ntlm, Unproven::default()).offering(offered)
    }

    #[test]
    fn a_ticket_is_taken_at_once_and_both_sides_have_the_whole_of_its_key() {
        let mut client = Initiator::by_ticket(Box::new(Held([7; 32])));
        let Ok(Step::Done(last, logon)) = show(&client) else { panic!("refused") };
        assert_eq!(
            (logon.user.as_str(), logon.domain.as_str(), logon.ticket_end),
            ("alice", "R", Some(1_700_000_000))
        );
        let key = client.handle_last(&last).unwrap().unwrap();
        assert_eq!((key.full(), &key), (&[9; 32][..], &logon.session_key));
    }

    #[test]
    fn a_server_that_proves_nothing_gets_no_session() {
        let client = || Initiator::by_ticket(Box::new(Held([7; 32])));
        let Ok(Step::Done(last, _)) = show(&client()) else { panic!("refused") };
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
    fn bad_tickets_are_refused_and_without_keys_there_is_ntlm_alone() {
        let bad = Initiator::by_ticket(Box::new(Held([6; 32])));
        let refused = Refused::Ticket { user: String::new(), why: "the clock is wrong".into() };
        assert_eq!(show(&bad).unwrap_err(), refused);
        let good = Initiator::by_ticket(Box::new(Held([7; 32])));
        assert!(matches!(
            acceptor(false).handle_token(&good.first(), |_| None),
            Err(Refused::Malformed("no mechanism in common"))
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
    fn blocked_ntlm_is_not_offered_beside_tickets() {
        assert!(!offers(false, true, NTLMSSP) && offers(false, true, KERBEROS));
        let ticket = Initiator::by_ticket(Box::new(Held([7; 32])));
        let acceptor = offering(Mechanisms { ntlm: false, kerberos: true });
        assert!(acceptor.claimed_ticket(&ticket.first()).is_some());
    }
}
