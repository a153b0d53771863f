//! Requests of client machines, and their retransmission.

use super::ChannelFault;
use super::link::{Flaw, LinkRole, MessagePurpose};
use super::machine::{
    Acknowledgment, CELLS, CacheRequest, ChannelOpen, ChannelOpenStatus, ChannelOperation, ENTRIES,
    LockStatus, RequestedDurability, lease_key,
};
use super::referee::{Certainty, RefereeOpen, RefereeOwner, kinds};
use super::world::{ChannelRequest, ChannelWorld};
use crate::messages;
use wire::smb::{Command, FileId};

/// Maximum number of opens per machine.
const HANDLES_MAX: usize = 6;
/// Number of channels that a client tries to create: one more than the server grants.
const CHANNELS_MAX: usize = 5;
/// Number of transmissions before the client gives up.
const SENT_MAX: u32 = 12;
/// Steps before a retransmission.
const AGAIN_AFTER: u64 = 15;

impl ChannelWorld {
    /// Lets a machine send a request.
    pub(super) fn ask(&mut self, machine: usize) {
        let Some(session) = &self.machines[machine].session else {
            self.log_on(machine);
            return;
        };
        if session.is_ending {
            return;
        }
        if self.random.percent(if self.plan.is_about_channels { 40 } else { 6 }) {
            self.ask_about_channels(machine);
        } else if let Some(op) = self.choose(machine) {
            self.begin(machine, op);
        }
    }

    fn log_on(&mut self, machine: usize) {
        let is_under_way = self.links.values().any(|link| {
            link.machine == machine && !link.is_cut && matches!(link.role, LinkRole::New(_))
        });
        if !is_under_way {
            let previous = self.machines[machine].previous;
            let link = self.connect(machine, LinkRole::New(previous));
            self.note(format!("{machine} logs on by {link}"));
        }
    }

    /// Binds or ends a channel, or re-authenticates.
    fn ask_about_channels(&mut self, machine: usize) {
        let Some(link) = self.pick_link(machine) else { return };
        match self.random.below(12) {
            0 => {
                self.note(format!("{machine} logs off by {link}"));
                self.end_session_soon(machine, Certainty::Kept);
                self.send_plain(link, Command::LOGOFF, MessagePurpose::LogOff);
            }
            1 | 2 if !self.links[&link].is_renewing() => {
                let good = self.random.percent(85);
                self.note(format!("{machine} authenticates anew by {link}, {good}"));
                if !good {
                    self.end_session_soon(machine, Certainty::Possible);
                }
                if let Some(link) = self.links.get_mut(&link) {
                    link.renew(MessagePurpose::RenewBegin(good));
                }
            }
            _ => self.bind(machine, link),
        }
    }

    fn send_plain(&mut self, link: u32, command: Command, purpose: MessagePurpose) {
        if let Some(link) = self.links.get_mut(&link) {
            link.ask(command, &messages::empty(), purpose, 0, false);
        }
    }

    fn bind(&mut self, machine: usize, first: u32) {
        let own =
            |l: &&super::link::ChannelLink| l.machine == machine && !l.is_cut && !l.is_given_up;
        if self.links.values().filter(own).count() >= CHANNELS_MAX {
            return;
        }
        // A binding client knows the session's key, that of its first channel.
        let Some(key) = self.keys.get(&self.links[&first].session.0).cloned() else { return };
        let flaws = [Flaw::OtherUser, Flaw::Password, Flaw::Unsigned, Flaw::WrongKey];
        let is_confused = self.plan.fault == Some(ChannelFault::User);
        let flaw = if is_confused || self.random.percent(65) {
            Flaw::None
        } else {
            self.random.pick(&flaws)
        };
        let (session, tree) = (self.links[&first].session, self.links[&first].tree);
        let link = self.connect(machine, LinkRole::Binds(session, tree, key, flaw));
        self.note(format!("{machine} binds {link}, {flaw:?}"));
    }

    /// Chooses a file operation.
    fn choose(&mut self, machine: usize) -> Option<ChannelOperation> {
        let away: Vec<u32> = self.machines[machine]
            .with_status(ChannelOpenStatus::Absent)
            .map(|h| h.number)
            .collect();
        if !away.is_empty() && self.random.percent(25) {
            return Some(ChannelOperation::Reconnect { handle: self.random.pick(&away) });
        }
        if self.random.percent(6)
            && let Some(op) = self.choose_theft(machine)
        {
            return Some(op);
        }
        let open: Vec<u32> =
            self.machines[machine].with_status(ChannelOpenStatus::Open).map(|h| h.number).collect();
        let count = self.machines[machine].handles.len();
        if open.is_empty() || (count < HANDLES_MAX && self.random.percent(25)) {
            return (count < HANDLES_MAX).then(|| self.make_handle(machine));
        }
        let handle = self.random.pick(&open);
        self.choose_on(machine, handle)
    }

    fn choose_on(&mut self, machine: usize, number: u32) -> Option<ChannelOperation> {
        let handle = self.machines[machine].handles.get_mut(&number)?;
        let cell = self.random.small(CELLS);
        let is_used =
            self.pending.values().any(|p| p.machine == machine && p.op.handle() == number);
        let may = |kind| handle.access & kind != 0;
        let is_data = handle.file < super::machine::DIRECTORY;
        Some(match self.random.below(16) {
            at if !is_data || at == 0 => {
                return (!is_used).then_some(ChannelOperation::Close { handle: number });
            }
            1..=3 => {
                let sequence = |handle: &mut ChannelOpen| {
                    let last = &mut handle.sequences[usize::from(cell)];
                    *last = (*last + 1) % 16;
                    (u32::from(cell) + 1) << 4 | u32::from(*last)
                };
                match handle.locks.get(&cell) {
                    None => {
                        let exclusive = self.random.percent(60);
                        let sequence = sequence(handle);
                        handle.locks.insert(cell, LockStatus::Asked);
                        ChannelOperation::Lock { handle: number, cell, exclusive, sequence }
                    }
                    Some(LockStatus::Held) => {
                        let sequence = sequence(handle);
                        handle.locks.insert(cell, LockStatus::Asked);
                        ChannelOperation::Unlock { handle: number, cell, sequence }
                    }
                    Some(_) => return None,
                }
            }
            4..=9 if may(kinds::WRITE) => ChannelOperation::Write { handle: number, cell },
            _ if may(kinds::READ) => ChannelOperation::Read { handle: number, cell },
            _ => return None,
        })
    }

    /// An operation on another machine's open, with another user or lease.
    fn choose_theft(&mut self, machine: usize) -> Option<ChannelOperation> {
        let user = self.machines[machine].user.clone();
        let others = self.machines.iter().filter(|m| m.number != machine);
        let worth: Vec<(usize, u32)> = others
            .flat_map(|m| m.handles.values().map(move |h| (m, h)))
            .filter(|(m, h)| {
                let is_theirs = m.user != user || matches!(h.cache, CacheRequest::Lease(..));
                h.is_durable && is_theirs && h.id.persistent != 0
            })
            .map(|(m, h)| (m.number, h.number))
            .collect();
        if worth.is_empty() {
            return None;
        }
        let (victim, handle) = self.random.pick(&worth);
        Some(ChannelOperation::Steal { victim, handle })
    }

    fn make_handle(&mut self, machine: usize) -> ChannelOperation {
        let (number, entry) = (self.number(), self.next);
        let handle =
            self.machines[machine].draw_open(number, entry, self.plan.files, &mut self.random);
        let owner = handle.owner(machine);
        let ChannelOpen { file, access, share, .. } = handle;
        let standing = Certainty::Possible;
        self.referee.ask_open(number, RefereeOpen { file, owner, access, share, standing });
        self.machines[machine].handles.insert(number, handle);
        ChannelOperation::Create { handle: number }
    }

    fn begin(&mut self, machine: usize, op: ChannelOperation) {
        let number = self.number();
        let handle = op.handle();
        if !matches!(op, ChannelOperation::Create { .. } | ChannelOperation::Steal { .. }) {
            self.used.insert(handle);
        }
        match op {
            ChannelOperation::Close { .. } => self.begin_close(machine, handle),
            ChannelOperation::Lock { cell, exclusive, .. } => {
                self.referee.ask_lock(handle, cell, exclusive)
            }
            ChannelOperation::Unlock { cell, .. } => {
                self.referee.mark_lock_uncertain(handle, cell, Certainty::Possible);
            }
            ChannelOperation::Reconnect { .. } => {
                self.set_status(machine, handle, ChannelOpenStatus::Returning)
            }
            ChannelOperation::Write { cell, .. } => {
                let own = &self.machines[machine].handles[&handle];
                self.referee.ask_write(own.file, cell, number.into(), self.steps);
                self.referee.write_own(own.owner(machine), cell, u64::MAX);
            }
            _ => {}
        }
        let file = self.file_of(op);
        let touches = *self.touches.entry(file).and_modify(|n| *n += 1).or_default();
        let (sent_at, link) = (self.steps, 0);
        let pending =
            ChannelRequest { machine, op, sent_at, link, sent: 0, touches, given_up_reply: None };
        self.pending.insert(number, pending);
        let shown = self.machines[machine]
            .handles
            .get(&handle)
            .map(|h| (h.file, h.access, h.share, h.cache, h.durable));
        self.note(format!("{machine} asks {number}: {op:?} {shown:?}"));
        self.send(number, false);
    }

    fn begin_close(&mut self, machine: usize, handle: u32) {
        self.set_status(machine, handle, ChannelOpenStatus::Closing);
        self.referee.mark_uncertain(handle, Certainty::Possible);
        self.referee.drop_cache(RefereeOwner::Handle(handle));
        if let CacheRequest::Lease(key, _) = self.machines[machine].handles[&handle].cache
            && !self.machines[machine].uses_key(key)
        {
            self.referee.invalidate_cache(RefereeOwner::Key(machine, key));
        }
    }

    pub(super) fn set_status(&mut self, machine: usize, handle: u32, status: ChannelOpenStatus) {
        if let Some(handle) = self.machines[machine].handles.get_mut(&handle) {
            handle.status = status;
        }
    }

    pub(super) fn file_of(&self, op: ChannelOperation) -> u32 {
        self.referee.open(op.handle()).map_or(u32::MAX, |open| open.file)
    }

    /// Sends a request on one of its session's channels.
    pub(super) fn send(&mut self, number: u32, replays: bool) {
        let Some(ChannelRequest { machine, op, .. }) = self.pending.get(&number).cloned() else {
            return;
        };
        let Some(link) = self.pick_link(machine) else {
            self.machines[machine].resend_queue.push_back((self.steps, number));
            return;
        };
        let Some((command, body)) = self.message(machine, op, number, replays) else { return };
        let sequence = self.machines[machine].session.as_ref().map_or(0, |s| s.sequence);
        if let Some(pending) = self.pending.get_mut(&number) {
            pending.link = link;
            pending.sent += 1;
        }
        let present = self.machines[machine].sessions;
        if let ChannelOperation::Create { handle } | ChannelOperation::Reconnect { handle } = op
            && let Some(handle) = self.machines[machine].handles.get_mut(&handle)
        {
            handle.session = present;
        }
        if replays {
            self.note(format!("{machine} sends {number} again by {link}, sequence {sequence}"));
        }
        if let Some(link) = self.links.get_mut(&link) {
            link.ask(command, &body, MessagePurpose::Ask(number), sequence, replays);
        }
    }

    fn message(
        &self,
        machine: usize,
        op: ChannelOperation,
        number: u32,
        replays: bool,
    ) -> Option<(Command, Vec<u8>)> {
        let own = &self.machines[machine];
        if let ChannelOperation::Steal { victim, handle } = op {
            let victim = &self.machines[victim];
            let handle = victim.handles.get(&handle)?;
            return Some((Command::CREATE, victim.create(handle, own, true)));
        }
        let mut handle = own.handles.get(&op.handle())?.clone();
        let fault = self.plan.fault;
        let (op, changed) = match (fault, op) {
            (Some(ChannelFault::Share), ChannelOperation::Create { .. }) => {
                handle.share = kinds::ALL;
                (op, true)
            }
            (Some(ChannelFault::Replay), ChannelOperation::Create { .. }) if replays => {
                if let RequestedDurability::V2(guid) | RequestedDurability::Persistent(guid) =
                    &mut handle.durable
                {
                    guid[0] ^= 1;
                }
                (op, true)
            }
            (Some(ChannelFault::Write), ChannelOperation::Write { handle, .. })
                if number.is_multiple_of(4) =>
            {
                (ChannelOperation::Write { handle, cell: CELLS }, false)
            }
            (Some(ChannelFault::Lock), ChannelOperation::Lock { handle, exclusive, .. }) => (
                ChannelOperation::Lock {
                    handle,
                    cell: CELLS + handle as u8,
                    exclusive,
                    sequence: 0,
                },
                false,
            ),
            _ => (op, false),
        };
        if changed {
            return Some((Command::CREATE, own.create(&handle, own, false)));
        }
        own.message(op, number.into())
    }

    /// Retransmits a request that was lost, or that the server could not answer yet.
    pub(super) fn send_again(&mut self, machine: usize) {
        let steps = self.steps;
        let queue = &mut self.machines[machine].resend_queue;
        let Some(at) = queue.iter().position(|(due, _)| *due <= steps) else { return };
        let Some((_, number)) = queue.remove(at) else { return };
        let Some(ChannelRequest { op, .. }) = self.pending.get(&number) else { return };
        // The protocol has no replay of READ and of a reconnect.
        let is_known = !matches!(
            op,
            ChannelOperation::Read { .. }
                | ChannelOperation::Reconnect { .. }
                | ChannelOperation::Steal { .. }
        );
        self.counts.replayed += 1;
        self.send(number, is_known);
    }

    /// Schedules a retransmission; false if the limit is reached.
    pub(super) fn schedule_resend(&mut self, number: u32, later: bool) -> bool {
        let Some(pending) = self.pending.get(&number) else { return false };
        if pending.sent >= SENT_MAX {
            return false;
        }
        let due = self.steps + if later { AGAIN_AFTER } else { 0 };
        self.machines[pending.machine].resend_queue.push_back((due, number));
        true
    }

    /// Acknowledges an oplock or lease break.
    pub(super) fn send_back(&mut self, machine: usize, link: u32, what: &Acknowledgment) {
        let honest = self.plan.fault != Some(ChannelFault::Acknowledge);
        let body = match *what {
            Acknowledgment::Oplock(file, level) => {
                let known = self.machines[machine].with_id(file);
                if let Some(handle) = known.filter(|_| honest) {
                    let rights = super::machine::rights_of_level(level);
                    self.referee.downgrade(RefereeOwner::Handle(handle), rights);
                }
                messages::oplock_break(file, level)
            }
            Acknowledgment::Lease(key, keeps) => {
                if honest {
                    self.referee.downgrade(RefereeOwner::Key(machine, key), keeps);
                }
                messages::lease_acknowledgment(lease_key(key), keeps)
            }
        };
        self.note(format!("{machine} gives back {what:?} by {link}"));
        let sequence = self.machines[machine].session.as_ref().map_or(0, |s| s.sequence);
        if let Some(link) = self.links.get_mut(&link) {
            link.ask(Command::OPLOCK_BREAK, &body, MessagePurpose::Acknowledge, sequence, false);
        }
        self.sent_back.push((link, machine, what.clone()));
    }

    /// True if an open can be reconnected after its session was lost.
    pub(super) fn can_return(handle: &ChannelOpen) -> bool {
        handle.is_durable
            && handle.file < ENTRIES
            && handle.id != FileId { persistent: 0, volatile: 0 }
    }
}
