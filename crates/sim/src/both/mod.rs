//! Clients of SMB and of NFS on the same files, over their wire messages: leases and delegations,
//! share modes and what opens deny, locked ranges, data, names.
//!
//! The referee knows nothing of the server. It is told what clients of either protocol were
//! certainly told, and finds what cannot be together. From time to time all comes to rest: then
//! both protocols list the same, everything was answered, and whoever had to hear of something has.

mod names;
mod posix;
mod posix_asks;
mod posix_replies;
mod rest;
mod setup;
mod windows;
mod windows_asks;
mod windows_replies;
mod world;

use crate::random::Random;
use crate::{Failure, Report};
use std::time::Instant;

/// Something that the simulation does wrong on purpose, to show that it would be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What an open over SMB denies to others is not what was sent.
    Share,
    /// Leases are acknowledged and used all the same.
    Acknowledge,
    /// Delegations are given back and used all the same.
    GiveBack,
    /// Ranges are unlocked over NFS and relied on all the same.
    Unlock,
    /// Other values are written over NFS than are noted.
    Write,
    /// Names that are removed over NFS are taken to be there still.
    Remove,
    /// Watchers do not hear of what they watch.
    Watch,
    /// One open of NFS stays in the end.
    Close,
    /// The two protocols do not know of each other: each has a file layer of its own.
    Apart,
}

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Clients of SMB.
    pub windows: usize,
    /// Clients of NFS.
    pub posix: usize,
    /// Steps.
    pub steps: u64,
    /// Names of files, in one directory.
    pub names: u8,
    /// How often a backend call is held up in the middle, in percent.
    pub park: u32,
    /// How often what should be in memory is not, in percent.
    pub would_block: u32,
    /// What is made is made by a worker, as on a disk.
    pub creates_wait: bool,
    /// How often all comes to rest, in ten thousand steps.
    pub rests: u32,
    /// How likely who was asked to give something back is to do it next.
    pub haste: u32,
    /// See [`Fault`].
    pub fault: Option<Fault>,
}

impl Plan {
    fn of(fault: Option<Fault>, random: &mut Random) -> Self {
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
        /// What has happened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$meta])* pub $field: u64,)*
        }

        impl Counts {
            /// All of them, with their names.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field),)*]
            }

            /// The sum with another run's.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counts! {
    /// Answers.
    answered: "answered";
    /// Opens over SMB.
    windows_opened: "opened by SMB";
    /// Opens over NFS.
    posix_opened: "opened by NFS";
    /// Leases over SMB.
    leased: "leases";
    /// Delegations over NFS.
    delegated: "delegations";
    /// Delegations that were asked back while an open of SMB waited.
    recalled: "recalled for SMB";
    /// Leases that were broken while an open of NFS waited.
    broken: "broken for NFS";
    /// Opens of SMB that were refused with an open of NFS in the way.
    windows_refused: "opens refused for NFS";
    /// Opens of NFS that were refused with an open of SMB in the way.
    posix_refused: "opens refused for SMB";
    /// Locks of SMB that were refused with a lock of NFS in the way, or the reverse.
    lock_refused: "locks refused for the other";
    /// Reads and writes that were refused for a lock of the other protocol.
    data_refused: "data refused for the other";
    /// Reads of what the other protocol has written.
    exchanged: "read from the other";
    /// Names that were changed.
    renamed: "names changed";
    /// Answers that a name is not there.
    missed: "names missed";
    /// Files that went when who had them open closed them.
    doomed: "deleted on close";
    /// What watchers were told.
    notified: "notified";
    /// Watchers that were told since an NFS client had changed a name.
    notified_of_nfs: "notified of NFS";
    /// All came to rest.
    rested: "rested";
}

/// Runs one seed.
///
/// # Errors
/// [`Failure`]: what cannot be, has been.
pub fn run(seed: u64, fault: Option<Fault>) -> Result<(Report, Counts), Box<Failure>> {
    let mut random = Random::new(seed);
    let plan = Plan::of(fault, &mut random);
    let failed = |what, log| Box::new(Failure { seed, what, log });
    let world = world::World::new(plan, random, Instant::now());
    let mut world = world.map_err(|what| failed(what, String::new()))?;
    match world.run() {
        Ok(()) => {
            let (counts, steps) = (world.counts, world.steps);
            let answered = counts.answered;
            Ok((Report { steps, answered, tried_max: 0, gave_up: false }, counts))
        }
        Err(what) => {
            let log: Vec<String> = world.log.iter().cloned().collect();
            Err(failed(what, format!("{plan:?}\n{}", log.join("\n"))))
        }
    }
}
