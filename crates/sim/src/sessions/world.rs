//! The world of a run: machines, connections, the server, and the choice of the next action.

use super::machine::{MachineSlot, Presence, SessionMachine, SlotOperation, SlotRequest};
use super::messages;
use super::side::{NfsServerEnd, NfsServerStep, describe_error};
use super::{SessionCounts, SessionFault, SessionPlan};
use crate::environment::{ProcessEnvironment, Troubles};
use crate::random::Random;
use crate::runner::{FinishedStep, Next, Runner, TurnOutcome};
use bytes::Bytes;
use files::{Files, Volume, VolumeId, VolumeOptions};
use nfs::{
    Export, ExportTerms, ExportedVolume, HostFilter, HostVerdict, NfsConfig, NfsConn, NfsConnFacts,
    NfsServer, Squash,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::memory::{MemoryOptions, MemoryVfs};
use vfs::{Actor, Case, CreateHow, FileKind, Name, RelPath, Vfs};
use wire::nfs::ops::ChannelFromClient;

/// Maximum number of connections per machine.
const LINKS_MAX: usize = 5;
/// Maximum number of steps to quiescence.
const REST_STEPS_MAX: u64 = 200_000;
/// Lease time of NFS clients.
const LEASE: Duration = Duration::from_secs(90);
/// Interval between lease renewals, in nanoseconds.
const RENEW_NANOS: u64 = 20_000_000_000;
/// Number of events in the log of a failed run.
const LOG_MAX: usize = 2000;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// EXCHANGE_ID is in flight.
    Introduces,
    /// CREATE_SESSION is in flight.
    Begins,
    /// BIND_CONN_TO_SESSION is in flight.
    Binds,
    /// Ready for requests.
    Ready,
}

/// One connection, from its machine's side.
pub struct SessionLink {
    /// Its machine.
    pub machine: usize,
    /// State; see [`LinkState`].
    pub standing: LinkState,
    /// The machine has lost it.
    pub is_cut: bool,
    /// Transaction id of its BIND_CONN_TO_SESSION.
    pub binding: Option<u32>,
    /// Records in flight to the server.
    pub on_the_way: VecDeque<Bytes>,
    /// The server's end; `None` while a fiber owns it.
    pub side: Option<Box<NfsServerEnd>>,
    weights: [u32; 3],
}

#[derive(Clone, Copy)]
enum SessionAction {
    Ask(usize),
    Again(usize),
    ReturnDelegation(usize),
    Rebind(usize),
    Connect(usize),
    Return(usize),
    Deliver(u32),
    Serve(u32, NfsServerStep),
    Receive(u32),
    End(u32),
    GoOn(Next),
    Nap,
}

/// Admits all hosts.
#[derive(Debug)]
pub(crate) struct AllowAllHosts;

impl HostFilter for AllowAllHosts {
    fn verdict(&self, _: IpAddr) -> HostVerdict {
        HostVerdict::Admitted
    }
}

/// See the module.
pub struct SessionWorld {
    /// Parameters of the run.
    pub plan: SessionPlan,
    /// Event counters.
    pub counts: SessionCounts,
    /// The last events.
    pub log: VecDeque<String>,
    /// Number of steps.
    pub steps: u64,
    pub(super) random: Random,
    pub(super) environment: Arc<ProcessEnvironment>,
    pub(super) server: Arc<NfsServer>,
    pub(super) vfs: Arc<MemoryVfs>,
    pub(super) machines: Vec<SessionMachine>,
    pub(super) links: BTreeMap<u32, SessionLink>,
    runner: Runner<NfsServerEnd>,
    next: u32,
    accepts_requests: bool,
}

impl SessionWorld {
    /// The initial state of a seed's run.
    ///
    /// # Errors
    /// The set-up fails.
    pub fn new(plan: SessionPlan, mut random: Random, base: Instant) -> Result<Self, String> {
        let SessionPlan { park, would_block, creates_wait, .. } = plan;
        let troubles = Troubles { park, would_block, fail: 0, creates_wait };
        let environment = ProcessEnvironment::new(random.fork(), troubles, base, 0);
        let vfs = Arc::new(MemoryVfs::new(MemoryOptions::default(), environment.clone()));
        make_tree(&vfs, &plan).map_err(describe_error)?;
        let volume = Arc::new(Volume::new(vfs.clone(), VolumeOptions::default()));
        let export = Export {
            id: VolumeId(7),
            name: messages::SHARE.to_vec(),
            volume: ExportedVolume::new(volume).map_err(|error| error.to_string())?,
            terms: ExportTerms {
                read_only: false,
                squash: Squash::None,
                anonymous: (65_534, 65_534),
            },
            clients: Vec::new(),
            hosts: Arc::new(AllowAllHosts),
            tls_required: false,
            reserved_ports: false,
            is_stable: true,
            counted: meter::ShareId::NONE,
        };
        let config = NfsConfig {
            exports: vec![Arc::new(export)],
            lease: LEASE,
            owner: b"sim".to_vec(),
            offers_tls: false,
            states_max: nfs::limits::STATES_MAX,
            tree: nfs::PseudoTree::default(),
        };
        let files = Arc::new(Files::new(environment.clone()));
        Ok(Self {
            plan,
            counts: SessionCounts::default(),
            log: VecDeque::new(),
            steps: 0,
            server: NfsServer::new(config, files, environment.clone()),
            random,
            environment,
            vfs,
            machines: (0..plan.machines).map(SessionMachine::new).collect(),
            links: BTreeMap::new(),
            runner: Runner::default(),
            next: 10,
            accepts_requests: false,
        })
    }

    /// Runs to the end and checks the leftovers.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run(&mut self) -> Result<(), String> {
        // A machine that joins later might have to wait for the state of the others.
        for machine in 0..self.machines.len() {
            self.connect(machine);
        }
        self.settle()?;
        self.accepts_requests = true;
        while self.steps < self.plan.steps {
            self.trouble();
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

    /// Creates a connection of a machine.
    fn connect(&mut self, machine: usize) {
        let number = self.number();
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let facts =
            NfsConnFacts { id: u64::from(number), peer: address(700), local: address(2049) };
        let side = NfsServerEnd::new(NfsConn::new(self.server.clone(), facts));
        let mut link = SessionLink {
            machine,
            standing: LinkState::Ready,
            is_cut: false,
            binding: None,
            on_the_way: VecDeque::new(),
            side: Some(Box::new(side)),
            weights: [(); 3].map(|()| self.random.pick(&[1, 10, 10, 30])),
        };
        if self.machines[machine].session.is_none() {
            link.standing = LinkState::Introduces;
            link.on_the_way.push_back(messages::introduction(machine));
        }
        self.links.insert(number, link);
        // Half of the connections carry requests without a binding.
        if self.machines[machine].session.is_some() && self.random.percent(50) {
            self.bind(number);
        }
        self.note(|| format!("{machine} connects by {number}"));
    }

    /// Sends BIND_CONN_TO_SESSION.
    fn bind(&mut self, number: u32) {
        use ChannelFromClient::{Back, BackOrBoth, Fore, ForeOrBoth};
        let xid = self.number();
        let Some(link) = self.links.get_mut(&number) else { return };
        let machine = &self.machines[link.machine];
        let Some(session) = machine.session else { return };
        // A machine without a callback path requests the backchannel.
        let wishes: &[_] =
            if machine.is_deaf { &[Back, BackOrBoth] } else { &[Fore, Back, ForeOrBoth] };
        let direction = self.random.pick(wishes);
        link.standing = LinkState::Binds;
        link.binding = Some(xid);
        link.on_the_way.push_back(messages::binding(xid, session, direction));
        self.counts.bound += 1;
        self.note(|| format!("{number} is to be {direction:?}"));
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
        self.environment.advance(self.random.next() % 200_000);
        self.runner.collect(&self.environment);
        let actions = self.actions();
        if actions.is_empty() {
            return Ok(false);
        }
        let at = self.random.weighted(actions.iter().map(|(weight, _)| *weight));
        match actions[at].1 {
            SessionAction::Ask(machine) => self.ask(machine),
            SessionAction::Again(machine) => self.send_again(machine),
            SessionAction::ReturnDelegation(machine) => self.return_recalled(machine),
            SessionAction::Rebind(machine) => {
                if let Some(link) = self.pick_link(machine) {
                    self.bind(link);
                    self.machines[machine].is_deaf = false;
                }
            }
            SessionAction::Connect(machine) => self.connect(machine),
            SessionAction::Return(machine) => self.return_from_absence(machine),
            SessionAction::Deliver(link) => {
                if let Some(SessionLink { on_the_way, side: Some(side), .. }) =
                    self.links.get_mut(&link)
                {
                    side.input.extend(on_the_way.pop_front());
                }
            }
            SessionAction::Serve(link, step) => self.serve(link, step)?,
            SessionAction::Receive(link) => self.receive(link)?,
            SessionAction::End(link) => self.end_side(link)?,
            SessionAction::GoOn(next) => {
                let stepped = self.runner.go_on(&self.environment, next)?;
                self.end_step(stepped);
            }
            SessionAction::Nap => {
                self.environment.sleep_in();
                self.renew();
            }
        }
        Ok(true)
    }

    fn actions(&self) -> Vec<(u32, SessionAction)> {
        let mut actions = Vec::new();
        for (number, link) in &self.links {
            let [requests, answers, serves] = link.weights;
            let Some(side) = &link.side else { continue };
            actions.extend(
                side.steps().into_iter().map(|s| (serves, SessionAction::Serve(*number, s))),
            );
            if link.is_cut {
                actions.push((1, SessionAction::End(*number)));
                continue;
            }
            if !link.on_the_way.is_empty() {
                actions.push((requests, SessionAction::Deliver(*number)));
            }
            if !side.output.is_empty() {
                actions.push((answers, SessionAction::Receive(*number)));
            }
        }
        for machine in &self.machines {
            self.add_requests(machine, &mut actions);
        }
        let nexts = self.runner.nexts(&self.environment);
        actions.extend(nexts.into_iter().map(|(weight, next)| (weight, SessionAction::GoOn(next))));
        if actions.is_empty() && self.environment.has_sleepers() {
            actions.push((1, SessionAction::Nap));
        }
        actions
    }

    fn add_requests(&self, machine: &SessionMachine, actions: &mut Vec<(u32, SessionAction)>) {
        let number = machine.number;
        if matches!(machine.presence, Presence::Absent { .. }) {
            actions.extend(self.accepts_requests.then_some((1, SessionAction::Return(number))));
            return;
        }
        let links = self.links.values().filter(|l| l.machine == number && !l.is_cut).count();
        if links == 0 {
            actions.push((10, SessionAction::Connect(number)));
        } else if self.accepts_requests && links < LINKS_MAX && machine.session.is_some() {
            actions.push((1, SessionAction::Connect(number)));
        }
        let is_deaf = machine.is_deaf && self.plan.fault != Some(SessionFault::Deaf);
        if self.ready_links(number).next().is_none() || machine.session.is_none() {
            return;
        }
        if is_deaf {
            actions.push((5, SessionAction::Rebind(number)));
        }
        if machine.waits_to_send(self.due()).next().is_some() {
            actions.push((5, SessionAction::Again(number)));
        }
        if machine.recalled_delegation().is_some() {
            actions.push((3, SessionAction::ReturnDelegation(number)));
        }
        if self.accepts_requests && machine.is_complete {
            actions.push((6, SessionAction::Ask(number)));
        }
    }

    /// The step up to which retransmissions are due; while quiescing, all are.
    pub(super) fn due(&self) -> u64 {
        if self.accepts_requests { self.steps } else { u64::MAX }
    }

    /// The connections on which a machine can send requests.
    fn ready_links(&self, machine: usize) -> impl Iterator<Item = u32> + '_ {
        let is_ready = move |link: &SessionLink| {
            link.machine == machine && !link.is_cut && link.standing == LinkState::Ready
        };
        self.links.iter().filter(move |(_, link)| is_ready(link)).map(|(number, _)| *number)
    }

    pub(super) fn pick_link(&mut self, machine: usize) -> Option<u32> {
        let links: Vec<u32> = self.ready_links(machine).collect();
        (!links.is_empty()).then(|| self.random.pick(&links))
    }

    /// Renews the leases of machines that have been silent.
    fn renew(&mut self) {
        let now = self.environment.nanos();
        for machine in 0..self.machines.len() {
            let of_it = &self.machines[machine];
            if of_it.is_in_session() && now > of_it.spoke_at + RENEW_NANOS {
                self.begin(machine, SlotOperation::Renew);
            }
        }
    }

    /// Sends a request, if a slot is free.
    pub(super) fn begin(&mut self, machine: usize, op: SlotOperation) {
        let xid = self.number();
        self.need(machine, op);
        let of_it = &mut self.machines[machine];
        let Some(at) = of_it.free_slot() else { return };
        let slot = &mut of_it.slots[at as usize];
        slot.sequence += 1;
        slot.in_flight = Some(SlotRequest {
            op,
            xid,
            sent: 0,
            link: 0,
            since: self.steps,
            resend_at: Some(0),
            replayed_reply: None,
        });
        slot.last = None;
        self.send(machine, at);
    }

    /// Transmits or retransmits the request of a slot on any connection.
    pub(super) fn send(&mut self, machine: usize, at: u32) {
        let Some(link) = self.pick_link(machine) else { return };
        let is_confused = self.plan.fault == Some(SessionFault::ResendAsNew);
        let now = self.environment.nanos();
        let of_it = &mut self.machines[machine];
        let Some(session) = of_it.session else { return };
        of_it.spoke_at = now;
        let MachineSlot { sequence, in_flight: Some(in_flight), .. } =
            &mut of_it.slots[at as usize]
        else {
            return;
        };
        if in_flight.sent > 0 && in_flight.replayed_reply.is_none() && is_confused {
            *sequence += 1;
        }
        in_flight.sent += 1;
        in_flight.link = link;
        in_flight.resend_at = None;
        let (op, sent, sequence) = (in_flight.op, in_flight.sent, *sequence);
        let highest = of_it.highest(at);
        let slot = &of_it.slots[at as usize];
        let record = messages::request(machine, session, at, slot, highest);
        if let Some(link) = self.links.get_mut(&link) {
            link.on_the_way.push_back(record);
        }
        self.note(|| {
            format!("{machine} sends {at}/{sequence} by {link}, {sent}, up to {highest}: {op:?}")
        });
    }

    /// A connection is lost with the messages in flight, and the server does not know yet.
    pub(super) fn cut(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        link.is_cut = true;
        link.on_the_way.clear();
        let (machine, now) = (link.machine, self.steps);
        if let Some(side) = &mut link.side {
            side.output.clear();
        }
        for slot in &mut self.machines[machine].slots {
            let Some(in_flight) = slot.in_flight.as_mut().filter(|one| one.link == number) else {
                continue;
            };
            in_flight.resend_at = Some(now + self.random.next() % 20);
        }
        self.counts.cut += 1;
        self.note(|| format!("{number} is cut"));
    }

    fn serve(&mut self, number: u32, step: NfsServerStep) -> Result<(), String> {
        let Some(mut side) = self.links.get_mut(&number).and_then(|link| link.side.take()) else {
            return Ok(());
        };
        self.start(number, move || {
            let result = side.step(step).map_err(|close| format!("{close:?}"));
            TurnOutcome::Stepped(number, side, result)
        })
    }

    pub(super) fn start(
        &mut self,
        owner: u32,
        work: impl FnOnce() -> TurnOutcome<NfsServerEnd> + Send + 'static,
    ) -> Result<(), String> {
        let stepped = self.runner.start(&self.environment, owner, work)?;
        self.end_step(stepped);
        Ok(())
    }

    fn end_step(&mut self, stepped: FinishedStep<NfsServerEnd>) {
        let Some((number, mut side)) = stepped else { return };
        let Some(link) = self.links.get_mut(&number) else { return };
        if link.is_cut {
            side.output.clear();
        }
        link.side = Some(side);
    }

    /// The server notices the loss of a connection.
    fn end_side(&mut self, number: u32) -> Result<(), String> {
        let Some(side) = self.links.remove(&number).and_then(|link| link.side) else {
            return Ok(());
        };
        let host = self.environment.clone();
        self.start(number, move || {
            side.end(&*host);
            TurnOutcome::Over
        })
    }
}

/// Creates each machine's own directory, and the shared files.
fn make_tree(vfs: &MemoryVfs, plan: &SessionPlan) -> vfs::Result<()> {
    let make = |name: String, kind, mode| {
        let how = CreateHow::plain(kind, mode);
        let path = RelPath::from_iter([Name::new(name.into_bytes())?]);
        vfs.create(Actor::SUPERUSER, &path, Case::Sensitive, how).map(drop)
    };
    for machine in 0..plan.machines {
        make(messages::own_directory(machine), FileKind::Directory, 0o777)?;
    }
    (0..plan.files).try_for_each(|file| make(messages::shared_file(file), FileKind::File, 0o666))
}
