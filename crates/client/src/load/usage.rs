//! Typical mixes of operations on many small files, directories and handles. Each worker has a
//! folder of its own, like a user's home or a build tree.

use super::small::{get, put};
use super::{LoadOperation, LoadState, LoaderRun, Plan, Recorder, Storage, WorkerInputs, data};
use crate::error::Error;
use bytes::Bytes;
use serde::Serialize;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Number of created files that a worker retains, in addition to the initial ones.
const MADE_MAX: u64 = 16;

/// Kind of application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Usage {
    /// Web services: check files for changes, and read them.
    Web,
    /// Builds and checkouts: examine, create and delete many files.
    DevOps,
    /// Indexing and batches: list folders and read their files.
    Indexing,
    /// Virtual desktops with home directories: read, change and browse files.
    Desktops,
}

/// One step of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsageStep {
    /// Gets a file's attributes.
    Look,
    /// Opens, reads and closes a file.
    Read,
    /// Opens, writes and closes a file.
    Change,
    /// Creates and writes a file, and deletes the oldest created one.
    Make,
    /// Lists the folder.
    List,
}

impl Usage {
    /// Percentages of the steps.
    const fn mix(self) -> [(UsageStep, u64); 5] {
        let [look, read, change, make, list] = match self {
            Self::Web => [30, 65, 1, 2, 2],
            Self::DevOps => [45, 15, 5, 30, 5],
            Self::Indexing => [35, 50, 0, 5, 10],
            Self::Desktops => [25, 35, 25, 5, 10],
        };
        [
            (UsageStep::Look, look),
            (UsageStep::Read, read),
            (UsageStep::Change, change),
            (UsageStep::Make, make),
            (UsageStep::List, list),
        ]
    }

    /// The step for a random number below 100.
    fn step(self, drawn: u64) -> UsageStep {
        let mut left = drawn;
        for (step, weight) in self.mix() {
            if left < weight {
                return step;
            }
            left -= weight;
        }
        UsageStep::Look
    }

    /// Describes the mix.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Web => "65 % reads, 30 % stats, few others",
            Self::DevOps => {
                "45 % stats, 30 % creates and removes, 15 % reads, some writes and listings"
            }
            Self::Indexing => "50 % reads, 35 % stats, 10 % listings, some creates",
            Self::Desktops => "35 % reads, 25 % writes, 25 % stats, 10 % listings, some creates",
        }
    }
}

/// Number of initial files per worker.
fn found_by_each(plan: &Plan) -> u64 {
    (plan.files / (plan.threads * plan.depth)).max(1) as u64
}

/// Creates one folder per worker, with its files.
pub(super) async fn prepare<S: Storage>(run: &LoaderRun<S>) -> Result<(), Error> {
    let mut folders = JoinSet::new();
    for number in 0..run.plan.threads * run.plan.depth {
        folders.spawn(fill(run.share(number)));
    }
    while let Some(filled) = folders.join_next().await {
        filled.map_err(|_| Error::Misuse("a worker of the loader failed"))??;
    }
    Ok(())
}

async fn fill<S: Storage>(share: WorkerInputs<S>) -> Result<(), Error> {
    let folder = format!("{}/{}", share.folder, share.number);
    share.storage.make_directory(&folder).await?;
    for file in 0..found_by_each(&share.plan) {
        let path = format!("{folder}/file{file}");
        put(&share.storage, path, contents(&share.plan, file)).await?;
    }
    Ok(())
}

fn contents(plan: &Plan, file: u64) -> Bytes {
    data::contents(plan.seed, file, 0, plan.file_bytes as usize).into()
}

/// One worker: performs random steps.
pub(super) async fn work<S: Storage>(
    mut share: WorkerInputs<S>,
    usage: Usage,
    pace: Arc<LoadState>,
) -> Result<Recorder, Error> {
    let mut recorder = Recorder::default();
    let folder = format!("{}/{}", share.folder, share.number);
    let found = found_by_each(&share.plan);
    let mut made = 0;
    while pace.goes_on() {
        let step = usage.step(share.random.below(100));
        let path = format!("{folder}/file{}", share.random.below(found));
        let (plan, storage) = (&share.plan, &share.storage);
        let length = plan.file_bytes as usize;
        match step {
            UsageStep::Look => {
                pace.timed(&mut recorder, LoadOperation::Stat, 0, storage.stat(&path)).await?
            }
            UsageStep::Read => {
                let get = get(storage, path, plan.block_bytes, length);
                pace.timed(&mut recorder, LoadOperation::Read, plan.file_bytes, get).await?;
            }
            UsageStep::Change => {
                let put = put(storage, path, contents(plan, made));
                pace.timed(&mut recorder, LoadOperation::Write, plan.file_bytes, put).await?;
            }
            UsageStep::Make => {
                let name = |number: u64| format!("{folder}/made{number}");
                let put = put(storage, name(made), contents(plan, made));
                pace.timed(&mut recorder, LoadOperation::Create, plan.file_bytes, put).await?;
                if made >= MADE_MAX {
                    let oldest = name(made - MADE_MAX);
                    pace.timed(&mut recorder, LoadOperation::Delete, 0, storage.remove(&oldest))
                        .await?;
                }
                made += 1;
            }
            UsageStep::List => {
                pace.timed(&mut recorder, LoadOperation::List, 0, storage.list(&folder)).await?;
            }
        }
    }
    // The next measurement starts with the same initial files.
    for left in made.saturating_sub(MADE_MAX)..made {
        share.storage.remove(&format!("{folder}/made{left}")).await?;
    }
    Ok(recorder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_mix_sums_to_100_and_is_drawn_accordingly() {
        for usage in [Usage::Web, Usage::DevOps, Usage::Indexing, Usage::Desktops] {
            assert_eq!(usage.mix().iter().map(|(_, weight)| weight).sum::<u64>(), 100, "{usage:?}");
            for (step, weight) in usage.mix() {
                let drawn = (0..100).filter(|number| usage.step(*number) == step).count();
                assert_eq!(drawn as u64, weight, "{usage:?} {step:?}");
            }
        }
    }
}
