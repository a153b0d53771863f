//! Copies one large file: blocks over all connections, under a temporary name, with a journal of
//! the acknowledged blocks.

use crate::decide::Decision;
use crate::error::Error;
use crate::extras;
use crate::handle::{CopyHandle, Finish};
use crate::item::{CopyItem, ItemKind};
use crate::job::CopyJob;
use crate::journal::{self, BlockRecord, CopyJournal, JournalContent, checksum};
use crate::limits::{CHANGED_TRIES_MAX, CHUNK_BYTES, CHUNKS_MAX};
use crate::names::{self, EntryPaths};
use crate::ranges::Ranges;
use crate::side::Side;
use crate::tally::add;
use bytes::{Bytes, BytesMut};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

/// Copies the file at `at`. If the source changes meanwhile, the copy starts over.
pub(crate) async fn copy(
    job: &Arc<CopyJob>,
    at: &EntryPaths,
    decision: Decision,
) -> Result<(), Error> {
    for _ in 0..=CHANGED_TRIES_MAX {
        let from = job.source.at(&at.from);
        let item = job.source.side.stat(&from).await?.ok_or(Error::Missing)?;
        if item.kind != ItemKind::File {
            return Err(Error::Changed);
        }
        let file = CopiedFile { at, item: &item, replaces: decision == Decision::Replace };
        match attempt(job, &file).await {
            Err(Error::Changed) => {
                let path = &at.shown;
                job.tally.say(format!("{path}: it changed during the copy; restarting"));
            }
            other => return other,
        }
    }
    Err(Error::Changed)
}

/// The file that is copied.
#[derive(Clone, Copy, Debug)]
struct CopiedFile<'a> {
    at: &'a EntryPaths,
    item: &'a CopyItem,
    /// Whether the target has a file of this name.
    replaces: bool,
}

/// Both ends of a file while it is copied.
#[derive(Debug)]
struct CopyEnds {
    source: CopyHandle,
    target: CopyHandle,
}

/// Journal and records from which an interrupted copy resumes.
#[derive(Debug)]
struct ResumeState {
    journal: CopyJournal,
    head: String,
    records: Vec<BlockRecord>,
}

async fn attempt(job: &Arc<CopyJob>, file: &CopiedFile<'_>) -> Result<(), Error> {
    let CopiedFile { at, item, .. } = *file;
    let (source, target) = (job.source.name(&at.from), job.target.name(&at.to));
    let key = names::key(&source, &target);
    let temporary = names::temporary(&job.target.at(&at.to), key);
    let path = &at.shown;
    let mut resume = open_journal(job, path, item, key, journal::head(&source, &target, item))?;
    let side = &job.target.side;
    let found = match &resume {
        Some(resume) if !resume.records.is_empty() => side.stat(&temporary).await?,
        _ => None,
    };
    let resumes = found.is_some_and(|found| found.size_bytes == item.size_bytes);
    if let Some(resume) = resume.as_mut().filter(|resume| !resumes && !resume.records.is_empty()) {
        resume.records.clear();
        resume.journal.reset(&resume.head)?;
        job.tally.say(format!("{path}: the partial copy is missing; restarting"));
    }
    let done = fill(job, file, &temporary, resume.as_mut()).await;
    match &done {
        Ok(()) => {
            if let Some(resume) = resume {
                resume.journal.remove();
            }
        }
        // The partial copy is unusable.
        Err(Error::Changed | Error::Differs) => {
            let _ = side.remove(&temporary, ItemKind::File).await;
            if let Some(resume) = resume {
                resume.journal.remove();
            }
        }
        Err(_) if resume.is_none() => drop(side.remove(&temporary, ItemKind::File).await),
        Err(_) => {}
    }
    done
}

/// Opens the journal, and reports when its records cannot be used.
fn open_journal(
    job: &CopyJob,
    path: &str,
    item: &CopyItem,
    key: u64,
    head: String,
) -> Result<Option<ResumeState>, Error> {
    let Some(folder) = &job.options.state else { return Ok(None) };
    match CopyJournal::open(folder, key, &head) {
        Ok((journal, before, records)) => {
            if before == JournalContent::Changed {
                job.tally.say(format!(
                    "{path}: the source has changed since the interrupted copy; restarting"
                ));
            }
            let within = |record: &BlockRecord| record.range.end <= item.size_bytes;
            let records = records.into_iter().filter(within).collect();
            Ok(Some(ResumeState { journal, head, records }))
        }
        Err(Error::Busy) => Err(Error::Busy),
        Err(error) => {
            let folder = folder.display();
            job.tally.say(format!("{path}: cannot be resumed, no state in {folder}: {error}"));
            Ok(None)
        }
    }
}

/// Creates or completes the file under its temporary name, then renames it.
async fn fill(
    job: &Arc<CopyJob>,
    file: &CopiedFile<'_>,
    temporary: &str,
    resume: Option<&mut ResumeState>,
) -> Result<(), Error> {
    let CopiedFile { at, item, replaces } = *file;
    let from = job.source.at(&at.from);
    let (source, target) = (&job.source.side, &job.target.side);
    let fresh = resume.as_ref().is_none_or(|resume| resume.records.is_empty());
    let ends = CopyEnds {
        source: source.open_source(&from).await?,
        target: target.open_target(temporary, fresh).await?,
    };
    let ends = Arc::new(ends);
    let filled = fill_open(job, &from, item, &ends, fresh, resume).await;
    let Some(ends) = Arc::into_inner(ends) else {
        return Err(Error::Refused("a block is still in flight".into()));
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
    let facts = job.selected_facts(&item.facts);
    let finish = Finish {
        facts: &facts,
        from: temporary,
        to: &job.target.at(&at.to),
        replaces,
        syncs: job.options.sync,
    };
    target.finish(ends.target, &finish).await
}

async fn fill_open(
    job: &Arc<CopyJob>,
    from: &str,
    item: &CopyItem,
    ends: &Arc<CopyEnds>,
    fresh: bool,
    resume: Option<&mut ResumeState>,
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
    add(&job.tally.bytes_sparse, size - data.bytes());
    let (mut records, journal) = match resume {
        Some(resume) => (std::mem::take(&mut resume.records), Some(&resume.journal)),
        None => (Vec::new(), None),
    };
    records = verified_records(job, ends, records).await?;
    let before = Ranges::of(records.iter().map(|record| record.range.clone()).collect());
    let left = data.without(&before);
    add(&job.tally.bytes_resumed, data.bytes() - left.bytes());
    if before.bytes() == 0 && offload(job, ends, &data).await? {
        records = Vec::new();
    } else {
        records.extend(blocks(job, ends, &left, journal).await?);
    }
    let after = source.stat(from).await?;
    if !after.is_some_and(|after| after.is_unchanged(item)) {
        return Err(Error::Changed);
    }
    if job.options.verify {
        verify(job, ends, &data, records).await?;
    }
    Ok(())
}

/// Runs `work` for every piece; the job's window limits the pieces in flight.
async fn each<P, T, F>(
    job: &Arc<CopyJob>,
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
    // All tasks must end before the caller closes the file.
    while let Some(ended) = tasks.join_next().await {
        done = done.and(settle(ended));
    }
    match job.tally.fatal() {
        Some(fatal) => done.and(Err(fatal)),
        None => done,
    }
}

/// Reads a whole range. A file that ends within it has changed: [`Error::Changed`].
async fn read(side: &Side, file: &CopyHandle, range: &Range<u64>) -> Result<Bytes, Error> {
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

/// The records whose blocks read back from the target with their checksum. A record alone is no
/// proof: the server may have lost power since.
async fn verified_records(
    job: &Arc<CopyJob>,
    ends: &Arc<CopyEnds>,
    records: Vec<BlockRecord>,
) -> Result<Vec<BlockRecord>, Error> {
    let mut there = Vec::new();
    let work = |record: BlockRecord, permit| {
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

/// Copies these ranges, and journals each block once it is acknowledged.
async fn blocks(
    job: &Arc<CopyJob>,
    ends: &Arc<CopyEnds>,
    left: &Ranges,
    journal: Option<&CopyJournal>,
) -> Result<Vec<BlockRecord>, Error> {
    let mut records = Vec::new();
    let summed = journal.is_some() || job.options.verify;
    let work = |range: Range<u64>, permit| {
        let (job, ends) = (job.clone(), ends.clone());
        async move {
            job.wait_to_read(range.end - range.start).await;
            let data = read(&job.source.side, &ends.source, &range).await?;
            let checksum = if summed { checksum(&data) } else { 0 };
            job.target.side.write(&ends.target, range.start, &data).await?;
            add(&job.tally.bytes_copied, data.len() as u64);
            drop(permit);
            Ok(BlockRecord { range, checksum })
        }
    };
    each(job, left.blocks(job.block_bytes), work, |record: BlockRecord| {
        if let Some(journal) = journal {
            // The next run copies a block without a record once more, which is harmless.
            let _ = journal.append(&record);
        }
        if job.options.verify {
            records.push(record);
        }
        Ok(())
    })
    .await?;
    Ok(records)
}

/// Reads the target back and compares it with the checksums of the written data.
async fn verify(
    job: &Arc<CopyJob>,
    ends: &Arc<CopyEnds>,
    data: &Ranges,
    records: Vec<BlockRecord>,
) -> Result<(), Error> {
    let known = Ranges::of(records.iter().map(|record| record.range.clone()).collect());
    // Ranges that the server copied have no checksum yet: their source is read, too.
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

/// Tries a server-side copy, if both ends are in one session. Returns whether the server did it.
async fn offload(job: &Arc<CopyJob>, ends: &Arc<CopyEnds>, data: &Ranges) -> Result<bool, Error> {
    if !job.offloads {
        return Ok(false);
    }
    let side = &job.target.side;
    let Some(how) = side.offload(&ends.source).await else { return Ok(false) };
    let mut pieces = data.blocks((CHUNKS_MAX * CHUNK_BYTES) as u32);
    let Some(first) = pieces.next() else { return Ok(true) };
    // The first request shows whether the server supports it.
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
