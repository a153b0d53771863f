//! Knowledge of hosts' names and addresses, without threads and without a resolver.
//!
//! Answers are refreshed before they are too old to count, so that a client in the middle of its
//! work never waits for a name service, and one that fails for a while changes nothing.

mod members;

use crate::limits::{
    CLIENT_NAMES_MAX, CLIENT_NAMES_PER_SITE_MAX, FIRST_ANSWER_WITHIN, HOST_ANSWER_MAX_AGE,
    HOST_LOOKUPS_MAX, HOST_REFRESH, HOST_RETRY, LOOKUP_SITE_BITS, LOOKUP_THREADS, LOOKUPS_PER_SITE,
    LOOKUPS_WAITING_MAX, LOOKUPS_WAITING_PER_SITE, REFRESH_THREADS, REFRESHES_PER_SITE,
};
use crate::site_line::SiteLine;
use ::limits::site_of;
pub use members::{GroupSet, MemberAnswer, MemberLookup};
use members::{MemberLines, Membership};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The names of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedNames {
    /// Hosts by name, in lower case.
    pub hosts: HashSet<String>,
    /// Netgroups.
    pub netgroups: Vec<String>,
}

/// Whether a rule is for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleVerdict {
    /// It is.
    Match,
    /// It is not.
    NoMatch,
    /// A look-up has to tell, which is under way.
    Pending,
    /// The look-up failed, or had no answer in time: the rule may be for the client.
    Unanswered,
}

impl From<bool> for RuleVerdict {
    fn from(is_match: bool) -> Self {
        if is_match { Self::Match } else { Self::NoMatch }
    }
}

/// Answer of the name services about a client's address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNames {
    /// Names that lead to the address, in lower case.
    pub names: Vec<String>,
}

impl ClientNames {
    /// Whether something of it is not in `other`.
    fn loses_by(&self, other: &Self) -> bool {
        self.names.iter().any(|one| !other.names.contains(one))
    }
}

/// A look-up to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The names of a client's address; with the short one, as netgroups have it, if the second is set.
    Client(IpAddr, bool),
    /// The addresses of a host.
    Host(String),
}

/// A look-up that was made, to be handed back.
#[derive(Debug)]
pub enum Answer {
    /// The names of a client. If a name service failed there may be more.
    Client { client: IpAddr, is_short: bool, found: ClientNames, has_failed: bool },
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

#[derive(Debug)]
struct Host {
    addresses: Option<(Vec<IpAddr>, Age)>,
    /// Since when it is wanted.
    since: Instant,
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
    /// What the last look-up found, where it lost something of `found`: it counts once another agrees.
    doubted: Option<ClientNames>,
    /// Which netgroups it is in.
    groups: Membership,
    /// Since when its names are wanted.
    since: Instant,
    /// Where it waits or is looked up.
    queue: Option<Queue>,
    /// A rule by name was for it since it was found.
    is_matched: AtomicBool,
    /// When it was asked for last, in milliseconds of the table.
    used: AtomicU64,
}

impl Client {
    /// The names that were found last, however long ago.
    fn names(&self) -> &[String] {
        self.found.as_ref().map(|(names, _)| names.names.as_slice()).unwrap_or_default()
    }

    /// Whether it has waited for an answer for as long as it may.
    fn is_overdue(&self, now: Instant) -> bool {
        let lapsed = self.found.as_ref().map(|(_, age)| age.known + HOST_ANSWER_MAX_AGE);
        let since = lapsed.map_or(self.since, |lapsed| lapsed.max(self.since));
        now.saturating_duration_since(since) >= FIRST_ANSWER_WITHIN
    }
}

/// Whose turn it is among the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    /// Of those that no entry is for yet: anybody's.
    Newcomers,
    /// Of those that an entry was for, to be refreshed.
    Regulars,
}

/// What clients are counted by in line: the owner of a /48 has as many of its parts as it likes.
fn lookup_site(address: IpAddr) -> IpAddr {
    match site_of(address) {
        IpAddr::V6(v6) => {
            let mask = u128::MAX << (128 - LOOKUP_SITE_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// See the module.
#[derive(Debug)]
pub struct NameTable {
    started: Instant,
    hosts: HashMap<String, Host>,
    netgroups: Arc<[String]>,
    /// The place of each in `netgroups`.
    netgroup_places: HashMap<String, usize>,
    clients: HashMap<IpAddr, Client>,
    member_lines: MemberLines,
    newcomers: SiteLine<IpAddr>,
    regulars: SiteLine<IpAddr>,
    /// Look-ups of clients at work: as many as there are threads at most.
    clients_asked: Vec<(IpAddr, Queue)>,
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
            netgroup_places: HashMap::new(),
            clients: HashMap::new(),
            member_lines: MemberLines::new(),
            newcomers: SiteLine::new(
                LOOKUPS_WAITING_MAX,
                LOOKUPS_WAITING_PER_SITE,
                LOOKUPS_PER_SITE,
            ),
            // Of what is remembered all may be due at once.
            regulars: SiteLine::new(CLIENT_NAMES_MAX, CLIENT_NAMES_MAX, REFRESHES_PER_SITE),
            clients_asked: Vec::new(),
            hosts_asked: 0,
        }
    }

    /// Adds the names of a configuration. All are looked up anew; what is known counts meanwhile.
    pub fn prepare(&mut self, wanted: &WantedNames, now: Instant) {
        for name in &wanted.hosts {
            let new = || Host { addresses: None, since: now, is_asked: false };
            let host = self.hosts.entry(name.clone()).or_insert_with(new);
            host.addresses.iter_mut().for_each(|(_, age)| age.due = now);
        }
        let known = self.netgroups.clone();
        let new: Vec<_> =
            wanted.netgroups.iter().filter(|group| !known.contains(group)).cloned().collect();
        for client in self.clients.values_mut() {
            client.groups.make_due(now);
            client.found.iter_mut().for_each(|(_, age)| age.due = now);
            // Nothing is known of short names until somebody wants them.
            if known.is_empty() && !new.is_empty() {
                (client.found, client.since) = (None, now);
            }
        }
        if !new.is_empty() {
            self.set_netgroups(known.iter().cloned().chain(new).collect());
        }
    }

    /// Takes away names that a configuration does not have.
    pub fn settle(&mut self, wanted: &WantedNames) {
        self.hosts.retain(|name, _| wanted.hosts.contains(name));
        if *self.netgroups != wanted.netgroups[..] {
            self.set_netgroups(wanted.netgroups.as_slice().into());
        }
    }

    /// Whether an address is one of a host's; none while that is not known. A name that is not wanted
    /// is nobody's, and one without an answer in time neither.
    pub fn is_host(&self, name: &str, address: IpAddr, now: Instant) -> Option<bool> {
        let Some(host) = self.hosts.get(name) else { return Some(false) };
        let Some((addresses, age)) = &host.addresses else {
            let is_overdue = now.saturating_duration_since(host.since) >= FIRST_ANSWER_WITHIN;
            return is_overdue.then_some(false);
        };
        // What has not been confirmed for so long does not count, and a failure is no answer to
        // wait for.
        Some(age.counts(now) && addresses.contains(&address.to_canonical()))
    }

    /// An entry by name is for a client: its next look-up is not held up by those of others.
    pub fn note_match(&self, client: IpAddr) {
        if let Some(client) = self.clients.get(&client.to_canonical()) {
            client.is_matched.store(true, Ordering::Relaxed);
        }
    }

    /// What is known of a client, and whether [`NameTable::ask`] is to be called.
    pub fn find(&self, client: IpAddr, now: Instant) -> (Option<Arc<ClientNames>>, bool) {
        let Some(client) = self.clients.get(&client.to_canonical()) else { return (None, true) };
        client.used.store(self.millis(now), Ordering::Relaxed);
        let known = client.found.as_ref().filter(|(_, age)| age.counts(now));
        let is_due = known.is_none_or(|(_, age)| age.due <= now);
        let names = known.map(|(names, _)| names.clone());
        let names = names.or_else(|| client.is_overdue(now).then(Arc::default));
        (names, is_due && client.queue.is_none())
    }

    /// A client is looked up, unless it is already or too many wait; whether there is work.
    pub fn ask(&mut self, client: IpAddr, now: Instant) -> bool {
        let address = client.to_canonical();
        if !self.find(address, now).1 {
            return false;
        }
        if !self.clients.contains_key(&address) {
            self.make_room(address);
        }
        let used = self.millis(now).into();
        let new = || Client {
            found: None,
            doubted: None,
            groups: Membership::new(),
            since: now,
            queue: None,
            is_matched: AtomicBool::new(false),
            used,
        };
        let client = self.clients.entry(address).or_insert_with(new);
        let (queue, line) = match *client.is_matched.get_mut() {
            true => (Queue::Regulars, &mut self.regulars),
            false => (Queue::Newcomers, &mut self.newcomers),
        };
        let Ok(displaced) = line.join(lookup_site(address), address) else { return false };
        client.queue = Some(queue);
        if let Some(displaced) = displaced.and_then(|address| self.clients.get_mut(&address)) {
            displaced.queue = None;
        }
        true
    }

    /// The next look-up that may begin.
    pub fn next(&mut self, now: Instant) -> Option<Lookup> {
        let of_queue = |queue| self.clients_asked.iter().filter(|(_, of)| *of == queue).count();
        let (newcomers, regulars) = (of_queue(Queue::Newcomers), of_queue(Queue::Regulars));
        if regulars < REFRESH_THREADS
            && let Some((_, client)) = self.regulars.begin()
        {
            return Some(self.begin(client, Queue::Regulars));
        }
        if self.hosts_asked + newcomers >= LOOKUP_THREADS {
            return None;
        }
        if self.hosts_asked < HOST_LOOKUPS_MAX {
            let due = |(name, host): (&String, &Host)| Some((host.due(now)?, name.clone()));
            let first = self.hosts.iter().filter_map(due).min();
            let first = first.filter(|(due, _)| *due <= now).map(|(_, name)| name);
            if let Some(name) = first {
                self.hosts.get_mut(&name)?.is_asked = true;
                self.hosts_asked += 1;
                return Some(Lookup::Host(name));
            }
        }
        if newcomers >= LOOKUP_THREADS - 1 {
            return None;
        }
        let (_, client) = self.newcomers.begin()?;
        Some(self.begin(client, Queue::Newcomers))
    }

    fn begin(&mut self, client: IpAddr, queue: Queue) -> Lookup {
        self.clients_asked.push((client, queue));
        Lookup::Client(client, !self.netgroups.is_empty())
    }

    fn line_of(&mut self, queue: Queue) -> &mut SiteLine<IpAddr> {
        match queue {
            Queue::Newcomers => &mut self.newcomers,
            Queue::Regulars => &mut self.regulars,
        }
    }

    /// For how long there is nothing to do, if nobody asks.
    pub fn idle_for(&self, now: Instant) -> Option<Duration> {
        let due = self.hosts.values().filter_map(|host| host.due(now)).min();
        due.map(|due| due.saturating_duration_since(now))
    }

    /// Takes an answer.
    pub fn handle_answer(&mut self, answer: Answer, now: Instant) {
        match answer {
            Answer::Client { client, is_short, found, has_failed } => {
                let at = self.clients_asked.iter().position(|(asked, _)| *asked == client);
                if let Some((_, queue)) = at.map(|at| self.clients_asked.swap_remove(at)) {
                    self.line_of(queue).end(lookup_site(client));
                }
                self.take_names(client, (is_short, found), has_failed, now);
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
        (is_short, found): (bool, ClientNames),
        has_failed: bool,
        now: Instant,
    ) {
        let is_of_these = is_short || self.netgroups.is_empty();
        // It has given way to others.
        let Some(client) = self.clients.get_mut(&client) else { return };
        client.queue = None;
        // It was asked for before somebody wanted short names: it is due still.
        if !is_of_these {
            return;
        }
        if let Some((known, age)) = client.found.as_mut().filter(|(_, age)| age.counts(now)) {
            // A service that starts anew says "no" as one that knows.
            let is_new_loss = known.loses_by(&found) && client.doubted.as_ref() != Some(&found);
            if has_failed || is_new_loss {
                if !has_failed {
                    client.doubted = Some(found);
                }
                age.due = now + HOST_RETRY;
                return;
            }
        }
        let is_certain = !has_failed && !found.names.is_empty();
        match &client.found {
            // Whatever the address was a member of by the lost name, it is not by another.
            Some((known, _)) if known.loses_by(&found) => client.groups.clear(now),
            Some((known, _)) if **known == found => {}
            _ => client.groups.make_due(now),
        }
        client.doubted = None;
        client.is_matched = AtomicBool::new(false);
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

    /// Of a site that has its share, else of all, that which was not asked for the longest goes, and
    /// before those that an entry was for the others.
    fn make_room(&mut self, address: IpAddr) {
        let site = site_of(address);
        let of_site = self.clients.keys().filter(|client| site_of(**client) == site).count();
        let is_site_full = of_site >= CLIENT_NAMES_PER_SITE_MAX;
        if !is_site_full && self.clients.len() < CLIENT_NAMES_MAX {
            return;
        }
        let may_go = |(client, _): &(&IpAddr, &Client)| !is_site_full || site_of(**client) == site;
        let worth = |(_, client): &(&IpAddr, &Client)| {
            (client.is_matched.load(Ordering::Relaxed), client.used.load(Ordering::Relaxed))
        };
        let least = self.clients.iter().filter(may_go).min_by_key(worth).map(|(client, _)| *client);
        let Some(address) = least else { return };
        let Some(client) = self.clients.remove(&address) else { return };
        self.member_lines.leave(address, &client.groups);
        if let Some(queue) = client.queue {
            self.line_of(queue).leave(lookup_site(address), &address);
        }
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
