//! The metadata cache (`vfs-cache`) is never stale: two users by path (like SMB) and by handle
//! (like NFS), and a local process that changes the tree directly.
//!
//! Every operation runs twice, over an in-memory tree with the cache and over one without it
//! ([`side`]), and all results must be equal, attribute by attribute. The tree's clock has ticks,
//! as in file systems, and its change feeds sometimes overflow like queues. So the comparison
//! decides only whether a cached result equals an uncached one.

mod generate;
mod handles;
mod local;
mod paths;
mod side;
mod surroundings;

use crate::random::Random;
use crate::{RunFailure, RunReport};
use generate::Generator;
use side::{FileLayer, LayerReply};
use std::collections::VecDeque;
use surroundings::CacheEnvironment;
use vfs::RelPath;

/// A deliberate fault, which the simulation must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheFault {
    /// The feed omits an added name.
    Added,
    /// The feed omits a change of attributes, owner or permissions.
    Attributes,
    /// The feed omits a removed or renamed name.
    Removed,
    /// The feed omits the change of a listing.
    Listing,
    /// A listing is cached without a watch.
    Unfollowed,
}

/// The actor of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    /// One of two users, by path.
    Paths(usize),
    /// The same users, by handle.
    Handles(usize),
    /// A process on the server's machine.
    Local,
}

/// An operation, in any addressing mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CacheOperation {
    Make {
        at: RelPath,
        is_directory: bool,
    },
    Write {
        at: RelPath,
        byte: u8,
        length: usize,
    },
    Remove {
        at: RelPath,
    },
    Rename {
        at: RelPath,
        to: RelPath,
        replaces: bool,
    },
    Link {
        at: RelPath,
        to: RelPath,
    },
    Symlink {
        at: RelPath,
        target: &'static str,
    },
    Mode {
        at: RelPath,
        mode: u32,
    },
    Dos {
        at: RelPath,
        bits: u32,
    },
    Modified {
        at: RelPath,
        seconds: u32,
    },
    Deny {
        at: RelPath,
        user: usize,
    },
    Stat {
        at: RelPath,
    },
    Read {
        at: RelPath,
    },
    List {
        at: RelPath,
        first: usize,
    },
    /// Opens a file and retains the open in one of few slots, or looks up and retains a handle.
    Hold {
        at: RelPath,
        slot: usize,
        writes: bool,
    },
    StatHeld {
        slot: usize,
    },
    WriteHeld {
        slot: usize,
        byte: u8,
    },
    ReadHeld {
        slot: usize,
    },
    Release {
        slot: usize,
    },
}

/// One step of a run.
#[derive(Clone, Debug)]
pub(crate) enum CacheStep {
    Do(Requester, CacheOperation),
    /// Time passes, in nanoseconds; with a tick of the cache.
    Wait {
        nanos: u64,
        ticks: bool,
    },
    /// Switches the cache on or off.
    Switch(bool),
    Budget(usize),
}

/// Number of steps in the log.
const LOG_STEPS: usize = 60;
/// Queries after each step.
const QUESTIONS: usize = 3;

/// Cache hits by kind.
pub type Hits = Vec<(&'static str, u64)>;

/// Runs one seed. With a fault the run must fail.
///
/// # Errors
/// [`RunFailure`]: a cached result was stale.
pub fn run(seed: u64, fault: Option<CacheFault>) -> Result<(RunReport, Hits), Box<RunFailure>> {
    let mut random = Random::new(seed ^ 0xCAC4E);
    let around = CacheEnvironment::new(random.fork(), fault);
    let plain = FileLayer::plain(around.clone());
    let cached = FileLayer::cached(around.clone(), &mut random);
    let mut run = CacheRun { plain, cached, log: VecDeque::new(), answered: 0 };
    let mut generator = Generator::new(random);
    let steps = generator.steps();
    let mut end = Ok(());
    for _ in 0..steps {
        let step = generator.step();
        let mut request: Vec<CacheStep> = (0..QUESTIONS).map(|_| generator.question()).collect();
        if matches!(step, CacheStep::Do(Requester::Paths(_) | Requester::Handles(_), _)) {
            // The step belongs to the following request: no other step comes between.
            request.insert(0, step);
        } else {
            end = run.step(&step, &around);
        }
        end = end.and_then(|()| run.request(&request, &around));
        if end.is_err() {
            break;
        }
    }
    let all = generator.everything();
    end = end.and_then(|()| run.request(&all, &around));
    let answered = run.answered;
    match end {
        Ok(()) => {
            let report = RunReport { steps, answered, tried_max: 1, gave_up: false };
            Ok((report, run.cached.hits()))
        }
        Err(what) => {
            let log: Vec<String> = run.log.into_iter().collect();
            Err(Box::new(RunFailure { seed, what, log: log.join("\n") }))
        }
    }
}

struct CacheRun {
    plain: FileLayer,
    cached: FileLayer,
    log: VecDeque<String>,
    answered: u64,
}

impl CacheRun {
    /// Runs the steps of one request. They need not observe changes that happened before the
    /// request, as a cache may serve one request from one state.
    fn request(&mut self, steps: &[CacheStep], around: &CacheEnvironment) -> Result<(), String> {
        self.cached.begin_request();
        let result = steps.iter().try_for_each(|step| self.step(step, around));
        self.cached.end_request();
        result
    }

    fn step(&mut self, step: &CacheStep, around: &CacheEnvironment) -> Result<(), String> {
        if self.log.len() == LOG_STEPS {
            self.log.pop_front();
        }
        if let CacheStep::Wait { nanos, .. } = step {
            around.advance(*nanos);
        }
        let expected = self.plain.step(step);
        let cached = self.cached.step(step);
        self.log.push_back(format!("{step:?}: {}", summary(&expected)));
        self.answered += 1;
        if cached == expected {
            return Ok(());
        }
        Err(format!("{step:?}\n is   {expected:?}\n cached {cached:?}"))
    }
}

fn summary(answer: &LayerReply) -> String {
    match answer {
        LayerReply::Refused(error) => format!("{error:?}"),
        LayerReply::Listed(entries) => format!("{} entries", entries.len()),
        _ => String::from("done"),
    }
}
