//! NFS clients with several connections to one session: requests sent again elsewhere after a
//! cut, slots that are held back and given again, connections bound, backchannels that are
//! lost, delegations that are called back by what is left, machines that are away for longer than
//! their lease.
//!
//! Each machine knows for certain what must be in its own directory, and no two machines may
//! know of opens and delegations that cannot be together: that is looked at with every answer.
//! From time to time all comes to rest, and what the server has is held against what its
//! clients have.

mod absence;
mod asks;
mod machine;
pub(crate) mod messages;
pub(crate) mod replies;
mod rest;
pub(crate) mod side;
pub(crate) mod world;

use crate::random::Random;
use crate::{Failure, Report};
use std::time::Instant;

/// Something that the simulation does wrong on purpose, to show that it would be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What is sent again is another request: nothing is kept of the first.
    Again,
    /// Machines use more slots than they were told.
    Slots,
    /// Machines whose callbacks are lost do nothing about it.
    Deaf,
    /// The server is told that a delegation was given back which its machine still uses.
    GiveBack,
    /// Machines that have lost their session go on with what they had by it.
    Hold,
}

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Client machines.
    pub machines: usize,
    /// Steps.
    pub steps: u64,
    /// Shared files.
    pub files: u8,
    /// Slots of each session.
    pub slots: u32,
    /// How often a backend call is held up in the middle, in percent.
    pub park: u32,
    /// How often what should be in memory is not, in percent.
    pub would_block: u32,
    /// What is made is made by a worker, as on a disk.
    pub creates_wait: bool,
    /// How often a connection is cut, in ten thousand steps.
    pub cuts: u32,
    /// How often all of a machine's are.
    pub losses: u32,
    /// How often the server wants other numbers of slots to be used.
    pub aims: u32,
    /// How often all comes to rest, and time passes.
    pub rests: u32,
    /// How often a machine goes at rest for longer than its lease, in percent.
    pub absences: u32,
    /// See [`Fault`].
    pub fault: Option<Fault>,
}

impl Plan {
    fn of(fault: Option<Fault>, random: &mut Random) -> Self {
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

/// What has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers.
    pub answered: u64,
    /// Connections that were cut.
    pub cut: u64,
    /// Requests that were sent again since they were not answered.
    pub again: u64,
    /// Requests that came again while they were at work.
    pub busy: u64,
    /// Requests that were sent again although they had been answered.
    pub replayed: u64,
    /// Answers of which nothing was kept.
    pub uncached: u64,
    /// Connections that were bound.
    pub bound: u64,
    /// Delegations.
    pub delegated: u64,
    /// Delegations that were called back.
    pub recalled: u64,
    /// Callbacks of something that the client did not know yet.
    pub early: u64,
    /// Opens that were told to wait.
    pub delayed: u64,
    /// Machines that were told that callbacks do not reach them.
    pub deaf: u64,
    /// Other numbers of slots.
    pub aimed: u64,
    /// Slots that were given up.
    pub fewer: u64,
    /// All came to rest.
    pub rested: u64,
    /// Machines that were away for longer than their lease.
    pub away: u64,
    /// Machines that came back and had everything still.
    pub kept: u64,
    /// Machines that came back and had lost everything to others.
    pub lost: u64,
}

impl Counts {
    /// All of them, with their names.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 18] {
        [
            ("answered", self.answered),
            ("cut", self.cut),
            ("again", self.again),
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

    /// The sum with another run's.
    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.cut += other.cut;
        self.again += other.again;
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
/// [`Failure`]: what cannot be, has been.
pub fn run(seed: u64, fault: Option<Fault>) -> Result<(Report, Counts), Box<Failure>> {
    let mut random = Random::new(seed);
    let plan = Plan::of(fault, &mut random);
    let failed = |what, log| Box::new(Failure { seed, what, log });
    let world = world::World::new(plan, random, Instant::now());
    let mut world = world.map_err(|what| failed(what, String::new()))?;
    match world.run() {
        Ok(()) => {
            let (counts, steps) = (world.counts, world.steps);
            let answered = counts.answered;
            Ok((Report { steps, answered, tried_max: 0, gave_up: false }, counts))
        }
        Err(what) => {
            let log: Vec<String> = world.log.iter().cloned().collect();
            Err(failed(what, format!("{plan:?}\n{}", log.join("\n"))))
        }
    }
}
