//! Copies one small file: one request reads it whole, one creates it whole.

use crate::decide::Decision;
use crate::error::Error;
use crate::handle::Whole;
use crate::item::{CopyItem, ItemKind};
use crate::job::CopyJob;
use crate::large;
use crate::limits::CHANGED_TRIES_MAX;
use crate::names::{self, EntryPaths};
use crate::tally::add;
use std::sync::Arc;

/// Copies the file at `at`, which the listing described as `item`.
pub(crate) async fn copy(
    job: &Arc<CopyJob>,
    at: &EntryPaths,
    item: &CopyItem,
    decision: Decision,
) -> Result<(), Error> {
    let (from, to) = (job.source.at(&at.from), job.target.at(&at.to));
    let key = job.key(at);
    let temporary = names::temporary(&to, key);
    let mut size_bytes = item.size_bytes;
    for _ in 0..=CHANGED_TRIES_MAX {
        if size_bytes > job.small_bytes_max {
            return large::copy(job, at, decision).await;
        }
        job.wait_to_read(size_bytes).await;
        let (data, got) = job.source.side.get(&from, size_bytes as u32).await?;
        if got.kind != ItemKind::File {
            return Err(Error::Changed);
        }
        // The file's size has changed since the listing.
        if data.len() as u64 != got.size_bytes {
            size_bytes = got.size_bytes;
            continue;
        }
        let facts = &job.selected_facts(&got.facts);
        let replaces = decision == Decision::Replace;
        let whole = Whole { temporary: &temporary, path: &to, replaces, data: &data, facts };
        job.target.side.put(&whole).await?;
        if job.options.verify {
            let (back, _) = job.target.side.get(&to, size_bytes as u32).await?;
            if back != data {
                job.target.side.remove(&to, ItemKind::File).await?;
                return Err(Error::Differs);
            }
        }
        add(&job.tally.bytes_copied, size_bytes);
        return Ok(());
    }
    Err(Error::Changed)
}
