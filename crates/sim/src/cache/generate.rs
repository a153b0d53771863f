//! Draws the operations from the seed.

use super::{CacheOperation, CacheStep, Requester};
use crate::random::Random;
use vfs::{Name, RelPath};

/// Few names in different cases, so that operations collide.
const NAMES: [&str; 6] = ["a", "A", "b", "B", "c\u{e4}", "C\u{c4}"];
const DEPTH_MAX: usize = 3;
const TARGETS: [&str; 4] = ["a", "b/a", "../A", "none"];
const MODES: [u32; 5] = [0o777, 0o755, 0o700, 0o711, 0o644];
/// Retained objects: opens of users by path, and handles of users by handle.
pub const SLOTS: usize = 4;
const STEPS_MIN: usize = 30;
const STEPS_MORE: usize = 120;
const BUDGETS: [usize; 4] = [600, 6_000, 30_000, 1 << 20];

/// Draws steps.
pub struct Generator {
    random: Random,
    /// Recently used paths, which are used again: data requested once is not cached.
    recent: Vec<RelPath>,
    /// Percentage of steps by a local process.
    local_percent: u32,
    /// Percentage of steps in which time passes.
    wait_percent: usize,
}

impl Generator {
    pub fn new(mut random: Random) -> Self {
        let local_percent = random.pick(&[0, 20, 40, 70]);
        let wait_percent = random.pick(&[3, 10, 25]);
        Self { random, recent: Vec::new(), local_percent, wait_percent }
    }

    /// Number of steps of the run.
    pub fn steps(&mut self) -> u64 {
        (STEPS_MIN + self.random.below(STEPS_MORE)) as u64
    }

    fn path(&mut self) -> RelPath {
        if !self.recent.is_empty() && self.random.percent(60) {
            let at = self.random.below(self.recent.len());
            return self.recent[at].clone();
        }
        let depth = 1 + self.random.below(DEPTH_MAX);
        let path: RelPath = (0..depth).map(|_| name(self.random.below(NAMES.len()))).collect();
        if self.recent.len() == 4 {
            self.recent.remove(0);
        }
        self.recent.push(path.clone());
        path
    }

    /// A directory that may exist; often the root.
    fn directory(&mut self) -> RelPath {
        match self.path().split() {
            Some((parent, _)) if self.random.percent(80) => parent,
            _ => self.path(),
        }
    }

    fn user(&mut self) -> Requester {
        let user = self.random.below(2);
        if self.random.percent(50) { Requester::Paths(user) } else { Requester::Handles(user) }
    }

    /// Draws the next step.
    pub fn step(&mut self) -> CacheStep {
        match self.random.below(100) {
            chance if chance < self.wait_percent => {
                let nanos = self.random.pick(&[1_000_000, 10_000_000, 70_000_000, 1_000_000_000]);
                CacheStep::Wait { nanos, ticks: nanos >= 1_000_000_000 }
            }
            97 => CacheStep::Switch(self.random.percent(80)),
            98 => CacheStep::Budget(self.random.pick(&BUDGETS)),
            _ if self.random.percent(self.local_percent) => {
                CacheStep::Do(Requester::Local, self.change())
            }
            _ => {
                let op = if self.random.percent(70) { self.change() } else { self.held() };
                CacheStep::Do(self.user(), op)
            }
        }
    }

    fn change(&mut self) -> CacheOperation {
        let at = self.path();
        match self.random.below(20) {
            0..5 => CacheOperation::Make { at, is_directory: self.random.percent(60) },
            5..8 => {
                let (byte, length) = (self.random.small(250), 1 + self.random.below(9));
                CacheOperation::Write { at, byte, length }
            }
            8 | 9 => CacheOperation::Remove { at },
            10..13 => {
                CacheOperation::Rename { at, to: self.path(), replaces: self.random.percent(50) }
            }
            13 => CacheOperation::Link { at, to: self.path() },
            14 => CacheOperation::Symlink { at, target: self.random.pick(&TARGETS) },
            15 | 16 => CacheOperation::Mode { at, mode: self.random.pick(&MODES) },
            17 => CacheOperation::Dos { at, bits: self.random.pick(&[2, 4, 6, 0x20]) },
            18 => CacheOperation::Modified { at, seconds: 1 + u32::from(self.random.small(9)) },
            _ => CacheOperation::Deny { at, user: self.random.below(2) },
        }
    }

    fn held(&mut self) -> CacheOperation {
        let (at, slot) = (self.path(), self.random.below(SLOTS));
        match self.random.below(8) {
            0..3 => CacheOperation::Hold { at, slot, writes: self.random.percent(50) },
            3 => CacheOperation::StatHeld { slot },
            4 | 5 => CacheOperation::WriteHeld { slot, byte: self.random.small(250) },
            6 => CacheOperation::ReadHeld { slot },
            _ => CacheOperation::Release { slot },
        }
    }

    /// Draws a query after a step.
    pub fn question(&mut self) -> CacheStep {
        let op = match self.random.below(10) {
            0..5 => CacheOperation::Stat { at: self.path() },
            5 => CacheOperation::Read { at: self.path() },
            6 => CacheOperation::StatHeld { slot: self.random.below(SLOTS) },
            _ => CacheOperation::List {
                at: self.directory(),
                first: self.random.pick(&[1, 2, 1000]),
            },
        };
        CacheStep::Do(self.user(), op)
    }

    /// All queries, each twice: the first fills the cache, and the second uses it.
    pub fn everything(&mut self) -> Vec<CacheStep> {
        let names: Vec<RelPath> = (0..NAMES.len()).map(|n| RelPath::from_iter([name(n)])).collect();
        let below = |at: &RelPath| (0..NAMES.len()).map(|n| at.join(&name(n))).collect::<Vec<_>>();
        let mut all = names.clone();
        all.extend(names.iter().flat_map(below));
        let mut steps = Vec::new();
        for at in all {
            let who = self.user();
            let list = CacheOperation::List { at: at.clone(), first: 1000 };
            steps.extend([CacheOperation::Stat { at }, list].map(|op| CacheStep::Do(who, op)));
        }
        let list = CacheOperation::List { at: RelPath::root(), first: 1000 };
        steps.extend(
            [Requester::Paths(0), Requester::Handles(1)]
                .map(|who| CacheStep::Do(who, list.clone())),
        );
        steps.extend(steps.clone());
        steps
    }
}

fn name(number: usize) -> Name {
    Name::new(NAMES[number].as_bytes()).expect("they are names")
}
