//! Many small files, written and read back once: open, write or read, close.

use super::{LoadOperation, LoadState, LoaderRun, Recorder, Storage, WorkerInputs, data};
use crate::error::Error;
use bytes::Bytes;
use std::sync::Arc;

/// Files per folder.
const FOLDER_FILES: usize = 1000;

/// Creates the folders.
pub(super) async fn prepare<S: Storage>(run: &LoaderRun<S>) -> Result<(), Error> {
    for number in 0..run.plan.files.div_ceil(FOLDER_FILES) {
        run.storage.make_directory(&format!("{}/{number}", run.folder)).await?;
    }
    Ok(())
}

/// One worker: writes its share of the files, then reads them.
pub(super) async fn work<S: Storage>(
    share: WorkerInputs<S>,
    pace: Arc<LoadState>,
) -> Result<Recorder, Error> {
    let mut recorder = Recorder::default();
    let (plan, storage) = (&share.plan, &share.storage);
    pace.begun().await;
    let own = || (share.number..plan.files).step_by(plan.threads * plan.depth);
    let path = |number| format!("{}/{}/file{number}", share.folder, number / FOLDER_FILES);
    let length = plan.file_bytes as usize;
    let contents = |number| data::contents(plan.seed, number as u64, 0, length);
    for number in own().take_while(|_| pace.goes_on()) {
        let put = put(storage, path(number), contents(number).into());
        pace.timed(&mut recorder, LoadOperation::Write, plan.file_bytes, put).await?;
    }
    for number in own().take_while(|_| pace.goes_on()) {
        let get = get(storage, path(number), plan.block_bytes, length);
        let found = pace.timed(&mut recorder, LoadOperation::Read, plan.file_bytes, get).await?;
        if found != contents(number) {
            return Err(Error::Hostile("the data read differs from the written data"));
        }
    }
    Ok(recorder)
}

pub(super) async fn put<S: Storage>(
    storage: &S,
    path: String,
    contents: Bytes,
) -> Result<(), Error> {
    let file = storage.open(&path).await?;
    let most = storage.block_bytes_max() as usize;
    let mut result = Ok(());
    for at in (0..contents.len()).step_by(most.max(1)) {
        let part = contents.slice(at..(at + most).min(contents.len()));
        result = storage.write(&file, at as u64, &part).await;
        if result.is_err() {
            break;
        }
    }
    let closed = storage.close(file).await;
    result.and(closed)
}

pub(super) async fn get<S: Storage>(
    storage: &S,
    path: String,
    block_bytes: u32,
    length: usize,
) -> Result<Vec<u8>, Error> {
    let file = storage.open(&path).await?;
    let mut found = Vec::with_capacity(length);
    let mut result = Ok(());
    while found.len() < length {
        match storage.read(&file, found.len() as u64, block_bytes).await {
            Ok(data) if data.is_empty() => break,
            Ok(data) => found.extend_from_slice(&data),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    let closed = storage.close(file).await;
    result.and(closed)?;
    Ok(found)
}
