//! An existing folder with files `file0`, `file1` and so on: the cost of its size, and of listing
//! it.

use super::{LoadOperation, LoadState, Recorder, Storage, WorkerInputs};
use crate::error::Error;
use std::sync::Arc;

/// One worker: creates and closes a file, opens and closes an existing one, and deletes its own.
pub(super) async fn work<S: Storage>(
    mut share: WorkerInputs<S>,
    pace: Arc<LoadState>,
) -> Result<Recorder, Error> {
    let mut recorder = Recorder::default();
    let (storage, folder) = (share.storage.clone(), share.folder.clone());
    // The seed distinguishes the files of concurrent runs.
    let run = share.plan.seed;
    let mut turn = 0;
    while pace.goes_on() {
        let own = format!("{folder}/bench-{run:x}-{}-{turn}", share.number);
        let made = pace.timed(&mut recorder, LoadOperation::Create, 0, storage.open(&own)).await?;
        pace.timed(&mut recorder, LoadOperation::Close, 0, storage.close(made)).await?;
        let other = share.random.below(share.plan.files as u64);
        let other = format!("{folder}/file{other}");
        let open = storage.open(&other);
        let opened = pace.timed(&mut recorder, LoadOperation::Open, 0, open).await;
        let closed = match opened {
            Ok(opened) => {
                pace.timed(&mut recorder, LoadOperation::Close, 0, storage.close(opened)).await
            }
            Err(error) => Err(error),
        };
        // Deletes the file even after a failure, so that nothing is left behind.
        let removed =
            pace.timed(&mut recorder, LoadOperation::Delete, 0, storage.remove(&own)).await;
        closed.and(removed)?;
        turn += 1;
    }
    Ok(recorder)
}

/// One worker: lists the folder repeatedly.
pub(super) async fn list<S: Storage>(
    share: WorkerInputs<S>,
    pace: Arc<LoadState>,
) -> Result<Recorder, Error> {
    let mut recorder = Recorder::default();
    while pace.goes_on() {
        let listed = share.storage.list(&share.folder);
        let entries = pace.timed(&mut recorder, LoadOperation::List, 0, listed).await?;
        if entries.len() < share.plan.files {
            return Err(Error::Misuse("the folder has fewer files than --files"));
        }
    }
    Ok(recorder)
}
