//! One large file: blocks over all connections, under a temporary name, with a
//! journal of what is there.

use crate::error::Error;
use crate::extras;
use crate::item::{Item, Kind};
use crate::journal::{self, Before, Journal, Record, checksum};
use crate::limits::{CHANGED_TRIES_MAX, CHUNK_BYTES, CHUNKS_MAX};
use crate::names;
use crate::ranges::Ranges;
use crate::side::{Finish, Handle, Side};
use crate::tally::add;
use crate::tree::Job;
use bytes::{Bytes, BytesMut};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

/// Copies the file of this path. A source that changes meanwhile is begun again.
pub(crate) async fn copy(job: &Arc<Job>, path: &str) -> Result<(), Error> {
    for _ in 0..=CHANGED_TRIES_MAX {
        let from = job.source.at(path);
        let item = job.source.side.stat(&from).await?.ok_or(Error::Missing)?;
        if item.kind != Kind::File {
            return Err(Error::Changed);
        }
        match attempt(job, path, &item).await {
            Err(Error::Changed) => {
                job.tally.say(format!("{path}: it changed while it was copied; beginning again"));
            }
            other => return other,
        }
    }
    Err(Error::Changed)
}

/// Both ends of a file while it is copied.
#[derive(Debug)]
struct Ends {
    source: Handle,
    target: Handle,
}

/// What is kept of a copy that may be interrupted.
#[derive(Debug)]
struct Kept {
    journal: Journal,
    head: String,
    records: Vec<Record>,
}

async fn attempt(job: &Arc<Job>, path: &str, item: &Item) -> Result<(), Error> {
    let (source, target) = (job.source.name(path), job.target.name(path));
    let key = names::key(&source, &target);
    let temporary = names::temporary(&job.target.at(path), key);
    let mut kept = keep(job, path, item, key, journal::head(&source, &target, item))?;
    let side = &job.target.side;
    let found = match &kept {
        Some(kept) if !kept.records.is_empty() => side.stat(&temporary).await?,
        _ => None,
    };
    let goes_on = found.is_some_and(|found| found.size_bytes == item.size_bytes);
    if let Some(kept) = kept.as_mut().filter(|kept| !goes_on && !kept.records.is_empty()) {
        kept.records.clear();
        kept.journal.begin_again(&kept.head)?;
        job.tally.say(format!("{path}: what was copied before is gone; beginning again"));
    }
    let done = fill(job, path, item, &temporary, kept.as_mut()).await;
    match &done {
        Ok(()) => {
            if let Some(kept) = kept {
                kept.journal.remove();
            }
        }
        // Nothing of it will be used.
        Err(Error::Changed | Error::Differs) => {
            let _ = side.remove(&temporary, Kind::File).await;
            if let Some(kept) = kept {
                kept.journal.remove();
            }
        }
        Err(_) if kept.is_none() => drop(side.remove(&temporary, Kind::File).await),
        Err(_) => {}
    }
    done
}

/// Opens the journal, and says so if what it has cannot be used.
fn keep(job: &Job, path: &str, item: &Item, key: u64, head: String) -> Result<Option<Kept>, Error> {
    let Some(folder) = &job.options.state else { return Ok(None) };
    match Journal::open(folder, key, &head) {
        Ok((journal, before, records)) => {
            if before == Before::Changed {
                job.tally.say(format!(
                    "{path}: the source has changed since the copy that was interrupted; \
                     beginning again"
                ));
            }
            let within = |record: &Record| record.range.end <= item.size_bytes;
            let records = records.into_iter().filter(within).collect();
            Ok(Some(Kept { journal, head, records }))
        }
        Err(Error::Busy) => Err(Error::Busy),
        Err(error) => {
            let folder = folder.display();
            job.tally.say(format!("{path}: cannot be resumed, no state in {folder}: {error}"));
            Ok(None)
        }
    }
}

/// Makes or completes the file under its temporary name, and renames it.
async fn fill(
    job: &Arc<Job>,
    path: &str,
    item: &Item,
    temporary: &str,
    kept: Option<&mut Kept>,
) -> Result<(), Error> {
    let from = job.source.at(path);
    let (source, target) = (&job.source.side, &job.target.side);
    let fresh = kept.as_ref().is_none_or(|kept| kept.records.is_empty());
    let ends = Ends {
        source: source.open_source(&from).await?,
        target: target.open_target(temporary, fresh).await?,
    };
    let ends = Arc::new(ends);
    let filled = fill_open(job, path, item, &ends, fresh, kept).await;
    let Some(ends) = Arc::into_inner(ends) else {
        return Err(Error::Refused("a block is still under way".into()));
    };
    let closed = source.close(ends.source).await;
    let set = match filled {
        Ok(()) => extras::copy(job, &from, temporary, &ends.target).await,
        Err(error) => Err(error),
    };
    if let Err(error) = set.and(closed) {
        let _ = target.close(ends.target).await;
        return Err(error);
    }
    let facts = job.kept(&item.facts);
    let finish = Finish {
        facts: &facts,
        from: temporary,
        to: &job.target.at(path),
        syncs: job.options.sync,
    };
    target.finish(ends.target, &finish).await
}

async fn fill_open(
    job: &Arc<Job>,
    path: &str,
    item: &Item,
    ends: &Arc<Ends>,
    fresh: bool,
    kept: Option<&mut Kept>,
) -> Result<(), Error> {
    let (source, target) = (&job.source.side, &job.target.side);
    let size = item.size_bytes;
    if fresh {
        target.set_size(&ends.target, size, item.is_sparse).await?;
    }
    let data = match item.is_sparse {
        true => source.data_ranges(&ends.source, size).await.unwrap_or_else(|| Ranges::all(size)),
        false => Ranges::all(size),
    };
    add(&job.tally.bytes_holes, size - data.bytes());
    let (mut records, journal) = match kept {
        Some(kept) => (std::mem::take(&mut kept.records), Some(&kept.journal)),
        None => (Vec::new(), None),
    };
    records = still_there(job, ends, records).await?;
    let before = Ranges::of(records.iter().map(|record| record.range.clone()).collect());
    let left = data.without(&before);
    add(&job.tally.bytes_resumed, data.bytes() - left.bytes());
    if before.bytes() == 0 && offload(job, ends, &data).await? {
        records = Vec::new();
    } else {
        records.extend(blocks(job, ends, &left, journal).await?);
    }
    let after = source.stat(&job.source.at(path)).await?;
    if !after.is_some_and(|after| after.is_unchanged(item)) {
        return Err(Error::Changed);
    }
    if job.options.verify {
        verify(job, ends, &data, records).await?;
    }
    Ok(())
}

/// Runs `work` for every piece, as many at once as the window lets.
async fn each<P, T, F>(
    job: &Arc<Job>,
    pieces: impl Iterator<Item = P>,
    work: impl Fn(P, OwnedSemaphorePermit) -> F,
    mut take: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut done = Ok(());
    let mut settle = |ended: Result<Result<T, Error>, tokio::task::JoinError>| {
        ended.unwrap_or_else(|_| Err(Error::Refused("a task ended".into()))).and_then(&mut take)
    };
    for piece in pieces {
        let Ok(permit) = job.window.clone().acquire_owned().await else { break };
        while let Some(ended) = tasks.try_join_next() {
            done = done.and(settle(ended));
        }
        if done.is_err() || job.tally.fatal().is_some() {
            break;
        }
        tasks.spawn(work(piece, permit));
    }
    // All are waited for: the file is closed next.
    while let Some(ended) = tasks.join_next().await {
        done = done.and(settle(ended));
    }
    match job.tally.fatal() {
        Some(fatal) => done.and(Err(fatal)),
        None => done,
    }
}

/// Reads all of a range; a file that ends before has changed.
async fn read(side: &Side, file: &Handle, range: &Range<u64>) -> Result<Bytes, Error> {
    let length = (range.end - range.start) as usize;
    let mut data = side.read(file, range.start, length as u32).await?;
    if data.len() == length {
        return Ok(data);
    }
    let mut whole = BytesMut::with_capacity(length);
    loop {
        if data.is_empty() {
            return Err(Error::Changed);
        }
        whole.extend_from_slice(&data);
        if whole.len() >= length {
            return Ok(whole.freeze());
        }
        let at = range.start + whole.len() as u64;
        data = side.read(file, at, (length - whole.len()) as u32).await?;
    }
}

/// The records of blocks that are in the target as they were written. A block's record is
/// no proof: the server may have lost power since.
async fn still_there(
    job: &Arc<Job>,
    ends: &Arc<Ends>,
    records: Vec<Record>,
) -> Result<Vec<Record>, Error> {
    let mut there = Vec::new();
    let work = |record: Record, permit| {
        let (side, ends) = (job.target.side.clone(), ends.clone());
        async move {
            let read = read(&side, &ends.target, &record.range).await;
            drop(permit);
            match read {
                Ok(data) => Ok((checksum(&data) == record.checksum).then_some(record)),
                Err(error) if error.is_fatal() => Err(error),
                Err(_) => Ok(None),
            }
        }
    };
    each(job, records.into_iter(), work, |found| {
        there.extend(found);
        Ok(())
    })
    .await?;
    Ok(there)
}

/// Copies these ranges, and notes each block once it is acknowledged.
async fn blocks(
    job: &Arc<Job>,
    ends: &Arc<Ends>,
    left: &Ranges,
    journal: Option<&Journal>,
) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    let summed = journal.is_some() || job.options.verify;
    let work = |range: Range<u64>, permit| {
        let (job, ends) = (job.clone(), ends.clone());
        async move {
            let data = read(&job.source.side, &ends.source, &range).await?;
            let checksum = if summed { checksum(&data) } else { 0 };
            job.target.side.write(&ends.target, range.start, &data).await?;
            add(&job.tally.bytes_copied, data.len() as u64);
            drop(permit);
            Ok(Record { range, checksum })
        }
    };
    each(job, left.blocks(job.block_bytes), work, |record: Record| {
        if let Some(journal) = journal {
            // A block that could not be noted is copied once more by the next run, no worse.
            let _ = journal.note(&record);
        }
        if job.options.verify {
            records.push(record);
        }
        Ok(())
    })
    .await?;
    Ok(records)
}

/// Reads everything back, and compares it with the checksums of what was written.
async fn verify(
    job: &Arc<Job>,
    ends: &Arc<Ends>,
    data: &Ranges,
    records: Vec<Record>,
) -> Result<(), Error> {
    let known = Ranges::of(records.iter().map(|record| record.range.clone()).collect());
    // What the server copied has not been seen here.
    let rest = data.without(&known);
    let unseen: Vec<Range<u64>> = rest.blocks(job.block_bytes).collect();
    let unseen = unseen.into_iter().map(|range| (range, None));
    let pieces = records.into_iter().map(|record| (record.range, Some(record.checksum)));
    let work = |(range, sum): (Range<u64>, Option<u64>), permit| {
        let (job, ends) = (job.clone(), ends.clone());
        async move {
            let sum = match sum {
                Some(sum) => sum,
                None => checksum(&read(&job.source.side, &ends.source, &range).await?),
            };
            let back = read(&job.target.side, &ends.target, &range).await?;
            drop(permit);
            if checksum(&back) == sum { Ok(()) } else { Err(Error::Differs) }
        }
    };
    each(job, pieces.chain(unseen), work, Ok).await
}

/// Lets the server copy, if both ends are in one session. Gives whether it did.
async fn offload(job: &Arc<Job>, ends: &Arc<Ends>, data: &Ranges) -> Result<bool, Error> {
    if !job.offloads {
        return Ok(false);
    }
    let side = &job.target.side;
    let Some(how) = side.offload(&ends.source).await else { return Ok(false) };
    let mut pieces = data.blocks((CHUNKS_MAX * CHUNK_BYTES) as u32);
    let Some(first) = pieces.next() else { return Ok(true) };
    // Whether it can is known from the first one.
    if let Err(error) = side.copy_range(&how, &ends.source, &ends.target, &first).await {
        let matters = error.is_fatal() || error == Error::Changed;
        return if matters { Err(error) } else { Ok(false) };
    }
    add(&job.tally.bytes_copied, first.end - first.start);
    let work = |range: Range<u64>, permit| {
        let (job, ends) = (job.clone(), ends.clone());
        async move {
            job.target.side.copy_range(&how, &ends.source, &ends.target, &range).await?;
            add(&job.tally.bytes_copied, range.end - range.start);
            drop(permit);
            Ok(())
        }
    };
    each(job, pieces, work, Ok).await?;
    Ok(true)
}
