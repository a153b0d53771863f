//! NFS clients with several connections per session: retransmissions after a lost connection,
//! changing slot counts, bound connections, lost backchannels, delegation recalls on the remaining
//! ones, and machines that are absent for longer than their lease.
//!
//! Each machine knows for certain what its own directory must contain, and no two machines may know
//! of conflicting opens and delegations: every reply is checked for that. From time to time the run
//! quiesces, and the server's state is compared with the clients' knowledge.

mod absence;
mod machine;
pub(crate) mod messages;
mod quiescence;
pub(crate) mod replies;
mod requests;
pub(crate) mod side;
pub(crate) mod world;

use crate::random::Random;
use crate::{RunFailure, RunReport};
use std::time::Instant;

/// A deliberate fault, which the simulation must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFault {
    /// A retransmission is sent as a new request.
    ResendAsNew,
    /// Machines use more slots than the server permits.
    Slots,
    /// Machines ignore a lost backchannel.
    Deaf,
    /// A machine returns a delegation, but continues to use it.
    UseReturnedDelegation,
    /// A machine that lost its session continues to use its state.
    Hold,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct SessionPlan {
    /// Number of client machines.
    pub machines: usize,
    /// Number of steps.
    pub steps: u64,
    /// Number of shared files.
    pub files: u8,
    /// Slots per session.
    pub slots: u32,
    /// Probability that a backend call is suspended, in percent.
    pub park: u32,
    /// Probability that cached data is reported as absent, in percent.
    pub would_block: u32,
    /// A worker performs creations, as on a disk.
    pub creates_wait: bool,
    /// Probability per step that a connection is cut, in 1/10,000.
    pub cuts: u32,
    /// Probability per step that a machine loses all connections, in 1/10,000.
    pub losses: u32,
    /// Probability per step that the server changes the target number of slots, in 1/10,000.
    pub aims: u32,
    /// Probability of quiescence per step, in 1/10,000.
    pub rests: u32,
    /// Probability that a machine is absent for longer than its lease at quiescence, in percent.
    pub absences: u32,
    /// See [`SessionFault`].
    pub fault: Option<SessionFault>,
}

impl SessionPlan {
    fn of(fault: Option<SessionFault>, random: &mut Random) -> Self {
        Self {
            machines: 1 + random.below(3),
            steps: 500 + random.next() % 900,
            files: 1 + random.small(2),
            slots: 1 + random.next() as u32 % 8,
            park: random.pick(&[0, 0, 5, 20]),
            would_block: random.pick(&[0, 10, 50]),
            creates_wait: random.percent(50),
            cuts: random.pick(&[0, 50, 150, 400]),
            losses: random.pick(&[0, 20, 60]),
            aims: random.pick(&[0, 50, 200]),
            rests: random.pick(&[30, 60]),
            absences: random.pick(&[0, 30, 60]),
            fault,
        }
    }
}

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Replies.
    pub answered: u64,
    /// Cut connections.
    pub cut: u64,
    /// Retransmissions of unanswered requests.
    pub retransmitted: u64,
    /// Retransmissions that met the request in progress.
    pub busy: u64,
    /// Retransmissions of answered requests.
    pub replayed: u64,
    /// Retransmissions whose reply was not cached.
    pub uncached: u64,
    /// Bound connections.
    pub bound: u64,
    /// Delegations.
    pub delegated: u64,
    /// Recalled delegations.
    pub recalled: u64,
    /// Callbacks about state that the client did not know yet.
    pub early: u64,
    /// Opens that got NFS4ERR_DELAY.
    pub delayed: u64,
    /// Reports that the callback path is down.
    pub deaf: u64,
    /// Changes of the target number of slots.
    pub aimed: u64,
    /// Slots given up.
    pub fewer: u64,
    /// Quiescent states.
    pub rested: u64,
    /// Machines that were absent for longer than their lease.
    pub away: u64,
    /// Machines that returned and had retained all their state.
    pub kept: u64,
    /// Machines that returned and had lost all their state.
    pub lost: u64,
}

impl SessionCounts {
    /// All counters with their names.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 18] {
        [
            ("answered", self.answered),
            ("cut", self.cut),
            ("again", self.retransmitted),
            ("busy", self.busy),
            ("replayed", self.replayed),
            ("uncached", self.uncached),
            ("bound", self.bound),
            ("delegated", self.delegated),
            ("recalled", self.recalled),
            ("early", self.early),
            ("delayed", self.delayed),
            ("deaf", self.deaf),
            ("aimed", self.aimed),
            ("fewer", self.fewer),
            ("rested", self.rested),
            ("away", self.away),
            ("kept", self.kept),
            ("lost", self.lost),
        ]
    }

    /// Adds another run's counters.
    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.cut += other.cut;
        self.retransmitted += other.retransmitted;
        self.busy += other.busy;
        self.replayed += other.replayed;
        self.uncached += other.uncached;
        self.bound += other.bound;
        self.delegated += other.delegated;
        self.recalled += other.recalled;
        self.early += other.early;
        self.delayed += other.delayed;
        self.deaf += other.deaf;
        self.aimed += other.aimed;
        self.fewer += other.fewer;
        self.rested += other.rested;
        self.away += other.away;
        self.kept += other.kept;
        self.lost += other.lost;
    }
}

/// Runs one seed.
///
/// # Errors
/// [`RunFailure`]: the clients observed a contradiction.
pub fn run(
    seed: u64,
    fault: Option<SessionFault>,
) -> Result<(RunReport, SessionCounts), Box<RunFailure>> {
    let mut random = Random::new(seed);
    let plan = SessionPlan::of(fault, &mut random);
    let failed = |what, log| Box::new(RunFailure { seed, what, log });
    let world = world::SessionWorld::new(plan, random, Instant::now());
    let mut world = world.map_err(|what| failed(what, String::new()))?;
    match world.run() {
        Ok(()) => {
            let (counts, steps) = (world.counts, world.steps);
            let answered = counts.answered;
            Ok((RunReport { steps, answered, tried_max: 0, gave_up: false }, counts))
        }
        Err(what) => {
            let log: Vec<String> = world.log.iter().cloned().collect();
            Err(failed(what, format!("{plan:?}\n{}", log.join("\n"))))
        }
    }
}
