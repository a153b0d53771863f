//! Handles the responses and notifications that clients receive.

use super::ChannelFault;
use super::link::{Flaw, LinkEvent, LinkRole, MessagePurpose};
use super::machine::{
    Acknowledgment, CacheRequest, ChannelOpen, ChannelOpenStatus, ChannelOperation, DIRECTORY,
    DecodedCreate, ENTRIES, LockStatus, MachineSession, lease_key, rights_of_level,
};
use super::referee::{Certainty, RefereeOwner, rights};
use super::world::{ChannelRequest, ChannelWorld, FirstCreateReply};
use wire::codec::Reader;
use wire::ntstatus::NtStatus;
use wire::smb::{FileId, Header, LEASE_BREAK_IN_PROGRESS, LeaseContext, SessionId};

impl ChannelWorld {
    pub(super) fn handle(&mut self, number: u32, event: LinkEvent) -> Result<(), String> {
        let Some(link) = self.links.get(&number) else { return Ok(()) };
        let (machine, is_given_up) = (link.machine, link.is_given_up);
        match event {
            LinkEvent::SetUp(status) => self.handle_set_up(number, machine, status),
            LinkEvent::RenewGoesOn(good) => {
                if let Some(link) = self.links.get_mut(&number).filter(|_| !is_given_up) {
                    link.renew(MessagePurpose::RenewEnd(good));
                }
                Ok(())
            }
            LinkEvent::Notice(message) if is_given_up || self.is_mute() => {
                drop(message);
                Ok(())
            }
            LinkEvent::Notice(message) => self.handle_notice(machine, &message),
            LinkEvent::Reply(MessagePurpose::Ask(op), status, message) => {
                self.handle_reply(number, op, status, &message)
            }
            LinkEvent::Reply(MessagePurpose::Acknowledge, status, _) => {
                self.handle_acknowledged(number, status);
                Ok(())
            }
            LinkEvent::Reply(..) if is_given_up => Ok(()),
            LinkEvent::Reply(MessagePurpose::LogOff, status, _) => {
                self.note(format!("{machine} is logged off: {status:?}"));
                self.counts.logged_off += 1;
                if status != NtStatus::SUCCESS {
                    return Err(format!("LOGOFF was answered {status:?}"));
                }
                self.lose_all(machine, Certainty::Kept)
            }
            LinkEvent::Reply(
                MessagePurpose::RenewBegin(good) | MessagePurpose::RenewEnd(good),
                status,
                _,
            ) => self.handle_renewed(machine, good, status),
            LinkEvent::Reply(MessagePurpose::SetUp, ..) => Ok(()),
        }
    }

    fn handle_acknowledged(&mut self, number: u32, status: NtStatus) {
        let Some(at) = self.sent_back.iter().position(|(link, ..)| *link == number) else { return };
        let (_, machine, what) = self.sent_back.remove(at);
        if status == NtStatus::SUCCESS {
            return;
        }
        // The acknowledgment was too late: the server had revoked everything.
        match what {
            Acknowledgment::Lease(key, _) => {
                self.referee.invalidate_cache(RefereeOwner::Key(machine, key))
            }
            Acknowledgment::Oplock(file, _) => {
                if let Some(handle) = self.machines[machine].with_id(file) {
                    self.referee.invalidate_cache(RefereeOwner::Handle(handle));
                }
            }
        }
    }

    fn is_mute(&self) -> bool {
        self.plan.fault == Some(ChannelFault::Notice)
    }

    fn handle_renewed(
        &mut self,
        machine: usize,
        good: bool,
        status: NtStatus,
    ) -> Result<(), String> {
        self.note(format!("{machine} authenticated anew, {good}: {status:?}"));
        let Some(session) = &self.machines[machine].session else { return Ok(()) };
        if good {
            self.counts.renewed += 1;
            let is_right = status == NtStatus::SUCCESS
                || (session.is_ending && status == NtStatus::USER_SESSION_DELETED);
            return if is_right { Ok(()) } else { Err(format!("renewal: {status:?}")) };
        }
        if status != NtStatus::LOGON_FAILURE {
            return Err(format!("a wrong password was answered {status:?}"));
        }
        self.lose_all(machine, Certainty::Possible)
    }

    fn handle_set_up(
        &mut self,
        number: u32,
        machine: usize,
        status: NtStatus,
    ) -> Result<(), String> {
        self.note(format!("{number} of {machine} is set up: {status:?}"));
        let link = &self.links[&number];
        let (role, session) = (link.role.clone(), link.session);
        let LinkRole::Binds(_, _, _, flaw) = role else {
            if status != NtStatus::SUCCESS {
                return Err(format!("the logon failed: {status:?}"));
            }
            if let Some(key) = link.key() {
                self.keys.insert(session.0, key);
            }
            let machine = &mut self.machines[machine];
            machine.sessions += 1;
            let number = machine.sessions;
            machine.session =
                Some(MachineSession { number, id: session, ..MachineSession::default() });
            return Ok(());
        };
        let present = self.machines[machine].session.as_ref();
        let is_present = present.is_some_and(|s| s.id == session && !s.is_ending);
        if status == NtStatus::SUCCESS {
            if flaw != Flaw::None {
                return Err(format!("bindings: one with {flaw:?} was allowed"));
            }
            self.counts.bound += 1;
            return if is_present { Ok(()) } else { self.cut(number) };
        }
        self.counts.refused_binds += 1;
        let due = match flaw {
            Flaw::None => NtStatus::INSUFFICIENT_RESOURCES,
            Flaw::OtherUser | Flaw::WrongKey => NtStatus::ACCESS_DENIED,
            Flaw::Password => NtStatus::LOGON_FAILURE,
            Flaw::Unsigned => NtStatus::INVALID_PARAMETER,
        };
        let others = [due, NtStatus::INSUFFICIENT_RESOURCES];
        if !others.contains(&status) && is_present {
            return Err(format!("bindings: {flaw:?} was answered {status:?}"));
        }
        self.cut(number)?;
        if self.plan.fault == Some(ChannelFault::Bind) {
            let first = self.ready_links(machine).next();
            if let Some(link) = first.and_then(|first| self.links.get_mut(&first)) {
                drop(link.side.take());
            }
        }
        Ok(())
    }

    fn handle_reply(
        &mut self,
        number: u32,
        id: u32,
        status: NtStatus,
        message: &[u8],
    ) -> Result<(), String> {
        let body = message.get(Header::LENGTH..).unwrap_or_default();
        let is_given_up = self.links.get(&number).is_some_and(|link| link.is_given_up);
        let Some(pending) = self.pending.get_mut(&id) else {
            return self.check_equal(id, status, body);
        };
        let makes = matches!(pending.op, ChannelOperation::Create { .. });
        if pending.link != number || is_given_up {
            if makes && status == NtStatus::SUCCESS {
                pending.given_up_reply = Some(body.to_vec());
            }
            return Ok(());
        }
        let pending = pending.clone();
        self.note(format!("{} has {id}: {status:?}", pending.machine));
        self.counts.answered += 1;
        let session = self.machines[pending.machine].session.as_ref();
        if session.is_none_or(|session| session.is_ending) {
            self.lose_op(id);
            return Ok(());
        }
        let what = format!("{:?} of {} was answered {status:?}", pending.op, pending.machine);
        let result = match pending.op {
            ChannelOperation::Create { .. } => self.take_create(id, &pending, status, message),
            ChannelOperation::Reconnect { .. } => {
                self.take_reconnect(id, &pending, status, message)
            }
            ChannelOperation::Steal { .. } => self.take_theft(id, status),
            ChannelOperation::Close { handle } => self.take_close(id, &pending, handle, status),
            ChannelOperation::Read { .. } | ChannelOperation::Write { .. } => {
                self.take_data(id, &pending, status, message)
            }
            ChannelOperation::Lock { .. } | ChannelOperation::Unlock { .. } => {
                self.take_lock(id, &pending, status)
            }
        };
        let file = self.file_of(pending.op);
        self.touches.entry(file).and_modify(|n| *n += 1).or_default();
        match result {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("status: {what}")),
            Err(why) => Err(format!("{why}\n{what}")),
        }
    }

    /// Checks that a replayed CREATE gets an equal response, unless its open was used in between.
    fn check_equal(&mut self, id: u32, status: NtStatus, body: &[u8]) -> Result<(), String> {
        let Some(FirstCreateReply { handle, body: first }) = self.created.get(&id) else {
            return Ok(());
        };
        // Once the client has used the open, the server drops the CreateGuid. MS-SMB2 3.3.5.9.10.
        if status != NtStatus::SUCCESS || self.used.contains(handle) {
            return Ok(());
        }
        self.counts.answered_twice += 1;
        // Level, action and id; times and sizes may have changed meanwhile.
        let shown = |body: &[u8]| {
            (body.get(4..8).map(<[u8]>::to_vec), body.get(64..80).map(<[u8]>::to_vec))
        };
        if shown(first) == shown(body) {
            Ok(())
        } else {
            Err(format!("replays: {id} was answered in two ways:\n{first:x?}\n{body:x?}"))
        }
    }

    fn take_create(
        &mut self,
        id: u32,
        pending: &ChannelRequest,
        status: NtStatus,
        message: &[u8],
    ) -> Result<bool, String> {
        let handle = pending.op.handle();
        let file = self.file_of(pending.op);
        let is_repeated = pending.sent > 1;
        match status {
            NtStatus::SUCCESS => {
                self.take_equal(id, pending, message)?;
                self.pending.remove(&id);
                self.take_open(pending, message)?;
                if file >= ENTRIES {
                    let by = RefereeOwner::Handle(handle);
                    self.referee.expect_break(by, DIRECTORY, pending.sent_at, "a new entry");
                }
                self.counts.opened += 1;
                Ok(true)
            }
            NtStatus::SHARING_VIOLATION => {
                self.referee.refused_share(handle, pending.sent_at)?;
                self.forget_open(id, pending.machine, handle);
                Ok(true)
            }
            // The first CREATE is in flight, or was lost with the server.
            NtStatus::FILE_NOT_AVAILABLE | NtStatus::DUPLICATE_OBJECTID if is_repeated => {
                if !self.schedule_resend(id, true) {
                    self.lose_op(id);
                }
                Ok(true)
            }
            NtStatus::FILE_NOT_AVAILABLE if self.referee.is_kept(file) => {
                self.forget_open(id, pending.machine, handle);
                Ok(true)
            }
            NtStatus::OBJECT_NAME_NOT_FOUND if is_repeated => {
                self.lose_op(id);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Checks that a replay on another channel gets a response equal to that on a given-up channel.
    fn take_equal(
        &mut self,
        id: u32,
        pending: &ChannelRequest,
        message: &[u8],
    ) -> Result<(), String> {
        let Some(handle) = self.machines[pending.machine].handles.get(&pending.op.handle()) else {
            return Ok(());
        };
        let body = message.get(Header::LENGTH..).unwrap_or_default().to_vec();
        let is_named = handle.durable.guid().is_some();
        // The replay's response reports the requested oplock level, as in Samba.
        let is_alike = !matches!(handle.cache, CacheRequest::Oplock(_));
        let touches = self.touches.get(&handle.file).copied().unwrap_or_default();
        if is_named {
            let handle = handle.number;
            self.created.insert(id, FirstCreateReply { handle, body: body.clone() });
        }
        if let Some(first) = pending.given_up_reply.as_ref().filter(|_| is_named) {
            let is_touched = touches != pending.touches || self.is_being_touched(handle.file);
            if is_alike && !is_touched && *first != body {
                return Err(format!("replays: not the same bytes:\n{first:x?}\n{body:x?}"));
            }
            self.check_equal(id, NtStatus::SUCCESS, first)?;
        }
        Ok(())
    }

    /// True if an earlier request on the file may have been executed at any time since.
    fn is_being_touched(&self, file: u32) -> bool {
        self.pending.values().filter(|p| self.file_of(p.op) == file).count() > 1
    }

    fn forget_open(&mut self, id: u32, machine: usize, handle: u32) {
        self.pending.remove(&id);
        self.machines[machine].handles.remove(&handle);
        let steps = self.steps;
        self.referee.mark_uncertain(handle, Certainty::Gone(steps));
        self.referee.drop_cache(RefereeOwner::Handle(handle));
    }

    fn take_open(&mut self, pending: &ChannelRequest, message: &[u8]) -> Result<(), String> {
        let DecodedCreate { id, level, lease, durable, .. } =
            DecodedCreate::decode(message).ok_or("a short reply to CREATE")?;
        let number = pending.op.handle();
        let own = &mut self.machines[pending.machine];
        let session = own.sessions;
        let Some(handle) = own.handles.get_mut(&number) else { return Ok(()) };
        (handle.id, handle.status, handle.session) = (id, ChannelOpenStatus::Open, session);
        if let ChannelOperation::Create { .. } = pending.op {
            handle.is_durable = durable.is_some();
            handle.is_persistent = durable == Some(true);
        }
        if lease.is_none() && matches!(handle.cache, CacheRequest::Lease(..)) {
            // The oplock was lost with the server.
            handle.cache = CacheRequest::None;
            self.referee.leave_key(number);
        }
        let handle = handle.clone();
        self.referee.confirm(number, Certainty::Certain)?;
        for cell in handle.locks.iter().filter(|(_, l)| **l == LockStatus::Held).map(|(c, _)| *c) {
            self.referee.confirm_lock(number, cell)?;
        }
        match (handle.cache, lease) {
            (CacheRequest::Lease(key, _), Some(lease)) => {
                self.take_lease(pending, &handle, key, &lease)
            }
            (CacheRequest::Oplock(_), _) => self.take_oplock(pending, &handle, level),
            _ => Ok(()),
        }
    }

    fn take_oplock(
        &mut self,
        pending: &ChannelRequest,
        handle: &ChannelOpen,
        level: u8,
    ) -> Result<(), String> {
        let early = self.machines[pending.machine].early.remove(&handle.id.volatile);
        // The response to a replayed CREATE reports the requested oplock level.
        let is_repeated = pending.sent > 1 && matches!(pending.op, ChannelOperation::Create { .. });
        let owner = RefereeOwner::Handle(handle.number);
        self.note(format!(
            "{} has level {level} of {} as {id:?}",
            pending.machine,
            handle.number,
            id = handle.id
        ));
        if !is_repeated {
            self.referee.grant(owner, handle.file, rights_of_level(level), self.steps)?;
        }
        if let Some(to) = early {
            self.handle_oplock_break(pending.machine, handle.number, handle.id, to);
        }
        Ok(())
    }

    fn take_lease(
        &mut self,
        pending: &ChannelRequest,
        handle: &ChannelOpen,
        key: u8,
        lease: &LeaseContext,
    ) -> Result<(), String> {
        let machine = pending.machine;
        let owner = RefereeOwner::Key(machine, key);
        let is_other = |p: &ChannelRequest| {
            let other = self.machines[machine].handles.get(&p.op.handle());
            p.machine == machine
                && matches!(
                    p.op,
                    ChannelOperation::Create { .. } | ChannelOperation::Reconnect { .. }
                )
                && other.is_some_and(|h| matches!(h.cache, CacheRequest::Lease(k, _) if k == key))
        };
        let others = self.pending.values().any(is_other);
        let (state, flags, epoch) = (lease.state, lease.flags, lease.v2.map(|v2| v2.epoch));
        self.note(format!("{machine} has lease {key}: {state}, flags {flags}, epoch {epoch:?}"));
        let known = self.machines[machine].leases.entry(key).or_default();
        let is_breaking = lease.flags & LEASE_BREAK_IN_PROGRESS != 0;
        let Some(v2) = lease.v2 else {
            // Without an epoch the order of the messages is unknown.
            if others || known.last_break_step >= pending.sent_at || is_breaking {
                self.referee.invalidate_cache(owner);
                return Ok(());
            }
            return self.referee.grant(owner, handle.file, lease.state as u8, self.steps);
        };
        let later = v2.epoch.wrapping_sub(known.epoch).cast_signed();
        if is_breaking && later > 0 {
            // The break notification is in flight.
            self.referee.invalidate_cache(owner);
        } else if !is_breaking && later >= 0 {
            let is_asked = self.referee.cache(owner).is_some_and(|c| c.breaking.is_some());
            if later == 0 && is_asked {
                return Ok(());
            }
            known.epoch = v2.epoch;
            if later > 1 {
                // A break notification has not arrived yet, so data read now is not cached.
                self.referee.invalidate_cache(owner);
            }
            // Only a later epoch grants more than the known rights. A break notification may have
            // the same epoch: that of a lease that ended before this one began, and whose end also
            // ended its break.
            let known = self.referee.cache(owner).filter(|_| later == 0);
            let has = lease.state as u8 & known.map_or(u8::MAX, |cache| cache.rights);
            return self.referee.grant(owner, handle.file, has, self.steps);
        }
        Ok(())
    }

    fn take_reconnect(
        &mut self,
        id: u32,
        pending: &ChannelRequest,
        status: NtStatus,
        message: &[u8],
    ) -> Result<bool, String> {
        let number = pending.op.handle();
        let Some(handle) = self.machines[pending.machine].handles.get(&number).cloned() else {
            self.pending.remove(&id);
            return Ok(true);
        };
        if status == NtStatus::SUCCESS {
            self.pending.remove(&id);
            self.counts.returned += 1;
            self.counts.persisted += u64::from(handle.is_persistent);
            return self.take_open(pending, message).map(|()| true);
        }
        if status != NtStatus::OBJECT_NAME_NOT_FOUND {
            return Ok(false);
        }
        let is_kept = self.referee.open(number).is_some_and(|o| o.standing == Certainty::Kept);
        if is_kept && self.must_wait(&handle) && pending.sent == 1 {
            return Err(format!("persistence: {number} does not come back"));
        }
        self.lose_op(id);
        self.set_status(pending.machine, number, ChannelOpenStatus::Lost);
        Ok(true)
    }

    fn take_theft(&mut self, id: u32, status: NtStatus) -> Result<bool, String> {
        self.pending.remove(&id);
        if status == NtStatus::SUCCESS {
            return Err("users: an open was given to another".into());
        }
        self.counts.stolen_in_vain += 1;
        Ok(true)
    }

    fn take_close(
        &mut self,
        id: u32,
        pending: &ChannelRequest,
        handle: u32,
        status: NtStatus,
    ) -> Result<bool, String> {
        let is_done =
            status == NtStatus::SUCCESS || (status == NtStatus::FILE_CLOSED && pending.sent > 1);
        if is_done {
            self.forget_open(id, pending.machine, handle);
        }
        Ok(is_done)
    }

    fn take_data(
        &mut self,
        id: u32,
        pending: &ChannelRequest,
        status: NtStatus,
        message: &[u8],
    ) -> Result<bool, String> {
        let number = pending.op.handle();
        let Some(handle) = self.machines[pending.machine].handles.get(&number).cloned() else {
            self.pending.remove(&id);
            return Ok(true);
        };
        let (ChannelOperation::Read { cell, .. } | ChannelOperation::Write { cell, .. }) =
            pending.op
        else {
            return Ok(false);
        };
        let writes = matches!(pending.op, ChannelOperation::Write { .. });
        let by = handle.owner(pending.machine);
        let (file, sent_at, now) = (handle.file, pending.sent_at, self.steps);
        match status {
            NtStatus::SUCCESS if writes => {
                self.referee.wrote(file, cell, id.into(), now);
                self.referee.write_own(by, cell, now);
                self.referee.expect_break(by, file, sent_at, &format!("write {id}"));
            }
            NtStatus::SUCCESS => {
                let value = read_value(message).ok_or("a short reply to READ")?;
                self.referee.read(file, cell, value, sent_at, now)?;
                self.referee.record_cached(by, cell, value, sent_at);
            }
            NtStatus::END_OF_FILE if !writes => self.referee.read(file, cell, 0, sent_at, now)?,
            NtStatus::FILE_LOCK_CONFLICT => {
                // The client's own shared lock prevents a write.
                self.referee.refused_lock(number, cell, sent_at, writes)?;
            }
            // A later channel sequence was received, or another transmission is in flight.
            NtStatus::FILE_NOT_AVAILABLE if writes => {
                let sequence = self.machines[pending.machine].session.as_ref();
                if sequence.is_none_or(|session| session.sequence == 0) {
                    return Ok(false);
                }
                if !self.schedule_resend(id, true) {
                    self.lose_op(id);
                }
                return Ok(true);
            }
            _ => return Ok(false),
        }
        self.pending.remove(&id);
        Ok(true)
    }

    fn take_lock(
        &mut self,
        id: u32,
        pending: &ChannelRequest,
        status: NtStatus,
    ) -> Result<bool, String> {
        let number = pending.op.handle();
        let (ChannelOperation::Lock { cell, .. } | ChannelOperation::Unlock { cell, .. }) =
            pending.op
        else {
            return Ok(false);
        };
        let locks = matches!(pending.op, ChannelOperation::Lock { .. });
        let is_repeated = pending.sent > 1;
        let gone = Certainty::Gone(self.steps);
        let left = match status {
            NtStatus::SUCCESS if locks => {
                self.referee.confirm_lock(number, cell)?;
                Some(LockStatus::Held)
            }
            NtStatus::SUCCESS => {
                self.referee.mark_lock_uncertain(number, cell, gone);
                None
            }
            NtStatus::LOCK_NOT_GRANTED if locks => {
                self.referee.refused_lock(number, cell, pending.sent_at, false)?;
                if is_repeated {
                    // The first response may still arrive.
                    Some(LockStatus::Unknown)
                } else {
                    self.referee.mark_lock_uncertain(number, cell, gone);
                    None
                }
            }
            NtStatus::RANGE_NOT_LOCKED if !locks && is_repeated => Some(LockStatus::Unknown),
            _ => return Ok(false),
        };
        self.pending.remove(&id);
        if let Some(handle) = self.machines[pending.machine].handles.get_mut(&number) {
            match left {
                Some(status) => drop(handle.locks.insert(cell, status)),
                None => drop(handle.locks.remove(&cell)),
            }
        }
        Ok(true)
    }

    /// Handles a break notification. MS-SMB2 2.2.23.
    fn handle_notice(&mut self, machine: usize, message: &[u8]) -> Result<(), String> {
        let BreakNotification { file, to, lease } = BreakNotification::read(message)?;
        self.counts.breaks += 1;
        self.note(format!("{machine} hears of {file:?} {lease:?} {to}"));
        if let Some((key, epoch, answers)) = lease {
            if key != lease_key(key[0]) {
                return Err("a notice of an unknown lease".into());
            }
            self.handle_lease_break(machine, key[0], to, epoch, answers);
            return Ok(());
        }
        match self.machines[machine].with_id(file) {
            Some(handle) => self.handle_oplock_break(machine, handle, file, to),
            None => drop(self.machines[machine].early.insert(file.volatile, to)),
        }
        Ok(())
    }

    fn is_silent(&mut self) -> bool {
        let silent = self.random.percent(self.plan.silent);
        self.counts.silent += u64::from(silent);
        silent
    }

    fn handle_oplock_break(&mut self, machine: usize, handle: u32, file: FileId, level: u8) {
        self.note(format!("{machine} receives a break of {handle} to level {level}"));
        let owner = RefereeOwner::Handle(handle);
        let to = rights_of_level(level);
        let has = self.referee.cache(owner).map_or(0, |cache| cache.rights);
        if has == rights::READ {
            self.referee.record_break(owner, to, None);
            return;
        }
        self.referee.record_break(owner, to, Some(self.last_leap));
        if !self.is_silent() {
            let acknowledgment = Acknowledgment::Oplock(file, level);
            self.machines[machine].acknowledgments.push_back(acknowledgment);
        }
    }

    fn handle_lease_break(&mut self, machine: usize, key: u8, to: u8, epoch: u16, answers: bool) {
        let steps = self.steps;
        self.note(format!("{machine} receives a break of {key} to {to}, {epoch}, {answers}"));
        let known = self.machines[machine].leases.entry(key).or_default();
        let is_v2 = key.is_multiple_of(2);
        if is_v2 && epoch.wrapping_sub(known.epoch).cast_signed() < 0 {
            return;
        }
        known.last_break_step = steps;
        if is_v2 {
            known.epoch = epoch;
        }
        let owner = RefereeOwner::Key(machine, key);
        if !is_v2 && self.referee.cache(owner).is_some_and(|cache| cache.breaking.is_some()) {
            self.referee.mark_order_unknown(owner);
        }
        self.referee.record_break(owner, to, answers.then_some(self.last_leap));
        if answers && !self.is_silent() {
            let keeps = if self.random.percent(15) { 0 } else { to };
            let acknowledgment = Acknowledgment::Lease(key, keeps);
            self.machines[machine].acknowledgments.push_back(acknowledgment);
        }
    }

    /// The machine of a session, if it still has it.
    pub(super) fn machine_of(&self, session: SessionId) -> Option<usize> {
        let has = |m: &&super::machine::ChannelMachine| {
            m.session.as_ref().is_some_and(|s| s.id == session)
        };
        self.machines.iter().find(has).map(|m| m.number)
    }
}

/// A break notification. MS-SMB2 2.2.23.
pub(crate) struct BreakNotification {
    /// The open, for an oplock.
    pub file: FileId,
    /// Remaining oplock level, or lease state.
    pub to: u8,
    /// Lease key, epoch, and whether the server awaits an acknowledgment.
    pub lease: Option<([u8; 16], u16, bool)>,
}

impl BreakNotification {
    /// Decodes the message.
    ///
    /// # Errors
    /// The message is short.
    pub(crate) fn read(message: &[u8]) -> Result<Self, String> {
        let short = || "a short notice".to_owned();
        let mut r = Reader::new(message.get(Header::LENGTH..).ok_or_else(short)?);
        let mut read = || -> Result<Self, wire::codec::DecodeError> {
            let size = r.u16("notice")?;
            if size == 24 {
                let to = r.u8("notice")?;
                r.skip(5, "notice")?;
                return Ok(Self { file: FileId::decode(&mut r)?, to, lease: None });
            }
            let epoch = r.u16("notice")?;
            let answers = r.u32("notice")? & 1 != 0;
            let key: [u8; 16] = r.array("notice")?;
            r.skip(4, "notice")?;
            let to = r.u32("notice")? as u8;
            let file = FileId { persistent: 0, volatile: 0 };
            Ok(Self { file, to, lease: Some((key, epoch, answers)) })
        };
        read().map_err(|_| short())
    }
}

/// The value in a READ response. MS-SMB2 2.2.20.
pub(crate) fn read_value(message: &[u8]) -> Option<u64> {
    let offset = usize::from(*message.get(66)?);
    let bytes = message.get(offset..offset + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}
