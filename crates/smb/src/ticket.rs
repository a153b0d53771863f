//! SESSION_SETUPs with a Kerberos ticket: it is judged elsewhere, and nobody else waits for it.

use crate::chain::Finished;
use crate::conn::Conn;
use crate::host::Now;
use crate::logon_throttle::WaitingTicket;
use crate::parked::ArrivedSetup;
use crate::server::Server;
use crate::setup::Step;
use meter::Arrival;
use std::net::IpAddr;
use std::sync::Arc;
use wire::smb::{Header, SessionId};
use wire::spnego::{RefusedTicket, Shown};

/// A SESSION_SETUP whose ticket has been judged.
#[derive(Debug)]
pub struct JudgedSetup {
    setup: ArrivedSetup,
    session: SessionId,
    arrival: Option<Arrival>,
    verdict: Result<Shown, RefusedTicket>,
    /// Held until it is answered.
    _place: WaitingTicket,
}

impl Conn {
    /// Has a ticket judged; `header` has the session's id.
    pub(crate) fn judge_ticket(&mut self, setup: ArrivedSetup, header: Header, ticket: Vec<u8>) {
        let session = header.session_id;
        let address = self.shared.facts.peer.ip();
        let Some(place) = self.server.logon_throttle.wait_for_ticket(address) else {
            let step = self.refuse_unjudged(session, String::new());
            return self.answer_setup(setup, &header, step);
        };
        self.judged.push(session);
        let (server, arrival) = (self.server.clone(), self.arrival);
        self.start_job(Box::pin(async move {
            let verdict = judge(&server, address, ticket).await;
            let judged = JudgedSetup { setup, session, arrival, verdict, _place: place };
            Finished { judged: Some(Box::new(judged)), ..Finished::default() }
        }));
    }

    /// Answers a SESSION_SETUP by the verdict on its ticket.
    pub(crate) fn handle_judged(&mut self, judged: JudgedSetup, now: Now) {
        let JudgedSetup { setup, session, arrival, verdict, _place } = judged;
        self.judged.retain(|other| *other != session);
        let header = Header { session_id: session, ..setup.header };
        let step = self.take_verdict(&setup.frame, session, verdict);
        self.arrival = arrival;
        self.answer_setup(setup, &header, step.unwrap_or_else(Step::refused));
        self.arrival = None;
        self.end_turn(session, now);
    }
}

/// What a good ticket has to be beside that: of an account that is here, of the person that the
/// account is, and not the superuser's unless the account says so.
async fn judge(
    server: &Arc<Server>,
    from: IpAddr,
    ticket: Vec<u8>,
) -> Result<Shown, RefusedTicket> {
    let shown = server.host.judge_ticket(from, ticket).await;
    let shown = shown.map_err(|why| RefusedTicket { user: String::new(), why })?;
    let refused = |why: String| RefusedTicket { user: shown.user.clone(), why };
    let Some(account) = server.host.account(&shown.user) else {
        return Err(refused("the ticket is good, and there is no such user here".to_owned()));
    };
    if !is_name_of(&shown, &account.name) {
        return Err(refused(format!(
            "the ticket is good, and {:?} is not how the account {} is written; principals of a realm without PACs are other people where they differ in case or spaces",
            shown.user, account.name
        )));
    }
    if account.caller.identity.uid == 0 && !account.root_by_ticket {
        return Err(refused(format!(
            "a ticket does not make anybody root; if it is to, set root_by_ticket = true for {} in the users' file",
            account.name
        )));
    }
    let pinned = server.host.check_sid(&account.name, shown.sid.clone()).await;
    pinned.map_err(refused)?;
    Ok(shown)
}

/// Whether a principal is the account's, whose name is in small letters. A Windows domain, whose
/// tickets have a PAC, does not tell names apart by case ([MS-KILE] 3.3.5.6.1); for other realms
/// each octet counts (RFC 4120 6). Spaces at the ends are of the name in both.
fn is_name_of(shown: &Shown, account: &str) -> bool {
    match shown.sid {
        Some(_) => shown.user.to_lowercase() == account,
        None => shown.user == account,
    }
}
