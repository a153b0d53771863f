//! The server's environment: time, randomness, workers, and a failing disk.
//!
//! Each simulated process has its own environment, so that the parked fibers of a dead process
//! cannot affect its successor.

use crate::channels::MemoryJournal;
use crate::fibers::park;
use crate::random::Random;
use crate::server_side::Flag;
use files::{CallHolder, Caller, Workers};
use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use smb::{Account, HostTime, InterfaceFact, SmbHost};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::Mutex;
use vfs::memory::{CallOutcome, MemoryCall, Surroundings};
use vfs::{FsError, Identity, Timestamp, Wait};
use wire::ntlm::NtHash;

/// Password of every simulated user.
pub const PASSWORD: &str = "simulated";

/// Probabilities of failures, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Troubles {
    /// A backend call is suspended, before or after its execution.
    pub park: u32,
    /// Cached data is reported as absent.
    pub would_block: u32,
    /// A write, a sync, a read or a creation fails.
    pub fail: u32,
    /// A worker performs creations, as on a disk. Not a percentage.
    pub creates_wait: bool,
}

/// Work that continues without its connection.
pub type DetachedWork = (BoxFuture<'static, ()>, Arc<Flag>);

/// A call for a worker.
pub struct WorkerTask {
    /// The connection on whose behalf it runs.
    pub owner: usize,
    /// Its weight as the next action.
    pub weight: u32,
    /// The call.
    pub run: Box<dyn FnOnce() + Send>,
}

/// The environment of one simulated process.
pub struct ProcessEnvironment {
    state: Mutex<EnvironmentState>,
    base: Instant,
    /// The identity of all work.
    pub caller: Arc<Caller>,
}

struct EnvironmentState {
    random: Random,
    troubles: Troubles,
    nanos: u64,
    owner: usize,
    tasks: Vec<WorkerTask>,
    /// Wake-up times of sleepers.
    sleepers: Vec<(u64, oneshot::Sender<()>)>,
    /// Journal of opens that survive the process.
    journal: Option<Arc<MemoryJournal>>,
    /// Detached work.
    carried: Vec<DetachedWork>,
    /// All users have the same identity.
    is_confused: bool,
}

impl ProcessEnvironment {
    /// Creates the environment of a process that starts at this time of the run, in nanoseconds.
    #[must_use]
    pub fn new(random: Random, troubles: Troubles, base: Instant, nanos: u64) -> Arc<Self> {
        let identity = Identity { uid: 1000, gid: 1000, groups: Vec::new() };
        let state = EnvironmentState {
            random,
            troubles,
            nanos,
            owner: 0,
            tasks: Vec::new(),
            sleepers: Vec::new(),
            journal: None,
            carried: Vec::new(),
            is_confused: false,
        };
        Arc::new(Self { state: Mutex::new(state), base, caller: Arc::new(Caller::of(identity)) })
    }

    /// Ends all failures.
    pub fn calm(&self) {
        self.state.lock().troubles = Troubles::default();
    }

    /// Makes opens survive the process, and CREATEs survive their connection.
    pub fn keep_opens_in(&self, journal: Arc<MemoryJournal>) {
        self.state.lock().journal = Some(journal);
    }

    /// Detaches the journal of a dead process.
    pub fn forget_journal(&self) {
        self.state.lock().journal = None;
    }

    /// Gives all users the same identity.
    pub fn merge_users(&self) {
        self.state.lock().is_confused = true;
    }

    /// Takes the detached work since the last query.
    pub fn take_carried(&self) -> Vec<DetachedWork> {
        std::mem::take(&mut self.state.lock().carried)
    }

    /// True if the first sleeper wakes within this time, in nanoseconds.
    pub fn sleeps_less_than(&self, nanos: u64) -> bool {
        let mut state = self.state.lock();
        state.sleepers.retain(|(_, sender)| !sender.is_canceled());
        let end = state.nanos + nanos;
        state.sleepers.iter().any(|(due, _)| *due < end)
    }

    /// Sets the connection on whose behalf work is done next.
    pub fn set_owner(&self, owner: usize) {
        self.state.lock().owner = owner;
    }

    /// Advances time.
    pub fn advance(&self, nanos: u64) {
        self.state.lock().nanos += nanos;
        self.wake();
    }

    /// Time of the run, in nanoseconds.
    pub fn nanos(&self) -> u64 {
        self.state.lock().nanos
    }

    /// Weights of the queued worker calls.
    pub fn task_weights(&self) -> Vec<u32> {
        self.state.lock().tasks.iter().map(|task| task.weight).collect()
    }

    /// True if a worker call of this connection is queued.
    pub fn has_task_of(&self, owner: usize) -> bool {
        self.state.lock().tasks.iter().any(|task| task.owner == owner)
    }

    /// Takes one of the queued calls.
    pub fn take_task(&self, at: usize) -> WorkerTask {
        self.state.lock().tasks.remove(at)
    }

    /// True if a sleeper exists whose receiver still waits.
    pub fn has_sleepers(&self) -> bool {
        let mut state = self.state.lock();
        state.sleepers.retain(|(_, sender)| !sender.is_canceled());
        !state.sleepers.is_empty()
    }

    /// Advances time to the first sleeper's wake-up.
    pub fn sleep_in(&self) {
        let mut state = self.state.lock();
        if let Some(due) = state.sleepers.iter().map(|(due, _)| *due).min() {
            state.nanos = state.nanos.max(due);
        }
        drop(state);
        self.wake();
    }

    fn wake(&self) {
        let mut state = self.state.lock();
        let now = state.nanos;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.sleepers).into_iter().partition(|(due, _)| *due <= now);
        state.sleepers = later;
        drop(state);
        for (_, sender) in due {
            // A sleeper whose receiver is gone needs no wake-up.
            let _ = sender.send(());
        }
    }

    fn hold_up(&self) {
        let holds = {
            let mut state = self.state.lock();
            let chance = state.troubles.park;
            state.random.percent(chance)
        };
        if holds {
            park();
        }
    }
}

impl Surroundings for ProcessEnvironment {
    fn now(&self) -> Timestamp {
        SmbHost::now(self).wall
    }

    fn before(&self, call: MemoryCall) -> CallOutcome {
        self.hold_up();
        let mut state = self.state.lock();
        let Troubles { would_block, fail, .. } = state.troubles;
        if matches!(call, MemoryCall::Open(Wait::Never) | MemoryCall::Read(Wait::Never)) {
            let blocks = state.random.percent(would_block);
            return if blocks {
                CallOutcome::Fails(FsError::WouldBlock)
            } else {
                CallOutcome::Runs
            };
        }
        let can_fail = matches!(
            call,
            MemoryCall::Write { .. } | MemoryCall::Sync | MemoryCall::Read(_) | MemoryCall::Create
        );
        if !can_fail || !state.random.percent(fail) {
            return CallOutcome::Runs;
        }
        match call {
            MemoryCall::Write { length_bytes } => {
                let cells = length_bytes / crate::model::CELL_BYTES;
                let torn = state.random.below(cells + 1) * crate::model::CELL_BYTES;
                CallOutcome::Tears(state.random.pick(&[FsError::NoSpace, FsError::Io]), torn)
            }
            MemoryCall::Create => CallOutcome::Fails(FsError::NoSpace),
            _ => CallOutcome::Fails(FsError::Io),
        }
    }

    fn after(&self, _call: MemoryCall) {
        self.hold_up();
    }

    fn creates_without_waiting(&self) -> bool {
        !self.state.lock().troubles.creates_wait
    }
}

impl Workers for ProcessEnvironment {
    fn run(&self, _: &CallHolder, run: Box<dyn FnOnce() + Send>) {
        let mut state = self.state.lock();
        let weight = state.random.pick(&[1, 10, 10, 30]);
        let owner = state.owner;
        state.tasks.push(WorkerTask { owner, weight, run });
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        let due = state.nanos + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        state.sleepers.push((due, sender));
        Box::pin(async move {
            // The sender of a dead process is dropped.
            let _ = receiver.await;
        })
    }
}

impl SmbHost for ProcessEnvironment {
    fn random(&self, out: &mut [u8]) {
        let mut state = self.state.lock();
        out.iter_mut().for_each(|byte| *byte = state.random.next() as u8);
    }

    fn now(&self) -> HostTime {
        let nanos = self.state.lock().nanos;
        // A time in 2025.
        let wall = Timestamp(1_750_000_000_000_000_000 + i128::from(nanos));
        HostTime { instant: self.base + Duration::from_nanos(nanos), wall }
    }

    fn account(&self, user: &str) -> Option<Account> {
        let is_confused = self.state.lock().is_confused;
        let name = if is_confused { "everyone" } else { user }.to_owned();
        let nt_hash = NtHash::of_password(PASSWORD);
        Some(Account {
            name,
            nt_hash,
            caller: self.caller.clone(),
            groups: Arc::default(),
            root_by_ticket: false,
        })
    }

    fn guest(&self) -> Option<Account> {
        None
    }

    fn logon_failed(&self, _peer: SocketAddr, _user: &str, _why: &str) {}

    fn logon_succeeded(&self, _peer: SocketAddr, _user: &str) {}

    fn carry_on(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let mut state = self.state.lock();
        if state.journal.is_some() {
            state.carried.push((work, Flag::raised()));
        }
    }

    fn persists_opens(&self) -> bool {
        self.state.lock().journal.is_some()
    }

    fn write_open_record(&self, id: u64, record: Option<Vec<u8>>) -> BoxFuture<'static, bool> {
        match &self.state.lock().journal {
            Some(journal) => journal.change(id, record),
            None => Box::pin(std::future::ready(false)),
        }
    }

    fn interfaces(&self, _: u16) -> Vec<InterfaceFact> {
        Vec::new()
    }
}

impl nfs::NfsHost for ProcessEnvironment {
    fn random(&self, out: &mut [u8]) {
        SmbHost::random(self, out);
    }

    fn now(&self) -> nfs::TimeReading {
        let HostTime { instant, wall } = SmbHost::now(self);
        nfs::TimeReading { instant, wall }
    }

    fn caller(&self, identity: Identity) -> Arc<Caller> {
        Arc::new(Caller::of(identity))
    }

    fn carry_on(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.state.lock().carried.push((work, Flag::raised()));
    }
}
