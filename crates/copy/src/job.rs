//! State that all tasks of a copy share.

use crate::item::{Facts, Item};
use crate::journal;
use crate::limits::{BLOCKS_EACH_THREAD, BLOCKS_NEAR, THREADS_MAX};
use crate::names;
use crate::options::Options;
use crate::side::{Place, Side};
use crate::tally::{Tally, add};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// See the module.
#[derive(Debug)]
pub(crate) struct Job {
    pub source: Place,
    pub target: Place,
    pub options: Options,
    pub tally: Arc<Tally>,
    /// Permits for blocks in flight.
    pub window: Arc<Semaphore>,
    pub block_bytes: u32,
    pub small_bytes_max: u64,
    /// Whether server-side copy is enabled and both ends are in one session.
    pub offloads: bool,
}

impl Job {
    pub(crate) async fn new(
        source: Place,
        target: Place,
        mut options: Options,
        tally: Arc<Tally>,
    ) -> Self {
        options.threads = options.threads.clamp(1, THREADS_MAX);
        let is_near = source.side.is_near().await && target.side.is_near().await;
        let blocks = match options.threads * BLOCKS_EACH_THREAD {
            blocks if is_near => blocks.min(BLOCKS_NEAR),
            blocks => blocks,
        };
        let same = source.side.is_one_session(&target.side);
        Self {
            offloads: options.offload && same,
            block_bytes: source.side.io_bytes_max().min(target.side.io_bytes_max()),
            small_bytes_max: source.side.small_bytes_max().min(target.side.small_bytes_max()),
            window: Arc::new(Semaphore::new(blocks)),
            source,
            target,
            options,
            tally,
        }
    }

    pub(crate) fn sides(&self) -> impl Iterator<Item = &Side> {
        [&self.source.side, &self.target.side].into_iter()
    }

    /// The facts that the options ask to preserve.
    pub(crate) fn selected_facts(&self, facts: &Facts) -> Facts {
        let none = Facts::default();
        let (times, rest) = (
            if self.options.times { facts } else { &none },
            if self.options.attributes { facts } else { &none },
        );
        Facts {
            created: times.created,
            accessed: times.accessed,
            written: times.written,
            dos: rest.dos,
            mode: rest.mode,
        }
    }

    /// Counts a file that the target already has.
    pub(crate) fn take_same(&self, path: &str, item: &Item) {
        add(&self.tally.files_same, 1);
        if let (Some(folder), true, false) =
            (&self.options.state, self.is_large(item), self.options.dry_run)
        {
            journal::remove_stale(
                folder,
                names::key(&self.source.name(path), &self.target.name(path)),
            );
        }
    }

    /// Whether a file is copied in blocks: it is large or sparse, or has more than data copied.
    pub(crate) fn is_large(&self, item: &Item) -> bool {
        let more = self.options.streams || self.options.acls;
        item.size_bytes > self.small_bytes_max || item.is_sparse || more
    }
}
