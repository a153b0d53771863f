//! Clients of several channels: caches, lost connections, requests sent again,
//! opens that outlive their connection and the server.
//!
//! Where [`crate::model`] knows every state that files can be in, here is much
//! more under way, and a [`referee`] holds what clients know for certain against
//! each other. From time to time all comes to rest, and what the server has is
//! held against what its clients have.

mod asks;
mod journal;
pub(crate) mod link;
pub(crate) mod machine;
pub(crate) mod referee;
pub(crate) mod replies;
mod rest;
mod troubles;
mod world;

use crate::random::Random;
use crate::{Failure, Report};
use std::time::Instant;

pub(crate) use journal::Journal;
pub(crate) use link::{Event, Link, Purpose, Role};
pub use world::Counts;

/// Something that the simulation does wrong on purpose, to show that it would
/// be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server is told that something was given back which a client still uses.
    Acknowledge,
    /// Clients are told of changes in vain.
    Notice,
    /// Opens share more than their programs believe.
    Share,
    /// Ranges are locked elsewhere.
    Lock,
    /// Data is written elsewhere.
    Write,
    /// All users are one.
    User,
    /// The journal forgets.
    Journal,
    /// A CREATE that is sent again is another one.
    Replay,
    /// A refused binding costs the session a channel.
    Bind,
}

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Client machines.
    pub machines: usize,
    /// Steps.
    pub steps: u64,
    /// Files, beside the directory.
    pub files: u8,
    /// How often a backend call is held up in the middle, in percent.
    pub park: u32,
    /// How often what should be in memory is not, in percent.
    pub would_block: u32,
    /// What is made is made by a worker, as on a disk: with odd seeds.
    pub creates_wait: bool,
    /// How often who is asked to give something back is silent, in percent.
    pub silent: u32,
    /// How often a channel is cut or given up, in ten thousand steps.
    pub cuts: u32,
    /// How often all of a machine's are.
    pub losses: u32,
    /// How often the server dies.
    pub deaths: u32,
    /// How often all comes to rest, and time passes.
    pub rests: u32,
    /// Only channels matter: binding, cutting, logging off, authenticating anew.
    pub is_about_channels: bool,
    /// See [`Fault`].
    pub fault: Option<Fault>,
}

impl Plan {
    fn of(seed: u64, is_about_channels: bool, fault: Option<Fault>, random: &mut Random) -> Self {
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
/// [`Failure`]: what cannot be, has been.
pub fn run(
    seed: u64,
    is_about_channels: bool,
    fault: Option<Fault>,
) -> Result<(Report, Counts), Box<Failure>> {
    let mut random = Random::new(seed);
    let plan = Plan::of(seed, is_about_channels, fault, &mut random);
    let failed = |what, log| Box::new(Failure { seed, what, log });
    let world = world::World::new(plan, random, Instant::now());
    let mut world = world.map_err(|what| failed(what, String::new()))?;
    match world.run() {
        Ok(()) => {
            let counts = world.counts;
            let report = Report {
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
