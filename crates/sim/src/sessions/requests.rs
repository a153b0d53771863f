//! Requests of machines, and failures.

use super::SessionFault;
use super::machine::{NAMES, SlotOperation};
use super::world::SessionWorld;

/// Maximum number of opens per machine.
const OPENS_MAX: usize = 4;

impl SessionWorld {
    /// Cuts connections, and changes the target number of slots.
    pub(super) fn trouble(&mut self) {
        let draw = |world: &mut Self, often: u32| world.random.next() % 10_000 < u64::from(often);
        let alive = |world: &Self| -> Vec<(u32, usize)> {
            let links = world.links.iter().filter(|(_, link)| !link.is_cut);
            links.map(|(number, link)| (*number, link.machine)).collect()
        };
        let links = alive(self);
        if draw(self, self.plan.cuts) && !links.is_empty() {
            let (link, _) = self.random.pick(&links);
            self.cut(link);
        }
        if draw(self, self.plan.losses) {
            let lost = self.random.below(self.machines.len());
            let of_it = alive(self).into_iter().filter(|(_, machine)| *machine == lost);
            of_it.for_each(|(link, _)| self.cut(link));
        }
        if draw(self, self.plan.aims) {
            let machine = self.random.below(self.machines.len());
            let slots = 1 + self.random.next() as u32 % self.plan.slots;
            let id = self.machines[machine].session;
            if let Some(session) = id.and_then(|id| self.server.find_session(id).ok()) {
                session.set_slot_target(slots);
                self.counts.aimed += 1;
                self.note(|| format!("{machine} is to use {slots} slots"));
            }
        }
    }

    /// Lets a machine send a request, or repeat an answered one.
    pub(super) fn ask(&mut self, machine: usize) {
        if self.plan.fault == Some(SessionFault::Slots) {
            self.machines[machine].slots_max = self.plan.slots;
        }
        if self.random.percent(10) {
            self.repeat_answered_request(machine);
        } else if self.machines[machine].free_slot().is_some()
            && let Some(op) = self.choose(machine)
        {
            self.begin(machine, op);
        }
    }

    /// A machine repeats an answered request, as if it had not received the reply.
    fn repeat_answered_request(&mut self, machine: usize) {
        let count = self.machines[machine].slots_max as usize;
        let slots = self.machines[machine].slots.iter_mut().take(count).enumerate();
        let mut idle: Vec<_> = slots.filter(|(_, slot)| slot.last.is_some()).collect();
        if idle.is_empty() {
            return;
        }
        let at = self.random.below(idle.len());
        let (at, slot) = &mut idle[at];
        let at = u32::try_from(*at).unwrap_or(u32::MAX);
        if let Some((mut in_flight, heard)) = slot.last.take() {
            in_flight.replayed_reply = Some(heard);
            in_flight.resend_at = Some(0);
            slot.in_flight = Some(in_flight);
            self.counts.replayed += 1;
            self.send(machine, at);
        }
    }

    fn choose(&mut self, machine: usize) -> Option<SlotOperation> {
        let file = self.random.small(self.plan.files);
        let number = self.number();
        let of_it = &mut self.machines[machine];
        Some(match self.random.below(12) {
            0..=5 => {
                let (from, to) = (self.random.small(NAMES), self.random.small(NAMES));
                if of_it.unsure.contains(&from) {
                    return None;
                }
                // Sometimes the machine sends a request that must fail.
                let is_there = of_it.names.contains(&from) != self.random.percent(10);
                let op = match is_there {
                    false => SlotOperation::Make(from),
                    true if from != to && self.random.percent(40) => {
                        if !of_it.unsure.insert(to) {
                            return None;
                        }
                        SlotOperation::Rename(from, to)
                    }
                    true => SlotOperation::Remove(from),
                };
                of_it.unsure.insert(from);
                of_it.touched.insert(from, self.steps);
                of_it.touched.insert(to, self.steps);
                op
            }
            6 => SlotOperation::List,
            7 => SlotOperation::Renew,
            8 | 9 if of_it.opens.len() < OPENS_MAX => {
                SlotOperation::Open { file, writes: self.random.percent(40), number }
            }
            10 if !of_it.delegations.is_empty() => {
                let at = self.random.below(of_it.delegations.len());
                let delegation = *of_it.delegations.values().nth(at)?;
                return self.end_delegation(machine, delegation.state_id);
            }
            _ => {
                let at = self.random.below(of_it.opens.len().max(1));
                let (number, open) = of_it.opens.iter().nth(at).map(|(n, open)| (*n, *open))?;
                of_it.opens.remove(&number);
                SlotOperation::Close { file: open.file, number, state_id: open.state_id }
            }
        })
    }

    /// A machine retransmits a request that was lost with a connection, or arrived too early.
    pub(super) fn send_again(&mut self, machine: usize) {
        let slots: Vec<u32> = self.machines[machine].waits_to_send(self.due()).collect();
        if !slots.is_empty() {
            let at = self.random.pick(&slots);
            self.counts.retransmitted += 1;
            self.send(machine, at);
        }
    }

    /// A machine returns a recalled delegation.
    pub(super) fn return_recalled(&mut self, machine: usize) {
        let Some(delegation) = self.machines[machine].recalled_delegation() else { return };
        if self.machines[machine].free_slot().is_none() {
            return;
        }
        if let Some(op) = self.end_delegation(machine, delegation.state_id) {
            self.begin(machine, op);
        }
    }

    fn end_delegation(&mut self, machine: usize, id: wire::nfs::StateId) -> Option<SlotOperation> {
        let is_kept = self.plan.fault == Some(SessionFault::UseReturnedDelegation);
        let of_it = &mut self.machines[machine];
        let delegation = of_it.delegations.get_mut(&id.other)?;
        delegation.is_recalled = false;
        let op = SlotOperation::ReturnDelegation {
            file: delegation.file,
            state_id: delegation.state_id,
        };
        if !is_kept {
            of_it.delegations.remove(&id.other);
        }
        of_it.returned.insert(id.other);
        Some(op)
    }
}
