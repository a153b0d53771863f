//! SMB clients with several channels: caches, lost connections, retransmissions, and opens that
//! survive their connection and the server.
//!
//! Unlike [`crate::model`], which tracks every possible state of the files, a [`referee`] compares
//! what clients know for certain. From time to time the run quiesces, and the server's state is
//! compared with the clients' knowledge.

mod failures;
mod journal;
pub(crate) mod link;
pub(crate) mod machine;
mod quiescence;
pub(crate) mod referee;
pub(crate) mod replies;
mod requests;
mod world;

use crate::random::Random;
use crate::{RunFailure, RunReport};
use std::time::Instant;

pub(crate) use journal::MemoryJournal;
pub(crate) use link::{ChannelLink, LinkEvent, LinkRole, MessagePurpose};
pub use world::ChannelCounts;

/// A deliberate fault, which the simulation must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelFault {
    /// A client acknowledges a break, but continues to use its cache.
    Acknowledge,
    /// Clients ignore break notifications.
    Notice,
    /// Opens have a wider share mode than the referee records.
    Share,
    /// Locks are taken at other offsets.
    Lock,
    /// Data is written at other offsets.
    Write,
    /// All users have the same identity.
    User,
    /// The journal discards all records.
    Journal,
    /// A retransmitted CREATE has a new CreateGuid.
    Replay,
    /// A refused binding costs the session a channel.
    Bind,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct ChannelPlan {
    /// Number of client machines.
    pub machines: usize,
    /// Number of steps.
    pub steps: u64,
    /// Number of files, without the directory.
    pub files: u8,
    /// Probability that a backend call is suspended, in percent.
    pub park: u32,
    /// Probability that cached data is reported as absent, in percent.
    pub would_block: u32,
    /// A worker performs creations, as on a disk: with odd seeds.
    pub creates_wait: bool,
    /// Probability that a client does not answer a break, in percent.
    pub silent: u32,
    /// Probability per step that a channel is cut or given up, in 1/10,000.
    pub cuts: u32,
    /// Probability per step that a machine loses all channels, in 1/10,000.
    pub losses: u32,
    /// Probability per step that the server dies, in 1/10,000.
    pub deaths: u32,
    /// Probability of quiescence per step, in 1/10,000.
    pub rests: u32,
    /// The run only covers channels: binding, loss, logoff and re-authentication.
    pub is_about_channels: bool,
    /// See [`ChannelFault`].
    pub fault: Option<ChannelFault>,
}

impl ChannelPlan {
    fn of(
        seed: u64,
        is_about_channels: bool,
        fault: Option<ChannelFault>,
        random: &mut Random,
    ) -> Self {
        let rest = random.pick(&[30, 60, 100]);
        let mut plan = Self {
            machines: 2 + random.below(3),
            steps: 500 + random.next() % 900,
            files: 1 + random.small(3),
            park: random.pick(&[0, 0, 5, 20]),
            would_block: random.pick(&[0, 10, 50]),
            creates_wait: !seed.is_multiple_of(2),
            silent: random.pick(&[0, 10, 40]),
            cuts: random.pick(&[0, 30, 100]),
            losses: random.pick(&[0, 20, 60]),
            deaths: random.pick(&[0, 0, 15, 40]),
            rests: rest,
            is_about_channels,
            fault,
        };
        if is_about_channels {
            (plan.cuts, plan.losses, plan.silent) = (150, 20, 0);
        }
        plan
    }
}

/// Runs one seed.
///
/// # Errors
/// [`RunFailure`]: the clients observed a contradiction.
pub fn run(
    seed: u64,
    is_about_channels: bool,
    fault: Option<ChannelFault>,
) -> Result<(RunReport, ChannelCounts), Box<RunFailure>> {
    let mut random = Random::new(seed);
    let plan = ChannelPlan::of(seed, is_about_channels, fault, &mut random);
    let failed = |what, log| Box::new(RunFailure { seed, what, log });
    let world = world::ChannelWorld::new(plan, random, Instant::now());
    let mut world = world.map_err(|what| failed(what, String::new()))?;
    match world.run() {
        Ok(()) => {
            let counts = world.counts;
            let report = RunReport {
                steps: world.steps,
                answered: counts.answered,
                tried_max: 0,
                gave_up: false,
            };
            Ok((report, counts))
        }
        Err(what) => {
            let log: Vec<String> = world.log.iter().cloned().collect();
            Err(failed(what, format!("{plan:?}\n{}", log.join("\n"))))
        }
    }
}
