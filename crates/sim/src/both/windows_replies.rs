//! Checks the responses and notifications that SMB clients receive.

use super::MixedFault;
use super::names::{NameAfter, NameState};
use super::setup::{DIRECTORY, number_of};
use super::windows::{
    Break, DirectoryWatch, SentRequest, WindowsOpen, WindowsOpenStatus, WindowsRequest,
};
use super::world::{ListedFile, MixedWorld, PendingDelete};
use crate::channels::link::{LinkEvent, MessagePurpose};
use crate::channels::machine::{DecodedCreate, LockStatus, lease_key};
use crate::channels::referee::{Certainty, RefereeOwner};
use crate::channels::replies::{BreakNotification, read_value};
use wire::fscc;
use wire::ntstatus::NtStatus;
use wire::smb::{LEASE_BREAK_IN_PROGRESS, LeaseContext};

impl MixedWorld {
    /// A client receives the bytes of its connection.
    pub(super) fn receive_windows(&mut self, machine: usize) -> Result<(), String> {
        let link = &mut self.windows[machine].link;
        let Some(side) = &mut link.side else { return Ok(()) };
        let whole = self.random.percent(60);
        let length = side.output.len();
        let count = if whole { length } else { 1 + self.random.below(length) };
        let bytes: Vec<u8> = side.output.drain(..count).collect();
        let events = link.receive(&bytes).map_err(|what| format!("{machine}: {what}"))?;
        for event in events {
            match event {
                LinkEvent::SetUp(NtStatus::SUCCESS) => {}
                LinkEvent::Notice(message) => self.handle_notice(machine, &message)?,
                LinkEvent::Reply(MessagePurpose::Ask(number), status, message) => {
                    self.handle_reply(machine, number, status, &message)?;
                }
                other => return Err(format!("answers: {machine} received {other:?}")),
            }
        }
        Ok(())
    }

    fn handle_notice(&mut self, machine: usize, message: &[u8]) -> Result<(), String> {
        let BreakNotification { to, lease, .. } = BreakNotification::read(message)?;
        let Some((key, epoch, answers)) = lease else {
            return Err("caching: an oplock is broken that nobody has".into());
        };
        if key != lease_key(key[0]) {
            return Err("caching: a lease is broken that nobody has".into());
        }
        let key = key[0];
        self.note(|| format!("{machine} receives a break of {key} to {to}, {epoch}, {answers}"));
        let by_smb = self.windows.iter().any(|w| w.pending.values().any(|p| p.op.creates()));
        let opens = |p: &SentRequest<super::posix::PosixRequest>| {
            matches!(p.op, super::posix::PosixRequest::Open { .. })
        };
        let by_nfs = self.posix.iter().any(|p| p.in_flight().any(opens));
        self.counts.broken += u64::from(by_nfs && !by_smb);
        if answers {
            let keeps = if self.random.percent(15) { 0 } else { to };
            let own = &mut self.windows[machine];
            let under = own.under(key).collect();
            let follows_another = own.acknowledged.values().any(|other| other.key == key);
            own.acknowledgments.push_back(Break { key, keeps, under, follows_another });
        }
        let known = self.windows[machine].epochs.entry(key).or_default();
        if epoch.wrapping_sub(*known).cast_signed() < 0 {
            return Ok(());
        }
        *known = epoch;
        self.referee.record_break(RefereeOwner::Key(machine, key), to, answers.then_some(0));
        Ok(())
    }

    fn handle_reply(
        &mut self,
        machine: usize,
        number: u32,
        status: NtStatus,
        message: &[u8],
    ) -> Result<(), String> {
        let Some(pending) = self.windows[machine].pending.remove(&number) else {
            return Err(format!("answers: {number} was not asked for"));
        };
        self.counts.answered += 1;
        self.note(|| format!("{machine} hears of {number}: {status:?}"));
        let is_right = match pending.op {
            WindowsRequest::Create { handle } => {
                self.handle_create(machine, handle, &pending, status, message)?
            }
            WindowsRequest::Close { handle } => self.handle_close(machine, handle, status),
            WindowsRequest::Read { .. } | WindowsRequest::Write { .. } => {
                self.handle_data(machine, number, &pending, status, message)?
            }
            WindowsRequest::Lock { .. } | WindowsRequest::Unlock { .. } => {
                self.handle_lock(machine, &pending, status)?
            }
            WindowsRequest::Rename { handle, to, replace } => {
                self.handle_rename(handle, (to, replace), pending.sent_at, status)?
            }
            WindowsRequest::Directory => {
                self.windows[machine].directory = DecodedCreate::decode(message).map(|c| c.id);
                status == NtStatus::SUCCESS
            }
            WindowsRequest::Leave => {
                self.windows[machine].directory = None;
                status == NtStatus::SUCCESS
            }
            WindowsRequest::List => {
                self.handle_list(machine, pending.sent_at, message)?;
                status == NtStatus::SUCCESS
            }
            WindowsRequest::DirectoryWatch => self.handle_watch(machine, status),
            WindowsRequest::Acknowledge { .. } => {
                let own = &mut self.windows[machine];
                let broken = own.acknowledged.remove(&number);
                let must_count = |broken: Break| !broken.follows_another && own.has_still(&broken);
                status == NtStatus::SUCCESS || !broken.is_some_and(must_count)
            }
        };
        if is_right { Ok(()) } else { Err(format!("answers: {:?} has {status:?}", pending.op)) }
    }

    fn handle_create(
        &mut self,
        machine: usize,
        number: u32,
        pending: &SentRequest<WindowsRequest>,
        status: NtStatus,
        message: &[u8],
    ) -> Result<bool, String> {
        let handle = self.windows[machine].handles[&number].clone();
        if status == NtStatus::SUCCESS {
            return self.take_open(machine, number, handle, pending, message).map(|()| true);
        }
        let sent_at = pending.sent_at;
        let is_right = self.refused_create(machine, number, &handle, sent_at, status)?;
        self.windows[machine].handles.remove(&number);
        self.referee.mark_uncertain(number, Certainty::Gone(self.steps));
        if handle.deletes_on_close {
            // The open deleted no file.
            self.complete_deletes_of(number);
        } else if handle.makes() {
            let was_absent = self.names.before(handle.name, sent_at) == Some(NameState::Absent);
            let may_be_made = was_absent && status == NtStatus::SHARING_VIOLATION;
            let after = if may_be_made { NameAfter::Unknown } else { NameAfter::Same };
            self.names.end(handle.name, sent_at, self.steps, after);
        }
        Ok(is_right)
    }

    fn refused_create(
        &mut self,
        machine: usize,
        number: u32,
        handle: &WindowsOpen,
        sent_at: u64,
        status: NtStatus,
    ) -> Result<bool, String> {
        let changes = handle.deletes_on_close || handle.makes();
        let name = handle.name;
        let known = match changes {
            true => self.names.before(name, sent_at),
            false => self.names.certain(name, sent_at),
        };
        match status {
            NtStatus::OBJECT_NAME_NOT_FOUND if handle.disposition == fscc::FILE_OPEN => {
                self.counts.missed += 1;
                match changes {
                    true => self.names.found(name, sent_at, NameState::Absent)?,
                    false => self.names.observe(name, sent_at, NameState::Absent)?,
                }
            }
            NtStatus::OBJECT_NAME_COLLISION => {
                if known == Some(NameState::Absent) {
                    return Err(format!("names: {name} is there, and must not be"));
                }
                return Ok(handle.disposition == fscc::FILE_CREATE);
            }
            NtStatus::SHARING_VIOLATION => {
                if let Some(NameState::Present(file)) = known {
                    self.referee.turns_out(number, file, handle.owner(machine, number));
                    let other = self.referee.in_the_way(number);
                    let by_nfs = other.filter(|one| self.of_posix.contains(one)).count();
                    self.counts.windows_refused += u64::from(by_nfs > 0);
                    self.referee.refused_share(number, sent_at)?;
                }
                // Another client may have opened the new file before its creator's response
                // arrived.
                return Ok(known != Some(NameState::Absent) || handle.makes());
            }
            NtStatus::DELETE_PENDING => return Ok(self.was_delete_pending(sent_at)),
            // A lease key is bound to one file per client.
            NtStatus::INVALID_PARAMETER => {
                let file = handle.beside.and_then(|one| Some(self.referee.open(one)?.file));
                return Ok(file.is_some_and(|file| known != Some(NameState::Present(file))));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_open(
        &mut self,
        machine: usize,
        number: u32,
        handle: WindowsOpen,
        pending: &SentRequest<WindowsRequest>,
        message: &[u8],
    ) -> Result<(), String> {
        let created = DecodedCreate::decode(message).ok_or("answers: a short one to CREATE")?;
        let id = created.file.ok_or("answers: CREATE does not say which file")?;
        let is_new = self.is_new(id);
        let file = self.file_of(id)?;
        let (sent_at, now, name) = (pending.sent_at, self.steps, handle.name);
        self.counts.windows_opened += 1;
        let present = NameState::Present(file);
        if handle.deletes_on_close || handle.makes() {
            let found = if created.was_made { NameState::Absent } else { present };
            self.names.found(name, sent_at, found)?;
            if created.was_made && !is_new {
                self.note(|| format!("{file} was heard of before its maker heard"));
            }
        } else {
            self.names.observe(name, sent_at, present)?;
        }
        for pending in &mut self.pending_deletes {
            if let PendingDelete::Handle { handle, file: of_delete, .. } = pending
                && *handle == number
            {
                *of_delete = Some(file);
            }
        }
        if !handle.deletes_on_close && handle.makes() {
            self.names.end(name, sent_at, now, NameAfter::Is(present));
        }
        let owner = handle.owner(machine, number);
        if let Some(own) = self.windows[machine].handles.get_mut(&number) {
            (own.id, own.status) = (created.id, WindowsOpenStatus::Open);
        }
        self.note(|| format!("{machine} has {number} open: file {file}, {:?}", created.lease));
        self.referee.turns_out(number, file, owner);
        self.referee.confirm(number, Certainty::Certain)?;
        if let (Some((key, _)), Some(lease)) = (handle.lease, created.lease) {
            self.take_lease(machine, key, file, &lease)?;
        }
        self.check_delegations()
    }

    fn take_lease(
        &mut self,
        machine: usize,
        key: u8,
        file: u32,
        lease: &LeaseContext,
    ) -> Result<(), String> {
        let owner = RefereeOwner::Key(machine, key);
        let Some(v2) = lease.v2 else { return Err("caching: a lease without an epoch".into()) };
        let known = self.windows[machine].epochs.entry(key).or_default();
        let later = v2.epoch.wrapping_sub(*known).cast_signed();
        let is_breaking = lease.flags & LEASE_BREAK_IN_PROGRESS != 0;
        if is_breaking && later > 0 {
            // The break notification is in flight.
            self.referee.invalidate_cache(owner);
        } else if !is_breaking && later >= 0 {
            let is_asked = self.referee.cache(owner).is_some_and(|c| c.breaking.is_some());
            if later == 0 && is_asked {
                return Ok(());
            }
            *known = v2.epoch;
            if later > 1 {
                // A break notification has not arrived yet, so data read now is not cached.
                self.referee.invalidate_cache(owner);
            }
            self.counts.leased += u64::from(lease.state != 0);
            return self.referee.grant(owner, file, lease.state as u8, self.steps);
        }
        Ok(())
    }

    fn handle_close(&mut self, machine: usize, number: u32, status: NtStatus) -> bool {
        self.windows[machine].handles.remove(&number);
        self.referee.mark_uncertain(number, Certainty::Gone(self.steps));
        self.complete_deletes_of(number);
        status == NtStatus::SUCCESS
    }

    /// Completes the pending deletes of a closed open.
    fn complete_deletes_of(&mut self, number: u32) {
        for pending in &mut self.pending_deletes {
            if let PendingDelete::Handle { handle, is_closed, .. } = pending
                && *handle == number
            {
                *is_closed = true;
            }
        }
    }

    fn handle_data(
        &mut self,
        machine: usize,
        number: u32,
        pending: &SentRequest<WindowsRequest>,
        status: NtStatus,
        message: &[u8],
    ) -> Result<bool, String> {
        let (WindowsRequest::Read { handle, cell } | WindowsRequest::Write { handle, cell }) =
            pending.op
        else {
            return Ok(false);
        };
        let writes = matches!(pending.op, WindowsRequest::Write { .. });
        let Some(file) = self.referee.open(handle).map(|open| open.file) else { return Ok(false) };
        let owner = self.windows[machine].handles[&handle].owner(machine, handle);
        let (sent_at, now) = (pending.sent_at, self.steps);
        if writes {
            self.referee.write_own(owner, cell, now);
        }
        let value = match status {
            NtStatus::FILE_LOCK_CONFLICT => {
                let held = pending.held.iter().filter_map(|at| self.referee.still_held(*at));
                let by_nfs = held.filter(|holder| self.of_posix.contains(holder)).count();
                self.counts.data_refused += u64::from(by_nfs > 0);
                // The client's own shared lock prevents a write.
                return self.referee.refused_lock(handle, cell, sent_at, writes).map(|()| true);
            }
            NtStatus::SUCCESS if writes => {
                self.check_held(&pending.held, &format!("write {number}"), true)?;
                self.referee.wrote(file, cell, number.into(), now);
                self.referee.expect_break(owner, file, sent_at, &format!("write {number}"));
                return Ok(true);
            }
            NtStatus::SUCCESS => read_value(message).ok_or("answers: a short one to READ")?,
            NtStatus::END_OF_FILE if !writes => 0,
            _ => return Ok(false),
        };
        self.check_held(&pending.held, &format!("read {number}"), true)?;
        self.counts.exchanged += u64::from(self.of_posix.contains(&(value as u32)));
        self.referee.read(file, cell, value, sent_at, now)?;
        self.referee.record_cached(owner, cell, value, sent_at);
        Ok(true)
    }

    fn handle_lock(
        &mut self,
        machine: usize,
        pending: &SentRequest<WindowsRequest>,
        status: NtStatus,
    ) -> Result<bool, String> {
        let gone = Certainty::Gone(self.steps);
        match (pending.op, status) {
            (WindowsRequest::Lock { handle, cell, .. }, NtStatus::SUCCESS) => {
                self.set_lock(machine, handle, cell, Some(LockStatus::Held));
                self.referee.confirm_lock(handle, cell)?;
            }
            (WindowsRequest::Lock { handle, cell, .. }, NtStatus::LOCK_NOT_GRANTED) => {
                self.set_lock(machine, handle, cell, None);
                let held = self.referee.held_against(handle, cell, true);
                let mut holders = held.iter().filter_map(|at| self.referee.still_held(*at));
                let by_nfs = holders.any(|holder| self.of_posix.contains(&holder));
                self.counts.lock_refused += u64::from(by_nfs);
                self.referee.refused_lock(handle, cell, pending.sent_at, false)?;
                self.referee.mark_lock_uncertain(handle, cell, gone);
            }
            (WindowsRequest::Unlock { handle, cell }, NtStatus::SUCCESS) => {
                self.set_lock(machine, handle, cell, None);
                self.referee.mark_lock_uncertain(handle, cell, gone);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn handle_rename(
        &mut self,
        handle: u32,
        (to, replace): (u8, bool),
        sent_at: u64,
        status: NtStatus,
    ) -> Result<bool, String> {
        let file = self.referee.open(handle).map(|open| NameState::Present(open.file));
        let Some(file) = file else { return Ok(false) };
        let before = self.names.before(to, sent_at);
        let is_done = status == NtStatus::SUCCESS;
        let is_other = |state: NameState| state != NameState::Absent && state != file;
        let is_right = match status {
            NtStatus::SUCCESS => {
                if !replace && before.is_some_and(is_other) {
                    return Err(format!("names: {to} is replaced, and must not be"));
                }
                self.counts.renamed += 1;
                true
            }
            NtStatus::OBJECT_NAME_COLLISION => {
                if before == Some(NameState::Absent) {
                    return Err(format!("names: {to} is there, and must not be"));
                }
                !replace
            }
            // An open of either file prevents it, or the name no longer exists.
            NtStatus::ACCESS_DENIED | NtStatus::SHARING_VIOLATION => true,
            NtStatus::OBJECT_NAME_NOT_FOUND => {
                let mut all = self.names.all();
                if all.any(|name| self.names.before(name, sent_at) == Some(file)) {
                    return Err(format!("names: that of {handle} is not found"));
                }
                true
            }
            NtStatus::DELETE_PENDING => self.was_delete_pending(sent_at),
            _ => false,
        };
        for name in self.names.all() {
            let after = match self.names.before(name, sent_at) {
                _ if !is_done => NameAfter::Same,
                _ if name == to => NameAfter::Is(file),
                Some(state) if state == file => NameAfter::Is(NameState::Absent),
                _ => NameAfter::Same,
            };
            self.names.end(name, sent_at, self.steps, after);
        }
        Ok(is_right)
    }

    fn handle_list(&mut self, machine: usize, sent_at: u64, message: &[u8]) -> Result<(), String> {
        let entries = read_list(message).ok_or("answers: a listing that cannot be read")?;
        self.handle_entries(&entries, sent_at)?;
        self.windows[machine].listed = entries;
        Ok(())
    }

    /// Checks that the listed entries are all names.
    pub(super) fn handle_entries(
        &mut self,
        entries: &[ListedFile],
        sent_at: u64,
    ) -> Result<(), String> {
        for name in self.names.all() {
            let entry = entries.iter().find(|entry| number_of(&entry.name) == Some(name));
            let state = match entry {
                Some(entry) => NameState::Present(self.file_of(entry.id)?),
                None => NameState::Absent,
            };
            self.names.observe(name, sent_at, state)?;
        }
        Ok(())
    }

    fn handle_watch(&mut self, machine: usize, status: NtStatus) -> bool {
        let own = &mut self.windows[machine];
        if status == NtStatus::NOTIFY_CLEANUP {
            own.watch = DirectoryWatch::None;
            return true;
        }
        self.counts.notified += 1;
        if self.plan.fault == Some(MixedFault::Watch) {
            return true;
        }
        self.counts.notified_of_nfs += u64::from(matches!(own.watch, DirectoryWatch::Owed(_)));
        own.watch = DirectoryWatch::None;
        [NtStatus::SUCCESS, NtStatus::NOTIFY_ENUM_DIR].contains(&status)
    }
}

/// Decodes the entries of a listing. MS-FSCC 2.4.21.
fn read_list(message: &[u8]) -> Option<Vec<ListedFile>> {
    let number = |bytes: &[u8], at: usize, length: usize| -> Option<u64> {
        let mut value = [0; 8];
        value[..length].copy_from_slice(bytes.get(at..at + length)?);
        Some(u64::from_le_bytes(value))
    };
    let offset = number(message, 66, 2)? as usize;
    let mut rest = message.get(offset..)?;
    let mut entries = Vec::new();
    loop {
        let name = rest.get(104..104 + number(rest, 60, 4)? as usize)?;
        let units: Vec<u16> =
            name.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let name = String::from_utf16(&units).ok()?;
        if ![".", "..", DIRECTORY].contains(&name.as_str()) {
            let times = [number(rest, 24, 8)?, number(rest, 32, 8)?];
            let (id, size) = (number(rest, 96, 8)?, number(rest, 40, 8)?);
            entries.push(ListedFile { name, id, size, times });
        }
        match number(rest, 0, 4)? as usize {
            0 => return Some(entries),
            next => rest = rest.get(next..)?,
        }
    }
}
