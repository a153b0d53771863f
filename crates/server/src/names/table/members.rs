//! Membership of clients in netgroups: asked for apart from names, since a service that is slow to
//! answer about a netgroup must hold up no client that is known by its name.
//!
//! One client has one turn at a time, in which as many of its netgroups are asked for as its time
//! allows; the rest waits for its next turn, behind others.

use super::{Age, lookup_site};
use crate::limits::{
    CLIENT_NAMES_MAX, FIRST_ANSWER_WITHIN, LOOKUPS_WAITING_MAX, LOOKUPS_WAITING_PER_SITE,
    NETGROUPS_MAX,
};
use crate::site_line::SiteLine;
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

    fn with(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// With other places; those without one are left out.
    fn moved(self, place: impl Fn(usize) -> Option<usize>) -> Self {
        let mut moved = Self::default();
        self.places().filter_map(place).for_each(|at| moved.set(at, true));
        moved
    }
}

/// What is known of one client's netgroups.
#[derive(Debug)]
pub struct Membership {
    /// Netgroups that rules asked for.
    wanted: GroupSet,
    /// Those that still are to be asked for in this round.
    pending: GroupSet,
    /// Those that there is an answer for.
    known: GroupSet,
    /// Those that it is in.
    member: GroupSet,
    /// Those of `member` that the last look-up did not have: lost once another agrees.
    doubted: GroupSet,
    /// Of the last round that ended.
    age: Option<Age>,
    /// Since when the first of `pending` without an answer is waited for.
    since: Instant,
    /// An answer of this round may be mended by another look-up.
    is_uncertain: bool,
    /// It waits for its turn, or has it.
    queue: Option<Turn>,
}

/// Which line a client's turn is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Of clients that are in a netgroup.
    Members,
    /// Of all others.
    Strangers,
}

impl Membership {
    /// Nothing is known.
    pub fn new(now: Instant) -> Self {
        let none = GroupSet::default();
        Self {
            wanted: none,
            pending: none,
            known: none,
            member: none,
            doubted: none,
            age: None,
            since: now,
            is_uncertain: false,
            queue: None,
        }
    }

    /// All is to be asked anew; what is known counts meanwhile.
    pub fn make_due(&mut self, now: Instant) {
        self.age.iter_mut().for_each(|age| age.due = now);
        // What was asked for in this round may be out of date at its end.
        self.is_uncertain |= !self.pending.is_empty();
    }

    /// Whether the client is in a netgroup, none before that is known; and whether that is to be
    /// asked for. Without an answer in time it is not.
    pub fn find(&self, at: usize, now: Instant) -> (Option<bool>, bool) {
        let is_known = self.known.has(at) && self.age.is_none_or(|age| age.counts(now));
        let is_round_due = !self.pending.is_empty() || self.age.is_none_or(|age| age.due <= now);
        let is_due = self.queue.is_none() && (!is_known || is_round_due);
        if is_known {
            return (Some(self.member.has(at)), is_due);
        }
        let is_waited_for = self.pending.has(at);
        let is_overdue = now.saturating_duration_since(self.since) >= FIRST_ANSWER_WITHIN;
        ((is_waited_for && is_overdue).then_some(false), is_due || !is_waited_for)
    }

    /// A netgroup is wanted, and with it all others that are due.
    fn want(&mut self, at: usize, now: Instant) {
        if self.age.is_some_and(|age| !age.counts(now)) {
            self.known = GroupSet::default();
            self.member = GroupSet::default();
            self.doubted = GroupSet::default();
            self.age = None;
        }
        if self.pending.without(self.known).is_empty() {
            self.since = now;
        }
        self.wanted.set(at, true);
        let is_due = self.age.is_some_and(|age| age.due <= now);
        let due = if is_due { self.wanted } else { self.wanted.without(self.known) };
        self.pending = self.pending.with(due);
    }

    /// Takes the answers of a turn.
    fn take(&mut self, asked: GroupSet, found: GroupSet, is_uncertain: bool, now: Instant) {
        self.is_uncertain |= is_uncertain;
        for at in asked.places() {
            let is_lost = self.known.has(at) && self.member.has(at) && !found.has(at);
            let is_doubt = is_lost && !self.doubted.has(at);
            self.doubted.set(at, is_doubt);
            self.is_uncertain |= is_doubt;
            self.member.set(at, found.has(at) || is_doubt);
        }
        self.known = self.known.with(asked);
        self.pending = self.pending.without(asked);
        if self.pending.is_empty() {
            let is_certain = !std::mem::take(&mut self.is_uncertain);
            self.age = Some(Age::new(now, is_certain));
        }
    }

    fn move_places(&mut self, place: &impl Fn(usize) -> Option<usize>) {
        for set in [
            &mut self.wanted,
            &mut self.pending,
            &mut self.known,
            &mut self.member,
            &mut self.doubted,
        ] {
            *set = set.moved(place);
        }
    }
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
    /// Those to ask for.
    pub wanted: GroupSet,
}

/// What a turn found.
#[derive(Debug)]
pub struct MemberAnswer {
    /// The turn.
    pub lookup: MemberLookup,
    /// Netgroups that were asked for.
    pub asked: GroupSet,
    /// Those of them that the client is in.
    pub found: GroupSet,
    /// One was not found: it does not exist, or its service does not answer.
    pub are_missing: bool,
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
        let turn = if of.member.is_empty() { Turn::Strangers } else { Turn::Members };
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

    /// Whether a client whose names are known is in a netgroup, none before that is found out; and
    /// whether [`NameTable::ask_member`](super::NameTable::ask_member) is to be called. A netgroup
    /// that is not wanted has nobody.
    pub fn find_member(
        &self,
        client: IpAddr,
        netgroup: &str,
        now: Instant,
    ) -> (Option<bool>, bool) {
        let Some(at) = self.place_of(netgroup) else { return (Some(false), false) };
        match self.clients.get(&client.to_canonical()) {
            Some(client) => client.groups.find(at, now),
            None => (None, false),
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
        let names = client.and_then(|client| client.found.as_ref());
        let names = names.map(|(names, _)| names.names.as_slice()).unwrap_or_default();
        let hosts = names.iter().cloned().chain([address.to_string()]).collect();
        let wanted = client.map(|client| client.groups.pending).unwrap_or_default();
        Some(MemberLookup { client: address, hosts, netgroups, wanted })
    }

    /// Takes what a turn found.
    pub fn handle_members(&mut self, answer: MemberAnswer, now: Instant) {
        let MemberAnswer { lookup, asked, found, are_missing } = answer;
        let address = lookup.client;
        self.member_lines.end(address);
        let Some(client) = self.clients.get_mut(&address) else { return };
        client.groups.queue = None;
        // Places of another configuration say nothing.
        if Arc::ptr_eq(&lookup.netgroups, &self.netgroups) {
            client.groups.take(asked, found, are_missing, now);
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
