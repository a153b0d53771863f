//! Quiescence: the server's state matches its clients' knowledge. Then time advances.

use super::link::MessagePurpose;
use super::machine::{
    CELL_BYTES, CELLS, ChannelOpen, ChannelOpenStatus, ChannelOperation, DIRECTORY, KEPT_NANOS,
    RequestedDurability,
};
use super::referee::{Certainty, Referee, RefereeOwner};
use super::world::ChannelWorld;
use crate::runner::TurnOutcome;

/// Maximum number of time steps per quiescent state to let delayed password checks finish.
const JUDGEMENTS_MAX: u32 = 1000;
const SECOND: u64 = 1_000_000_000;
/// See [`smb::limits::RECONNECT_WAIT_MAX`].
const RECONNECT_NANOS: u64 = smb::limits::RECONNECT_WAIT_MAX.as_nanos() as u64;

impl ChannelWorld {
    /// Quiesces the run, checks its state, and advances time.
    pub(super) fn rest(&mut self, goes_on: bool) -> Result<(), String> {
        self.note("all comes to rest".into());
        self.counts.rested += 1;
        let given_up: Vec<u32> =
            self.links.iter().filter(|(_, l)| l.is_given_up).map(|(n, _)| *n).collect();
        given_up.into_iter().try_for_each(|link| self.cut(link))?;
        self.settle()?;
        // A reconnect to another connection's open waits for the end of that connection.
        if self.pending.values().any(|pending| matches!(pending.op, ChannelOperation::Steal { .. }))
        {
            self.pass(RECONNECT_NANOS);
        }
        self.tick()?;
        self.settle()?;
        self.wait_for_judgements()?;
        self.check_unanswered()?;
        self.referee.check_notified()?;
        self.each_file(|referee, file, found| referee.check_kept(file, found))?;
        self.sweep();
        self.check_sessions()?;
        if goes_on {
            self.leap()?;
        }
        Ok(())
    }

    /// Advances time until all password checks that follow failed ones are finished.
    fn wait_for_judgements(&mut self) -> Result<(), String> {
        for _ in 0..JUDGEMENTS_MAX {
            let sides = self.links.values().filter_map(|link| link.side.as_ref());
            let Some(due) = sides.filter_map(|side| side.due()).min() else { return Ok(()) };
            let now = smb::SmbHost::now(&*self.process.environment).instant;
            self.pass(due.saturating_duration_since(now).as_nanos() as u64);
            self.settle()?;
        }
        Err("passwords wait that are never judged".into())
    }

    /// Runs the server's periodic work.
    fn tick(&mut self) -> Result<(), String> {
        let tick = self.process.tick();
        self.start(0, move || {
            tick();
            TurnOutcome::Over
        })
    }

    fn leap(&mut self) -> Result<(), String> {
        let seconds = self.random.pick(&[0, 9, 36, 36, 61]);
        self.note(format!("{seconds} seconds pass"));
        if seconds > 34 {
            let silent = self.referee.time_out();
            self.note(format!("{silent} did not answer in time"));
        }
        self.pass(seconds * SECOND);
        // Several short advances may add up to a long one.
        self.last_leap = self.nanos();
        self.referee.mark_silent_uncertain(self.last_leap.saturating_sub(34 * SECOND));
        if self.random.percent(50) { self.tick() } else { Ok(()) }
    }

    fn pass(&mut self, nanos: u64) {
        let then = self.nanos() + nanos;
        let margin = KEPT_NANOS / 20;
        let handles = self.machines.iter().flat_map(|m| m.handles.values());
        let over: Vec<u32> = handles
            .filter(|h| {
                matches!(
                    h.status,
                    ChannelOpenStatus::Absent
                        | ChannelOpenStatus::Returning
                        | ChannelOpenStatus::Lost
                )
            })
            .filter(|h| then + margin > h.absent_since + KEPT_NANOS)
            .map(|h| h.number)
            .collect();
        over.into_iter()
            .for_each(|handle| self.referee.mark_uncertain(handle, Certainty::Possible));
        self.process.environment.advance(nanos);
    }

    /// Drops state that can no longer exist.
    fn sweep(&mut self) {
        let now = self.nanos();
        let steps = self.steps;
        for machine in &mut self.machines {
            let present = machine.session.as_ref().map(|session| session.number);
            let may_be = |handle: &ChannelOpen| {
                let is_old = Some(handle.session) != present;
                let is_waiting =
                    matches!(handle.status, ChannelOpenStatus::Absent | ChannelOpenStatus::Lost)
                        && is_old;
                let is_over = now > handle.absent_since + KEPT_NANOS + SECOND;
                // A client without the response does not know whether its open is durable.
                let lasts = handle.is_durable || handle.durable != RequestedDurability::None;
                !is_waiting || (lasts && !is_over)
            };
            let gone: Vec<u32> =
                machine.handles.values().filter(|h| !may_be(h)).map(|h| h.number).collect();
            for number in gone {
                self.counts.expired += 1;
                machine.handles.remove(&number);
                self.referee.mark_uncertain(number, Certainty::Gone(steps));
                self.referee.drop_cache(RefereeOwner::Handle(number));
            }
        }
    }

    /// Checks that every unanswered request waits for a silent or absent client.
    fn check_unanswered(&self) -> Result<(), String> {
        for (number, link) in &self.links {
            for purpose in link.unanswered() {
                let MessagePurpose::Ask(id) = purpose else {
                    return Err(format!("answers: {purpose:?} by {number} has none"));
                };
                let Some(pending) = self.pending.get(&id) else { continue };
                let file = self.file_of(pending.op);
                let may_wait = matches!(pending.op, ChannelOperation::Create { .. })
                    && (self.referee.is_breaking(file) || self.referee.is_kept(file));
                if !may_wait && pending.link == *number {
                    return Err(format!("answers: {pending:?} by {number} has none"));
                }
            }
        }
        Ok(())
    }

    /// Compares sessions, channels and opens with the clients' knowledge.
    fn check_sessions(&self) -> Result<(), String> {
        let sessions = self.process.snapshot().sessions;
        let expected = self.machines.iter().filter(|m| m.session.is_some()).count();
        if sessions.len() != expected {
            return Err(format!("sessions: {} are there, {expected} should be", sessions.len()));
        }
        for fact in sessions {
            let id = wire::smb::SessionId(fact.id);
            let Some(machine) = self.machine_of(id) else {
                return Err(format!("sessions: {} is nobody's", fact.id));
            };
            let machine = &self.machines[machine];
            let Some(session) = &machine.session else { continue };
            let is_channel =
                |l: &&super::link::ChannelLink| l.session == id && l.is_channel() && !l.is_cut;
            let channels = self.links.values().filter(is_channel).count();
            if channels != fact.channels.len() {
                let said = fact.channels.len();
                return Err(format!("channels: {channels} of {}, not {said}", machine.number));
            }
            let certain = machine.with_status(ChannelOpenStatus::Open).count();
            let possible = |h: &&ChannelOpen| {
                h.status != ChannelOpenStatus::Open
                    && (h.session == session.number || h.status != ChannelOpenStatus::Lost)
            };
            let most = certain + machine.handles.values().filter(possible).count();
            let (count, most) = (fact.opens.len(), most + session.unknown_opens);
            if count < certain || count > most {
                return Err(format!(
                    "opens: {} has {count}, not {certain} to {most}",
                    machine.number
                ));
            }
        }
        Ok(())
    }

    /// Disconnects all clients, and checks that only written data is left.
    ///
    /// # Errors
    /// A description of leftovers or lost data.
    pub(super) fn end(&mut self) -> Result<(), String> {
        for machine in 0..self.machines.len() {
            self.lose_all(machine, Certainty::Possible)?;
        }
        let links: Vec<u32> = self.links.keys().copied().collect();
        links.into_iter().try_for_each(|link| self.cut(link))?;
        self.settle()?;
        for _ in 0..2 {
            self.pass(10 * KEPT_NANOS);
            self.tick()?;
            self.settle()?;
        }
        let now = self.steps;
        self.each_file(|referee, file, found| {
            (0..CELLS).try_for_each(|cell| referee.read(file, cell, found(cell), now, now))
        })?;
        self.process.check_nothing_held()
    }

    /// Visits each file with the values of its cells.
    fn each_file(
        &self,
        look: impl Fn(&Referee, u32, &dyn Fn(u8) -> u64) -> Result<(), String>,
    ) -> Result<(), String> {
        for (path, bytes) in self.process.vfs.files() {
            let number = path.strip_prefix('f').and_then(|n| n.parse::<u32>().ok());
            let Some(file) = number.filter(|file| *file < DIRECTORY) else { continue };
            let found = |cell: u8| {
                let at = usize::from(cell) * CELL_BYTES as usize;
                let bytes = bytes.get(at..at + CELL_BYTES as usize);
                bytes.and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
            };
            look(&self.referee, file, &found)?;
        }
        Ok(())
    }
}
