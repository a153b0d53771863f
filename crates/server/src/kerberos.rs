//! Tickets that clients show, judged by the system's Kerberos with the keys of a keytab.
//!
//! On threads of their own: the library reads the keytab and its list of tickets seen for each of
//! them, as the user that the thread acts as, and threads that serve act as one user or another.

use crate::config::KerberosKeys;
use crate::site_line::SiteLine;
use gss::{Accepted, Acceptor, Keytab};
use limits::site_of;
use smb::limits::WAITING_TICKETS_MAX;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use wire::crypto::SessionKey;
use wire::spnego::Shown;

/// Threads that judge: one that waits for a file does not hold up the next ticket.
const JUDGES: usize = 4;

/// Of those, the ones that one address may have at once: its slow tickets do not hold up others'.
const JUDGES_PER_SITE: usize = 2;

/// A client waits for so long at most.
const JUDGED_WITHIN: Duration = Duration::from_secs(10);

/// A ticket, and where the verdict goes.
type Case = (Vec<u8>, oneshot::Sender<Result<Accepted, gss::Error>>);

/// Tickets that wait for a judge.
#[derive(Debug)]
struct TicketLine {
    line: SiteLine<Case>,
    has_ended: bool,
}

/// The line, and how judges wait for it.
#[derive(Debug)]
struct Desk {
    line: Mutex<TicketLine>,
    arrival: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, TicketLine> {
        // No ticket is judged under the lock; what is in it is whole.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next ticket, after that of `judged` is; none once the keys are not used any more.
    fn next(&self, judged: Option<IpAddr>) -> Option<(IpAddr, Case)> {
        let mut line = self.lock();
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
            line = self.arrival.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Keys, and whose tickets count. Its threads end with it.
#[derive(Debug)]
pub struct Judge {
    desk: Arc<Desk>,
    realm: Arc<str>,
}

impl Drop for Judge {
    fn drop(&mut self) {
        self.desk.lock().has_ended = true;
        self.desk.arrival.notify_all();
    }
}

impl Judge {
    /// Keys as the configuration names them. The file is read again for each ticket, so that
    /// changed keys count at once.
    ///
    /// # Errors
    /// In words: no library, or no keytab that can be read.
    pub fn load(keys: &KerberosKeys) -> Result<Self, String> {
        let line = SiteLine::new(WAITING_TICKETS_MAX, WAITING_TICKETS_MAX, JUDGES_PER_SITE);
        let line = Mutex::new(TicketLine { line, has_ended: false });
        let desk = Desk { line, arrival: Condvar::new() };
        // Dropped where a later thread cannot be made, it ends the earlier ones.
        let judge = Self { desk: Arc::new(desk), realm: keys.realm.as_str().into() };
        for _ in 0..JUDGES {
            // The library locks a credential while it reads the file.
            let keytab = Keytab::open(&keys.keytab).map_err(|e| {
                format!("{}: {e}; export the keys of cifs/HOST to it", keys.keytab.display())
            })?;
            let desk = judge.desk.clone();
            std::thread::Builder::new()
                .name("kerberos".into())
                .spawn(move || serve(&keytab, &desk))
                .map_err(|e| format!("no thread for Kerberos: {e}"))?;
        }
        Ok(judge)
    }

    /// Judges a ticket of a client at an address.
    ///
    /// # Errors
    /// In words, why it is refused.
    pub fn judge(
        &self,
        from: IpAddr,
        ticket: Vec<u8>,
    ) -> impl Future<Output = Result<Shown, String>> + Send + 'static {
        let (verdict, judged) = oneshot::channel();
        // One that is displaced hears of it by the end of its channel.
        let has_place = self.desk.lock().line.join(site_of(from), (ticket, verdict)).is_ok();
        if has_place {
            self.desk.arrival.notify_one();
        }
        let realm = self.realm.clone();
        async move {
            if !has_place {
                return Err("too many tickets wait to be judged".to_owned());
            }
            let judged = tokio::time::timeout(JUDGED_WITHIN, judged).await;
            let judged = judged.map_err(|_| "the system's Kerberos does not answer; see whether the keytab and the replay cache can be read")?;
            let accepted = judged
                .map_err(|_| "too many tickets wait to be judged, or the keys are replaced")?;
            shown(accepted.map_err(|error| error.to_string())?, &realm)
        }
    }
}

/// A judge's life.
fn serve(keytab: &Keytab, desk: &Desk) {
    let mut judged = None;
    while let Some((site, (ticket, verdict))) = desk.next(judged) {
        if !verdict.is_closed() {
            // A client that does not wait any more has gone.
            let _ = verdict.send(Acceptor::new(keytab).handle(keytab, &ticket));
        }
        judged = Some(site);
    }
}

/// What a ticket shows of its client, if it is for a user and has not ended.
fn shown(accepted: Accepted, realm: &str) -> Result<Shown, String> {
    let user = user_of(&accepted.principal, realm)?.to_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // The library takes a ticket for some minutes more; such a session would have ended already.
    if accepted.end_time <= now {
        let ago = now - accepted.end_time;
        return Err(format!(
            "the ticket of {user} ended {ago} s ago; compare the client's clock with the server's"
        ));
    }
    let sid = accepted.logon_info.as_deref().map(wire::pac::user_sid).transpose();
    let sid =
        sid.map_err(|error| format!("the PAC in the ticket of {user} is wrong: {}", error.what))?;
    Ok(Shown {
        token: accepted.token,
        user,
        realm: realm.to_owned(),
        session_key: SessionKey::new(&accepted.key),
        end_time: accepted.end_time,
        sid,
    })
}

/// The user of this server that a principal is: one of the realm's, and no service.
fn user_of<'a>(principal: &'a str, realm: &str) -> Result<&'a str, String> {
    match principal.rsplit_once('@') {
        Some((user, of)) if of == realm && !user.is_empty() && !user.contains(['/', '\\', '@']) => {
            Ok(user)
        }
        _ => Err(format!("{principal} is no user of the realm {realm}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_users_of_the_one_realm_are_users_here() {
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
    fn a_keytab_that_is_not_there_is_named_with_what_to_do() {
        let keys = KerberosKeys { keytab: "/nowhere/keytab".into(), realm: "R".into(), line: None };
        // Where the library is not installed it says so.
        let why = Judge::load(&keys).unwrap_err();
        assert!(why.contains("/nowhere/keytab") && why.contains("cifs/HOST"), "{why}");
    }
}
