//! Machines that are absent for longer than their lease. The server keeps their state as a courtesy
//! until another client needs it, and then revokes all of it. RFC 8881 8.3, 8.4.3.

use super::SessionFault;
use super::machine::{NAMES, Presence, SessionMachine, SlotOperation};
use super::world::SessionWorld;

const SECOND: u64 = 1_000_000_000;
/// Minimum absence of a machine, in pieces after each of which all others renew their leases.
const ABSENCE_SECONDS: [u64; 4] = [31; 4];

impl SessionWorld {
    /// May make a machine absent while the run is quiescent; it returns after its lease has
    /// expired.
    pub(super) fn absence(&mut self) -> Result<(), String> {
        if !self.random.percent(self.plan.absences) {
            return Ok(());
        }
        let number = self.random.below(self.machines.len());
        if self.machines[number].presence != Presence::Here {
            return Ok(());
        }
        self.counts.away += 1;
        self.note(|| format!("{number} is away"));
        let machine = &mut self.machines[number];
        // The server drops a client without state when its lease expires.
        let has_nothing = machine.opens.is_empty() && machine.delegations.is_empty();
        machine.presence = Presence::Absent { is_needed: has_nothing };
        self.cut_all_of(number);
        for seconds in ABSENCE_SECONDS {
            self.environment.advance(seconds * SECOND);
            self.tick()?;
            self.renew_all()?;
        }
        Ok(())
    }

    /// Renews the leases of all present machines.
    pub(super) fn renew_all(&mut self) -> Result<(), String> {
        for number in 0..self.machines.len() {
            if self.machines[number].is_in_session() {
                self.begin(number, SlotOperation::Renew);
            }
        }
        self.settle()
    }

    fn cut_all_of(&mut self, machine: usize) {
        let links = self.links.iter().filter(|(_, l)| l.machine == machine && !l.is_cut);
        let links: Vec<u32> = links.map(|(number, _)| *number).collect();
        links.into_iter().for_each(|link| self.cut(link));
    }

    /// A machine returns, without knowing whether its state still exists.
    pub(super) fn return_from_absence(&mut self, number: usize) {
        if let Presence::Absent { is_needed } = self.machines[number].presence {
            self.note(|| format!("{number} is back"));
            self.machines[number].presence = Presence::Unsure { is_needed };
        }
    }

    /// Absent machines lose their state if this operation conflicts with it.
    pub(super) fn need(&mut self, requester: usize, op: SlotOperation) {
        let SlotOperation::Open { file, writes, .. } = op else { return };
        for machine in self.machines.iter_mut().filter(|machine| machine.number != requester) {
            let is_in_the_way = machine.has_against(file, writes);
            if let Presence::Absent { is_needed } | Presence::Unsure { is_needed } =
                &mut machine.presence
            {
                *is_needed |= is_in_the_way;
            }
        }
    }

    /// A machine learns that its session still exists.
    pub(super) fn session_still_exists(&mut self, number: usize) {
        let presence = std::mem::replace(&mut self.machines[number].presence, Presence::Here);
        if presence != Presence::Here {
            self.counts.kept += 1;
        }
    }

    /// A machine learns that its session is gone, and starts over. Its requests meanwhile were not
    /// executed.
    ///
    /// # Errors
    /// No other client needed its state.
    pub(super) fn lose(&mut self, number: usize) -> Result<(), String> {
        let presence = self.machines[number].presence;
        if presence != (Presence::Unsure { is_needed: true }) {
            return Err(format!("courtesy: {number} has lost its session, {presence:?}"));
        }
        self.note(|| format!("{number} has lost what it had"));
        self.counts.lost += 1;
        self.cut_all_of(number);
        let is_kept = self.plan.fault == Some(SessionFault::Hold);
        let now = self.steps;
        let before = std::mem::replace(&mut self.machines[number], SessionMachine::new(number));
        let machine = &mut self.machines[number];
        machine.names = before.names;
        machine.touched = (0..NAMES).map(|name| (name, now)).collect();
        machine.fewer_since = now;
        if is_kept {
            (machine.opens, machine.delegations) = (before.opens, before.delegations);
        }
        Ok(())
    }
}
