//! Checks the replies and callbacks that NFS clients receive.

use super::MixedFault;
use super::names::{NameAfter, NameState};
use super::posix::{CreateMode, PosixDelegation, PosixOpen, PosixRequest, SLOTS};
use super::windows::{DirectoryWatch, SentRequest, WindowsOpenStatus};
use super::world::{ListedFile, MixedWorld, PendingDelete};
use crate::channels::machine::LockStatus;
use crate::channels::referee::{Certainty, UNKNOWN, rights};
use crate::sessions::messages;
use crate::sessions::replies::{results_of, skip_to, unreadable};
use crate::sessions::world::LinkState;
use bytes::Bytes;
use wire::nfs::callback::{Callback, CallbackCompound, CbSequenceArgs};
use wire::nfs::compound::CompoundResults;
use wire::nfs::ops::{
    CreateSessionResult, ExchangeIdResult, NfsOpenResult, OpenDelegation, ReadDirResult, ReadResult,
};
use wire::nfs::rpc::RpcMessage;
use wire::nfs::xdr::XdrReader;
use wire::nfs::{Fattr, FileHandle, NfsStatus, NfsTime, OperationNumber, StateId};

/// From 1601 to 1970, in units of 100 nanoseconds.
const UNITS_TO_1970: i64 = 116_444_736_000_000_000;

impl MixedWorld {
    /// A client receives the records on a connection.
    pub(super) fn receive_posix(&mut self, number: u32) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        let Some(record) = link.side.as_mut().and_then(|side| side.output.pop_front()) else {
            return Ok(());
        };
        let (machine, standing) = (link.machine, link.standing);
        let mut r = XdrReader::new(&record);
        match RpcMessage::decode(&mut r).map_err(unreadable)? {
            RpcMessage::Call(call) if call.procedure == 0 => {
                link.on_the_way.push_back(messages::null_answer(call.xid));
                Ok(())
            }
            RpcMessage::Call(call) => {
                let callbacks = CallbackCompound::decode(&mut r).map_err(unreadable)?;
                let answer = self.called_back(machine, call.xid, callbacks)?;
                if let Some(link) = self.links.get_mut(&number) {
                    link.on_the_way.push_back(answer);
                }
                Ok(())
            }
            RpcMessage::Reply(reply) => {
                let results = record.slice(r.position()..);
                let results = results_of(&results)?;
                if self.posix[machine].bindings.remove(&reply.xid) {
                    return expect(results.status, &[NfsStatus::OK], "binding");
                }
                match standing {
                    LinkState::Introduces => self.introduced(number, results),
                    LinkState::Begins => self.begun(number, results),
                    _ => self.handle_results(machine, reply.xid, results),
                }
            }
        }
    }

    fn introduced(&mut self, number: u32, mut results: CompoundResults<'_>) -> Result<(), String> {
        let result: ExchangeIdResult<'_> =
            results.succeed(OperationNumber::EXCHANGE_ID).map_err(unreadable)?;
        let record = messages::new_session(result.client_id, result.sequence_id, SLOTS);
        if let Some(link) = self.links.get_mut(&number) {
            link.standing = LinkState::Begins;
            link.on_the_way.push_back(record);
        }
        Ok(())
    }

    fn begun(&mut self, number: u32, mut results: CompoundResults<'_>) -> Result<(), String> {
        let result: CreateSessionResult =
            results.succeed(OperationNumber::CREATE_SESSION).map_err(unreadable)?;
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        link.standing = LinkState::Ready;
        let machine = link.machine;
        self.posix[machine].session = Some(result.session_id);
        self.begin_posix(machine, PosixRequest::Complete);
        Ok(())
    }

    fn handle_results(
        &mut self,
        machine: usize,
        xid: u32,
        mut results: CompoundResults<'_>,
    ) -> Result<(), String> {
        let own = &mut self.posix[machine];
        let is_it =
            |slot: &super::posix::PosixSlot| slot.in_flight.as_ref().is_some_and(|w| w.0 == xid);
        let slot = own.slots.iter_mut().find(|slot| is_it(slot));
        let Some((_, pending)) = slot.and_then(|slot| slot.in_flight.take()) else {
            return Err(format!("answers: {xid} was not asked for"));
        };
        let (number, status) = (own.number, results.status);
        self.counts.answered += 1;
        self.note(|| format!("{number} hears of {xid}: {status:?}"));
        let what = format!("{:?}", pending.op);
        let fine = [NfsStatus::OK, NfsStatus::DELAY];
        match pending.op {
            PosixRequest::Open { open } => self.handle_open(machine, open, &pending, &mut results),
            PosixRequest::Close { open } => {
                self.posix[machine].opens.remove(&open);
                self.referee.mark_uncertain(open, Certainty::Gone(self.steps));
                expect(status, &fine[..1], &what)
            }
            PosixRequest::Read { .. } => self.handle_read(machine, xid, &pending, &mut results),
            PosixRequest::Write { .. } => self.handle_write(machine, xid, &pending, status),
            PosixRequest::Lock { .. } | PosixRequest::Unlock { .. } => {
                self.handle_range(machine, &pending, &mut results)
            }
            PosixRequest::Look { name } => self.handle_look(name, pending.sent_at, &mut results),
            PosixRequest::Remove { name } => self.handle_remove(name, pending.sent_at, status),
            PosixRequest::Rename { from, to } => {
                self.handle_moved(from, to, pending.sent_at, status)
            }
            PosixRequest::List => self.handle_listing(machine, pending.sent_at, &mut results),
            PosixRequest::Complete => {
                self.posix[machine].is_complete = true;
                expect(status, &fine[..1], &what)
            }
            PosixRequest::ReturnDelegation { .. } | PosixRequest::Renew => {
                expect(status, &fine[..1], &what)
            }
        }
    }

    fn handle_open(
        &mut self,
        machine: usize,
        number: u32,
        pending: &SentRequest<PosixRequest>,
        results: &mut CompoundResults<'_>,
    ) -> Result<(), String> {
        let open = self.posix[machine].opens[&number].clone();
        if results.status.is_ok() {
            return self.take_posix(machine, number, &open, pending, results);
        }
        let (sent_at, name, makes) = (pending.sent_at, open.name, open.how != CreateMode::Open);
        let known = match makes {
            true => self.names.before(name, sent_at),
            false => self.names.certain(name, sent_at),
        };
        match results.status {
            NfsStatus::DELAY => {}
            NfsStatus::NOENT if !makes => {
                self.counts.missed += 1;
                self.names.observe(name, sent_at, NameState::Absent)?;
            }
            NfsStatus::EXIST if open.how == CreateMode::Make => {
                if known == Some(NameState::Absent) {
                    return Err(format!("names: {name} is there, and must not be"));
                }
            }
            NfsStatus::SHARE_DENIED => {
                if let Some(NameState::Present(file)) = known {
                    self.referee.turns_out(number, file, self.posix[machine].owner(file));
                    let mut other = self.referee.in_the_way(number);
                    let by_smb = other.any(|one| !self.of_posix.contains(&one));
                    self.counts.posix_refused += u64::from(by_smb);
                    self.referee.refused_share(number, sent_at)?;
                }
                // Another client may have opened the new file before its creator's reply arrived.
                if known == Some(NameState::Absent) && !makes {
                    return Err(format!("names: {name} is denied, and is not there"));
                }
            }
            NfsStatus::FILE_OPEN if self.was_delete_pending(sent_at) => {}
            other => return Err(format!("answers: {open:?} has {other:?}")),
        }
        self.posix[machine].opens.remove(&number);
        self.referee.mark_uncertain(number, Certainty::Gone(self.steps));
        if makes {
            let may_be_made =
                results.status == NfsStatus::SHARE_DENIED && known == Some(NameState::Absent);
            let after = if may_be_made { NameAfter::Unknown } else { NameAfter::Same };
            self.names.end(name, sent_at, self.steps, after);
        }
        Ok(())
    }

    fn take_posix(
        &mut self,
        machine: usize,
        number: u32,
        open: &PosixOpen,
        pending: &SentRequest<PosixRequest>,
        results: &mut CompoundResults<'_>,
    ) -> Result<(), String> {
        skip_to(results, OperationNumber::OPEN)?;
        let result: NfsOpenResult<'_> = results.reader().get().map_err(unreadable)?;
        let object: FileHandle = results.succeed(OperationNumber::GETFH).map_err(unreadable)?;
        let id = file_id(results)?;
        let file = self.file_of(id)?;
        let (sent_at, name, present) = (pending.sent_at, open.name, NameState::Present(file));
        self.counts.posix_opened += 1;
        let before = self.names.before(name, sent_at);
        match open.how {
            CreateMode::Open => self.names.observe(name, sent_at, present)?,
            CreateMode::OpenIf if before == Some(NameState::Absent) => {}
            CreateMode::OpenIf => self.names.found(name, sent_at, present)?,
            CreateMode::Make => self.names.found(name, sent_at, NameState::Absent)?,
        }
        if open.how != CreateMode::Open {
            self.names.end(name, sent_at, self.steps, NameAfter::Is(present));
            let is_made = open.how == CreateMode::Make || before == Some(NameState::Absent);
            if is_made {
                self.expect_notifications(sent_at, &format!("that {name} was made"));
            }
        }
        let own = &mut self.posix[machine];
        let owner = own.owner(file);
        if let Some(open) = own.opens.get_mut(&number) {
            open.status = WindowsOpenStatus::Open;
            (open.state_id, open.object) = (current(result.state_id), Some(object));
        }
        self.referee.turns_out(number, file, owner);
        self.referee.confirm(number, Certainty::Certain)?;
        self.take_delegation(machine, file, object, &result.delegation)?;
        self.note(|| format!("{number} is open: file {file}, {:?}", result.delegation));
        self.check_delegations()
    }

    fn take_delegation(
        &mut self,
        machine: usize,
        file: u32,
        object: FileHandle,
        delegation: &OpenDelegation<'_>,
    ) -> Result<(), String> {
        let own = &mut self.posix[machine];
        let (writes, state_id) = match delegation {
            OpenDelegation::Read(read) => (false, read.state_id),
            OpenDelegation::Write(write) => (true, write.state_id),
            _ => return Ok(()),
        };
        if own.returned.contains_key(&state_id.other) {
            return Ok(());
        }
        let (owner, state_id) = (own.owner(file), current(state_id));
        let is_recalled = own.delegations.get(&state_id.other).is_some_and(|one| one.is_recalled);
        let delegation = PosixDelegation { file, object, state_id, is_recalled };
        own.delegations.insert(state_id.other, delegation);
        self.counts.delegated += 1;
        let has = if writes { rights::READ | rights::WRITE } else { rights::READ };
        self.referee.grant(owner, file, has, self.steps)
    }

    fn handle_read(
        &mut self,
        machine: usize,
        xid: u32,
        pending: &SentRequest<PosixRequest>,
        results: &mut CompoundResults<'_>,
    ) -> Result<(), String> {
        let PosixRequest::Read { open, cell } = pending.op else { return Ok(()) };
        let Some(file) = self.referee.open(open).map(|open| open.file) else { return Ok(()) };
        let (sent_at, now) = (pending.sent_at, self.steps);
        match results.status {
            NfsStatus::OK => {}
            NfsStatus::LOCKED => return self.handle_locked(open, cell, pending, false),
            other => return expect(other, &[NfsStatus::DELAY], "read"),
        }
        skip_to(results, OperationNumber::READ)?;
        let result: ReadResult<'_> = results.reader().get().map_err(unreadable)?;
        let value = result.data.try_into().map_or(0, u64::from_le_bytes);
        self.check_held(&pending.held, &format!("read {xid}"), false)?;
        let is_from_smb = value != 0 && !self.of_posix.contains(&(value as u32));
        self.counts.exchanged += u64::from(is_from_smb);
        self.referee.read(file, cell, value, sent_at, now)?;
        self.referee.record_cached(self.posix[machine].owner(file), cell, value, sent_at);
        Ok(())
    }

    fn handle_write(
        &mut self,
        machine: usize,
        xid: u32,
        pending: &SentRequest<PosixRequest>,
        status: NfsStatus,
    ) -> Result<(), String> {
        let PosixRequest::Write { open, cell } = pending.op else { return Ok(()) };
        let Some(file) = self.referee.open(open).map(|open| open.file) else { return Ok(()) };
        let owner = self.posix[machine].owner(file);
        self.referee.write_own(owner, cell, self.steps);
        match status {
            NfsStatus::OK => {
                self.check_held(&pending.held, &format!("write {xid}"), false)?;
                self.referee.wrote(file, cell, xid.into(), self.steps);
                self.referee.expect_break(owner, file, pending.sent_at, &format!("write {xid}"));
                Ok(())
            }
            NfsStatus::LOCKED => self.handle_locked(open, cell, pending, true),
            other => expect(other, &[NfsStatus::DELAY], "write"),
        }
    }

    fn handle_locked(
        &mut self,
        open: u32,
        cell: u8,
        pending: &SentRequest<PosixRequest>,
        writes: bool,
    ) -> Result<(), String> {
        let held = pending.held.iter().filter_map(|at| self.referee.still_held(*at));
        let by_smb = held.filter(|holder| !self.of_posix.contains(holder)).count();
        self.counts.data_refused += u64::from(by_smb > 0);
        self.referee.refused_lock(open, cell, pending.sent_at, writes)
    }

    fn handle_range(
        &mut self,
        machine: usize,
        pending: &SentRequest<PosixRequest>,
        results: &mut CompoundResults<'_>,
    ) -> Result<(), String> {
        let gone = Certainty::Gone(self.steps);
        let status = results.status;
        match pending.op {
            PosixRequest::Lock { open, cell, .. } if status.is_ok() => {
                skip_to(results, OperationNumber::LOCK)?;
                let id: StateId = results.reader().get().map_err(unreadable)?;
                if let Some(open) = self.posix[machine].opens.get_mut(&open) {
                    open.lock_id = Some(current(id));
                }
                self.set_range(machine, open, cell, Some(LockStatus::Held), false);
                self.referee.confirm_lock(open, cell)
            }
            PosixRequest::Lock { open, cell, .. } => {
                self.set_range(machine, open, cell, None, false);
                if status == NfsStatus::DENIED {
                    let held = self.referee.held_against(open, cell, true);
                    let mut holders = held.iter().filter_map(|at| self.referee.still_held(*at));
                    let by_smb = holders.any(|holder| !self.of_posix.contains(&holder));
                    self.counts.lock_refused += u64::from(by_smb);
                    self.referee.refused_lock(open, cell, pending.sent_at, false)?;
                }
                self.referee.mark_lock_uncertain(open, cell, gone);
                expect(status, &[NfsStatus::DENIED, NfsStatus::DELAY], "lock")
            }
            PosixRequest::Unlock { open, cell, .. } => {
                self.set_range(machine, open, cell, None, false);
                if self.plan.fault != Some(MixedFault::Unlock) {
                    self.referee.mark_lock_uncertain(open, cell, gone);
                }
                expect(status, &[NfsStatus::OK], "unlock")
            }
            _ => Ok(()),
        }
    }

    fn handle_look(
        &mut self,
        name: u8,
        sent_at: u64,
        results: &mut CompoundResults<'_>,
    ) -> Result<(), String> {
        let state = match results.status {
            NfsStatus::OK => NameState::Present(self.file_of(file_id(results)?)?),
            NfsStatus::NOENT => NameState::Absent,
            other => return expect(other, &[NfsStatus::DELAY], "lookup"),
        };
        self.counts.missed += u64::from(state == NameState::Absent);
        self.names.observe(name, sent_at, state)
    }

    fn handle_remove(&mut self, name: u8, sent_at: u64, status: NfsStatus) -> Result<(), String> {
        let refused = [
            NfsStatus::OK,
            NfsStatus::NOENT,
            NfsStatus::DELAY,
            NfsStatus::FILE_OPEN,
            NfsStatus::SHARE_DENIED,
        ];
        expect(status, &refused, "remove")?;
        let before = self.names.before(name, sent_at);
        let is_done = status.is_ok();
        if is_done && before == Some(NameState::Absent) {
            return Err(format!("names: {name} is removed, which is not there"));
        }
        if status == NfsStatus::NOENT {
            self.counts.missed += 1;
            self.names.found(name, sent_at, NameState::Absent)?;
        }
        if !is_done {
            self.names.end(name, sent_at, self.steps, NameAfter::Same);
            return Ok(());
        }
        self.counts.renamed += 1;
        let now = self.steps;
        self.deletes_pending_until = now;
        let file = match before {
            Some(NameState::Present(file)) => file,
            _ => UNKNOWN,
        };
        // A file with SMB opens is deleted on the last close.
        if self.referee.may_be_open(file, |one| !self.of_posix.contains(&one)) {
            let others = self.names.all().filter(|other| *other != name);
            others.for_each(|other| self.names.begin(other, now));
            self.pending_deletes.push(PendingDelete::Name { began: now, name, sent_at, file });
            return Ok(());
        }
        self.expect_notifications(sent_at, &format!("that {name} was removed"));
        let is_noted = self.plan.fault != Some(MixedFault::Remove);
        let after = if is_noted { NameAfter::Is(NameState::Absent) } else { NameAfter::Same };
        self.names.end(name, sent_at, now, after);
        Ok(())
    }

    fn handle_moved(
        &mut self,
        from: u8,
        to: u8,
        sent_at: u64,
        status: NfsStatus,
    ) -> Result<(), String> {
        let refused = [
            NfsStatus::OK,
            NfsStatus::NOENT,
            NfsStatus::DELAY,
            NfsStatus::FILE_OPEN,
            NfsStatus::SHARE_DENIED,
            // An SMB client has the target file open.
            NfsStatus::ACCESS,
        ];
        expect(status, &refused, "rename")?;
        let before = self.names.before(from, sent_at);
        if status.is_ok() {
            if before == Some(NameState::Absent) {
                return Err(format!("names: {from} is renamed, which is not there"));
            }
            self.counts.renamed += 1;
            self.expect_notifications(sent_at, &format!("that {from} was renamed"));
        }
        if status == NfsStatus::NOENT {
            self.counts.missed += 1;
            self.names.found(from, sent_at, NameState::Absent)?;
        }
        let now = self.steps;
        if !status.is_ok() {
            [from, to].iter().for_each(|name| self.names.end(*name, sent_at, now, NameAfter::Same));
            return Ok(());
        }
        self.names.end(from, sent_at, now, NameAfter::Is(NameState::Absent));
        self.names.end(to, sent_at, now, before.map_or(NameAfter::Unknown, NameAfter::Is));
        Ok(())
    }

    /// Records the notification that is due to each client whose watch has certainly existed since
    /// before the request.
    fn expect_notifications(&mut self, sent_at: u64, what: &str) {
        for windows in &mut self.windows {
            if matches!(windows.watch, DirectoryWatch::Sure(since) if since < sent_at) {
                windows.watch = DirectoryWatch::Owed(what.into());
            }
        }
    }

    fn handle_listing(
        &mut self,
        machine: usize,
        sent_at: u64,
        results: &mut CompoundResults<'_>,
    ) -> Result<(), String> {
        expect(results.status, &[NfsStatus::OK], "listing")?;
        skip_to(results, OperationNumber::READDIR)?;
        let listed: ReadDirResult<'_> = results.reader().get().map_err(unreadable)?;
        let mut entries = Vec::new();
        for entry in &listed.entries {
            let facts = entry.attributes.attributes().map_err(unreadable)?;
            let times = [facts.time_modify, facts.time_metadata];
            entries.push(ListedFile {
                name: String::from_utf8_lossy(entry.name).into_owned(),
                id: facts.fileid.unwrap_or(0),
                size: facts.size.unwrap_or(0),
                times: times.map(|time| time.map_or(0, units)),
            });
        }
        self.handle_entries(&entries, sent_at)?;
        self.posix[machine].listed = entries;
        Ok(())
    }

    /// A client receives a callback.
    fn called_back(
        &mut self,
        machine: usize,
        xid: u32,
        callbacks: CallbackCompound<'_>,
    ) -> Result<Bytes, String> {
        let by_smb = self.windows.iter().any(|w| w.pending.values().any(|p| p.op.creates()));
        let own = &mut self.posix[machine];
        let mut numbers = own.callbacks;
        let mut wrong = None;
        let sequence = |args: &CbSequenceArgs| {
            let last = numbers.get_mut(args.slot_id as usize).ok_or(NfsStatus::BADSLOT)?;
            if args.sequence_id != *last + 1 {
                wrong = Some(format!("callbacks: {args:?} after {last}"));
            }
            *last = args.sequence_id;
            Ok(())
        };
        let is_early =
            own.in_flight().any(|pending| matches!(pending.op, PosixRequest::Open { .. }));
        let (mut recalled, mut stranger) = (None, None);
        let take = |callback: &Callback<'_>| {
            let Callback::Recall(args) = callback else {
                stranger = Some(format!("callbacks: {callback:?}"));
                return Err(NfsStatus::NOTSUPP);
            };
            if let Some(delegation) = own.delegations.get_mut(&args.state_id.other) {
                delegation.is_recalled = true;
                recalled = Some(delegation.file);
                return Ok(());
            }
            if own.returned.contains_key(&args.state_id.other) {
                return Err(NfsStatus::BAD_STATEID);
            }
            if !is_early {
                stranger = Some(format!("callbacks: {args:?} was never given"));
            }
            Err(NfsStatus::DELAY)
        };
        let answer = messages::callback_answer(xid, callbacks, sequence, take);
        own.callbacks = numbers;
        if let Some(wrong) = wrong.or(stranger) {
            return Err(wrong);
        }
        let number = own.number;
        if let Some(file) = recalled {
            self.counts.recalled += u64::from(by_smb);
            self.referee.record_break(self.posix[machine].owner(file), 0, Some(0));
        }
        self.note(|| format!("{number} is called back: {recalled:?}"));
        answer.ok_or_else(|| "callbacks: an unreadable one".into())
    }
}

/// The state id with sequence number 0, which matches any.
fn current(state_id: StateId) -> StateId {
    StateId { seqid: 0, ..state_id }
}

fn units(time: NfsTime) -> u64 {
    let units = time.seconds * 10_000_000 + i64::from(time.nanoseconds) / 100;
    (units + UNITS_TO_1970).cast_unsigned()
}

/// The file id in the next result, that of a GETATTR.
fn file_id(results: &mut CompoundResults<'_>) -> Result<u64, String> {
    skip_to(results, OperationNumber::GETATTR)?;
    let attributes: Fattr<'_> = results.reader().get().map_err(unreadable)?;
    let facts = attributes.attributes().map_err(unreadable)?;
    facts.fileid.ok_or_else(|| "answers: no number of the file".into())
}

fn expect(status: NfsStatus, allowed: &[NfsStatus], what: &str) -> Result<(), String> {
    match allowed.contains(&status) {
        true => Ok(()),
        false => Err(format!("answers: {what} has {status:?}")),
    }
}
