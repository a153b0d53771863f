//! A client machine: what it knows of its session, its slots, its names, its opens and
//! delegations.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use wire::nfs::{SessionId, StateId};

/// Names that a machine may have in its own directory.
pub const NAMES: u8 = 6;
/// Slots of a callback channel.
pub const CALLBACK_SLOTS: usize = 16;

/// What a machine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new file in its own directory.
    Make(u8),
    /// It goes.
    Remove(u8),
    /// It has another name.
    Rename(u8, u8),
    /// What is there.
    List,
    /// A shared file is opened.
    Open { file: u8, writes: bool, number: u32 },
    /// An open ends.
    Close { file: u8, number: u32, state_id: StateId },
    /// A delegation ends.
    GiveBack { file: u8, state_id: StateId },
    /// Nothing: the machine is there.
    Renew,
    /// It has nothing to take back.
    Complete,
}

impl Op {
    /// Whether the answer is to be kept for a retry.
    pub fn is_kept(self) -> bool {
        !matches!(self, Self::List)
    }
}

/// A request that was not answered yet.
#[derive(Clone, Debug)]
pub struct UnderWay {
    /// What it asks.
    pub op: Op,
    /// Its number as a call.
    pub xid: u32,
    /// How often it was sent.
    pub sent: u32,
    /// By which connection it was sent last.
    pub link: u32,
    /// In which step it was sent first.
    pub since: u64,
    /// It is to be sent again, not before this step.
    pub again: Option<u64>,
    /// It was answered so: it is sent again as if it had not been heard.
    pub heard: Option<Bytes>,
}

/// A slot, as its machine knows it.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// The number of the latest request.
    pub sequence: u32,
    /// The request at work.
    pub under_way: Option<UnderWay>,
    /// The latest request that was answered, and how.
    pub last: Option<(UnderWay, Bytes)>,
}

/// An open of a shared file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Which file.
    pub file: u8,
    /// It is for writing, too.
    pub writes: bool,
    /// What the server calls it.
    pub state_id: StateId,
}

/// A delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// Of which file.
    pub file: u8,
    /// It is for writing, too.
    pub writes: bool,
    /// What the server calls it.
    pub state_id: StateId,
    /// It was asked back.
    pub is_asked: bool,
}

/// Whether a machine is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is, and was within its lease.
    Here,
    /// It says nothing, for longer than its lease.
    Away {
        /// Somebody has asked for what only it may have, or it has nothing.
        is_needed: bool,
    },
    /// It has come back, and has not heard yet whether its session is there.
    Unsure {
        /// See [`Presence::Away`].
        is_needed: bool,
    },
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its number.
    pub number: usize,
    /// Its session.
    pub session: Option<SessionId>,
    /// Whether it is there.
    pub presence: Presence,
    /// It has said that it has nothing to take back, and may ask for more.
    pub is_complete: bool,
    /// The slots that it ever used.
    pub slots: Vec<Slot>,
    /// How many of them it may use.
    pub slots_max: u32,
    /// The last step in which it heard of fewer.
    pub fewer_since: u64,
    /// Names that are there for certain.
    pub names: BTreeSet<u8>,
    /// Names that something is done to.
    pub unsure: BTreeSet<u8>,
    /// When something was begun or ended last that is done to a name.
    pub touched: BTreeMap<u8, u64>,
    /// How many of its requests were answered.
    pub done: u64,
    /// Opens that it uses.
    pub opens: BTreeMap<u32, Open>,
    /// Delegations that it has.
    pub delegations: BTreeMap<[u8; 12], Delegation>,
    /// Delegations that it had.
    pub given_back: BTreeSet<[u8; 12]>,
    /// The number of the latest callback of each slot.
    pub callbacks: [u32; CALLBACK_SLOTS],
    /// It was told that callbacks do not reach it.
    pub is_deaf: bool,
    /// When it sent a request last, in nanoseconds.
    pub spoke_at: u64,
}

impl Machine {
    /// One that knows nothing yet.
    pub fn new(number: usize) -> Self {
        Self {
            number,
            session: None,
            presence: Presence::Here,
            is_complete: false,
            slots: Vec::new(),
            slots_max: 1,
            fewer_since: 0,
            names: BTreeSet::new(),
            unsure: BTreeSet::new(),
            touched: BTreeMap::new(),
            done: 0,
            opens: BTreeMap::new(),
            delegations: BTreeMap::new(),
            given_back: BTreeSet::new(),
            callbacks: [0; CALLBACK_SLOTS],
            is_deaf: false,
            spoke_at: 0,
        }
    }

    /// Whether it can ask for something.
    pub fn is_in_session(&self) -> bool {
        self.session.is_some() && !matches!(self.presence, Presence::Away { .. })
    }

    /// Whether it has a delegation that another's open of this file ends. One whose return is in
    /// flight may be met by an open that overtakes the return.
    pub fn has_against(&self, file: u8, writes: bool) -> bool {
        let returns = |of: &UnderWay| matches!(of.op, Op::GiveBack { file: at, .. } if at == file);
        let is_returning = self.under_way().any(|(_, one)| returns(one));
        let has = |one: &Delegation| one.file == file && (one.writes || writes);
        is_returning || self.delegations.values().any(has)
    }

    /// A slot that it may use and does not.
    pub fn free_slot(&mut self) -> Option<u32> {
        let count = self.slots_max as usize;
        if self.slots.len() < count {
            self.slots.resize_with(count, Slot::default);
        }
        let free = self.slots[..count].iter().position(|slot| slot.under_way.is_none())?;
        u32::try_from(free).ok()
    }

    /// The highest slot that is in use, with this one.
    pub fn highest(&self, at: u32) -> u32 {
        let used = self.slots.iter().rposition(|slot| slot.under_way.is_some()).unwrap_or(0);
        at.max(u32::try_from(used).unwrap_or(u32::MAX))
    }

    /// All requests that are not answered, and their slots.
    pub fn under_way(&self) -> impl Iterator<Item = (u32, &UnderWay)> {
        let slots = (0..).zip(&self.slots);
        slots.filter_map(|(at, slot)| Some((at, slot.under_way.as_ref()?)))
    }

    /// Whether a request waits to be sent again in this step.
    pub fn waits_to_send(&self, step: u64) -> impl Iterator<Item = u32> + '_ {
        let is_due = move |one: &UnderWay| one.again.is_some_and(|due| due <= step);
        self.under_way().filter(move |(_, one)| is_due(one)).map(|(at, _)| at)
    }

    /// What was asked back and is still there.
    pub fn asked_back(&self) -> Option<Delegation> {
        self.delegations.values().find(|one| one.is_asked).copied()
    }

    /// It is told how many slots it may use, in the answer to a request of this step.
    ///
    /// What was asked before it heard of fewer may be older than that.
    pub fn hear_slots(&mut self, highest: u32, since: u64, now: u64) {
        let count = highest + 1;
        if count < self.slots_max {
            self.slots_max = count;
            self.fewer_since = now;
        } else if since > self.fewer_since {
            self.slots_max = count;
        }
    }
}
