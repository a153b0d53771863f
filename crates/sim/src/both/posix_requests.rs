//! Requests of NFS clients.

use super::MixedFault;
use super::posix::{CreateMode, PosixOpen, PosixRequest};
use super::windows::{SentRequest, WindowsOpenStatus};
use super::world::{MixedWorld, PosixLink};
use crate::channels::machine::{CELLS, LockStatus};
use crate::channels::referee::{Certainty, RefereeOpen, RefereeOwner, UNKNOWN, kinds};
use crate::sessions::messages;
use crate::sessions::world::LinkState;
use std::collections::BTreeMap;
use wire::nfs::StateId;
use wire::nfs::ops::{ChannelFromClient, ShareAccess};

/// Maximum number of opens per client.
const OPENS_MAX: usize = 4;

impl MixedWorld {
    /// Sends the first request of a connection: EXCHANGE_ID, or BIND_CONN_TO_SESSION if needed.
    pub(super) fn introduce(&mut self, machine: usize, link: &mut PosixLink) {
        let number = self.posix[machine].number;
        let Some(session) = self.posix[machine].session else {
            link.standing = LinkState::Introduces;
            link.on_the_way.push_back(messages::introduction(number));
            return;
        };
        if self.random.percent(50) {
            let xid = self.number();
            let both = ChannelFromClient::BackOrBoth;
            link.on_the_way.push_back(messages::binding(xid, session, both));
            self.posix[machine].bindings.insert(xid);
        }
    }

    /// Lets a client send a request.
    pub(super) fn ask_posix(&mut self, machine: usize) {
        if let Some(op) = self.choose_posix(machine) {
            self.begin_posix(machine, op);
        }
    }

    fn choose_posix(&mut self, machine: usize) -> Option<PosixRequest> {
        let names = self.plan.names;
        let name = self.random.small(names);
        match self.random.below(40) {
            0 => return Some(PosixRequest::List),
            1..=3 => return Some(PosixRequest::Look { name }),
            4 | 5 => return Some(PosixRequest::Remove { name }),
            6 | 7 => {
                let to = self.random.small(names);
                return (name != to).then_some(PosixRequest::Rename { from: name, to });
            }
            8 => {
                let own = &self.posix[machine].delegations;
                let id = *own.keys().nth(self.random.below(own.len().max(1)))?;
                return self.end_delegation(machine, id);
            }
            _ => {}
        }
        let own = &self.posix[machine];
        let is_open = |(number, o): (&u32, &PosixOpen)| {
            (o.status == WindowsOpenStatus::Open).then_some(*number)
        };
        let open: Vec<u32> = own.opens.iter().filter_map(is_open).collect();
        let count = own.opens.len();
        if open.is_empty() || (count < OPENS_MAX && self.random.percent(25)) {
            return (count < OPENS_MAX).then(|| self.draw_posix_op(machine, name));
        }
        let open = self.random.pick(&open);
        self.choose_on_open(machine, open)
    }

    fn draw_posix_op(&mut self, machine: usize, name: u8) -> PosixRequest {
        let number = self.number();
        let random = &mut self.random;
        let wants = [
            ShareAccess::WANT_ANY_DELEG,
            ShareAccess::WANT_WRITE_DELEG,
            ShareAccess::WANT_READ_DELEG,
            ShareAccess(0),
            ShareAccess::WANT_NO_DELEG,
        ];
        let open = PosixOpen {
            name,
            access: random.pick(&[1, 1, 2, 3, 3]),
            deny: random.pick(&[0, 0, 0, 0, 0, 0, 1, 2, 2, 3]),
            how: random.pick(&[
                CreateMode::Open,
                CreateMode::Open,
                CreateMode::OpenIf,
                CreateMode::OpenIf,
                CreateMode::Make,
            ]),
            want: random.pick(&wants),
            status: WindowsOpenStatus::Opening,
            state_id: StateId::CURRENT,
            object: None,
            locks: BTreeMap::new(),
            lock_id: None,
            is_locking: false,
        };
        self.posix[machine].opens.insert(number, open);
        PosixRequest::Open { open: number }
    }

    fn choose_on_open(&mut self, machine: usize, number: u32) -> Option<PosixRequest> {
        let own = &self.posix[machine];
        let open = own.opens.get(&number)?;
        let cell = self.random.small(CELLS);
        let may = |kind| open.access & kind != 0;
        let is_used = own.in_flight().any(|pending| open_of(pending.op) == Some(number));
        Some(match self.random.below(16) {
            0..=2 => return (!is_used).then_some(PosixRequest::Close { open: number }),
            3..=6 => {
                if open.is_locking {
                    return None;
                }
                let exclusive = may(kinds::WRITE) && (!may(kinds::READ) || self.random.percent(60));
                match open.locks.get(&cell) {
                    None => PosixRequest::Lock { open: number, cell, exclusive },
                    Some(LockStatus::Held) => {
                        PosixRequest::Unlock { open: number, cell, exclusive }
                    }
                    Some(_) => return None,
                }
            }
            7..=11 if may(kinds::WRITE) => PosixRequest::Write { open: number, cell },
            _ if may(kinds::READ) => PosixRequest::Read { open: number, cell },
            _ => return None,
        })
    }

    /// Returns a recalled delegation.
    pub(super) fn return_recalled(&mut self, machine: usize) {
        let own = &self.posix[machine].delegations;
        let recalled = own.iter().find(|(_, one)| one.is_recalled).map(|(id, _)| *id);
        if let Some(op) = recalled.and_then(|id| self.end_delegation(machine, id)) {
            self.begin_posix(machine, op);
        }
    }

    /// Stops relying on a delegation, and builds its return.
    pub(super) fn end_delegation(&mut self, machine: usize, id: [u8; 12]) -> Option<PosixRequest> {
        let own = &mut self.posix[machine];
        let delegation = own.delegations.remove(&id)?;
        own.returned.insert(id, delegation);
        if self.plan.fault != Some(MixedFault::UseReturnedDelegation) {
            self.referee.drop_cache(own.owner(delegation.file));
        }
        Some(PosixRequest::ReturnDelegation { id })
    }

    /// Sends a request, if a slot is free.
    pub(super) fn begin_posix(&mut self, machine: usize, op: PosixRequest) {
        let (xid, now) = (self.number(), self.steps);
        let Some(at) = self.posix[machine].free_slot() else { return };
        let mut held = Vec::new();
        match op {
            PosixRequest::Open { open } => self.begin_open(machine, open),
            PosixRequest::Close { open } => {
                self.referee.mark_uncertain(open, Certainty::Possible);
                self.set_status(machine, open, WindowsOpenStatus::Closing);
            }
            PosixRequest::Read { open, cell } => {
                held = self.referee.held_against(open, cell, false)
            }
            PosixRequest::Write { open, cell } => {
                held = self.referee.held_against(open, cell, true);
                let file = self.referee.open(open).map_or(UNKNOWN, |open| open.file);
                self.referee.ask_write(file, cell, xid.into(), now);
                self.referee.write_own(self.posix[machine].owner(file), cell, u64::MAX);
                self.of_posix.insert(xid);
            }
            PosixRequest::Lock { open, cell, exclusive } => {
                self.referee.ask_lock(open, cell, exclusive);
                self.set_range(machine, open, cell, Some(LockStatus::Asked), true);
            }
            PosixRequest::Unlock { open, cell, .. } => {
                if self.plan.fault != Some(MixedFault::Unlock) {
                    self.referee.mark_lock_uncertain(open, cell, Certainty::Possible);
                }
                self.set_range(machine, open, cell, Some(LockStatus::Asked), true);
            }
            PosixRequest::Remove { name } => self.names.begin(name, now),
            PosixRequest::Rename { from, to } => {
                self.names.begin(from, now);
                self.names.begin(to, now);
            }
            _ => {}
        }
        self.send_posix(machine, at, xid, SentRequest { op, sent_at: now, held });
    }

    fn send_posix(
        &mut self,
        machine: usize,
        at: usize,
        xid: u32,
        pending: SentRequest<PosixRequest>,
    ) {
        let op = pending.op;
        let own = &mut self.posix[machine];
        own.slots[at].sequence += 1;
        own.slots[at].in_flight = Some((xid, pending));
        let is_wrong = self.plan.fault == Some(MixedFault::Write) && xid.is_multiple_of(4);
        let value = u64::from(xid) | if is_wrong { 1 << 40 } else { 0 };
        let record = own.request(at, op, xid, value);
        let shown = open_of(op).and_then(|open| own.opens.get(&open));
        let shown = format!("{} asks {xid}: {op:?} {shown:?}", own.number);
        let ready: Vec<u32> = self
            .links
            .iter()
            .filter(|(_, l)| l.machine == machine && l.standing == LinkState::Ready)
            .map(|(number, _)| *number)
            .collect();
        let link = self.random.pick(&ready);
        if let (Some(link), Some(record)) = (self.links.get_mut(&link), record) {
            link.on_the_way.push_back(record);
        }
        self.note(|| shown);
    }

    fn begin_open(&mut self, machine: usize, number: u32) {
        let own = &self.posix[machine].opens[&number];
        let (name, access, share) = (own.name, own.access, kinds::ALL & !own.deny);
        let makes = own.how != CreateMode::Open;
        let (owner, standing) = (RefereeOwner::Handle(number), Certainty::Possible);
        self.of_posix.insert(number);
        let fact = RefereeOpen { file: UNKNOWN, owner, access, share, standing };
        self.referee.ask_open(number, fact);
        if makes {
            self.names.begin(name, self.steps);
        }
    }

    pub(super) fn set_status(&mut self, machine: usize, open: u32, status: WindowsOpenStatus) {
        if let Some(open) = self.posix[machine].opens.get_mut(&open) {
            open.status = status;
        }
    }

    pub(super) fn set_range(
        &mut self,
        machine: usize,
        open: u32,
        cell: u8,
        status: Option<LockStatus>,
        is_locking: bool,
    ) {
        let Some(open) = self.posix[machine].opens.get_mut(&open) else { return };
        open.is_locking = is_locking;
        match status {
            Some(status) => drop(open.locks.insert(cell, status)),
            None => drop(open.locks.remove(&cell)),
        }
    }
}

/// The open that a request refers to.
fn open_of(op: PosixRequest) -> Option<u32> {
    match op {
        PosixRequest::Open { open }
        | PosixRequest::Close { open }
        | PosixRequest::Read { open, .. }
        | PosixRequest::Write { open, .. }
        | PosixRequest::Lock { open, .. }
        | PosixRequest::Unlock { open, .. } => Some(open),
        _ => None,
    }
}
