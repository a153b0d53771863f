//! Membership of clients in netgroups: asked for apart from names, since a service that is slow to
//! answer about a netgroup must hold up no client that is known by its name.
//!
//! One client has one turn at a time, in which as many of its netgroups are asked for as its time
//! allows; the rest waits for its next turn, behind others.

use super::{Age, Client, RuleVerdict, lookup_site};
use crate::limits::{
    CLIENT_NAMES_MAX, FIRST_ANSWER_WITHIN, HOST_ANSWER_MAX_AGE, HOST_RETRY, LOOKUPS_WAITING_MAX,
    LOOKUPS_WAITING_PER_SITE, NETGROUPS_MAX,
};
use crate::site_line::SiteLine;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Netgroups by their places in the table. While a configuration is prepared there are those of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSet([u64; GROUP_WORDS]);

const GROUP_WORDS: usize = NETGROUPS_MAX * 2 / 64;
const _: () = assert!(NETGROUPS_MAX.is_multiple_of(32));

impl GroupSet {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it has the netgroup of this place.
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & 1 << (at % 64) != 0)
    }

    /// Puts one in or takes it out.
    pub fn set(&mut self, at: usize, has: bool) {
        let Some(word) = self.0.get_mut(at / 64) else { return };
        let bit = 1 << (at % 64);
        *word = if has { *word | bit } else { *word & !bit };
    }

    /// The places of those in it, in order.
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..GROUP_WORDS * 64).filter(move |at| self.has(*at))
    }

    fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// With other places; those without one are left out.
    fn moved(self, place: impl Fn(usize) -> Option<usize>) -> Self {
        let mut moved = Self::default();
        self.places().filter_map(place).for_each(|at| moved.set(at, true));
        moved
    }
}

/// Answers about one client's netgroups.
#[derive(Debug)]
pub struct Membership {
    /// Netgroups that rules asked for.
    wanted: GroupSet,
    /// Netgroups that still are to be asked for in this round.
    pending: GroupSet,
    /// By the place of the netgroup; each has an age of its own.
    states: BTreeMap<usize, GroupState>,
    /// Answers of this round may be out of date: they are asked for again soon.
    is_uncertain: bool,
    /// It waits for its turn, or has it.
    queue: Option<Turn>,
}

/// The answer about a client and one netgroup. A netgroup whose look-up fails has no answer, and is
/// none that the client is not in.
#[derive(Clone, Copy, Debug)]
enum GroupState {
    /// The first answer is waited for.
    Asked { since: Instant },
    /// There is none: the last look-up failed.
    Failed { due: Instant },
    /// The last answer. A member that the last look-up did not have is doubted: lost once another
    /// look-up agrees.
    Answered { age: Age, is_member: bool, is_doubted: bool },
}

impl GroupState {
    /// Whether the client is in the netgroup, by an answer that is not too old.
    fn answer(&self, now: Instant) -> Option<bool> {
        match self {
            Self::Answered { age, is_member, .. } => age.counts(now).then_some(*is_member),
            Self::Asked { .. } | Self::Failed { .. } => None,
        }
    }

    /// Whether the netgroup is to be asked for, if it is not already.
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

    /// The verdict; of a netgroup without an answer by whether one is waited for.
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

    /// After a look-up that failed: the last answer goes on counting while it is young enough.
    fn after_failure(self, now: Instant) -> Self {
        let due = now + HOST_RETRY;
        match self {
            Self::Answered { age, is_member, is_doubted } if age.counts(now) => {
                Self::Answered { age: Age { due, ..age }, is_member, is_doubted }
            }
            _ => Self::Failed { due },
        }
    }

    /// After an answer.
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
    /// Nothing is known.
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

    /// All is to be asked anew; what is known counts meanwhile.
    pub fn make_due(&mut self, now: Instant) {
        self.states.values_mut().for_each(|state| state.make_due(now));
        // An answer of this round may be out of date at its end.
        self.is_uncertain |= !self.pending.is_empty();
    }

    /// The answers were for names that the client has lost: none counts any more.
    pub fn clear(&mut self, now: Instant) {
        let asked = |at| (at, GroupState::Asked { since: now });
        self.states = self.pending.places().map(asked).collect();
    }

    /// Whether the client is in a netgroup, and whether that is to be asked for.
    pub fn find(&self, at: usize, now: Instant) -> (RuleVerdict, bool) {
        let is_pending = self.pending.has(at);
        let Some(state) = self.states.get(&at) else { return (RuleVerdict::Pending, true) };
        let is_round_due = !self.pending.is_empty() || state.is_due(now);
        let is_lapsed = state.is_due(now) && state.answer(now).is_none();
        let is_due = self.queue.is_none() && is_round_due || is_lapsed && !is_pending;
        (state.verdict(is_pending, now), is_due)
    }

    /// A netgroup is wanted, and with it all others that are due.
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

    /// Takes the answers of a turn; what failed has none.
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

/// Which line a client's turn is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Of clients that are in a netgroup.
    Members,
    /// Of all others.
    Strangers,
}

/// A turn of one client: its netgroups are asked for in order, until its time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLookup {
    /// The client.
    pub client: IpAddr,
    /// Its names, and its address in numbers.
    pub hosts: Vec<String>,
    /// All netgroups of the table.
    pub netgroups: Arc<[String]>,
    /// Netgroups to ask for.
    pub wanted: GroupSet,
}

/// The outcome of a turn.
#[derive(Debug)]
pub struct MemberAnswer {
    /// The turn.
    pub lookup: MemberLookup,
    /// Netgroups that were asked for.
    pub asked: GroupSet,
    /// Netgroups of these that the client is in.
    pub found: GroupSet,
    /// Netgroups that have no answer: they do not exist, or their service does not answer.
    pub failed: GroupSet,
}

/// The clients that wait for a turn; one has it at a time.
#[derive(Debug)]
pub struct MemberLines {
    members: SiteLine<IpAddr>,
    strangers: SiteLine<IpAddr>,
    /// The turn at work: the C library asks for one netgroup at a time.
    at_work: Option<Turn>,
    /// The last turn was one of a member: both kinds go on, however many there are of the other.
    was_member: bool,
}

impl MemberLines {
    /// Nobody waits.
    pub fn new() -> Self {
        Self {
            members: SiteLine::new(CLIENT_NAMES_MAX, CLIENT_NAMES_MAX, 1),
            strangers: SiteLine::new(LOOKUPS_WAITING_MAX, LOOKUPS_WAITING_PER_SITE, 1),
            at_work: None,
            was_member: false,
        }
    }

    fn line(&mut self, turn: Turn) -> &mut SiteLine<IpAddr> {
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

    /// A client is not known any more.
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
    /// The place of a netgroup; none of one that is not wanted.
    fn place_of(&self, netgroup: &str) -> Option<usize> {
        self.netgroup_places.get(netgroup).copied()
    }

    /// Whether a client whose names are known is in a netgroup, and whether
    /// [`NameTable::ask_member`](super::NameTable::ask_member) is to be called. A netgroup that is
    /// not wanted has nobody.
    pub fn find_member(&self, client: IpAddr, netgroup: &str, now: Instant) -> (RuleVerdict, bool) {
        let Some(at) = self.place_of(netgroup) else { return (RuleVerdict::NoMatch, false) };
        match self.clients.get(&client.to_canonical()) {
            Some(client) => client.groups.find(at, now),
            None => (RuleVerdict::Pending, false),
        }
    }

    /// A client's netgroup is asked for, unless it is already or too many wait; whether there is work.
    pub fn ask_member(&mut self, client: IpAddr, netgroup: &str, now: Instant) -> bool {
        let address = client.to_canonical();
        let Some(at) = self.place_of(netgroup) else { return false };
        let Some(client) = self.clients.get_mut(&address) else { return false };
        client.groups.want(at, now);
        client.groups.queue.is_none() && self.queue_member(address)
    }

    /// A client waits for its turn; whether it does.
    fn queue_member(&mut self, address: IpAddr) -> bool {
        let Some(client) = self.clients.get_mut(&address) else { return false };
        let displaced = self.member_lines.join(address, &mut client.groups);
        let waits = client.groups.queue.is_some();
        if let Some(displaced) = displaced.and_then(|address| self.clients.get_mut(&address)) {
            displaced.groups.queue = None;
        }
        waits
    }

    /// The next turn; to be followed by [`NameTable::handle_members`](super::NameTable::handle_members).
    pub fn next_members(&mut self) -> Option<MemberLookup> {
        let address = self.member_lines.begin()?;
        let netgroups = self.netgroups.clone();
        let client = self.clients.get(&address);
        let names = client.map(Client::names).unwrap_or_default();
        let hosts = names.iter().cloned().chain([address.to_string()]).collect();
        let wanted = client.map(|client| client.groups.pending).unwrap_or_default();
        Some(MemberLookup { client: address, hosts, netgroups, wanted })
    }

    /// Takes what a turn found.
    pub fn handle_members(&mut self, answer: MemberAnswer, now: Instant) {
        let MemberAnswer { lookup, asked, found, failed } = answer;
        let address = lookup.client;
        self.member_lines.end(address);
        let Some(client) = self.clients.get_mut(&address) else { return };
        client.groups.queue = None;
        // Places of another configuration say nothing, nor does an answer for a name that was lost.
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

    /// Puts other netgroups in the place of those of the table.
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
