//! What is known of hosts' names and addresses, without threads and without a resolver.
//!
//! Answers are refreshed before they are too old to count, so that a client in the middle of its
//! work never waits for a name service, and one that fails for a while changes nothing.

use crate::limits::{
    CLIENT_NAMES_MAX, CLIENT_NAMES_PER_SITE_MAX, HOST_ANSWER_MAX_AGE, HOST_REFRESH, HOST_RETRY,
    LOOKUP_THREADS, LOOKUPS_PER_SITE, LOOKUPS_WAITING_MAX,
};
use crate::site_line::SiteLine;
use ::limits::site_of;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The names of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedNames {
    /// Hosts by name, in lower case.
    pub hosts: HashSet<String>,
    /// Netgroups.
    pub netgroups: Vec<String>,
}

/// What name services say of a client's address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNames {
    /// Names that lead to the address, in lower case.
    pub names: Vec<String>,
    /// Netgroups that one of them, or the address, is in.
    pub netgroups: Vec<String>,
}

/// A look-up to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The names of a client's address, and which of the netgroups it is in.
    Client(IpAddr, Arc<[String]>),
    /// The addresses of a host.
    Host(String),
}

/// A look-up that was made, to be handed back.
#[derive(Debug)]
pub enum Answer {
    /// The names of a client, and whether a name service failed: then there may be more.
    Client { client: IpAddr, netgroups: Arc<[String]>, found: ClientNames, has_failed: bool },
    /// The addresses of a host; none if a name service failed.
    Host { name: String, addresses: Option<Vec<IpAddr>> },
}

/// When something was found out, and is to be asked again.
#[derive(Clone, Copy, Debug)]
struct Age {
    known: Instant,
    due: Instant,
}

impl Age {
    fn new(now: Instant, is_certain: bool) -> Self {
        Self { known: now, due: now + if is_certain { HOST_REFRESH } else { HOST_RETRY } }
    }

    fn counts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.known) < HOST_ANSWER_MAX_AGE
    }
}

#[derive(Debug, Default)]
struct Host {
    addresses: Option<(Vec<IpAddr>, Age)>,
    is_asked: bool,
}

impl Host {
    /// Nothing is due while it is asked.
    fn due(&self, now: Instant) -> Option<Instant> {
        let due = self.addresses.as_ref().map_or(now, |(_, age)| age.due);
        (!self.is_asked).then_some(due)
    }
}

#[derive(Debug)]
struct Client {
    found: Option<(Arc<ClientNames>, Age)>,
    /// The netgroups that were asked for.
    netgroups: Arc<[String]>,
    is_asked: bool,
    /// When it was asked for last, in milliseconds of the table.
    used: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub struct NameTable {
    started: Instant,
    hosts: HashMap<String, Host>,
    netgroups: Arc<[String]>,
    clients: HashMap<IpAddr, Client>,
    line: SiteLine<IpAddr>,
    /// Look-ups of hosts at work.
    hosts_asked: usize,
}

impl NameTable {
    /// Nothing is wanted, nothing known.
    pub fn new(now: Instant) -> Self {
        Self {
            started: now,
            hosts: HashMap::new(),
            netgroups: Arc::default(),
            clients: HashMap::new(),
            line: SiteLine::new(LOOKUPS_WAITING_MAX, LOOKUPS_PER_SITE),
            hosts_asked: 0,
        }
    }

    /// Takes the names of a configuration. All are looked up anew; what is known counts meanwhile.
    pub fn configure(&mut self, wanted: &WantedNames, now: Instant) {
        self.hosts.retain(|name, _| wanted.hosts.contains(name));
        for name in &wanted.hosts {
            let host = self.hosts.entry(name.clone()).or_default();
            host.addresses.iter_mut().for_each(|(_, age)| age.due = now);
        }
        if *self.netgroups != wanted.netgroups[..] {
            self.netgroups = wanted.netgroups.as_slice().into();
        }
        let found = self.clients.values_mut().filter_map(|client| client.found.as_mut());
        found.for_each(|(_, age)| age.due = now);
    }

    /// Whether an address is one of a host's; none while that is not known.
    pub fn is_host(&self, name: &str, address: IpAddr, now: Instant) -> Option<bool> {
        let Some((addresses, age)) = &self.hosts.get(name)?.addresses else { return None };
        // What has not been confirmed for so long does not count, and a failure is no answer to
        // wait for.
        Some(age.counts(now) && addresses.contains(&address.to_canonical()))
    }

    /// What is known of a client, and whether [`NameTable::ask`] is to be called.
    pub fn find(&self, client: IpAddr, now: Instant) -> (Option<Arc<ClientNames>>, bool) {
        let Some(client) = self.clients.get(&client.to_canonical()) else { return (None, true) };
        client.used.store(self.millis(now), Ordering::Relaxed);
        let known = client.found.as_ref().filter(|(_, age)| age.counts(now));
        let is_of_these = Arc::ptr_eq(&client.netgroups, &self.netgroups);
        let is_due = known.is_none_or(|(_, age)| age.due <= now) || !is_of_these;
        let names = known.filter(|_| is_of_these).map(|(names, _)| names.clone());
        (names, is_due && !client.is_asked)
    }

    /// A client is looked up, unless it is already or too many wait; whether there is work.
    pub fn ask(&mut self, client: IpAddr, now: Instant) -> bool {
        let address = client.to_canonical();
        if !self.find(address, now).1 || !self.line.join(site_of(address), address) {
            return false;
        }
        if !self.clients.contains_key(&address) {
            self.make_room(address);
        }
        let used = self.millis(now).into();
        let netgroups = self.netgroups.clone();
        let new = || Client { found: None, netgroups, is_asked: true, used };
        self.clients.entry(address).or_insert_with(new).is_asked = true;
        true
    }

    /// The next look-up that may begin.
    pub fn next(&mut self, now: Instant) -> Option<Lookup> {
        if self.hosts_asked < LOOKUP_THREADS / 2 {
            let due = |(name, host): (&String, &Host)| Some((host.due(now)?, name.clone()));
            let first = self.hosts.iter().filter_map(due).min();
            if let Some((_, name)) = first.filter(|(due, _)| *due <= now) {
                self.hosts.entry(name.clone()).or_default().is_asked = true;
                self.hosts_asked += 1;
                return Some(Lookup::Host(name));
            }
        }
        let (_, client) = self.line.begin()?;
        Some(Lookup::Client(client, self.netgroups.clone()))
    }

    /// For how long there is nothing to do, if nobody asks.
    pub fn idle_for(&self, now: Instant) -> Option<Duration> {
        let due = self.hosts.values().filter_map(|host| host.due(now)).min();
        due.map(|due| due.saturating_duration_since(now))
    }

    /// Takes an answer.
    pub fn handle_answer(&mut self, answer: Answer, now: Instant) {
        match answer {
            Answer::Client { client, netgroups, found, has_failed } => {
                self.line.end(site_of(client));
                self.take_names(client, (netgroups, found), has_failed, now);
            }
            Answer::Host { name, addresses } => {
                self.hosts_asked -= 1;
                self.take_addresses(&name, addresses, now);
            }
        }
    }

    fn take_names(
        &mut self,
        client: IpAddr,
        (netgroups, found): (Arc<[String]>, ClientNames),
        has_failed: bool,
        now: Instant,
    ) {
        // It has given way to others.
        let Some(client) = self.clients.get_mut(&client) else { return };
        client.is_asked = false;
        let is_of_these = Arc::ptr_eq(&client.netgroups, &netgroups);
        let former = client.found.as_mut().filter(|(_, age)| is_of_these && age.counts(now));
        if let (true, Some((_, age))) = (has_failed, former) {
            age.due = now + HOST_RETRY;
            return;
        }
        let is_certain = !has_failed && !found.names.is_empty();
        client.netgroups = netgroups;
        client.found = Some((Arc::new(found), Age::new(now, is_certain)));
    }

    fn take_addresses(&mut self, name: &str, addresses: Option<Vec<IpAddr>>, now: Instant) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.is_asked = false;
        match (addresses, &mut host.addresses) {
            (None, Some((_, age))) => age.due = now + HOST_RETRY,
            (addresses, known) => {
                let addresses = addresses.unwrap_or_default();
                let is_certain = !addresses.is_empty();
                *known = Some((addresses, Age::new(now, is_certain)));
            }
        }
    }

    /// Of a site that has its share, else of all, that which was not asked for the longest goes.
    fn make_room(&mut self, address: IpAddr) {
        let site = site_of(address);
        let of_site = self.clients.keys().filter(|client| site_of(**client) == site).count();
        let is_site_full = of_site >= CLIENT_NAMES_PER_SITE_MAX;
        if !is_site_full && self.clients.len() < CLIENT_NAMES_MAX {
            return;
        }
        let may_go = |(client, _): &(&IpAddr, &Client)| !is_site_full || site_of(**client) == site;
        let used = |(_, client): &(&IpAddr, &Client)| client.used.load(Ordering::Relaxed);
        let oldest = self.clients.iter().filter(may_go).min_by_key(used).map(|(client, _)| *client);
        oldest.map(|client| self.clients.remove(&client));
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
