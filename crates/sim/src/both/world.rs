//! The world of a run: clients of both protocols, the server, and the choice of the next action.

use super::names::{NameAfter, NameKnowledge, NameState};
use super::posix::{Posix, PosixRequest};
use super::setup::Servers;
use super::windows::{SentRequest, WindowsMachine};
use super::{MixedCounts, MixedPlan};
use crate::channels::referee::{Referee, RefereeOwner};
use crate::random::Random;
use crate::runner::{Next, Runner, TurnOutcome};
use crate::server_side::{ServerSide, SmbServerStep};
use crate::sessions::side::{NfsServerEnd, NfsServerStep as RecordStep};
use crate::sessions::world::LinkState;
use bytes::Bytes;
use nfs::NfsConnFacts;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

/// Maximum number of steps to quiescence.
const REST_STEPS_MAX: u64 = 50_000;
/// Number of events in the log of a failed run.
const LOG_MAX: usize = 2000;
/// Maximum number of files in a run.
const FILES_MAX: usize = 250;

/// A file in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// Name.
    pub name: String,
    /// File id.
    pub id: u64,
    /// Size, in bytes.
    pub size: u64,
    /// Last write and change time, in units of 100 nanoseconds since 1601.
    pub times: [u64; 2],
}

/// The server's end of a connection, while a fiber owns it.
pub enum ServerEnd {
    /// Of an SMB connection.
    Windows(Box<ServerSide>),
    /// Of an NFS connection.
    Posix(Box<NfsServerEnd>),
}

/// A connection of an NFS client.
pub struct PosixLink {
    /// Number among the NFS clients.
    pub machine: usize,
    /// See [`LinkState`].
    pub standing: LinkState,
    /// Records in flight to the server.
    pub on_the_way: VecDeque<Bytes>,
    /// The server's end; `None` while a fiber owns it.
    pub side: Option<Box<NfsServerEnd>>,
    weights: [u32; 3],
}

/// A pending delete.
pub enum PendingDelete {
    /// Delete on close: with this open, or with the file's last one. Its name may change from
    /// `began` on.
    Handle { began: u64, handle: u32, file: Option<u32>, is_closed: bool },
    /// A removal over NFS while SMB opens may exist: with the last of these opens. The name may
    /// change from `asked` on, all other names from `began` on.
    Name { began: u64, name: u8, sent_at: u64, file: u32 },
}

#[derive(Clone, Copy)]
enum MixedAction {
    SetUp(usize),
    Acknowledge(usize),
    AskWindows(usize),
    DeliverWindows(usize),
    ServeWindows(usize, SmbServerStep),
    ReceiveWindows(usize),
    ReturnDelegation(usize),
    AskPosix(usize),
    DeliverPosix(u32),
    ServePosix(u32, RecordStep),
    ReceivePosix(u32),
    GoOn(Next),
    Nap,
}

/// See the module.
pub struct MixedWorld {
    /// Parameters of the run.
    pub plan: MixedPlan,
    /// Event counters.
    pub counts: MixedCounts,
    /// The last events.
    pub log: VecDeque<String>,
    /// Number of steps.
    pub steps: u64,
    pub(super) random: Random,
    pub(super) servers: Servers,
    pub(super) windows: Vec<WindowsMachine>,
    pub(super) posix: Vec<Posix>,
    pub(super) links: BTreeMap<u32, PosixLink>,
    pub(super) referee: Referee,
    pub(super) names: NameKnowledge,
    pub(super) pending_deletes: Vec<PendingDelete>,
    /// The last step in which a removal was requested, or a pending delete ended.
    pub(super) deletes_pending_until: u64,
    /// The server's file ids, indexed by the simulation's file numbers.
    files: Vec<u64>,
    /// NFS opens, and values that were written over NFS.
    pub(super) of_posix: BTreeSet<u32>,
    runner: Runner<ServerEnd>,
    next: u32,
    accepts_requests: bool,
}

impl MixedWorld {
    /// The initial state of a seed's run.
    ///
    /// # Errors
    /// The tree cannot be created.
    pub fn new(plan: MixedPlan, mut random: Random, base: Instant) -> Result<Self, String> {
        let servers = Servers::new(&plan, &mut random, base)?;
        let windows =
            (0..plan.windows).map(|number| WindowsMachine::new(number, &mut random)).collect();
        let numbers = plan.windows..plan.windows + plan.posix;
        Ok(Self {
            plan,
            counts: MixedCounts::default(),
            log: VecDeque::new(),
            steps: 0,
            random,
            servers,
            windows,
            posix: numbers.map(Posix::new).collect(),
            links: BTreeMap::new(),
            referee: Referee::default(),
            names: NameKnowledge::new(plan.names),
            pending_deletes: Vec::new(),
            deletes_pending_until: 0,
            files: Vec::new(),
            of_posix: BTreeSet::new(),
            runner: Runner::default(),
            next: 100,
            accepts_requests: false,
        })
    }

    /// Runs to the end and checks the leftovers.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run(&mut self) -> Result<(), String> {
        (0..self.windows.len()).for_each(|machine| self.connect_windows(machine));
        (0..self.posix.len()).for_each(|machine| self.connect_posix(machine));
        self.settle()?;
        // Some NFS clients use a second connection; requests take either.
        for machine in 0..self.posix.len() {
            if self.random.percent(50) {
                self.connect_posix(machine);
            }
        }
        self.begin_all();
        self.settle()?;
        self.accepts_requests = true;
        while self.steps < self.plan.steps {
            let is_to_rest = self.random.next() % 10_000 < u64::from(self.plan.rests);
            if is_to_rest || !self.advance()? {
                self.rest()?;
            }
        }
        self.rest()?;
        self.end()
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back(format!("{:>6} {}", self.steps, what()));
    }

    pub(super) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// The simulation's number of a file.
    ///
    /// # Errors
    /// Too many files.
    pub(super) fn file_of(&mut self, id: u64) -> Result<u32, String> {
        let place = self.files.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.files.push(id);
            self.files.len() - 1
        });
        if place >= FILES_MAX {
            return Err("simulation: more files than it can count".into());
        }
        Ok(place as u32)
    }

    /// True if the file is new to the simulation.
    pub(super) fn is_new(&self, id: u64) -> bool {
        !self.files.contains(&id)
    }

    /// Checks that no client relies on a delegation that conflicts with another client's state.
    pub(super) fn check_delegations(&self) -> Result<(), String> {
        let first = self.plan.windows;
        self.referee.check_delegations(
            |owner| matches!(owner, RefereeOwner::Key(machine, _) if machine >= first),
        )
    }

    /// Checks that no lock was held throughout that should have prevented the operation.
    pub(super) fn check_held(
        &self,
        held: &[usize],
        what: &str,
        heeds_all: bool,
    ) -> Result<(), String> {
        let mut holders = held.iter().filter_map(|place| self.referee.still_held(*place));
        match holders.find(|holder| heeds_all || !self.of_posix.contains(holder)) {
            Some(holder) => Err(format!("locks: {what} is done although {holder} has it locked")),
            None => Ok(()),
        }
    }

    /// Ends pending deletes whose file nobody has open.
    pub(super) fn sweep_pending_deletes(&mut self) {
        let (referee, of_posix) = (&self.referee, &self.of_posix);
        let is_over = |pending: &PendingDelete| match *pending {
            PendingDelete::Handle { file, is_closed, .. } => {
                is_closed && file.is_none_or(|file| !referee.may_be_open(file, |_| true))
            }
            PendingDelete::Name { file, .. } => {
                !referee.may_be_open(file, |one| !of_posix.contains(&one))
            }
        };
        let (over, left): (Vec<PendingDelete>, Vec<PendingDelete>) =
            std::mem::take(&mut self.pending_deletes).into_iter().partition(is_over);
        self.pending_deletes = left;
        over.into_iter().for_each(|pending| self.end_pending_delete(&pending));
    }

    fn end_pending_delete(&mut self, pending: &PendingDelete) {
        let now = self.steps;
        self.deletes_pending_until = now;
        for name in self.names.all() {
            let (began, after) = match *pending {
                PendingDelete::Handle { began, file, .. } => {
                    let present = file.map(NameState::Present);
                    let had_it = present.is_some() && self.names.before(name, began) == present;
                    (began, if had_it { NameAfter::Is(NameState::Absent) } else { NameAfter::Same })
                }
                PendingDelete::Name { name: removed, sent_at, .. } if removed == name => {
                    (sent_at, NameAfter::Is(NameState::Absent))
                }
                PendingDelete::Name { began, .. } => (began, NameAfter::Same),
            };
            self.names.end(name, began, now, after);
        }
        self.counts.deleted_on_close += 1;
    }

    /// True if the file had, or may have had, a pending delete at any time since that step.
    pub(super) fn was_delete_pending(&self, since: u64) -> bool {
        let removes = |p: &SentRequest<PosixRequest>| matches!(p.op, PosixRequest::Remove { .. });
        let is_removed = self.posix.iter().any(|posix| posix.in_flight().any(removes));
        is_removed || !self.pending_deletes.is_empty() || self.deletes_pending_until >= since
    }

    fn connect_windows(&mut self, machine: usize) {
        let facts = facts(machine as u32 + 1, 445);
        let facts = smb::SmbConnFacts { id: facts.id, peer: facts.peer, local: facts.local };
        let conn = smb::SmbConn::new(self.servers.smb.clone(), facts);
        let link = &mut self.windows[machine].link;
        link.side = Some(Box::new(ServerSide::new(conn)));
        link.weights = [(); 3].map(|()| self.random.pick(&[1, 10, 10, 30]));
    }

    fn connect_posix(&mut self, machine: usize) {
        let number = self.number();
        let conn = nfs::NfsConn::new(self.servers.nfs.clone(), facts(number, 2049));
        let mut link = PosixLink {
            machine,
            standing: LinkState::Ready,
            on_the_way: VecDeque::new(),
            side: Some(Box::new(NfsServerEnd::new(conn))),
            weights: [(); 3].map(|()| self.random.pick(&[1, 10, 10, 30])),
        };
        self.introduce(machine, &mut link);
        self.links.insert(number, link);
    }

    /// Advances until no action is possible without a new request.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let end = self.steps + REST_STEPS_MAX;
        let accepts_requests = std::mem::replace(&mut self.accepts_requests, false);
        while self.advance()? {
            if self.steps > end {
                return Err("rest: it does not come to it".into());
            }
        }
        self.accepts_requests = accepts_requests;
        Ok(())
    }

    /// Performs one of the possible actions; false if there is none.
    fn advance(&mut self) -> Result<bool, String> {
        self.steps += 1;
        self.servers.environment.advance(self.random.next() % 200_000);
        self.runner.collect(&self.servers.environment);
        let actions = self.actions();
        if actions.is_empty() {
            return Ok(false);
        }
        let at = self.random.weighted(actions.iter().map(|(weight, _)| *weight));
        match actions[at].1 {
            MixedAction::SetUp(machine) => self.windows[machine].link.set_up(),
            MixedAction::Acknowledge(machine) => self.acknowledge(machine),
            MixedAction::AskWindows(machine) => self.ask_windows(machine),
            MixedAction::DeliverWindows(machine) => self.deliver(machine),
            MixedAction::ServeWindows(machine, step) => self.serve_windows(machine, step)?,
            MixedAction::ReceiveWindows(machine) => self.receive_windows(machine)?,
            MixedAction::ReturnDelegation(machine) => self.return_recalled(machine),
            MixedAction::AskPosix(machine) => self.ask_posix(machine),
            MixedAction::DeliverPosix(link) => {
                if let Some(PosixLink { on_the_way, side: Some(side), .. }) =
                    self.links.get_mut(&link)
                {
                    side.input.extend(on_the_way.pop_front());
                }
            }
            MixedAction::ServePosix(link, step) => self.serve_posix(link, step)?,
            MixedAction::ReceivePosix(link) => self.receive_posix(link)?,
            MixedAction::GoOn(next) => {
                let stepped = self.runner.go_on(&self.servers.environment, next)?;
                self.end_step(stepped);
            }
            MixedAction::Nap => self.servers.environment.sleep_in(),
        }
        self.sweep_pending_deletes();
        Ok(true)
    }

    fn actions(&self) -> Vec<(u32, MixedAction)> {
        let mut actions = Vec::new();
        (0..self.windows.len()).for_each(|machine| self.add_windows(machine, &mut actions));
        for (number, link) in &self.links {
            let [requests, answers, serves] = link.weights;
            let Some(side) = &link.side else { continue };
            let steps = side.steps().into_iter();
            actions.extend(steps.map(|step| (serves, MixedAction::ServePosix(*number, step))));
            if !link.on_the_way.is_empty() {
                actions.push((requests, MixedAction::DeliverPosix(*number)));
            }
            if !side.output.is_empty() {
                actions.push((answers, MixedAction::ReceivePosix(*number)));
            }
        }
        for (number, machine) in self.posix.iter().enumerate() {
            let can_ask = machine.is_complete && machine.free_slot().is_some();
            if can_ask && machine.delegations.values().any(|one| one.is_recalled) {
                actions.push((self.plan.haste, MixedAction::ReturnDelegation(number)));
            }
            if can_ask && self.accepts_requests {
                actions.push((6, MixedAction::AskPosix(number)));
            }
        }
        let nexts = self.runner.nexts(&self.servers.environment);
        actions.extend(nexts.into_iter().map(|(weight, next)| (weight, MixedAction::GoOn(next))));
        if actions.is_empty() && self.servers.environment.has_sleepers() {
            actions.push((1, MixedAction::Nap));
        }
        actions
    }

    fn add_windows(&self, number: usize, actions: &mut Vec<(u32, MixedAction)>) {
        let machine = &self.windows[number];
        let link = &machine.link;
        let [requests, answers, serves] = link.weights;
        if link.has_set_up_to_do() {
            actions.push((10, MixedAction::SetUp(number)));
        }
        if link.can_ask() && !machine.acknowledgments.is_empty() {
            actions.push((self.plan.haste, MixedAction::Acknowledge(number)));
        }
        if link.can_ask() && self.accepts_requests && machine.pending.len() < 5 {
            actions.push((6, MixedAction::AskWindows(number)));
        }
        let Some(side) = &link.side else { return };
        let now = smb::SmbHost::now(&*self.servers.environment).instant;
        let steps = side.steps(now).into_iter();
        actions.extend(steps.map(|step| (serves, MixedAction::ServeWindows(number, step))));
        if !link.on_the_way.is_empty() {
            actions.push((requests, MixedAction::DeliverWindows(number)));
        }
        if !side.output.is_empty() {
            actions.push((answers, MixedAction::ReceiveWindows(number)));
        }
    }

    fn deliver(&mut self, machine: usize) {
        let link = &mut self.windows[machine].link;
        let length = link.on_the_way.len();
        let whole = self.random.percent(60);
        let count = if whole { length } else { 1 + self.random.below(length) };
        if let Some(side) = &mut link.side {
            side.input.extend(link.on_the_way.drain(..count));
        }
    }

    fn serve_windows(&mut self, machine: usize, step: SmbServerStep) -> Result<(), String> {
        let Some(mut side) = self.windows[machine].link.side.take() else { return Ok(()) };
        let now = smb::SmbHost::now(&*self.servers.environment);
        let number = machine as u32 + 1;
        self.start(number, move || {
            let result = side.step(step, now).map_err(|close| format!("{close:?}"));
            TurnOutcome::Stepped(number, Box::new(ServerEnd::Windows(side)), result)
        })
    }

    fn serve_posix(&mut self, number: u32, step: RecordStep) -> Result<(), String> {
        let Some(mut side) = self.links.get_mut(&number).and_then(|link| link.side.take()) else {
            return Ok(());
        };
        self.start(number, move || {
            let result = side.step(step).map_err(|close| format!("{close:?}"));
            TurnOutcome::Stepped(number, Box::new(ServerEnd::Posix(side)), result)
        })
    }

    pub(super) fn start(
        &mut self,
        owner: u32,
        work: impl FnOnce() -> TurnOutcome<ServerEnd> + Send + 'static,
    ) -> Result<(), String> {
        let stepped = self.runner.start(&self.servers.environment, owner, work)?;
        self.end_step(stepped);
        Ok(())
    }

    fn end_step(&mut self, stepped: Option<(u32, Box<ServerEnd>)>) {
        let Some((number, end)) = stepped else { return };
        match *end {
            ServerEnd::Windows(side) => self.windows[number as usize - 1].link.side = Some(side),
            ServerEnd::Posix(side) => {
                if let Some(link) = self.links.get_mut(&number) {
                    link.side = Some(side);
                }
            }
        }
    }
}

fn facts(number: u32, port: u16) -> NfsConnFacts {
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    NfsConnFacts { id: u64::from(number), peer: address(700), local: address(port) }
}
