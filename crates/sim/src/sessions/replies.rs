//! Checks the replies and callbacks that machines receive.

use super::machine::{
    MachineDelegation, NAMES, Presence, SessionMachine, SharedFileOpen, SlotOperation, SlotRequest,
};
use super::messages;
use super::world::{LinkState, SessionWorld};
use bytes::Bytes;
use std::fmt::Debug;
use wire::nfs::callback::{Callback, CallbackCompound, CbSequenceArgs};
use wire::nfs::compound::{CompoundResults, NoResult};
use wire::nfs::ops::{
    BindConnToSessionResult, CreateSessionResult, ExchangeIdResult, NfsOpenResult, OpenDelegation,
    OperationResult, ReadDirResult, SequenceResult, SequenceStatusFlags,
};
use wire::nfs::rpc::RpcMessage;
use wire::nfs::xdr::XdrReader;
use wire::nfs::{NfsStatus, OperationNumber};

/// Maximum number of steps before a request that arrived too early is retransmitted.
const BUSY_STEPS: u64 = 30;

/// The failure for an undecodable message.
pub(crate) fn unreadable(what: impl Debug) -> String {
    format!("answers: {what:?}")
}

impl SessionWorld {
    /// A machine receives the records on a connection.
    pub(super) fn receive(&mut self, number: u32) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        let Some(record) = link.side.as_mut().and_then(|side| side.output.pop_front()) else {
            return Ok(());
        };
        let (machine, standing, binding) = (link.machine, link.standing, link.binding);
        let mut r = XdrReader::new(&record);
        match RpcMessage::decode(&mut r).map_err(unreadable)? {
            RpcMessage::Call(call) => {
                let answer = match call.procedure {
                    0 => messages::null_answer(call.xid),
                    _ => {
                        let callbacks = CallbackCompound::decode(&mut r).map_err(unreadable)?;
                        self.called_back(machine, call.xid, callbacks)?
                    }
                };
                if let Some(link) = self.links.get_mut(&number) {
                    link.on_the_way.push_back(answer);
                }
                Ok(())
            }
            RpcMessage::Reply(reply) => {
                let results = record.slice(r.position()..);
                if binding == Some(reply.xid) {
                    return self.bound(number, &results);
                }
                match standing {
                    LinkState::Introduces => self.introduced(number, &results),
                    LinkState::Begins => self.begun(number, &results),
                    _ => self.answered(machine, number, reply.xid, &results),
                }
            }
        }
    }

    fn introduced(&mut self, number: u32, results: &Bytes) -> Result<(), String> {
        let mut results = results_of(results)?;
        let result: ExchangeIdResult<'_> =
            results.succeed(OperationNumber::EXCHANGE_ID).map_err(unreadable)?;
        let record = messages::new_session(result.client_id, result.sequence_id, self.plan.slots);
        if let Some(link) = self.links.get_mut(&number) {
            link.standing = LinkState::Begins;
            link.on_the_way.push_back(record);
        }
        Ok(())
    }

    fn begun(&mut self, number: u32, results: &Bytes) -> Result<(), String> {
        let mut results = results_of(results)?;
        let result: Result<CreateSessionResult, _> =
            results.succeed(OperationNumber::CREATE_SESSION);
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        // The machine sent a later EXCHANGE_ID on a connection that was lost.
        if matches!(result, Err(NoResult::Failed(NfsStatus::STALE_CLIENTID))) {
            link.standing = LinkState::Introduces;
            link.on_the_way.push_back(messages::introduction(link.machine));
            return Ok(());
        }
        let result = result.map_err(unreadable)?;
        link.standing = LinkState::Ready;
        let machine = link.machine;
        self.machines[machine].session = Some(result.session_id);
        self.machines[machine].slots_max = result.fore_channel.requests_max;
        self.begin(machine, SlotOperation::Complete);
        Ok(())
    }

    fn bound(&mut self, number: u32, results: &Bytes) -> Result<(), String> {
        let mut results = results_of(results)?;
        let result: Result<BindConnToSessionResult, _> =
            results.succeed(OperationNumber::BIND_CONN_TO_SESSION);
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        let result = match result {
            Err(NoResult::Failed(NfsStatus::BADSESSION)) => {
                let machine = link.machine;
                return self.lose(machine);
            }
            result => result.map_err(unreadable)?,
        };
        (link.standing, link.binding) = (LinkState::Ready, None);
        if Some(result.session_id) != self.machines[link.machine].session {
            return Err("sessions: another one was bound".into());
        }
        Ok(())
    }

    /// Handles the reply to a request.
    fn answered(
        &mut self,
        machine: usize,
        link: u32,
        xid: u32,
        results: &Bytes,
    ) -> Result<(), String> {
        let is_it =
            |one: &SlotRequest| one.xid == xid && one.link == link && one.resend_at.is_none();
        let found = self.machines[machine].in_flight().find(|(_, one)| is_it(one));
        let Some((at, one)) = found else {
            return Err(format!("answers: {xid} by {link} was not asked for"));
        };
        let one = one.clone();
        let (steps, plan_slots) = (self.steps, self.plan.slots);
        self.note(|| format!("{machine} hears of {at} by {link}"));
        let mut rest = results_of(results)?;
        let sequence = match rest.succeed::<SequenceResult>(OperationNumber::SEQUENCE) {
            Ok(sequence) => sequence,
            Err(NoResult::Failed(NfsStatus::DELAY)) if one.sent > 1 => {
                self.counts.busy += 1;
                let later = steps + self.random.next() % BUSY_STEPS;
                let slot = &mut self.machines[machine].slots[at as usize];
                if let Some(in_flight) = &mut slot.in_flight {
                    in_flight.resend_at = Some(later);
                }
                return Ok(());
            }
            Err(NoResult::Failed(NfsStatus::BADSESSION)) => return self.lose(machine),
            Err(other) => return Err(format!("sessions: {:?} is answered {other:?}", one.op)),
        };
        self.session_still_exists(machine);
        let of_it = &mut self.machines[machine];
        let slot = &of_it.slots[at as usize];
        let wanted = (of_it.session, at, slot.sequence);
        if (Some(sequence.session_id), sequence.slot_id, sequence.sequence_id) != wanted {
            return Err(format!("sessions: {sequence:?} instead of {wanted:?}"));
        }
        let [highest, target] = [sequence.highest_slot_id, sequence.target_highest_slot_id];
        if target > highest || at > highest || highest >= plan_slots {
            return Err(format!("slots: {at} of {highest} and {target}"));
        }
        let before = of_it.slots_max;
        of_it.handle_slots(target, one.since, steps);
        self.counts.fewer += u64::from(of_it.slots_max < before);
        self.handle_flags(machine, sequence.status_flags)?;
        if rest.status == NfsStatus::RETRY_UNCACHED_REP {
            if one.op.is_kept() || (one.sent == 1 && one.replayed_reply.is_none()) {
                return Err(format!("once: nothing was kept of {:?}", one.op));
            }
            self.counts.uncached += 1;
        } else if let Some(heard) = &one.replayed_reply {
            if heard != results {
                return Err(format!("once: {:?} is answered otherwise", one.op));
            }
        } else {
            self.take(machine, &one, rest)?;
        }
        self.end_request(machine, at, results);
        self.check_together()
    }

    fn handle_flags(&mut self, machine: usize, flags: SequenceStatusFlags) -> Result<(), String> {
        let down =
            SequenceStatusFlags::CB_PATH_DOWN.0 | SequenceStatusFlags::CB_PATH_DOWN_SESSION.0;
        if flags.0 & !down != 0 {
            return Err(format!("sessions: {machine} received {flags:?}"));
        }
        if flags.0 != 0 && !self.machines[machine].is_deaf {
            self.machines[machine].is_deaf = true;
            self.counts.deaf += 1;
            self.note(|| format!("{machine} is deaf"));
        }
        Ok(())
    }

    fn end_request(&mut self, machine: usize, at: u32, results: &Bytes) {
        let of_it = &mut self.machines[machine];
        let slot = &mut of_it.slots[at as usize];
        if let Some(one) = slot.in_flight.take() {
            if one.replayed_reply.is_none() {
                self.counts.answered += 1;
                of_it.done += 1;
            }
            let one = SlotRequest { replayed_reply: None, ..one };
            slot.last = Some((one, results.clone()));
        }
    }

    /// Applies the effects of a request according to its reply.
    fn take(
        &mut self,
        machine: usize,
        one: &SlotRequest,
        mut results: CompoundResults<'_>,
    ) -> Result<(), String> {
        let status = results.status;
        let of_it = &mut self.machines[machine];
        let has = |name: u8| of_it.names.contains(&name);
        let expected = match one.op {
            SlotOperation::Make(name) if has(name) => NfsStatus::EXIST,
            SlotOperation::Remove(name) | SlotOperation::Rename(name, _) if !has(name) => {
                NfsStatus::NOENT
            }
            SlotOperation::Open { .. } if status == NfsStatus::DELAY => NfsStatus::DELAY,
            _ => NfsStatus::OK,
        };
        if status != expected {
            return Err(format!("once: {:?} is answered {status:?}, not {expected:?}", one.op));
        }
        let is_done = status.is_ok();
        match one.op {
            SlotOperation::Make(name) | SlotOperation::Remove(name) => {
                let is_there = matches!(one.op, SlotOperation::Make(_)) || !is_done;
                of_it.change(self.steps, name, is_there && (is_done || has(name)));
            }
            SlotOperation::Rename(from, to) => {
                let (of_from, of_to) = (has(from), has(to));
                of_it.change(self.steps, from, of_from && !is_done);
                of_it.change(self.steps, to, of_to || is_done);
            }
            SlotOperation::Open { .. } if !is_done => self.counts.delayed += 1,
            SlotOperation::Open { file, writes, number } => {
                skip_to(&mut results, OperationNumber::OPEN)?;
                let result: NfsOpenResult<'_> = results.reader().get().map_err(unreadable)?;
                let open = SharedFileOpen { file, writes, state_id: result.state_id };
                of_it.opens.insert(number, open);
                let (writes, state_id) = match result.delegation {
                    OpenDelegation::Read(delegation) => (false, delegation.state_id),
                    OpenDelegation::Write(delegation) => (true, delegation.state_id),
                    _ => return Ok(()),
                };
                if !of_it.returned.contains(&state_id.other) {
                    let delegation =
                        MachineDelegation { file, writes, state_id, is_recalled: false };
                    of_it.delegations.entry(state_id.other).or_insert(delegation);
                    self.counts.delegated += 1;
                    self.note(|| format!("{machine} has {delegation:?}"));
                }
            }
            SlotOperation::List => {
                skip_to(&mut results, OperationNumber::READDIR)?;
                let listed: ReadDirResult<'_> = results.reader().get().map_err(unreadable)?;
                let names: Vec<&[u8]> = listed.entries.iter().map(|entry| entry.name).collect();
                of_it.check_listed(&names, one.since)?;
            }
            SlotOperation::Complete => of_it.is_complete = true,
            SlotOperation::Close { .. }
            | SlotOperation::ReturnDelegation { .. }
            | SlotOperation::Renew => {}
        }
        Ok(())
    }

    /// Checks that no two machines have conflicting state.
    fn check_together(&self) -> Result<(), String> {
        let here = || self.machines.iter().filter(|one| one.presence == Presence::Here);
        for holder in here() {
            for delegation in holder.delegations.values() {
                let MachineDelegation { file, writes, .. } = *delegation;
                let others = here().filter(|m| m.number != holder.number);
                for other in others {
                    let opens = other.opens.values().map(|open| (open.file, open.writes));
                    let delegated = other.delegations.values().map(|d| (d.file, d.writes));
                    let in_the_way =
                        opens.chain(delegated).find(|(of, w)| *of == file && (writes || *w));
                    if in_the_way.is_some() {
                        let (one, two) = (holder.number, other.number);
                        return Err(format!("delegations: {one} has {delegation:?}, {two} too"));
                    }
                }
            }
        }
        Ok(())
    }

    /// A machine receives a callback.
    fn called_back(
        &mut self,
        machine: usize,
        xid: u32,
        callbacks: CallbackCompound<'_>,
    ) -> Result<Bytes, String> {
        let of_it = &mut self.machines[machine];
        let (session, mut numbers) = (of_it.session, of_it.callbacks);
        let mut wrong = None;
        let sequence = |args: &CbSequenceArgs| {
            let last = numbers.get_mut(args.slot_id as usize).ok_or(NfsStatus::BADSLOT)?;
            if Some(args.session_id) != session {
                wrong = Some("sessions: a callback of another".to_owned());
            }
            match args.sequence_id.wrapping_sub(*last) {
                0 => Err(NfsStatus::RETRY_UNCACHED_REP),
                1 => {
                    *last = args.sequence_id;
                    Ok(())
                }
                _ => {
                    wrong = Some(format!("callbacks: {args:?} after {last}"));
                    Err(NfsStatus::SEQ_MISORDERED)
                }
            }
        };
        let (mut recalled, mut early, mut stranger) = (None, false, None);
        let take = |callback: &Callback<'_>| {
            let Callback::Recall(args) = callback else {
                stranger = Some(format!("callbacks: {callback:?}"));
                return Err(NfsStatus::NOTSUPP);
            };
            if let Some(delegation) = of_it.delegations.get_mut(&args.state_id.other) {
                delegation.is_recalled = true;
                recalled = Some(*delegation);
                return Ok(());
            }
            let opens = of_it.slots.iter().filter_map(|slot| slot.in_flight.as_ref());
            early = opens.into_iter().any(|one| matches!(one.op, SlotOperation::Open { .. }));
            if of_it.returned.contains(&args.state_id.other) {
                return Err(NfsStatus::BAD_STATEID);
            }
            if !early {
                stranger = Some(format!("callbacks: {args:?} was never given"));
            }
            Err(NfsStatus::DELAY)
        };
        let answer = messages::callback_answer(xid, callbacks, sequence, take);
        of_it.callbacks = numbers;
        if let Some(wrong) = wrong.or(stranger) {
            return Err(wrong);
        }
        self.counts.recalled += u64::from(recalled.is_some());
        self.counts.early += u64::from(early);
        self.note(|| format!("{machine} is called back: {recalled:?}"));
        answer.ok_or_else(|| "callbacks: an unreadable one".into())
    }
}

impl SessionMachine {
    /// A name was changed, and now exists or not.
    fn change(&mut self, now: u64, name: u8, is_there: bool) {
        self.unsure.remove(&name);
        self.touched.insert(name, now);
        match is_there {
            true => self.names.insert(name),
            false => self.names.remove(&name),
        };
    }

    /// Checks that a listing holds the certain names, except for those changed meanwhile.
    fn check_listed(&self, listed: &[&[u8]], since: u64) -> Result<(), String> {
        for name in 0..NAMES {
            let is_old = self.touched.get(&name).is_none_or(|at| *at < since);
            let is_listed = listed.contains(&messages::own_name(name).as_bytes());
            let is_there = self.names.contains(&name);
            if is_old && !self.unsure.contains(&name) && is_listed != is_there {
                return Err(format!("names: {name} is listed: {is_listed}"));
            }
        }
        Ok(())
    }
}

/// Decodes the results of a reply behind the RPC header.
pub(crate) fn results_of(results: &Bytes) -> Result<CompoundResults<'_>, String> {
    CompoundResults::decode(&mut XdrReader::new(results)).map_err(unreadable)
}

/// Skips to the result of an operation.
pub(crate) fn skip_to(
    results: &mut CompoundResults<'_>,
    wanted: OperationNumber,
) -> Result<(), String> {
    while let Some((number, status)) = results.next_status().map_err(unreadable)? {
        if number == wanted {
            return Ok(());
        }
        OperationResult::decode(number, status, results.reader()).map_err(unreadable)?;
    }
    Err(format!("answers: there is no {wanted:?}"))
}
