//! Changes of data by opens: how often an open reports them when they happen, and the queue of
//! the opens that wait for the tick.
//!
//! A WRITE must not cost work for each watch. An open reports a few changes between two ticks;
//! of the later ones it keeps only the kinds, until the tick or its close.

use super::index::Watches;
use super::{Filter, PerTick};
use crate::table::{OpenName, lock};
use crate::{Caller, OpenFile};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use vfs::Wanted;

/// Reports of one open between two ticks: those that a watch takes at once, and one that it
/// defers, which keeps its place before changes of other kinds.
const REPORTS_PER_OPEN: u32 = 4;
/// Watches that all opens notify between two ticks at once, by [`RIGHT_WORK`] more where the right
/// to list is looked up: four full directories. Later changes wait for the tick.
const AT_ONCE_WORK_MAX: usize = 4 * super::WATCHES_PER_DIRECTORY_MAX;
/// The same for a tick, which may go beyond it by one open. Later opens wait for the next tick.
const TICK_WORK_MAX: usize = super::WATCHES_MAX;
/// Looking up whether a user may list a directory opens it: so many notifications' time.
pub(super) const RIGHT_WORK: usize = 64;
/// Opens that wait for a tick. Changes by more opens wait for their next write after a tick, or
/// their close.
const QUEUED_OPENS_MAX: usize = 4096;

/// Changes of data by one open of a file that somebody watches.
#[derive(Debug)]
pub(crate) struct DataReports {
    name: Arc<OpenName>,
    caller: Arc<Caller>,
    /// Kinds of changes that were not reported yet.
    deferred: AtomicU32,
    is_queued: AtomicBool,
    reports: PerTick,
}

impl DataReports {
    /// Kinds that were not reported yet; the caller reports them.
    fn take(&self) -> Filter {
        Filter(self.deferred.swap(0, Ordering::AcqRel))
    }
}

/// The opens that wait for the tick, and what was reported since the last one.
#[derive(Debug, Default)]
pub(super) struct DataQueue {
    opens: Mutex<VecDeque<Arc<DataReports>>>,
    at_once_work: AtomicUsize,
}

impl DataQueue {
    fn push(&self, reports: &Arc<DataReports>) {
        if reports.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut opens = lock(&self.opens);
        if opens.len() < QUEUED_OPENS_MAX {
            opens.push_back(reports.clone());
        } else {
            reports.is_queued.store(false, Ordering::Release);
        }
    }

    fn pop(&self) -> Option<Arc<DataReports>> {
        let reports = lock(&self.opens).pop_front()?;
        // Before its kinds are taken: a change from now on queues it again.
        reports.is_queued.store(false, Ordering::Release);
        Some(reports)
    }
}

impl Watches {
    /// Reports changes of data now, if few were since the last tick, else with the next one.
    fn report_data(&self, reports: &Arc<DataReports>) {
        let queue = &self.data_queue;
        let has_time = queue.at_once_work.load(Ordering::Relaxed) < AT_ONCE_WORK_MAX;
        if has_time && reports.reports.try_take(self.pulse.tick(), REPORTS_PER_OPEN) {
            let work = self.report_deferred(reports);
            queue.at_once_work.fetch_add(work, Ordering::Relaxed);
        } else {
            queue.push(reports);
        }
    }

    /// Reports what opens deferred. To be called once a tick.
    pub(super) fn report_queued(&self) {
        self.data_queue.at_once_work.store(0, Ordering::Relaxed);
        let mut work = 0;
        // Only opens that wait now: writers go on meanwhile.
        let waiting = lock(&self.data_queue.opens).len();
        for _ in 0..waiting {
            if work >= TICK_WORK_MAX {
                return;
            }
            let Some(reports) = self.data_queue.pop() else { return };
            work += self.report_deferred(&reports);
        }
    }

    fn report_deferred(&self, reports: &DataReports) -> usize {
        match reports.take() {
            Filter(0) => 0,
            what => self.report_change(&reports.name, &reports.caller, what),
        }
    }
}

/// The kinds of changes that a write causes, as far as is known before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteKinds {
    all: Filter,
    size: Filter,
    /// It went beyond the end of the file, or nobody looked.
    may_grow: bool,
    /// Of the file, before its length was looked at.
    length_changes: u32,
}

impl WriteKinds {
    /// The kinds after the write, by the file's count of changed lengths then. If another request
    /// has changed the length meanwhile, the write may have changed it back: the length is told
    /// once too often rather than never.
    fn after(self, length_changes: u32) -> Filter {
        let changes_size = self.may_grow || self.length_changes != length_changes;
        if changes_size { self.all } else { Filter(self.all.0 & !self.size.0) }
    }
}

impl OpenFile {
    /// As what a write is watched for: its length is told only if it grows the file, which is
    /// looked at only where somebody hears of it. To be asked before the write.
    pub(crate) fn write_kinds(&self, offset: u64, length_bytes: u64) -> WriteKinds {
        // Before the length.
        let length_changes = self.state.length_changes.load(Ordering::Acquire);
        let end = offset.saturating_add(length_bytes);
        let size = || self.node.attributes(Wanted::default()).map(|present| present.size_bytes);
        let may_grow = !self.is_watched() || size().map_or(true, |size| end > size);
        let (all, size) = (self.data_filter(), self.size_filter());
        WriteKinds { all, size, may_grow, length_changes }
    }

    /// As what the write was watched for, once it is done.
    pub(crate) fn kinds_after(&self, kinds: WriteKinds) -> Filter {
        kinds.after(self.state.length_changes.load(Ordering::Acquire))
    }

    /// The length may have changed: before that is reported, so that a write at the same time
    /// knows it or is done before the report.
    pub(crate) fn note_length_change(&self, what: Filter) {
        if what.intersects(self.size_filter()) {
            self.state.length_changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Reports kinds of changes of data that its writes caused: now or with the next tick.
    pub(crate) fn report_kinds(&self, what: Filter) {
        let reports = self.data_reports().get_or_init(|| {
            Arc::new(DataReports {
                name: self.name.clone(),
                caller: self.caller.clone(),
                deferred: AtomicU32::new(0),
                is_queued: AtomicBool::new(false),
                reports: PerTick::default(),
            })
        });
        reports.deferred.fetch_or(what.0, Ordering::AcqRel);
        self.table.watches.report_data(reports);
    }

    /// Kinds that wait for the tick; the caller reports them.
    pub(crate) fn take_deferred_kinds(&self) -> Filter {
        self.known_data_reports().map_or(Filter::default(), |reports| reports.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_that_is_cut_during_a_write_is_told_after_it() {
        let all = Filter::SIZE | Filter::LAST_WRITE;
        let within =
            WriteKinds { all, size: Filter::SIZE, may_grow: false, length_changes: u32::MAX };
        assert_eq!(within.after(u32::MAX), Filter::LAST_WRITE);
        // SET_INFO has cut the file and told so, and the write made it as long as before.
        assert_eq!(within.after(0), all);
        let beyond = WriteKinds { may_grow: true, ..within };
        assert_eq!(beyond.after(u32::MAX), all);
    }
}
