//! SMB and NFS clients on the same files, by wire messages: leases and delegations, share modes and
//! denials, byte-range locks, data and names.
//!
//! The referee knows nothing of the server. It records what clients of either protocol know for
//! certain, and detects contradictions. From time to time the run quiesces. Then both protocols
//! must list the same files, every request must be answered, and every due notification must have
//! arrived.

mod names;
mod posix;
mod posix_replies;
mod posix_requests;
mod quiescence;
mod setup;
mod windows;
mod windows_replies;
mod windows_requests;
mod world;

use crate::random::Random;
use crate::{RunFailure, RunReport};
use std::time::Instant;

/// A deliberate fault, which the simulation must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixedFault {
    /// The referee's record of an SMB open's share mode differs from the message.
    Share,
    /// An SMB client acknowledges a lease break, but continues to use its cache.
    Acknowledge,
    /// An NFS client returns a delegation, but continues to use it.
    UseReturnedDelegation,
    /// An NFS client unlocks a range, but continues to rely on the lock.
    Unlock,
    /// An NFS client writes a value other than the recorded one.
    Write,
    /// The names' record retains a name that an NFS client removed.
    Remove,
    /// SMB clients ignore CHANGE_NOTIFY responses.
    Watch,
    /// One NFS open stays open at the end.
    Close,
    /// Each protocol has a file layer of its own, so that they do not see each other's state.
    Apart,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct MixedPlan {
    /// Number of SMB clients.
    pub windows: usize,
    /// Number of NFS clients.
    pub posix: usize,
    /// Number of steps.
    pub steps: u64,
    /// Number of file names, in one directory.
    pub names: u8,
    /// Probability that a backend call is suspended, in percent.
    pub park: u32,
    /// Probability that cached data is reported as absent, in percent.
    pub would_block: u32,
    /// A worker performs creations, as on a disk.
    pub creates_wait: bool,
    /// Probability of quiescence per step, in 1/10,000.
    pub rests: u32,
    /// Weight of the client's answer to a break or recall as the next action.
    pub haste: u32,
    /// See [`MixedFault`].
    pub fault: Option<MixedFault>,
}

impl MixedPlan {
    fn of(fault: Option<MixedFault>, random: &mut Random) -> Self {
        Self {
            windows: 1 + random.below(2),
            posix: 1 + random.below(2),
            steps: 800 + random.next() % 1200,
            names: 2 + random.small(3),
            park: random.pick(&[0, 0, 5, 20]),
            would_block: random.pick(&[0, 10, 50]),
            creates_wait: random.percent(50),
            rests: random.pick(&[30, 60, 120]),
            haste: random.pick(&[1, 3, 10]),
            fault,
        }
    }
}

macro_rules! counts {
    ($($(#[$meta:meta])* $field:ident: $name:literal;)*) => {
        /// Event counters.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct MixedCounts {
            $($(#[$meta])* pub $field: u64,)*
        }

        impl MixedCounts {
            /// All counters with their names.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field),)*]
            }

            /// Adds another run's counters.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counts! {
    /// Replies.
    answered: "answered";
    /// Opens over SMB.
    windows_opened: "opened by SMB";
    /// Opens over NFS.
    posix_opened: "opened by NFS";
    /// Leases over SMB.
    leased: "leases";
    /// Delegations over NFS.
    delegated: "delegations";
    /// Delegations recalled while an SMB open waited.
    recalled: "recalled for SMB";
    /// Leases broken while an NFS open waited.
    broken: "broken for NFS";
    /// SMB opens refused because of an NFS open.
    windows_refused: "opens refused for NFS";
    /// NFS opens refused because of an SMB open.
    posix_refused: "opens refused for SMB";
    /// Locks refused because of the other protocol's lock.
    lock_refused: "locks refused for the other";
    /// Reads and writes refused because of the other protocol's lock.
    data_refused: "data refused for the other";
    /// Reads of data that the other protocol wrote.
    exchanged: "read from the other";
    /// Renames.
    renamed: "names changed";
    /// Replies that a name does not exist.
    missed: "names missed";
    /// Files deleted on close.
    deleted_on_close: "deleted on close";
    /// Change notifications.
    notified: "notified";
    /// Change notifications after a change by an NFS client.
    notified_of_nfs: "notified of NFS";
    /// Quiescent states.
    rested: "rested";
}

/// Runs one seed.
///
/// # Errors
/// [`RunFailure`]: the clients observed a contradiction.
pub fn run(
    seed: u64,
    fault: Option<MixedFault>,
) -> Result<(RunReport, MixedCounts), Box<RunFailure>> {
    let mut random = Random::new(seed);
    let plan = MixedPlan::of(fault, &mut random);
    let failed = |what, log| Box::new(RunFailure { seed, what, log });
    let world = world::MixedWorld::new(plan, random, Instant::now());
    let mut world = world.map_err(|what| failed(what, String::new()))?;
    match world.run() {
        Ok(()) => {
            let (counts, steps) = (world.counts, world.steps);
            let answered = counts.answered;
            Ok((RunReport { steps, answered, tried_max: 0, gave_up: false }, counts))
        }
        Err(what) => {
            let log: Vec<String> = world.log.iter().cloned().collect();
            Err(failed(what, format!("{plan:?}\n{}", log.join("\n"))))
        }
    }
}
