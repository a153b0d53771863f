//! A client machine: its knowledge of its session, slots, names, opens and delegations.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use wire::nfs::{NfsSessionId, StateId};

/// Number of names in a machine's own directory.
pub const NAMES: u8 = 6;
/// Slots of the backchannel.
pub const CALLBACK_SLOTS: usize = 16;

/// A request of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotOperation {
    /// Creates a file in its own directory.
    Make(u8),
    /// Removes a file.
    Remove(u8),
    /// Renames a file.
    Rename(u8, u8),
    /// Lists its directory.
    List,
    /// Opens a shared file.
    Open { file: u8, writes: bool, number: u32 },
    /// Closes an open.
    Close { file: u8, number: u32, state_id: StateId },
    /// Returns a delegation.
    ReturnDelegation { file: u8, state_id: StateId },
    /// Renews the lease.
    Renew,
    /// RECLAIM_COMPLETE without anything to reclaim.
    Complete,
}

impl SlotOperation {
    /// True if the server must cache the reply for a retry.
    pub fn is_kept(self) -> bool {
        !matches!(self, Self::List)
    }
}

/// A request in flight.
#[derive(Clone, Debug)]
pub struct SlotRequest {
    /// The request.
    pub op: SlotOperation,
    /// Transaction id.
    pub xid: u32,
    /// Number of transmissions.
    pub sent: u32,
    /// The connection of its last transmission.
    pub link: u32,
    /// The step of its first transmission.
    pub since: u64,
    /// The earliest step of its retransmission.
    pub resend_at: Option<u64>,
    /// The reply, if the machine repeats an answered request.
    pub replayed_reply: Option<Bytes>,
}

/// A slot, as its machine knows it.
#[derive(Clone, Debug, Default)]
pub struct MachineSlot {
    /// Sequence id of the latest request.
    pub sequence: u32,
    /// The request in flight.
    pub in_flight: Option<SlotRequest>,
    /// The latest answered request, and its reply.
    pub last: Option<(SlotRequest, Bytes)>,
}

/// An open of a shared file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFileOpen {
    /// The file.
    pub file: u8,
    /// It includes write access.
    pub writes: bool,
    /// State id of the open.
    pub state_id: StateId,
}

/// A delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineDelegation {
    /// The file.
    pub file: u8,
    /// Write delegation.
    pub writes: bool,
    /// State id of the delegation.
    pub state_id: StateId,
    /// The server has recalled it.
    pub is_recalled: bool,
}

/// Presence of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Present, within its lease.
    Here,
    /// Absent, for longer than its lease.
    Absent {
        /// Another client needs its state, or it has none.
        is_needed: bool,
    },
    /// Back, without knowing whether its session still exists.
    Unsure {
        /// See [`Presence::Absent`].
        is_needed: bool,
    },
}

/// See the module.
#[derive(Clone, Debug)]
pub struct SessionMachine {
    /// Its number.
    pub number: usize,
    /// Its session.
    pub session: Option<NfsSessionId>,
    /// Its presence.
    pub presence: Presence,
    /// RECLAIM_COMPLETE has succeeded.
    pub is_complete: bool,
    /// All slots that it has used.
    pub slots: Vec<MachineSlot>,
    /// Number of slots that it may use.
    pub slots_max: u32,
    /// The last step in which the server reduced that number.
    pub fewer_since: u64,
    /// Names that certainly exist.
    pub names: BTreeSet<u8>,
    /// Names with a change in flight.
    pub unsure: BTreeSet<u8>,
    /// The last step in which a change of a name was requested or answered.
    pub touched: BTreeMap<u8, u64>,
    /// Number of its answered requests.
    pub done: u64,
    /// Its opens.
    pub opens: BTreeMap<u32, SharedFileOpen>,
    /// Its delegations.
    pub delegations: BTreeMap<[u8; 12], MachineDelegation>,
    /// Its former delegations.
    pub returned: BTreeSet<[u8; 12]>,
    /// Sequence id of the latest callback per slot.
    pub callbacks: [u32; CALLBACK_SLOTS],
    /// The server reported that its callback path is down.
    pub is_deaf: bool,
    /// Time of its last request, in nanoseconds.
    pub spoke_at: u64,
}

impl SessionMachine {
    /// A machine that knows nothing yet.
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
            returned: BTreeSet::new(),
            callbacks: [0; CALLBACK_SLOTS],
            is_deaf: false,
            spoke_at: 0,
        }
    }

    /// True if it can send requests.
    pub fn is_in_session(&self) -> bool {
        self.session.is_some() && !matches!(self.presence, Presence::Absent { .. })
    }

    /// True if it has a delegation that another client's open of this file must recall. A
    /// delegation whose return is in flight counts, because the open may overtake the return.
    pub fn has_against(&self, file: u8, writes: bool) -> bool {
        let returns = |of: &SlotRequest| matches!(of.op, SlotOperation::ReturnDelegation { file: at, .. } if at == file);
        let is_returning = self.in_flight().any(|(_, one)| returns(one));
        let has = |one: &MachineDelegation| one.file == file && (one.writes || writes);
        is_returning || self.delegations.values().any(has)
    }

    /// A free slot.
    pub fn free_slot(&mut self) -> Option<u32> {
        let count = self.slots_max as usize;
        if self.slots.len() < count {
            self.slots.resize_with(count, MachineSlot::default);
        }
        let free = self.slots[..count].iter().position(|slot| slot.in_flight.is_none())?;
        u32::try_from(free).ok()
    }

    /// The highest slot id in use, including this one.
    pub fn highest(&self, at: u32) -> u32 {
        let used = self.slots.iter().rposition(|slot| slot.in_flight.is_some()).unwrap_or(0);
        at.max(u32::try_from(used).unwrap_or(u32::MAX))
    }

    /// All requests in flight, with their slots.
    pub fn in_flight(&self) -> impl Iterator<Item = (u32, &SlotRequest)> {
        let slots = (0..).zip(&self.slots);
        slots.filter_map(|(at, slot)| Some((at, slot.in_flight.as_ref()?)))
    }

    /// Requests whose retransmission is due in this step.
    pub fn waits_to_send(&self, step: u64) -> impl Iterator<Item = u32> + '_ {
        let is_due = move |one: &SlotRequest| one.resend_at.is_some_and(|due| due <= step);
        self.in_flight().filter(move |(_, one)| is_due(one)).map(|(at, _)| at)
    }

    /// A recalled delegation that is not returned yet.
    pub fn recalled_delegation(&self) -> Option<MachineDelegation> {
        self.delegations.values().find(|one| one.is_recalled).copied()
    }

    /// The reply to a request of this step reports the number of usable slots.
    ///
    /// A request from before the last reduction may report an older number.
    pub fn handle_slots(&mut self, highest: u32, since: u64, now: u64) {
        let count = highest + 1;
        if count < self.slots_max {
            self.slots_max = count;
            self.fewer_since = now;
        } else if since > self.fewer_since {
            self.slots_max = count;
        }
    }
}
