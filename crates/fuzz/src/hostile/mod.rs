//! Hostile users and one victim: a state machine of logons, re-authentications, bindings and opens.
//!
//! Two hostile users, guests and anonymous clients act on many connections. They know every id of
//! the victim, and none of its keys. None of their requests may change the victim's bytes,
//! modes, owners, opens, locks or session.
//!
//! A run is a sequence of episodes, each with its own server. An episode is a sequence of moves,
//! each encoded as one number. A failing episode is shrunk by omitting moves while it still fails.

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
use moves::Episode;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Arc;
use surroundings::EpisodeLog;

/// Moves of one episode.
const EPISODE_MOVES: usize = 1200;
/// Moves between two checks of the invariants; they are also checked at the end.
const CHECK_EVERY: usize = 32;
/// Most runs to shrink a failing episode.
const SHRINK_RUNS_MAX: usize = 600;

/// Journal lines shown for a failing episode.
const JOURNAL_LINES: usize = 100;

/// Events of a run, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCounts(BTreeMap<&'static str, u64>);

impl EventCounts {
    fn add(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }

    fn add_all(&mut self, other: &Self) {
        for (kind, count) in &other.0 {
            *self.0.entry(kind).or_default() += count;
        }
    }

    /// Number of events of a kind.
    #[must_use]
    pub fn of(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }
}

impl std::fmt::Display for EventCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(kind, count)| writeln!(f, "{count:>8} {kind}"))
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpisodesOutcome {
    /// Messages that the servers received.
    pub messages: u64,
    /// Events by kind.
    pub counts: EventCounts,
}

/// Runs episodes from a seed on, until the servers have received so many messages.
///
/// # Errors
/// The first failing episode: its seed, and the fewest moves that still fail.
pub fn run(seed: u64, messages_min: u64) -> Result<EpisodesOutcome, String> {
    let mut outcome = EpisodesOutcome::default();
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

/// The moves of an episode, each encoded as a number.
fn moves_of(episode: u64) -> Vec<u64> {
    let mut rng = Rng::new(!episode);
    (0..EPISODE_MOVES).map(|_| rng.number()).collect()
}

/// Plays moves in the world of an episode's seed.
///
/// # Errors
/// The violated invariant.
fn play(episode: u64, moves: &[u64], journal: Arc<EpisodeLog>) -> Result<EpisodesOutcome, String> {
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut world = Episode::new(episode, journal);
        for (at, number) in moves.iter().enumerate() {
            world.make_move(*number);
            if at % CHECK_EVERY == CHECK_EVERY - 1 {
                world.check();
            }
        }
        world.end();
        EpisodesOutcome { messages: world.messages(), counts: world.counts }
    }));
    played.map_err(|panic| text_of(&*panic))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

/// Omits parts of the moves, half of them first, while the episode still fails.
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
    let journal = Arc::new(EpisodeLog::recording());
    // The episode fails as before; only its journal matters.
    let _ = play(episode, &moves, journal.clone());
    set_hook(hook);
    let mut report = format!("episode {episode} fails after {} moves: {why}\nmoves:", moves.len());
    for number in moves {
        // Writing to a string cannot fail.
        let _ = write!(report, " {number:#x}");
    }
    let _ = write!(report, "\n{}", journal.text(JOURNAL_LINES));
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An episode repeats with its number.
    #[test]
    fn episode_repeats_by_its_seed() {
        let moves = &moves_of(7)[..300];
        let played = || play(7, moves, Arc::default());
        assert_eq!(played(), played());
    }
}
