//! SESSION_SETUPs with a Kerberos ticket. A worker thread verifies the ticket, and no other request
//! waits for it.

use crate::conn::chain::JobOutput;
use crate::conn::connection::SmbConn;
use crate::host::HostTime;
use crate::logon::setup::SetupReply;
use crate::logon::setup_state::{SetupRequest, TicketVerdict};
use crate::server::SmbServer;
use std::net::IpAddr;
use std::sync::Arc;
use wire::smb::Header;
use wire::spnego::{AcceptedTicket, TicketRefusal};

impl SmbConn {
    /// Starts the verification of a ticket. `header` has the session's id.
    pub(crate) fn verify_ticket(&mut self, setup: SetupRequest, header: Header, ticket: Vec<u8>) {
        let session = header.session_id;
        let address = self.shared.facts.peer.ip();
        let Some(place) = self.server.logon_throttle.wait_for_ticket(address) else {
            let step = self.refuse_unverified(session, String::new());
            return self.respond_to_setup(setup, &header, step);
        };
        self.verifying.push(session);
        let (server, arrival) = (self.server.clone(), self.arrival);
        self.start_job(Box::pin(async move {
            let verdict = verify(&server, address, ticket).await;
            let judged = TicketVerdict { setup, session, arrival, verdict, place };
            JobOutput { ticket_verdict: Some(Box::new(judged)), ..JobOutput::default() }
        }));
    }

    /// Answers a SESSION_SETUP according to the verdict on its ticket.
    pub(crate) fn handle_ticket_verdict(&mut self, judged: TicketVerdict, now: HostTime) {
        let TicketVerdict { setup, session, arrival, verdict, place: _place } = judged;
        self.verifying.retain(|other| *other != session);
        let header = Header { session_id: session, ..setup.header };
        let step = self.apply_ticket_verdict(&setup.frame, session, verdict);
        self.arrival = arrival;
        self.respond_to_setup(setup, &header, step.unwrap_or_else(SetupReply::refused));
        self.arrival = None;
        self.end_turn(session, now);
    }
}

/// Checks a valid ticket against the account: it exists here, it is the same person, and superuser
/// logons by ticket are enabled for it.
async fn verify(
    server: &Arc<SmbServer>,
    from: IpAddr,
    ticket: Vec<u8>,
) -> Result<AcceptedTicket, TicketRefusal> {
    let shown = server.host.verify_ticket(from, ticket).await;
    let shown = shown.map_err(|why| TicketRefusal { user: String::new(), why })?;
    let refused = |why: String| TicketRefusal { user: shown.user.clone(), why };
    let Some(account) = server.host.account(&shown.user) else {
        return Err(refused("the ticket is valid, but this server has no such account".to_owned()));
    };
    if !is_name_of(&shown, &account.name) {
        return Err(refused(format!(
            "the ticket is valid, but its principal {:?} differs from the account {}; without a PAC the spelling must match exactly",
            shown.user, account.name
        )));
    }
    if account.caller.identity.uid == 0 && !account.root_by_ticket {
        return Err(refused(format!(
            "root may not log on by ticket; to permit it, set root_by_ticket = true for {} in the users file",
            account.name
        )));
    }
    let pinned = server.host.check_sid(&account.name, shown.sid.clone()).await;
    pinned.map_err(refused)?;
    Ok(shown)
}

/// True if the principal refers to the account, whose name is in lower case. Windows domains, whose
/// tickets have a PAC, ignore case ([MS-KILE] 3.3.5.6.1). Other realms compare octets (RFC 4120 6).
/// Both keep leading and trailing spaces.
fn is_name_of(shown: &AcceptedTicket, account: &str) -> bool {
    match shown.sid {
        Some(_) => shown.user.to_lowercase() == account,
        None => shown.user == account,
    }
}
