//! Cache of host names and addresses, without threads and without a resolver.
//!
//! Answers are refreshed before they expire. So a working client never waits for a name service,
//! and a temporary failure changes nothing.

mod members;

use crate::accounts::site_queue::SiteQueue;
use crate::limits::{
    CLIENT_NAMES_MAX, CLIENT_NAMES_PER_SITE_MAX, FIRST_ANSWER_WITHIN, HOST_ANSWER_MAX_AGE,
    HOST_LOOKUPS_MAX, HOST_REFRESH, HOST_RETRY, LOOKUP_SITE_BITS, LOOKUP_THREADS, LOOKUPS_PER_SITE,
    LOOKUPS_WAITING_MAX, LOOKUPS_WAITING_PER_SITE, REFRESH_THREADS, REFRESHES_PER_SITE,
};
use ::limits::site_of;
pub use members::{GroupSet, MemberAnswer, MemberLookup};
use members::{MemberLines, Membership};
use sockets::HOST_ADDRESSES_MAX;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The names in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedNames {
    /// Host names in lower case.
    pub hosts: HashSet<String>,
    /// Netgroups.
    pub netgroups: Vec<String>,
}

/// Outcome of a rule for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleVerdict {
    /// The rule matches.
    Match,
    /// The rule does not match.
    NoMatch,
    /// A look-up in flight will decide.
    Pending,
    /// The look-up failed or timed out: the rule may match.
    Unanswered,
}

impl From<bool> for RuleVerdict {
    fn from(is_match: bool) -> Self {
        if is_match { Self::Match } else { Self::NoMatch }
    }
}

/// Names of a client address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNames {
    /// Confirmed names in lower case.
    pub names: Vec<String>,
    /// A look-up failed or timed out: there may be more names.
    pub is_incomplete: bool,
}

impl ClientNames {
    /// The outcome of a rule that these names led to.
    pub fn verdict(&self, verdict: RuleVerdict) -> RuleVerdict {
        match verdict {
            RuleVerdict::NoMatch if self.is_incomplete => RuleVerdict::Unanswered,
            other => other,
        }
    }

    /// Whether `other` lacks a name of this answer.
    fn loses_by(&self, other: &Self) -> bool {
        self.names.iter().any(|one| !other.names.contains(one))
    }
}

/// A look-up to perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuedLookup {
    /// The names of a client address; the flag requests the short name for netgroups.
    Client(IpAddr, bool),
    /// The addresses of a host.
    Host(String),
}

/// The result of a look-up.
#[derive(Debug)]
pub enum LookupAnswer {
    /// The names of a client. After a failure there may be more.
    Client { client: IpAddr, is_short: bool, found: ClientNames, has_failed: bool },
    /// The addresses of a host; `None` after a failure.
    Host { name: String, addresses: Option<Vec<IpAddr>> },
}

/// Time of an answer and of its next refresh.
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
struct HostNameEntry {
    /// The last answer; without addresses where none of the look-ups succeeded.
    addresses: Option<(Option<Vec<IpAddr>>, Age)>,
    /// The last answer has no address, unlike `addresses`: it counts once another answer agrees.
    is_loss_doubted: bool,
    /// Time since which the name is in the configuration.
    since: Instant,
    is_asked: bool,
}

impl HostNameEntry {
    /// Time of the next look-up; `None` while one is in flight.
    fn due(&self, now: Instant) -> Option<Instant> {
        let due = self.addresses.as_ref().map_or(now, |(_, age)| age.due);
        (!self.is_asked).then_some(due)
    }
}

#[derive(Debug)]
struct ClientNameEntry {
    found: Option<(Arc<ClientNames>, Age)>,
    /// The last answer, if it lacks a name of `found`: it counts once another answer agrees.
    doubted: Option<ClientNames>,
    /// Its netgroups.
    groups: Membership,
    /// Time since which its names are needed.
    since: Instant,
    /// The queue in which it waits or is looked up.
    queue: Option<Queue>,
    /// A rule by name matched it since the last answer.
    is_matched: AtomicBool,
    /// Last use, in milliseconds since the start of the table.
    used: AtomicU64,
}

impl ClientNameEntry {
    /// The last names, of any age.
    fn names(&self) -> &[String] {
        self.found.as_ref().map(|(names, _)| names.names.as_slice()).unwrap_or_default()
    }

    /// Whether its wait for an answer has timed out.
    fn is_overdue(&self, now: Instant) -> bool {
        let lapsed = self.found.as_ref().map(|(_, age)| age.known + HOST_ANSWER_MAX_AGE);
        let since = lapsed.map_or(self.since, |lapsed| lapsed.max(self.since));
        now.saturating_duration_since(since) >= FIRST_ANSWER_WITHIN
    }
}

/// The queues of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    /// Clients without a matching entry.
    Newcomers,
    /// Clients with a matching entry, for refreshes.
    Regulars,
}

/// The unit in which queued clients are counted: the owner of an IPv6 /48 has any number of its
/// /64s.
fn lookup_site(address: IpAddr) -> IpAddr {
    match site_of(address) {
        IpAddr::V6(v6) => {
            let mask = u128::MAX << (128 - LOOKUP_SITE_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The cache.
#[derive(Debug)]
pub struct NameTable {
    started: Instant,
    hosts: HashMap<String, HostNameEntry>,
    netgroups: Arc<[String]>,
    /// Index of each netgroup in `netgroups`.
    netgroup_places: HashMap<String, usize>,
    clients: HashMap<IpAddr, ClientNameEntry>,
    member_lines: MemberLines,
    newcomers: SiteQueue<IpAddr>,
    regulars: SiteQueue<IpAddr>,
    /// Client look-ups in flight: at most one per thread.
    clients_asked: Vec<(IpAddr, Queue)>,
    /// Host look-ups in flight.
    hosts_asked: usize,
}

impl NameTable {
    /// Creates an empty table.
    pub fn new(now: Instant) -> Self {
        Self {
            started: now,
            hosts: HashMap::new(),
            netgroups: Arc::default(),
            netgroup_places: HashMap::new(),
            clients: HashMap::new(),
            member_lines: MemberLines::new(),
            newcomers: SiteQueue::new(
                LOOKUPS_WAITING_MAX,
                LOOKUPS_WAITING_PER_SITE,
                LOOKUPS_PER_SITE,
            ),
            // All cached clients may be due at once.
            regulars: SiteQueue::new(CLIENT_NAMES_MAX, CLIENT_NAMES_MAX, REFRESHES_PER_SITE),
            clients_asked: Vec::new(),
            hosts_asked: 0,
        }
    }

    /// Adds the names of a configuration. All are looked up again; cached answers count in the
    /// meantime.
    pub fn prepare(&mut self, wanted: &WantedNames, now: Instant) {
        for name in &wanted.hosts {
            let new = || HostNameEntry {
                addresses: None,
                is_loss_doubted: false,
                since: now,
                is_asked: false,
            };
            let host = self.hosts.entry(name.clone()).or_insert_with(new);
            host.addresses.iter_mut().for_each(|(_, age)| age.due = now);
        }
        let known = self.netgroups.clone();
        let new: Vec<_> =
            wanted.netgroups.iter().filter(|group| !known.contains(group)).cloned().collect();
        for client in self.clients.values_mut() {
            client.groups.make_due(now);
            client.found.iter_mut().for_each(|(_, age)| age.due = now);
            // Short names were not looked up until a netgroup needs them.
            if known.is_empty() && !new.is_empty() {
                (client.found, client.since) = (None, now);
            }
        }
        if !new.is_empty() {
            self.set_netgroups(known.iter().cloned().chain(new).collect());
        }
    }

    /// Removes names that a configuration does not have.
    pub fn settle(&mut self, wanted: &WantedNames) {
        self.hosts.retain(|name, _| wanted.hosts.contains(name));
        if *self.netgroups != wanted.netgroups[..] {
            self.set_netgroups(wanted.netgroups.as_slice().into());
        }
    }

    /// Whether an address belongs to a host. A name outside the table has no addresses.
    pub fn find_host(&self, name: &str, address: IpAddr, now: Instant) -> RuleVerdict {
        let Some(host) = self.hosts.get(name) else { return RuleVerdict::NoMatch };
        match &host.addresses {
            Some((Some(addresses), age)) if age.counts(now) => {
                match addresses.contains(&address.to_canonical()) {
                    // The list may be cut off before the address.
                    false if addresses.len() >= HOST_ADDRESSES_MAX => RuleVerdict::Unanswered,
                    is_match => is_match.into(),
                }
            }
            // An expired answer does not count, and a failed look-up is not waited for.
            Some(_) => RuleVerdict::Unanswered,
            None => {
                let is_overdue = now.saturating_duration_since(host.since) >= FIRST_ANSWER_WITHIN;
                if is_overdue { RuleVerdict::Unanswered } else { RuleVerdict::Pending }
            }
        }
    }

    /// Records that an entry by name matched a client: other clients no longer delay its refresh.
    pub fn note_match(&self, client: IpAddr) {
        if let Some(client) = self.clients.get(&client.to_canonical()) {
            client.is_matched.store(true, Ordering::Relaxed);
        }
    }

    /// The cached names of a client, and whether [`NameTable::ask`] must be called.
    pub fn find(&self, client: IpAddr, now: Instant) -> (Option<Arc<ClientNames>>, bool) {
        let Some(client) = self.clients.get(&client.to_canonical()) else { return (None, true) };
        client.used.store(self.millis(now), Ordering::Relaxed);
        let known = client.found.as_ref().filter(|(_, age)| age.counts(now));
        let is_due = known.is_none_or(|(_, age)| age.due <= now);
        let names = known.map(|(names, _)| names.clone());
        let none = || Arc::new(ClientNames { names: Vec::new(), is_incomplete: true });
        let names = names.or_else(|| client.is_overdue(now).then(none));
        (names, is_due && client.queue.is_none())
    }

    /// Queues a client's look-up unless one is queued or the queue is full; returns whether there
    /// is new work.
    pub fn ask(&mut self, client: IpAddr, now: Instant) -> bool {
        let address = client.to_canonical();
        if !self.find(address, now).1 {
            return false;
        }
        if !self.clients.contains_key(&address) {
            self.make_room(address);
        }
        let used = self.millis(now).into();
        let new = || ClientNameEntry {
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

    /// The next look-up that may start.
    pub fn next(&mut self, now: Instant) -> Option<QueuedLookup> {
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
            let due =
                |(name, host): (&String, &HostNameEntry)| Some((host.due(now)?, name.clone()));
            let first = self.hosts.iter().filter_map(due).min();
            let first = first.filter(|(due, _)| *due <= now).map(|(_, name)| name);
            if let Some(name) = first {
                self.hosts.get_mut(&name)?.is_asked = true;
                self.hosts_asked += 1;
                return Some(QueuedLookup::Host(name));
            }
        }
        if newcomers >= LOOKUP_THREADS - 1 {
            return None;
        }
        let (_, client) = self.newcomers.begin()?;
        Some(self.begin(client, Queue::Newcomers))
    }

    fn begin(&mut self, client: IpAddr, queue: Queue) -> QueuedLookup {
        self.clients_asked.push((client, queue));
        QueuedLookup::Client(client, !self.netgroups.is_empty())
    }

    fn line_of(&mut self, queue: Queue) -> &mut SiteQueue<IpAddr> {
        match queue {
            Queue::Newcomers => &mut self.newcomers,
            Queue::Regulars => &mut self.regulars,
        }
    }

    /// Time until the next refresh is due, without new requests.
    pub fn idle_for(&self, now: Instant) -> Option<Duration> {
        let due = self.hosts.values().filter_map(|host| host.due(now)).min();
        due.map(|due| due.saturating_duration_since(now))
    }

    /// Handles the result of a look-up.
    pub fn handle_answer(&mut self, answer: LookupAnswer, now: Instant) {
        match answer {
            LookupAnswer::Client { client, is_short, found, has_failed } => {
                let at = self.clients_asked.iter().position(|(asked, _)| *asked == client);
                if let Some((_, queue)) = at.map(|at| self.clients_asked.swap_remove(at)) {
                    self.line_of(queue).end(lookup_site(client));
                }
                self.take_names(client, (is_short, found), has_failed, now);
            }
            LookupAnswer::Host { name, addresses } => {
                self.hosts_asked -= 1;
                self.take_addresses(&name, addresses, now);
            }
        }
    }

    fn take_names(
        &mut self,
        client: IpAddr,
        (is_short, mut found): (bool, ClientNames),
        has_failed: bool,
        now: Instant,
    ) {
        let is_of_these = is_short || self.netgroups.is_empty();
        // The client was evicted in the meantime.
        let Some(client) = self.clients.get_mut(&client) else { return };
        client.queue = None;
        // The answer predates the need for short names, so the client stays due.
        if !is_of_these {
            return;
        }
        if let Some((known, age)) = client.found.as_mut().filter(|(_, age)| age.counts(now)) {
            // A restarting name service denies names as if it knew.
            let is_new_loss = known.loses_by(&found) && client.doubted.as_ref() != Some(&found);
            if has_failed || is_new_loss {
                if !has_failed {
                    client.doubted = Some(found);
                }
                age.due = now + HOST_RETRY;
                return;
            }
        }
        found.is_incomplete = has_failed;
        let is_certain = !has_failed && !found.names.is_empty();
        match &client.found {
            // Memberships by a lost name do not apply to another name.
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
        let known = host.addresses.as_mut().filter(|(known, age)| {
            age.counts(now) && known.as_ref().is_some_and(|known| !known.is_empty())
        });
        // A restarting name service denies names as if it knew.
        if let (Some(found), Some((_, age))) = (&addresses, known)
            && found.is_empty()
            && !host.is_loss_doubted
        {
            host.is_loss_doubted = true;
            age.due = now + HOST_RETRY;
            return;
        }
        match (addresses, &mut host.addresses) {
            (None, Some((_, age))) => age.due = now + HOST_RETRY,
            (addresses, known) => {
                let is_certain = addresses.as_ref().is_some_and(|found| !found.is_empty());
                *known = Some((addresses, Age::new(now, is_certain)));
                host.is_loss_doubted = false;
            }
        }
    }

    /// Evicts the least recently used client, of a site at its limit or of all. Clients without a
    /// matching entry go first.
    fn make_room(&mut self, address: IpAddr) {
        let site = site_of(address);
        let of_site = self.clients.keys().filter(|client| site_of(**client) == site).count();
        let is_site_full = of_site >= CLIENT_NAMES_PER_SITE_MAX;
        if !is_site_full && self.clients.len() < CLIENT_NAMES_MAX {
            return;
        }
        let may_go =
            |(client, _): &(&IpAddr, &ClientNameEntry)| !is_site_full || site_of(**client) == site;
        let worth = |(_, client): &(&IpAddr, &ClientNameEntry)| {
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
