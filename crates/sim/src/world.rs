//! One run: clients, connections, the server process, and the choice of the next action.

use crate::client::SmbClientEnd;
use crate::direct::{Direct, OperationInFlight};
use crate::environment::ProcessEnvironment;
use crate::fibers::{FiberId, FiberTurn, Fibers};
use crate::generate::{self, FilePlan};
use crate::history::OperationHistory;
use crate::model::{CELL_BYTES, DIRECT_SESSIONS, ModelAnswer, ModelRequest, NAMES, OpId};
use crate::process::Process;
use crate::random::Random;
use crate::server_side::{ServerSide, SmbServerStep};
use files::OpenFile;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use vfs::memory::MemoryVfs;

/// Maximum number of steps of a run.
const STEPS_MAX: u64 = 200_000;

/// Result of a fiber's turn.
pub enum FiberOutcome {
    /// A connection's step; an error if the connection must be closed.
    Stepped(u32, Box<ServerSide>, Result<(), smb::SmbCloseReason>),
    /// A step of the direct client: its operation has finished, or waits.
    Answered(ModelRequest, ModelAnswer, Option<Arc<OpenFile>>),
    Waits(OperationInFlight),
    /// A worker call, or the end of a connection.
    Over,
}

/// A connection, with both ends.
struct FileLink {
    client: SmbClientEnd,
    /// The server's end, unless a fiber owns it.
    side: Option<Box<ServerSide>>,
    /// Bytes in flight to the server.
    on_the_way: VecDeque<u8>,
    /// Weights of request delivery, response delivery and service.
    weights: [u32; 3],
    /// The network has dropped it.
    is_cut: bool,
}

/// A possible next action.
#[derive(Clone, Copy, Debug)]
enum FileAction {
    Ask(u32),
    Deliver(u32),
    Serve(u32, SmbServerStep),
    Receive(u32),
    Resume(FiberId),
    Work(usize),
    AskDirectly,
    ServeDirectly,
    WriteBack,
    SleepIn,
}

/// A run.
pub struct FileWorld {
    /// Its parameters.
    pub plan: FilePlan,
    /// The history of requests and replies.
    pub history: OperationHistory,
    /// The last events.
    pub log: VecDeque<String>,
    /// Number of steps.
    pub steps: u64,
    /// Number of correct replies.
    pub answered: u64,
    random: Random,
    base: Instant,
    process: Process,
    fibers: Fibers<FiberOutcome>,
    parked: BTreeMap<FiberId, (u32, u32)>,
    links: BTreeMap<u32, FileLink>,
    /// The direct client, if there is one.
    direct: Option<Direct>,
    /// Sessions whose connection is lost and whose state is not released yet.
    ending: Vec<u32>,
    next_session: u32,
    next_op: OpId,
    accepts_requests: bool,
    /// A break timeout has expired, so the clients' caches are no longer certain.
    slept: bool,
}

impl FileWorld {
    /// The initial state of a seed's run.
    ///
    /// # Errors
    /// The tree cannot be created.
    pub fn new(seed: u64, base: Instant) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let plan = FilePlan::of(seed, &mut random);
        let environment = ProcessEnvironment::new(random.fork(), plan.troubles, base, 0);
        let process = Process::first(environment, plan.losses > 0)?;
        Ok(Self {
            plan,
            history: OperationHistory::new(plan.rules()),
            log: VecDeque::new(),
            steps: 0,
            answered: 0,
            random,
            base,
            process,
            fibers: Fibers::default(),
            parked: BTreeMap::new(),
            links: BTreeMap::new(),
            direct: None,
            ending: Vec::new(),
            next_session: 1,
            next_op: 1,
            accepts_requests: true,
            slept: false,
        })
    }

    /// Runs to the end and checks the leftovers.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run(&mut self) -> Result<(), String> {
        while self.next_op < self.plan.operations {
            self.connect();
            self.trouble()?;
            if !self.advance()? {
                // All clients wait for each other's locks.
                self.cut_one()?;
            }
        }
        self.accepts_requests = false;
        while self.advance()? {}
        self.check_unanswered()?;
        self.end_direct()?;
        while !self.links.is_empty() {
            self.cut_one()?;
        }
        while self.advance()? {}
        self.check_rest()
    }

    fn note(&mut self, what: String) {
        if self.log.len() == 80 {
            self.log.pop_front();
        }
        self.log.push_back(format!("{:>6} {what}", self.steps));
    }

    /// Connects the missing clients.
    fn connect(&mut self) {
        while self.links.len() < self.plan.clients {
            let session = self.next_session;
            self.next_session += 1;
            let client = SmbClientEnd::new(session, self.random.fork());
            let side = Some(Box::new(ServerSide::new(self.process.accept(session))));
            let weights = [(); 3].map(|()| self.random.pick(&[1, 10, 10, 30]));
            let link =
                FileLink { client, side, on_the_way: VecDeque::new(), weights, is_cut: false };
            self.links.insert(session, link);
        }
        if self.plan.direct && self.direct.is_none() {
            let session = DIRECT_SESSIONS + self.next_session;
            self.next_session += 1;
            self.direct = Some(Direct::new(session, &self.process));
        }
    }

    /// Injects a crash with a low probability.
    fn trouble(&mut self) -> Result<(), String> {
        let dice = self.random.next() as u32 % 10_000;
        let FilePlan { cuts, deaths, losses, .. } = self.plan;
        if dice < cuts {
            self.cut_one()
        } else if dice < cuts + deaths {
            self.die(false)
        } else if dice < cuts + deaths + losses {
            self.die(true)
        } else {
            Ok(())
        }
    }

    /// Performs one of the possible actions; false if there is none.
    fn advance(&mut self) -> Result<bool, String> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err("it does not come to rest".into());
        }
        self.process.environment.advance(self.random.next() % 1_000_000);
        let actions = self.actions();
        if actions.is_empty() {
            return Ok(false);
        }
        let at = self.random.weighted(actions.iter().map(|(weight, _)| *weight));
        match actions[at].1 {
            FileAction::Ask(session) => self.ask(session),
            FileAction::Deliver(session) => self.deliver(session),
            FileAction::Serve(session, step) => self.serve(session, step)?,
            FileAction::Receive(session) => self.receive(session)?,
            FileAction::Resume(id) => self.resume(id)?,
            FileAction::Work(at) => self.work(at)?,
            FileAction::AskDirectly => self.ask_directly(),
            FileAction::ServeDirectly => self.serve_directly()?,
            FileAction::SleepIn => {
                self.slept = true;
                self.process.environment.sleep_in();
            }
            FileAction::WriteBack => {
                let random = &mut self.random;
                self.process.vfs.write_back(&mut || random.percent(40));
            }
        }
        self.clear_away()?;
        Ok(true)
    }

    fn actions(&self) -> Vec<(u32, FileAction)> {
        let mut actions = Vec::new();
        for (session, link) in &self.links {
            let [requests, answers, serves] = link.weights;
            if self.can_ask(link) {
                actions.push((10, FileAction::Ask(*session)));
            }
            if !link.on_the_way.is_empty() && link.side.is_some() {
                actions.push((requests, FileAction::Deliver(*session)));
            }
            let Some(side) = &link.side else { continue };
            let now = smb::SmbHost::now(&*self.process.environment).instant;
            let steps = side.steps(now).into_iter();
            actions.extend(steps.map(|step| (serves, FileAction::Serve(*session, step))));
            if !side.output.is_empty() {
                actions.push((answers, FileAction::Receive(*session)));
            }
        }
        if let Some(direct) = &self.direct {
            let room = self.history.pending_count() < self.plan.pending_max;
            if self.accepts_requests
                && direct.is_idle()
                && room
                && self.next_op < self.plan.operations
            {
                actions.push((10, FileAction::AskDirectly));
            }
            if direct.can_go_on() {
                actions.push((10, FileAction::ServeDirectly));
            }
        }
        let parked = self.parked.iter();
        actions.extend(parked.map(|(id, (_, weight))| (*weight, FileAction::Resume(*id))));
        let tasks = self.process.environment.task_weights();
        actions.extend(tasks.into_iter().enumerate().map(|(at, w)| (w, FileAction::Work(at))));
        if actions.is_empty() && self.process.environment.has_sleepers() {
            actions.push((1, FileAction::SleepIn));
        }
        if self.plan.losses > 0 && !actions.is_empty() {
            actions.push((1, FileAction::WriteBack));
        }
        actions
    }

    fn can_ask(&self, link: &FileLink) -> bool {
        link.client.has_set_up_to_do()
            || (link.client.has_breaks() && link.client.can_ask(1))
            || (self.accepts_requests
                && link.client.is_ready()
                && link.client.can_ask(3)
                && self.history.pending_count() < self.plan.pending_max
                && self.next_op < self.plan.operations)
    }

    fn ask(&mut self, session: u32) {
        let Some(link) = self.links.get_mut(&session) else { return };
        let client = &mut link.client;
        let frame = if client.has_set_up_to_do() {
            client.set_up()
        } else if client.has_breaks() {
            let Some(frame) = client.acknowledge() else { return };
            frame
        } else if self.random.percent(3) {
            client.echo()
        } else if let Some((op, frame)) = self.random.percent(40).then(|| client.cancel()).flatten()
        {
            self.history.cancel(op);
            link.on_the_way.extend(frame);
            self.note(format!("{session} cancels {op}"));
            return;
        } else {
            let (requests, related) =
                generate::requests(&self.plan, &mut self.random, client, &mut self.next_op);
            let said: Vec<String> =
                requests.iter().map(|r| format!("{}: {:?}", r.id, r.op)).collect();
            requests.iter().for_each(|request| self.history.ask(request.clone()));
            link.on_the_way.extend(client.ask(requests, related));
            self.note(format!("{session} asks {}", said.join(", ")));
            return;
        };
        link.on_the_way.extend(frame);
    }

    fn ask_directly(&mut self) {
        let Some(direct) = &mut self.direct else { return };
        let request = direct.ask(self.next_op, self.plan.names, &mut self.random);
        self.next_op += 1;
        self.history.ask(request.clone());
        self.note(format!("{} does {}: {:?}", request.session, request.id, request.op));
    }

    fn serve_directly(&mut self) -> Result<(), String> {
        let Some(direct) = &mut self.direct else { return Ok(()) };
        let session = direct.session;
        let Some(running) = direct.take() else { return Ok(()) };
        self.start(
            session,
            Box::new(move || match running.go_on() {
                (request, Ok((answer, open))) => FiberOutcome::Answered(request, answer, open),
                (_, Err(running)) => FiberOutcome::Waits(running),
            }),
        )
    }

    /// The direct client's operation has finished.
    fn take_answer(
        &mut self,
        request: &ModelRequest,
        answer: &ModelAnswer,
        open: Option<Arc<OpenFile>>,
    ) -> Result<(), String> {
        let Some(direct) = self.direct.as_mut().filter(|d| d.session == request.session) else {
            // The client is gone, so the resulting open is closed.
            return self.start(
                request.session,
                Box::new(move || {
                    drop(open);
                    FiberOutcome::Over
                }),
            );
        };
        let has_opened = open.is_some();
        direct.end(request, open);
        self.answered += 1;
        let result = self.history.answer(request.id, answer).map_err(|i| i.0);
        for said in self.history.take_said() {
            self.note(format!("{} {said}", request.session));
        }
        result?;
        if has_opened { self.check_exclusive(request.id) } else { Ok(()) }
    }

    /// Disconnects the direct client, regardless of its operation in flight.
    fn end_direct(&mut self) -> Result<(), String> {
        let Some(direct) = self.direct.take() else { return Ok(()) };
        let session = direct.session;
        self.note(format!("{session} goes"));
        self.history.begin_end(session);
        self.ending.push(session);
        self.start(
            session,
            Box::new(move || {
                drop(direct);
                FiberOutcome::Over
            }),
        )?;
        self.clear_away()
    }

    fn some_of(random: &mut Random, length: usize) -> usize {
        if random.percent(60) { length } else { 1 + random.below(length) }
    }

    fn deliver(&mut self, session: u32) {
        let Some(link) = self.links.get_mut(&session) else { return };
        let count = Self::some_of(&mut self.random, link.on_the_way.len());
        if let Some(side) = &mut link.side {
            side.input.extend(link.on_the_way.drain(..count));
        }
    }

    fn receive(&mut self, session: u32) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&session) else { return Ok(()) };
        let Some(side) = &mut link.side else { return Ok(()) };
        let count = Self::some_of(&mut self.random, side.output.len());
        let bytes: Vec<u8> = side.output.drain(..count).collect();
        let before = link.client.answered();
        let result = link.client.receive(&bytes, &mut self.history);
        self.answered += link.client.answered() - before;
        let opened = link.client.take_opened();
        for said in self.history.take_said() {
            self.note(format!("{session} {said}"));
        }
        result?;
        opened.into_iter().try_for_each(|open| self.check_exclusive(open))
    }

    /// Checks that an exclusive cache was broken before another client opened the file.
    fn check_exclusive(&self, open: OpId) -> Result<(), String> {
        let file = self.history.file_of(open).filter(|_| self.history.uses_data(open));
        if file.is_none() || self.slept || self.history.gave_up {
            return Ok(());
        }
        let mut exclusive = self.links.values().flat_map(|link| link.client.exclusive());
        match exclusive.find(|other| *other != open && self.history.file_of(*other) == file) {
            Some(other) => Err(format!("{open} is open although {other} keeps all to itself")),
            None => Ok(()),
        }
    }

    fn serve(&mut self, session: u32, step: SmbServerStep) -> Result<(), String> {
        let Some(mut side) = self.links.get_mut(&session).and_then(|link| link.side.take()) else {
            return Ok(());
        };
        let now = smb::SmbHost::now(&*self.process.environment);
        self.start(
            session,
            Box::new(move || {
                let result = side.step(step, now);
                FiberOutcome::Stepped(session, side, result)
            }),
        )
    }

    fn work(&mut self, at: usize) -> Result<(), String> {
        let task = self.process.environment.take_task(at);
        let run = task.run;
        self.start(
            task.owner as u32,
            Box::new(move || {
                run();
                FiberOutcome::Over
            }),
        )
    }

    fn start(
        &mut self,
        owner: u32,
        work: Box<dyn FnOnce() -> FiberOutcome + Send>,
    ) -> Result<(), String> {
        self.process.environment.set_owner(owner as usize);
        let turn = self.fibers.start(work);
        self.end_turn(owner, turn)
    }

    fn resume(&mut self, id: FiberId) -> Result<(), String> {
        let Some((owner, _)) = self.parked.remove(&id) else { return Ok(()) };
        self.process.environment.set_owner(owner as usize);
        let turn = self.fibers.resume(id);
        self.end_turn(owner, turn)
    }

    fn end_turn(&mut self, owner: u32, turn: FiberTurn<FiberOutcome>) -> Result<(), String> {
        match turn {
            FiberTurn::Failed(what) => Err(what),
            FiberTurn::Parked(id) => {
                let weight = self.random.pick(&[1, 10, 10, 30]);
                self.parked.insert(id, (owner, weight));
                Ok(())
            }
            FiberTurn::Done(FiberOutcome::Over) => Ok(()),
            FiberTurn::Done(FiberOutcome::Answered(request, answer, open)) => {
                self.take_answer(&request, &answer, open)
            }
            FiberTurn::Done(FiberOutcome::Waits(running)) => {
                match self.direct.as_mut().filter(|direct| direct.session == owner) {
                    Some(direct) => {
                        direct.put_back(running);
                        Ok(())
                    }
                    // The operation is cancelled at any point.
                    None => self.start(
                        owner,
                        Box::new(move || {
                            drop(running);
                            FiberOutcome::Over
                        }),
                    ),
                }
            }
            FiberTurn::Done(FiberOutcome::Stepped(session, side, result)) => {
                if let Err(close) = result {
                    return Err(format!(
                        "the server closes the connection of {session}: {close:?}"
                    ));
                }
                match self.links.get_mut(&session) {
                    Some(link) if !link.is_cut => {
                        link.side = Some(side);
                        Ok(())
                    }
                    _ => self.end_side(session, side),
                }
            }
        }
    }

    /// The server notices the loss of a connection.
    fn end_side(&mut self, session: u32, side: Box<ServerSide>) -> Result<(), String> {
        self.links.remove(&session);
        self.start(
            session,
            Box::new(move || {
                drop(side);
                FiberOutcome::Over
            }),
        )
    }

    /// Cuts a connection at any point.
    fn cut_one(&mut self) -> Result<(), String> {
        if self.direct.is_some() && self.random.percent(30) {
            return self.end_direct();
        }
        let whole: Vec<u32> =
            self.links.iter().filter(|(_, link)| !link.is_cut).map(|(s, _)| *s).collect();
        if whole.is_empty() {
            // The ends of the connections are suspended.
            return self.advance().map(|_| ());
        }
        let session = self.random.pick(&whole);
        self.note(format!("{session} is cut"));
        self.history.begin_end(session);
        self.ending.push(session);
        let Some(link) = self.links.get_mut(&session) else { return Ok(()) };
        link.is_cut = true;
        match link.side.take() {
            Some(side) => self.end_side(session, side)?,
            // A fiber owns it, and notices the loss.
            None => {
                link.on_the_way.clear();
            }
        }
        self.clear_away()
    }

    /// Records the sessions without any work left.
    fn clear_away(&mut self) -> Result<(), String> {
        let ending = std::mem::take(&mut self.ending);
        for session in ending {
            let runs = self.links.contains_key(&session)
                || self.parked.values().any(|(owner, _)| *owner == session)
                || self.process.environment.has_task_of(session as usize);
            if runs {
                self.ending.push(session);
            } else {
                self.history.end(session).map_err(|i| i.0)?;
                self.note(format!("{session} is cleared away"));
            }
        }
        Ok(())
    }

    /// The process dies or the machine loses power, and the server is restarted.
    fn die(&mut self, with_power: bool) -> Result<(), String> {
        self.note(if with_power { "power is lost".into() } else { "the process dies".into() });
        let old = &self.process;
        let nanos = old.environment.nanos();
        let environment =
            ProcessEnvironment::new(self.random.fork(), self.plan.troubles, self.base, nanos);
        let random = &mut self.random;
        let vfs = if with_power {
            let mut takes = || random.percent(40);
            old.vfs.lose_power(environment.clone(), &mut takes)
        } else {
            old.vfs.kill(environment.clone())
        };
        self.bury()?;
        let found = image(&vfs)?;
        let judged =
            if with_power { self.history.lose_power(&found) } else { self.history.kill(&found) };
        self.process = Process::over(vfs, environment);
        judged.map_err(|i| i.0)
    }

    /// Runs the fibers of a dead process to their end; their effects are discarded.
    fn bury(&mut self) -> Result<(), String> {
        self.process.environment.calm();
        let parked = std::mem::take(&mut self.parked);
        for id in parked.into_keys() {
            match self.fibers.resume(id) {
                FiberTurn::Failed(what) => return Err(what),
                FiberTurn::Parked(_) => return Err("a dead process goes on".into()),
                FiberTurn::Done(outcome) => drop(outcome),
            }
        }
        self.ending.clear();
        self.links.clear();
        self.direct = None;
        Ok(())
    }

    /// Checks that every unanswered request waits for another client.
    fn check_unanswered(&self) -> Result<(), String> {
        if self.direct.as_ref().is_some_and(|direct| !direct.is_idle()) {
            return Err(format!("who knows handles is not answered\n{}", self.history.describe()));
        }
        for (session, link) in &self.links {
            for request in link.client.unanswered() {
                if !request.is_some_and(|request| self.history.may_wait(request.id)) {
                    let said = self.history.describe();
                    return Err(format!("{session} is not answered: {request:?}\n{said}"));
                }
            }
            if link.client.credits() == 0 && link.client.unanswered().next().is_none() {
                return Err(format!("{session} has no credits left"));
            }
        }
        Ok(())
    }

    /// Checks that nothing is held once all clients are gone.
    fn check_rest(&mut self) -> Result<(), String> {
        let found = image(&self.process.vfs)?;
        self.history.finish(&found).map_err(|i| i.0)?;
        self.process.check_nothing_held()
    }
}

/// The tree in the model's terms.
fn image(vfs: &MemoryVfs) -> Result<BTreeMap<u8, Vec<u8>>, String> {
    let mut image = BTreeMap::new();
    for (path, bytes) in vfs.files() {
        let shown = path.replace('/', "\\");
        let is = |name: &&str| name.eq_ignore_ascii_case(&shown);
        let Some(name) = NAMES.iter().position(is) else {
            return Err(format!("a file nobody named: {path}"));
        };
        let torn = |cell: &&[u8]| cell.iter().any(|byte| *byte != cell[0]);
        if !bytes.len().is_multiple_of(CELL_BYTES) || bytes.chunks(CELL_BYTES).any(|c| torn(&c)) {
            return Err(format!("a torn cell in {path}"));
        }
        image.insert(name as u8, bytes.chunks(CELL_BYTES).map(|cell| cell[0]).collect());
    }
    Ok(image)
}
