//! Tickets that clients show, judged by the system's Kerberos with the keys of a keytab.
//!
//! On a thread of their own: the library reads the keytab and its list of tickets seen for each of
//! them, as whoever the thread acts as, and threads that serve act as one user or another.

use crate::config::KerberosKeys;
use gss::{Accepted, Acceptor, Keytab};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use wire::crypto::SessionKey;
use wire::spnego::{Shown, Tickets};

/// Tickets that wait at the same time; who shows one more waits for room.
const WAITING_MAX: usize = 64;

/// A ticket, and who waits for what it comes to.
type Case = (Vec<u8>, SyncSender<Result<Accepted, gss::Error>>);

/// Keys, and whose tickets count. Its thread ends with it.
#[derive(Debug)]
pub struct Judge {
    cases: SyncSender<Case>,
    realm: String,
}

impl Judge {
    /// Keys as the configuration names them. The file is read again for each ticket, so that
    /// changed keys count at once.
    ///
    /// # Errors
    /// In words: no library, or no keytab that can be read.
    pub fn load(keys: &KerberosKeys) -> Result<Self, String> {
        let keytab = Keytab::open(&keys.keytab).map_err(|e| {
            format!("{}: {e}; export the keys of cifs/HOST to it", keys.keytab.display())
        })?;
        let (cases, arriving) = sync_channel(WAITING_MAX);
        std::thread::Builder::new()
            .name("kerberos".into())
            .spawn(move || judge(&keytab, &arriving))
            .map_err(|e| format!("no thread for Kerberos: {e}"))?;
        Ok(Self { cases, realm: keys.realm.clone() })
    }
}

fn judge(keytab: &Keytab, arriving: &Receiver<Case>) {
    for (token, waits) in arriving {
        let judged = Acceptor::new(keytab).handle(keytab, &token);
        // Who does not wait any more has gone.
        let _ = waits.send(judged);
    }
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

impl Tickets for Judge {
    fn accept(&self, token: &[u8]) -> Result<Shown, String> {
        let (waits, judged) = sync_channel(1);
        let gone = "the thread for Kerberos has ended";
        self.cases.send((token.to_vec(), waits)).map_err(|_| gone)?;
        let accepted = judged.recv().map_err(|_| gone)?.map_err(|e| e.to_string())?;
        let user = user_of(&accepted.principal, &self.realm)?.to_owned();
        let session_key = SessionKey::new(&accepted.key);
        Ok(Shown { token: accepted.token, user, realm: self.realm.clone(), session_key })
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
