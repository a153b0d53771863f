//! Deterministic simulation: the real `smb` and `files` crates over an in-memory backend. One seed
//! determines clients, network, workers, time, failures and crashes.
//!
//! One thread runs at a time, and the seed draws every choice: the next actor, the suspended
//! backend calls, the failures and the lost connections. A model without knowledge of the server
//! ([`model`]) judges the replies: each must be one that some order of the operations in flight
//! allows ([`history`]). The seed repeats a failing run.
//!
//! Further worlds have other clients: SMB clients with many channels ([`channels`]), NFS clients
//! with several connections ([`sessions`]), and clients of both protocols on the same files
//! ([`both`]). There a referee records what each client certainly knows, and detects
//! contradictions.
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
use world::FileWorld;

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// Number of steps.
    pub steps: u64,
    /// Number of correct replies received.
    pub answered: u64,
    /// Maximum number of states tried for one reply.
    pub tried_max: usize,
    /// The judgement stopped early, because too many states were possible.
    pub gave_up: bool,
}

/// A failed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFailure {
    /// Seed that repeats the run.
    pub seed: u64,
    /// Description of the failure.
    pub what: String,
    /// The plan of the run and its last events.
    pub log: String,
}

impl std::fmt::Display for RunFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\nseed {}: {}", self.log, self.seed, self.what)
    }
}

/// Runs one seed.
///
/// # Errors
/// [`RunFailure`]: the clients observed a contradiction.
pub fn run(seed: u64) -> Result<RunReport, Box<RunFailure>> {
    // Only differences to this instant matter.
    let base = Instant::now();
    let failed = |what, log| Box::new(RunFailure { seed, what, log });
    let mut world = FileWorld::new(seed, base).map_err(|what| failed(what, String::new()))?;
    match world.run() {
        Ok(()) => Ok(RunReport {
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
