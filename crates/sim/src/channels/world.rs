//! One run: machines, connections, the server's process, and the choice of the next action.

use super::journal::MemoryJournal;
use super::link::{ChannelLink, LinkRole};
use super::machine::{Acknowledgment, ChannelMachine, ChannelOperation};
use super::referee::{HandleNumber, Referee};
use super::{ChannelFault, ChannelPlan};
use crate::environment::{ProcessEnvironment, Troubles};
use crate::process::Process;
use crate::random::Random;
use crate::runner::{FinishedStep, Next, Runner, TurnOutcome};
use crate::server_side::{ServerSide, SmbServerStep};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use wire::crypto::SigningKey;

/// Maximum number of steps to quiescence.
const REST_STEPS_MAX: u64 = 20_000;
/// Longer sleeps are break timeouts, which end only after all other work.
const NAP_NANOS: u64 = 1_000_000_000;

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ChannelCounts {
    pub answered: u64,
    pub opened: u64,
    pub breaks: u64,
    pub silent: u64,
    pub bound: u64,
    pub refused_binds: u64,
    pub cut: u64,
    pub given_up: u64,
    pub replayed: u64,
    pub answered_twice: u64,
    pub renewed: u64,
    pub logged_off: u64,
    pub returned: u64,
    pub persisted: u64,
    pub expired: u64,
    pub stolen_in_vain: u64,
    pub died: u64,
    pub rested: u64,
}

impl ChannelCounts {
    /// All counters with their names.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 18] {
        [
            ("answered", self.answered),
            ("opened", self.opened),
            ("breaks", self.breaks),
            ("silent", self.silent),
            ("bound", self.bound),
            ("bindings refused", self.refused_binds),
            ("cut", self.cut),
            ("given up", self.given_up),
            ("sent again", self.replayed),
            ("answered twice", self.answered_twice),
            ("renewed", self.renewed),
            ("logged off", self.logged_off),
            ("returned", self.returned),
            ("persisted", self.persisted),
            ("expired", self.expired),
            ("stolen in vain", self.stolen_in_vain),
            ("died", self.died),
            ("rested", self.rested),
        ]
    }

    /// Adds another run's counters.
    pub fn add(&mut self, other: &Self) {
        let Self { answered, opened, breaks, silent, bound, refused_binds, .. } = other;
        self.answered += answered;
        self.opened += opened;
        self.breaks += breaks;
        self.silent += silent;
        self.bound += bound;
        self.refused_binds += refused_binds;
        self.cut += other.cut;
        self.given_up += other.given_up;
        self.replayed += other.replayed;
        self.answered_twice += other.answered_twice;
        self.renewed += other.renewed;
        self.logged_off += other.logged_off;
        self.returned += other.returned;
        self.persisted += other.persisted;
        self.expired += other.expired;
        self.stolen_in_vain += other.stolen_in_vain;
        self.died += other.died;
        self.rested += other.rested;
    }
}

/// A request in flight.
#[derive(Clone, Debug)]
pub struct ChannelRequest {
    /// Its machine.
    pub machine: usize,
    /// The operation.
    pub op: ChannelOperation,
    /// The step of its first transmission.
    pub sent_at: u64,
    /// The connection of its last transmission.
    pub link: u32,
    /// Number of transmissions.
    pub sent: u32,
    /// Number of earlier operations on its file.
    pub touches: u64,
    /// The response on a connection that the client had given up.
    pub given_up_reply: Option<Vec<u8>>,
}

/// The first response to a CREATE with a CreateGuid.
#[derive(Debug)]
pub struct FirstCreateReply {
    /// The resulting open.
    pub handle: HandleNumber,
    /// The message without its header.
    pub body: Vec<u8>,
}

/// A possible next action.
#[derive(Clone, Copy, Debug)]
enum ChannelAction {
    SetUp(u32),
    Acknowledge(usize),
    Again(usize),
    Ask(usize),
    Deliver(u32),
    Serve(u32, SmbServerStep),
    Receive(u32),
    GoOn(Next),
    Write,
    Nap,
}

/// A run.
pub struct ChannelWorld {
    /// Its parameters.
    pub plan: ChannelPlan,
    /// Compares the clients' knowledge.
    pub referee: Referee,
    /// The last events.
    pub log: VecDeque<String>,
    /// Number of steps.
    pub steps: u64,
    /// Event counters.
    pub counts: ChannelCounts,
    pub(super) random: Random,
    pub(super) base: Instant,
    pub(super) process: Process,
    pub(super) journal: Arc<MemoryJournal>,
    pub(super) runner: Runner<ServerSide>,
    pub(super) machines: Vec<ChannelMachine>,
    pub(super) links: BTreeMap<u32, ChannelLink>,
    pub(super) pending: BTreeMap<u32, ChannelRequest>,
    /// Keys of the sessions' first channels.
    pub(super) keys: BTreeMap<u64, Arc<SigningKey>>,
    /// Acknowledgments in flight: connection, machine, contents.
    pub(super) sent_back: Vec<(u32, usize, Acknowledgment)>,
    /// CREATEs with a CreateGuid that were answered.
    pub(super) created: BTreeMap<u32, FirstCreateReply>,
    /// Opens that were used.
    pub(super) used: BTreeSet<HandleNumber>,
    /// Time of the last long advance.
    pub(super) last_leap: u64,
    pub(super) touches: BTreeMap<u32, u64>,
    /// Next number of any object.
    pub(super) next: u32,
    pub(super) accepts_requests: bool,
}

impl ChannelWorld {
    /// The initial state of a seed's run.
    ///
    /// # Errors
    /// The tree cannot be created.
    pub fn new(plan: ChannelPlan, mut random: Random, base: Instant) -> Result<Self, String> {
        let journal = Arc::new(MemoryJournal::new(plan.fault == Some(ChannelFault::Journal)));
        let environment = environment(&plan, &mut random, base, 0, &journal);
        let process = Process::first(environment, false)?;
        let machines = (0..plan.machines).map(|n| ChannelMachine::new(n, &mut random)).collect();
        Ok(Self {
            plan,
            referee: Referee::default(),
            log: VecDeque::new(),
            steps: 0,
            counts: ChannelCounts::default(),
            random,
            base,
            process,
            journal,
            runner: Runner::default(),
            machines,
            links: BTreeMap::new(),
            pending: BTreeMap::new(),
            keys: BTreeMap::new(),
            sent_back: Vec::new(),
            created: BTreeMap::new(),
            used: BTreeSet::new(),
            last_leap: 0,
            touches: BTreeMap::new(),
            next: 1,
            accepts_requests: true,
        })
    }

    /// Runs to the end and checks the leftovers.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run(&mut self) -> Result<(), String> {
        while self.steps < self.plan.steps {
            self.trouble()?;
            if !self.advance()? {
                self.rest(true)?;
            }
        }
        self.rest(false)?;
        self.end()
    }

    pub(super) fn note(&mut self, what: String) {
        if self.log.len() == 2000 {
            self.log.pop_front();
        }
        self.log.push_back(format!("{:>6} {what}", self.steps));
    }

    pub(super) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub(super) fn nanos(&self) -> u64 {
        self.process.environment.nanos()
    }

    /// Creates a connection of a machine.
    pub(super) fn connect(&mut self, machine: usize, role: LinkRole) -> u32 {
        let number = self.number();
        let ChannelMachine { dialect, guid, user, .. } = &self.machines[machine];
        let mut link = ChannelLink::new(machine, role, (*dialect, *guid, user.clone()));
        link.side = Some(Box::new(ServerSide::new(self.process.accept(number))));
        link.weights = [(); 3].map(|()| self.random.pick(&[1, 10, 10, 30]));
        self.links.insert(number, link);
        number
    }

    /// Advances until no action is possible without a new request or a long wait.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let end = self.steps + REST_STEPS_MAX;
        self.accepts_requests = false;
        while self.advance()? {
            if self.steps > end {
                return Err("it does not come to rest".into());
            }
        }
        self.accepts_requests = true;
        Ok(())
    }

    /// Performs one of the possible actions; false if there is none.
    fn advance(&mut self) -> Result<bool, String> {
        self.steps += 1;
        self.process.environment.advance(self.random.next() % 200_000);
        self.runner.collect(&self.process.environment);
        let actions = self.actions();
        if actions.is_empty() {
            return Ok(false);
        }
        let at = self.random.weighted(actions.iter().map(|(weight, _)| *weight));
        match actions[at].1 {
            ChannelAction::SetUp(link) => {
                if let Some(link) = self.links.get_mut(&link) {
                    link.set_up();
                }
            }
            ChannelAction::Acknowledge(machine) => self.acknowledge(machine),
            ChannelAction::Again(machine) => self.send_again(machine),
            ChannelAction::Ask(machine) => self.ask(machine),
            ChannelAction::Deliver(link) => self.deliver(link),
            ChannelAction::Serve(link, step) => self.serve(link, step)?,
            ChannelAction::Receive(link) => self.receive(link)?,
            ChannelAction::GoOn(next) => {
                let stepped = self.runner.go_on(&self.process.environment, next)?;
                self.end_step(stepped)?;
            }
            ChannelAction::Write => self.journal.write(),
            ChannelAction::Nap => self.process.environment.sleep_in(),
        }
        Ok(true)
    }

    fn actions(&self) -> Vec<(u32, ChannelAction)> {
        let mut actions = Vec::new();
        for (number, link) in &self.links {
            let [requests, answers, serves] = link.weights;
            if link.has_set_up_to_do() {
                actions.push((10, ChannelAction::SetUp(*number)));
            }
            let Some(side) = &link.side else { continue };
            if !link.on_the_way.is_empty() {
                actions.push((requests, ChannelAction::Deliver(*number)));
            }
            let now = smb::SmbHost::now(&*self.process.environment).instant;
            let steps = side.steps(now).into_iter();
            actions.extend(steps.map(|step| (serves, ChannelAction::Serve(*number, step))));
            if !side.output.is_empty() {
                actions.push((answers, ChannelAction::Receive(*number)));
            }
        }
        for machine in &self.machines {
            self.add_requests(machine, &mut actions);
        }
        let nexts = self.runner.nexts(&self.process.environment);
        actions.extend(nexts.into_iter().map(|(weight, next)| (weight, ChannelAction::GoOn(next))));
        if self.journal.has_work() {
            actions.push((5, ChannelAction::Write));
        }
        if actions.is_empty() && self.process.environment.sleeps_less_than(NAP_NANOS) {
            actions.push((1, ChannelAction::Nap));
        }
        actions
    }

    fn add_requests(&self, machine: &ChannelMachine, actions: &mut Vec<(u32, ChannelAction)>) {
        let number = machine.number;
        let can_ask = self.ready_links(number).next().is_some();
        if can_ask && !machine.acknowledgments.is_empty() {
            actions.push((5, ChannelAction::Acknowledge(number)));
        }
        if can_ask
            && self.accepts_requests
            && machine.resend_queue.iter().any(|(due, _)| *due <= self.steps)
        {
            actions.push((5, ChannelAction::Again(number)));
        }
        let in_flight = self.pending.values().filter(|p| p.machine == number).count();
        if self.accepts_requests && (can_ask || machine.session.is_none()) && in_flight < 4 {
            actions.push((6, ChannelAction::Ask(number)));
        }
    }

    /// The connections on which a machine can send requests.
    pub(super) fn ready_links(&self, machine: usize) -> impl Iterator<Item = u32> + '_ {
        let session = self.machines[machine].session.as_ref().map(|session| session.id);
        let is_ready = move |link: &ChannelLink| {
            link.machine == machine && link.can_ask() && Some(link.session) == session
        };
        self.links.iter().filter(move |(_, link)| is_ready(link)).map(|(number, _)| *number)
    }

    pub(super) fn pick_link(&mut self, machine: usize) -> Option<u32> {
        let links: Vec<u32> = self.ready_links(machine).collect();
        (!links.is_empty()).then(|| self.random.pick(&links))
    }

    fn acknowledge(&mut self, machine: usize) {
        let Some(link) = self.pick_link(machine) else { return };
        if let Some(next) = self.machines[machine].acknowledgments.pop_front() {
            self.send_back(machine, link, &next);
        }
    }

    fn deliver(&mut self, link: u32) {
        let Some(link) = self.links.get_mut(&link) else { return };
        let length = link.on_the_way.len();
        let whole = self.random.percent(60);
        let count = if whole { length } else { 1 + self.random.below(length) };
        if let Some(side) = &mut link.side {
            side.input.extend(link.on_the_way.drain(..count));
        }
    }

    fn receive(&mut self, number: u32) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        let Some(side) = &mut link.side else { return Ok(()) };
        let whole = self.random.percent(60);
        let length = side.output.len();
        let count = if whole { length } else { 1 + self.random.below(length) };
        let bytes: Vec<u8> = side.output.drain(..count).collect();
        let events = link.receive(&bytes).map_err(|what| format!("{number}: {what}"))?;
        events.into_iter().try_for_each(|event| self.handle(number, event))
    }

    fn serve(&mut self, number: u32, step: SmbServerStep) -> Result<(), String> {
        let Some(mut side) = self.links.get_mut(&number).and_then(|link| link.side.take()) else {
            return Ok(());
        };
        let now = smb::SmbHost::now(&*self.process.environment);
        self.start(number, move || {
            let result = side.step(step, now).map_err(|close| format!("{close:?}"));
            TurnOutcome::Stepped(number, side, result)
        })
    }

    pub(super) fn start(
        &mut self,
        owner: u32,
        work: impl FnOnce() -> TurnOutcome<ServerSide> + Send + 'static,
    ) -> Result<(), String> {
        let stepped = self.runner.start(&self.process.environment, owner, work)?;
        self.end_step(stepped)
    }

    fn end_step(&mut self, stepped: FinishedStep<ServerSide>) -> Result<(), String> {
        let Some((number, side)) = stepped else { return Ok(()) };
        match self.links.get_mut(&number) {
            Some(link) if !link.is_cut => {
                link.side = Some(side);
                Ok(())
            }
            _ => self.end_side(number, side),
        }
    }

    /// The server notices the loss of a connection.
    pub(super) fn end_side(&mut self, number: u32, side: Box<ServerSide>) -> Result<(), String> {
        self.links.remove(&number);
        self.start(number, move || {
            drop(side);
            TurnOutcome::Over
        })
    }
}

/// The environment of one server process.
pub(super) fn environment(
    plan: &ChannelPlan,
    random: &mut Random,
    base: Instant,
    nanos: u64,
    journal: &Arc<MemoryJournal>,
) -> Arc<ProcessEnvironment> {
    let super::ChannelPlan { park, would_block, creates_wait, .. } = *plan;
    let troubles = Troubles { park, would_block, fail: 0, creates_wait };
    let environment = ProcessEnvironment::new(random.fork(), troubles, base, nanos);
    environment.keep_opens_in(journal.clone());
    if plan.fault == Some(ChannelFault::User) {
        environment.merge_users();
    }
    environment
}
