//! Clients: who they say they are, since when, and whether they have shown that our
//! answers reach them. RFC 8881 18.35, 18.36.4, 18.50.
//!
//! Pure but for the lock around it: no clock, no messages. What ends here is given back,
//! for whoever asked to let go of its sessions and files outside of the lock.

use crate::client::{Client, ClientFacts, Principal};
use crate::limits::{CLIENTS_MAX, UNCONFIRMED_CLIENTS_MAX};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::nfs::{ClientId, NfsStatus, Verifier};

/// An EXCHANGE_ID, as far as it decides which record is meant.
#[derive(Clone, Debug)]
pub struct Introduction {
    /// What the client calls itself.
    pub owner: Vec<u8>,
    /// Which life of it this is.
    pub verifier: Verifier,
    /// Who sent it.
    pub principal: Principal,
    /// A confirmed record is to be changed (EXCHGID4_FLAG_UPD_CONFIRMED_REC_A).
    pub updates: bool,
    /// What is shown of it.
    pub facts: ClientFacts,
}

/// The record that an EXCHANGE_ID leads to.
#[derive(Debug)]
pub struct Introduced {
    /// The record.
    pub client: Arc<Client>,
    /// Records that are gone by it.
    pub ended: Vec<Arc<Client>>,
}

/// Up to two records of one owner: the present one, and one that would take its place.
#[derive(Debug, Default)]
struct Owner {
    confirmed: Option<Arc<Client>>,
    unconfirmed: Option<Arc<Client>>,
}

/// All clients of the server.
#[derive(Debug)]
pub struct Clients {
    lease: Duration,
    /// Upper half of every client id: ids of another run of the server are not ours.
    instance: u32,
    next: u32,
    owners: HashMap<Vec<u8>, Owner>,
    ids: HashMap<ClientId, Arc<Client>>,
}

impl Clients {
    /// No clients. `instance` differs from one run of the server to the next.
    #[must_use]
    pub fn new(instance: u32, lease: Duration) -> Self {
        Self { lease, instance, next: 1, owners: HashMap::new(), ids: HashMap::new() }
    }

    /// How many there are, confirmed or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.ids.values()
    }

    /// The id of a client of this run.
    #[must_use]
    pub fn id(&self, number: u32) -> ClientId {
        ClientId(u64::from(self.instance) << 32 | u64::from(number))
    }

    /// The client with this id.
    ///
    /// # Errors
    /// STALE_CLIENTID if there is none.
    pub fn find(&self, id: ClientId) -> Result<Arc<Client>, NfsStatus> {
        self.ids.get(&id).cloned().ok_or(NfsStatus::STALE_CLIENTID)
    }

    /// Takes an EXCHANGE_ID: the nine cases of RFC 8881 18.35.4.
    ///
    /// # Errors
    /// NOENT, NOT_SAME, PERM for an update of what is not there, of another life, by
    /// another principal; CLID_INUSE where another principal's client has the name and
    /// uses it; DELAY if there are too many clients.
    pub fn introduce(&mut self, who: Introduction, now: Instant) -> Result<Introduced, NfsStatus> {
        let confirmed = self.owners.get(&who.owner).and_then(|owner| owner.confirmed.clone());
        if who.updates {
            return update(confirmed, &who);
        }
        let Some(present) = confirmed else {
            // Cases 1 and 4: new, or in place of one that was never confirmed.
            return self.add(who, now);
        };
        let is_same = present.verifier == who.verifier;
        match (present.principal == who.principal, is_same) {
            // Case 2: it asks again.
            (true, true) => {
                present.renew(now);
                Ok(Introduced { client: present, ended: Vec::new() })
            }
            // Case 5: it has restarted. What it had stays until it confirms that.
            (true, false) => self.add(who, now),
            // Case 3: another client with its name.
            (false, _) => {
                if present.holds_state() && !present.is_expired(now, self.lease) {
                    return Err(NfsStatus::CLID_INUSE);
                }
                self.remove(&present);
                let mut introduced = self.add(who, now)?;
                introduced.ended.push(present);
                Ok(introduced)
            }
        }
    }

    fn add(&mut self, who: Introduction, now: Instant) -> Result<Introduced, NfsStatus> {
        let mut ended = Vec::new();
        let former = self.owners.get(&who.owner).and_then(|owner| owner.unconfirmed.clone());
        ended.extend(former.or_else(|| self.oldest_unconfirmed()));
        ended.iter().for_each(|client| self.remove(client));
        if self.ids.len() >= CLIENTS_MAX {
            return Err(NfsStatus::DELAY);
        }
        let id = self.id(self.next);
        self.next = self.next.wrapping_add(1);
        let client = Arc::new(Client::new(id, who, now));
        self.owners.entry(client.owner.clone()).or_default().unconfirmed = Some(client.clone());
        self.ids.insert(id, client.clone());
        Ok(Introduced { client, ended })
    }

    /// Who has to make room for one more that is not confirmed.
    fn oldest_unconfirmed(&self) -> Option<Arc<Client>> {
        let unconfirmed = || self.ids.values().filter(|client| !client.is_confirmed());
        // Counting all of them each time would be dear, and is not needed below the limit.
        if self.ids.len() < UNCONFIRMED_CLIENTS_MAX
            || unconfirmed().count() < UNCONFIRMED_CLIENTS_MAX
        {
            return None;
        }
        unconfirmed().min_by_key(|client| client.renewed()).cloned()
    }

    /// A client has created a session: it gets our answers. Gives back the record of its
    /// life before, if there was one. RFC 8881 18.36.4, third phase.
    pub fn confirm(&mut self, client: &Arc<Client>) -> Option<Arc<Client>> {
        let owner = self.owners.get_mut(&client.owner)?;
        owner.unconfirmed.take_if(|unconfirmed| Arc::ptr_eq(unconfirmed, client))?;
        let former = owner.confirmed.replace(client.clone());
        client.confirm();
        if let Some(former) = &former {
            self.ids.remove(&former.id);
        }
        former
    }

    /// Forgets a client.
    pub fn remove(&mut self, client: &Arc<Client>) {
        self.ids.remove(&client.id);
        let Some(owner) = self.owners.get_mut(&client.owner) else { return };
        for record in [&mut owner.confirmed, &mut owner.unconfirmed] {
            record.take_if(|record| Arc::ptr_eq(record, client));
        }
        if owner.confirmed.is_none() && owner.unconfirmed.is_none() {
            self.owners.remove(&client.owner);
        }
    }

    /// Forgets those whose lease is over and who have nothing that they might come back
    /// for, or have been away for `courtesy`. To be asked about once a second.
    pub fn remove_expired(&mut self, now: Instant, courtesy: Duration) -> Vec<Arc<Client>> {
        let is_over = |client: &Arc<Client>| {
            client.is_expired(now, self.lease)
                && (!client.holds_state() || client.is_expired(now, courtesy))
        };
        let expired: Vec<Arc<Client>> = self.ids.values().filter(|c| is_over(c)).cloned().collect();
        expired.iter().for_each(|client| self.remove(client));
        expired
    }
}

/// Cases 6 to 9 of RFC 8881 18.35.4.
fn update(present: Option<Arc<Client>>, who: &Introduction) -> Result<Introduced, NfsStatus> {
    let client = present.ok_or(NfsStatus::NOENT)?;
    if client.verifier != who.verifier {
        return Err(NfsStatus::NOT_SAME);
    }
    if client.principal != who.principal {
        return Err(NfsStatus::PERM);
    }
    client.set_facts(who.facts.clone());
    Ok(Introduced { client, ended: Vec::new() })
}

#[cfg(test)]
mod tests;
