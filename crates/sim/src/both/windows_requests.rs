//! Requests of SMB clients.

use super::MixedFault;
use super::windows::{
    Break, DirectoryWatch, SentRequest, WindowsOpen, WindowsOpenStatus, WindowsRequest,
};
use super::world::{MixedWorld, PendingDelete};
use crate::channels::link::MessagePurpose;
use crate::channels::machine::{CELLS, LockStatus};
use crate::channels::referee::{Certainty, RefereeOpen, RefereeOwner, UNKNOWN, kinds};
use wire::smb::Command;

/// Maximum number of opens per client.
const HANDLES_MAX: usize = 4;

impl MixedWorld {
    /// Lets a client send a request.
    pub(super) fn ask_windows(&mut self, machine: usize) {
        if let Some(op) = self.choose_windows(machine) {
            self.begin_windows(machine, op);
        }
    }

    fn choose_windows(&mut self, machine: usize) -> Option<WindowsRequest> {
        let own = &self.windows[machine];
        if own.directory.is_some() {
            match self.random.below(25) {
                0 => return Some(WindowsRequest::List),
                1..=3 if own.watch == DirectoryWatch::None => {
                    return Some(WindowsRequest::DirectoryWatch);
                }
                _ => {}
            }
        }
        let is_open = |(number, h): (&u32, &WindowsOpen)| {
            (h.status == WindowsOpenStatus::Open).then_some(*number)
        };
        let open: Vec<u32> = own.handles.iter().filter_map(is_open).collect();
        let count = own.handles.len();
        if open.is_empty() || (count < HANDLES_MAX && self.random.percent(25)) {
            return (count < HANDLES_MAX).then(|| self.draw_windows_op(machine));
        }
        let handle = self.random.pick(&open);
        self.choose_on_handle(machine, handle)
    }

    fn draw_windows_op(&mut self, machine: usize) -> WindowsRequest {
        let number = self.number();
        let handle = self.windows[machine].draw_open(self.plan.names, &mut self.random);
        self.windows[machine].handles.insert(number, handle);
        WindowsRequest::Create { handle: number }
    }

    fn choose_on_handle(&mut self, machine: usize, number: u32) -> Option<WindowsRequest> {
        let own = &self.windows[machine];
        let handle = own.handles.get(&number)?;
        let cell = self.random.small(CELLS);
        let may = |kind| handle.access & kind != 0;
        let is_used = own.pending.values().any(|pending| handle_of(pending.op) == Some(number));
        Some(match self.random.below(18) {
            0..=2 => return (!is_used).then_some(WindowsRequest::Close { handle: number }),
            _ if handle.deletes_on_close && self.random.percent(40) => {
                return (!is_used).then_some(WindowsRequest::Close { handle: number });
            }
            3..=6 => match handle.locks.get(&cell) {
                None => WindowsRequest::Lock {
                    handle: number,
                    cell,
                    exclusive: self.random.percent(60),
                },
                Some(LockStatus::Held) => WindowsRequest::Unlock { handle: number, cell },
                Some(_) => return None,
            },
            7 | 8 if may(4) => {
                let (to, replace) = (self.random.small(self.plan.names), self.random.percent(50));
                WindowsRequest::Rename { handle: number, to, replace }
            }
            9..=13 if may(kinds::WRITE) => WindowsRequest::Write { handle: number, cell },
            _ if may(kinds::READ) => WindowsRequest::Read { handle: number, cell },
            _ => return None,
        })
    }

    /// Sends a request; returns its number.
    pub(super) fn begin_windows(&mut self, machine: usize, op: WindowsRequest) -> u32 {
        let (number, now) = (self.number(), self.steps);
        let mut held = Vec::new();
        match op {
            WindowsRequest::Create { handle } => self.begin_create(machine, handle),
            WindowsRequest::Close { handle } => self.begin_close(machine, handle),
            WindowsRequest::Read { handle, cell } => {
                held = self.referee.held_against(handle, cell, false)
            }
            WindowsRequest::Write { handle, cell } => {
                held = self.referee.held_against(handle, cell, true);
                let file = self.referee.open(handle).map_or(UNKNOWN, |open| open.file);
                let owner = self.windows[machine].handles[&handle].owner(machine, handle);
                self.referee.ask_write(file, cell, number.into(), now);
                self.referee.write_own(owner, cell, u64::MAX);
            }
            WindowsRequest::Lock { handle, cell, exclusive } => {
                self.referee.ask_lock(handle, cell, exclusive);
                self.set_lock(machine, handle, cell, Some(LockStatus::Asked));
            }
            WindowsRequest::Unlock { handle, cell } => {
                self.referee.mark_lock_uncertain(handle, cell, Certainty::Possible);
                self.set_lock(machine, handle, cell, Some(LockStatus::Asked));
            }
            // The file may have any name by then.
            WindowsRequest::Rename { .. } => {
                self.names.all().for_each(|name| self.names.begin(name, now))
            }
            WindowsRequest::DirectoryWatch => self.windows[machine].watch = DirectoryWatch::Asked,
            _ => {}
        }
        let shown = handle_of(op).and_then(|handle| self.windows[machine].handles.get(&handle));
        let shown = format!("{machine} asks {number}: {op:?} {shown:?}");
        self.note(|| shown);
        self.send_windows(machine, number, op);
        let pending = SentRequest { op, sent_at: now, held };
        self.windows[machine].pending.insert(number, pending);
        number
    }

    fn send_windows(&mut self, machine: usize, number: u32, op: WindowsRequest) {
        let own = &mut self.windows[machine];
        let message = match handle_of(op).and_then(|handle| own.handles.get(&handle)) {
            Some(handle) if self.plan.fault == Some(MixedFault::Share) && op.creates() => {
                let handle = WindowsOpen { share: kinds::ALL, ..handle.clone() };
                Some((Command::CREATE, own.create(&handle)))
            }
            _ => own.message(op, number.into()),
        };
        if let Some((command, body)) = message {
            own.link.ask(command, &body, MessagePurpose::Ask(number), 0, false);
        }
    }

    fn begin_create(&mut self, machine: usize, number: u32) {
        let now = self.steps;
        let handle = self.windows[machine].handles[&number].clone();
        let WindowsOpen { name, access, share, deletes_on_close, .. } = handle;
        let owner = handle.owner(machine, number);
        let standing = Certainty::Possible;
        let fact = RefereeOpen { file: UNKNOWN, owner, access, share, standing };
        self.referee.ask_open(number, fact);
        if deletes_on_close {
            self.names.all().for_each(|name| self.names.begin(name, now));
            let (began, handle) = (now, number);
            let pending = PendingDelete::Handle { began, handle, file: None, is_closed: false };
            self.pending_deletes.push(pending);
        } else if handle.makes() {
            self.names.begin(name, now);
        }
    }

    fn begin_close(&mut self, machine: usize, number: u32) {
        let own = &mut self.windows[machine];
        let Some(handle) = own.handles.get_mut(&number) else { return };
        handle.status = WindowsOpenStatus::Closing;
        let lease = handle.lease;
        self.referee.mark_uncertain(number, Certainty::Possible);
        self.referee.drop_cache(RefereeOwner::Handle(number));
        if let Some((key, _)) = lease
            && !own.uses_key(key)
        {
            self.referee.invalidate_cache(RefereeOwner::Key(machine, key));
        }
    }

    pub(super) fn set_lock(
        &mut self,
        machine: usize,
        handle: u32,
        cell: u8,
        status: Option<LockStatus>,
    ) {
        let Some(handle) = self.windows[machine].handles.get_mut(&handle) else { return };
        match status {
            Some(status) => drop(handle.locks.insert(cell, status)),
            None => drop(handle.locks.remove(&cell)),
        }
    }

    /// Acknowledges a lease break.
    pub(super) fn acknowledge(&mut self, machine: usize) {
        let Some(mut broken) = self.windows[machine].acknowledgments.pop_front() else { return };
        let Break { key, keeps, .. } = broken;
        if self.plan.fault != Some(MixedFault::Acknowledge) {
            self.referee.downgrade(RefereeOwner::Key(machine, key), keeps);
        }
        let mut in_flight = self.windows[machine].acknowledged.values();
        broken.follows_another |= in_flight.any(|other| other.key == key);
        let number = self.begin_windows(machine, WindowsRequest::Acknowledge { key, keeps });
        self.windows[machine].acknowledged.insert(number, broken);
    }
}

/// The open that a request refers to.
pub(super) fn handle_of(op: WindowsRequest) -> Option<u32> {
    match op {
        WindowsRequest::Create { handle }
        | WindowsRequest::Close { handle }
        | WindowsRequest::Read { handle, .. }
        | WindowsRequest::Write { handle, .. }
        | WindowsRequest::Lock { handle, .. }
        | WindowsRequest::Unlock { handle, .. }
        | WindowsRequest::Rename { handle, .. } => Some(handle),
        _ => None,
    }
}
