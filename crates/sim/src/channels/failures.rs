//! Failures: lost or given-up channels, machines that lose all channels, a server that dies.

use super::machine::{
    ChannelOpenStatus, ChannelOperation, KEPT_NANOS, LockStatus, RequestedDurability,
};
use super::referee::{Certainty, RefereeOwner};
use super::world::{ChannelWorld, environment};
use crate::process::Process;

impl ChannelWorld {
    /// Injects a failure with a low probability.
    pub(super) fn trouble(&mut self) -> Result<(), String> {
        let dice = self.random.next() as u32 % 10_000;
        let super::ChannelPlan { cuts, losses, deaths, rests, .. } = self.plan;
        if dice < cuts {
            self.lose_one()
        } else if dice < cuts + losses {
            let machine = self.random.below(self.machines.len());
            self.note(format!("{machine} loses its connections"));
            self.lose_all(machine, Certainty::Kept)
        } else if dice < cuts + losses + deaths {
            self.die()
        } else if dice < cuts + losses + deaths + rests {
            self.rest(true)
        } else {
            Ok(())
        }
    }

    /// Cuts a channel, or lets its client give it up.
    fn lose_one(&mut self) -> Result<(), String> {
        let live = |l: &super::link::ChannelLink| !l.is_cut && !l.is_given_up;
        let links: Vec<u32> = self.links.iter().filter(|(_, l)| live(l)).map(|(n, _)| *n).collect();
        if links.is_empty() {
            return Ok(());
        }
        let number = self.random.pick(&links);
        let gives_up = self.random.percent(40) && self.links[&number].is_ready();
        self.lose(number, gives_up)
    }

    /// The client continues without a connection.
    pub(super) fn lose(&mut self, number: u32, gives_up: bool) -> Result<(), String> {
        let Some(link) = self.links.get(&number) else { return Ok(()) };
        let (machine, was_given_up) = (link.machine, link.is_given_up);
        let is_of_session = self.machines[machine].session.as_ref().map(|s| s.id);
        let was_ready = link.is_ready() && Some(link.session) == is_of_session;
        self.note(format!(
            "{number} of {machine} is {}",
            if gives_up { "given up" } else { "cut" }
        ));
        if gives_up {
            self.counts.given_up += 1;
            if let Some(link) = self.links.get_mut(&number) {
                link.is_given_up = true;
            }
        } else {
            self.counts.cut += 1;
            self.cut(number)?;
        }
        if was_given_up || !was_ready {
            return Ok(());
        }
        let is_ending = self.machines[machine].session.as_ref().is_some_and(|s| s.is_ending);
        if is_ending || !self.has_ready_link(machine) {
            return self.lose_all(machine, Certainty::Kept);
        }
        self.go_on_elsewhere(machine, number, gives_up);
        Ok(())
    }

    fn has_ready_link(&self, machine: usize) -> bool {
        let session = self.machines[machine].session.as_ref().map(|s| s.id);
        self.links
            .values()
            .any(|l| l.machine == machine && l.is_ready() && Some(l.session) == session)
    }

    /// The server notices the loss of a connection.
    pub(super) fn cut(&mut self, number: u32) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        link.is_cut = true;
        match link.side.take() {
            Some(side) => self.end_side(number, side),
            // A fiber owns it, and notices the loss.
            None => {
                link.on_the_way.clear();
                Ok(())
            }
        }
    }

    /// Retransmits the requests in flight of a lost channel on another channel.
    fn go_on_elsewhere(&mut self, machine: usize, number: u32, gives_up: bool) {
        if let Some(session) = &mut self.machines[machine].session {
            session.sequence = session.sequence.wrapping_add(1);
        }
        let lost: Vec<u32> = self
            .pending
            .iter()
            .filter(|(_, p)| p.machine == machine && p.link == number)
            .map(|(n, _)| *n)
            .collect();
        for op in lost {
            let is_named = self.is_named(op);
            let makes = matches!(self.pending[&op].op, ChannelOperation::Create { .. });
            if makes && (!is_named || gives_up) {
                // The server may create an open unknown to its client. It may create two, if the
                // first transmission arrives after the client has used its open.
                self.add_unknown_open(machine);
            }
            if makes && !is_named {
                self.lose_op(op);
            } else {
                self.schedule_resend(op, false);
            }
        }
        let lost = self.sent_back.extract_if(.., |(link, ..)| *link == number);
        let acknowledgments: Vec<_> = lost.map(|(_, _, what)| what).collect();
        self.machines[machine].acknowledgments.extend(acknowledgments);
    }

    fn add_unknown_open(&mut self, machine: usize) {
        if let Some(session) = &mut self.machines[machine].session {
            session.unknown_opens += 1;
        }
    }

    fn is_named(&self, number: u32) -> bool {
        let Some(pending) = self.pending.get(&number) else { return false };
        let handle = self.machines[pending.machine].handles.get(&pending.op.handle());
        handle.is_some_and(|handle| handle.durable.guid().is_some())
    }

    /// The outcome of a request becomes unknowable.
    pub(super) fn lose_op(&mut self, number: u32) {
        let Some(pending) = self.pending.remove(&number) else { return };
        let (machine, handle) = (pending.machine, pending.op.handle());
        match pending.op {
            ChannelOperation::Create { .. } | ChannelOperation::Close { .. } => {
                self.set_status(machine, handle, ChannelOpenStatus::Lost);
            }
            ChannelOperation::Reconnect { .. } => self.lose_return(machine, handle),
            ChannelOperation::Lock { cell, .. } | ChannelOperation::Unlock { cell, .. } => {
                if let Some(handle) = self.machines[machine].handles.get_mut(&handle) {
                    handle.locks.insert(cell, LockStatus::Unknown);
                }
            }
            ChannelOperation::Read { .. }
            | ChannelOperation::Write { .. }
            | ChannelOperation::Steal { .. } => {}
        }
    }

    /// The open may have been reconnected, and may wait anew.
    fn lose_return(&mut self, machine: usize, handle: u32) {
        let now = self.nanos();
        self.referee.mark_uncertain(handle, Certainty::Possible);
        if let Some(handle) = self.machines[machine].handles.get_mut(&handle) {
            (handle.status, handle.absent_since) = (ChannelOpenStatus::Absent, now);
        }
    }

    /// A session is about to end, so its state is no longer certain.
    pub(super) fn end_session_soon(&mut self, machine: usize, kept: Certainty) {
        if let Some(session) = &mut self.machines[machine].session {
            session.is_ending = true;
        }
        self.mark_state_uncertain(machine, kept);
    }

    /// A machine's state is preserved if the server promised that, else it may be gone.
    fn mark_state_uncertain(&mut self, machine: usize, kept: Certainty) {
        let handles = self.machines[machine].handles.values();
        let present: Vec<(u32, bool)> = handles
            .filter(|h| h.status == ChannelOpenStatus::Open)
            .map(|h| (h.number, h.is_persistent))
            .collect();
        for (handle, is_persistent) in present {
            self.referee
                .mark_uncertain(handle, if is_persistent { kept } else { Certainty::Possible });
        }
        for key in 0..=u8::MAX {
            self.referee.invalidate_cache(RefereeOwner::Key(machine, key));
        }
    }

    /// A machine has lost all connections, or its session.
    pub(super) fn lose_all(&mut self, machine: usize, kept: Certainty) -> Result<(), String> {
        self.mark_state_uncertain(machine, kept);
        let own = |l: &super::link::ChannelLink| l.machine == machine && !l.is_cut;
        let links: Vec<u32> = self.links.iter().filter(|(_, l)| own(l)).map(|(n, _)| *n).collect();
        links.into_iter().try_for_each(|link| self.cut(link))?;
        self.forget_session(machine);
        Ok(())
    }

    fn forget_session(&mut self, machine: usize) {
        let now = self.nanos();
        let Some(session) = self.machines[machine].session.take() else { return };
        self.machines[machine].previous = session.id;
        self.keys.remove(&session.id.0);
        let own = |p: &super::world::ChannelRequest| p.machine == machine;
        let lost: Vec<u32> = self.pending.iter().filter(|(_, p)| own(p)).map(|(n, _)| *n).collect();
        self.machines[machine].resend_queue.clear();
        for number in lost {
            // A CREATE with a CreateGuid is also valid in another session.
            let makes = matches!(self.pending[&number].op, ChannelOperation::Create { .. });
            if makes && self.is_named(number) && self.random.percent(60) {
                if let Some(pending) = self.pending.get_mut(&number) {
                    // In another session the response has another id.
                    pending.given_up_reply = None;
                }
                self.schedule_resend(number, false);
            } else {
                self.lose_op(number);
            }
        }
        let machine = &mut self.machines[machine];
        machine.acknowledgments.clear();
        machine.early.clear();
        for handle in machine.handles.values_mut() {
            if handle.status == ChannelOpenStatus::Open {
                let returns = Self::can_return(handle);
                handle.status =
                    if returns { ChannelOpenStatus::Absent } else { ChannelOpenStatus::Lost };
                handle.absent_since = now;
            } else if handle.status == ChannelOpenStatus::Lost && handle.session == session.number {
                handle.absent_since = now;
            }
        }
        let number = machine.number;
        self.sent_back.retain(|(_, of, _)| *of != number);
    }

    /// The server process dies and is restarted.
    fn die(&mut self) -> Result<(), String> {
        self.note("the process dies".into());
        self.counts.died += 1;
        let nanos = self.nanos();
        let environment =
            environment(&self.plan, &mut self.random, self.base, nanos, &self.journal);
        let vfs = self.process.vfs.kill(environment.clone());
        let written = self.random.below(4);
        let records = self.journal.die(written);
        self.bury()?;
        for machine in 0..self.machines.len() {
            self.lose_all(machine, Certainty::Kept)?;
        }
        self.settle_fates(nanos);
        self.process = Process::over(vfs, environment);
        self.process.restore(&records);
        Ok(())
    }

    /// Ends state that does not survive the server. The rest waits for its clients anew.
    fn settle_fates(&mut self, nanos: u64) {
        let steps = self.steps;
        for machine in &mut self.machines {
            let mut gone = Vec::new();
            for handle in machine.handles.values_mut() {
                let may_last = match handle.status {
                    ChannelOpenStatus::Opening
                    | ChannelOpenStatus::Lost
                    | ChannelOpenStatus::Closing
                    | ChannelOpenStatus::Returning => {
                        matches!(handle.durable, RequestedDurability::Persistent(_))
                    }
                    ChannelOpenStatus::Open | ChannelOpenStatus::Absent => handle.is_persistent,
                };
                handle.absent_since = nanos;
                if !may_last && handle.status != ChannelOpenStatus::Opening {
                    gone.push(handle.number);
                }
            }
            for number in gone {
                machine.handles.remove(&number);
                self.referee.mark_uncertain(number, Certainty::Gone(steps));
                self.referee.drop_cache(RefereeOwner::Handle(number));
            }
        }
    }

    /// Runs the fibers of a dead process to their end; their effects are discarded.
    fn bury(&mut self) -> Result<(), String> {
        self.process.environment.calm();
        self.process.environment.forget_journal();
        self.runner.bury()?;
        self.links.clear();
        Ok(())
    }

    /// True if the server must still preserve an open.
    pub(super) fn must_wait(&self, handle: &super::machine::ChannelOpen) -> bool {
        let margin = KEPT_NANOS / 20;
        handle.is_persistent && self.nanos() < handle.absent_since + KEPT_NANOS - margin
    }
}
