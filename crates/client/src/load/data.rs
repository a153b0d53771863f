//! Block reads and writes.

use super::{LoadOperation, LoadState, LoaderRun, Recorder, Storage, WorkerInputs};
use crate::error::Error;
use bytes::Bytes;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Length of one write during the preparation, and the number in flight.
const FILL_BYTES: u64 = 1024 * 1024;
const FILL_DEPTH: usize = 8;

/// The eight bytes at position `index * 8` of a file. The seed determines all contents, so that
/// readers can verify them.
fn word(seed: u64, file: u64, index: u64) -> u64 {
    let tag = seed ^ file.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (index.wrapping_add(tag)).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ tag
}

/// The contents at `offset`, a multiple of eight.
pub(super) fn contents(seed: u64, file: u64, offset: u64, length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length.next_multiple_of(8));
    for index in 0..length.div_ceil(8) as u64 {
        out.extend_from_slice(&word(seed, file, offset / 8 + index).to_le_bytes());
    }
    out.truncate(length);
    out
}

fn is_right(seed: u64, file: u64, offset: u64, data: &[u8]) -> bool {
    data.chunks(8)
        .zip(offset / 8..)
        .all(|(chunk, index)| word(seed, file, index).to_le_bytes()[..chunk.len()] == *chunk)
}

/// Creates the files, and fills those that the load reads.
pub(super) async fn prepare<S: Storage>(run: &mut LoaderRun<S>) -> Result<(), Error> {
    for number in 0..run.plan.files {
        let path = format!("{}/file{number}", run.folder);
        let file = Arc::new(run.storage.open(&path).await?);
        run.files.push(file.clone());
        if run.plan.read_percent > 0 {
            fill(run, &file, number as u64).await?;
        } else {
            run.storage.set_size(&file, run.plan.file_bytes).await?;
        }
    }
    Ok(())
}

async fn fill<S: Storage>(
    run: &LoaderRun<S>,
    file: &Arc<S::File>,
    number: u64,
) -> Result<(), Error> {
    let step = FILL_BYTES.min(u64::from(run.storage.block_bytes_max())) / 8 * 8;
    let (total, seed) = (run.plan.file_bytes, run.plan.seed);
    let mut writes: JoinSet<Result<(), Error>> = JoinSet::new();
    let mut offset = 0;
    while offset < total {
        let length = step.min(total - offset) as usize;
        let (storage, file, at) = (run.storage.clone(), file.clone(), offset);
        if writes.len() >= FILL_DEPTH {
            joined(writes.join_next().await)?;
        }
        writes.spawn(async move {
            storage.write(&file, at, &Bytes::from(contents(seed, number, at, length))).await
        });
        offset += length as u64;
    }
    while !writes.is_empty() {
        joined(writes.join_next().await)?;
    }
    Ok(())
}

fn joined(result: Option<Result<Result<(), Error>, tokio::task::JoinError>>) -> Result<(), Error> {
    match result {
        Some(Ok(result)) => result,
        Some(Err(_)) => Err(Error::Misuse("a writer of the loader failed")),
        None => Ok(()),
    }
}

/// One worker: one request after the other.
pub(super) async fn work<S: Storage>(
    mut share: WorkerInputs<S>,
    pace: Arc<LoadState>,
) -> Result<Recorder, Error> {
    let mut recorder = Recorder::default();
    let (plan, seed) = (share.plan.clone(), share.plan.seed);
    let block = u64::from(plan.block_bytes);
    let blocks = plan.file_bytes / block;
    // Verified data is generated for each write; other data is constant.
    let same = Bytes::from(contents(seed, share.number as u64, 0, plan.block_bytes as usize));
    let (mut cursor, step) = (start_of(&share, blocks), workers_of(&share));
    while pace.goes_on() {
        let number = share.random.below(share.files.len() as u64);
        let number = if plan.random { number } else { share.number as u64 % plan.files as u64 };
        let (storage, file) = (&share.storage, &share.files[number as usize]);
        let index = if plan.random {
            share.random.below(blocks)
        } else {
            cursor += step;
            (cursor - step) % blocks
        };
        let offset = index * block;
        if share.random.below(100) < u64::from(plan.read_percent) {
            let read = storage.read(file, offset, plan.block_bytes);
            let data = pace.timed(&mut recorder, LoadOperation::Read, block, read).await?;
            if data.len() != plan.block_bytes as usize {
                return Err(Error::Hostile("a read came back short"));
            }
            if plan.verify && !is_right(seed, number, offset, &data) {
                return Err(Error::Hostile("the data read differs from the written data"));
            }
        } else {
            let data = if plan.verify {
                contents(seed, number, offset, plan.block_bytes as usize).into()
            } else {
                same.clone()
            };
            let write = storage.write(file, offset, &data);
            pace.timed(&mut recorder, LoadOperation::Write, block, write).await?;
        }
    }
    Ok(recorder)
}

/// Number of workers on this worker's file, which together cover it once.
fn workers_of<S: Storage>(share: &WorkerInputs<S>) -> u64 {
    let (workers, files) = (share.plan.threads * share.plan.depth, share.plan.files);
    let own = share.number % files;
    (workers / files + usize::from(own < workers % files)).max(1) as u64
}

fn start_of<S: Storage>(share: &WorkerInputs<S>, blocks: u64) -> u64 {
    (share.number / share.plan.files) as u64 % blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_position_dependent_and_verifiable() {
        let whole = contents(7, 1, 0, 4096);
        assert_eq!(contents(7, 1, 1024, 1003), whole[1024..2027]);
        assert!(is_right(7, 1, 1024, &whole[1024..2027]));
        assert!(!is_right(7, 1, 1032, &whole[1024..2027]), "another place");
        assert!(!is_right(7, 2, 1024, &whole[1024..2027]), "another file");
        let mut changed = whole.clone();
        changed[2026] ^= 1;
        assert!(!is_right(7, 1, 1024, &changed[1024..2027]));
    }
}
