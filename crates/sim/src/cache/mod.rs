//! The cache of metadata (`vfs-cache`), never stale: two users by paths as SMB has them and
//! by handles as NFS has them, and a local writer who asks nobody.
//!
//! Everything is done twice, over a tree in memory with the cache and over one without it
//! ([`side`]): every answer must be the same, attribute by attribute. The tree tells time in
//! steps, as file systems do, and its feeds lose everything now and then, as queues
//! do that overflow. So all that is judged is whether what is told from memory
//! is what would have been found.

mod generate;
mod handles;
mod local;
mod paths;
mod side;
mod surroundings;

use crate::random::Random;
use crate::{Failure, Report};
use generate::Generator;
use side::{Answer, Side};
use std::collections::VecDeque;
use surroundings::Around;
use vfs::RelPath;

/// Something that the simulation does wrong on purpose, to show that it would be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A name that came is not heard.
    Added,
    /// Changed attributes, owners and permissions are not heard.
    Attributes,
    /// A name that went, or was renamed, is not heard.
    Removed,
    /// The change of a listing is not heard.
    Listing,
    /// A listing is kept without being followed.
    Unfollowed,
}

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// One of two users, by paths.
    Paths(usize),
    /// The same, by handles.
    Handles(usize),
    /// A process on the server's machine.
    Local,
}

/// What can be asked for, in whatever way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
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
    /// Opens and keeps the open in one of few places, or finds and keeps a handle.
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
pub(crate) enum Step {
    Do(Who, Op),
    /// Time passes, in nanoseconds; with a tick of the cache.
    Wait {
        nanos: u64,
        ticks: bool,
    },
    /// The cache is switched off or on.
    Switch(bool),
    Budget(usize),
}

/// Steps that are remembered for a log.
const LOG_STEPS: usize = 60;
/// Questions after each step.
const QUESTIONS: usize = 3;

/// What a cache was good for: answers from what was kept, by kind of that.
pub type Hits = Vec<(&'static str, u64)>;

/// Runs one seed; with a fault it must fail.
///
/// # Errors
/// [`Failure`]: what was told is not so.
pub fn run(seed: u64, fault: Option<Fault>) -> Result<(Report, Hits), Box<Failure>> {
    let mut random = Random::new(seed ^ 0xCAC4E);
    let around = Around::new(random.fork(), fault);
    let plain = Side::plain(around.clone());
    let cached = Side::cached(around.clone(), &mut random);
    let mut run = Run { plain, cached, log: VecDeque::new(), answered: 0 };
    let mut generator = Generator::new(random);
    let steps = generator.steps();
    let mut end = Ok(());
    for _ in 0..steps {
        let step = generator.step();
        let mut request: Vec<Step> = (0..QUESTIONS).map(|_| generator.question()).collect();
        if matches!(step, Step::Do(Who::Paths(_) | Who::Handles(_), _)) {
            // Asked for together with what follows: nothing else is done in between.
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
            let report = Report { steps, answered, tried_max: 1, gave_up: false };
            Ok((report, run.cached.hits()))
        }
        Err(what) => {
            let log: Vec<String> = run.log.into_iter().collect();
            Err(Box::new(Failure { seed, what, log: log.join("\n") }))
        }
    }
}

struct Run {
    plain: Side,
    cached: Side,
    log: VecDeque<String>,
    answered: u64,
}

impl Run {
    /// Steps of one request, which need not be told anew of what was done before it came.
    fn request(&mut self, steps: &[Step], around: &Around) -> Result<(), String> {
        self.cached.begin_request();
        let result = steps.iter().try_for_each(|step| self.step(step, around));
        self.cached.end_request();
        result
    }

    fn step(&mut self, step: &Step, around: &Around) -> Result<(), String> {
        if self.log.len() == LOG_STEPS {
            self.log.pop_front();
        }
        if let Step::Wait { nanos, .. } = step {
            around.advance(*nanos);
        }
        let expected = self.plain.step(step);
        let told = self.cached.step(step);
        self.log.push_back(format!("{step:?}: {}", summary(&expected)));
        self.answered += 1;
        if told == expected {
            return Ok(());
        }
        Err(format!("{step:?}\n is   {expected:?}\n told {told:?}"))
    }
}

fn summary(answer: &Answer) -> String {
    match answer {
        Answer::Refused(error) => format!("{error:?}"),
        Answer::Listed(entries) => format!("{} entries", entries.len()),
        _ => String::from("done"),
    }
}
