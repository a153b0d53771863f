//! What is around the server: time, randomness, workers, a disk that fails.
//!
//! Each run of the simulated process has one of its own: what a dead process
//! still does on parked fibers reaches nothing of the next one.

use crate::fibers::park;
use crate::random::Random;
use files::{Caller, Workers};
use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use smb::{Account, Host, InterfaceFact, Now};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vfs::memory::{Call, Fate, Surroundings};
use vfs::{FsError, Identity, Timestamp, Wait};
use wire::ntlm::NtHash;

/// Every simulated user's password.
pub const PASSWORD: &str = "simulated";

/// How often what goes wrong, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Troubles {
    /// A backend call is held up, before or after it is carried out.
    pub park: u32,
    /// What should be in memory is not.
    pub would_block: u32,
    /// A write, a sync, a read or a creation fails.
    pub fail: u32,
}

/// A call for a worker.
pub struct Task {
    /// The connection that it is for.
    pub owner: usize,
    /// How likely it is to be next.
    pub weight: u32,
    /// The call.
    pub run: Box<dyn FnOnce() + Send>,
}

/// One run of the simulated process, from outside.
pub struct Environment {
    state: Mutex<State>,
    base: Instant,
    caller: Arc<Caller>,
}

struct State {
    random: Random,
    troubles: Troubles,
    nanos: u64,
    owner: usize,
    tasks: Vec<Task>,
    /// When whom to wake.
    sleepers: Vec<(u64, oneshot::Sender<()>)>,
}

impl Environment {
    /// A process that starts after so many nanoseconds of the whole run.
    #[must_use]
    pub fn new(random: Random, troubles: Troubles, base: Instant, nanos: u64) -> Arc<Self> {
        let identity = Identity { uid: 1000, gid: 1000, groups: Vec::new() };
        let (owner, tasks, sleepers) = (0, Vec::new(), Vec::new());
        let state = State { random, troubles, nanos, owner, tasks, sleepers };
        Arc::new(Self { state: Mutex::new(state), base, caller: Arc::new(Caller::of(identity)) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing goes wrong any more.
    pub fn calm(&self) {
        self.lock().troubles = Troubles::default();
    }

    /// Says for which connection work is done next.
    pub fn set_owner(&self, owner: usize) {
        self.lock().owner = owner;
    }

    /// Time passes.
    pub fn advance(&self, nanos: u64) {
        self.lock().nanos += nanos;
        self.wake();
    }

    /// Nanoseconds since the run began.
    pub fn nanos(&self) -> u64 {
        self.lock().nanos
    }

    /// The weights of the calls that wait for a worker.
    pub fn task_weights(&self) -> Vec<u32> {
        self.lock().tasks.iter().map(|task| task.weight).collect()
    }

    /// Whether a call of this connection waits for a worker.
    pub fn has_task_of(&self, owner: usize) -> bool {
        self.lock().tasks.iter().any(|task| task.owner == owner)
    }

    /// Takes one of the calls that wait.
    pub fn take_task(&self, at: usize) -> Task {
        self.lock().tasks.remove(at)
    }

    /// Whether somebody sleeps who would be missed.
    pub fn has_sleepers(&self) -> bool {
        let mut state = self.lock();
        state.sleepers.retain(|(_, tell)| !tell.is_canceled());
        !state.sleepers.is_empty()
    }

    /// Lets time pass until the first who sleeps is woken.
    pub fn sleep_in(&self) {
        let mut state = self.lock();
        if let Some(due) = state.sleepers.iter().map(|(due, _)| *due).min() {
            state.nanos = state.nanos.max(due);
        }
        drop(state);
        self.wake();
    }

    fn wake(&self) {
        let mut state = self.lock();
        let now = state.nanos;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.sleepers).into_iter().partition(|(due, _)| *due <= now);
        state.sleepers = later;
        drop(state);
        for (_, tell) in due {
            // Whoever has stopped listening needs no telling.
            let _ = tell.send(());
        }
    }

    fn hold_up(&self) {
        let holds = {
            let mut state = self.lock();
            let chance = state.troubles.park;
            state.random.percent(chance)
        };
        if holds {
            park();
        }
    }
}

impl Surroundings for Environment {
    fn now(&self) -> Timestamp {
        Host::now(self).wall
    }

    fn before(&self, call: Call) -> Fate {
        self.hold_up();
        let mut state = self.lock();
        let Troubles { would_block, fail, .. } = state.troubles;
        if matches!(call, Call::Open(Wait::Never) | Call::Read(Wait::Never)) {
            let blocks = state.random.percent(would_block);
            return if blocks { Fate::Fails(FsError::WouldBlock) } else { Fate::Runs };
        }
        let can_fail =
            matches!(call, Call::Write { .. } | Call::Sync | Call::Read(_) | Call::Create);
        if !can_fail || !state.random.percent(fail) {
            return Fate::Runs;
        }
        match call {
            Call::Write { length_bytes } => {
                let cells = length_bytes / crate::model::CELL_BYTES;
                let torn = state.random.below(cells + 1) * crate::model::CELL_BYTES;
                Fate::Tears(state.random.pick(&[FsError::NoSpace, FsError::Io]), torn)
            }
            Call::Create => Fate::Fails(FsError::NoSpace),
            _ => Fate::Fails(FsError::Io),
        }
    }

    fn after(&self, _call: Call) {
        self.hold_up();
    }
}

impl Workers for Environment {
    fn run(&self, run: Box<dyn FnOnce() + Send>) {
        let mut state = self.lock();
        let weight = state.random.pick(&[1, 10, 10, 30]);
        let owner = state.owner;
        state.tasks.push(Task { owner, weight, run });
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let (tell, told) = oneshot::channel();
        let mut state = self.lock();
        let due = state.nanos + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        state.sleepers.push((due, tell));
        Box::pin(async move {
            // Who tells nothing has died.
            let _ = told.await;
        })
    }
}

impl Host for Environment {
    fn random(&self, out: &mut [u8]) {
        let mut state = self.lock();
        out.iter_mut().for_each(|byte| *byte = state.random.next() as u8);
    }

    fn now(&self) -> Now {
        let nanos = self.lock().nanos;
        // Some time in 2025.
        let wall = Timestamp(1_750_000_000_000_000_000 + i128::from(nanos));
        Now { instant: self.base + Duration::from_nanos(nanos), wall }
    }

    fn account(&self, user: &str) -> Option<Account> {
        let (name, nt_hash) = (user.to_owned(), NtHash::of_password(PASSWORD));
        Some(Account { name, nt_hash, caller: self.caller.clone(), groups: Arc::default() })
    }

    fn guest(&self) -> Option<Account> {
        None
    }

    fn logon_failed(&self, _peer: SocketAddr, _user: &str, _why: &str) {}

    fn logon_succeeded(&self, _peer: SocketAddr, _user: &str) {}

    fn logon_delay(&self, _peer: SocketAddr) -> Duration {
        Duration::ZERO
    }

    fn interfaces(&self, _: u16) -> Vec<InterfaceFact> {
        Vec::new()
    }
}
