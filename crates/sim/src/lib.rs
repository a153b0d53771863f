//! Deterministic simulation: the real `smb` and `files` over a backend in
//! memory, with clients, network, workers, time, failures and crashes that
//! all follow from one seed.
//!
//! One thread runs at a time, and every choice is drawn from the seed: who is
//! next, which call is held up in the middle, what fails, what is cut. What
//! clients are told is held against a model that knows nothing of the server
//! ([`model`]): every answer must be one that some order of the operations
//! under way allows ([`history`]). A run that fails is repeated by its seed.
//!
//! Further worlds have other clients: of SMB with many channels ([`channels`]), of NFS with
//! several connections ([`sessions`]), and of both protocols on the same files ([`both`]), where a
//! referee is told what each certainly knows, and finds what cannot be together.
#![forbid(unsafe_code)]

pub mod both;
pub mod cache;
pub mod channels;
mod client;
pub mod crowd;
mod direct;
mod environment;
mod fibers;
mod generate;
mod history;
mod messages;
mod model;
mod process;
mod random;
mod runner;
mod server_side;
pub mod sessions;
mod world;

use std::time::Instant;
use world::World;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Steps that were made.
    pub steps: u64,
    /// Replies that were received and right.
    pub answered: u64,
    /// Most states that were tried for one reply.
    pub tried_max: usize,
    /// There were too many possibilities to judge it to its end.
    pub gave_up: bool,
}

/// A run that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Repeats it.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
    /// What the run is like, and what happened last in it.
    pub log: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\nseed {}: {}", self.log, self.seed, self.what)
    }
}

/// Runs one seed.
///
/// # Errors
/// [`Failure`]: what cannot be, has been.
pub fn run(seed: u64) -> Result<Report, Box<Failure>> {
    // Only differences to it matter.
    let base = Instant::now();
    let failed = |what, log| Box::new(Failure { seed, what, log });
    let mut world = World::new(seed, base).map_err(|what| failed(what, String::new()))?;
    match world.run() {
        Ok(()) => Ok(Report {
            steps: world.steps,
            answered: world.answered,
            tried_max: world.history.tried_max,
            gave_up: world.history.gave_up,
        }),
        Err(what) => {
            let log: Vec<String> = world.log.iter().cloned().collect();
            Err(failed(what, format!("{:?}\n{}", world.plan, log.join("\n"))))
        }
    }
}
