//! Membership of clients in netgroups. It is looked up apart from names, because a slow netgroup
//! service must not delay clients that match by name.
//!
//! Each client has one time slice at a time for its netgroups; the rest waits for its next slice,
//! behind other clients.

use super::{Age, ClientNameEntry, RuleVerdict, lookup_site};
use crate::accounts::site_queue::SiteQueue;
use crate::limits::{
    CLIENT_NAMES_MAX, FIRST_ANSWER_WITHIN, HOST_ANSWER_MAX_AGE, HOST_RETRY, LOOKUPS_WAITING_MAX,
    LOOKUPS_WAITING_PER_SITE, NETGROUPS_MAX,
};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// A set of netgroups by their index in the table. A prepared configuration doubles their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSet([u64; GROUP_WORDS]);

const GROUP_WORDS: usize = NETGROUPS_MAX * 2 / 64;
const _: () = assert!(NETGROUPS_MAX.is_multiple_of(32));

impl GroupSet {
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the set contains the netgroup of this index.
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & 1 << (at % 64) != 0)
    }

    /// Adds or removes a netgroup.
    pub fn set(&mut self, at: usize, has: bool) {
        let Some(word) = self.0.get_mut(at / 64) else { return };
        let bit = 1 << (at % 64);
        *word = if has { *word | bit } else { *word & !bit };
    }

    /// The indices in the set, in order.
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..GROUP_WORDS * 64).filter(move |at| self.has(*at))
    }

    fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Maps the indices; indices without an image are dropped.
    fn moved(self, place: impl Fn(usize) -> Option<usize>) -> Self {
        let mut moved = Self::default();
        self.places().filter_map(place).for_each(|at| moved.set(at, true));
        moved
    }
}

/// Netgroup memberships of one client.
#[derive(Debug)]
pub struct Membership {
    /// Netgroups that rules have requested.
    wanted: GroupSet,
    /// Netgroups that are still to be looked up in this round.
    pending: GroupSet,
    /// State by index of the netgroup, each with its own age.
    states: BTreeMap<usize, GroupState>,
    /// Answers of this round may be outdated and are refreshed soon.
    is_uncertain: bool,
    /// The queue in which it waits or is looked up.
    queue: Option<Turn>,
}

/// Membership of a client in one netgroup. A failed look-up gives no answer; it does not exclude
/// membership.
#[derive(Clone, Copy, Debug)]
enum GroupState {
    /// Waits for the first answer.
    Asked { since: Instant },
    /// The last look-up failed.
    Failed { due: Instant },
    /// The last answer. A membership that the last look-up did not confirm is doubted, and lost
    /// once another look-up agrees.
    Answered { age: Age, is_member: bool, is_doubted: bool },
}

impl GroupState {
    /// The membership by an answer that has not expired.
    fn answer(&self, now: Instant) -> Option<bool> {
        match self {
            Self::Answered { age, is_member, .. } => age.counts(now).then_some(*is_member),
            Self::Asked { .. } | Self::Failed { .. } => None,
        }
    }

    /// Whether a look-up is due.
    fn is_due(&self, now: Instant) -> bool {
        match self {
            Self::Asked { .. } => true,
            Self::Failed { due } => *due <= now,
            Self::Answered { age, .. } => age.due <= now || !age.counts(now),
        }
    }

    fn make_due(&mut self, now: Instant) {
        match self {
            Self::Asked { .. } => {}
            Self::Failed { due } => *due = now,
            Self::Answered { age, .. } => age.due = now,
        }
    }

    /// The verdict; without an answer it depends on whether one is pending.
    fn verdict(&self, is_pending: bool, now: Instant) -> RuleVerdict {
        if let Some(is_member) = self.answer(now) {
            return is_member.into();
        }
        let since = match self {
            Self::Failed { .. } => return RuleVerdict::Unanswered,
            Self::Asked { since } => *since,
            Self::Answered { age, .. } => age.known + HOST_ANSWER_MAX_AGE,
        };
        let is_overdue = now.saturating_duration_since(since) >= FIRST_ANSWER_WITHIN;
        if is_pending && is_overdue { RuleVerdict::Unanswered } else { RuleVerdict::Pending }
    }

    /// The state after a failed look-up: a valid answer stays.
    fn after_failure(self, now: Instant) -> Self {
        let due = now + HOST_RETRY;
        match self {
            Self::Answered { age, is_member, is_doubted } if age.counts(now) => {
                Self::Answered { age: Age { due, ..age }, is_member, is_doubted }
            }
            _ => Self::Failed { due },
        }
    }

    /// The state after an answer.
    fn after_answer(self, found: bool, is_certain: bool, now: Instant) -> Self {
        match self {
            Self::Answered { age, is_member: true, is_doubted: false }
                if !found && age.counts(now) =>
            {
                let age = Age { due: now + HOST_RETRY, ..age };
                Self::Answered { age, is_member: true, is_doubted: true }
            }
            _ => {
                let age = Age::new(now, is_certain);
                Self::Answered { age, is_member: found, is_doubted: false }
            }
        }
    }
}

impl Membership {
    /// Nothing is known yet.
    pub fn new() -> Self {
        let none = GroupSet::default();
        Self {
            wanted: none,
            pending: none,
            states: BTreeMap::new(),
            is_uncertain: false,
            queue: None,
        }
    }

    /// Makes all look-ups due; cached answers count in the meantime.
    pub fn make_due(&mut self, now: Instant) {
        self.states.values_mut().for_each(|state| state.make_due(now));
        // An answer of the running round may be outdated at its end.
        self.is_uncertain |= !self.pending.is_empty();
    }

    /// Discards all answers, because they were for names that the client has lost.
    pub fn clear(&mut self, now: Instant) {
        let asked = |at| (at, GroupState::Asked { since: now });
        self.states = self.pending.places().map(asked).collect();
    }

    /// Whether the client is in a netgroup, and whether a look-up is due.
    pub fn find(&self, at: usize, now: Instant) -> (RuleVerdict, bool) {
        let is_pending = self.pending.has(at);
        let Some(state) = self.states.get(&at) else { return (RuleVerdict::Pending, true) };
        let is_round_due = !self.pending.is_empty() || state.is_due(now);
        let is_lapsed = state.is_due(now) && state.answer(now).is_none();
        let is_due = self.queue.is_none() && is_round_due || is_lapsed && !is_pending;
        (state.verdict(is_pending, now), is_due)
    }

    /// Requests a netgroup, and with it all others that are due.
    fn want(&mut self, at: usize, now: Instant) {
        self.wanted.set(at, true);
        for at in self.wanted.places() {
            let is_pending = self.pending.has(at);
            let state = self.states.entry(at).or_insert(GroupState::Asked { since: now });
            if is_pending || !state.is_due(now) {
                continue;
            }
            if matches!(state, GroupState::Answered { .. }) && state.answer(now).is_none() {
                *state = GroupState::Asked { since: now };
            }
            self.pending.set(at, true);
        }
    }

    /// Handles the answers of a time slice.
    fn take(&mut self, asked: GroupSet, found: GroupSet, failed: GroupSet, now: Instant) {
        for at in asked.places() {
            let state = self.states.entry(at).or_insert(GroupState::Asked { since: now });
            *state = match failed.has(at) {
                true => state.after_failure(now),
                false => state.after_answer(found.has(at), !self.is_uncertain, now),
            };
        }
        self.pending = self.pending.without(asked);
        self.is_uncertain &= !self.pending.is_empty();
    }

    fn is_member_of_any(&self) -> bool {
        let is_member =
            |state: &GroupState| matches!(state, GroupState::Answered { is_member: true, .. });
        self.states.values().any(is_member)
    }

    fn move_places(&mut self, place: &impl Fn(usize) -> Option<usize>) {
        for set in [&mut self.wanted, &mut self.pending] {
            *set = set.moved(place);
        }
        let states = std::mem::take(&mut self.states);
        self.states =
            states.into_iter().filter_map(|(at, state)| Some((place(at)?, state))).collect();
    }
}

/// The queues of clients for netgroup look-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Clients that are members of a netgroup.
    Members,
    /// All other clients.
    Strangers,
}

/// A time slice of one client: its netgroups are looked up in order until the time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLookup {
    /// The client.
    pub client: IpAddr,
    /// Its names and its numeric address.
    pub hosts: Vec<String>,
    /// All netgroups of the table.
    pub netgroups: Arc<[String]>,
    /// Netgroups to look up.
    pub wanted: GroupSet,
}

/// The outcome of a time slice.
#[derive(Debug)]
pub struct MemberAnswer {
    /// The time slice.
    pub lookup: MemberLookup,
    /// Netgroups that were looked up.
    pub asked: GroupSet,
    /// Netgroups that contain the client.
    pub found: GroupSet,
    /// Netgroups without an answer: they do not exist, or the service failed.
    pub failed: GroupSet,
}

/// The queues for time slices; one slice runs at a time.
#[derive(Debug)]
pub struct MemberLines {
    members: SiteQueue<IpAddr>,
    strangers: SiteQueue<IpAddr>,
    /// The queue of the running slice: the C library serves one netgroup look-up at a time.
    at_work: Option<Turn>,
    /// The last slice was a member's. The queues alternate, so that neither starves.
    was_member: bool,
}

impl MemberLines {
    /// Creates empty queues.
    pub fn new() -> Self {
        Self {
            members: SiteQueue::new(CLIENT_NAMES_MAX, CLIENT_NAMES_MAX, 1),
            strangers: SiteQueue::new(LOOKUPS_WAITING_MAX, LOOKUPS_WAITING_PER_SITE, 1),
            at_work: None,
            was_member: false,
        }
    }

    fn line(&mut self, turn: Turn) -> &mut SiteQueue<IpAddr> {
        match turn {
            Turn::Members => &mut self.members,
            Turn::Strangers => &mut self.strangers,
        }
    }

    fn join(&mut self, client: IpAddr, of: &mut Membership) -> Option<IpAddr> {
        let turn = if of.is_member_of_any() { Turn::Members } else { Turn::Strangers };
        let displaced = self.line(turn).join(lookup_site(client), client).ok()?;
        of.queue = Some(turn);
        displaced
    }

    /// Removes an evicted client.
    pub fn leave(&mut self, client: IpAddr, of: &Membership) {
        if let Some(turn) = of.queue {
            self.line(turn).leave(lookup_site(client), &client);
        }
    }

    fn begin(&mut self) -> Option<IpAddr> {
        if self.at_work.is_some() {
            return None;
        }
        let order = match self.was_member {
            true => [Turn::Strangers, Turn::Members],
            false => [Turn::Members, Turn::Strangers],
        };
        let (turn, client) = order.into_iter().find_map(|turn| {
            let (_, client) = self.line(turn).begin()?;
            Some((turn, client))
        })?;
        self.was_member = turn == Turn::Members;
        self.at_work = Some(turn);
        Some(client)
    }

    fn end(&mut self, client: IpAddr) {
        if let Some(turn) = self.at_work.take() {
            self.line(turn).end(lookup_site(client));
        }
    }
}

impl super::NameTable {
    /// Index of a netgroup; `None` if it is not in the table.
    fn place_of(&self, netgroup: &str) -> Option<usize> {
        self.netgroup_places.get(netgroup).copied()
    }

    /// Whether a client with known names is in a netgroup, and whether
    /// [`NameTable::ask_member`](super::NameTable::ask_member) must be called. A netgroup outside
    /// the table contains no clients.
    pub fn find_member(&self, client: IpAddr, netgroup: &str, now: Instant) -> (RuleVerdict, bool) {
        let Some(at) = self.place_of(netgroup) else { return (RuleVerdict::NoMatch, false) };
        match self.clients.get(&client.to_canonical()) {
            Some(client) => client.groups.find(at, now),
            None => (RuleVerdict::Pending, false),
        }
    }

    /// Queues a netgroup look-up of a client unless one is queued or the queue is full; returns
    /// whether there is new work.
    pub fn ask_member(&mut self, client: IpAddr, netgroup: &str, now: Instant) -> bool {
        let address = client.to_canonical();
        let Some(at) = self.place_of(netgroup) else { return false };
        let Some(client) = self.clients.get_mut(&address) else { return false };
        client.groups.want(at, now);
        client.groups.queue.is_none() && self.queue_member(address)
    }

    /// Queues a client for a time slice; returns whether it is queued.
    fn queue_member(&mut self, address: IpAddr) -> bool {
        let Some(client) = self.clients.get_mut(&address) else { return false };
        let displaced = self.member_lines.join(address, &mut client.groups);
        let waits = client.groups.queue.is_some();
        if let Some(displaced) = displaced.and_then(|address| self.clients.get_mut(&address)) {
            displaced.groups.queue = None;
        }
        waits
    }

    /// The next time slice; [`NameTable::handle_members`](super::NameTable::handle_members) must
    /// follow.
    pub fn next_members(&mut self) -> Option<MemberLookup> {
        let address = self.member_lines.begin()?;
        let netgroups = self.netgroups.clone();
        let client = self.clients.get(&address);
        let names = client.map(ClientNameEntry::names).unwrap_or_default();
        let hosts = names.iter().cloned().chain([address.to_string()]).collect();
        let wanted = client.map(|client| client.groups.pending).unwrap_or_default();
        Some(MemberLookup { client: address, hosts, netgroups, wanted })
    }

    /// Handles the outcome of a time slice.
    pub fn handle_members(&mut self, answer: MemberAnswer, now: Instant) {
        let MemberAnswer { lookup, asked, found, failed } = answer;
        let address = lookup.client;
        self.member_lines.end(address);
        let Some(client) = self.clients.get_mut(&address) else { return };
        client.groups.queue = None;
        // Indices of another configuration are meaningless, and so is an answer for a lost name.
        let numeric = address.to_string();
        let has_name = |host: &String| *host == numeric || client.names().contains(host);
        let are_all_present = lookup.hosts.iter().all(has_name);
        if Arc::ptr_eq(&lookup.netgroups, &self.netgroups) && are_all_present {
            client.groups.take(asked, found, failed, now);
        }
        if !client.groups.pending.is_empty() {
            self.queue_member(address);
        }
    }

    /// Replaces the netgroups of the table.
    pub(super) fn set_netgroups(&mut self, netgroups: Arc<[String]>) {
        let places = netgroups.iter().cloned().zip(0..).collect();
        self.netgroup_places = places;
        let former = std::mem::replace(&mut self.netgroups, netgroups);
        let place = |at: usize| self.netgroup_places.get(former.get(at)?).copied();
        for client in self.clients.values_mut() {
            client.groups.move_places(&place);
        }
    }
}
