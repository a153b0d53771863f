//! Verifies Kerberos tickets of clients with the system's Kerberos library and the keys of a
//! keytab.
//!
//! The verification has its own threads. For each ticket the library reads the keytab and the
//! replay cache with the thread's identity, and the threads of requests act as various users.

use crate::accounts::site_queue::SiteQueue;
use crate::config::KerberosKeys;
use gss::{AcceptedLogon, GssAcceptor, Keytab};
use limits::site_of;
use smb::limits::WAITING_TICKETS_MAX;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sync::{Condvar, Mutex};
use tokio::sync::oneshot;
use wire::crypto::SessionKey;
use wire::spnego::AcceptedTicket;

/// Verification threads: one that waits for a file does not delay the next ticket.
const JUDGES: usize = 4;

/// Threads for one address at once: its slow tickets do not delay those of others.
const JUDGES_PER_SITE: usize = 2;

/// Timeout of a verification.
const JUDGED_WITHIN: Duration = Duration::from_secs(10);

/// A ticket and the channel for its outcome.
type PendingTicket = (Vec<u8>, oneshot::Sender<Result<AcceptedLogon, gss::Error>>);

/// Queued tickets.
#[derive(Debug)]
struct TicketLine {
    line: SiteQueue<PendingTicket>,
    has_ended: bool,
}

/// The queue and its condition variable.
#[derive(Debug)]
struct TicketQueue {
    line: Mutex<TicketLine>,
    arrival: Condvar,
}

impl TicketQueue {
    /// Finishes the ticket of the site `judged` and waits for the next one. Returns `None` once the
    /// keys are replaced.
    fn next(&self, judged: Option<IpAddr>) -> Option<(IpAddr, PendingTicket)> {
        let mut line = self.line.lock();
        if let Some(site) = judged {
            line.line.end(site);
        }
        loop {
            if line.has_ended {
                return None;
            }
            if let Some(next) = line.line.begin() {
                return Some(next);
            }
            line = self.arrival.wait(line);
        }
    }
}

/// The acceptor of tickets for one keytab and realm. Its threads end on drop.
#[derive(Debug)]
pub struct Judge {
    desk: Arc<TicketQueue>,
    realm: Arc<str>,
}

impl Drop for Judge {
    fn drop(&mut self) {
        self.desk.line.lock().has_ended = true;
        self.desk.arrival.notify_all();
    }
}

impl Judge {
    /// Opens the configured keytab. The library reads the file again for each ticket, so changed
    /// keys take effect at once.
    ///
    /// # Errors
    /// A sentence: the library is missing, or the keytab is not readable.
    pub fn load(keys: &KerberosKeys) -> Result<Self, String> {
        let line = SiteQueue::new(WAITING_TICKETS_MAX, WAITING_TICKETS_MAX, JUDGES_PER_SITE);
        let line = Mutex::new(TicketLine { line, has_ended: false });
        let desk = TicketQueue { line, arrival: Condvar::new() };
        // If a later thread fails to start, dropping this value ends the earlier ones.
        let judge = Self { desk: Arc::new(desk), realm: keys.realm.as_str().into() };
        for _ in 0..JUDGES {
            // The library locks a credential while it reads the file, so each thread has its own.
            let keytab = Keytab::open(&keys.keytab).map_err(|e| {
                format!("{}: {e}; export the keys of cifs/HOST to it", keys.keytab.display())
            })?;
            let desk = judge.desk.clone();
            std::thread::Builder::new()
                .name("kerberos".into())
                .spawn(move || serve(&keytab, &desk))
                .map_err(|e| {
                    format!("cannot start a thread for Kerberos: {e}; raise TasksMax or LimitNPROC")
                })?;
        }
        Ok(judge)
    }

    /// Verifies a ticket of a client at the address `from`.
    ///
    /// # Errors
    /// The reason of the refusal, as a sentence.
    pub fn judge(
        &self,
        from: IpAddr,
        ticket: Vec<u8>,
    ) -> impl Future<Output = Result<AcceptedTicket, String>> + Send + 'static {
        let (verdict, judged) = oneshot::channel();
        // A displaced ticket's waiter notices the end of its channel.
        let has_place = self.desk.line.lock().line.join(site_of(from), (ticket, verdict)).is_ok();
        if has_place {
            self.desk.arrival.notify_one();
        }
        let realm = self.realm.clone();
        async move {
            if !has_place {
                return Err("too many tickets await verification".to_owned());
            }
            let judged = tokio::time::timeout(JUDGED_WITHIN, judged).await;
            let judged = judged.map_err(|_| {
                "the Kerberos library does not respond; check that the \
                                             keytab and the replay cache are readable"
            })?;
            let accepted = judged
                .map_err(|_| "too many tickets await verification, or the keys were replaced")?;
            shown(accepted.map_err(|error| error.to_string())?, &realm)
        }
    }
}

/// Main loop of a verification thread.
fn serve(keytab: &Keytab, desk: &TicketQueue) {
    let mut judged = None;
    while let Some((site, (ticket, verdict))) = desk.next(judged) {
        if !verdict.is_closed() {
            // The client may have stopped waiting.
            let _ = verdict.send(GssAcceptor::new(keytab).handle(keytab, &ticket));
        }
        judged = Some(site);
    }
}

/// Extracts the client from a verified ticket. Refuses service principals and expired tickets.
fn shown(accepted: AcceptedLogon, realm: &str) -> Result<AcceptedTicket, String> {
    let user = user_of(&accepted.principal, realm)?.to_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // The library accepts an expired ticket for some more minutes, but its session would expire at
    // once.
    if accepted.end_time <= now {
        let ago = now - accepted.end_time;
        return Err(format!(
            "the ticket of {user} expired {ago} s ago; compare the client's clock with the server's"
        ));
    }
    let sid = accepted.logon_info.as_deref().map(wire::pac::user_sid).transpose();
    let sid =
        sid.map_err(|error| format!("the PAC in the ticket of {user} is invalid: {}", error.what))?;
    Ok(AcceptedTicket {
        token: accepted.token,
        user,
        realm: realm.to_owned(),
        session_key: SessionKey::new(&accepted.key),
        end_time: accepted.end_time,
        sid,
    })
}

/// The local user name of a principal: the principal must be of `realm` and not a service.
fn user_of<'a>(principal: &'a str, realm: &str) -> Result<&'a str, String> {
    match principal.rsplit_once('@') {
        Some((user, of)) if of == realm && !user.is_empty() && !user.contains(['/', '\\', '@']) => {
            Ok(user)
        }
        _ => Err(format!("{principal} is not a user of the realm {realm}: check kerberos_realm")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kerberos_principal_of_another_realm_is_refused() {
        let user = |principal| user_of(principal, "EXAMPLE.ORG");
        assert_eq!(user("alice@EXAMPLE.ORG"), Ok("alice"));
        let others = [
            "alice@example.org",
            "alice@OTHER.EXAMPLE.ORG",
            "cifs/host@EXAMPLE.ORG",
            "a\\@b@EXAMPLE.ORG",
            "@EXAMPLE.ORG",
            "alice",
            "",
        ];
        for principal in others {
            assert!(user(principal).is_err(), "{principal}");
        }
    }

    #[test]
    fn missing_keytab_is_reported_with_a_remedy() {
        let keys = KerberosKeys { keytab: "/nowhere/keytab".into(), realm: "R".into(), line: None };
        // The error names the library if it is not installed.
        let why = Judge::load(&keys).unwrap_err();
        assert!(why.contains("/nowhere/keytab") && why.contains("cifs/HOST"), "{why}");
    }
}
