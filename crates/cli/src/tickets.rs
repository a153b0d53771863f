//! Kerberos tickets of the user who runs the command, if the GSS library is installed.

use client::Tickets;
use std::sync::Arc;
use wire::crypto::SessionKey;
use wire::spnego::Ticket;

/// The service that SMB servers are in a realm.
const SERVICE: &str = "cifs";

/// The tickets of this process's user.
#[derive(Debug)]
struct UserTickets;

/// One exchange.
#[derive(Debug)]
struct Exchange {
    initiator: gss::GssInitiator,
    first: Vec<u8>,
}

impl Ticket for Exchange {
    fn first(&self) -> &[u8] {
        &self.first
    }

    fn handle_answer(&mut self, token: &[u8]) -> Result<SessionKey, String> {
        match self.initiator.handle(token) {
            Ok(gss::InitiatorStep::Done(key)) => Ok(SessionKey::new(&key)),
            Ok(gss::InitiatorStep::Continue(_)) => {
                Err("the server needs more than one authentication round".into())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Tickets for UserTickets {
    fn ticket(&self, server: &str) -> Result<Box<dyn Ticket>, String> {
        let (initiator, first) =
            gss::GssInitiator::begin(SERVICE, server).map_err(|error| error.to_string())?;
        Ok(Box::new(Exchange { initiator, first }))
    }
}

/// Whether a ticket for the server exists or can be obtained.
pub fn are_there(server: &str) -> bool {
    UserTickets.ticket(server).is_ok()
}

/// The user's tickets, if there is no password and a ticket for the server.
pub fn instead_of(password: &str, server: &str) -> Option<Arc<dyn Tickets>> {
    (password.is_empty() && are_there(server)).then(|| Arc::new(UserTickets) as Arc<dyn Tickets>)
}
