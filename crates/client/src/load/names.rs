//! Creates, examines, lists and deletes files, continuously or with deletion at the end: the cost
//! of many names with little data.

use super::{LoadOperation, LoadState, LoaderRun, Recorder, Storage, WorkerInputs};
use crate::error::Error;
use std::sync::Arc;

/// Number of files that a worker retains in its folder.
const KEPT: u64 = 32;
/// Number of files per listing of a folder.
const LIST_EVERY: u64 = 16;

/// Creates one folder per worker.
pub(super) async fn prepare<S: Storage>(run: &mut LoaderRun<S>) -> Result<(), Error> {
    for number in 0..run.plan.threads * run.plan.depth {
        run.storage.make_directory(&format!("{}/{number}", run.folder)).await?;
    }
    Ok(())
}

/// One worker: creates a file, gets its attributes, lists at intervals, and deletes the oldest
/// file.
pub(super) async fn work<S: Storage>(
    share: WorkerInputs<S>,
    pace: Arc<LoadState>,
) -> Result<Recorder, Error> {
    let mut recorder = Recorder::default();
    let folder = format!("{}/{}", share.folder, share.number);
    let (storage, name) = (&share.storage, |turn: u64| format!("{folder}/file{turn}"));
    let mut turn = 0;
    while pace.goes_on() {
        let path = name(turn);
        pace.timed(&mut recorder, LoadOperation::Create, 0, storage.touch(&path)).await?;
        pace.timed(&mut recorder, LoadOperation::Stat, 0, storage.stat(&path)).await?;
        if turn % LIST_EVERY == LIST_EVERY - 1 {
            pace.timed(&mut recorder, LoadOperation::List, 0, storage.list(&folder)).await?;
        }
        if turn >= KEPT {
            let oldest = name(turn - KEPT);
            pace.timed(&mut recorder, LoadOperation::Delete, 0, storage.remove(&oldest)).await?;
        }
        turn += 1;
    }
    // Empties the folder for the next measurement.
    for left in turn.saturating_sub(KEPT)..turn {
        storage.remove(&name(left)).await?;
    }
    Ok(recorder)
}

/// One worker: creates a file, gets its attributes, lists at intervals, and continues in a new
/// folder when one is full. Deletes all files after the measurement.
pub(super) async fn unpack<S: Storage>(
    share: WorkerInputs<S>,
    pace: Arc<LoadState>,
) -> Result<Recorder, Error> {
    let mut recorder = Recorder::default();
    let storage = &share.storage;
    let folder = |turn: u64| format!("{}/{}/{}", share.folder, share.number, turn / KEPT);
    let name = |turn: u64| format!("{}/file{turn}", folder(turn));
    let mut turn = 0;
    while pace.goes_on() {
        if turn % KEPT == 0 {
            let folder = folder(turn);
            let made = storage.make_directory(&folder);
            pace.timed(&mut recorder, LoadOperation::Create, 0, made).await?;
        }
        let path = name(turn);
        pace.timed(&mut recorder, LoadOperation::Create, 0, storage.touch(&path)).await?;
        pace.timed(&mut recorder, LoadOperation::Stat, 0, storage.stat(&path)).await?;
        if turn % LIST_EVERY == LIST_EVERY - 1 {
            let folder = folder(turn);
            pace.timed(&mut recorder, LoadOperation::List, 0, storage.list(&folder)).await?;
        }
        turn += 1;
    }
    for made in 0..turn {
        storage.remove(&name(made)).await?;
        if made % KEPT == KEPT - 1 || made + 1 == turn {
            storage.remove(&folder(made)).await?;
        }
    }
    Ok(recorder)
}
