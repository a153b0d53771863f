//! Hostile users and one victim: a state machine of logons, renewals, bindings and opens.
//!
//! Two hostile users, guests and anonymous clients do what they can on many connections;
//! they know every number that the victim has, and none of its keys. Whatever they do, the
//! victim's bytes, modes, owners, opens, locks and session stay as they are.
//!
//! A run is a row of episodes, each with a server of its own; an episode is a row of moves, each
//! one number. Where one fails, moves are left out as long as it still fails.

mod link;
mod logon;
mod moves;
mod nfs_link;
mod nfs_moves;
mod nfs_requests;
mod nfs_victim;
mod requests;
mod surroundings;
mod victim;

use crate::mutate::Rng;
use moves::World;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Arc;
use surroundings::Journal;

/// Moves of one episode.
const EPISODE_MOVES: usize = 1200;
/// The invariants are checked after so many moves, and at the end.
const CHECK_EVERY: usize = 32;
/// Episodes that are run again to find a shorter one that fails.
const SHRINK_RUNS_MAX: usize = 600;

/// Lines of a failing episode that are shown.
const JOURNAL_LINES: usize = 100;

/// Events of a run, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    fn add(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }

    fn add_all(&mut self, other: &Self) {
        for (kind, count) in &other.0 {
            *self.0.entry(kind).or_default() += count;
        }
    }

    /// How often something of a kind has happened.
    #[must_use]
    pub fn of(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(kind, count)| writeln!(f, "{count:>8} {kind}"))
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Messages that servers were handed.
    pub messages: u64,
    /// The events that they led to.
    pub counts: Counts,
}

/// Episodes from a seed on, until servers have had so many messages.
///
/// # Errors
/// The first episode that fails: its seed, and the fewest moves found that still fail.
pub fn run(seed: u64, messages_min: u64) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut episode = seed;
    while outcome.messages < messages_min {
        let moves = moves_of(episode);
        match play(episode, &moves, Arc::default()) {
            Ok(played) => {
                outcome.messages += played.messages;
                outcome.counts.add_all(&played.counts);
            }
            Err(why) => {
                let report = report(episode, moves, &why);
                return Err(format!("after {} messages: {report}", outcome.messages));
            }
        }
        episode = episode.wrapping_add(1);
    }
    Ok(outcome)
}

/// The moves of an episode, each by its number.
fn moves_of(episode: u64) -> Vec<u64> {
    let mut rng = Rng::new(!episode);
    (0..EPISODE_MOVES).map(|_| rng.number()).collect()
}

/// Makes moves in a world that an episode's seed has made.
///
/// # Errors
/// The invariant that does not hold.
fn play(episode: u64, moves: &[u64], journal: Arc<Journal>) -> Result<Outcome, String> {
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(episode, journal);
        for (at, number) in moves.iter().enumerate() {
            world.make_move(*number);
            if at % CHECK_EVERY == CHECK_EVERY - 1 {
                world.check();
            }
        }
        world.end();
        Outcome { messages: world.messages(), counts: world.counts }
    }));
    played.map_err(|panic| text_of(&*panic))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

/// Leaves out parts of the moves, half of them to begin with, as long as it still fails.
fn shrink(episode: u64, mut moves: Vec<u64>, why: &mut String) -> Vec<u64> {
    let mut runs = 0;
    let mut length = moves.len().div_ceil(2);
    while length > 0 {
        let mut at = 0;
        while at < moves.len() && runs < SHRINK_RUNS_MAX {
            let mut fewer = moves.clone();
            fewer.drain(at..(at + length).min(moves.len()));
            runs += 1;
            match play(episode, &fewer, Arc::default()) {
                Ok(_) => at += length,
                Err(still) => (moves, *why) = (fewer, still),
            }
        }
        length /= 2;
    }
    moves
}

fn report(episode: u64, moves: Vec<u64>, why: &str) -> String {
    let mut why = why.to_owned();
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let moves = shrink(episode, moves, &mut why);
    let journal = Arc::new(Journal::recording());
    // As before: it fails.
    let _ = play(episode, &moves, journal.clone());
    set_hook(hook);
    let mut report = format!("episode {episode} fails after {} moves: {why}\nmoves:", moves.len());
    for number in moves {
        // Writing to a string does not fail.
        let _ = write!(report, " {number:#x}");
    }
    let _ = write!(report, "\n{}", journal.text(JOURNAL_LINES));
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An episode is found again by its number.
    #[test]
    fn episode_repeats_by_its_seed() {
        let moves = &moves_of(7)[..300];
        let played = || play(7, moves, Arc::default());
        assert_eq!(played(), played());
    }
}
