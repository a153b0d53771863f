//! State that all tasks of a copy share.

use crate::item::{CopyItem, ItemFacts, ItemKind};
use crate::journal;
use crate::limits::{BLOCKS_EACH_THREAD, BLOCKS_NEAR, THREADS_MAX};
use crate::names::{self, EntryPaths};
use crate::options::{CopyOptions, LinkPolicy};
use crate::pairs::NameForm;
use crate::read_rate::ReadRateLimit;
use crate::side::{Side, SidePath};
use crate::tally::{CopyTally, add};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// See the module.
#[derive(Debug)]
pub(crate) struct CopyJob {
    pub source: SidePath,
    pub target: SidePath,
    pub options: CopyOptions,
    pub tally: Arc<CopyTally>,
    /// Permits for blocks in flight.
    pub window: Arc<Semaphore>,
    pub block_bytes: u32,
    pub small_bytes_max: u64,
    /// Whether server-side copy is enabled and both ends are in one session.
    pub offloads: bool,
    /// The limit of the rate, if there is one.
    rate_limit: Option<ReadRateLimit>,
}

impl CopyJob {
    pub(crate) async fn new(
        source: SidePath,
        target: SidePath,
        mut options: CopyOptions,
        tally: Arc<CopyTally>,
    ) -> Self {
        options.threads = options.threads.clamp(1, THREADS_MAX);
        let source = match options.links {
            LinkPolicy::Follow => SidePath { side: source.side.following_links(), ..source },
            _ => source,
        };
        // Only a source with names of bytes has modes, which the copies get at the end.
        let gets_modes = source.side.spelling() == NameForm::Bytes;
        let target = match gets_modes && (options.attributes || options.acls) {
            true => SidePath { side: target.side.creating_private(), ..target },
            false => target,
        };
        let is_near = source.side.is_near().await && target.side.is_near().await;
        let blocks = match options.threads * BLOCKS_EACH_THREAD {
            blocks if is_near => blocks.min(BLOCKS_NEAR),
            blocks => blocks,
        };
        let same = source.side.is_one_session(&target.side);
        Self {
            offloads: options.offload && same,
            rate_limit: options.bytes_per_second.map(ReadRateLimit::new),
            block_bytes: source.side.io_bytes_max().min(target.side.io_bytes_max()),
            small_bytes_max: source.side.small_bytes_max().min(target.side.small_bytes_max()),
            window: Arc::new(Semaphore::new(blocks)),
            source,
            target,
            options,
            tally,
        }
    }

    /// Waits until a read of this length is due by the limit of the rate.
    pub(crate) async fn wait_to_read(&self, length_bytes: u64) {
        if let Some(rate_limit) = &self.rate_limit {
            rate_limit.wait(length_bytes).await;
        }
    }

    /// Identifies the copy of one file; the same key in each run.
    pub(crate) fn key(&self, at: &EntryPaths) -> u64 {
        names::key(&self.source.name(&at.from), &self.target.name(&at.to))
    }

    pub(crate) fn sides(&self) -> impl Iterator<Item = &Side> {
        [&self.source.side, &self.target.side].into_iter()
    }

    /// The facts that the options ask to preserve.
    pub(crate) fn selected_facts(&self, facts: &ItemFacts) -> ItemFacts {
        let none = ItemFacts::default();
        let (times, rest) = (
            if self.options.times { facts } else { &none },
            if self.options.attributes { facts } else { &none },
        );
        ItemFacts {
            created: times.created,
            accessed: times.accessed,
            written: times.written,
            dos: rest.dos,
            // A list without the mode would leave a private file open.
            mode: if self.options.acls { facts.mode } else { rest.mode },
        }
    }

    /// Reports what the copy has done, if the user wants to read it.
    pub(crate) fn report(&self, message: impl FnOnce() -> String) {
        if self.options.verbose && !self.options.dry_run {
            self.tally.say(message());
        }
    }

    /// Counts and names an entry that is not copied because of its kind.
    pub(crate) fn skip(&self, at: &EntryPaths, kind: ItemKind) {
        add(&self.tally.skipped, 1);
        let what = match kind {
            ItemKind::Link if self.options.links == LinkPolicy::SkipSilently => return,
            ItemKind::Link => "a symbolic link (--links or --copy-links)",
            _ => "a device, pipe, socket or junction",
        };
        self.tally.say(format!("{}: skipped, {what}", at.shown));
    }

    /// Counts a file that the target already has.
    pub(crate) fn take_same(&self, at: &EntryPaths, item: &CopyItem) {
        add(&self.tally.files_unchanged, 1);
        if let (Some(folder), true, false) =
            (&self.options.state, self.is_large(item), self.options.dry_run)
        {
            journal::remove_stale(folder, self.key(at));
        }
    }

    /// Whether a file is copied in blocks: it is large or sparse, or has more than data copied.
    pub(crate) fn is_large(&self, item: &CopyItem) -> bool {
        let more = self.options.streams || self.options.acls;
        item.size_bytes > self.small_bytes_max || item.is_sparse || more
    }
}
